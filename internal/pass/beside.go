package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/tensor"
)

// Beside lays out the constant f32 weights of convolutions to few channels, with channels last, so that elements of the
// kernel lie beside the output channels, if that takes less time.
func Beside(m *ir.Module, costs recipes.Costs) error {
	return apply(m, []rule{{"a convolution to few channels", []string{"convolution"},
		func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			w, to := n.Inputs[1], n.Outputs[0].Type.DType
			if !ops.Last(n) || w.Const == nil || w.Type.DType != dtype.F32 || n.Inputs[0].Type.DType != dtype.F32 ||
				to != dtype.F32 || !ops.CanBeBeside(n) {
				return nil
			}
			count := costs.BesideAxes(ops.WindowOf(n), n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape)
			if count == 0 {
				return nil
			}
			t, err := tensor.Permuted(w.Const, w.Const.Shape(), ops.WeightsBeside(w.Const.Rank(), count))
			if err != nil {
				return nil
			}
			settled(t)
			in := append([]*ir.Value{n.Inputs[0], b.Constant(w.Name, t)}, n.Inputs[2:]...)
			return b.Op("convolution", with(n, ir.Attrs{"beside": count}), in...)
		}}})
}
