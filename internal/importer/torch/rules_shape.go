package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// unit is the extent 1.
var unit = sym.Const(1)

// same is a rule for self unchanged.
func same(c *call) []*ir.Value { return one(c.tensor("self")) }

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.view.default": reshape("size"), "aten.reshape.default": reshape("shape"),
		"aten._unsafe_view.default": reshape("size"), "aten.view_copy.default": reshape("size"),
		"aten.contiguous.default": same, "aten.clone.default": same, "aten.detach.default": same, "aten.alias.default": same,
		"aten.lift_fresh_copy.default": same,
		"aten.dropout.default":         dropout, "aten.native_dropout.default": nativeDropout,
		"aten._assert_tensor_metadata.default": dropAssertion, "aten.sym_constrain_range_for_size.default": dropAssertion,
		"aten._assert_scalar.default": dropAssertion,
		"aten.permute.default":        permute, "aten.transpose.int": transpose, "aten.t.default": transpose,
		"aten.numpy_T.default":   transpose,
		"aten.unsqueeze.default": unsqueeze, "aten.squeeze.dim": squeeze, "aten.squeeze.dims": squeeze,
		"aten.squeeze.default": squeeze, "aten.flatten.using_ints": flatten,
		"aten.unflatten.int": unflatten, "aten.expand.default": expand, "aten.expand_as.default": expandAs,
		"aten.repeat.default": repeat,
		"aten.cat.default":    concat, "aten.stack.default": stack, "aten.slice.Tensor": slice, "aten.narrow.default": narrow,
		"aten.select.int":   choose,
		"aten.split.Tensor": split, "aten.split_with_sizes.default": split, "aten.chunk.default": chunk,
		"aten.unbind.int":   unbind,
		"aten.flip.default": flip, "aten.roll.default": roll, "aten.full.default": full, "aten.zeros.default": filled(0),
		"aten.ones.default": filled(1), "aten.empty.memory_format": filled(0), "aten.empty_strided.default": filled(0),
		"aten.empty_permuted.default": filled(0), "aten.scalar_tensor.default": scalarTensor,
		"aten.full_like.default": fullLike, "aten.zeros_like.default": filledLike(0), "aten.ones_like.default": filledLike(1),
		"aten.empty_like.default": filledLike(0),
		"aten.new_zeros.default":  filled(0), "aten.new_ones.default": filled(1), "aten.new_full.default": full,
		"aten.fill.Scalar": fillWith, "aten.fill.Tensor": fillWith, "aten.zero.default": zeroed,
		"aten.arange.default": arange, "aten.arange.start": arange, "aten.arange.start_step": arange,
		"aten.slice_scatter.default": sliceScatter, "aten.select_scatter.default": selectScatter,
		"aten.triu_indices.default": triangleIndices(true), "aten.tril_indices.default": triangleIndices(false),
		"aten.outer.default": outer, "aten.tril.default": triangle(false), "aten.triu.default": triangle(true),
		"aten.diagonal.default": diagonal,
		"aten._to_copy.default": convert, "aten.to.dtype": convert, "aten.to.dtype_layout": convert,
		"aten.type_as.default": typeAs, "aten.to.device": convert,
		"prims.convert_element_type.default": convert, "aten.copy.default": copied,
	})
}

// dropout is a rule for dropout without its mask; outside of training it returns the input.
func dropout(c *call) []*ir.Value {
	x, p := c.tensor("input"), c.float("p", 0.5)
	if !c.bool("train", false) || p == 0 {
		return one(x)
	}
	return nativeDropout(c)[:1]
}

// nativeDropout is a rule for dropout and the mask of the kept elements.
func nativeDropout(c *call) []*ir.Value {
	x, p := c.tensor("input"), c.float("p", 0.5)
	if keeps := 1 - p; c.bool("train", true) && keeps != 0 && keeps != 1 {
		y, mask := c.keepRandom(x, p)
		return []*ir.Value{y, mask}
	} else if c.bool("train", true) && keeps == 0 {
		x = ops.Expand(c.Builder, c.like(x, 0), x.Type.Shape...)
		return []*ir.Value{x, ops.Expand(c.Builder, c.constantOf(dtype.Bool, 0), x.Type.Shape...)}
	}
	return []*ir.Value{x, ops.Expand(c.Builder, c.constantOf(dtype.Bool, 1), x.Type.Shape...)}
}

