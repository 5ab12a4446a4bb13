package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator mel_weights.
func init() {
	define(&Def{Op: "mel_weights", NoGrad: "a table made once", Shape: melShape, Mean: hostMean("mel_weights"),
		Host: "mel_weights", Samples: melSamples})
}

// MelWeights returns the matrix [length/2 + 1, bands] that sums a spectrum of the given length into bands, which are
// triangles on the mel scale between the frequencies low and high. rate, the sampling rate, is an integer scalar; low
// and high are float scalars.
func MelWeights(b *ir.Builder, dt dtype.DType, bands, length sym.Expr, rate, low, high *ir.Value) *ir.Value {
	return b.Op("mel_weights", ir.Attrs{"dtype": dt, "bands": bands, "length": length}, rate, low, high)
}

// melShape checks the sizes and scalars and infers [length/2 + 1, bands].
func melShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	bands, _ := n.Attrs["bands"].(sym.Expr)
	length, _ := n.Attrs["length"].(sym.Expr)
	for _, size := range []sym.Expr{bands, length} {
		for _, cond := range []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: size},
			{A: size, Rel: sym.LE, B: sym.Const(1 << 31)}} {
			if err := c.Require(n, cond, "the size of a spectrum"); err != nil {
				return err
			}
		}
	}
	for i, v := range n.Inputs {
		if len(v.Type.Shape) > 0 || i == 0 && !v.Type.DType.IsInt() || i > 0 && !v.Type.DType.IsFloat() {
			return fault(n, "a rate or frequency %s", v.Type)
		}
	}
	dt := n.Attrs.DType("dtype")
	if !numbers(dt) {
		return fault(n, "weights of type %s", dt)
	}
	n.Result(0, ir.Type{DType: dt, Shape: []sym.Expr{c.Dims().Simplify(length.FloorDiv(sym.Const(2)).Add(one)), bands}})
	return nil
}

// melSamples returns filters of several sizes for each type.
func melSamples(*rand.Rand) []Sample {
	var out []Sample
	for i, c := range []struct {
		bands, length, rate int64
		low, high           float64
	}{{8, 16, 8192, 0, 4096}, {80, 400, 16000, 20, 7600}, {0, 16, 8000, 0, 4000}, {3, 9, 8000, 125, 4000}} {
		for _, dt := range append([]dtype.DType{dtype.I32}, floatTypes...) {
			low, high := tensor.Must(tensor.New(floatTypes[i])), tensor.Must(tensor.New(floatTypes[i]))
			low.SetFloat(0, c.low)
			high.SetFloat(0, c.high)
			out = append(out, Sample{Attrs: ir.Attrs{"dtype": dt, "bands": sym.Const(c.bands), "length": sym.Const(c.length)},
				Inputs: []*tensor.Tensor{tensor.Scalar(c.rate), low, high}})
		}
	}
	return out
}
