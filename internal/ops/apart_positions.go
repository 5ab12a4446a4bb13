package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Position is what is known of integers: an element that belongs to entry i of a dimension is Step × i + w, for some w
// with Low ≤ w < High that depends on no other entry.
type Position struct{ Step, Low, High sym.Expr }

// Common reports whether the elements do not depend on the entries' numbers. The zero Position does not.
func (p Position) Common() bool { return isZero(p.Step) }

// exact returns the number that all elements are, if they are known to be equal and not negative.
func (p Position) exact() (sym.Expr, bool) {
	_, named := p.Low.Name()
	v, number := p.Low.Const()
	return p.Low, isZero(p.Step) && p.Low.Add(one).Equal(p.High) && (named || number && v >= 0)
}

// PositionOfCommon returns the Position of a small value that is constant or known.
func PositionOfCommon(v *ir.Value) (Position, bool) {
	switch {
	case v.Type.DType != dtype.I64:
		return Position{}, false
	case len(v.Known) == 1:
		return Position{sym.Const(0), v.Known[0], v.Known[0].Add(one)}, true
	case v.Const == nil || v.Const.Pending() || v.Const.Len() != 1:
		return Position{}, false
	}
	x := v.Const.Int(0)
	if x == math.MaxInt64 {
		return Position{}, false
	}
	return Position{sym.Const(0), sym.Const(x), sym.Const(x + 1)}, true
}

// PositionOf returns the Position of a node's only result; dim is the dimension, and at returns the operands'. The
// products of extents that occur are sizes of tensors, so nothing wraps.
func PositionOf(n *ir.Node, dim sym.Expr, at func(v *ir.Value) (Position, bool)) (p Position, ok bool) {
	if len(n.Outputs) != 1 || n.Outputs[0].Type.DType != dtype.I64 || len(n.Inputs) == 0 || n.Inputs[0] == nil {
		return p, false
	}
	a, ok := at(n.Inputs[0])
	if !ok {
		return p, false
	}
	if name := n.Op.Name(); Of(n).Alias || name == "expand" || name == "cast" && n.Inputs[0].Type.DType == dtype.I64 {
		return a, true
	}
	if len(n.Inputs) != 2 || n.Inputs[1] == nil {
		return p, false
	}
	b, ok := at(n.Inputs[1])
	if !ok {
		return p, false
	}
	switch n.Op.Name() {
	case "range":
		start, from := a.exact()
		delta, by := b.exact()
		extent, _ := n.Attrs["extent"].(sym.Expr)
		switch {
		case !from || !by:
			return p, false
		case extent.Equal(dim):
			return Position{delta, start, start.Add(one)}, true
		}
		return Position{sym.Const(0), start, start.Add(delta.Mul(extent.Sub(one))).Add(one)}, true
	case "add":
		return Position{a.Step.Add(b.Step), a.Low.Add(b.Low), a.High.Add(b.High).Sub(one)}, true
	case "mul":
		factor, is := b.exact()
		if !is {
			if factor, is = a.exact(); !is {
				return p, false
			}
			a = b
		}
		return Position{a.Step.Mul(factor), a.Low.Mul(factor), a.High.Sub(one).Mul(factor).Add(one)}, true
	}
	return p, false
}

// SelectsOwn reports whether each index of a gather selects from its own entry's places of the table: the table has
// each places for an entry along axis from, the indices have their entries along axis by. It returns the result's axis.
func SelectsOwn(n *ir.Node, from, by int, each sym.Expr, index Position) (axis int, ok bool) {
	along := -1
	if n.Op.Name() == "gather" {
		along = tableAxis(n)
	}
	low, number := index.Low.Const()
	if along != from || along < 0 || !index.Step.Equal(each) || !number || low < 0 || !index.High.Equal(each) {
		return 0, false
	}
	return along + by, true
}
