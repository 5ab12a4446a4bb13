package torch

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{"aten._cdist_forward.default": distances, "aten._pdist_forward.default": pairDistances})
}

// length returns the norm of order p along the last axis.
func (c *call) length(x *ir.Value, p float64) *ir.Value {
	axis, size := int64(len(x.Type.Shape)-1), c.unary(ops.Abs, x)
	switch {
	case p < 0 || math.IsNaN(p):
		c.Fail(diag.Inputf("a distance of order %g", p))
	case c.Dims().EQ(x.Type.Shape[axis], sym.Const(0)) == sym.Yes:
		return ops.Expand(c.Builder, c.like(x, 0), x.Type.Shape[:axis]...)
	case p == 0:
		nonzero := c.binary(ops.Ne, x, c.like(x, 0))
		return ops.ReduceSum(c.Builder, ops.Cast(c.Builder, nonzero, x.Type.DType), false, axis)
	case p == 1:
		return ops.ReduceSum(c.Builder, size, false, axis)
	case p == 2:
		return c.unary(ops.Sqrt, ops.ReduceSum(c.Builder, c.binary(ops.Mul, x, x), false, axis))
	case math.IsInf(p, 1):
		return ops.ReduceMax(c.Builder, size, false, axis)
	}
	sum := ops.ReduceSum(c.Builder, c.binary(ops.Pow, size, c.like(x, p)), false, axis)
	return c.binary(ops.Pow, sum, c.like(x, 1/p))
}

// distances is a rule for the distances of each row of x1 from each of x2: [..., rows of x1, rows of x2].
func distances(c *call) []*ir.Value {
	x, y := c.tensor("x1"), c.tensor("x2")
	if len(x.Type.Shape) < 2 || len(y.Type.Shape) < 2 {
		c.Fail(diag.Inputf("distances of %s and %s", x.Type, y.Type))
	}
	x = ops.Reshape(c.Builder, x, insertExtent(x.Type.Shape, len(x.Type.Shape)-1, unit)...)
	y = ops.Reshape(c.Builder, y, insertExtent(y.Type.Shape, len(y.Type.Shape)-2, unit)...)
	return one(c.length(c.binary(ops.Sub, x, y), c.float("p", 2)))
}

// pairsOf returns the row indices of each pair of different rows of x: the first rows and the second rows.
func (c *call) pairsOf(x *ir.Value) (first, second []int64) {
	if len(x.Type.Shape) != 2 {
		c.Fail(diag.Inputf("distances of the rows of %s", x.Type))
	}
	rows, ok := x.Type.Shape[0].Const()
	if !ok || rows > mostIndices || rows*rows > mostIndices {
		c.Fail(diag.Unsupportedf("the distances of %s rows from each other", x.Type.Shape[0]))
	}
	for i := range rows {
		for k := i + 1; k < rows; k++ {
			first, second = append(first, i), append(second, k)
		}
	}
	return first, second
}

// pairDistances is a rule for the distance of each row from each later one.
func pairDistances(c *call) []*ir.Value {
	x := c.tensor("self")
	first, second := c.pairsOf(x)
	if len(first) == 0 {
		return one(ops.Expand(c.Builder, c.like(x, 0), sym.Const(0)))
	}
	from, to := ops.Gather(c.Builder, x, c.vector(first), 0), ops.Gather(c.Builder, x, c.vector(second), 0)
	return one(c.length(c.binary(ops.Sub, from, to), c.float("p", 2)))
}
