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
		"aten._embedding_bag_backward.default": bagsBackward, "aten._embedding_bag_dense_backward.default": bagsBackward,
		"aten._embedding_bag_per_sample_weights_backward.default": bagWeightsBackward,
	})
}

// bagOfEach returns the bag of each index: from the forward pass, or from the offsets if the forward pass omitted it.
func (c *call) bagOfEach(n sym.Expr) *ir.Value {
	of := ops.Cast(c.Builder, c.tensor("offset2bag"), dtype.I64)
	if c.Dims().EQ(product(of.Type.Shape), n) != sym.Yes && c.has("offsets") {
		return c.bagOf(ops.Cast(c.Builder, c.tensor("offsets"), dtype.I64), n)
	}
	return of
}

// padded returns a mask of the indices that are not padding; nil if there is no padding.
func (c *call) padded(indices *ir.Value) *ir.Value {
	padding := c.int("padding_idx", -1)
	if padding < 0 {
		return nil
	}
	return c.binary(ops.Ne, indices, c.like(indices, float64(padding)))
}

// bagsBackward is a rule for the gradient of _embedding_bag with respect to the table.
func bagsBackward(c *call) []*ir.Value {
	grad, indices := c.tensor("grad"), ops.Cast(c.Builder, c.tensor("indices"), dtype.I64)
	if len(grad.Type.Shape) != 2 || len(indices.Type.Shape) != 1 || c.bool("sparse", false) {
		c.Fail(diag.Unsupportedf("a gradient %s of bags of %s, which is sparse or has other axes", grad.Type, indices.Type))
	}
	n, mode := indices.Type.Shape[0], c.word("mode", bagModes)
	zeros := ops.Expand(c.Builder, c.like(grad, 0), c.sym("num_weights"), grad.Type.Shape[1])
	sizes := ops.Cast(c.Builder, c.tensor("bag_size"), grad.Type.DType)
	if mode == "max" {
		return one(c.greatestBackward(zeros, grad, sizes))
	}
	of := c.bagOfEach(n)
	rows := ops.Gather(c.Builder, grad, of, 0)
	column := func(v *ir.Value) *ir.Value { return ops.Reshape(c.Builder, v, n, unit) }
	if mode == "mean" {
		each := c.binary(ops.Max, ops.Gather(c.Builder, sizes, of, 0), c.like(sizes, 1))
		rows = c.binary(ops.Div, rows, column(each))
	}
	if weights := c.optional("per_sample_weights"); weights != nil {
		rows = c.binary(ops.Mul, rows, column(weights))
	}
	if c.bool("scale_grad_by_freq", false) {
		ones := ops.Expand(c.Builder, c.like(grad, 1), n)
		counts := ops.ScatterND(c.Builder, ops.Expand(c.Builder, c.like(grad, 0), zeros.Type.Shape[0]), column(indices), ones,
			"add")
		rows = c.binary(ops.Div, rows, column(ops.Gather(c.Builder, counts, indices, 0)))
	}
	if counts := c.padded(indices); counts != nil {
		rows = ops.Where(c.Builder, column(counts), rows, c.like(rows, 0))
	}
	return one(ops.ScatterND(c.Builder, zeros, column(indices), rows, "add"))
}

// greatestBackward adds the gradient of each bag's greatest elements to their rows of the table.
func (c *call) greatestBackward(zeros, grad, sizes *ir.Value) *ir.Value {
	from := ops.Cast(c.Builder, c.tensor("maximum_indices"), dtype.I64)
	if len(from.Type.Shape) != 2 || len(sizes.Type.Shape) != 1 {
		c.Fail(diag.Inputf("the greatest elements' indices are %s", from.Type))
	}
	filled := ops.Reshape(c.Builder, c.binary(ops.Gt, sizes, c.like(sizes, 0)), sizes.Type.Shape[0], unit)
	grad = ops.Where(c.Builder, filled, grad, c.like(grad, 0))
	from = ops.Where(c.Builder, c.binary(ops.Lt, from, c.like(from, 0)), c.like(from, 0), from)
	return ops.ScatterElements(c.Builder, zeros, from, grad, 0, "add")
}

// bagWeightsBackward is a rule for the gradient of _embedding_bag with respect to the weights of the rows.
func bagWeightsBackward(c *call) []*ir.Value {
	grad, table, indices := c.tensor("grad"), c.tensor("weight"), ops.Cast(c.Builder, c.tensor("indices"), dtype.I64)
	if len(grad.Type.Shape) != 2 || len(table.Type.Shape) != 2 || len(indices.Type.Shape) != 1 {
		c.Fail(diag.Inputf("bags of %s: indices %s, and a gradient %s", table.Type, indices.Type, grad.Type))
	}
	rows := c.binary(ops.Mul, ops.Gather(c.Builder, grad, c.bagOfEach(indices.Type.Shape[0]), 0),
		ops.Gather(c.Builder, table, c.positions("indices"), 0))
	y := ops.ReduceSum(c.Builder, rows, false, 1)
	if counts := c.padded(indices); counts != nil {
		y = ops.Where(c.Builder, counts, y, c.like(y, 0))
	}
	return one(y)
}
