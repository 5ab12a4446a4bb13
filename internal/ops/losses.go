package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// NegativeLogLikelihood returns, for logs[N, C, d…] and target[N, d…], −logs at each target's class, times the class's
// weight (weight[C]; nil: 1). Targets equal to *ignore do not count. reduction is none, sum, or mean: over the weights
// that count.
func NegativeLogLikelihood(b *ir.Builder, logs, target, weight *ir.Value, ignore *int64, reduction string) *ir.Value {
	dt, shape := logs.Type.DType, target.Type.Shape
	if len(shape) == 0 || len(logs.Type.Shape) != len(shape)+1 || !dt.IsFloat() || !target.Type.DType.IsInt() {
		b.Failf("targets %s for logarithms %s", target.Type, logs.Type)
	}
	target = Cast(b, target, dtype.I64)
	var ignored *ir.Value
	if ignore != nil {
		ignored = Binary(b, loop.Eq, target, Scalar(b, dtype.I64, float64(*ignore)))
		target = Where(b, ignored, Scalar(b, dtype.I64, 0), target)
	}
	column := append([]sym.Expr{shape[0], one}, shape[1:]...)
	loss := Unary(b, loop.Neg, Reshape(b, GatherElements(b, logs, Reshape(b, target, column...), 1), shape...))
	var share *ir.Value
	if weight != nil {
		share = Gather(b, weight, target, 0)
	}
	if ignored != nil {
		if share == nil {
			share = Scalar(b, dt, 1)
		}
		share = Where(b, ignored, Scalar(b, dt, 0), share)
	}
	if share != nil {
		loss = Binary(b, loop.Mul, loss, share)
	}
	axes := make([]int64, len(shape))
	for i := range axes {
		axes[i] = int64(i)
	}
	switch reduction {
	case "none":
		return loss
	case "sum":
		return ReduceSum(b, loss, false, axes...)
	case "mean":
		if share == nil {
			return ReduceMean(b, loss, false, axes...)
		}
		return Binary(b, loop.Div, ReduceSum(b, loss, false, axes...), ReduceSum(b, share, false, axes...))
	}
	b.Failf("reduction is %q", reduction)
	return nil
}
