package pass

import (
	"maps"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Brain has products of f32 with weights done with both operands rounded to bf16, and added up in f32: matrix products, and convolutions that are not in groups. Relative to the sum of
// the products' magnitudes, results differ from those of f32 by at most about 2⁻⁷ and what the order of a sum changes, since each rounding changes a factor by at most 2⁻⁸ of it; subnormal numbers may count as zeros. A weight that something
// else reads as well stays as it is, since it would be held twice.
func Brain(m *ir.Module) error {
	type place struct {
		block *ir.Block
		value *ir.Value
	}
	rounded := map[place]*ir.Value{} // operands that several products read
	return apply(m, []rule{{"a product of bf16", []string{"matmul", "convolution"}, func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		x, w := n.Inputs[0], n.Inputs[1]
		if w.Const == nil || r.uses[w] != 1 || ops.HasHoles(n) || x.Type.DType != dtype.F32 || w.Type.DType != dtype.F32 || n.Outputs[0].Type.DType != dtype.F32 || n.Attrs.Int("groups", 1) != 1 {
			return nil
		}
		at := place{r.block, x}
		if rounded[at] == nil {
			rounded[at] = ops.Cast(b, x, dtype.BF16)
		}
		weights, err := converted(w.Const, dtype.BF16)
		if err != nil {
			b.Fail(err)
		}
		attrs := maps.Clone(n.Attrs)
		attrs["dtype"] = dtype.F32
		return b.Op(n.Op.Name(), attrs, append([]*ir.Value{rounded[at], b.Constant(w.Name, weights)}, n.Inputs[2:]...)...)
	}}})
}
