package torch

import (
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.sum.default": sum, "aten.sum.dim_IntList": sum, "aten.mean.default": mean, "aten.mean.dim": mean,
		"aten.prod.default": folded("reduce_prod"), "aten.prod.dim_int": folded("reduce_prod"),
		"aten.amax.default": folded("reduce_max"), "aten.amin.default": folded("reduce_min"),
		"aten.max.default": folded("reduce_max"), "aten.min.default": folded("reduce_min"),
		"aten.max.dim": extreme(false), "aten.min.dim": extreme(true), "aten.argmax.default": indexOfExtreme(false),
		"aten.argmin.default": indexOfExtreme(true),
		"aten.any.default":    truth("reduce_max"), "aten.any.dim": truth("reduce_max"), "aten.any.dims": truth("reduce_max"),
		"aten.all.default": truth("reduce_min"), "aten.all.dim": truth("reduce_min"),
		"aten.var.correction": variance, "aten.var.dim": variance, "aten.logsumexp.default": logSumExp,
		"aten.linalg_vector_norm.default": norm,
		"aten.cumsum.default":             cumulative, "aten.topk.default": topK, "aten.sort.default": sort,
		"aten._softmax.default": softmax, "aten.softmax.int": softmax, "aten._log_softmax.default": logSoftmax,
		"aten.log_softmax.int":                logSoftmax,
		"aten._softmax_backward_data.default": softmaxBackward, "aten._log_softmax_backward_data.default": logSoftmaxBackward,
		"aten.native_layer_norm.default": layerNorm, "aten.layer_norm.default": layerNorm,
		"aten.native_layer_norm_backward.default": layerNormBackward,
		"aten.native_group_norm.default":          groupNorm, "aten.group_norm.default": groupNorm,
		"aten.native_group_norm_backward.default": groupNormBackward,
		"aten.rms_norm.default":                   rmsNorm,
		"aten.embedding_dense_backward.default":   embeddingBackward, "aten.nll_loss_forward.default": nllLoss,
		"aten.nll_loss_backward.default":  nllLossBackward,
		"aten.nll_loss2d_forward.default": nllLoss, "aten.nll_loss2d_backward.default": nllLossBackward,
		"aten.sort.stable": sort,
	})
}

// axes returns the axes in dim; all axes if it is absent or empty.
func (c *call) axes(x *ir.Value) (list []int64) {
	for _, d := range c.listOf("dim") {
		list = append(list, int64(c.axisOf(d, len(x.Type.Shape))))
	}
	if len(list) == 0 {
		for i := range x.Type.Shape {
			list = append(list, int64(i))
		}
	}
	return list
}

// reduce reduces x along axes; a scalar is its own reduction.
func (c *call) reduce(name string, x *ir.Value, keep bool, axes []int64) *ir.Value {
	if len(x.Type.Shape) == 0 {
		return x
	}
	return ops.Reduce(c.Builder, name, x, keep, axes...)
}

// sum is a rule for the sum along axes.
func sum(c *call) []*ir.Value {
	x := c.tensor("self")
	own := x.Type.DType
	if kind(own) < 2 {
		own = dtype.I64
	}
	x = ops.Cast(c.Builder, x, c.dtype("dtype", own))
	name := "reduce_sum"
	if x.Type.DType == dtype.Bool {
		name = "reduce_max"
	}
	return one(c.asNumbers(x, func(x *ir.Value) *ir.Value {
		return c.reduce(name, x, c.bool("keepdim", false), c.axes(x))
	}))
}

// mean is a rule for the mean along axes.
func mean(c *call) []*ir.Value {
	x := c.tensor("self")
	x = ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType))
	if len(x.Type.Shape) == 0 {
		return one(x)
	}
	return one(ops.ReduceMean(c.Builder, x, c.bool("keepdim", false), c.axes(x)...))
}

// folded returns a rule for a reduction along the axes in dim; products of bools and integers are i64.
func folded(name string) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		if name == "reduce_prod" && kind(x.Type.DType) < 2 {
			x = ops.Cast(c.Builder, x, dtype.I64)
		}
		x = ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType))
		return one(c.asNumbers(x, func(x *ir.Value) *ir.Value {
			return c.reduce(name, x, c.bool("keepdim", false), c.axes(x))
		}))
	}
}

