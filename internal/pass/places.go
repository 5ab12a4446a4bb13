package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Places replaces every carve by an operator, which no other pass looks through, and drops the statements about memory:
// ir.CheckMemory has verified them, and the compiler compares carves that share bytes once more in the order in which
// the program runs. A carved value keeps its name. Places reports whether there was a carve.
func Places(m *ir.Module) bool {
	b := ir.NewBuilder(ir.NewInference(m), nil)
	return places(b, m.Main.Body)
}

// places is Places for a block and its regions.
func places(build *ir.Builder, b *ir.Block) (any bool) {
	b.Statements = nil
	old := b.Nodes
	b.Nodes = make([]*ir.Node, 0, len(old))
	for _, n := range old {
		for _, r := range n.Regions {
			any = places(build, r) || any
		}
		b.Nodes = append(b.Nodes, n)
		for i, v := range slices.Clone(n.Outputs) {
			if v.Carve == nil {
				continue
			}
			any = true
			made := &ir.Value{Name: build.Name(v.Name + ".made"), Type: v.Type, Known: v.Known, Bound: v.Bound, Node: n,
				Index: i}
			n.Outputs[i] = made
			op, _ := ir.Lookup(ir.PlaceOp)
			place := &ir.Node{Op: op, Inputs: []*ir.Value{made}, Outputs: []*ir.Value{v}, Attrs: ops.Place(v), Source: n.Source,
				Line: n.Line}
			v.Carve, v.Bound, v.Node, v.Index = nil, false, place, 0
			b.Nodes = append(b.Nodes, place)
		}
	}
	return any
}
