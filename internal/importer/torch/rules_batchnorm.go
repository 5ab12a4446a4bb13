package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten._native_batch_norm_legit_no_training.default": batchNorm, "aten.batch_norm.default": batchNorm,
		"aten._native_batch_norm_legit.default": batchNorm, "aten.native_batch_norm.default": batchNorm,
		"aten._native_batch_norm_legit.no_stats":           batchNormOfInput,
		"aten._native_batch_norm_legit_functional.default": batchNormFunctional,
	})
}

// channels has the statistics of a batch for each channel, as [1, C, 1, …] in f32 or wider.
type channels struct {
	mean, variance, reciprocal *ir.Value // reciprocal is 1 / the deviation
}

// channelsOf returns the statistics of x.
func (c *call) channelsOf(x *ir.Value) channels {
	if len(x.Type.Shape) < 2 {
		c.Fail(diag.Inputf("batch norm of a tensor of %d axes", len(x.Type.Shape)))
	}
	axes := []int64{0}
	for i := 2; i < len(x.Type.Shape); i++ {
		axes = append(axes, int64(i))
	}
	var s channels
	s.mean = ops.ReduceMean(c.Builder, x, true, axes...)
	away := c.binary(ops.Sub, x, s.mean)
	s.variance = ops.ReduceMean(c.Builder, c.binary(ops.Mul, away, away), true, axes...)
	s.reciprocal = c.unary(ops.Reciprocal, c.unary(ops.Sqrt,
		c.binary(ops.Add, s.variance, c.like(s.variance, c.float("eps", 1e-5)))))
	return s
}

// byChannel normalizes wide, which is x in f32 or wider, by the statistics of its channels, and scales and shifts it by
// the arguments weight and bias.
func (c *call) byChannel(x, wide *ir.Value, s channels) *ir.Value {
	scale := s.reciprocal
	if weight := c.perChannel(c.optional("weight"), x); weight != nil {
		scale = c.binary(ops.Mul, scale, ops.Cast(c.Builder, weight, scale.Type.DType))
	}
	y := c.binary(ops.Mul, c.binary(ops.Sub, wide, s.mean), scale)
	if bias := c.perChannel(c.optional("bias"), x); bias != nil {
		y = c.binary(ops.Add, y, ops.Cast(c.Builder, bias, y.Type.DType))
	}
	return ops.Cast(c.Builder, y, x.Type.DType)
}

// widened returns x, converted to f32 if its type has fewer bits.
func (c *call) widened(x *ir.Value) *ir.Value {
	if x.Type.DType.Bits() < 32 {
		return ops.Cast(c.Builder, x, dtype.F32)
	}
	return x
}

// batchNormOfInput is a rule for batch norm with the statistics of its input: the result, and the mean and the
// reciprocal deviation of each channel.
func batchNormOfInput(c *call) []*ir.Value {
	if !c.bool("training", true) {
		c.Fail(diag.Inputf("batch norm in evaluation mode has running statistics"))
	}
	x := c.tensor("input")
	wide := c.widened(x)
	s := c.channelsOf(wide)
	return []*ir.Value{c.byChannel(x, wide, s), c.row(s.mean), c.row(s.reciprocal)}
}

// row returns a value [1, C, 1, …] as [C].
func (c *call) row(v *ir.Value) *ir.Value { return ops.Reshape(c.Builder, v, v.Type.Shape[1]) }

// batchNormFunctional is a rule for batch norm whose further results are the new running statistics; in evaluation mode
// they are the old ones.
func batchNormFunctional(c *call) []*ir.Value {
	mean, variance := c.tensor("running_mean"), c.tensor("running_var")
	if !c.bool("training", false) {
		return append(batchNorm(c), mean, variance)
	}
	x := c.tensor("input")
	wide := c.widened(x)
	s := c.channelsOf(wide)
	// The running variance estimates the variance of the population, of which the batch is a sample.
	count := unit
	for i, extent := range x.Type.Shape {
		if i != 1 {
			count = count.Mul(extent)
		}
	}
	n := ops.Cast(c.Builder, ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{count}), s.variance.Type.DType)
	sample := c.binary(ops.Div, n, c.binary(ops.Sub, n, c.like(n, 1)))
	momentum := c.float("momentum", 0.1)
	moved := func(old, now *ir.Value) *ir.Value {
		now = ops.Cast(c.Builder, c.row(now), old.Type.DType)
		return c.binary(ops.Add, c.binary(ops.Mul, now, c.like(now, momentum)),
			c.binary(ops.Mul, old, c.like(old, 1-momentum)))
	}
	return []*ir.Value{
		c.byChannel(x, wide, s), c.row(s.mean), c.row(s.reciprocal),
		moved(mean, s.mean), moved(variance, c.binary(ops.Mul, s.variance, sample)),
	}
}

// batchNorm is a rule for batch norm: with the running statistics, or in training with the statistics of its input.
func batchNorm(c *call) []*ir.Value {
	if c.bool("training", false) {
		if !c.has("running_mean") && !c.has("running_var") {
			return batchNormOfInput(c)
		}
		return batchNormUpdating(c)
	}
	x := c.tensor("input")
	mean, variance := c.tensor("running_mean"), c.tensor("running_var")
	scale, shift := c.optional("weight"), c.optional("bias")
	if scale == nil {
		scale = ops.Expand(c.Builder, c.like(x, 1), mean.Type.Shape...)
	}
	if shift == nil {
		shift = ops.Expand(c.Builder, c.like(x, 0), mean.Type.Shape...)
	}
	y := ops.BatchNorm(c.Builder, x, scale, shift, mean, variance, c.float("eps", 1e-5))
	nothing := ops.Expand(c.Builder, c.like(x, 0), sym.Const(0))
	return []*ir.Value{y, nothing, nothing}
}

// batchNormUpdating is a rule for batch norm in training, which writes to the running statistics.
func batchNormUpdating(c *call) []*ir.Value {
	if c.program.record == nil {
		c.Fail(diag.Unsupportedf("batch norm in training in a graph alone, whose arguments are not written to"))
	}
	mean, variance := c.target("running_mean"), c.target("running_var")
	if mean == nil || variance == nil {
		c.Fail(diag.Unsupportedf("batch norm in training with one of both running statistics"))
	}
	results := batchNormFunctional(c)
	c.into(mean, results[3], false)
	c.into(variance, results[4], false)
	return results[:3]
}