// truth returns a rule for a reduction of truth values.
func truth(name string) rule {
	return func(c *call) []*ir.Value {
		x := ops.Cast(c.Builder, ops.Cast(c.Builder, c.tensor("self"), dtype.Bool), dtype.U8)
		return one(ops.Cast(c.Builder, c.reduce(name, x, c.bool("keepdim", false), c.axes(x)), dtype.Bool))
	}
}

// extreme returns a rule for the greatest or least element along an axis, and its index.
func extreme(smallest bool) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		axis, keep := int64(c.axis("dim", 0, len(x.Type.Shape))), c.bool("keepdim", false)
		if len(x.Type.Shape) == 0 {
			return []*ir.Value{x, ops.Scalar(c.Builder, dtype.I64, 0)}
		}
		own := x.Type.DType
		if own == dtype.Bool {
			x = ops.Cast(c.Builder, x, dtype.U8)
		}
		at := ops.ArgMax(c.Builder, x, axis, smallest, true, false)
		y := ops.GatherElements(c.Builder, x, at, axis)
		if !keep {
			shape := without(y.Type.Shape, int(axis))
			y, at = ops.Reshape(c.Builder, y, shape...), ops.Reshape(c.Builder, at, shape...)
		}
		return []*ir.Value{ops.Cast(c.Builder, y, own), at}
	}
}

// indexOfExtreme returns a rule for the index of the greatest or least element, along an axis or among all elements.
func indexOfExtreme(smallest bool) rule {
	return func(c *call) []*ir.Value {
		x := c.tensor("self")
		if x.Type.DType == dtype.Bool {
			x = ops.Cast(c.Builder, x, dtype.U8)
		}
		if axis := c.axis("dim", 0, len(x.Type.Shape)); !c.has("dim") || len(x.Type.Shape) == 0 && axis == 0 {
			x = ops.Reshape(c.Builder, x, product(x.Type.Shape))
			return one(ops.ArgMax(c.Builder, x, 0, smallest, false, false))
		}
		return one(ops.ArgMax(c.Builder, x, int64(c.axis("dim", 0, len(x.Type.Shape))), smallest, c.bool("keepdim", false),
			false))
	}
}

// count returns the number of elements along axes in the type of x.
func (c *call) count(x *ir.Value, axes []int64) *ir.Value {
	n := []sym.Expr{unit}
	for _, a := range axes {
		n = append(n, x.Type.Shape[a])
	}
	return ops.Cast(c.Builder, ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{sym.Product(n...)}),
		x.Type.DType)
}

// variance is a rule for the variance along axes.
func variance(c *call) []*ir.Value {
	x := c.tensor("self")
	axes := c.axes(x)
	away := c.binary(ops.Sub, x, ops.ReduceMean(c.Builder, x, true, axes...))
	squares := ops.ReduceSum(c.Builder, c.binary(ops.Mul, away, away), c.bool("keepdim", false), axes...)
	correction := c.float("correction", 1)
	if c.has("unbiased") && !c.bool("unbiased", true) {
		correction = 0
	}
	n := c.binary(ops.Max, c.binary(ops.Sub, c.count(x, axes), c.like(x, correction)), c.like(x, 0))
	return one(c.binary(ops.Div, squares, n))
}

// logSumExp is a rule for the logarithm of the sum of exponentials.
func logSumExp(c *call) []*ir.Value {
	x := c.floats("self")
	if len(x.Type.Shape) == 0 {
		return one(x)
	}
	return one(ops.ReduceLogSumExp(c.Builder, x, c.bool("keepdim", false), c.axes(x)...))
}

