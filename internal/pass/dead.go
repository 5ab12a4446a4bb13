// Package pass rewrites ir: each pass is one file and one function, and one row in the compiler's table.
package pass

import "github.com/weirml/weir/internal/ir"

// Dead removes nodes whose results nothing needs, constants that nothing reads, and functions that nothing calls.
func Dead(m *ir.Module) error {
	dropFunctions(m)
	for _, f := range m.Funcs {
		sweep(f.Body, map[*ir.Value]bool{})
	}
	return nil
}

// sweep removes what is dead in b, given what is needed of outer values, and adds to needed what b needs of them.
func sweep(b *ir.Block, needed map[*ir.Value]bool) {
	for _, v := range b.Results {
		needed[v] = true
	}
	kept := make([]*ir.Node, 0, len(b.Nodes))
	for i := len(b.Nodes) - 1; i >= 0; i-- {
		n := b.Nodes[i]
		live := false
		for _, out := range n.Outputs {
			// A value whose elements decide dimensions is needed where the dimensions are: always, as far as this pass knows.
			live = live || needed[out] || out.Bound
		}
		if !live {
			continue
		}
		kept = append(kept, n)
		for _, in := range n.Inputs {
			if in != nil {
				needed[in] = true
			}
		}
		for _, region := range n.Regions {
			sweep(region, needed)
		}
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	b.Nodes = kept
	consts := b.Consts[:0]
	for _, c := range b.Consts {
		if needed[c] {
			consts = append(consts, c)
		}
	}
	b.Consts = consts
}