// dropAssertion is a rule for assertions, which are dropped: the shapes' own conditions imply them.
func dropAssertion(*call) []*ir.Value { return nil }

// product returns the number of elements of a shape.
func product(shape []sym.Expr) sym.Expr { return sym.Product(append([]sym.Expr{unit}, shape...)...) }

// reshape returns a rule for another shape, in the argument name; one extent may be −1.
func reshape(name string) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		return one(ops.Reshape(c.Builder, x, c.resolved(x, c.syms(name))...))
	}
}

// resolved returns a shape in which an extent of −1 is replaced by the quotient of x's elements and the other extents.
func (c *call) resolved(x *ir.Value, shape []sym.Expr) []sym.Expr {
	rest, open := []sym.Expr{unit}, -1
	for i, e := range shape {
		if v, ok := e.Const(); ok && v == -1 {
			if open >= 0 {
				c.Fail(diag.Inputf("two extents of -1"))
			}
			open = i
			continue
		}
		rest = append(rest, e)
	}
	if open < 0 {
		return shape
	}
	out := append([]sym.Expr(nil), shape...)
	out[open] = c.Dims().Simplify(product(x.Type.Shape).FloorDiv(sym.Product(rest...)))
	return out
}

// permute is a rule for a permutation of the axes.
func permute(c *call) []*ir.Value {
	x := c.tensor("self")
	perm := c.listOf("dims")
	for i := range perm {
		perm[i] = int64(c.axisOf(perm[i], len(x.Type.Shape)))
	}
	return one(ops.Transpose(c.Builder, x, perm...))
}

// transpose is a rule that exchanges two axes; without arguments, the two axes of a matrix.
func transpose(c *call) []*ir.Value {
	x := c.tensor("self")
	rank := len(x.Type.Shape)
	if rank < 2 && !c.has("dim0") {
		return one(x)
	}
	a, b := c.axis("dim0", 0, rank), c.axis("dim1", 1, rank)
	perm := make([]int64, rank)
	for i := range perm {
		perm[i] = int64(i)
	}
	if rank > 0 {
		perm[a], perm[b] = perm[b], perm[a]
	}
	return one(ops.Transpose(c.Builder, x, perm...))
}

// insertExtent returns a shape with the extent e inserted before an axis.
func insertExtent(shape []sym.Expr, axis int, e sym.Expr) []sym.Expr {
	out := append([]sym.Expr{}, shape[:axis]...)
	return append(append(out, e), shape[axis:]...)
}

// unsqueeze is a rule that inserts an axis of extent 1.
func unsqueeze(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.Reshape(c.Builder, x, insertExtent(x.Type.Shape, c.axis("dim", 0, len(x.Type.Shape)+1), unit)...))
}

// squeeze is a rule that removes axes whose extent is known to be 1.
func squeeze(c *call) []*ir.Value {
	x := c.tensor("self")
	wanted := map[int]bool{}
	for _, d := range c.listOf("dim") {
		wanted[c.axisOf(d, len(x.Type.Shape))] = true
	}
	var shape []sym.Expr
	for i, e := range x.Type.Shape {
		n, known := e.Const()
		if (!c.has("dim") || wanted[i]) && known && n == 1 {
			continue
		}
		shape = append(shape, e)
	}
	return one(ops.Reshape(c.Builder, x, shape...))
}

// flatten is a rule that merges adjacent axes.
func flatten(c *call) []*ir.Value {
	x := c.tensor("self")
	rank := len(x.Type.Shape)
	if rank == 0 {
		return one(ops.Reshape(c.Builder, x, unit))
	}
	first, last := c.axis("start_dim", 0, rank), c.axis("end_dim", -1, rank)
	if last < first {
		c.Fail(diag.Inputf("axes %d to %d", first, last))
	}
	shape := append(append([]sym.Expr{}, x.Type.Shape[:first]...), product(x.Type.Shape[first:last+1]))
	return one(ops.Reshape(c.Builder, x, append(shape, x.Type.Shape[last+1:]...)...))
}

