package torch

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.embedding.default": embedding, "aten.index_select.default": indexSelect, "aten.gather.default": gather,
		"aten.index.Tensor": index, "aten.index_put.default": indexPut, "aten.nonzero.default": nonzero,
		"aten.masked_select.default": maskedSelect, "aten.item.default": item, "aten._local_scalar_dense.default": item,
		"aten.masked_scatter.default": maskedScatter, "aten.as_strided.default": strided, "aten.unfold.default": unfold,
	})
}

func embedding(c *call) []*ir.Value {
	return one(ops.Gather(c.Builder, c.tensor("weight"), c.positions("indices"), 0))
}

// positions returns a tensor of indices that do not count from the end: a negative one is out of range.
func (c *call) positions(name string) *ir.Value {
	at := c.tensor(name)
	known := c.all(at, func(e sym.Expr) bool { return c.Dims().LE(sym.Const(0), e) == sym.Yes })
	if known || !at.Type.DType.IsInt() || !at.Type.DType.IsSigned() {
		return at
	}
	return ops.Cast(c.Builder, ops.Cast(c.Builder, at, dtype.I64), dtype.U64)
}

// all reports whether each element of a tensor is known and ok.
func (c *call) all(x *ir.Value, ok func(e sym.Expr) bool) bool {
	known, certain := c.Knows(x)
	return certain && known != nil && !slices.ContainsFunc(known, func(e sym.Expr) bool { return !ok(e) })
}

// indexSelect is a rule for the slices of self at the indices of a vector along an axis.
func indexSelect(c *call) []*ir.Value {
	x := c.tensor("self")
	if len(x.Type.Shape) == 0 {
		return one(ops.Reshape(c.Builder, ops.Gather(c.Builder, ops.Reshape(c.Builder, x, unit), c.positions("index"), 0)))
	}
	return one(ops.Gather(c.Builder, x, c.positions("index"), int64(c.axis("dim", 0, len(x.Type.Shape)))))
}

// withAxis returns a tensor with at least one axis: a scalar becomes a vector of one element.
func (c *call) withAxis(x *ir.Value) *ir.Value {
	if len(x.Type.Shape) > 0 {
		return x
	}
	return ops.Reshape(c.Builder, x, unit)
}

// isEmpty reports whether a tensor is known to have no elements.
func (c *call) isEmpty(x *ir.Value) bool {
	n, ok := product(x.Type.Shape).Const()
	return ok && n == 0
}

// gather is a rule for the elements of self at index along an axis.
func gather(c *call) []*ir.Value {
	x, at := c.tensor("self"), c.positions("index")
	axis := int64(c.axis("dim", 0, len(x.Type.Shape)))
	if c.isEmpty(at) { // the indices may have another rank then
		return one(ops.Expand(c.Builder, c.constantOf(x.Type.DType, 0), at.Type.Shape...))
	}
	y := ops.GatherElements(c.Builder, c.withAxis(x), c.withAxis(at), axis)
	return one(ops.Reshape(c.Builder, y, at.Type.Shape...))
}

// nonzero is a rule for the indices of the elements that are not zero, [count, rank].
func nonzero(c *call) []*ir.Value {
	x := c.tensor("self")
	at := ops.NonZero(c.Builder, c.withAxis(x))
	if len(x.Type.Shape) == 0 {
		return one(ops.Reshape(c.Builder, ops.SliceAxis(c.Builder, at, 0, sym.Const(0), sym.Const(0)), at.Type.Shape[1],
			sym.Const(0)))
	}
	return one(ops.Transpose(c.Builder, at, 1, 0))
}

// stacked stacks n index tensors, broadcast to one shape, along a new last axis: [..., n].
func (c *call) stacked(indices []*ir.Value) *ir.Value {
	all := indices[0]
	for _, v := range indices[1:] {
		all = c.binary(ops.Add, all, c.binary(ops.Mul, v, c.like(v, 0)))
	}
	shape := append(append([]sym.Expr{}, all.Type.Shape...), unit)
	list := make([]*ir.Value, len(indices))
	for i, v := range indices {
		list[i] = ops.Reshape(c.Builder, ops.Expand(c.Builder, v, all.Type.Shape...), shape...)
	}
	return ops.Concat(c.Builder, int64(len(shape)-1), list...)
}

// indexed has the index tensors of a node, counted from 0, and their axes.
type indexed struct {
	indices []*ir.Value
	axes    []int // of each index tensor, in ascending order
}

