package pass

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Expand replaces each node that has neither a view nor a lowering that applies by its expansion, until only primitives are left.
func Expand(m *ir.Module) (err error) {
	defer ir.Catch(&err)
	for _, f := range m.Funcs {
		expand(ir.NewInference(m), f.Body, map[*ir.Value]*ir.Value{})
	}
	return nil
}

func expand(c *ir.Inference, b *ir.Block, replaced map[*ir.Value]*ir.Value) {
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
			expand(c, region, replaced)
		}
		if !expandNode(c, build, n, replaced) {
			b.Nodes = append(b.Nodes, n)
		}
	}
	for i, v := range b.Results {
		if r := replaced[v]; r != nil {
			b.Results[i] = r
		}
	}
}

// expandNode appends n's expansion, itself expanded, and records what replaces its results; false where n stays as it is.
func expandNode(c *ir.Inference, build *ir.Builder, n *ir.Node, replaced map[*ir.Value]*ir.Value) bool {
	def := ops.Of(n)
	if def.Expand == nil || !def.NeedsExpansion(n, c.Dims()) {
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
	expand(c, inner, replaced)
	build.Block.Nodes = append(build.Block.Nodes, inner.Nodes...)
	for i, out := range n.Outputs {
		if r := replaced[results[min(i, len(results)-1)]]; i < len(results) && r != nil {
			replaced[out] = r
		}
	}
	return true
}
