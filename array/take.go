package array

import (
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Take returns the slices of x along an axis at the indices, which are integers; negative ones count from the end. The
// axis is replaced by the indices' axes. An index out of range is an error when the operation runs.
func (s *Scope) Take(x, indices *Array, axis int) *Array {
	return s.indexed("take", x, indices, axis, ops.Gather)
}

// TakeAlong returns one element of x for each index: the element at the index's own position, with its coordinate along
// the axis replaced by the index.
func (s *Scope) TakeAlong(x, indices *Array, axis int) *Array {
	return s.indexed("take_along", x, indices, axis, ops.GatherElements)
}

// indexed applies an operation on indices along an axis.
func (s *Scope) indexed(name string, x, indices *Array, axis int,
	f func(b *ir.Builder, x, indices *ir.Value, axis int64) *ir.Value) *Array {
	return s.plan(name, []*Array{x, indices}, func() ([]int, builder, error) {
		if !indices.weak && !indices.dtype.IsInt() {
			return nil, nil, wrongType(indices, "integers")
		}
		i, err := axisOf(x, axis)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value { return f(b, v[0], wideIndex(b, v[1]), i) }, err
	})
}

// wideIndex casts indices to a type that gathers accept.
func wideIndex(b *ir.Builder, v *ir.Value) *ir.Value {
	if dt := v.Type.DType; dt == weir.I32 || dt == weir.I64 {
		return v
	}
	return ops.Cast(b, v, weir.I64)
}

// Embedding returns the rows of table[n, d…] at ids, integers of any shape.
func (s *Scope) Embedding(table, ids *Array) *Array { return s.Take(table, ids, 0) }

// OneHot adds a last axis with an element for each class: 1 at the index, 0 elsewhere. An index outside of the classes
// gives zeros.
func (s *Scope) OneHot(indices *Array, classes int, dt weir.DType) *Array {
	return s.planSet("one_hot", []*Array{indices}, func() (operation, setBuilder, error) {
		if !indices.weak && !indices.dtype.IsInt() {
			return operation{}, nil, wrongType(indices, "integers")
		}
		_, err := s.extents([]int{classes})
		if err == nil && classes == 0 {
			err = diag.Inputf("0 classes")
		}
		o := operation{ints: []int{int(dt)}, settings: settings{sizes: []int{classes}}}
		return o, func(b *ir.Builder, v []*ir.Value, sizes []sym.Expr, _ []number) *ir.Value {
			classNumbers := ops.Counting(b, weir.I64, sizes[0])
			index := ops.Cast(b, v[0], weir.I64)
			index = ops.Reshape(b, index, append(slices.Clone(index.Type.Shape), one)...)
			return ops.Cast(b, ops.Binary(b, ops.Eq, index, classNumbers), dt)
		}, err
	})
}

// PutAlong returns x with values, of the shape of indices, written: each at its own position, with its coordinate along
// the axis replaced by its index. Of several values for one element, the last along the axis remains.
func (s *Scope) PutAlong(x, indices, values *Array, axis int) *Array {
	return s.plan("put_along", []*Array{x, indices, values}, func() ([]int, builder, error) {
		if indices.weak || !indices.dtype.IsInt() {
			return nil, nil, wrongType(indices, "integers")
		}
		i, err := axisOf(x, axis)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			values := ops.Expand(b, ops.Cast(b, v[2], v[0].Type.DType), v[1].Type.Shape...)
			return ops.ScatterElements(b, v[0], wideIndex(b, v[1]), values, i, "none")
		}, err
	})
}

// Pad adds elements, all equal to number, before and after each axis: widths has a pair for each axis.
func (s *Scope) Pad(x *Array, number float64, widths ...[2]int) *Array {
	return s.planAt("pad", x, func() *Array { return s.padded(x, number, widths) }, func() ([]int, builder, error) {
		ints := bits(number)
		var begin, end []sym.Expr
		for _, w := range widths {
			if w[0] < 0 || w[1] < 0 {
				return nil, nil, diag.Inputf("widths of %v: they are at least 0", w)
			}
			ints = append(ints, w[0], w[1])
			begin, end = append(begin, sym.Const(int64(w[0]))), append(end, sym.Const(int64(w[1])))
		}
		if len(widths) != len(x.shape) {
			return nil, nil, diag.Inputf("%d pairs of widths for %v", len(widths), x)
		}
		return ints, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			return ops.Pad(b, v[0], numeral(b, v[0], number), "constant", begin, end)
		}, nil
	})
}

// Diff returns the differences between neighbours along an axis, each element minus the one before it. The axis has one
// element less.
func (s *Scope) Diff(x *Array, axis int) *Array {
	return s.along("diff", x, axis, func(b *ir.Builder, v *ir.Value, axis int64) *ir.Value {
		rest := v.Type.Shape[axis].Sub(one).Max(sym.Const(0))
		first := sym.Const(1).Min(v.Type.Shape[axis])
		return ops.Binary(b, ops.Sub, ops.SliceAxis(b, v, int(axis), first, rest),
			ops.SliceAxis(b, v, int(axis), sym.Const(0), rest))
	})
}