// front returns the first axis of the index tensors' shape in the result: the first indexed axis if the indexed axes
// are adjacent, otherwise 0.
func (x indexed) front() int {
	if x.axes[len(x.axes)-1]-x.axes[0] == len(x.axes)-1 {
		return x.axes[0]
	}
	return 0
}

// perm returns the permutation that moves the indexed axes to the front.
func (x indexed) perm(rank int) []int64 {
	var perm []int64
	for _, axis := range x.axes {
		perm = append(perm, int64(axis))
	}
	for i := range rank {
		if !slices.Contains(x.axes, i) {
			perm = append(perm, int64(i))
		}
	}
	return perm
}

// isMask reports whether an index is a mask, which selects the indices of its true elements.
func isMask(v *ir.Value) bool { return v.Type.DType == dtype.Bool || v.Type.DType == dtype.U8 }

// indices returns the index tensors of a node. A mask becomes an index for each of its axes, whose length data decide.
func (c *call) indices(x *ir.Value) (found indexed) {
	axis := 0
	for _, v := range c.optionals("indices") {
		if v == nil {
			axis++
			continue
		}
		list := []*ir.Value{v}
		if isMask(v) {
			list = c.trues(v)
		}
		for _, v := range list {
			if axis >= len(x.Type.Shape) {
				c.Fail(diag.Inputf("more indices than %s has axes", x.Type))
			}
			v = ops.Cast(c.Builder, v, dtype.I64)
			extent := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{x.Type.Shape[axis]})
			v = ops.Where(c.Builder, c.binary(ops.Lt, v, c.like(v, 0)), c.binary(ops.Add, v, extent), v)
			found.indices, found.axes = append(found.indices, v), append(found.axes, axis)
			axis++
		}
	}
	if len(found.axes) == 0 {
		c.Fail(diag.Inputf("no index is given"))
	}
	return found
}

// trues returns the indices of a mask's true elements, a vector for each axis.
func (c *call) trues(mask *ir.Value) (list []*ir.Value) {
	if len(mask.Type.Shape) == 0 {
		c.Fail(diag.Unsupportedf("a mask without axes as an index"))
	}
	at := ops.NonZero(c.Builder, ops.Cast(c.Builder, mask, dtype.Bool))
	for i := range mask.Type.Shape {
		row := ops.SliceAxis(c.Builder, at, 0, sym.Const(int64(i)), unit)
		list = append(list, ops.Reshape(c.Builder, row, at.Type.Shape[1]))
	}
	return list
}

// index is a rule for the elements of self at index tensors.
func index(c *call) []*ir.Value {
	x := c.tensor("self")
	at := c.indices(x)
	if len(at.indices) == 1 {
		return one(ops.Gather(c.Builder, x, at.indices[0], int64(at.axes[0])))
	}
	positions := c.stacked(at.indices)
	y := ops.GatherND(c.Builder, ops.Transpose(c.Builder, x, at.perm(len(x.Type.Shape))...), positions, 0)
	return one(c.moveAxes(y, 0, at.front(), len(positions.Type.Shape)-1))
}

// moveAxes moves the count axes that begin at axis from, so that they begin at axis to.
func (c *call) moveAxes(x *ir.Value, from, to, count int) *ir.Value {
	if from == to || count == 0 {
		return x
	}
	var axes, others []int64
	for i := range x.Type.Shape {
		if i >= from && i < from+count {
			axes = append(axes, int64(i))
		} else {
			others = append(others, int64(i))
		}
	}
	return ops.Transpose(c.Builder, x, slices.Insert(others, to, axes...)...)
}

// indexPut is a rule that stores values at index tensors, or adds them.
func indexPut(c *call) []*ir.Value {
	x := c.tensor("self")
	values := ops.Cast(c.Builder, c.tensor("values"), x.Type.DType)
	if list := c.optionals("indices"); len(list) == 1 && list[0] != nil && isMask(list[0]) {
		if n, ok := product(values.Type.Shape).Const(); ok && n == 1 {
			return one(c.putMasked(x, list[0], ops.Reshape(c.Builder, values)))
		}
	}
	at := c.indices(x)
	perm := at.perm(len(x.Type.Shape))
	turned, positions := ops.Transpose(c.Builder, x, perm...), c.stacked(at.indices)
	indexAxes, front := len(positions.Type.Shape)-1, at.front()
	rest := turned.Type.Shape[len(at.indices):]
	shape := append(append([]sym.Expr{}, rest[:front]...), positions.Type.Shape[:indexAxes]...)
	values = ops.Expand(c.Builder, values, append(shape, rest[front:]...)...)
	turned = c.scatteredSlices(turned, positions, c.moveAxes(values, front, 0, indexAxes), c.bool("accumulate", false))
	back := make([]int64, len(perm))
	for i, axis := range perm {
		back[axis] = int64(i)
	}
	return one(ops.Transpose(c.Builder, turned, back...))
}

