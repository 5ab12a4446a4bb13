package picture

import (
	"image"
	"io"

	"golang.org/x/image/webp"
)

// decodeWebP reads a picture of WebP, lossless or not; of a moving one, none.
func decodeWebP(data []byte) (*Picture, error) {
	var lossy *image.YCbCr
	p, err := decodeBy(data, webp.DecodeConfig, func(r io.Reader) (image.Image, error) {
		m, err := webp.Decode(r)
		switch m := m.(type) {
		case *image.YCbCr:
			lossy = m
		case *image.NYCbCrA:
			lossy = &m.YCbCr
		}
		return m, err
	}, nil)
	if err != nil || lossy == nil {
		return p, err
	}
	p.Row = func(y int, rgb []byte) { webpRow(lossy, y, rgb) }
	return p, nil
}

// webpRow converts a row of a lossy picture. Its differences of color are of every second sample of every second row; between them they are interpolated as
// libwebp does, rounding in two steps.
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
		// a is the nearest, d the farthest.
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
	return clamp(light + high(v, 26149) - 14234), clamp(light - high(u, 6419) - high(v, 13320) + 8708), clamp(light + high(u, 33050) - 17685)
}