// unflatten is a rule that splits an axis.
func unflatten(c *call) []*ir.Value {
	x := c.tensor("self")
	axis := c.axis("dim", 0, len(x.Type.Shape))
	piece := &ir.Value{Type: ir.Type{Shape: x.Type.Shape[axis : axis+1]}}
	shape := append(append([]sym.Expr{}, x.Type.Shape[:axis]...), c.resolved(piece, c.syms("sizes"))...)
	return one(ops.Reshape(c.Builder, x, append(shape, x.Type.Shape[axis+1:]...)...))
}

// expandTo repeats x along axes of extent 1; an extent of −1 in shape means x's extent.
func (c *call) expandTo(x *ir.Value, shape []sym.Expr) *ir.Value {
	out := append([]sym.Expr{}, shape...)
	for i := range out {
		if v, ok := out[i].Const(); ok && v == -1 {
			out[i] = x.Type.Shape[i-len(out)+len(x.Type.Shape)]
		}
	}
	return ops.Expand(c.Builder, x, out...)
}

func expand(c *call) []*ir.Value { return one(c.expandTo(c.tensor("self"), c.syms("size"))) }

func expandAs(c *call) []*ir.Value {
	return one(c.expandTo(c.tensor("self"), c.tensor("other").Type.Shape))
}

// repeat is a rule that concatenates copies of self along each axis.
func repeat(c *call) []*ir.Value {
	x, times := c.tensor("self"), c.syms("repeats")
	shape := x.Type.Shape
	for len(shape) < len(times) {
		shape = insertExtent(shape, 0, unit)
	}
	return one(ops.Tile(c.Builder, ops.Reshape(c.Builder, x, shape...), times))
}

// alike converts tensors to the type that arithmetic on them has.
func (c *call) alike(list []*ir.Value) []*ir.Value {
	dt := dtype.Invalid
	for _, v := range list {
		dt = commonType(dt, v.Type.DType)
	}
	out := make([]*ir.Value, len(list))
	for i, v := range list {
		out[i] = ops.Cast(c.Builder, v, dt)
	}
	return out
}

// concat is a rule that concatenates tensors along an axis.
func concat(c *call) []*ir.Value {
	list := c.alike(c.tensors("tensors"))
	kept := list[:0:0]
	for _, v := range list { // an empty vector is ignored, whatever the other tensors' rank
		if n, ok := product(v.Type.Shape).Const(); len(v.Type.Shape) == 1 && ok && n == 0 {
			continue
		}
		kept = append(kept, v)
	}
	if len(kept) == 0 {
		return one(list[0])
	}
	return one(ops.Concat(c.Builder, int64(c.axis("dim", 0, len(kept[0].Type.Shape))), kept...))
}

// stack is a rule that concatenates tensors along a new axis.
func stack(c *call) []*ir.Value {
	list := c.alike(c.tensors("tensors"))
	axis := c.axis("dim", 0, len(list[0].Type.Shape)+1)
	for i, v := range list {
		list[i] = ops.Reshape(c.Builder, v, insertExtent(v.Type.Shape, axis, unit)...)
	}
	return one(ops.Concat(c.Builder, int64(axis), list...))
}

// mostIndices is the largest number of indices that are computed at import.
const mostIndices = 1 << 24

// triangleIndices returns a rule for the indices of a triangle's elements, [2, n].
func triangleIndices(upper bool) rule {
	return func(c *call) []*ir.Value {
		rows, columns, offset := c.int("row", 0), c.int("col", 0), c.int("offset", 0)
		if rows < 0 || columns < 0 || rows > mostIndices || columns > mostIndices || rows*columns > mostIndices {
			c.Fail(diag.Unsupportedf("the indices of a triangle of %d rows and %d columns", rows, columns))
		}
		var first, second []int64
		for i := range rows {
			for k := range columns {
				if upper && k-i >= offset || !upper && k-i <= offset {
					first, second = append(first, i), append(second, k)
				}
			}
		}
		t, err := tensor.FromSlice(append(first, second...), 2, int64(len(first)))
		if err != nil {
			c.Fail(err)
		}
		return one(ops.Cast(c.Builder, c.Constant(c.node.Name, t), c.dtype("dtype", dtype.I64)))
	}
}