// norm is a rule for (Σ |x|^p)^(1/p): for p = 0 the number of nonzero elements, for ±∞ the greatest or least magnitude.
func norm(c *call) []*ir.Value {
	x, keep, p := c.tensor("self"), c.bool("keepdim", false), c.float("ord", 2)
	x = ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType))
	if len(x.Type.Shape) > 0 && (p == 1 || p == 2) {
		return one(ops.LpNorm(c.Builder, x, int64(p), keep, c.axes(x)...))
	}
	size, axes := c.unary(ops.Abs, x), c.axes(x)
	switch {
	case p == 0:
		return one(c.reduce("reduce_sum", ops.Cast(c.Builder, c.binary(ops.Ne, x, c.like(x, 0)), x.Type.DType), keep, axes))
	case math.IsInf(p, 1):
		return one(c.reduce("reduce_max", size, keep, axes))
	case math.IsInf(p, -1):
		return one(c.reduce("reduce_min", size, keep, axes))
	}
	total := c.reduce("reduce_sum", c.binary(ops.Pow, size, c.like(x, p)), keep, axes)
	return one(c.binary(ops.Pow, total, c.like(x, 1/p)))
}

// cumulative is a rule for cumulative sums.
func cumulative(c *call) []*ir.Value {
	x := c.tensor("self")
	own := x.Type.DType
	if kind(own) < 2 {
		own = dtype.I64
	}
	if x = ops.Cast(c.Builder, x, c.dtype("dtype", own)); len(x.Type.Shape) == 0 {
		return one(x)
	}
	return one(ops.CumSum(c.Builder, x, int64(c.axis("dim", 0, len(x.Type.Shape))), false, false))
}

// topK is a rule for the k greatest or least elements along an axis, and their indices.
func topK(c *call) []*ir.Value {
	x := c.tensor("self")
	if len(x.Type.Shape) == 0 {
		return []*ir.Value{x, ops.Scalar(c.Builder, dtype.I64, 0)}
	}
	y, at := ops.TopK(c.Builder, x, c.sym("k"), int64(c.axis("dim", -1, len(x.Type.Shape))), c.bool("largest", true))
	return []*ir.Value{y, at}
}

// sort is a rule for the sorted elements along an axis, and their indices.
func sort(c *call) []*ir.Value {
	x := c.tensor("self")
	if len(x.Type.Shape) == 0 {
		return []*ir.Value{x, ops.Scalar(c.Builder, dtype.I64, 0)}
	}
	axis, own := c.axis("dim", -1, len(x.Type.Shape)), x.Type.DType
	if own == dtype.Bool {
		x = ops.Cast(c.Builder, x, dtype.U8)
	}
	y, at := ops.TopK(c.Builder, x, x.Type.Shape[axis], int64(axis), c.bool("descending", false))
	return []*ir.Value{ops.Cast(c.Builder, y, own), at}
}

// softmax is a rule for softmax along an axis.
func softmax(c *call) []*ir.Value {
	x := c.tensor("self")
	x = ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType))
	axis := int64(c.axis("dim", -1, len(x.Type.Shape)))
	return one(ops.Reshape(c.Builder, ops.Softmax(c.Builder, c.withAxis(x), axis), x.Type.Shape...))
}

// logSoftmax is a rule for the logarithm of softmax along an axis.
func logSoftmax(c *call) []*ir.Value {
	x := c.tensor("self")
	x = ops.Cast(c.Builder, x, c.dtype("dtype", x.Type.DType))
	axis := int64(c.axis("dim", -1, len(x.Type.Shape)))
	return one(ops.Reshape(c.Builder, ops.LogSoftmax(c.Builder, c.withAxis(x), axis), x.Type.Shape...))
}

// softmaxBackward is a rule for y · (g − Σ g · y).
func softmaxBackward(c *call) []*ir.Value {
	g, y := c.tensor("grad_output"), c.tensor("output")
	axis := int64(c.axis("dim", -1, len(y.Type.Shape)))
	gy := c.binary(ops.Mul, g, y)
	return one(c.binary(ops.Sub, gy, c.binary(ops.Mul, y, ops.ReduceSum(c.Builder, gy, true, axis))))
}

