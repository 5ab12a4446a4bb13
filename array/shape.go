package array

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Reshape returns x's elements, in row-major order, in another shape. One extent may be −1: it is computed from the
// others.
func (s *Scope) Reshape(x *Array, shape ...int) *Array {
	if !s.ready("reshape", []*Array{x}) {
		return s.none(1)[0]
	}
	shape = slices.Clone(shape)
	exprs, err := s.inferred(x, shape)
	if err != nil {
		return s.refuse("reshape", err)
	}
	return s.reshaped("reshape", x, shape, exprs)
}

// reshaped returns x in another shape with as many elements; outside a trace it copies.
func (s *Scope) reshaped(name string, x *Array, shape []int, exprs []sym.Expr) *Array {
	if s.trace == nil && !x.weak {
		n, err := countOf(shape)
		if err != nil {
			return s.refuse(name, err)
		}
		if n != int64(x.Len()) {
			return s.refuse(name, diag.Inputf("%v has %d elements, the shape %v has %d", x, x.Len(), shape, n))
		}
		y, err := s.empty(x.dtype, shape, false)
		if err != nil {
			return s.refuse(name, err)
		}
		copy(y.tensor.Bytes(), x.tensor.Bytes())
		return y
	}
	return s.op(name, shape, func(b *ir.Builder, v []*ir.Value) *ir.Value { return ops.Reshape(b, v[0], exprs...) }, x)
}

// inferred returns a shape's extents, of which one may be −1; it replaces the −1 in shape.
func (s *Scope) inferred(x *Array, shape []int) ([]sym.Expr, error) {
	open := slices.Index(shape, -1)
	if open < 0 {
		return s.extents(shape)
	}
	if slices.Contains(shape[open+1:], -1) {
		return nil, diag.Inputf("a shape %v: one extent may be −1, not two", shape)
	}
	rest, err := s.extents(append(slices.Clone(shape[:open]), shape[open+1:]...))
	if err != nil {
		return nil, err
	}
	from, err := s.extents(x.shape)
	if err != nil {
		return nil, err
	}
	left, err := s.quotient(x, from, rest)
	if err != nil {
		return nil, err
	}
	shape[open] = s.codeOf(left)
	return slices.Insert(rest, open, left), nil
}

// quotient returns the number of elements of x, with extents from, divided by the product of rest.
func (s *Scope) quotient(x *Array, from, rest []sym.Expr) (sym.Expr, error) {
	from, rest = slices.Clone(from), slices.Clone(rest)
	for i := len(rest) - 1; i >= 0; i-- { // named extents in both cancel out, so that they may be 0
		if at := slices.IndexFunc(from, rest[i].Equal); at >= 0 && !isNumber(rest[i]) {
			from, rest = slices.Delete(from, at, at+1), slices.Delete(rest, i, i+1)
		}
	}
	n, m := extentsProduct(from), extentsProduct(rest)
	p, fixed := n.Const()
	q, known := m.Const()
	switch {
	case known && q == 0 && fixed && p == 0:
		return n, diag.Inputf("%v, and a shape of no elements: −1 could be anything", x)
	case known && q == 0, known && fixed && p%q != 0:
		return n, diag.Inputf("%v, whose elements are not a multiple of %d", x, q)
	}
	return n.FloorDiv(m), nil
}

var one = sym.Const(1)

func isNumber(e sym.Expr) bool { _, ok := e.Const(); return ok }

// codeOf returns an extent as a number in a shape; for a named extent it is negative.
func (s *Scope) codeOf(e sym.Expr) int {
	if s.trace != nil {
		return s.trace.code(e)
	}
	n, _ := e.Const()
	return int(n)
}

