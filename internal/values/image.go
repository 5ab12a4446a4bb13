package values

import (
	"image"
	_ "image/jpeg" // decoders that image.Decode finds
	_ "image/png"
	"math"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

var images = map[string]bool{".png": true, ".jpg": true, ".jpeg": true}

// The largest image that is decoded. Its header says its size before its pixels take memory, and so many pixels must fit the file's bytes: a plain area
// takes about one for some hundred pixels.
const (
	maxPixels     = 1 << 26
	maxPixelsFree = 1 << 22 // whatever the file's size is
	maxPixelsByte = 1 << 10
)

// image reads a picture as an input: scaled to the input's height and width, each channel as (value × scale − mean) / std, where value is
// 0 to 255. The query sets scale (1/255 or a number), mean, std (one number, or one for each channel) and layout (nchw, nhwc).
func (r *Reader) image(path, query string, info weir.Info) (*tensor.Tensor, error) {
	q, err := url.ParseQuery(query)
	if err != nil {
		return nil, diag.Inputf("%q: %v", query, err)
	}
	for key := range q {
		if key != "scale" && key != "mean" && key != "std" && key != "layout" {
			return nil, diag.Inputf("an image has no setting %q", key).WithFix("use scale, mean, std and layout")
		}
	}
	picture, err := decode(path)
	if err != nil {
		return nil, err
	}
	shape, err := r.shape(info)
	if err != nil {
		return nil, err
	}
	if len(shape) < 2 || len(shape) > 4 {
		return nil, diag.Inputf("an image does not fit %s", info)
	}
	layout := q.Get("layout")
	if layout == "" {
		layout = "nchw"
		if len(shape) >= 3 && shape[len(shape)-1] <= 4 && shape[len(shape)-3] > 4 {
			layout = "nhwc"
		}
	}
	var channels, height, width int64
	switch {
	case len(shape) == 2:
		channels, height, width = 1, shape[0], shape[1]
	case layout == "nchw":
		channels, height, width = shape[len(shape)-3], shape[len(shape)-2], shape[len(shape)-1]
	case layout == "nhwc":
		height, width, channels = shape[len(shape)-3], shape[len(shape)-2], shape[len(shape)-1]
	default:
		return nil, diag.Inputf("there is no layout %q", layout).WithFix("use nchw or nhwc")
	}
	bounds := picture.Bounds()
	free := func(axis int, size int) int64 {
		if e := info.Shape[axis]; e.Dim != "" {
			if _, bound := r.Dims[e.Dim]; !bound {
				return int64(size)
			}
		}
		return shape[axis]
	}
	if layout == "nchw" || len(shape) == 2 {
		height, width = free(len(shape)-2, bounds.Dy()), free(len(shape)-1, bounds.Dx())
		shape[len(shape)-2], shape[len(shape)-1] = height, width
	}
	if channels != 1 && channels != 3 && channels != 4 {
		return nil, diag.Inputf("an image has 1, 3 or 4 channels, %s has %d", info, channels)
	}
	scale, mean, std, err := settings(q, channels, info)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(info.DType, shape...)
	if err != nil {
		return nil, err
	}
	for y := int64(0); y < height; y++ {
		for x := int64(0); x < width; x++ {
			p := sample(picture, float64(x), float64(y), float64(width), float64(height))
			if channels == 1 {
				p[0] = 0.299*p[0] + 0.587*p[1] + 0.114*p[2]
			}
			for c := int64(0); c < channels; c++ {
				at := (c*height+y)*width + x
				if layout == "nhwc" {
					at = (y*width+x)*channels + c
				}
				v := (p[c]*scale - mean[c]) / std[c]
				if info.DType.IsInt() {
					t.SetInt(at, int64(math.Round(v)))
				} else {
					t.SetFloat(at, v)
				}
			}
		}
	}
	return t, nil
}

func decode(path string) (image.Image, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	config, _, err := image.DecodeConfig(f)
	if err != nil {
		return nil, diag.Inputf("%s: %v", path, err)
	}
	if config.Width <= 0 || config.Height <= 0 || int64(config.Width) > maxPixels/int64(config.Height) {
		return nil, diag.Inputf("%s has %d × %d pixels, more than are read", path, config.Width, config.Height)
	}
	if pixels := int64(config.Width) * int64(config.Height); (pixels-maxPixelsFree)/maxPixelsByte > size {
		return nil, diag.Inputf("%s says that it has %d × %d pixels, and has %d bytes", path, config.Width, config.Height, size)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, diag.Inputf("%s: %v", path, err)
	}
	picture, _, err := image.Decode(f)
	if err != nil {
		return nil, diag.Inputf("%s: %v", path, err)
	}
	return picture, nil
}

// settings are the query's numbers; without a scale, integers take 0 to 255 and floats 0 to 1.
func settings(q url.Values, channels int64, info weir.Info) (scale float64, mean, std []float64, err error) {
	scale = 1.0 / 255
	if info.DType.IsInt() {
		scale = 1
	}
	if s := q.Get("scale"); s != "" {
		if scale, err = ratio(s); err != nil {
			return
		}
	}
	if mean, err = numbers(q.Get("mean"), channels, 0); err != nil {
		return
	}
	std, err = numbers(q.Get("std"), channels, 1)
	return
}

func ratio(s string) (float64, error) {
	a, b, divided := strings.Cut(s, "/")
	x, err := strconv.ParseFloat(a, 64)
	y := 1.0
	if divided && err == nil {
		y, err = strconv.ParseFloat(b, 64)
	}
	if err != nil || y == 0 {
		return 0, diag.Inputf("%q is no number", s)
	}
	return x / y, nil
}

func numbers(s string, channels int64, otherwise float64) ([]float64, error) {
	out := make([]float64, channels)
	var parts []string
	if s != "" {
		parts = strings.Split(s, ",")
	}
	if len(parts) > 1 && int64(len(parts)) != channels {
		return nil, diag.Inputf("%q has %d numbers for %d channels", s, len(parts), channels)
	}
	for i := range out {
		out[i] = otherwise
		if len(parts) > 0 {
			v, err := ratio(parts[min(i, len(parts)-1)])
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
	}
	return out, nil
}

// sample is a pixel of the picture scaled to width × height: bilinear between the centres of pixels; 0 to 255 for each of red, green, blue, alpha.
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
