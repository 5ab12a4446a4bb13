package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Expand replaces each node that has neither a view nor a lowering that applies by its expansion, until only primitives
// are left.
func Expand(m *ir.Module) error { return expandAll(m, false) }

// ExpandForBlocks is Expand for machines with blocks of threads.
func ExpandForBlocks(m *ir.Module) error { return expandAll(m, true) }

// expandAll expands the nodes of all functions; blocks says that the machine has blocks of threads.
func expandAll(m *ir.Module, blocks bool) (err error) {
	defer ir.Catch(&err)
	for _, f := range m.Funcs {
		e := &expansion{ir.NewInference(m), map[*ir.Value]*ir.Value{}, blocks}
		e.block(f.Body)
	}
	return nil
}

// expansion is the state of Expand for one function.
type expansion struct {
	c        *ir.Inference
	replaced map[*ir.Value]*ir.Value
	blocks   bool // for a machine with blocks of threads
}

// block expands the nodes of a block and of its regions.
func (e *expansion) block(b *ir.Block) {
	c, replaced := e.c, e.replaced
	old := b.Nodes
	b.Nodes = nil
	build := ir.NewBuilder(c, b)
	for _, n := range old {
		for i, in := range n.Inputs {
			if r := replaced[in]; r != nil {
				n.Inputs[i] = r
			}
		}
		for _, region := range n.Regions {
			e.block(region)
		}
		if !e.node(build, n) {
			b.Nodes = append(b.Nodes, n)
		}
	}
	for i, v := range b.Results {
		if r := replaced[v]; r != nil {
			b.Results[i] = r
		}
	}
}

// node appends n's expansion, itself expanded, and records the values that replace its results; false if n stays as it
// is.
func (e *expansion) node(build *ir.Builder, n *ir.Node) bool {
	c, replaced := e.c, e.replaced
	def := ops.Of(n)
	if def.Expand == nil || !def.NeedsExpansion(n, c.Dims(), e.blocks) {
		return false
	}
	inner := &ir.Block{}
	into := ir.NewBuilder(c, inner)
	into.Source = n.Source
	results := def.Expand(into, n)
	if results == nil {
		return false
	}
	for i, out := range n.Outputs {
		if i >= len(results) || results[i] == nil {
			continue
		}
		r := results[i]
		replaced[out] = r
		if r.Node != nil && r.Const == nil {
			// The model's name for the value stays with it.
			r.TakeName(out)
			if r.Known == nil {
				r.Known, r.Bound = out.Known, out.Bound
			}
		}
	}
	build.Block.Consts = append(build.Block.Consts, inner.Consts...)
	e.block(inner)
	build.Block.Nodes = append(build.Block.Nodes, inner.Nodes...)
	for i, out := range n.Outputs {
		if r := replaced[results[min(i, len(results)-1)]]; i < len(results) && r != nil {
			replaced[out] = r
		}
	}
	return true
}