// Flatten joins the axes from first on into one; Flatten(x, 0) has one axis.
func (s *Scope) Flatten(x *Array, first int) *Array {
	if !s.ready("flatten", []*Array{x}) {
		return s.none(1)[0]
	}
	at, err := axisAmong(x, first, max(len(x.shape), 1))
	if err != nil {
		return s.refuse("flatten", err)
	}
	exprs, err := s.extents(x.shape)
	if err != nil {
		return s.refuse("flatten", err)
	}
	exprs = append(slices.Clone(exprs[:at]), extentsProduct(exprs[at:]))
	return s.reshaped("flatten", x, s.codes(exprs), exprs)
}

// codes applies codeOf to each extent.
func (s *Scope) codes(exprs []sym.Expr) []int {
	out := make([]int, len(exprs))
	for i, e := range exprs {
		out[i] = s.codeOf(e)
	}
	return out
}

// ExpandDims adds axes of extent 1; axes are their indices in the result.
func (s *Scope) ExpandDims(x *Array, axes ...int) *Array {
	if !s.ready("expand_dims", []*Array{x}) {
		return s.none(1)[0]
	}
	rank := len(x.shape) + len(axes)
	shape := slices.Repeat([]int{0}, rank)
	for _, a := range axes {
		i, err := axisAmong(x, a, rank)
		if err == nil && shape[i] == 1 {
			err = diag.Inputf("axis %d is added twice", a)
		}
		if err != nil {
			return s.refuse("expand_dims", err)
		}
		shape[i] = 1
	}
	next := 0
	for i := range shape {
		if shape[i] == 0 {
			shape[i] = x.shape[next]
			next++
		}
	}
	return s.withShape("expand_dims", x, shape)
}

// withShape is reshaped for a shape of x's extents and 1s.
func (s *Scope) withShape(name string, x *Array, shape []int) *Array {
	exprs, err := s.extents(shape)
	if err != nil {
		return s.refuse(name, err)
	}
	return s.reshaped(name, x, shape, exprs)
}

// Squeeze removes axes of extent 1, all of them if none is given.
func (s *Scope) Squeeze(x *Array, axes ...int) *Array {
	if !s.ready("squeeze", []*Array{x}) {
		return s.none(1)[0]
	}
	list, err := axesOf(x, axes)
	if err != nil {
		return s.refuse("squeeze", err)
	}
	var shape []int
	for i, e := range x.shape {
		switch {
		case !slices.Contains(list, int64(i)) || len(axes) == 0 && e != 1:
			shape = append(shape, e)
		case e != 1:
			return s.refuse("squeeze", diag.Inputf("axis %d of %v is not of extent 1", i, x))
		}
	}
	return s.withShape("squeeze", x, shape)
}

// Permute reorders the axes: axis i of the result is axis perm[i] of x. Without perm the order is reversed.
func (s *Scope) Permute(x *Array, perm ...int) *Array {
	return s.plan("permute", []*Array{x}, func() ([]int, builder, error) {
		order, err := s.order(x, perm)
		ints := make([]int, len(order))
		for i, a := range order {
			ints[i] = int(a)
		}
		return ints, func(b *ir.Builder, v []*ir.Value) *ir.Value { return ops.Transpose(b, v[0], order...) }, err
	})
}

// order checks a permutation of x's axes.
func (s *Scope) order(x *Array, perm []int) ([]int64, error) {
	if perm == nil {
		for i := range x.shape {
			perm = append([]int{i}, perm...)
		}
	}
	if len(perm) != len(x.shape) {
		return nil, diag.Inputf("%v has %d axes, the order %v has %d", x, len(x.shape), perm, len(perm))
	}
	var out []int64
	for _, a := range perm {
		i, err := axisOf(x, a)
		if err == nil && slices.Contains(out, i) {
			err = diag.Inputf("the order %v has axis %d twice", perm, a)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, i)
	}
	return out, nil
}

// Transpose is Permute.
func (s *Scope) Transpose(x *Array, perm ...int) *Array { return s.Permute(x, perm...) }

// MatrixTranspose swaps the last two axes.
func (s *Scope) MatrixTranspose(x *Array) *Array { return s.SwapAxes(x, -1, -2) }

