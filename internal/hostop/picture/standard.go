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
	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// decodePNG reads a PNG picture.
func decodePNG(f *decoding.File) (*decoding.Picture, error) {
	return decodeBy(f, png.DecodeConfig, png.Decode, decoding.PixelsOfByte, func(c image.Config) (int64, error) {
		pixels := int64(c.Width) * int64(c.Height)
		// The picture, as many bytes again for the passes of an interlaced one, and a few rows.
		return 2*pixelBytes(c)*pixels + 64*int64(c.Width), plausible(pixels, len(f.Data), decoding.PixelsOfByte)
	})
}

// Tags of TIFF.
const (
	tiffCompression = 259
	tiffPhotometric = 262
	tiffTileWidth   = 322
	tiffTileLength  = 323
)

// decodeTIFF reads the first picture of a TIFF file.
func decodeTIFF(f *decoding.File) (*decoding.Picture, error) {
	compression := tiffTag(f.Data, tiffCompression)
	fax := compression >= 2 && compression <= 4
	pixels := decoding.PixelsOfByte
	if fax {
		pixels = decoding.FaxPixelsOfAByte
	}
	p, err := decodeBy(f, tiff.DecodeConfig, tiff.Decode, pixels, func(c image.Config) (int64, error) {
		// The picture; a strip or tile, which may be as large or a little larger, is read into a buffer that grows.
		width, length := int64(c.Width), int64(c.Height)
		tile := max(width, tiffTag(f.Data, tiffTileWidth))*max(length, tiffTag(f.Data, tiffTileLength)) + 1
		if width, length = tiffTag(f.Data, tiffTileWidth), tiffTag(f.Data, tiffTileLength); width > 0 &&
			(width > decoding.MostPixels || length > decoding.MostPixels/width) {
			return 0, diag.Unsupportedf("a TIFF of tiles of %d × %d pixels; at most %d are read", width, length,
				decoding.MostPixels)
		}
		return pixelBytes(c) * (int64(c.Width)*int64(c.Height) + 3*tile), nil
	})
	if err != nil {
		return nil, err
	}
	// The decoder reads the bits of a fax as white on black and ignores the tag for it.
	black := tiffTag(f.Data, tiffPhotometric)
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

// tiffTag returns the first value of a tag in the file's first directory; 0 if there is none.
func tiffTag(data []byte, tag uint16) int64 {
	var order binary.ByteOrder = binary.LittleEndian
	if data[0] == 'M' {
		order = binary.BigEndian
	}
	if len(data) < 8 || int64(order.Uint32(data[4:]))+2 > int64(len(data)) {
		return 0
	}
	directory := data[order.Uint32(data[4:]):]
	count := int(order.Uint16(directory))
	for entry := directory[2:]; count > 0 && len(entry) >= 12; entry, count = entry[12:], count-1 {
		if order.Uint16(entry) != tag {
			continue
		}
		switch kind := order.Uint16(entry[2:]); kind {
		case 1:
			return int64(entry[8])
		case 4:
			return int64(order.Uint32(entry[8:]))
		}
		return int64(order.Uint16(entry[8:]))
	}
	return 0
}

// decodeBMP reads a BMP picture.
func decodeBMP(f *decoding.File) (*decoding.Picture, error) {
	return decodeBy(f, bmp.DecodeConfig, bmp.Decode, decoding.PixelsOfByte, func(c image.Config) (int64, error) {
		pixels := int64(c.Width) * int64(c.Height)
		return 4*pixels + 8*int64(c.Width), plausible(pixels, len(f.Data), 8)
	})
}

// decodeBy reads a picture with one of Go's decoders. It drops alpha and the bits below the upper eight of a sample. A
// byte of the file may hold at most the given number of pixels. check returns the most bytes of Go's heap that decoding
// takes.
//
// A panic of the decoder is an error for a corrupt file, except a panic from File.Work, which ends the decoding.
func decodeBy(f *decoding.File, header func(io.Reader) (image.Config, error),
	decode func(io.Reader) (image.Image, error), pixels int, check func(image.Config) (int64, error)) (p *decoding.Picture,
	err error) {
	data := f.Data
	defer func() {
		if r := recover(); r != nil && f.Working {
			panic(r)
		} else if r != nil {
			p, err = nil, decoding.Corrupt("%v", r)
		}
	}()
	config, err := header(countingReader{bytes.NewReader(data), f})
	if err != nil {
		return nil, foreign(err)
	}
	if err := decoding.Sized(int64(config.Width), int64(config.Height)); err != nil {
		return nil, err
	}
	most, err := check(config)
	if err == nil {
		err = decoding.Dense(int64(config.Width), int64(config.Height), len(data), pixels)
	}
	if err == nil {
		err = f.Take(most)
	}
	if err != nil {
		return nil, err
	}
	m, err := decode(countingReader{bytes.NewReader(data), f})
	if err != nil {
		return nil, foreign(err)
	}
	bounds := m.Bounds()
	if bounds.Dx() != config.Width || bounds.Dy() != config.Height {
		return nil, decoding.Corrupt("%v is not %d × %d", bounds, config.Width, config.Height)
	}
	return &decoding.Picture{Width: config.Width, Height: config.Height, Row: func(y int, rgb []byte) {
		for x := range config.Width {
			rgb[3*x], rgb[3*x+1], rgb[3*x+2] = opaque(m.At(bounds.Min.X+x, bounds.Min.Y+y))
		}
	}}, nil
}

// pixelBytes returns the number of bytes in which Go's decoders store a pixel.
func pixelBytes(c image.Config) int64 {
	switch c.ColorModel {
	case color.GrayModel:
		return 1
	case color.Gray16Model:
		return 2
	case color.RGBAModel, color.NRGBAModel:
		return 4
	}
	if _, paletted := c.ColorModel.(color.Palette); paletted {
		return 1
	}
	return 8
}

// opaque returns a color without its alpha.
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

// foreign converts an error of Go's decoders to ErrUnsupported or ErrCorrupt.
func foreign(err error) error {
	var pngError png.UnsupportedError
	var tiffError tiff.UnsupportedError
	if errors.As(err, &pngError) || errors.As(err, &tiffError) || errors.Is(err, bmp.ErrUnsupported) {
		return diag.Unsupportedf("%v", err)
	}
	return fmt.Errorf("%w: %v", decoding.ErrCorrupt, err)
}
