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

// attention is a rule for scaled dot-product attention: the result and, if the node has a second result, the
// log-sum-exps of the scores.
func attention(c *call) []*ir.Value {
	q, k, v := c.tensor("query"), c.tensor("key"), c.tensor("value")
	y := c.attend(q, k, v)
	if len(c.node.Outputs) < 2 {
		return one(y)
	}
	return []*ir.Value{y, c.sums(q, k)}
}

// attend computes attention of [.., H, L, D].
func (c *call) attend(q, k, v *ir.Value) *ir.Value {
	if c.float("dropout_p", 0) != 0 {
		c.Fail(diag.Unsupportedf("attention with dropout"))
	}
	mask := c.optional("attn_mask")
	lead := q.Type.Shape[:len(q.Type.Shape)-2]
	fold := func(x *ir.Value) *ir.Value {
		n := len(x.Type.Shape)
		if n == 4 {
			return x
		}
		return ops.Reshape(c.Builder, x, product(x.Type.Shape[:n-2]), unit, x.Type.Shape[n-2], x.Type.Shape[n-1])
	}
	if mask != nil && len(q.Type.Shape) != 4 {
		mask = fold(ops.Expand(c.Builder, mask, append(append([]sym.Expr{}, lead...), q.Type.Shape[len(lead)],
			k.Type.Shape[len(k.Type.Shape)-2])...))
	}
	y := ops.AttentionNode(c.Builder, ops.AttentionOperands{Query: fold(q), Key: fold(k), Value: fold(v), Mask: mask},
		ops.AttentionSettings{Scale: c.float("scale", 0), Causal: c.bool("is_causal", false), Past: sym.Const(0)})
	if mask != nil {
		y = ops.Where(c.Builder, c.seesNothing(mask), c.like(y, 0), y)
	}
	if len(q.Type.Shape) == 4 {
		return y
	}
	return ops.Reshape(c.Builder, y, append(append([]sym.Expr{}, lead...), q.Type.Shape[len(lead)],
		v.Type.Shape[len(v.Type.Shape)-1])...)
}

// seesNothing reports for each row of a mask, as bools [..., L, 1], whether it excludes every key: torch's result is
// zero for these rows.
func (c *call) seesNothing(mask *ir.Value) *ir.Value {
	nothing := math.Inf(-1)
	if mask.Type.DType == dtype.Bool {
		mask, nothing = ops.Cast(c.Builder, mask, dtype.F32), 0
	}
	most := ops.ReduceMax(c.Builder, mask, true, int64(len(mask.Type.Shape)-1))
	return c.binary(ops.Eq, most, c.like(most, nothing))
}

// perHead repeats keys or values, [..., H, L, D], so that each of the query's heads has its own.
func (c *call) perHead(x, q *ir.Value) *ir.Value {
	shape, heads := x.Type.Shape, len(x.Type.Shape)-3
	if heads < 0 || c.Dims().EQ(shape[heads], q.Type.Shape[heads]) == sym.Yes {
		return x
	}
	group := c.Dims().Simplify(q.Type.Shape[heads].FloorDiv(shape[heads].Max(unit)))
	lead, rest := shape[:heads+1:heads+1], shape[heads+1:]
	x = ops.Reshape(c.Builder, x, slices.Concat(lead, []sym.Expr{unit}, rest)...)
	x = ops.Expand(c.Builder, x, slices.Concat(lead, []sym.Expr{group}, rest)...)
	return ops.Reshape(c.Builder, x, slices.Concat(shape[:heads:heads], []sym.Expr{q.Type.Shape[heads]}, rest)...)
}

// perKey sums the derivatives of the copies that perHead made, for the shape of x.
func (c *call) perKey(d, x *ir.Value) *ir.Value {
	shape, heads := x.Type.Shape, len(x.Type.Shape)-3
	if heads < 0 || c.Dims().EQ(shape[heads], d.Type.Shape[heads]) == sym.Yes {
		return d
	}
	group := c.Dims().Simplify(d.Type.Shape[heads].FloorDiv(shape[heads].Max(unit)))
	d = ops.Reshape(c.Builder, d, slices.Concat(shape[:heads+1:heads+1], []sym.Expr{group}, shape[heads+1:])...)
	return ops.ReduceSum(c.Builder, d, false, int64(heads+1))
}

