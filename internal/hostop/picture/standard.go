package picture

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"

	"github.com/weirml/weir/internal/diag"
)

func decodePNG(data []byte) (*Picture, error) {
	return decodeBy(data, png.DecodeConfig, png.Decode, func(c image.Config) error {
		// Deflate makes at most 1032 bytes of one; a pixel may be a bit.
		return plausible(int64(c.Width)*int64(c.Height), len(data), 8*1032)
	})
}

func decodeTIFF(data []byte) (*Picture, error) {
	p, err := decodeBy(data, tiff.DecodeConfig, tiff.Decode, nil)
	if err != nil {
		return nil, err
	}
	// The decoder takes the bits of a fax for white on black, whatever the file says.
	compression, _ := tiffTag(data, 259)
	black, _ := tiffTag(data, 262)
	if row := p.Row; (compression == 3 || compression == 4) && black == 1 {
		p.Row = func(y int, rgb []byte) {
			row(y, rgb)
			for i := range rgb {
				rgb[i] = ^rgb[i]
			}
		}
	}
	return p, nil
}

// tiffTag is the 16-bit value of a tag in the file's first directory.
func tiffTag(data []byte, tag uint16) (uint16, bool) {
	var order binary.ByteOrder = binary.LittleEndian
	if data[0] == 'M' {
		order = binary.BigEndian
	}
	if len(data) < 8 || int64(order.Uint32(data[4:]))+2 > int64(len(data)) {
		return 0, false
	}
	directory := data[order.Uint32(data[4:]):]
	count := int(order.Uint16(directory))
	for entry := directory[2:]; count > 0 && len(entry) >= 12; entry, count = entry[12:], count-1 {
		if order.Uint16(entry) == tag {
			return order.Uint16(entry[8:]), true
		}
	}
	return 0, false
}

func decodeBMP(data []byte) (*Picture, error) {
	return decodeBy(data, bmp.DecodeConfig, bmp.Decode, func(c image.Config) error {
		return plausible(int64(c.Width)*int64(c.Height), len(data), 8)
	})
}

// decodeBy reads a picture by a decoder of Go's. Pixels lose their alpha, and bits below the eighth.
//
// A decoder that panics has met a file that its authors did not think of.
func decodeBy(data []byte, header func(io.Reader) (image.Config, error), decode func(io.Reader) (image.Image, error), check func(image.Config) error) (p *Picture, err error) {
	defer func() {
		if r := recover(); r != nil {
			p, err = nil, corrupt("%v", r)
		}
	}()
	config, err := header(bytes.NewReader(data))
	if err != nil {
		return nil, foreign(err)
	}
	if err := sized(int64(config.Width), int64(config.Height)); err != nil {
		return nil, err
	}
	if check != nil {
		if err := check(config); err != nil {
			return nil, err
		}
	}
	m, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, foreign(err)
	}
	bounds := m.Bounds()
	if bounds.Dx() != config.Width || bounds.Dy() != config.Height {
		return nil, corrupt("%v is not %d × %d", bounds, config.Width, config.Height)
	}
	return &Picture{Width: config.Width, Height: config.Height, Row: func(y int, rgb []byte) {
		for x := range config.Width {
			rgb[3*x], rgb[3*x+1], rgb[3*x+2] = opaque(m.At(bounds.Min.X+x, bounds.Min.Y+y))
		}
	}}, nil
}

// opaque is a color without its alpha.
func opaque(c color.Color) (r, g, b byte) {
	switch c := c.(type) {
	case color.NRGBA:
		return c.R, c.G, c.B
	case color.NRGBA64:
		return byte(c.R >> 8), byte(c.G >> 8), byte(c.B >> 8)
	}
	wide := color.NRGBA64Model.Convert(c).(color.NRGBA64)
	return byte(wide.R >> 8), byte(wide.G >> 8), byte(wide.B >> 8)
}

// foreign is an error of a decoder that is not ours: what the decoder does not support, or a broken file.
func foreign(err error) error {
	var pngError png.UnsupportedError
	var tiffError tiff.UnsupportedError
	if errors.As(err, &pngError) || errors.As(err, &tiffError) || errors.Is(err, bmp.ErrUnsupported) {
		return diag.Unsupportedf("%v", err)
	}
	return fmt.Errorf("%w: %v", ErrCorrupt, err)
}
