package pass

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
)

// Shared rewrites functions so that they read a subexpression which another node computes too: the derivative of
// x·sigmoid(x) reads sigmoid(x), which is most of the work of both.
func Shared(m *ir.Module) error { return apply(m, shared) }

var shared = []rule{
	{"swish beside its sigmoid", []string{"swish"}, swishBesideSigmoid},
}

// swishBesideSigmoid builds x·sigmoid(x) as a product if another node of the block computes sigmoid(x).
func swishBesideSigmoid(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x := n.Inputs[0]
	if dt := x.Type.DType; n.Attrs.Float("alpha", 1) != 1 || dt != dtype.F32 && dt != dtype.F64 {
		return nil
	}
	for _, list := range [][]*ir.Node{r.block.Nodes, r.after} {
		for _, other := range list {
			if other.Op.Name() == "sigmoid" && r.current(other.Inputs[0]) == x {
				return b.Op("mul", nil, x, b.Op("sigmoid", nil, x))
			}
		}
	}
	return nil
}
