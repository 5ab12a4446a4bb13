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

// bound returns a position along an extent, limited to it; a negative constant counts from the end.
func (c *call) bound(e, extent sym.Expr) sym.Expr {
	if v, ok := e.Const(); ok && v < 0 {
		e = extent.Add(e)
	}
	return c.Dims().Simplify(e.Max(sym.Const(0)).Min(extent))
}

// sliced returns the axis, the begin and the end of the slice of x that the arguments describe.
func (c *call) sliced(x *ir.Value) (axis int, begin, end sym.Expr) {
	axis = c.axis("dim", 0, len(x.Type.Shape))
	extent := x.Type.Shape[axis]
	begin, end = c.bound(c.symOr("start", sym.Const(0)), extent), extent
	if last := c.symOr("end", sym.Const(math.MaxInt64)); true {
		if v, ok := last.Const(); !ok || v < math.MaxInt64 {
			end = c.bound(last, extent)
		}
	}
	return axis, begin, end
}

// slice is a rule for a slice of self with a step.
func slice(c *call) []*ir.Value {
	x := c.tensor("self")
	axis, begin, end := c.sliced(x)
	step := c.int("step", 1)
	if step < 1 {
		c.Fail(diag.Inputf("a step of %d", step))
	}
	count := end.Sub(begin).Max(sym.Const(0)).CeilDiv(sym.Const(step))
	begins, extents, steps := make([]sym.Expr, len(x.Type.Shape)), append([]sym.Expr{}, x.Type.Shape...),
		make([]int64, len(x.Type.Shape))
	for i := range steps {
		begins[i], steps[i] = sym.Const(0), 1
	}
	begins[axis], extents[axis], steps[axis] = begin, c.Dims().Simplify(count), step
	if n, ok := extents[axis].Const(); ok && n == 0 { // it may begin anywhere
		begins[axis], steps[axis] = sym.Const(0), 1
	}
	return one(ops.Slice(c.Builder, x, begins, extents, steps))
}

// within returns x in which the elements along an axis from begin to end, in steps, are replaced by src.
func (c *call) within(x, src *ir.Value, axis int, begin, end sym.Expr, step int64) *ir.Value {
	extent := x.Type.Shape[axis]
	if step < 1 {
		c.Fail(diag.Inputf("an assignment in steps of %d", step))
	}
	length := c.Dims().Simplify(end.Sub(begin).Max(sym.Const(0)).CeilDiv(sym.Const(step)))
	shape := append([]sym.Expr{}, x.Type.Shape...)
	shape[axis] = length
	src = ops.Expand(c.Builder, ops.Cast(c.Builder, src, x.Type.DType), shape...)
	if step != 1 {
		first := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{begin})
		at := ops.Range(c.Builder, first, ops.Scalar(c.Builder, dtype.I64, float64(step)), length)
		turned, rows := c.moveAxes(x, axis, 0, 1), c.moveAxes(src, axis, 0, 1)
		turned = ops.ScatterND(c.Builder, turned, ops.Reshape(c.Builder, at, length, unit), rows, "none")
		return c.moveAxes(turned, 0, axis, 1)
	}
	return ops.Concat(c.Builder, int64(axis), ops.SliceAxis(c.Builder, x, axis, sym.Const(0), begin), src,
		ops.SliceAxis(c.Builder, x, axis, begin.Add(length), c.Dims().Simplify(extent.Sub(begin).Sub(length))))
}

// sliceScatter is a rule that stores src in a slice of self.
func sliceScatter(c *call) []*ir.Value {
	x := c.tensor("self")
	axis, begin, end := c.sliced(x)
	return one(c.within(x, c.tensor("src"), axis, begin, end, c.int("step", 1)))
}

// selectScatter is a rule that stores src at one index of an axis of self.
func selectScatter(c *call) []*ir.Value {
	x, src := c.tensor("self"), c.tensor("src")
	axis := c.axis("dim", 0, len(x.Type.Shape))
	index := c.position(x, axis)
	src = ops.Reshape(c.Builder, src, insertExtent(src.Type.Shape, axis, unit)...)
	return one(c.within(x, src, axis, index, index.Add(unit), 1))
}

// narrow is a rule for length elements along an axis from start on.
func narrow(c *call) []*ir.Value {
	x := c.tensor("self")
	axis, length := c.axis("dim", 0, len(x.Type.Shape)), c.sym("length")
	begin := c.bound(c.sym("start"), x.Type.Shape[axis])
	c.require(sym.Cond{A: sym.Const(0), Rel: sym.LE, B: length}, "a slice's length is not negative")
	c.require(sym.Cond{A: begin.Add(length), Rel: sym.LE, B: x.Type.Shape[axis]}, "a slice lies within its tensor")
	return one(ops.SliceAxis(c.Builder, x, axis, begin, length))
}

