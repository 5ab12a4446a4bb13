package picture

import (
	"encoding/binary"
	"image"
	"io"

	"golang.org/x/image/webp"

	"github.com/weirml/weir/internal/hostop/picture/decoding"
)

// decodeWebP reads a WebP picture, lossless or lossy. Animations are refused.
func decodeWebP(f *decoding.File) (*decoding.Picture, error) {
	var lossy *image.YCbCr
	p, err := decodeBy(f, webp.DecodeConfig, func(r io.Reader) (image.Image, error) {
		m, err := webp.Decode(r)
		switch m := m.(type) {
		case *image.YCbCr:
			lossy = m
		case *image.NYCbCrA:
			lossy = &m.YCbCr
		}
		return m, err
	}, decoding.PixelsOfByte, func(c image.Config) (int64, error) { return webpMost(f.Data, c) })
	if err != nil || lossy == nil {
		return p, err
	}
	p.Row = func(y int, rgb []byte) { webpRow(lossy, y, rgb) }
	return p, nil
}

// webpMost checks that the chunks of a file lie within it and declare the picture's size, and returns the most bytes
// of Go's heap that decoding takes.
func webpMost(data []byte, c image.Config) (int64, error) {
	if declared := int64(binary.LittleEndian.Uint32(data[4:])) + 8; declared > int64(len(data)) {
		return 0, decoding.Corrupt("%d bytes are declared of a file of %d", declared, len(data))
	}
	for rest := data[12:]; len(rest) >= 8; {
		kind, size := string(rest[:4]), int64(binary.LittleEndian.Uint32(rest[4:]))
		body := rest[8:]
		if size > int64(len(body)) {
			return 0, decoding.Corrupt("a chunk of %d bytes of %d", size, len(body))
		}
		width, height := c.Width, c.Height
		switch head := body[:size]; {
		case kind == "VP8 " && len(head) >= 10:
			width, height = int(binary.LittleEndian.Uint16(head[6:])&0x3fff), int(binary.LittleEndian.Uint16(head[8:])&0x3fff)
		case kind == "VP8L" && len(head) >= 5:
			bits := binary.LittleEndian.Uint32(head[1:])
			width, height = int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1
		}
		if width != c.Width || height != c.Height {
			return 0, decoding.Corrupt("a picture of %d × %d pixels declares %d × %d", c.Width, c.Height, width, height)
		}
		rest = body[min(size+size&1, int64(len(body))):]
	}
	// A lossless picture takes 20 bytes for each pixel: four each for the picture, two transforms, the references and the
	// alpha of a lossy one. It also has a group of codes for at most every 16 pixels, each of which takes bits of the
	// file.
	pixels := int64(c.Width)*int64(c.Height) + 64*int64(c.Width+c.Height) + 1024
	groups := min(pixels/16+1, 1<<16, int64(len(data)/2+1))
	return 20*pixels + groups*(16<<10), nil
}

// webpRow converts a row of a lossy picture. Its color differences are sampled at every second column and row; between
// them they are interpolated as libwebp does, with two roundings.
func webpRow(m *image.YCbCr, y int, rgb []byte) {
	width, height := m.Rect.Dx(), m.Rect.Dy()
	near := y / 2
	far := near - 1
	if y%2 == 1 {
		far = near + 1
	}
	far = min(max(far, 0), (height+1)/2-1)
	last := (width+1)/2 - 1
	chroma := func(plane []byte, x int) int32 {
		at := x / 2
		next := at - 1
		if x%2 == 1 {
			next = at + 1
		}
		a, b := int32(plane[near*m.CStride+at]), int32(plane[far*m.CStride+at])
		if next < 0 || next > last {
			return (3*a + b + 2) >> 2
		}
		c, d := int32(plane[near*m.CStride+next]), int32(plane[far*m.CStride+next])
		// a is the nearest sample, and d the farthest.
		sides := (a + b + c + d + 8 + 2*(b+c)) >> 3
		return (sides + a) >> 1
	}
	for x := range width {
		rgb[3*x], rgb[3*x+1], rgb[3*x+2] = webpRGB(int32(m.Y[y*m.YStride+x]), chroma(m.Cb, x), chroma(m.Cr, x))
	}
}

// webpRGB converts a pixel of ITU-R BT.601 in its studio range, in the fixed-point steps of libwebp.
func webpRGB(y, u, v int32) (r, g, b byte) {
	high := func(v, factor int32) int32 { return v * factor >> 8 }
	clamp := func(v int32) byte { return byte(min(max(v>>6, 0), 255)) }
	light := high(y, 19077)
	return clamp(light + high(v, 26149) - 14234), clamp(light - high(u, 6419) - high(v, 13320) + 8708),
		clamp(light + high(u, 33050) - 17685)
}
