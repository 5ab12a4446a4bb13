package pass

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Halves makes products of f16 with constant weights read their other operand as f32: the operand is widened once, and
// not for each product of elements. Sums are of f32 as before, and results are rounded to f16. Weights of matrix
// products stay f16; weights of convolutions, which many positions read, are widened while compiling, unless another
// node reads them. Convolutions in groups stay as they are.
func Halves(m *ir.Module) error {
	type key struct {
		block *ir.Block
		value *ir.Value
	}
	wide := map[key]*ir.Value{} // operands that several products read
	return apply(m, []rule{{"a product of widened halves", []string{"matmul", "convolution"},
		func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			x, w := n.Inputs[0], n.Inputs[1]
			half := func(v *ir.Value) bool { return v.Type.DType == dtype.F16 }
			convolution := n.Op.Name() == "convolution"
			if w.Const == nil || x.Const != nil || !half(x) || !half(w) || !half(n.Outputs[0]) || ops.HasHoles(n) ||
				convolution && n.Attrs.Int("groups", 1) != 1 {
				return nil
			}
			at := key{r.block, x}
			if wide[at] == nil {
				wide[at] = ops.Cast(b, x, dtype.F32)
			}
			in, attrs := slices.Clone(n.Inputs), maps.Clone(n.Attrs)
			in[0], attrs["dtype"] = wide[at], dtype.F32
			for i, v := range in[1:] {
				if v == nil || i == 0 && (!convolution || r.uses[w] > 1) {
					continue
				}
				if v.Const == nil {
					in[1+i] = ops.Cast(b, v, dtype.F32)
					continue
				}
				t, err := converted(v.Const, dtype.F32)
				if err != nil {
					b.Fail(err)
				}
				in[1+i] = b.Constant(v.Name, t)
			}
			return ops.Cast(b, b.Op(n.Op.Name(), attrs, in...), dtype.F16)
		}}})
}
