package array

import (
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The operations of this file order NaN after all numbers, and keep the order of equal elements.

// topk returns the first k elements along an axis in order, and their indices.
func topk(b *ir.Builder, v *ir.Value, k sym.Expr, axis int64, largest bool) (values, indices *ir.Value) {
	values, indices = ops.TopK(b, asNumber(b, v), k, axis, largest)
	return ops.Cast(b, values, v.Type.DType), indices
}

// Sort sorts the elements along an axis in ascending order.
func (s *Scope) Sort(x *Array, axis int) *Array { return s.sorted("sort", x, axis, false, false) }

// SortDescending sorts the elements along an axis in descending order.
func (s *Scope) SortDescending(x *Array, axis int) *Array {
	return s.sorted("sort", x, axis, true, false)
}

// ArgSort returns the indices along an axis, i64, of the elements of Sort.
func (s *Scope) ArgSort(x *Array, axis int) *Array { return s.sorted("argsort", x, axis, false, true) }

// ArgSortDescending returns the indices along an axis, i64, of the elements of SortDescending.
func (s *Scope) ArgSortDescending(x *Array, axis int) *Array {
	return s.sorted("argsort", x, axis, true, true)
}

// sorted sorts along an axis; if positions is true, it returns indices.
func (s *Scope) sorted(name string, x *Array, axis int, descending, positions bool) *Array {
	return s.plan(name, []*Array{x}, func() ([]int, builder, error) {
		i, err := axisOf(x, axis)
		return []int{int(i), flag(descending)}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			values, indices := topk(b, v[0], v[0].Type.Shape[i], i, descending)
			if positions {
				return indices
			}
			return values
		}, err
	})
}

// TopK returns the k greatest elements along an axis, greatest first, and their indices, i64.
func (s *Scope) TopK(x *Array, k, axis int) (values, indices *Array) {
	if !s.ready("topk", []*Array{x}) {
		return s.none(1)[0], s.none(1)[0]
	}
	i, err := axisOf(x, axis)
	if err == nil {
		_, err = s.extents([]int{k})
	}
	if err == nil && k >= 0 && x.shape[i] >= 0 && k > x.shape[i] {
		err = diag.Inputf("%d elements of axis %d of %v", k, axis, x)
	}
	if err != nil {
		return s.refuse("topk", err), s.none(1)[0]
	}
	with := func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, _ []number) []*ir.Value {
		values, indices := topk(b, v[0], sizes[0], i, true)
		return []*ir.Value{values, indices}
	}
	out := s.many(operation{name: "topk", ints: []int{int(i)}, settings: settings{sizes: []int{k}, with: with}}, 2, x)
	return out[0], out[1]
}

// ArgMax returns the index of the greatest element along an axis, i64; of several, the first.
func (s *Scope) ArgMax(x *Array, axis int) *Array { return s.extreme("argmax", x, axis, false) }

// ArgMin returns the index of the least element along an axis, i64; of several, the first.
func (s *Scope) ArgMin(x *Array, axis int) *Array { return s.extreme("argmin", x, axis, true) }

// extreme is ArgMin if least is true, else ArgMax.
func (s *Scope) extreme(name string, x *Array, axis int, least bool) *Array {
	return s.along(name, x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		return ops.ArgMax(b, asNumber(b, v), axis, least, false, false)
	})
}

// Nonzero returns the indices of the elements that are true, or not 0: one i64[n] for each axis. Data decide n: in a
// trace the extent is named, and at most the number of elements.
func (s *Scope) Nonzero(x *Array) []*Array {
	if !s.ready("nonzero", []*Array{x}) {
		return nil
	}
	rank := len(x.shape)
	if rank == 0 {
		s.failAt("nonzero", diag.Inputf("%v has no axis", x))
		return nil
	}
	return s.many(operation{name: "nonzero", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		return rows(b, ops.NonZero(b, asBool(b, v[0])))
	}}, rank, x)
}

// rows returns the rows of a matrix.
func rows(b *ir.Builder, v *ir.Value) []*ir.Value {
	n, _ := v.Type.Shape[0].Const()
	out := make([]*ir.Value, n)
	for i := range out {
		out[i] = ops.Reshape(b, ops.SliceAxis(b, v, 0, sym.Const(int64(i)), one), v.Type.Shape[1])
	}
	return out
}

// fewKeys is the largest number of keys that SearchSorted compares one by one.
const fewKeys = 16

