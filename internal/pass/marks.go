package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Marks removes the nodes that only tell how to differentiate: stops, and derivatives that the model gives. When a
// module is compiled, its derivatives are nodes already.
func Marks(m *ir.Module) error {
	unmarked := map[*ir.Value]*ir.Value{}
	for _, f := range m.Funcs {
		unmark(f.Body, unmarked)
	}
	return nil
}

// unmark replaces the results of a block's marks by their operands.
func unmark(b *ir.Block, unmarked map[*ir.Value]*ir.Value) {
	put := func(list []*ir.Value) {
		for i, v := range list {
			if to := unmarked[v]; to != nil {
				list[i] = to
			}
		}
	}
	kept := b.Nodes[:0:0]
	for _, n := range b.Nodes {
		put(n.Inputs)
		marked := ops.Marked(n)
		for i, v := range marked {
			unmarked[n.Outputs[i]] = v
		}
		if marked != nil {
			continue
		}
		for _, r := range n.Regions {
			unmark(r, unmarked)
		}
		kept = append(kept, n)
	}
	b.Nodes = kept
	put(b.Results)
}