// logSoftmaxBackward is a rule for g − exp(y) · Σ g.
func logSoftmaxBackward(c *call) []*ir.Value {
	g, y := c.tensor("grad_output"), c.tensor("output")
	axis := int64(c.axis("dim", -1, len(y.Type.Shape)))
	return one(c.binary(ops.Sub, g, c.binary(ops.Mul, c.unary(ops.Exp, y), ops.ReduceSum(c.Builder, g, true, axis))))
}

// lastAxes returns the last n axes of x.
func lastAxes(x *ir.Value, n int) (list []int64) {
	for i := len(x.Type.Shape) - n; i < len(x.Type.Shape); i++ {
		list = append(list, int64(i))
	}
	return list
}

// statistics returns the mean and 1 / the deviation along axes, which keep an extent of 1.
func (c *call) statistics(x *ir.Value, epsilon float64, axes []int64) (mean, reciprocal *ir.Value) {
	mean = ops.ReduceMean(c.Builder, x, true, axes...)
	away := c.binary(ops.Sub, x, mean)
	spread := ops.ReduceMean(c.Builder, c.binary(ops.Mul, away, away), true, axes...)
	return mean, c.unary(ops.Reciprocal, c.unary(ops.Sqrt, c.binary(ops.Add, spread, c.like(x, epsilon))))
}

// scaledBy multiplies x by a weight and adds a bias; either may be nil.
func (c *call) scaledBy(x, weight, bias *ir.Value) *ir.Value {
	if weight != nil {
		x = c.binary(ops.Mul, x, weight)
	}
	if bias != nil {
		x = c.binary(ops.Add, x, bias)
	}
	return x
}

// unified returns tensors in their common type; nil stays nil. Norms of 16-bit tensors with weights in f32, which
// autocast makes, are computed in f32.
func (c *call) unified(list ...*ir.Value) []*ir.Value {
	common := dtype.Invalid
	for _, v := range list {
		if v != nil {
			common = commonType(common, v.Type.DType)
		}
	}
	out := make([]*ir.Value, len(list))
	for i, v := range list {
		if v != nil {
			out[i] = ops.Cast(c.Builder, v, common)
		}
	}
	return out
}

// layerNorm is a rule for layer norm.
func layerNorm(c *call) []*ir.Value {
	x, epsilon := c.tensor("input"), c.float("eps", 1e-5)
	axes := lastAxes(x, len(c.syms("normalized_shape")))
	of := c.unified(x, c.optional("weight"), c.optional("bias"))
	y := c.scaledBy(ops.Normalize(c.Builder, of[0], epsilon, true, axes...), of[1], of[2])
	y = ops.Cast(c.Builder, y, x.Type.DType)
	if len(c.node.Outputs) < 2 {
		return one(y)
	}
	mean, reciprocal := c.statistics(of[0], epsilon, axes)
	return []*ir.Value{y, mean, reciprocal}
}

// layerNormBackward is a rule for the derivatives of layer norm with respect to input, weight and bias, from the mean
// and the reciprocal deviation of the forward pass.
func layerNormBackward(c *call) []*ir.Value {
	own := c.tensor("input").Type.DType
	of := c.unified(c.tensor("grad_out"), c.tensor("input"), c.optional("weight"), c.tensor("mean"), c.tensor("rstd"))
	g, x, weight, reciprocal := of[0], of[1], of[2], of[4]
	axes, wanted := lastAxes(x, len(c.syms("normalized_shape"))), c.mask(3)
	normal := c.binary(ops.Mul, c.binary(ops.Sub, x, of[3]), reciprocal)
	out := make([]*ir.Value, 3)
	if wanted[0] {
		up := g
		if weight != nil {
			up = c.binary(ops.Mul, g, weight)
		}
		first := ops.ReduceMean(c.Builder, up, true, axes...)
		second := ops.ReduceMean(c.Builder, c.binary(ops.Mul, up, normal), true, axes...)
		by := c.binary(ops.Mul, reciprocal, c.binary(ops.Sub, c.binary(ops.Sub, up, first),
			c.binary(ops.Mul, normal, second)))
		out[0] = ops.Cast(c.Builder, by, own)
	}
	var others []int64
	for i := range len(x.Type.Shape) - len(axes) {
		others = append(others, int64(i))
	}
	sumOf := func(v *ir.Value) *ir.Value {
		if len(others) == 0 {
			return v
		}
		return ops.ReduceSum(c.Builder, v, false, others...)
	}
	if wanted[1] {
		out[1] = sumOf(c.binary(ops.Mul, g, normal))
	}
	if wanted[2] {
		out[2] = sumOf(g)
	}
	return out
}