// SwapAxes swaps two axes.
func (s *Scope) SwapAxes(x *Array, first, second int) *Array {
	if !s.ready("swap_axes", []*Array{x}) {
		return s.none(1)[0]
	}
	i, err := axisOf(x, first)
	k, other := axisOf(x, second)
	if err == nil {
		err = other
	}
	if err != nil {
		return s.refuse("swap_axes", err)
	}
	perm := counted(len(x.shape))
	perm[i], perm[k] = perm[k], perm[i]
	return s.Permute(x, perm...)
}

// counted returns 0, 1, … n − 1; never nil.
func counted(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// MoveAxis moves an axis to another index; the other axes keep their order.
func (s *Scope) MoveAxis(x *Array, from, to int) *Array {
	if !s.ready("move_axis", []*Array{x}) {
		return s.none(1)[0]
	}
	i, err := axisOf(x, from)
	k, other := axisOf(x, to)
	if err == nil {
		err = other
	}
	if err != nil {
		return s.refuse("move_axis", err)
	}
	perm := slices.Delete(counted(len(x.shape)), int(i), int(i)+1)
	return s.Permute(x, slices.Insert(perm, int(k), int(i))...)
}

// BroadcastTo repeats x along its axes of extent 1, and along new axes in front.
func (s *Scope) BroadcastTo(x *Array, shape ...int) *Array {
	return s.planAt("broadcast_to", x, func() *Array { return s.broadcastAt(x, shape) }, func() ([]int, builder, error) {
		exprs, err := s.extents(shape)
		if err == nil {
			err = checkBroadcast(x, shape)
		}
		return shape, func(b *ir.Builder, v []*ir.Value) *ir.Value { return ops.Expand(b, v[0], exprs...) }, err
	})
}

// checkBroadcast returns an error if x cannot be broadcast to a shape.
func checkBroadcast(x *Array, shape []int) error {
	more := len(shape) - len(x.shape)
	for i, e := range x.shape {
		if more < 0 || e != 1 && e >= 0 && shape[more+i] >= 0 && e != shape[more+i] {
			return diag.Inputf("%v cannot be broadcast to %v", x, shape)
		}
	}
	return nil
}

// BroadcastArrays broadcasts arrays to their common shape.
func (s *Scope) BroadcastArrays(xs ...*Array) []*Array {
	if !s.ready("broadcast_arrays", xs) {
		return s.none(len(xs))
	}
	return s.many(operation{name: "broadcast_arrays", build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		out := make([]*ir.Value, len(v))
		for i := range v {
			y := v[i]
			for k := range v {
				y = ops.Expand(b, y, v[k].Type.Shape...)
			}
			out[i] = y
		}
		return out
	}}, len(xs), xs...)
}

// joint casts values to their common type.
func joint(b *ir.Builder, v []*ir.Value) []*ir.Value {
	dt := v[0].Type.DType
	for _, x := range v[1:] {
		var err error
		if dt, err = Promote(dt, x.Type.DType); err != nil {
			b.Fail(err)
		}
	}
	out := make([]*ir.Value, len(v))
	for i, x := range v {
		out[i] = ops.Cast(b, x, dt)
	}
	return out
}

// Concat joins arrays along an axis, in their common type.
func (s *Scope) Concat(axis int, xs ...*Array) *Array {
	return s.plan("concat", xs, func() ([]int, builder, error) {
		if len(xs) == 0 {
			return nil, nil, diag.Inputf("no arrays")
		}
		i, err := axisOf(xs[0], axis)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value { return ops.Concat(b, i, joint(b, v)...) }, err
	})
}