// SearchSorted returns, for each element of x, the index, i64, at which it could be inserted into keys, a vector in
// ascending order: before keys that equal it, or after them if right is true.
func (s *Scope) SearchSorted(keys, x *Array, right bool) *Array {
	return s.plan("searchsorted", []*Array{keys, x}, func() ([]int, builder, error) {
		if len(keys.shape) != 1 {
			return nil, nil, diag.Inputf("keys %v; they are a vector", keys)
		}
		steps := mostSteps
		if n := keys.shape[0]; n >= 0 {
			for steps = 1; n>>steps > 0; {
				steps++
			}
		}
		return []int{flag(right), steps}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			p, q := common(b, v[0], v[1])
			if n, known := p.Type.Shape[0].Const(); known && n <= fewKeys {
				return countBefore(calc{b}, p, q, right)
			}
			return bisect(calc{b}, p, q, steps, right)
		}, nil
	})
}

// mostSteps is the number of bits that bisect examines if the number of keys is a named extent.
const mostSteps = 32

// before tells whether keys come before elements: they are less or, if right is true, equal.
func before(c calc, key, x *ir.Value, right bool) *ir.Value {
	f, g := ops.Lt, ops.Le
	yes := c.g(f, key, x)
	if right {
		yes = c.g(g, key, x)
	}
	if !x.Type.DType.IsFloat() {
		return yes
	}
	missing := c.f(ops.IsNaN, x)
	if !right {
		missing = c.g(ops.And, missing, c.f(ops.Not, c.f(ops.IsNaN, key)))
	}
	return c.g(ops.Or, yes, missing)
}

// countBefore counts the keys before each element.
func countBefore(c calc, keys, x *ir.Value, right bool) *ir.Value {
	shape := slices.Concat(x.Type.Shape, []sym.Expr{one})
	yes := before(c, keys, ops.Reshape(c.b, x, shape...), right)
	return ops.ReduceSum(c.b, ops.Cast(c.b, yes, weir.I64), false, int64(len(shape)-1))
}

// bisect finds the number of keys before each element by binary search, in the given number of steps.
func bisect(c calc, keys, x *ir.Value, steps int, right bool) *ir.Value {
	extent := keys.Type.Shape[0]
	if _, known := extent.Const(); !known { // there may be none: the key added at the end is never counted
		keys = ops.Concat(c.b, 0, keys, ops.Expand(c.b, numeral(c.b, keys, 0), one))
	}
	count := ops.Reshape(c.b, ops.Integers(c.b, ir.Type{DType: weir.I64, Shape: []sym.Expr{one}}, []sym.Expr{extent}))
	found := ops.Expand(c.b, ops.Scalar(c.b, weir.I64, 0), x.Type.Shape...)
	unit := ops.Scalar(c.b, weir.I64, 1)
	last := c.g(ops.Max, c.sub(count, unit), ops.Scalar(c.b, weir.I64, 0))
	for bit := int64(1) << (steps - 1); bit > 0; bit /= 2 {
		next := c.add(found, ops.Scalar(c.b, weir.I64, float64(bit)))
		at := c.g(ops.Min, c.sub(next, unit), last)
		yes := before(c, ops.Gather(c.b, keys, at, 0), x, right)
		yes = c.g(ops.And, yes, c.g(ops.Le, next, count))
		found = c.where(yes, next, found)
	}
	return found
}

// UniqueValues returns the distinct elements of x in ascending order. Data decide their number: see Nonzero.
func (s *Scope) UniqueValues(x *Array) *Array { return s.unique(x)[0] }

// UniqueCounts returns UniqueValues, and the number of occurrences of each, i64.
func (s *Scope) UniqueCounts(x *Array) (values, counts *Array) {
	out := s.unique(x)
	return out[0], out[3]
}

// UniqueInverse returns UniqueValues, and for each element of x its index among them, i64 of x's shape.
func (s *Scope) UniqueInverse(x *Array) (values, inverse *Array) {
	out := s.unique(x)
	return out[0], out[2]
}

// UniqueAll returns UniqueValues; the index of the first occurrence of each in x's row-major order; for each element of
// x its index among the values; and the number of occurrences of each.
func (s *Scope) UniqueAll(x *Array) (values, indices, inverse, counts *Array) {
	out := s.unique(x)
	return out[0], out[1], out[2], out[3]
}

// unique returns the results of UniqueAll.
func (s *Scope) unique(x *Array) []*Array {
	if !s.ready("unique", []*Array{x}) {
		return s.none(4)
	}
	return s.many(operation{name: "unique", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		flat := ops.Reshape(b, asNumber(b, v[0]), extentsProduct(v[0].Type.Shape))
		values, indices, inverse, counts := ops.Unique(b, flat, 0, true)
		return []*ir.Value{ops.Cast(b, values, v[0].Type.DType), indices, ops.Reshape(b, inverse, v[0].Type.Shape...), counts}
	}}, 4, x)
}