// groups returns x, normalized by groups of channels, and the mean and reciprocal deviation, [N, groups], which are nil
// if the node has only one result.
func (c *call) groups(x *ir.Value, groups int64, epsilon float64) (y, mean, reciprocal *ir.Value) {
	shape := x.Type.Shape
	split := ops.Reshape(c.Builder, x, shape[0], sym.Const(groups), product(shape[1:]).FloorDiv(sym.Const(groups)))
	y = ops.Reshape(c.Builder, ops.Normalize(c.Builder, split, epsilon, true, 2), shape...)
	if len(c.node.Outputs) < 2 {
		return y, nil, nil
	}
	mean, reciprocal = c.statistics(split, epsilon, []int64{2})
	flat := func(v *ir.Value) *ir.Value { return ops.Reshape(c.Builder, v, shape[0], sym.Const(groups)) }
	return y, flat(mean), flat(reciprocal)
}

// perChannel reshapes a vector of channels so that it broadcasts to x, whose channels are axis 1.
func (c *call) perChannel(v, x *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	return ops.AlongAxis(c.Builder, v, 1, len(x.Type.Shape))
}

// groupNorm is a rule for group norm.
func groupNorm(c *call) []*ir.Value {
	x, name := c.tensor("input"), "group"
	if c.args["num_groups"] != nil {
		name = "num_groups"
	}
	of := c.unified(x, c.optional("weight"), c.optional("bias"))
	y, mean, reciprocal := c.groups(of[0], c.int(name, 1), c.float("eps", 1e-5))
	y = ops.Cast(c.Builder, c.scaledBy(y, c.perChannel(of[1], x), c.perChannel(of[2], x)), x.Type.DType)
	if mean == nil {
		return one(y)
	}
	return []*ir.Value{y, mean, reciprocal}
}

// groupNormBackward is a rule for the derivatives of group norm with respect to input, weight and bias, from the mean
// and the reciprocal deviation of the forward pass.
func groupNormBackward(c *call) []*ir.Value {
	own := c.tensor("input").Type.DType
	of := c.unified(c.tensor("grad_out"), c.tensor("input"), c.optional("weight"), c.tensor("mean"), c.tensor("rstd"))
	g, x, weight, mean, reciprocal, groups := of[0], of[1], of[2], of[3], of[4], sym.Const(c.int("group", 1))
	shape, wanted := x.Type.Shape, c.mask(3)
	split := func(v *ir.Value) *ir.Value {
		return ops.Reshape(c.Builder, v, shape[0], groups, product(shape[1:]).FloorDiv(groups))
	}
	stat := func(v *ir.Value) *ir.Value { return ops.Reshape(c.Builder, v, shape[0], groups, unit) }
	normal := c.binary(ops.Mul, c.binary(ops.Sub, split(x), stat(mean)), stat(reciprocal))
	out := make([]*ir.Value, 3)
	if wanted[0] {
		up := g
		if weight != nil {
			up = c.binary(ops.Mul, g, c.perChannel(weight, x))
		}
		u := split(up)
		first := ops.ReduceMean(c.Builder, u, true, 2)
		second := ops.ReduceMean(c.Builder, c.binary(ops.Mul, u, normal), true, 2)
		by := c.binary(ops.Mul, stat(reciprocal), c.binary(ops.Sub, c.binary(ops.Sub, u, first),
			c.binary(ops.Mul, normal, second)))
		out[0] = ops.Cast(c.Builder, ops.Reshape(c.Builder, by, shape...), own)
	}
	others := []int64{0}
	for i := 2; i < len(shape); i++ {
		others = append(others, int64(i))
	}
	if wanted[1] {
		out[1] = ops.ReduceSum(c.Builder, c.binary(ops.Mul, g, ops.Reshape(c.Builder, normal, shape...)), false, others...)
	}
	if wanted[2] {
		out[2] = ops.ReduceSum(c.Builder, g, false, others...)
	}
	return out
}