// Stack joins arrays of the same shape along a new axis, in their common type.
func (s *Scope) Stack(axis int, xs ...*Array) *Array {
	return s.plan("stack", xs, func() ([]int, builder, error) {
		if len(xs) == 0 {
			return nil, nil, diag.Inputf("no arrays")
		}
		for _, x := range xs {
			if len(x.shape) != len(xs[0].shape) {
				return nil, nil, diag.Inputf("arrays of different shapes: %v and %v", xs[0], x)
			}
		}
		i, err := axisAmong(xs[0], axis, len(xs[0].shape)+1)
		return []int{int(i)}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			v = joint(b, v)
			for k, x := range v {
				v[k] = ops.Reshape(b, x, slices.Insert(slices.Clone(x.Type.Shape), int(i), sym.Const(1))...)
			}
			return ops.Concat(b, i, v...)
		}, err
	})
}

// Split divides x along an axis into pieces of the given extents, whose sum is the axis's extent. One may be −1: it is
// computed from the others.
func (s *Scope) Split(x *Array, axis int, extents ...int) []*Array {
	if !s.ready("split", []*Array{x}) {
		return s.none(len(extents))
	}
	i, err := axisOf(x, axis)
	var exprs []sym.Expr
	if err == nil {
		exprs, err = s.pieces(x, int(i), slices.Clone(extents))
	}
	if err != nil {
		s.failAt("split", err)
		return s.none(len(extents))
	}
	if s.movable(x) {
		return s.cuts("split", x, int(i), s.codes(exprs), false)
	}
	return s.many(operation{name: "split", ints: append([]int{int(i)}, s.codes(exprs)...),
		build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
			return ops.Split(b, v[0], int(i), exprs)
		}}, len(extents), x)
}

// pieces returns the extents of a split.
func (s *Scope) pieces(x *Array, axis int, extents []int) ([]sym.Expr, error) {
	if len(extents) == 0 {
		return nil, diag.Inputf("a split into no pieces")
	}
	from, err := s.extents(x.shape[axis : axis+1])
	if err != nil {
		return nil, err
	}
	open := slices.Index(extents, -1)
	if open >= 0 {
		extents[open] = 0
	}
	exprs, err := s.extents(extents)
	if err != nil {
		return nil, err
	}
	left := from[0].Sub(sym.Sum(exprs...))
	if open >= 0 {
		exprs[open] = left
	}
	if n, known := left.Const(); known && (open < 0 && n != 0 || n < 0) {
		return nil, diag.Inputf("pieces of %v along axis %d of %v", extents, axis, x)
	}
	return exprs, nil
}

// Unstack returns the slices of x along an axis of known extent, without that axis.
func (s *Scope) Unstack(x *Array, axis int) []*Array {
	if !s.ready("unstack", []*Array{x}) {
		return nil
	}
	i, err := axisOf(x, axis)
	if err == nil && x.shape[i] < 0 {
		err = diag.Inputf("the extent of axis %d of %v is named: how many slices there are is known later", axis, x)
	}
	if err != nil {
		s.failAt("unstack", err)
		return nil
	}
	n := x.shape[i]
	if n == 0 {
		return nil
	}
	if s.movable(x) {
		return s.cuts("unstack", x, int(i), slices.Repeat([]int{1}, n), true)
	}
	return s.many(operation{name: "unstack", ints: []int{int(i), n},
		build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
			out := make([]*ir.Value, n)
			for k := range out {
				piece := ops.SliceAxis(b, v[0], int(i), sym.Const(int64(k)), sym.Const(1))
				out[k] = ops.Reshape(b, piece, slices.Delete(slices.Clone(piece.Type.Shape), int(i), int(i)+1)...)
			}
			return out
		}}, n, x)
}

// Flip reverses the order of the elements along axes, all of them if none is given.
func (s *Scope) Flip(x *Array, axes ...int) *Array {
	return s.alongAxes("flip", x, axes, func(list []int64) *Array {
		return s.flipped(x, list)
	}, func(b *ir.Builder, v *ir.Value, _ bool, axes ...int64) *ir.Value {
		begin, extent, step := make([]sym.Expr, len(v.Type.Shape)), v.Type.Shape, make([]int64, len(v.Type.Shape))
		for i := range step {
			step[i] = 1
			if n, known := extent[i].Const(); slices.Contains(axes, int64(i)) && !(known && n == 0) {
				begin[i], step[i] = extent[i].Sub(sym.Const(1)), -1
			}
		}
		return ops.Slice(b, v, begin, extent, step)
	})
}

