package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator bitcast.
func init() {
	define(&Def{Op: "bitcast", Linear: true, Recompute: Backward, NoGrad: "bits are not numbers", Shape: bitcastShape,
		Mean: hostMean("bitcast"), Host: "bitcast", Samples: bitcastSamples})
}

// BitCast reads the bits of elements as elements of another type of the same width.
func BitCast(b *ir.Builder, x *ir.Value, to dtype.DType) *ir.Value {
	return b.Op("bitcast", ir.Attrs{"to": to}, x)
}

// bitcastShape checks that both types have elements of the same width and infers x's shape.
func bitcastShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, to := n.Inputs[0].Type, n.Attrs.DType("to")
	if x.DType == dtype.String || to == dtype.String || to == dtype.Invalid || x.DType.Bits() != to.Bits() {
		return fault(n, "the bits of %s as %s", x.DType, to)
	}
	if to == dtype.Bool && x.DType != dtype.Bool {
		return fault(n, "the bits of %s as bool, which may only be 0 or 1", x.DType)
	}
	n.Result(0, ir.Type{DType: to, Shape: append([]sym.Expr{}, x.Shape...)})
	return nil
}

// bitcastSamples returns tensors of several ranks for pairs of types of equal width.
func bitcastSamples(r *rand.Rand) (out []Sample) {
	for _, c := range [][2]dtype.DType{{dtype.F32, dtype.I32}, {dtype.I64, dtype.F64}, {dtype.BF16, dtype.U16},
		{dtype.Bool, dtype.U8}, {dtype.I4, dtype.U4}} {
		for _, shape := range [][]int64{{}, {5}, {2, 0}, {3, 3}} {
			out = append(out, Sample{Attrs: ir.Attrs{"to": c[1]}, Inputs: []*tensor.Tensor{sampleOf(r, c[0], shape...)}})
		}
	}
	return out
}
