package array

import (
	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Take is the slices of x along an axis that the indices, integers, number; negative ones count from the end. The indices'
// axes stand where the axis was. An index that x does not have is an error when the operation runs.
func (s *Scope) Take(x, indices *Array, axis int) *Array {
	return s.indexed("take", x, indices, axis, ops.Gather)
}

// TakeAlong is one element of x for each index: that at the index's own position, with the index in place of the axis.
func (s *Scope) TakeAlong(x, indices *Array, axis int) *Array {
	return s.indexed("take_along", x, indices, axis, ops.GatherElements)
}

// indexed applies an operation on indices along an axis.
func (s *Scope) indexed(name string, x, indices *Array, axis int, f func(b *ir.Builder, x, indices *ir.Value, axis int64) *ir.Value) *Array {
	return s.plan(name, []*Array{x, indices}, func() ([]int, builder, error) {
		if !indices.weak && !indices.dtype.IsInt() {
			return nil, nil, wrongType(indices, "integers")
		}
		i, err := axisOf(x, axis)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value { return f(b, v[0], wideIndex(b, v[1]), i) }, err
	})
}

// wideIndex is indices of a type that gathers take.
func wideIndex(b *ir.Builder, v *ir.Value) *ir.Value {
	if dt := v.Type.DType; dt == weir.I32 || dt == weir.I64 {
		return v
	}
	return ops.Cast(b, v, weir.I64)
}

// Embedding is the rows of table, [n, d…], that ids, integers of any shape, number.
func (s *Scope) Embedding(table, ids *Array) *Array { return s.Take(table, ids, 0) }

// OneHot has a new last axis of so many classes: 1 at the index, else 0. An index that is no class has zeros.
func (s *Scope) OneHot(indices *Array, classes int, dt weir.DType) *Array {
	return s.plan("one_hot", []*Array{indices}, func() ([]int, builder, error) {
		if !indices.weak && !indices.dtype.IsInt() {
			return nil, nil, wrongType(indices, "integers")
		}
		exprs, err := s.extents([]int{classes})
		if err == nil && classes == 0 {
			err = diag.Inputf("0 classes")
		}
		return []int{classes, int(dt)}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			places := ops.Counting(b, weir.I64, exprs[0])
			index := ops.Cast(b, v[0], weir.I64)
			index = ops.Reshape(b, index, append(append(exprs[:0:0], index.Type.Shape...), one)...)
			return ops.Cast(b, ops.Binary(b, ops.Eq, index, places), dt)
		}, err
	})
}
