package picture

import (
	"encoding/binary"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// The markers of a JPEG file (ITU-T T.81, table B.1), without their 0xff.
const (
	markSOF0, markSOF2        = 0xc0, 0xc2
	markDHT, markDQT, markDRI = 0xc4, 0xdb, 0xdd
	markRST0, markRST7        = 0xd0, 0xd7
	markSOI, markEOI, markSOS = 0xd8, 0xd9, 0xda
	markJFIF, markAdobe       = 0xe0, 0xee
	markJPG, markDAC, markTEM = 0xc8, 0xcc, 0x01
	markSOF15                 = 0xcf
)

// zigzag maps a coefficient's index in the file to its index in natural order.
var zigzag = [64]byte{0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
	13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55,
	62, 63}

// component is one plane of a picture.
type component struct {
	id            byte
	h, v          int // sampling factors
	quantizer     byte
	width, height int // in samples
	across, down  int // in blocks that hold samples
	rowBlocks     int // blocks in a row of memory, a multiple of those in a unit
	stride        int
	plane         []byte
	coefficients  []int16    // of a progressive picture: 64 to a block
	table         *[64]int32 // the quantization table of its first scan
	predicted     int32      // the DC coefficient of the previous block
}

// jpeg is a file under decoding.
type jpeg struct {
	file          *decoding.File
	data          []byte
	at            int
	width, height int
	progressive   bool
	components    []component
	hMost, vMost  int
	quantizers    [4]*[64]int32
	huffman       [2][4]*huffman // of DC and of AC coefficients
	interval      int            // units between restarts; 0: none
	jfif          bool
	adobe         int // the color transform in Adobe's marker; −1: no such marker
	bits          bitReader
	scans         int
	run           int // blocks left in the current end-of-band run
}

// decodeJPEG reads a sequential or progressive JPEG picture of 8 bits with Huffman codes.
func decodeJPEG(f *decoding.File) (*decoding.Picture, error) {
	data := f.Data
	d := &jpeg{data: data, at: 2, adobe: -1, file: f}
	for {
		mark, err := d.marker()
		if err != nil {
			return nil, err
		}
		if mark == markEOI {
			break
		}
		if mark >= markRST0 && mark <= markSOI || mark == markTEM {
			continue
		}
		body, err := d.segment()
		if err != nil {
			return nil, err
		}
		switch {
		case mark == markDHT:
			err = d.defineHuffman(body)
		case mark == markDQT:
			err = d.defineQuantizers(body)
		case mark == markDRI && len(body) >= 2:
			d.interval = int(binary.BigEndian.Uint16(body))
		case mark == markJFIF && len(body) >= 5 && string(body[:5]) == "JFIF\x00":
			d.jfif = true
		case mark == markAdobe && len(body) >= 12 && string(body[:5]) == "Adobe":
			d.adobe = int(body[11])
		case mark == markSOS:
			err = d.scan(body)
		case mark >= markSOF0 && mark <= markSOF2:
			d.progressive = mark == markSOF2
			err = d.frame(body)
		case mark > markSOF2 && mark <= markSOF15 && mark != markJPG && mark != markDAC:
			err = diag.Unsupportedf("JPEG of process %d: only Huffman-coded sequential and progressive ones are read",
				mark-markSOF0)
		}
		if err != nil {
			return nil, err
		}
		if mark == markSOS && d.at >= len(data) && !d.progressive {
			break // the end marker is missing
		}
	}
	if d.components == nil {
		return nil, decoding.Corrupt("there is no frame")
	}
	for i := range d.components {
		if d.components[i].table == nil {
			return nil, decoding.Corrupt("component %d has no scan", i)
		}
	}
	return d.picture()
}

// marker skips the bytes before the next marker and returns it.
func (d *jpeg) marker() (int, error) {
	for ; d.at+1 < len(d.data); d.at++ {
		if d.data[d.at] == 0xff && d.data[d.at+1] != 0 && d.data[d.at+1] != 0xff {
			d.at += 2
			return int(d.data[d.at-1]), nil
		}
	}
	return 0, decoding.Corrupt("the file ends before its picture does")
}

// segment reads a segment and returns its contents.
func (d *jpeg) segment() ([]byte, error) {
	rest := d.data[d.at:]
	if len(rest) < 2 {
		return nil, decoding.Corrupt("the file ends inside a segment")
	}
	length := int(binary.BigEndian.Uint16(rest))
	if length < 2 || length > len(rest) {
		return nil, decoding.Corrupt("a segment of %d bytes of %d", length, len(rest))
	}
	d.at += length
	return rest[2:length], nil
}

// defineQuantizers reads a segment of quantization tables.
func (d *jpeg) defineQuantizers(body []byte) error {
	for len(body) > 0 {
		wide, number := body[0]>>4, body[0]&15
		body = body[1:]
		size := 64 * (1 + int(wide))
		if wide > 1 || number > 3 || len(body) < size {
			return decoding.Corrupt("a quantization table %d of %d bytes", number, len(body))
		}
		table := new([64]int32)
		for i, index := range zigzag {
			if wide == 0 {
				table[index] = int32(body[i])
			} else {
				table[index] = int32(binary.BigEndian.Uint16(body[2*i:]))
			}
		}
		d.quantizers[number], body = table, body[size:]
	}
	return nil
}

// frame reads the header of the picture.
func (d *jpeg) frame(body []byte) error {
	if d.components != nil || len(body) < 6 || len(body) < 6+3*int(body[5]) {
		return decoding.Corrupt("a frame's header of %d bytes", len(body))
	}
	if body[0] != 8 {
		return diag.Unsupportedf("JPEG with samples of %d bits", body[0])
	}
	d.height, d.width = int(binary.BigEndian.Uint16(body[1:])), int(binary.BigEndian.Uint16(body[3:]))
	count := int(body[5])
	if err := decoding.Sized(int64(d.width), int64(d.height)); err != nil {
		return err
	}
	if count != 1 && count != 3 && count != 4 {
		return diag.Unsupportedf("JPEG with %d components", count)
	}
	list := make([]component, count)
	for i := range list {
		c, b := &list[i], body[6+3*i:]
		c.id, c.h, c.v, c.quantizer = b[0], int(b[1]>>4), int(b[1]&15), b[2]
		if c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4 || c.quantizer > 3 {
			return decoding.Corrupt("component %d with sampling %d × %d", i, c.h, c.v)
		}
		d.hMost, d.vMost = max(d.hMost, c.h), max(d.vMost, c.v)
	}
	blocks := int64(0)
	for i := range list {
		c := &list[i]
		if d.hMost%c.h != 0 || d.vMost%c.v != 0 {
			return diag.Unsupportedf("JPEG sampled %d × %d of %d × %d", c.h, c.v, d.hMost, d.vMost)
		}
		c.width, c.height = ceil(d.width*c.h, d.hMost), ceil(d.height*c.v, d.vMost)
		c.across, c.down = ceil(c.width, 8), ceil(c.height, 8)
		c.rowBlocks = ceil(d.width, 8*d.hMost) * c.h
		c.stride = 8 * c.rowBlocks
		blocks += int64(c.rowBlocks) * int64(ceil(d.height, 8*d.vMost)*c.v)
	}
	// No code is shorter than a bit, and every block has a code for its DC coefficient.
	if err := plausible(blocks, len(d.data), 8); err != nil {
		return err
	}
	each := int64(64)
	if d.progressive {
		each += 2 * 64
	}
	if err := d.file.Take(each*blocks + 64*int64(d.width)); err != nil { // and a few rows
		return err
	}
	for i := range list {
		c := &list[i]
		samples := c.stride * 8 * ceil(d.height, 8*d.vMost) * c.v
		c.plane = make([]byte, samples)
		if d.progressive {
			c.coefficients = make([]int16, samples)
		}
		for j := range c.plane {
			c.plane[j] = 128 // samples that the file lacks are gray
		}
	}
	d.components = list
	return nil
}

func ceil(a, b int) int { return (a + b - 1) / b }

// picture transforms the blocks of a progressive picture and returns its rows.
func (d *jpeg) picture() (*decoding.Picture, error) {
	if d.progressive {
		for i := range d.components {
			d.components[i].transformAll(d.file)
		}
	}
	n := len(d.components)
	ups, rows := make([]*upsampler, n), make([][]byte, n)
	for i, c := range d.components {
		ups[i] = newUpsampler(d.hMost/c.h, d.vMost/c.v, c.width, c.height)
		rows[i] = make([]byte, c.width*d.hMost/c.h)
	}
	convert := d.conversion()
	return &decoding.Picture{Width: d.width, Height: d.height, Row: func(y int, rgb []byte) {
		for i, c := range d.components {
			ups[i].row(c.plane, c.stride, y, rows[i])
		}
		var pixel [4]byte
		for x := range d.width {
			for i, row := range rows {
				pixel[i] = row[x]
			}
			rgb[3*x], rgb[3*x+1], rgb[3*x+2] = convert(pixel)
		}
	}}, nil
}

// conversion returns the conversion from the file's colors to red, green and blue. JPEG does not name the colors; they
// follow from the markers of JFIF and Adobe or else, as in other decoders, from the components' names.
func (d *jpeg) conversion() func(p [4]byte) (r, g, b byte) {
	transformed := func(p [4]byte) (r, g, b byte) { return decoding.ToRGB(p[0], p[1], p[2]) }
	switch c := d.components; {
	case len(c) == 1:
		return func(p [4]byte) (r, g, b byte) { return p[0], p[0], p[0] }
	case len(c) == 3:
		named := c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B'
		if !d.jfif && (d.adobe == 0 || d.adobe < 0 && named) {
			return func(p [4]byte) (r, g, b byte) { return p[0], p[1], p[2] }
		}
		return transformed
	case d.adobe > 0:
		// Inks are stored inverted, and inverted twice in transformed pictures.
		return func(p [4]byte) (r, g, b byte) {
			r, g, b = transformed(p)
			return inkToRGB(r, g, b, 255-p[3])
		}
	}
	return func(p [4]byte) (r, g, b byte) { return inkToRGB(255-p[0], 255-p[1], 255-p[2], 255-p[3]) }
}

// transformAll computes the samples of a progressive component from its coefficients.
func (c *component) transformAll(f *decoding.File) {
	var block [64]int32
	for by := range c.down {
		f.Did(int64(64 * c.across))
		for bx := range c.across {
			from := c.coefficients[64*(by*c.rowBlocks+bx):]
			for i := range block {
				block[i] = int32(from[i]) * c.table[i]
			}
			idct(&block, c.plane[8*by*c.stride+8*bx:], c.stride)
		}
	}
	c.coefficients = nil
}