// outer is a rule for the outer product of two vectors.
func outer(c *call) []*ir.Value {
	v := c.promote(false, c.operand("self"), c.operand("vec2"))
	column := ops.Reshape(c.Builder, v[0], v[0].Type.Shape[0], unit)
	return one(times(c, column, v[1]))
}

// flip is a rule that reverses axes.
func flip(c *call) []*ir.Value {
	x := c.tensor("self")
	n := len(x.Type.Shape)
	begin, extent, step := make([]sym.Expr, n), append([]sym.Expr{}, x.Type.Shape...), make([]int64, n)
	for i := range step {
		begin[i], step[i] = sym.Const(0), 1
	}
	for _, d := range c.listOf("dims") {
		axis := c.axisOf(d, n)
		if n, ok := extent[axis].Const(); ok && n == 0 {
			continue
		}
		begin[axis], step[axis] = extent[axis].Sub(unit), -1
	}
	return one(ops.Slice(c.Builder, x, begin, extent, step))
}

// roll is a rule that rotates axes; without axes, all elements in order.
func roll(c *call) []*ir.Value {
	x := c.tensor("self")
	shifts, dims, shape := c.listOf("shifts"), c.listOf("dims"), x.Type.Shape
	if len(dims) == 0 && len(shifts) == 1 { // all elements in order
		x, dims = ops.Reshape(c.Builder, x, product(shape)), []int64{0}
	}
	if len(shifts) != len(dims) {
		c.Fail(diag.Inputf("%d shifts of %d axes", len(shifts), len(dims)))
	}
	for i, d := range dims {
		axis := c.axisOf(d, len(x.Type.Shape))
		extent := x.Type.Shape[axis]
		first := c.Dims().Simplify(sym.Const(-shifts[i]).Mod(extent.Max(unit)))
		x = ops.Concat(c.Builder, int64(axis), ops.SliceAxis(c.Builder, x, axis, first, extent.Sub(first)),
			ops.SliceAxis(c.Builder, x, axis, sym.Const(0), first))
	}
	return one(ops.Reshape(c.Builder, x, shape...))
}

// triangle returns a rule for the upper or lower triangle of matrices.
func triangle(upper bool) rule {
	return func(c *call) []*ir.Value {
		return one(ops.Triangle(c.Builder, c.tensor("self"), upper, c.symOr("diagonal", sym.Const(0))))
	}
}

// diagonal is a rule for the diagonals of matrices.
func diagonal(c *call) []*ir.Value {
	x := c.tensor("self")
	rank := len(x.Type.Shape)
	first, second := c.axis("dim1", 0, rank), c.axis("dim2", 1, rank)
	offset := c.int("offset", 0)
	row, column := sym.Const(max(0, -offset)), sym.Const(max(0, offset))
	n := c.Dims().Simplify(x.Type.Shape[first].Sub(row).Min(x.Type.Shape[second].Sub(column)).Max(sym.Const(0)))
	row, column = c.bound(row, x.Type.Shape[first]), c.bound(column, x.Type.Shape[second])
	x = ops.SliceAxis(c.Builder, ops.SliceAxis(c.Builder, x, first, row, n), second, column, n)
	if first > second {
		first, second = second, first
	}
	if first == second {
		c.Fail(diag.Inputf("a diagonal of axis %d and itself", first))
	}
	return one(c.moveAxes(ops.Diagonal(c.Builder, x, first, second), first, rank-2, 1))
}

// convert is a rule for a conversion of the element type.
func convert(c *call) []*ir.Value {
	name := "self"
	if c.args[name] == nil {
		name = "a"
	}
	x := c.tensor(name)
	return one(ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType)))
}

func typeAs(c *call) []*ir.Value {
	return one(ops.Cast(c.Builder, c.tensor("self"), c.tensor("other").Type.DType))
}

// copied is a rule for src in the type and shape of self.
func copied(c *call) []*ir.Value {
	x := c.tensor("self")
	return one(ops.Expand(c.Builder, ops.Cast(c.Builder, c.tensor("src"), x.Type.DType), x.Type.Shape...))
}
