package ops

import (
	"math"

	"github.com/weirml/weir/internal/attention"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// AttentionOperands are the tensors of scaled dot product attention: B sequences, H heads of queries, G heads of keys
// and values (H is a multiple of G), Q queries, K keys.
type AttentionOperands struct {
	Query *ir.Value // [B, H, Q, D]
	Key   *ir.Value // [B, G, K, D]
	Value *ir.Value // [B, G, K, E]
	// Keys and values after those, [B, G, L, D] and [B, G, L, E]; K then counts the keys of both. Optional.
	NextKey, NextValue *ir.Value
	// optional, broadcast to [B, H, Q, K]. Bools: true if the query sees the key; floats are added to the scores. If the
	// last axis is shorter than K, the keys at the end are masked
	Mask    *ir.Value
	Lengths *ir.Value // optional, [B], integers: the number of keys that are seen
	// optional, [B], integers: the position of the first query among the keys, if it is not Settings.Past
	First *ir.Value
}

// AttentionSettings are the numbers that attention depends on.
type AttentionSettings = attention.Settings

// AttentionScores are the intermediate values of attention.
type AttentionScores struct{ Product, Capped, Masked, Weights *ir.Value }

// Attention returns softmax(scale · Query · Keyᵀ, masked) · Value, [B, H, Q, E]: Vaswani et al., Attention is all you
// need, 2017; with fewer heads of keys than of queries, Ainslie et al., GQA, 2023.
func Attention(b *ir.Builder, x AttentionOperands, s AttentionSettings) (*ir.Value, AttentionScores) {
	dt, q, k, v := x.Query.Type.DType, x.Query, x.Key, x.Value
	if x.NextKey != nil {
		k, v = Concat(b, 2, k, x.NextKey), Concat(b, 2, v, x.NextValue)
	}
	scale := scaleOf(b, s, dt, q.Type.Shape[3])
	shape := q.Type.Shape
	heads, groups, queries, keys := shape[1], k.Type.Shape[1], shape[2], k.Type.Shape[2]
	if m := x.Mask; m != nil && len(m.Type.Shape) > 0 {
		x.Mask = BroadcastTo(b, m, shape[0], heads, queries, m.Type.Shape[len(m.Type.Shape)-1])
	}
	narrow := dt.Bits() < 32
	if narrow {
		// Scores of narrow floats may overflow before they are scaled.
		root := Unary(b, loop.Sqrt, scale)
		q, k = Binary(b, loop.Mul, q, root), Binary(b, loop.Mul, k, root)
	}
	// The heads of queries that share a head of keys become rows of one product.
	shared := b.Dims().EQ(heads, groups) != sym.Yes
	if shared {
		q = Reshape(b, q, shape[0], groups, heads.FloorDiv(groups).Mul(queries), shape[3])
	}
	product := MatMul(b, q, k, false, true)
	if shared {
		product = Reshape(b, product, shape[0], heads, queries, keys)
	}
	var scores AttentionScores
	if !narrow {
		product = Binary(b, loop.Mul, product, scale)
	}
	scores.Product = product
	scores.Capped = scores.Product
	if s.Softcap > 0 {
		scores.Capped = ActivationWith(b, "scaled_tanh", scores.Product, s.Softcap, 1/s.Softcap)
	}
	scores.Masked = masked(b, scores.Capped, x, s, queries, keys)
	weights := scores.Masked
	if s.Softmax != dtype.Invalid {
		weights = Cast(b, weights, s.Softmax)
	}
	weights = Softmax(b, weights, -1)
	if s.Blank {
		weights = Where(b, Unary(b, loop.IsNaN, weights), Scalar(b, weights.Type.DType, 0), weights)
	}
	weights = Cast(b, weights, dt)
	scores.Weights = weights
	if shared {
		weights = Reshape(b, weights, shape[0], groups, heads.FloorDiv(groups).Mul(queries), keys)
	}
	y := MatMul(b, weights, v, false, false)
	if shared {
		y = Reshape(b, y, shape[0], heads, queries, v.Type.Shape[3])
	}
	if blind := blind(b, x, s, queries, keys); blind != nil {
		y = Where(b, blind, Scalar(b, dt, 0), y)
		scores.Weights = Where(b, blind, Scalar(b, dt, 0), scores.Weights)
	}
	return y, scores
}

// scaleOf returns the factor of the scores, 1/√D unless the settings give one.
func scaleOf(b *ir.Builder, s AttentionSettings, dt dtype.DType, size sym.Expr) *ir.Value {
	if s.Scale != 0 {
		return Scalar(b, dt, s.Scale)
	}
	if n, ok := size.Const(); ok {
		return Scalar(b, dt, 1/math.Sqrt(float64(n)))
	}
	elements := Cast(b, Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{size}), dt)
	return Unary(b, loop.Reciprocal, Unary(b, loop.Sqrt, elements))
}

// masked returns the scores with −∞ at keys that a query does not see.
func masked(b *ir.Builder, scores *ir.Value, x AttentionOperands, s AttentionSettings, queries,
	keys sym.Expr) *ir.Value {
	dt := scores.Type.DType
	none := Scalar(b, dt, s.Hidden())
	if mask := x.Mask; mask != nil {
		if mask = toKeys(b, mask, keys); mask.Type.DType == dtype.Bool {
			scores = Where(b, mask, scores, none)
		} else {
			scores = Binary(b, loop.Add, scores, Cast(b, mask, dt))
		}
	}
	for _, seen := range visible(b, x, s, queries, keys) {
		scores = Where(b, seen, scores, none)
	}
	return scores
}