// alongAxes is reduce for an operation that keeps the shape and only moves elements: outside a trace, now performs it.
func (s *Scope) alongAxes(name string, x *Array, axes []int, now func(axes []int64) *Array, build reduction,
	settings ...int) *Array {
	if s.ready(name, []*Array{x}) && s.movable(x) {
		list, err := axesOf(x, axes)
		if err != nil {
			return s.refuse(name, err)
		}
		return now(list)
	}
	return s.reduce(name, x, len(axes) == 0, axes, build, settings...)
}

// Roll shifts elements along axes by a number of positions; elements shifted beyond the end reappear at the beginning.
// Without axes it shifts the elements in row-major order.
func (s *Scope) Roll(x *Array, shift int, axes ...int) *Array {
	flat := len(axes) == 0
	return s.alongAxes("roll", x, axes, func(list []int64) *Array {
		return s.rolled(x, shift, list, flat)
	}, func(b *ir.Builder, v *ir.Value, _ bool, axes ...int64) *ir.Value {
		shape := v.Type.Shape
		if flat {
			v, axes = ops.Reshape(b, v, extentsProduct(shape)), []int64{0}
		}
		for _, a := range axes {
			v = roll(b, v, int(a), int64(shift))
		}
		return ops.Reshape(b, v, shape...)
	}, shift)
}

// roll builds Roll along one axis.
func roll(b *ir.Builder, v *ir.Value, axis int, shift int64) *ir.Value {
	extent := v.Type.Shape[axis]
	n, known := extent.Const()
	if known && n == 0 {
		return v
	}
	first := sym.Const(shift).Mod(extent.Max(sym.Const(1))) // the number of elements from the end
	if known {
		first = sym.Const(((shift % n) + n) % n)
	}
	pieces := []*ir.Value{ops.SliceAxis(b, v, axis, extent.Sub(first), first),
		ops.SliceAxis(b, v, axis, sym.Const(0), extent.Sub(first))}
	return ops.Concat(b, int64(axis), pieces...)
}

// Repeat repeats each element, at least once, along an axis.
func (s *Scope) Repeat(x *Array, times, axis int) *Array {
	var i int64
	return s.planAt("repeat", x, func() *Array {
		return s.repeated(x, times, int(i))
	}, func() (_ []int, _ builder, err error) {
		i, err = axisOf(x, axis)
		if err == nil && times < 1 {
			err = diag.Inputf("each element %d times", times)
		}
		return []int{int(i), times}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			each := slices.Repeat([]int64{1}, len(v[0].Type.Shape))
			each[i] = int64(times)
			return ops.Repeat(b, v[0], each)
		}, err
	})
}

// Tile repeats x along each axis the given number of times. A shorter list applies to the last axes, a longer one adds
// axes.
func (s *Scope) Tile(x *Array, times ...int) *Array {
	return s.planAt("tile", x, func() *Array { return s.tiled(x, times) }, func() ([]int, builder, error) {
		exprs, err := s.extents(times)
		return times, func(b *ir.Builder, v []*ir.Value) *ir.Value {
			one, y := sym.Const(1), v[0]
			if more := len(exprs) - len(y.Type.Shape); more > 0 {
				y = ops.Reshape(b, y, append(slices.Repeat([]sym.Expr{one}, more), y.Type.Shape...)...)
			}
			exprs := append(slices.Repeat([]sym.Expr{one}, len(y.Type.Shape)-len(exprs)), exprs...)
			return ops.Tile(b, y, exprs)
		}, err
	})
}
