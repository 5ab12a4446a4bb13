package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
)

// LpNorm returns the p-norm along axes, (Σ |x|ᵖ)^(1/p).
func LpNorm(b *ir.Builder, x *ir.Value, p int64, keep bool, axes ...int64) *ir.Value {
	switch p {
	case 1:
		return Reduce(b, "reduce_l1", x, keep, axes...)
	case 2:
		return Reduce(b, "reduce_l2", x, keep, axes...)
	}
	dt := x.Type.DType
	powers := Binary(b, loop.Pow, Unary(b, loop.Abs, x), Scalar(b, dt, float64(p)))
	return Binary(b, loop.Pow, ReduceSum(b, powers, keep, axes...), Scalar(b, dt, 1/float64(p)))
}

// LpNormalize divides x by its p-norm along an axis; if the norm is 0, the result is 0.
func LpNormalize(b *ir.Builder, x *ir.Value, p, axis int64) *ir.Value {
	dt := x.Type.DType
	norm := LpNorm(b, x, p, true, axis)
	norm = Where(b, Binary(b, loop.Eq, norm, Scalar(b, dt, 0)), Scalar(b, dt, 1), norm)
	return Binary(b, loop.Div, x, norm)
}