// putMasked stores one number at the true elements of a mask of the first axes, or adds it.
func (c *call) putMasked(x, mask, value *ir.Value) *ir.Value {
	shape := append([]sym.Expr{}, mask.Type.Shape...)
	for len(shape) < len(x.Type.Shape) {
		shape = append(shape, unit)
	}
	if c.bool("accumulate", false) {
		value = c.sumOf(x, value)
	}
	return ops.Where(c.Builder, ops.Reshape(c.Builder, ops.Cast(c.Builder, mask, dtype.Bool), shape...), value, x)
}

// sumOf returns the sum; of bools, the disjunction.
func (c *call) sumOf(x, y *ir.Value) *ir.Value {
	if x.Type.DType == dtype.Bool {
		return c.binary(ops.Or, x, y)
	}
	return c.binary(ops.Add, x, y)
}

// scatteredSlices replaces slices of x at positions by values, or adds values if add is true; of bools, the
// disjunction.
func (c *call) scatteredSlices(x, positions, values *ir.Value, add bool) *ir.Value {
	if !add {
		return ops.ScatterND(c.Builder, x, positions, values, "none")
	}
	if x.Type.DType != dtype.Bool {
		return ops.ScatterND(c.Builder, x, positions, values, "add")
	}
	return c.asNumbers(x, func(x *ir.Value) *ir.Value {
		return ops.ScatterND(c.Builder, x, positions, ops.Cast(c.Builder, values, x.Type.DType), "max")
	})
}

// maskedScatter is a rule that stores the elements of source, in order, at the true elements of a mask.
func maskedScatter(c *call) []*ir.Value {
	x, mask, source := c.tensor("self"), ops.Cast(c.Builder, c.tensor("mask"), dtype.Bool), c.tensor("source")
	shape := c.binary(ops.Or, ops.Expand(c.Builder, c.constantOf(dtype.Bool, 0), x.Type.Shape...), mask).Type.Shape
	count := product(source.Type.Shape)
	if n, ok := count.Const(); ok && n == 0 {
		return one(ops.Expand(c.Builder, x, shape...))
	}
	mask = ops.Expand(c.Builder, mask, shape...)
	flat := ops.Cast(c.Builder, ops.Reshape(c.Builder, mask, product(shape)), dtype.I64)
	before := c.binary(ops.Sub, ops.CumSum(c.Builder, flat, 0, false, false), c.like(flat, 1))
	before = c.binary(ops.Max, before, c.like(before, 0))
	taken := ops.Gather(c.Builder, ops.Reshape(c.Builder, ops.Cast(c.Builder, source, x.Type.DType), count), before, 0)
	return one(ops.Where(c.Builder, mask, ops.Reshape(c.Builder, taken, shape...), x))
}

// maskedSelect is a rule for the elements of self at the true elements of a mask.
func maskedSelect(c *call) []*ir.Value {
	x, mask := c.tensor("self"), ops.Cast(c.Builder, c.tensor("mask"), dtype.Bool)
	shape := c.binary(ops.Or, ops.Expand(c.Builder, c.constantOf(dtype.Bool, 0), x.Type.Shape...), mask).Type.Shape
	flat := ops.Reshape(c.Builder, ops.Expand(c.Builder, x, shape...), product(shape))
	mask = ops.Reshape(c.Builder, ops.Expand(c.Builder, mask, shape...), product(shape))
	return one(ops.Compress(c.Builder, flat, mask, 0))
}

// item is a rule for a tensor's only element, as a scalar.
func item(c *call) []*ir.Value { return one(ops.Reshape(c.Builder, c.tensor("self"))) }

