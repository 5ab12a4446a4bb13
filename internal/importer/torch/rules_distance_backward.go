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
	add(map[string]rule{"aten._cdist_backward.default": distancesBackward,
		"aten._pdist_backward.default": pairDistancesBackward})
}

// slope returns the derivative of distances of order p with respect to the differences, times grad. Distances and
// gradients have an extent of 1 on the differences' last axis. The derivative of a distance of 0 is 0.
func (c *call) slope(difference, distance, grad *ir.Value, p float64) *ir.Value {
	sign, size := c.unary(ops.Sign, difference), c.unary(ops.Abs, difference)
	switch {
	case p < 0 || math.IsNaN(p):
		c.Fail(diag.Inputf("a distance of order %g", p))
	case p == 0:
		return c.binary(ops.Mul, difference, c.like(difference, 0))
	case p == 1:
		return c.binary(ops.Mul, grad, sign)
	case math.IsInf(p, 1):
		greatest := ops.Cast(c.Builder, c.binary(ops.Eq, size, distance), sign.Type.DType)
		return c.binary(ops.Mul, grad, c.binary(ops.Mul, sign, greatest))
	}
	none := c.binary(ops.Eq, distance, c.like(distance, 0))
	if p < 1 {
		none = c.binary(ops.Or, c.binary(ops.Eq, size, c.like(size, 0)), none)
	}
	share := c.binary(ops.Div, size, distance) // to the power p − 1
	if p != 2 {
		share = c.binary(ops.Pow, share, c.like(share, p-1))
	}
	y := c.binary(ops.Mul, grad, c.binary(ops.Mul, sign, share))
	return ops.Where(c.Builder, none, c.like(y, 0), y)
}

// distancesBackward is a rule for the gradient of _cdist_forward with respect to x1.
func distancesBackward(c *call) []*ir.Value {
	x, y, grad, distance := c.tensor("x1"), c.tensor("x2"), c.tensor("grad_output"), c.tensor("cdist")
	rank := len(x.Type.Shape)
	if rank < 2 || len(y.Type.Shape) != rank || len(grad.Type.Shape) != rank || len(distance.Type.Shape) != rank {
		c.Fail(diag.Inputf("distances of %s and %s", x.Type, y.Type))
	}
	row := func(v *ir.Value, axis int) *ir.Value {
		return ops.Reshape(c.Builder, v, insertExtent(v.Type.Shape, axis, unit)...)
	}
	difference := c.binary(ops.Sub, row(x, rank-1), row(y, rank-2))
	slope := c.slope(difference, row(distance, rank), row(grad, rank), c.float("p", 2))
	return one(ops.Expand(c.Builder, ops.ReduceSum(c.Builder, slope, false, int64(rank-1)), x.Type.Shape...))
}

// pairDistancesBackward is a rule for the gradient of _pdist_forward.
func pairDistancesBackward(c *call) []*ir.Value {
	x, grad, distance := c.tensor("self"), c.tensor("grad_output"), c.tensor("pdist")
	first, second := c.pairsOf(x)
	zeros := ops.Expand(c.Builder, c.like(x, 0), x.Type.Shape...)
	if len(first) == 0 {
		return one(zeros)
	}
	n := sym.Const(int64(len(first)))
	from, to := c.vector(first), c.vector(second)
	difference := c.binary(ops.Sub, ops.Gather(c.Builder, x, from, 0), ops.Gather(c.Builder, x, to, 0))
	column := func(v *ir.Value) *ir.Value { return ops.Reshape(c.Builder, v, n, unit) }
	slope := c.slope(difference, column(distance), column(grad), c.float("p", 2))
	y := ops.ScatterND(c.Builder, zeros, column(from), slope, "add")
	return one(ops.ScatterND(c.Builder, y, column(to), c.unary(ops.Neg, slope), "add"))
}
