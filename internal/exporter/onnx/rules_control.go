package onnx

import (
	"maps"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
)

// init adds the rules of this file.
func init() {
	rulesOf(map[string]rule{"if": branch, "loop": iterate})
}

// inner returns the regions that the file needs: those of If and Loop.
func inner(n *ir.Node) []*ir.Block {
	if op := n.Op.Name(); op != "if" && op != "loop" {
		return nil
	}
	return n.Regions
}

// branch writes If.
func branch(c *call) {
	then, otherwise := c.region("then", c.n.Regions[0]), c.region("else", c.n.Regions[1])
	c.node("If", c.inputs(), c.outs(), wire.GraphAttribute("then_branch", then),
		wire.GraphAttribute("else_branch", otherwise))
}

// iterate writes Loop.
func iterate(c *call) {
	if c.n.Attrs["at"] != nil {
		c.refuse("a loop that lays its slices along an axis")
	}
	c.node("Loop", c.inputs(), c.outs(), wire.GraphAttribute("body", c.region("body", c.n.Regions[0])))
}

// outs returns the names of all results.
func (c *call) outs() (out []string) {
	for _, v := range c.n.Outputs {
		out = append(out, c.result(v))
	}
	return out
}

// region writes a block as a graph, which reads the values around it. The extents that it computes are not known
// outside it.
func (w *writer) region(name string, b *ir.Block) *wire.GraphProto {
	outer, extents, sources := w.graph, w.extents, w.sources
	w.graph, w.extents, w.sources = &wire.GraphProto{Name: w.unique(name)}, maps.Clone(extents), maps.Clone(sources)
	for _, v := range b.Params {
		w.names[v] = w.unique(v.Name)
		w.graph.Input = append(w.graph.Input, w.declaration(v))
		w.learn(v)
		if len(v.Known) == 1 {
			if name, ok := v.Known[0].Name(); ok {
				w.sources[name] = source{w.names[v], -1}
			}
		}
	}
	w.block(b)
	for _, v := range b.Results {
		d := w.declaration(v)
		d.Name = w.add("Identity", []string{w.of(v)})
		w.graph.Output = append(w.graph.Output, d)
	}
	graph := w.graph
	w.graph, w.extents, w.sources = outer, extents, sources
	return graph
}
