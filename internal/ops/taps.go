package ops

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// tap is one element of an axis that an interpolated sample is computed from: its position, its weight, and whether it
// lies inside.
type tap struct {
	at     sym.Expr
	weight loop.Expr // nil: 1
	inside loop.Expr // nil: always
}

// tapOf is tap for the reference.
type tapOf struct {
	at     int64
	weight float64
	inside bool
}

// within names a position that has been clamped to its range, so that the check never ends a run.
const within = "a position of a sample"

// extentAs returns an extent as a value of a type.
func extentAs(dt dtype.DType, e sym.Expr) loop.Expr {
	if v, ok := e.Const(); ok {
		return loop.Number(dt, float64(v))
	}
	return loop.Convert(dt, loop.At(e))
}

// boundedInteger converts a float without fraction to an integer. Floats outside [-reach, extent + reach], and NaN,
// become a position outside [0, extent).
func (k *Nest) boundedInteger(x loop.Expr, extent sym.Expr, reach int64) loop.Expr {
	low, high := like(x, float64(-reach)), extentAs(x.DType(), extent.Add(sym.Const(reach)))
	x = loop.Choose(less(x, high), loop.Choose(less(low, x), x, low), high)
	return k.Let("base", loop.Convert(dtype.I64, x))
}

// boundedIntegerOf is boundedInteger for the reference.
func boundedIntegerOf(x float64, extent, reach int64) int64 {
	switch {
	case !(x < float64(extent+reach)):
		return extent + reach
	case x <= float64(-reach):
		return -reach
	}
	return int64(x)
}

// clamped clamps an i64 position to [0, extent).
func (k *Nest) clamped(at loop.Expr, extent sym.Expr) sym.Expr {
	at = loop.Apply2(loop.Max, loop.Apply2(loop.Min, at, loop.At(extent.Sub(one))), loop.Integer(dtype.I64, 0))
	return k.Check("p", at, sym.Const(0), extent.Sub(one), within)
}

// insideOf tests whether an i64 position lies in [0, extent).
func insideOf(at loop.Expr, extent sym.Expr) loop.Expr {
	return loop.Apply2(loop.And, loop.Apply2(loop.Le, loop.Integer(dtype.I64, 0), at), less(at, loop.At(extent)))
}

// corner is one element of a sample over several axes: a tap from each.
type corner struct {
	at     []sym.Expr
	weight loop.Expr // nil: 1
	inside loop.Expr // nil: always
}

// corners returns all combinations of one tap from each axis, with the products of their weights in type dt.
func (k *Nest) corners(dt dtype.DType, axes [][]tap) []corner {
	list := []corner{{}}
	for i, taps := range axes {
		var next []corner
		for _, c := range list {
			for _, t := range taps {
				n := corner{at: append(append([]sym.Expr{}, c.at...), t.at), weight: c.weight,
					inside: loop.Both(c.inside, t.inside)}
				if t.weight != nil {
					n.weight = loop.Convert(dt, t.weight)
				}
				if c.weight != nil && t.weight != nil {
					n.weight = k.Let("w", times(c.weight, n.weight))
				}
				if i > 0 && n.inside != nil {
					n.inside = k.Let("inside", n.inside)
				}
				next = append(next, n)
			}
		}
		list = next
	}
	return list
}

// weighed returns the weighted sum of the corners' elements in one channel of an image of x, in type dt. The channels
// are axis `axis` of x, before or after the corners' axes. Corners outside count as 0.
func weighed(x *loop.Memory, dt dtype.DType, image, channel sym.Expr, axis int, corners []corner) loop.Expr {
	var sum loop.Expr
	for _, c := range corners {
		index := slices.Insert(append([]sym.Expr{image}, c.at...), axis, channel)
		term := loop.Convert(dt, x.Load(index...))
		if c.inside != nil {
			term = loop.Convert(dt, x.LoadIf(c.inside, loop.Number(x.DType, 0), index...))
		}
		if c.weight != nil {
			term = times(c.weight, term)
		}
		if sum == nil {
			sum = term
		} else {
			sum = plus(sum, term)
		}
	}
	return sum
}

// weighedOf is weighed for the reference; from is the flat index in x at which the first axis of axes begins. The order
// of the operations is the same, since integers are truncated at the end.
func weighedOf(x *tensor.Tensor, strides []int64, from int64, axes [][]tapOf) float64 {
	sum := 0.0
	var visit func(axis int, from int64, weight float64, inside bool)
	visit = func(axis int, from int64, weight float64, inside bool) {
		if axis < len(axes) {
			for _, t := range axes[axis] {
				visit(axis+1, from+t.at*strides[axis], weight*t.weight, inside && t.inside)
			}
			return
		}
		v := 0.0
		if inside {
			v = x.Float(from)
		}
		sum += weight * v
	}
	visit(0, from, 1, true)
	return sum
}

// rounding returns the function that rounds each step of a computation to a type of 32 or 64 bits.
func rounding(dt dtype.DType) func(float64) float64 {
	if dt == dtype.F64 {
		return func(x float64) float64 { return x }
	}
	return func(x float64) float64 { return float64(float32(x)) }
}

// linearTaps returns the two elements around a position x, weighted by their nearness; outside counts as 0.
func (k *Nest) linearTaps(x loop.Expr, extent sym.Expr) []tap {
	floor := k.Let("floor", loop.Apply(loop.Floor, x))
	upper := k.Let("w", minus(x, floor))
	base := k.boundedInteger(floor, extent, 2)
	next := plus(base, loop.Integer(dtype.I64, 1))
	return []tap{
		{at: k.clamped(base, extent), weight: minus(like(x, 1), upper), inside: insideOf(base, extent)},
		{at: k.clamped(next, extent), weight: upper, inside: insideOf(next, extent)},
	}
}

// linearTapsOf is linearTaps for the reference.
func linearTapsOf(x float64, extent int64, round func(float64) float64) []tapOf {
	floor := math.Floor(x)
	upper := round(x - floor)
	base := boundedIntegerOf(floor, extent, 2)
	return []tapOf{tapOfAt(base, extent, round(1-upper)), tapOfAt(base+1, extent, upper)}
}

// tapOfAt returns a tap that counts only if its position lies inside.
func tapOfAt(at, extent int64, weight float64) tapOf {
	return tapOf{at: min(max(at, 0), extent-1), weight: weight, inside: at >= 0 && at < extent}
}
