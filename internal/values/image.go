package values

import (
	"image"
	"net/url"
	"strconv"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/picture"
)

var images = map[string]bool{".png": true, ".jpg": true, ".jpeg": true}

// image reads a picture as an input: scaled to the input's height and width, each channel as (value × scale − mean) /
// std, where value is 0 to 255. The query sets scale (1/255 or a number), mean, std (one number, or one for each
// channel) and layout (nchw, nhwc).
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
	decoded, err := decode(path)
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
	bounds := decoded.Bounds()
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
	fill := picture.Settings{Channels: channels, Height: height, Width: width, Last: layout == "nhwc", Scale: scale,
		Mean: mean, Std: std}
	fill.Fill(t, decoded)
	return t, nil
}

// decode reads a picture from a regular file.
func decode(path string) (image.Image, error) {
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return picture.Decode(path, f, size)
}

// settings returns the query's numbers; without a scale, integers take 0 to 255 and floats 0 to 1.
func settings(q url.Values, channels int64, info weir.Info) (scale float64, mean, std []float64, err error) {
	scale = 1.0 / 255
	if info.DType.IsInt() {
		scale = 1
	}
	if s := q.Get("scale"); s != "" {
		if scale, err = ratio(s); err != nil {
			return 0, nil, nil, diag.Inputf("scale=%s: %w", s, err)
		}
	}
	if mean, err = numbers(q.Get("mean"), channels, 0); err != nil {
		return 0, nil, nil, diag.Inputf("mean=%s: %w", q.Get("mean"), err)
	}
	if std, err = numbers(q.Get("std"), channels, 1); err != nil {
		return 0, nil, nil, diag.Inputf("std=%s: %w", q.Get("std"), err)
	}
	return scale, mean, std, nil
}

// ratio parses a number or a quotient of two, such as 1/255.
func ratio(s string) (float64, error) {
	a, b, divided := strings.Cut(s, "/")
	x, err := strconv.ParseFloat(a, 64)
	y := 1.0
	if divided && err == nil {
		y, err = strconv.ParseFloat(b, 64)
	}
	if err != nil || y == 0 {
		return 0, diag.Inputf("%q is not a number", s)
	}
	return x / y, nil
}

// numbers parses one number for all channels, or one for each; otherwise is the value if s is empty.
func numbers(s string, channels int64, otherwise float64) ([]float64, error) {
	out := make([]float64, channels)
	var words []string
	if s != "" {
		words = strings.Split(s, ",")
	}
	if len(words) > 1 && int64(len(words)) != channels {
		return nil, diag.Inputf("%q has %d numbers for %d channels", s, len(words), channels)
	}
	for i := range out {
		out[i] = otherwise
		if len(words) > 0 {
			v, err := ratio(words[min(i, len(words)-1)])
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
	}
	return out, nil
}