// rmsNorm is a rule for the root mean square norm.
func rmsNorm(c *call) []*ir.Value {
	x := c.tensor("input")
	of := c.unified(x, c.optional("weight"))
	axes := lastAxes(x, len(c.syms("normalized_shape")))
	y := ops.Normalize(c.Builder, of[0], c.float("eps", 1.1920929e-07), false, axes...)
	return one(ops.Cast(c.Builder, c.scaledBy(y, of[1], nil), x.Type.DType))
}

// embeddingBackward is a rule for the gradient of an embedding with respect to its table: it sums the gradients of each
// row, except those of padding_idx.
func embeddingBackward(c *call) []*ir.Value {
	g, at := c.tensor("grad_output"), c.tensor("indices")
	rows, width := c.sym("num_weights"), g.Type.Shape[len(g.Type.Shape)-1]
	if c.bool("scale_grad_by_freq", false) {
		c.Fail(diag.Unsupportedf("derivatives that are scaled by how often a row is read"))
	}
	n := product(at.Type.Shape)
	table := ops.Expand(c.Builder, c.like(g, 0), rows, width)
	flat, up := ops.Reshape(c.Builder, ops.Cast(c.Builder, at, dtype.I64), n, unit), ops.Reshape(c.Builder, g, n, width)
	if padding := c.int("padding_idx", -1); padding >= 0 {
		up = ops.Where(c.Builder, c.binary(ops.Eq, flat, c.like(flat, float64(padding))), c.like(up, 0), up)
	}
	return one(ops.ScatterND(c.Builder, table, flat, up, "add"))
}

// reductions are the reductions of a loss, by PyTorch's numbers.
var reductions = []string{"none", "mean", "sum"}

// losses returns the negative log likelihood for logs, log-probabilities of classes.
func (c *call) losses(logs *ir.Value) *ir.Value {
	ignore := c.int("ignore_index", -100)
	how := c.int("reduction", 1)
	if how < 0 || how > 2 {
		c.Fail(diag.Inputf("a reduction %d", how))
	}
	target := c.tensor("target")
	if len(logs.Type.Shape) > 1 {
		return ops.NegativeLogLikelihood(c.Builder, logs, target, c.optional("weight"), &ignore, reductions[how])
	}
	logs = ops.Reshape(c.Builder, logs, unit, product(logs.Type.Shape))
	target = ops.Reshape(c.Builder, target, unit)
	loss := ops.NegativeLogLikelihood(c.Builder, logs, target, c.optional("weight"), &ignore, reductions[how])
	return ops.Reshape(c.Builder, loss)
}

// nllLoss is a rule for the negative log likelihood, and the total weight of its elements, or zeros if nothing is
// reduced.
func nllLoss(c *call) []*ir.Value {
	logs, target := c.tensor("self"), c.tensor("target")
	if c.int("reduction", 1) == 0 && len(logs.Type.Shape) > 1 {
		return []*ir.Value{c.losses(logs), c.like(logs, 0)}
	}
	kept := c.binary(ops.Ne, target, c.like(target, float64(c.int("ignore_index", -100))))
	share := ops.Cast(c.Builder, kept, logs.Type.DType)
	if weight := c.optional("weight"); weight != nil {
		index := ops.Where(c.Builder, kept, target, c.like(target, 0))
		share = c.binary(ops.Mul, share, ops.Gather(c.Builder, weight, index, 0))
	}
	return []*ir.Value{c.losses(logs), c.reduce("reduce_sum", share, false, c.axes(share))}
}

// nllLossBackward is a rule for the derivative of the negative log likelihood.
func nllLossBackward(c *call) []*ir.Value {
	logs := c.tensor("self")
	return c.derivatives([]*ir.Value{c.losses(logs)}, []*ir.Value{c.tensor("grad_output")}, []*ir.Value{logs})
}
