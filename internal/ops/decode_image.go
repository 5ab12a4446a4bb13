package ops

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator decode_image.
func init() {
	define(&Def{Op: "decode_image", Shape: decodeImageShape, Mean: hostMean("decode_image"), Host: "decode_image",
		Samples: decodeImageSamples})
}

// pixelChannels maps each pixel format to its number of channels.
var pixelChannels = map[string]int64{"RGB": 3, "BGR": 3, "Grayscale": 1}

// DecodeImage decodes the bytes of an image file (package picture lists the formats): [height, width, channels] of u8,
// pixels "RGB", "BGR" or "Grayscale". Bytes that are not an image give an image without pixels.
func DecodeImage(b *ir.Builder, file *ir.Value, pixels string) *ir.Value {
	return b.Op("decode_image", ir.Attrs{"pixels": pixels}, file)
}

// decodeImageShape checks the pixel format and infers an image whose height and width the decoder finds.
func decodeImageShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	file, channels := n.Inputs[0].Type, pixelChannels[n.Attrs.String("pixels", "")]
	if file.DType != dtype.U8 || len(file.Shape) != 1 || channels == 0 {
		return fault(n, "pixels %q of a file %s", n.Attrs.String("pixels", ""), file)
	}
	shape := []sym.Expr{{}, {}, sym.Const(channels)}
	for i, axis := range []string{"height", "width"} {
		shape[i] = foundAs(c, n, axis, axis, sym.Unlimited)
	}
	n.Result(0, ir.Type{DType: dtype.U8, Shape: shape})
	return nil
}

// decodeImageSamples returns a small image in several file formats, and bytes that are not an image.
func decodeImageSamples(r *rand.Rand) (out []Sample) {
	m := image.NewRGBA(image.Rect(0, 0, 5, 3))
	for i := range m.Pix {
		m.Pix[i] = byte(r.Int())
	}
	for x := range 5 {
		for y := range 3 {
			c := m.RGBAAt(x, y)
			m.SetRGBA(x, y, color.RGBA{c.R, c.G, c.B, 255})
		}
	}
	var file bytes.Buffer
	if err := png.Encode(&file, m); err != nil {
		panic(err) // memory holds a picture of 15 pixels
	}
	for _, pixels := range []string{"RGB", "BGR", "Grayscale"} {
		for _, data := range [][]byte{file.Bytes(), []byte("P5 2 1 255\nab"), []byte("nothing"), {}} {
			t := tensor.Must(tensor.New(dtype.U8, int64(len(data))))
			copy(t.Bytes(), data)
			out = append(out, Sample{Attrs: ir.Attrs{"pixels": pixels}, Inputs: []*tensor.Tensor{t}})
		}
	}
	return out
}
