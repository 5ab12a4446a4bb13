package ops

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// broadcast returns the shape that several shapes are broadcast to: aligned at the last axis, an extent of 1 repeats.
// Two extents that are not always equal become a condition. An extent that may or may not be 1 is taken to be equal to
// the other one; it repeats only if its dimensions are known to make it 1.
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
			RequireUnlessRepeated(c, sym.Cond{A: out[axis], Rel: sym.EQ, B: extent}, out[axis], extent)
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

// combined explains why two extents must be equal and, if neither is a number, when one may repeat.
func combined(a, b sym.Expr) string {
	why := elementwiseExtents
	_, number := a.Const()
	if _, other := b.Const(); number || other {
		return why
	}
	return why + ", of which one repeats only if it is known to be 1"
}

// Settled returns a shape in which each extent with a single possible value is a number, so that an extent of 1 is
// seen.
func Settled(d *sym.Dims, shape []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(shape))
	for axis, extent := range shape {
		out[axis] = settledExtent(d, extent)
	}
	return out
}

// settledExtent returns the extent as a number if each of its dimensions has a single value, and unchanged otherwise.
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

// broadcastIndex returns the index of the operand's element for index of the broadcast result.
func broadcastIndex(index, shape []sym.Expr) []sym.Expr {
	at := make([]sym.Expr, len(shape))
	for axis, extent := range shape {
		if !isOne(extent) {
			at[axis] = index[len(index)-len(shape)+axis]
		}
	}
	return at
}

// broadcastFlat is broadcastIndex for known shapes: it returns a flat index.
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

// isOne reports whether e is the number 1.
func isOne(e sym.Expr) bool {
	v, ok := e.Const()
	return ok && v == 1
}

// axisOf returns an axis as an index from the front; negative axes count from the end.
func axisOf(n *ir.Node, axis int64, rank int) (int, error) {
	if axis < -int64(rank) || axis >= int64(rank) {
		return 0, fault(n, "axis %d is outside a tensor of rank %d", axis, rank)
	}
	if axis < 0 {
		axis += int64(rank)
	}
	return int(axis), nil
}

// axesOf returns a list of axes as ascending indices from the front; an axis listed twice is an error. An absent list
// means every axis.
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

// fault returns an error of the user's input at a node.
func fault(n *ir.Node, format string, args ...any) error {
	return diag.Inputf(format, args...).AtNode(n.Source, n.Op.Name())
}

// arity checks that there are at most most inputs, and that the first need are present.
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

// input returns the i-th input, or nil if it is absent.
func input(n *ir.Node, i int) *ir.Value {
	if i >= len(n.Inputs) {
		return nil
	}
	return n.Inputs[i]
}

// present returns the i-th operand of a list, or nil.
func present[T any](in []*T, i int) *T {
	if i >= len(in) {
		return nil
	}
	return in[i]
}

// result returns a new tensor of the type of the node's i-th output.
func result(e *ir.Evaluation, n *ir.Node, i int) (*tensor.Tensor, error) {
	shape, err := e.Ints(n.Outputs[i].Type.Shape)
	if err != nil {
		return nil, err
	}
	return tensor.New(n.Outputs[i].Type.DType, shape...)
}

// product returns the number of elements of a shape.
func product(shape []sym.Expr) sym.Expr {
	return sym.Product(shape...)
}

// zeros returns an index of n zeros.
func zeros(n int) []sym.Expr { return make([]sym.Expr, n) }

// unit returns an index with step at axis and 0 elsewhere.
func unit(rank, axis int, step sym.Expr) []sym.Expr {
	out := make([]sym.Expr, rank)
	out[axis] = step
	return out
}

// one is the constant 1.
var one = sym.Const(1)

// with returns a new list with more elements appended.
func with(list []sym.Expr, more ...sym.Expr) []sym.Expr {
	return append(list[:len(list):len(list)], more...)
}

// isMultiple reports whether an extent is provably a multiple of a number.
func isMultiple(extent sym.Expr, by int64) bool {
	rest, ok := extent.Mod(sym.Const(by)).Const()
	return ok && rest == 0
}

// ceilDiv returns x/y rounded up; y must be positive.
func ceilDiv(x, y int64) int64 { return -((-x - mod(-x, y)) / y) }

// mod returns x modulo y, in [0, y).
func mod(x, y int64) int64 { return (x%y + y) % y }
