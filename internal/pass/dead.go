// Package pass rewrites ir: each pass is one file and one function, and one row in the compiler's table.
package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Dead removes nodes whose results nothing needs, constants that nothing reads, and functions that nothing calls.
func Dead(m *ir.Module) error {
	dropFunctions(m)
	for _, f := range m.Funcs {
		n := &needs{values: map[*ir.Value]bool{}, dims: map[sym.Name]bool{}, limits: m.Limits}
		for _, r := range m.Requires {
			n.mention(r.Cond.A, r.Cond.B) // a condition is checked once its dimensions are bound
		}
		n.sweep(f.Body)
	}
	return nil
}

// needs holds the values and dimensions that later nodes need.
type needs struct {
	values map[*ir.Value]bool
	dims   map[sym.Name]bool
	limits map[sym.Name]sym.Expr // of the dimensions that data decide
}

// mention notes that the dimensions of expressions are needed.
func (n *needs) mention(exprs ...sym.Expr) {
	for _, e := range exprs {
		for _, name := range e.Vars() {
			n.dims[name] = true
		}
	}
}

// keep notes the values and dimensions that a node needs.
func (n *needs) keep(node *ir.Node) {
	for _, in := range node.Inputs {
		if in != nil {
			n.values[in] = true
			n.mention(in.Type.Shape...)
		}
	}
	for _, out := range node.Outputs {
		n.mention(out.Type.Shape...)
	}
	for _, v := range node.Attrs {
		switch v := v.(type) {
		case sym.Expr:
			n.mention(v)
		case []sym.Expr:
			n.mention(v...)
		}
	}
}

// decides reports whether computing a value binds a dimension that is needed: one of its shape that data decide and
// that none of its node's inputs has.
func (n *needs) decides(node *ir.Node, v *ir.Value) bool {
	for _, e := range v.Type.Shape {
		name, ok := e.Name()
		if _, decided := n.limits[name]; !ok || !decided || !n.dims[name] {
			continue
		}
		given := false
		for _, in := range node.Inputs {
			for i := 0; in != nil && i < len(in.Type.Shape); i++ {
				other, _ := in.Type.Shape[i].Name()
				given = given || other == name
			}
		}
		if !given {
			return true
		}
	}
	return false
}

// sweep removes the dead nodes and constants of b, and adds the values of outer blocks that b needs.
func (needed *needs) sweep(b *ir.Block) {
	for _, v := range b.Results {
		needed.values[v] = true
		needed.mention(v.Type.Shape...)
	}
	kept := make([]*ir.Node, 0, len(b.Nodes))
	for i := len(b.Nodes) - 1; i >= 0; i-- {
		n := b.Nodes[i]
		live := false
		for _, out := range n.Outputs {
			// A value whose elements decide dimensions is needed if the dimensions are; the pass assumes that they are.
			live = live || needed.values[out] || out.Bound || needed.decides(n, out)
		}
		if !live {
			continue
		}
		kept = append(kept, n)
		needed.keep(n)
		for _, region := range n.Regions {
			needed.sweep(region)
		}
	}
	for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
		kept[i], kept[j] = kept[j], kept[i]
	}
	b.Nodes = kept
	consts := b.Consts[:0]
	for _, c := range b.Consts {
		if needed.values[c] {
			consts = append(consts, c)
		}
	}
	b.Consts = consts
}
