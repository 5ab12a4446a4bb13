package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Quantised makes operators that only move or pick elements, such as max_pool, work on the stored integers, if they
// stand between a dequantize and a quantize with the same scale and zero point: there is nothing to compute, and a
// quarter of the bytes to move. The results are the same to the bit. Integers rewrites products.
func Quantised(m *ir.Module) error { return apply(m, quantised) }

var quantised = []rule{
	{"moved as stored", []string{"quantize"}, movedAsStored},
}

// movesDeepest is the largest number of moves in a row that are followed.
const movesDeepest = 8

// movedAsStored moves the stored integers in place of the dequantized numbers.
func movedAsStored(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	to := n.Outputs[0].Type.DType
	if !to.IsInt() || to.Bits() > 16 || len(n.Inputs) < 2 || n.Attrs.DType("precision") != dtype.Invalid &&
		n.Attrs.DType("precision") != dtype.F32 {
		return nil
	}
	var chain []*ir.Node
	v := n.Inputs[0]
	for ; v.Node != nil && v.Const == nil && v.Node.Op.Name() != "dequantize"; v = v.Node.Inputs[0] {
		m := v.Node
		if !r.inside(v) || !ops.Of(m).Picks || len(chain) == movesDeepest || m.Inputs[0] == nil {
			return nil
		}
		chain = append(chain, m)
	}
	d := producer(v, "dequantize")
	if d == nil || d.Inputs[0].Type.DType != to || v.Type.DType != dtype.F32 || !sameScale(n, d) {
		return nil
	}
	x := d.Inputs[0]
	for _, m := range slices.Backward(chain) {
		in := slices.Clone(m.Inputs)
		in[0] = x
		x = b.Op(m.Op.Name(), m.Attrs, in...)
	}
	return x
}

// sameScale reports whether a quantize and a dequantize share one scale, a positive normal number, and one zero point.
func sameScale(q, d *ir.Node) bool {
	scale, ok := uniform(q.Inputs[1])
	other, okOther := uniform(d.Inputs[1])
	if !ok || !okOther || scale != other || q.Inputs[1].Type.DType != dtype.F32 || q.Inputs[1].Const.Len() != 1 ||
		d.Inputs[1].Const.Len() != 1 || d.Inputs[1].Type.DType != dtype.F32 {
		return false
	}
	// Neither the product with a number of 17 bits nor the quotient may leave what f32 holds to full precision.
	if scale < 1e-30 || scale > 1e30 || math.IsNaN(scale) || q.Attrs.Int("block", 0) != 0 || d.Attrs.Int("block", 0) != 0 {
		return false
	}
	return zeroOf(q) == zeroOf(d) && zeroOf(q) != nothing
}

// nothing stands for an unknown zero point.
const nothing = math.MinInt64

// zeroOf returns a node's zero point: 0 if it has none, nothing if it is not one constant for all elements.
func zeroOf(n *ir.Node) int64 {
	if len(n.Inputs) < 3 || n.Inputs[2] == nil {
		return 0
	}
	if zero := n.Inputs[2]; zero.Const != nil && zero.Const.Len() == 1 {
		return zero.Const.Int(0)
	}
	return nothing
}
