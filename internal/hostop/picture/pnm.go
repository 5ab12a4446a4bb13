package picture

import (
	"math"
	"strconv"

	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// pnm is a portable bitmap, graymap or pixmap under decoding.
type pnm struct {
	data []byte
	at   int
}

// decodePNM reads the formats P1 to P6 of Netpbm. Samples are scaled to at most 255.
func decodePNM(from *decoding.File) (*decoding.Picture, error) {
	data := from.Data
	f := &pnm{data: data, at: 2}
	kind := data[1]
	width, err := f.number(1 << 30)
	if err != nil {
		return nil, err
	}
	height, err := f.number(1 << 30)
	if err != nil {
		return nil, err
	}
	if err := decoding.Sized(width, height); err != nil {
		return nil, err
	}
	bitmap, channels, most := kind == '1' || kind == '4', int64(1), int64(1)
	if kind == '3' || kind == '6' {
		channels = 3
	}
	if !bitmap {
		if most, err = f.number(65535); err != nil {
			return nil, err
		}
		if most == 0 {
			return nil, decoding.Corrupt("the largest sample is 0")
		}
	}
	scale := make([]byte, most+1)
	for i := range scale {
		scale[i] = byte(math.RoundToEven(float64(i) / float64(most) * 255))
		if bitmap {
			scale[i] = byte(255 - 255*i)
		}
	}
	rowSamples := width * channels
	var sample func(i int64) int64 // its index counts through all rows
	if kind < '4' {
		if err := plausible(rowSamples*height, len(f.data)-f.at, 1); err != nil {
			return nil, err
		}
		if err := from.Take(2 * rowSamples * height); err != nil {
			return nil, err
		}
		samples, err := f.decimal(from, rowSamples*height, most, bitmap)
		if err != nil {
			return nil, err
		}
		sample = func(i int64) int64 { return int64(samples[i]) }
	} else if sample, err = f.binary(rowSamples, height, most, bitmap); err != nil {
		return nil, err
	}
	return &decoding.Picture{Width: int(width), Height: int(height), Row: func(y int, rgb []byte) {
		at := int64(y) * rowSamples
		for x := range width {
			for c := range int64(3) {
				rgb[3*x+c] = scale[min(sample(at+x*channels+min(c, channels-1)), most)]
			}
		}
	}}, nil
}

// space skips white space and comments.
func (f *pnm) space() {
	for f.at < len(f.data) {
		switch c := f.data[f.at]; {
		case c == '#':
			for f.at < len(f.data) && f.data[f.at] != '\n' && f.data[f.at] != '\r' {
				f.at++
			}
		case c == ' ' || c >= '\t' && c <= '\r':
			f.at++
		default:
			return
		}
	}
}

// number reads a decimal number of at most `most`.
func (f *pnm) number(most int64) (int64, error) {
	f.space()
	begin := f.at
	for f.at < len(f.data) && f.data[f.at] >= '0' && f.data[f.at] <= '9' {
		f.at++
	}
	v, err := strconv.ParseInt(string(f.data[begin:min(f.at, begin+20)]), 10, 64)
	if err != nil || v > most || f.at-begin > 19 {
		return 0, decoding.Corrupt("a number is wrong at byte %d", begin)
	}
	return v, nil
}

// decimal reads count samples in decimal notation; those of a bitmap need no space between them.
func (f *pnm) decimal(from *decoding.File, count, most int64, bitmap bool) ([]uint16, error) {
	if err := plausible(count, len(f.data)-f.at, 1); err != nil {
		return nil, err
	}
	samples := make([]uint16, count)
	for i := range samples {
		before := f.at
		f.space()
		from.Did(8 + int64(f.at-before))
		if bitmap && f.at < len(f.data) && (f.data[f.at] == '0' || f.data[f.at] == '1') {
			samples[i] = uint16(f.data[f.at] - '0')
			f.at++
			continue
		}
		v, err := f.number(most)
		if err != nil || bitmap {
			return nil, decoding.Corrupt("sample %d is wrong", i)
		}
		samples[i] = uint16(v)
	}
	return samples, nil
}

// binary returns a function that reads a binary sample: a bit (each row begins at a byte), a byte, or a pair of bytes.
func (f *pnm) binary(rowSamples, height, most int64, bitmap bool) (func(i int64) int64, error) {
	f.at++ // one white space
	rowBytes := rowSamples
	if bitmap {
		rowBytes = (rowSamples + 7) / 8
	} else if most > 255 {
		rowBytes *= 2
	}
	if int64(len(f.data)-f.at) < rowBytes*height {
		return nil, decoding.Corrupt("%d bytes of %d", len(f.data)-f.at, rowBytes*height)
	}
	body := f.data[f.at:]
	switch {
	case bitmap:
		return func(i int64) int64 {
			x := i % rowSamples
			return int64(body[i/rowSamples*rowBytes+x/8]) >> (7 - x%8) & 1
		}, nil
	case most > 255:
		return func(i int64) int64 { return int64(body[2*i])<<8 | int64(body[2*i+1]) }, nil
	}
	return func(i int64) int64 { return int64(body[i]) }, nil
}
