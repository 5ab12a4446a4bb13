package core

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// flattened returns the rule of a function along one axis. Before version 13 the function saw its input as a matrix:
// the axes from `axis` on were merged.
func flattened(f func(b *ir.Builder, x *ir.Value, axis int64) *ir.Value) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		x := c.Input(0)
		rank := len(x.Type.Shape)
		if c.Version >= 13 {
			return convert.One(f(c.Builder, x, c.Axis(c.Int("axis", -1), rank)))
		}
		axis := c.Int("axis", 1)
		if axis != int64(rank) { // a matrix of one column is legal there
			axis = c.Axis(axis, rank)
		}
		if axis == int64(rank)-1 {
			return convert.One(f(c.Builder, x, axis))
		}
		matrix := ops.Reshape(c.Builder, x, sym.Product(x.Type.Shape[:axis]...), sym.Product(x.Type.Shape[axis:]...))
		return convert.One(ops.Reshape(c.Builder, f(c.Builder, matrix, 1), x.Type.Shape...))
	}
}

// batchNormalization converts BatchNormalization. In training mode it uses the statistics of the batch, and updates the
// running statistics.
func batchNormalization(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	scale, shift, mean, variance := c.Input(1), c.Input(2), c.Input(3), c.Input(4)
	epsilon := c.Float("epsilon", 1e-5)
	if len(x.Type.Shape) < 2 {
		// An input without a channel axis has one channel.
		c.Refuse("an input of rank %d", len(x.Type.Shape))
	}
	if c.Version < 9 && c.Int("spatial", 1) == 0 {
		return convert.One(ops.BatchNorm(b, x, scale, shift, mean, variance, epsilon))
	}
	if c.Int("training_mode", 0) == 0 {
		if c.Outputs > 1 {
			c.Refuse("training")
		}
		return convert.One(ops.BatchNorm(b, x, scale, shift, mean, variance, epsilon))
	}
	axes := []int64{0}
	for axis := 2; axis < len(x.Type.Shape); axis++ {
		axes = append(axes, int64(axis))
	}
	wide := ops.Cast(b, x, wider(x.Type.DType))
	current := ops.ReduceMean(b, wide, true, axes...)
	centred := ops.Binary(b, ops.Sub, wide, current)
	spread := ops.ReduceMean(b, ops.Binary(b, ops.Mul, centred, centred), false, axes...)
	current = ops.Reshape(b, current, spread.Type.Shape...)
	momentum := c.Float("momentum", 0.9)
	blend := func(running, now *ir.Value) *ir.Value {
		dt := running.Type.DType
		return ops.Binary(b, ops.Add, Scaled(c, running, momentum), Scaled(c, ops.Cast(b, now, dt), 1-momentum))
	}
	return []*ir.Value{ops.BatchNorm(b, x, scale, shift, current, spread, epsilon), blend(mean, current),
		blend(variance, spread)}
}

// wider returns the type for sums of elements of dt.
func wider(dt dtype.DType) dtype.DType {
	if dt.IsFloat() && dt.Bits() < 32 {
		return dtype.F32
	}
	return dt
}

// layerNormalization converts LayerNormalization, with its mean and inverse deviation if the node has these outputs.
func layerNormalization(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	rank := len(x.Type.Shape)
	axis := c.Axis(c.Int("axis", -1), rank)
	axes := convert.AllAxes(rank)[axis:]
	epsilon := c.Float("epsilon", 1e-5)
	y := ops.Normalize(b, x, epsilon, true, axes...)
	y = ops.Binary(b, ops.Mul, y, ops.BroadcastTo(b, c.Input(1), x.Type.Shape...))
	if shift := c.Optional(2); shift != nil {
		y = ops.Binary(b, ops.Add, y, ops.BroadcastTo(b, shift, x.Type.Shape...))
	}
	out := []*ir.Value{y}
	if c.Outputs > 1 {
		stash := dtype.F32
		if c.Int("stash_type", 1) != 1 {
			stash = c.Type("stash_type")
		}
		wide := ops.Cast(b, x, stash)
		mean := ops.ReduceMean(b, wide, true, axes...)
		centred := ops.Binary(b, ops.Sub, wide, mean)
		variance := ops.ReduceMean(b, ops.Binary(b, ops.Mul, centred, centred), true, axes...)
		deviation := ops.Unary(b, ops.Sqrt, ops.Binary(b, ops.Add, variance, ops.Scalar(b, stash, epsilon)))
		out = append(out, mean, ops.Unary(b, ops.Reciprocal, deviation))
	}
	return out
}

// instanceNormalization converts InstanceNormalization, which normalizes each channel of each image separately.
func instanceNormalization(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	y := ops.Normalize(c.Builder, x, c.Float("epsilon", 1e-5), true, SpatialAxes(c)...)
	return convert.One(ops.ScaleShift(c.Builder, y, 1, c.Input(1), c.Input(2)))
}

// groupNormalization converts GroupNormalization. Before version 21, scale and shift had one element for each group;
// since then, one for each channel.
func groupNormalization(c *convert.Call) []*ir.Value {
	b, x := c.Builder, c.Input(0)
	shape, groups := x.Type.Shape, c.Int("num_groups", 0)
	if groups < 1 || len(shape) < 2 {
		c.Fault("%d groups of %s", groups, x.Type)
	}
	each := shape[1].FloorDiv(sym.Const(groups))
	grouped := ops.Reshape(b, x, shape[0], sym.Const(groups), sym.Product(append([]sym.Expr{each}, shape[2:]...)...))
	y := ops.Normalize(b, grouped, c.Float("epsilon", 1e-5), true, 2)
	scale, shift := c.Input(1), c.Input(2)
	if c.Version < 21 {
		return convert.One(ops.Reshape(b, ops.ScaleShift(b, y, 1, scale, shift), shape...))
	}
	return convert.One(ops.ScaleShift(b, ops.Reshape(b, y, shape...), 1, scale, shift))
}

// rmsNormalization converts RMSNormalization.
func rmsNormalization(c *convert.Call) []*ir.Value {
	x, scale := c.Input(0), c.Input(1)
	rank := len(x.Type.Shape)
	axis := c.Axis(c.Int("axis", -1), rank)
	y := ops.Normalize(c.Builder, x, c.Float("epsilon", 1e-5), false, convert.AllAxes(rank)[axis:]...)
	return convert.One(ops.Binary(c.Builder, ops.Mul, ops.Cast(c.Builder, y, scale.Type.DType),
		ops.BroadcastTo(c.Builder, scale, x.Type.Shape...)))
}

// meanVarianceNormalization converts MeanVarianceNormalization, which adds 1e-9 to the deviation.
func meanVarianceNormalization(c *convert.Call) []*ir.Value {
	axes := c.Ints("axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	return convert.One(ops.Normalize(c.Builder, c.Input(0), 1e-18, true, axes...))
}

// responseNormalization converts LRN.
func responseNormalization(c *convert.Call) []*ir.Value {
	return convert.One(ops.LRN(c.Builder, c.Input(0), c.Int("size", 0), c.Float("alpha", 1e-4), c.Float("beta", 0.75),
		c.Float("bias", 1)))
}

// lpNormalization converts LpNormalization.
func lpNormalization(c *convert.Call) []*ir.Value {
	axis := c.Axis(c.Int("axis", -1), len(c.Input(0).Type.Shape))
	return convert.One(ops.LpNormalize(c.Builder, c.Input(0), c.Int("p", 2), axis))
}
