package ops

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// broadcast is the shape that several shapes are broadcast to: aligned at the last axis, an extent of 1 repeats. Two
// extents that are not the same for every value become a condition: one that could be 1 is taken to be equal, and
// repeats only if its dimensions are known to be 1.
func broadcast(c *ir.Inference, n *ir.Node, shapes ...[]sym.Expr) ([]sym.Expr, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := make([]sym.Expr, rank)
	for axis := range out {
		out[axis] = sym.Const(1)
		for _, s := range shapes {
			at := axis - rank + len(s)
			if at < 0 {
				continue
			}
			extent := settledExtent(c.Dims(), s[at])
			if isOne(extent) {
				continue
			}
			if isOne(out[axis]) {
				out[axis] = extent
				continue
			}
			if err := c.RequireEqual(n, out[axis], extent, combined(out[axis], extent)); err != nil {
				return nil, err
			}
			if _, known := extent.Const(); known {
				out[axis] = extent
			}
		}
	}
	return out, nil
}

// combined says why two extents must be equal, and what else there is if neither is a number.
func combined(a, b sym.Expr) string {
	why := "extents that are combined element by element"
	_, number := a.Const()
	if _, other := b.Const(); number || other {
		return why
	}
	return why + ", of which one repeats only if it is known to be 1"
}

// Settled is a shape in which a dimension that has only one value stands as that number, as whoever asks for an extent
// of 1 needs it.
func Settled(d *sym.Dims, shape []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(shape))
	for axis, extent := range shape {
		out[axis] = settledExtent(d, extent)
	}
	return out
}

// settledExtent is the number that an extent is if each of its dimensions has one value; else the extent.
func settledExtent(d *sym.Dims, extent sym.Expr) sym.Expr {
	for _, name := range extent.Vars() {
		if r, ok := d.Get(name); !ok || r.Min != r.Max {
			return extent
		}
	}
	value, err := extent.Eval(func(name sym.Name) (int64, bool) {
		r, ok := d.Get(name)
		return r.Min, ok
	})
	if err != nil {
		return extent
	}
	return sym.Const(value)
}

// broadcastIndex is where an operand of the given shape is read for element index of the broadcast result.
func broadcastIndex(index, shape []sym.Expr) []sym.Expr {
	at := make([]sym.Expr, len(shape))
	for axis, extent := range shape {
		if !isOne(extent) {
			at[axis] = index[len(index)-len(shape)+axis]
		}
	}
	return at
}

// broadcastFlat is broadcastIndex for concrete shapes: the flat position of the operand's element.
func broadcastFlat(index, shape []int64) int64 {
	flat := int64(0)
	for axis, extent := range shape {
		flat *= extent
		if extent != 1 {
			flat += index[len(index)-len(shape)+axis]
		}
	}
	return flat
}

func isOne(e sym.Expr) bool {
	v, ok := e.Const()
	return ok && v == 1
}

// axisOf resolves an axis that may count from the end.
func axisOf(n *ir.Node, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, fault(n, "axis %d is outside a tensor of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// axesOf resolves a list of axes: in order, none twice. An absent list is every axis.
func axesOf(n *ir.Node, axes []int64, rank int) ([]int, error) {
	seen := make([]bool, rank)
	if axes == nil {
		for i := range seen {
			seen[i] = true
		}
	}
	for _, a := range axes {
		at, err := axisOf(n, a, rank)
		if err != nil {
			return nil, err
		}
		if seen[at] {
			return nil, fault(n, "axis %d is named twice", a)
		}
		seen[at] = true
	}
	var out []int
	for i, s := range seen {
		if s {
			out = append(out, i)
		}
	}
	return out, nil
}

// fault is the user's fault at a node.
func fault(n *ir.Node, format string, args ...any) error {
	return diag.Inputf(format, args...).AtNode(n.Source, n.Op.Name())
}

// arity checks the number of inputs, of which the first `need` must be present.
func arity(n *ir.Node, need, most int) error {
	if len(n.Inputs) > most {
		return fault(n, "%d inputs, at most %d are taken", len(n.Inputs), most)
	}
	for i := 0; i < need; i++ {
		if i >= len(n.Inputs) || n.Inputs[i] == nil {
			return fault(n, "input %d is missing", i)
		}
	}
	return nil
}

// input is the i-th input, or nil if it is absent.
func input(n *ir.Node, i int) *ir.Value {
	if i >= len(n.Inputs) {
		return nil
	}
	return n.Inputs[i]
}

// present is the i-th of a list of operands, or nil.
func present[T any](in []*T, i int) *T {
	if i >= len(in) {
		return nil
	}
	return in[i]
}

// result makes the tensor for the node's i-th output, by its inferred type.
func result(e *ir.Evaluation, n *ir.Node, i int) (*tensor.Tensor, error) {
	shape, err := e.Ints(n.Outputs[i].Type.Shape)
	if err != nil {
		return nil, err
	}
	return tensor.New(n.Outputs[i].Type.DType, shape...)
}

// product is the number of elements of a symbolic shape.
func product(shape []sym.Expr) sym.Expr {
	return sym.Product(shape...)
}

// zeros is an index of n zeros.
func zeros(n int) []sym.Expr { return make([]sym.Expr, n) }

// unit is an index step: step along axis, 0 elsewhere.
func unit(rank, axis int, step sym.Expr) []sym.Expr {
	out := make([]sym.Expr, rank)
	out[axis] = step
	return out
}

// one is the constant 1.
var one = sym.Const(1)
