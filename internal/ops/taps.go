package ops

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// tap is one element of an axis that a sample between elements is made of: its position, its weight, and where it may
// lie outside, whether it does not.
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

// within names a position that has been brought into its range: no run is ever ended by it.
const within = "a position of a sample"

// extentAs is an extent as a value of a type.
func extentAs(dt dtype.DType, e sym.Expr) loop.Expr {
	if v, ok := e.Const(); ok {
		return loop.Number(dt, float64(v))
	}
	return loop.Convert(dt, loop.At(e))
}

// whole makes an integer of a float that is one, or is not a number of the range by far: those beyond [-reach, extent +
// reach], and NaN, become a position outside.
func (k *Nest) whole(x loop.Expr, extent sym.Expr, reach int64) loop.Expr {
	low, high := like(x, float64(-reach)), extentAs(x.DType(), extent.Add(sym.Const(reach)))
	x = loop.Choose(less(x, high), loop.Choose(less(low, x), x, low), high)
	return k.Let("base", loop.Convert(dtype.I64, x))
}

// wholeOf is whole for the reference.
func wholeOf(x float64, extent, reach int64) int64 {
	switch {
	case !(x < float64(extent+reach)):
		return extent + reach
	case x <= float64(-reach):
		return -reach
	}
	return int64(x)
}

// clamped brings an i64 position into [0, extent).
func (k *Nest) clamped(at loop.Expr, extent sym.Expr) sym.Expr {
	at = loop.Apply2(loop.Max, loop.Apply2(loop.Min, at, loop.At(extent.Sub(one))), loop.Integer(dtype.I64, 0))
	return k.Check("p", at, sym.Const(0), extent.Sub(one), within)
}

// insideOf is the test that an i64 position lies in [0, extent).
func insideOf(at loop.Expr, extent sym.Expr) loop.Expr {
	return loop.Apply2(loop.And, loop.Apply2(loop.Le, loop.Integer(dtype.I64, 0), at), less(at, loop.At(extent)))
}

// corner is one element of a sample over several axes: a tap from each.
type corner struct {
	at     []sym.Expr
	weight loop.Expr // nil: 1
	inside loop.Expr // nil: always
}

// corners are all combinations of one tap from each axis, with the product of their weights in type dt.
func (k *Nest) corners(dt dtype.DType, axes [][]tap) []corner {
	list := []corner{{}}
	for i, taps := range axes {
		var next []corner
		for _, c := range list {
			for _, t := range taps {
				n := corner{at: append(append([]sym.Expr{}, c.at...), t.at), weight: c.weight, inside: bothTrue(c.inside, t.inside)}
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

// weighed is the sum of the corners' elements of a channel of an image of x, in type dt, each by its weight. The
// channels are axis of x, behind which or before which are the corners' axes. Corners outside count as zero.
func weighed(x *loop.Memory, dt dtype.DType, image, channel sym.Expr, axis int, corners []corner) loop.Expr {
	var sum loop.Expr
	for _, c := range corners {
		index := slices.Insert(append([]sym.Expr{image}, c.at...), axis, channel)
		part := loop.Convert(dt, x.Load(index...))
		if c.inside != nil {
			part = loop.Convert(dt, x.LoadIf(c.inside, loop.Number(x.DType, 0), index...))
		}
		if c.weight != nil {
			part = times(c.weight, part)
		}
		if sum == nil {
			sum = part
		} else {
			sum = plus(sum, part)
		}
	}
	return sum
}

// weighedOf is weighed for the reference: from is where the first axis of axes begins in x. The order of the steps is
// the same, since integers are cut off at the end.
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

// rounding is the rounding of a computation's steps to a type of 32 or 64 bits.
func rounding(dt dtype.DType) func(float64) float64 {
	if dt == dtype.F64 {
		return func(x float64) float64 { return x }
	}
	return func(x float64) float64 { return float64(float32(x)) }
}

// linearTaps are the two elements around a position given as a float: the nearer the heavier, nothing outside.
func (k *Nest) linearTaps(x loop.Expr, extent sym.Expr) []tap {
	floor := k.Let("floor", loop.Apply(loop.Floor, x))
	upper := k.Let("w", minus(x, floor))
	base := k.whole(floor, extent, 2)
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
	base := wholeOf(floor, extent, 2)
	return []tapOf{tapOfAt(base, extent, round(1-upper)), tapOfAt(base+1, extent, upper)}
}

// tapOfAt is a tap that counts only inside.
func tapOfAt(at, extent int64, weight float64) tapOf {
	return tapOf{at: min(max(at, 0), extent-1), weight: weight, inside: at >= 0 && at < extent}
}
