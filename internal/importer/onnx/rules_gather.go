package onnx

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	add(map[string]rule{"Gather": gather, "GatherElements": gatherElements, "GatherND": gatherND})
}

// gather: a known index is a slice, which may need no copy.
func gather(c *call) []*ir.Value {
	b, x, indices := c.Builder, c.Input(0), c.Input(1)
	axis := c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	if len(indices.Type.Shape) > 0 || len(indices.Known) != 1 || indices.Bound || x.Known != nil {
		return one(ops.Gather(b, x, indices, axis))
	}
	at, extent := indices.Known[0], x.Type.Shape[axis]
	at = c.Dims().Simplify(c.fromEnd(at, extent))
	inside := []sym.Cond{{A: sym.Const(0), Rel: sym.LE, B: at}, {A: at, Rel: sym.LT, B: extent}}
	for _, cond := range inside {
		if c.graph.outer != nil && c.Dims().Prove(cond) != sym.Yes {
			// A branch may not be taken: the index is checked where it is used.
			return one(ops.Gather(b, x, indices, axis))
		}
		c.require(cond, "an index")
	}
	row := ops.SliceAxis(b, x, int(axis), at, sym.Const(1))
	return one(ops.Reshape(b, row, append(append([]sym.Expr{}, x.Type.Shape[:axis]...), x.Type.Shape[axis+1:]...)...))
}

func gatherElements(c *call) []*ir.Value {
	return one(ops.GatherElements(c.Builder, c.Input(0), c.Input(1), c.Int("axis", 0)))
}

func gatherND(c *call) []*ir.Value {
	return one(ops.GatherND(c.Builder, c.Input(0), c.Input(1), c.Int("batch_dims", 0)))
}