// toKeys pads a mask to one element for each key.
func toKeys(b *ir.Builder, mask *ir.Value, keys sym.Expr) *ir.Value {
	rank := len(mask.Type.Shape)
	if rank == 0 || isOne(mask.Type.Shape[rank-1]) || b.Dims().EQ(mask.Type.Shape[rank-1], keys) == sym.Yes {
		return mask
	}
	end := zeros(rank)
	end[rank-1] = keys.Sub(mask.Type.Shape[rank-1])
	fill := Scalar(b, mask.Type.DType, 0)
	if mask.Type.DType != dtype.Bool {
		fill = Scalar(b, mask.Type.DType, math.Inf(-1))
	}
	return Pad(b, mask, fill, "constant", zeros(rank), end)
}

// visible returns the conditions, other than the mask, that a key must meet for a query to see it; each broadcasts to
// [B, H, Q, K].
func visible(b *ir.Builder, x AttentionOperands, s AttentionSettings, queries, keys sym.Expr) []*ir.Value {
	var all []*ir.Value
	key := Counting(b, dtype.I64, keys)
	if s.Causal || s.Left > 0 || s.Right > 0 {
		at := Reshape(b, Counting(b, dtype.I64, queries), queries, one)
		if x.First != nil {
			at = Binary(b, loop.Add, at, perSequence(b, x.First))
		} else if !isZero(s.Past) {
			at = Binary(b, loop.Add, at, Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{s.Past}))
		}
		if s.Causal {
			all = append(all, Binary(b, loop.Le, key, at))
		}
		if s.Left > 0 {
			all = append(all, Binary(b, loop.Gt, Binary(b, loop.Add, key, Scalar(b, dtype.I64, float64(s.Left))), at))
		}
		if s.Right > 0 {
			all = append(all, Binary(b, loop.Lt, Binary(b, loop.Sub, key, Scalar(b, dtype.I64, float64(s.Right))), at))
		}
	}
	if x.Lengths != nil {
		all = append(all, Binary(b, loop.Lt, key, perSequence(b, x.Lengths)))
	}
	return all
}

// perSequence reshapes a value for each sequence, [B], to [B, 1, 1, 1].
func perSequence(b *ir.Builder, v *ir.Value) *ir.Value {
	return Reshape(b, Cast(b, v, dtype.I64), v.Type.Shape[0], one, one, one)
}

// blind returns whether each query sees no key, broadcast to [B, H, Q, 1]; nil if the settings do not need it, or if
// each query certainly sees a key.
func blind(b *ir.Builder, x AttentionOperands, s AttentionSettings, queries, keys sym.Expr) *ir.Value {
	if !s.Zero || x.Mask == nil && x.Lengths == nil && x.First == nil {
		return nil // without those, each query sees its own key
	}
	var seen *ir.Value
	if x.Mask != nil {
		if seen = toKeys(b, x.Mask, keys); seen.Type.DType != dtype.Bool {
			seen = Binary(b, loop.Gt, seen, Scalar(b, seen.Type.DType, math.Inf(-1)))
		}
	}
	for _, more := range visible(b, x, s, queries, keys) {
		if seen == nil {
			seen = more
		} else {
			seen = Binary(b, loop.And, seen, more)
		}
	}
	if len(seen.Type.Shape) == 0 {
		return Unary(b, loop.Not, seen)
	}
	return Unary(b, loop.Not, ReduceMax(b, seen, true, -1))
}

// Rotate applies rotary position embedding (Su et al., RoFormer, 2021): it turns pairs of elements of x's last axis by
// angles, given by their cosines and sines, which broadcast to x with a last axis half as long. A pair is one element
// of each half of the axis or, with interleaved, two neighbours. Elements after the pairs stay as they are.
func Rotate(b *ir.Builder, x, cos, sin *ir.Value, interleaved bool) *ir.Value {
	shape := x.Type.Shape
	last := len(shape) - 1
	half := cos.Type.Shape[len(cos.Type.Shape)-1]
	both := half.Mul(sym.Const(2))
	turned, rest := x, (*ir.Value)(nil)
	if b.Dims().EQ(both, shape[last]) != sym.Yes {
		turned = SliceAxis(b, x, last, sym.Const(0), both)
		rest = SliceAxis(b, x, last, both, shape[last].Sub(both))
	}
	var first, second *ir.Value
	if interleaved {
		pairs := Reshape(b, turned, append(append([]sym.Expr{}, shape[:last]...), half, sym.Const(2))...)
		component := func(i int64) *ir.Value {
			return Reshape(b, SliceAxis(b, pairs, last+1, sym.Const(i), one),
				append(append([]sym.Expr{}, shape[:last]...), half)...)
		}
		first, second = component(0), component(1)
	} else {
		first, second = SliceAxis(b, turned, last, sym.Const(0), half), SliceAxis(b, turned, last, half, half)
	}
	real := Binary(b, loop.Sub, Binary(b, loop.Mul, cos, first), Binary(b, loop.Mul, sin, second))
	imaginary := Binary(b, loop.Add, Binary(b, loop.Mul, sin, first), Binary(b, loop.Mul, cos, second))
	var y *ir.Value
	if interleaved {
		column := func(v *ir.Value) *ir.Value {
			return Reshape(b, v, append(append([]sym.Expr{}, v.Type.Shape...), one)...)
		}
		y = Concat(b, int64(last+1), column(real), column(imaginary))
		y = Reshape(b, y, append(append([]sym.Expr{}, shape[:last]...), both)...)
	} else {
		y = Concat(b, int64(last), real, imaginary)
	}
	if rest != nil {
		y = Concat(b, int64(last), y, rest)
	}
	return y
}