// strided is a rule that reads self's memory with other sizes and strides. The elements of self must be contiguous in
// memory, in any order of the axes.
func strided(c *call) []*ir.Value {
	x := c.tensor("self")
	sizes, strides := c.syms("size"), c.syms("stride")
	if len(sizes) != len(strides) {
		c.Fail(diag.Inputf("%d strides of %d axes", len(strides), len(sizes)))
	}
	for i := range sizes {
		for _, e := range []sym.Expr{sizes[i], strides[i]} {
			if n, ok := e.Const(); ok && (n < 0 || n > math.MaxInt32) {
				c.Fail(diag.Inputf("an extent of %s with a stride of %s", sizes[i], strides[i]))
			}
		}
	}
	memory := c.memory(x)
	begin := c.symOr("storage_offset", sym.Const(0))
	if n, ok := begin.Const(); ok && n < 0 {
		c.Fail(diag.Inputf("a storage's element %d", n))
	}
	if c.rowMajor(sizes, strides) {
		length := c.Dims().Simplify(product(sizes))
		c.require(sym.Cond{A: begin.Add(length), Rel: sym.LE, B: memory.Type.Shape[0]}, "a view lies within its storage")
		return one(ops.Reshape(c.Builder, ops.SliceAxis(c.Builder, memory, 0, begin, length), sizes...))
	}
	at := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{begin})
	for i, size := range sizes {
		stride := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{strides[i]})
		along := ops.Range(c.Builder, ops.Scalar(c.Builder, dtype.I64, 0), stride, size)
		at = c.binary(ops.Add, at, ops.AlongAxis(c.Builder, along, i, len(sizes)))
	}
	return one(ops.Gather(c.Builder, memory, at, 0))
}

// rowMajor reports whether strides are those of a tensor in row-major order.
func (c *call) rowMajor(sizes, strides []sym.Expr) bool {
	for i, size := range sizes {
		if n, ok := size.Const(); ok && n == 1 {
			continue
		}
		if c.Dims().EQ(strides[i], product(sizes[i+1:])) != sym.Yes {
			return false
		}
	}
	return true
}

// memory returns the elements of self in the order in which torch has them in memory.
func (c *call) memory(x *ir.Value) *ir.Value {
	strides := c.strides("self")
	if n, ok := c.offset("self").Const(); !ok || n != 0 {
		c.Fail(diag.Unsupportedf("a view of a storage that %s is a part of", x.Type))
	}
	order := make([]int64, len(strides))
	for i := range order {
		order[i] = int64(i)
	}
	slices.SortStableFunc(order, func(a, b int64) int {
		if a != b && c.Dims().LT(strides[a], strides[b]) == sym.Yes {
			return 1
		}
		if a != b && c.Dims().LT(strides[b], strides[a]) == sym.Yes {
			return -1
		}
		return 0
	})
	var sizes, turned []sym.Expr
	for _, axis := range order {
		sizes, turned = append(sizes, x.Type.Shape[axis]), append(turned, strides[axis])
	}
	if !c.rowMajor(sizes, turned) {
		c.Fail(diag.Unsupportedf("a view of the memory of %s, which is not contiguous in torch", x.Type))
	}
	return ops.Reshape(c.Builder, ops.Transpose(c.Builder, x, order...), product(sizes))
}

// unfold is a rule for the windows of an axis: the axis then counts the windows, and a new last axis has their
// elements.
func unfold(c *call) []*ir.Value {
	x := c.tensor("self")
	axis, size, step := c.axis("dimension", 0, len(x.Type.Shape)), c.int("size", 1), c.int("step", 1)
	if step < 1 || size < 0 || size > mostIndices {
		c.Fail(diag.Inputf("windows of %d in steps of %d", size, step))
	}
	x = c.withAxis(x)
	extent := x.Type.Shape[axis]
	c.require(sym.Cond{A: sym.Const(size), Rel: sym.LE, B: extent}, "a window lies within the axis")
	count := c.Dims().Simplify(extent.Sub(sym.Const(size)).FloorDiv(sym.Const(step)).Add(unit))
	begin := ops.Range(c.Builder, ops.Scalar(c.Builder, dtype.I64, 0), ops.Scalar(c.Builder, dtype.I64, float64(step)),
		count)
	at := c.binary(ops.Add, ops.Reshape(c.Builder, begin, count, unit),
		ops.Counting(c.Builder, dtype.I64, sym.Const(size)))
	y := ops.Gather(c.Builder, x, at, int64(axis))
	y = c.moveAxes(y, axis+1, len(y.Type.Shape)-1, 1)
	if len(c.tensor("self").Type.Shape) == 0 {
		y = ops.Reshape(c.Builder, y, sym.Const(size))
	}
	return one(y)
}