// without returns a shape with an axis removed.
func without(shape []sym.Expr, axis int) []sym.Expr {
	return append(append([]sym.Expr{}, shape[:axis]...), shape[axis+1:]...)
}

// position returns the argument index, an index along an axis; a negative constant counts from the end.
func (c *call) position(x *ir.Value, axis int) sym.Expr {
	index := c.sym("index")
	if v, ok := index.Const(); ok && v < 0 {
		index = c.Dims().Simplify(x.Type.Shape[axis].Add(index))
	}
	c.require(sym.Cond{A: sym.Const(0), Rel: sym.LE, B: index}, "the index is within the axis")
	c.require(sym.Cond{A: index, Rel: sym.LT, B: x.Type.Shape[axis]}, "the index is within the axis")
	return index
}

// choose is a rule for the slice at one index of an axis, without the axis.
func choose(c *call) []*ir.Value {
	x := c.tensor("self")
	axis := c.axis("dim", 0, len(x.Type.Shape))
	if a := c.args["index"]; a != nil {
		if at := c.decidedBy(a); at != nil { // data decide it, and it may count from the end
			return one(ops.Gather(c.Builder, x, at, int64(axis)))
		}
	}
	index := c.position(x, axis)
	return one(ops.Reshape(c.Builder, ops.SliceAxis(c.Builder, x, axis, index, unit), without(x.Type.Shape, axis)...))
}

// cut cuts x along an axis into pieces of the given extents.
func (c *call) cut(x *ir.Value, axis int, extents []sym.Expr) []*ir.Value {
	total := sym.Const(0)
	for _, e := range extents {
		c.require(sym.Cond{A: sym.Const(0), Rel: sym.LE, B: e}, "a piece's length is not negative")
		total = total.Add(e)
	}
	c.require(sym.Cond{A: total, Rel: sym.LE, B: x.Type.Shape[axis]}, "the pieces lie within their tensor")
	return ops.Split(c.Builder, x, axis, extents)
}

// pieces returns the extents of pieces of a size; the last may be smaller.
func (c *call) pieces(extent sym.Expr, size int64) (list []sym.Expr) {
	n, ok := extent.Const()
	if !ok {
		c.Fail(diag.Unsupportedf("a split of %s: the number of pieces depends on it", extent))
	}
	if size <= 0 {
		c.Fail(diag.Inputf("pieces of %d", size))
	}
	for n > size {
		list, n = append(list, sym.Const(size)), n-size
	}
	return append(list, sym.Const(n))
}

// split is a rule for pieces of one size, or of given sizes.
func split(c *call) []*ir.Value {
	x := c.tensor("self")
	axis := c.axis("dim", 0, len(x.Type.Shape))
	if c.has("split_sizes") {
		return c.cut(x, axis, c.syms("split_sizes"))
	}
	return c.cut(x, axis, c.pieces(x.Type.Shape[axis], c.int("split_size", 0)))
}

// mostChunks is the largest number of chunks of an axis without elements.
const mostChunks = 1 << 10

// chunk is a rule for a number of pieces of nearly equal size.
func chunk(c *call) []*ir.Value {
	x := c.tensor("self")
	axis, count := c.axis("dim", 0, len(x.Type.Shape)), c.int("chunks", 1)
	n, ok := x.Type.Shape[axis].Const()
	if !ok || count < 1 {
		c.Fail(diag.Unsupportedf("%d chunks of %s", count, x.Type.Shape[axis]))
	}
	if n == 0 { // that many empty pieces
		if count > mostChunks {
			c.Fail(diag.Unsupportedf("%d chunks", count))
		}
		return c.cut(x, axis, slices.Repeat([]sym.Expr{sym.Const(0)}, int(count)))
	}
	return c.cut(x, axis, c.pieces(x.Type.Shape[axis], max(1, (n+count-1)/count)))
}

// unbind is a rule for the slices at all indices of an axis.
func unbind(c *call) []*ir.Value {
	x := c.tensor("self")
	axis := c.axis("dim", 0, len(x.Type.Shape))
	list := c.cut(x, axis, c.pieces(x.Type.Shape[axis], 1))
	for i, v := range list {
		list[i] = ops.Reshape(c.Builder, v, without(v.Type.Shape, axis)...)
	}
	return list
}
