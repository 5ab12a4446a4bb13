// Package jpeg2000 decodes JPEG 2000 (ISO/IEC 15444-1): JP2 files and bare codestreams.
package jpeg2000

import (
	"bytes"
	"encoding/binary"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// The enumerated color spaces of a JP2 file.
const (
	spaceRGB, spaceGray, spaceYCC = 16, 17, 18
)

// palette is the table that a file's samples index, a column for each channel.
type palette struct {
	columns  int
	entries  [][]int32
	bits     []int // of each column
	channels []int // the column of each channel of the picture, −1: the component itself
	from     []int // the component of each channel
}

// Decode reads a JP2 file or a codestream without a container (ISO/IEC 15444-1).
func Decode(f *decoding.File) (*decoding.Picture, error) {
	data := f.Data
	if data[0] == 0xff {
		s, err := decodeCodestream(data, f)
		if err != nil {
			return nil, err
		}
		return s.picture(0, nil)
	}
	space := 0
	var p *palette
	for len(data) > 0 {
		kind, body, rest, err := box(data)
		if err != nil {
			return nil, err
		}
		data = rest
		switch kind {
		case "jp2h":
			for len(body) > 0 {
				inner, contents, more, err := box(body)
				if err != nil {
					return nil, err
				}
				body = more
				switch {
				case inner == "colr" && len(contents) >= 7 && contents[0] == 1 && space == 0:
					space = int(binary.BigEndian.Uint32(contents[3:]))
				case inner == "pclr":
					if p, err = readPalette(contents); err != nil {
						return nil, err
					}
				case inner == "cmap" && p != nil:
					for ; len(contents) >= 4 && len(p.from) < 4; contents = contents[4:] {
						column := -1
						if contents[2] == 1 {
							column = int(contents[3])
						}
						p.from, p.channels = append(p.from, int(binary.BigEndian.Uint16(contents))), append(p.channels, column)
					}
				}
			}
		case "jp2c":
			s, err := decodeCodestream(body, f)
			if err != nil {
				return nil, err
			}
			return s.picture(space, p)
		}
	}
	return nil, decoding.Corrupt("there is no codestream")
}

// box splits the first box from data.
func box(data []byte) (kind string, body, rest []byte, err error) {
	if len(data) < 8 {
		return "", nil, nil, decoding.Corrupt("a box of %d bytes", len(data))
	}
	size, header := uint64(binary.BigEndian.Uint32(data)), uint64(8)
	kind = string(data[4:8])
	switch {
	case size == 0:
		size = uint64(len(data))
	case size == 1 && len(data) >= 16:
		size, header = binary.BigEndian.Uint64(data[8:]), 16
	}
	if size < header || size > uint64(len(data)) {
		return "", nil, nil, decoding.Corrupt("a box of %d bytes of %d", size, len(data))
	}
	return kind, data[header:size], data[size:], nil
}

// readPalette reads a palette box.
func readPalette(b []byte) (*palette, error) {
	if len(b) < 3 {
		return nil, decoding.Corrupt("a palette of %d bytes", len(b))
	}
	count, columns := int(binary.BigEndian.Uint16(b)), int(b[2])
	b = b[3:]
	if count < 1 || count > 1024 || columns < 1 || columns > 4 || len(b) < columns {
		return nil, decoding.Corrupt("a palette of %d × %d", count, columns)
	}
	p := &palette{columns: columns, entries: make([][]int32, columns)}
	for i := range columns {
		depth := int(b[i]&127) + 1
		if b[i] > 127 || depth > 16 {
			return nil, diag.Unsupportedf("JPEG 2000 with a palette of depth %d", b[i])
		}
		p.bits = append(p.bits, depth)
	}
	b = b[columns:]
	for range count {
		for i := range columns {
			width := (p.bits[i] + 7) / 8
			if len(b) < width {
				return nil, decoding.Corrupt("a palette that is cut short")
			}
			v := int32(b[0])
			if width == 2 {
				v = v<<8 | int32(b[1])
			}
			p.entries[i], b = append(p.entries[i], v), b[width:]
		}
	}
	return p, nil
}

// channel reads the samples of one channel of a picture, scaled to 0 to 255.
type channel struct {
	plane   *plane
	entries []int32 // of the palette; nil: none
	bits    int
}

// at returns the sample at (x, y) of the picture; the plane may be subsampled.
func (c *channel) at(s *codestream, x, y int) byte {
	p := c.plane
	if p.dx > 1 || p.dy > 1 {
		x = int(min(max((s.x0+int64(x))/p.dx-p.x0, 0), p.width-1))
		y = int(min(max((s.y0+int64(y))/p.dy-p.y0, 0), p.height-1))
	}
	v := int32(p.samples[y*int(p.width)+x])
	if c.entries != nil {
		v = c.entries[min(int(v), len(c.entries)-1)]
	}
	if c.bits <= 8 {
		return byte(v << (8 - c.bits))
	}
	return byte(min((v+1<<(c.bits-9))>>(c.bits-8), 255))
}

// picture returns the decoded planes as a picture.
func (s *codestream) picture(space int, p *palette) (*decoding.Picture, error) {
	var channels []channel
	for i := range s.planes {
		channels = append(channels, channel{plane: &s.planes[i], bits: s.planes[i].bits})
	}
	if p != nil && len(p.channels) > 0 {
		var mapped []channel
		for i, column := range p.channels {
			if p.from[i] >= len(channels) || column >= p.columns {
				return nil, decoding.Corrupt("a channel of component %d, column %d", p.from[i], column)
			}
			c := channels[p.from[i]]
			if column >= 0 {
				c.entries, c.bits = p.entries[column], p.bits[column]
			}
			mapped = append(mapped, c)
		}
		channels = mapped
	}
	return &decoding.Picture{Width: int(s.x1 - s.x0), Height: int(s.y1 - s.y0), Row: func(y int, rgb []byte) {
		for x := range len(rgb) / 3 {
			pixel := rgb[3*x : 3*x+3]
			pixel[0] = channels[0].at(s, x, y)
			if len(channels) < 3 {
				pixel[1], pixel[2] = pixel[0], pixel[0]
				continue
			}
			pixel[1], pixel[2] = channels[1].at(s, x, y), channels[2].at(s, x, y)
			if space == spaceYCC {
				pixel[0], pixel[1], pixel[2] = decoding.ToRGB(pixel[0], pixel[1], pixel[2])
			}
		}
	}}, nil
}

// bytesReader reads big-endian numbers. After the end it reads zeros and sets a flag.
type bytesReader struct {
	data []byte
	over bool
}

// take returns the next n bytes.
func (r *bytesReader) take(n int) []byte {
	if n > len(r.data) {
		r.over = true
		r.data = nil
		return bytes.Repeat([]byte{0}, n)
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}

func (r *bytesReader) u8() int { return int(r.take(1)[0]) }

func (r *bytesReader) u16() int { return int(binary.BigEndian.Uint16(r.take(2))) }

func (r *bytesReader) u32() int64 { return int64(binary.BigEndian.Uint32(r.take(4))) }
