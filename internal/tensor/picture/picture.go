// Package picture turns pictures into arrays: PNG and JPEG files, scaled to a size, with their channels normalised.
//
// Files are not trusted: the size in a header is compared with the file's bytes before memory is taken for pixels.
package picture

import (
	"image"
	_ "image/jpeg" // decoders that image.Decode finds
	_ "image/png"
	"io"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// The largest image that is decoded. Its header has its size before memory is taken for its pixels, and that many
// pixels must fit the file's bytes: an area of one colour takes about one byte for some hundred pixels.
const (
	maxPixels     = 1 << 26
	maxPixelsFree = 1 << 22 // for files of any size
	maxPixelsByte = 1 << 10
)

// Decode reads a picture from a file of size bytes; name is for errors.
func Decode(name string, f io.ReadSeeker, size int64) (image.Image, error) {
	config, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, diag.Inputf("%s: %v", name, err)
	}
	if config.Width <= 0 || config.Height <= 0 || int64(config.Width) > maxPixels/int64(config.Height) {
		return nil, diag.Inputf("%s has %d × %d pixels, more than are read", name, config.Width, config.Height)
	}
	if pixels := int64(config.Width) * int64(config.Height); (pixels-maxPixelsFree)/maxPixelsByte > size {
		return nil, diag.Inputf("%s says that it has %d × %d pixels, and has %d bytes", name, config.Width, config.Height,
			size)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, diag.Inputf("%s: %v", name, err)
	}
	picture, _, err := image.Decode(f)
	if err != nil {
		return nil, diag.Inputf("%s: %v", name, err)
	}
	return picture, nil
}

// Settings say how a picture becomes an array.
type Settings struct {
	Channels      int64 // 1 is grey, 3 red, green and blue, 4 also alpha
	Height, Width int64 // the size to which the picture is scaled
	Last          bool  // the channels are the last axis; otherwise they are before height and width
	// A channel's value is (v × Scale − Mean) / Std, for v from 0 to 255.
	Scale     float64
	Mean, Std []float64 // by channel
}

// Fill writes a picture to the first elements of an array.
func (s *Settings) Fill(t *tensor.Tensor, picture image.Image) {
	for y := int64(0); y < s.Height; y++ {
		for x := int64(0); x < s.Width; x++ {
			p := sample(picture, float64(x), float64(y), float64(s.Width), float64(s.Height))
			if s.Channels == 1 {
				p[0] = 0.299*p[0] + 0.587*p[1] + 0.114*p[2]
			}
			for c := int64(0); c < s.Channels; c++ {
				at := (c*s.Height+y)*s.Width + x
				if s.Last {
					at = (y*s.Width+x)*s.Channels + c
				}
				v := (p[c]*s.Scale - s.Mean[c]) / s.Std[c]
				if t.DType().IsInt() {
					t.SetInt(at, int64(math.Round(v)))
				} else {
					t.SetFloat(at, v)
				}
			}
		}
	}
}

// sample returns a pixel of the picture scaled to width × height, with bilinear interpolation between the centres of
// pixels: 0 to 255 for each of red, green, blue, alpha.
func sample(p image.Image, x, y, width, height float64) [4]float64 {
	b := p.Bounds()
	fx := (x+0.5)*float64(b.Dx())/width - 0.5
	fy := (y+0.5)*float64(b.Dy())/height - 0.5
	x0, y0 := math.Floor(fx), math.Floor(fy)
	var out [4]float64
	for dy := 0.0; dy < 2; dy++ {
		for dx := 0.0; dx < 2; dx++ {
			weight := (1 - math.Abs(fx-x0-dx)) * (1 - math.Abs(fy-y0-dy))
			if weight == 0 {
				continue
			}
			px := min(max(int(x0+dx), 0), b.Dx()-1) + b.Min.X
			py := min(max(int(y0+dy), 0), b.Dy()-1) + b.Min.Y
			r, g, bl, a := p.At(px, py).RGBA()
			for i, c := range [4]uint32{r, g, bl, a} {
				out[i] += weight * float64(c) / 257
			}
		}
	}
	return out
}