// attentionScale returns the factor of the scores.
func (c *call) attentionScale(q *ir.Value) float64 {
	if scale := c.float("scale", 0); scale != 0 {
		return scale
	}
	width, ok := q.Type.Shape[len(q.Type.Shape)-1].Const()
	if !ok {
		c.Fail(diag.Unsupportedf("attention of heads of %s", q.Type.Shape[len(q.Type.Shape)-1]))
	}
	return 1 / math.Sqrt(float64(width))
}

// scores returns the scores of queries against keys in f32, scaled and masked.
func (c *call) scores(q, k *ir.Value) *ir.Value {
	scores := ops.Cast(c.Builder, ops.MatMul(c.Builder, q, k, false, true), dtype.F32)
	n := len(scores.Type.Shape)
	scores = c.binary(ops.Mul, scores, c.like(scores, c.attentionScale(q)))
	if mask := c.optional("attn_mask"); mask != nil && mask.Type.DType == dtype.Bool {
		scores = ops.Where(c.Builder, mask, scores, c.like(scores, math.Inf(-1)))
	} else if mask != nil {
		scores = c.binary(ops.Add, scores, ops.Cast(c.Builder, mask, dtype.F32))
	}
	if c.bool("is_causal", false) {
		shape := scores.Type.Shape[n-2:]
		seen := ops.Triangle(c.Builder, ops.Expand(c.Builder, ops.Scalar(c.Builder, dtype.F32, 1), shape...), false,
			sym.Const(0))
		scores = ops.Where(c.Builder, c.binary(ops.Gt, seen, c.like(seen, 0)), scores, c.like(scores, math.Inf(-1)))
	}
	return scores
}

// sums returns the log-sum-exps of the scores, [..., L], in f32, which torch's backward pass reads; 0 for rows without
// a key.
func (c *call) sums(q, k *ir.Value) *ir.Value {
	scores := c.scores(q, c.perHead(k, q))
	sums := ops.ReduceLogSumExp(c.Builder, scores, false, int64(len(scores.Type.Shape)-1))
	return ops.Where(c.Builder, c.binary(ops.Eq, sums, c.like(sums, math.Inf(-1))), c.like(sums, 0), sums)
}

// attentionBackward is a rule for the derivatives with respect to query, key and value, from the result and the
// log-sum-exps, as in FlashAttention (Dao et al., 2022, algorithm 4), without its blocks.
func attentionBackward(c *call) []*ir.Value {
	q, k, v := c.tensor("query"), c.tensor("key"), c.tensor("value")
	up, y, sums := c.tensor("grad_out"), c.tensor("out"), c.tensor("logsumexp")
	dt, n := q.Type.DType, len(q.Type.Shape)
	if c.float("dropout_p", 0) != 0 {
		c.Fail(diag.Unsupportedf("attention with dropout"))
	}
	keys, values := c.perHead(k, q), c.perHead(v, q)
	scores := c.scores(q, keys)
	sums = ops.Reshape(c.Builder, sums, append(slices.Clone(scores.Type.Shape[:n-1]), unit)...)
	p := c.unary(ops.Exp, c.binary(ops.Sub, scores, sums))
	// This covers rows without any key too.
	p = ops.Where(c.Builder, c.binary(ops.Eq, scores, c.like(scores, math.Inf(-1))), c.like(p, 0), p)
	weights := ops.Cast(c.Builder, p, dt)
	ofWeights := ops.Cast(c.Builder, ops.MatMul(c.Builder, up, values, false, true), dtype.F32)
	rows := ops.ReduceSum(c.Builder, c.binary(ops.Mul, ops.Cast(c.Builder, up, dtype.F32),
		ops.Cast(c.Builder, y, dtype.F32)), true, int64(n-1))
	ofScores := c.binary(ops.Mul, p, c.binary(ops.Sub, ofWeights, rows))
	ofScores = ops.Cast(c.Builder, c.binary(ops.Mul, ofScores, c.like(ofScores, c.attentionScale(q))), dt)
	return []*ir.Value{
		ops.MatMul(c.Builder, ofScores, keys, false, false),
		c.perKey(ops.MatMul(c.Builder, ofScores, q, true, false), k),
		c.perKey(ops.MatMul(c.Builder, weights, up, true, false), v),
	}
}
