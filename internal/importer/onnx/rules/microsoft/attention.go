package microsoft

import (
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The attention operators of com.microsoft. In shapes B is the batch, N the heads of queries, G the heads of keys, S
// the queries, L the keys and values of this run, P those of earlier runs and T those of all runs; D is the size of a
// head.

// refuseInputs refuses the model if it gives one of these inputs, which are not supported.
func refuseInputs(c *convert.Call, which ...int) {
	for _, i := range which {
		if c.Optional(i) != nil {
			c.Refuse("input %d, %s", i, c.In[i].Name)
		}
	}
}

// refuseUnless refuses the model if an integer attribute is present and is not value.
func refuseUnless(c *convert.Call, name string, value int64) {
	if got := c.Int(name, value); got != value {
		c.Refuse("%s = %d", name, got)
	}
}

// byHead splits [B, S, N·D] into count heads: [B, N, S, D].
func byHead(c *convert.Call, v *ir.Value, count int64) *ir.Value {
	s := v.Type.Shape
	if len(s) != 3 || count < 1 {
		c.Fault("%s is %s, with %d heads", v.Name, v.Type, count)
	}
	split := ops.Reshape(c.Builder, v, s[0], s[1], sym.Const(count), s[2].FloorDiv(sym.Const(count)))
	return ops.Transpose(c.Builder, split, 0, 2, 1, 3)
}

// together merges the heads again: [B, N, S, D] becomes [B, S, N·D].
func together(c *convert.Call, v *ir.Value) *ir.Value {
	v = ops.Transpose(c.Builder, v, 0, 2, 1, 3)
	s := v.Type.Shape
	return ops.Reshape(c.Builder, v, s[0], s[1], s[2].Mul(s[3]))
}

// keyMask returns the numbers, of type dt, that a mask adds to the scores, broadcast to [B, N, S, T]: 0, or
// mask_filter_value if a key is hidden. The mask is 1 or 0 for each key, [B, T], or for each query and key, [B, S, T]
// or [B, 1, ≥ T, ≥ T]; or it is the end of the visible keys, [B], or the ends followed by the beginnings, [2·B].
func keyMask(c *convert.Call, mask *ir.Value, dt dtype.DType, batch, queries, keys sym.Expr) *ir.Value {
	b, shape := c.Builder, mask.Type.Shape
	unit := sym.Const(1)
	var seen *ir.Value
	switch len(shape) {
	case 1:
		position := ops.Counting(b, dtype.I64, keys)
		bounds := func(from sym.Expr) *ir.Value {
			return ops.Reshape(b, sliceOf(c, ops.Cast(b, mask, dtype.I64), 0, from, batch), batch, unit, unit, unit)
		}
		switch {
		case c.Dims().EQ(shape[0], batch) == sym.Yes:
			seen = ops.Binary(b, ops.Lt, position, bounds(sym.Const(0)))
		case c.Dims().EQ(shape[0], batch.Mul(sym.Const(2))) == sym.Yes:
			seen = ops.Binary(b, ops.And, ops.Binary(b, ops.Lt, position, bounds(sym.Const(0))),
				ops.Binary(b, ops.Ge, position, bounds(batch)))
		default:
			c.Refuse("a mask %s for a batch of %s", mask.Type, batch)
		}
	case 2:
		mask = ops.Reshape(b, mask, shape[0], unit, unit, shape[1])
	case 3:
		mask = ops.Reshape(b, mask, shape[0], unit, shape[1], shape[2])
	case 4:
		mask = sliceOf(c, sliceOf(c, mask, 2, keys.Sub(queries), queries), 3, sym.Const(0), keys)
	default:
		c.Fault("a mask %s", mask.Type)
	}
	if seen == nil {
		seen = ops.Binary(b, ops.Ne, mask, ops.Scalar(b, mask.Type.DType, 0))
	}
	return ops.Where(b, seen, ops.Scalar(b, dt, 0), ops.Scalar(b, dt, c.Float("mask_filter_value", -10000)))
}

// attendHeads returns the attention of all heads, merged to [B, S, N·D], and its weights. bias is added to the scores
// and may be nil; past is P.
func attendHeads(c *convert.Call, q, k, v, bias *ir.Value, past sym.Expr) (*ir.Value, *ir.Value) {
	x := ops.AttentionOperands{Query: q, Key: k, Value: v, Mask: bias}
	y, scores := ops.Attention(c.Builder, x, ops.AttentionSettings{Scale: c.Float("scale", 0),
		Causal: c.Int("unidirectional", 0) != 0, Past: past})
	return together(c, y), scores.Weights
}

// selfAttention converts Attention: project multiplies the input by columns of the weights, and adds a bias, for the
// queries, the keys and the values in turn. The cache holds keys and values in one tensor.
func selfAttention(c *convert.Call, weights, bias, mask, past, added *ir.Value,
	project func(columns, shift *ir.Value) *ir.Value) []*ir.Value {
	b, x, count := c.Builder, c.Input(0), c.Int("num_heads", 0)
	refuseUnless(c, "do_rotary", 0)
	refuseUnless(c, "past_present_share_buffer", 0)
	if len(x.Type.Shape) != 3 || len(weights.Type.Shape) != 2 {
		c.Fault("an input %s with weights %s", x.Type, weights.Type)
	}
	sizes := c.Ints("qkv_hidden_sizes")
	third := weights.Type.Shape[1].FloorDiv(sym.Const(3))
	widths := []sym.Expr{third, third, third}
	if len(sizes) != 0 {
		if len(sizes) != 3 {
			c.Fault("qkv_hidden_sizes %v", sizes)
		}
		widths = ir.Constants(sizes)
	}
	var parts [3]*ir.Value
	from := sym.Const(0)
	for i, width := range widths {
		var shift *ir.Value
		if bias != nil {
			shift = sliceOf(c, bias, 0, from, width)
		}
		parts[i] = byHead(c, project(sliceOf(c, weights, 1, from, width), shift), count)
		from = from.Add(width)
	}
	q, k, v := parts[0], parts[1], parts[2]
	before := sym.Const(0)
	if past != nil {
		if len(past.Type.Shape) != 5 {
			c.Fault("earlier keys and values %s", past.Type)
		}
		s := past.Type.Shape
		half := func(i int64) *ir.Value {
			return ops.Reshape(b, sliceOf(c, past, 0, sym.Const(i), sym.Const(1)), s[1:]...)
		}
		before = s[3]
		k, v = ops.Concat(b, 2, half(0), k), ops.Concat(b, 2, half(1), v)
	}
	if mask != nil {
		added = plus(c, keyMask(c, mask, q.Type.DType, x.Type.Shape[0], q.Type.Shape[2], k.Type.Shape[2]), added)
	}
	y, _ := attendHeads(c, q, k, v, added, before)
	out := []*ir.Value{y}
	if c.Outputs > 1 {
		one := func(v *ir.Value) *ir.Value {
			return ops.Reshape(b, v, append([]sym.Expr{sym.Const(1)}, v.Type.Shape...)...)
		}
		out = append(out, ops.Concat(b, 0, one(k), one(v)))
	}
	return out
}

// quantizedAttention converts QAttention: Attention whose projection is a product of integers of 8 bits.
func quantizedAttention(c *convert.Call) []*ir.Value {
	columnwise := func(v *ir.Value, columns func(*ir.Value) *ir.Value) *ir.Value {
		if v == nil || len(v.Type.Shape) == 0 || c.Dims().EQ(convert.Count(v.Type.Shape), sym.Const(1)) == sym.Yes {
			return v
		}
		return columns(v)
	}
	from := sym.Const(0)
	project := func(w, shift *ir.Value) *ir.Value {
		width := w.Type.Shape[1]
		columns := func(v *ir.Value) *ir.Value { return sliceOf(c, v, 0, from, width) }
		y := integerProduct(c, c.Input(0), w, c.Input(3), columnwise(c.Input(4), columns), c.Optional(6),
			columnwise(c.Optional(7), columns))
		from = from.Add(width)
		return plus(c, y, shift)
	}
	return selfAttention(c, c.Input(1), c.Input(2), c.Optional(5), c.Optional(8), nil, project)
}

// multiHeadAttention converts MultiHeadAttention: queries, keys and values arrive projected, as separate tensors or
// packed.
func multiHeadAttention(c *convert.Call) []*ir.Value {
	b, count := c.Builder, c.Int("num_heads", 0)
	refuseInputs(c, 8, 9)
	q, k, v, bias := c.Input(0), c.Optional(1), c.Optional(2), c.Optional(3)
	// packed takes the i-th of the tensors that [B, S, N, n, D] holds.
	packed := func(x *ir.Value, i int64) *ir.Value {
		s := x.Type.Shape
		return ops.Reshape(b, sliceOf(c, x, 3, sym.Const(i), sym.Const(1)), s[0], s[1], s[2].Mul(s[4]))
	}
	switch {
	case k == nil && len(q.Type.Shape) == 5:
		q, k, v = packed(q, 0), packed(q, 1), packed(q, 2)
	case k != nil && v == nil && len(k.Type.Shape) == 5:
		k, v = packed(k, 0), packed(k, 1)
	case k == nil || v == nil:
		c.Fault("keys or values are missing beside queries %s", q.Type)
	}
	if len(q.Type.Shape) != 3 || len(k.Type.Shape) < 3 || len(v.Type.Shape) != len(k.Type.Shape) {
		c.Fault("queries %s, keys %s, values %s", q.Type, k.Type, v.Type)
	}
	if bias != nil {
		if len(k.Type.Shape) != 3 {
			c.Refuse("a bias beside keys %s", k.Type)
		}
		from := sym.Const(0)
		for _, x := range []**ir.Value{&q, &k, &v} {
			width := (*x).Type.Shape[2]
			*x = ops.Binary(b, ops.Add, *x, sliceOf(c, bias, 0, from, width))
			from = from.Add(width)
		}
	}
	q = byHead(c, q, count)
	if len(k.Type.Shape) == 3 {
		k, v = byHead(c, k, count), byHead(c, v, count)
	}
	before := sym.Const(0)
	if past := c.Optional(6); past != nil {
		if len(past.Type.Shape) != 4 {
			c.Fault("earlier keys %s", past.Type)
		}
		before = past.Type.Shape[2]
		k, v = ops.Concat(b, 2, past, k), ops.Concat(b, 2, c.Input(7), v)
	}
	added := c.Optional(5)
	if mask := c.Optional(4); mask != nil {
		added = plus(c, keyMask(c, mask, q.Type.DType, q.Type.Shape[0], q.Type.Shape[2], k.Type.Shape[2]), added)
	}
	y, weights := attendHeads(c, q, k, v, added, before)
	return []*ir.Value{y, k, v, weights}
}

// groupQueryAttention converts GroupQueryAttention: the new keys and values are written into a cache after the earlier
// ones of each sequence, and a query sees the keys up to its own position. The resulting cache is as long as the given
// one if both share a buffer; otherwise as long as the longer of the given cache and all keys.
func groupQueryAttention(c *convert.Call) []*ir.Value {
	b, count, groups := c.Builder, c.Int("num_heads", 0), c.Int("kv_num_heads", 0)
	refuseInputs(c, 12, 13)
	for _, name := range []string{"sliding_window_cache", "kv_cache_bit_width", "qk_output"} {
		refuseUnless(c, name, 0)
	}
	q, k, v := c.Input(0), c.Optional(1), c.Optional(2)
	if len(q.Type.Shape) != 3 || count < 1 || groups < 1 || count > 1<<20 || groups > 1<<20 {
		c.Fault("queries %s with %d heads, %d of keys", q.Type, count, groups)
	}
	if k == nil {
		size := q.Type.Shape[2].FloorDiv(sym.Const(count + 2*groups))
		wide, narrow := size.Mul(sym.Const(count)), size.Mul(sym.Const(groups))
		packed := q
		q, k, v = sliceOf(c, packed, 2, sym.Const(0), wide), sliceOf(c, packed, 2, wide, narrow),
			sliceOf(c, packed, 2, wide.Add(narrow), narrow)
	} else if v == nil {
		c.Fault("values are missing")
	}
	q, k, v = byHead(c, q, count), byHead(c, k, groups), byHead(c, v, groups)
	for i, x := range []**ir.Value{&q, &k} {
		if weight := c.Optional(14 + i); weight != nil {
			*x = lastNormalized(c, *x, c.Float("qk_norm_epsilon", 1e-6), false, weight, nil)
		}
	}
	batch, queries := q.Type.Shape[0], q.Type.Shape[2]
	total := convert.ScalarIn(b, ops.Cast(b, c.Input(6), dtype.I64))
	lengths := ops.Binary(b, ops.Add, ops.Reshape(b, ops.Cast(b, c.Input(5), dtype.I64), batch), c.Number(1))
	// In the first run every sequence begins at 0, also those shorter than the longest.
	number := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{queries})
	first := ops.Where(b, ops.Binary(b, ops.Eq, total, number), c.Number(0), ops.Binary(b, ops.Sub, lengths, number))
	if c.Int("do_rotary", 0) != 0 {
		positions := c.Optional(9)
		if positions == nil {
			positions = ops.Binary(b, ops.Add, ops.Reshape(b, first, batch, sym.Const(1)), ops.Counting(b, dtype.I64, queries))
		}
		interleaved := c.Int("rotary_interleaved", 0) != 0
		q = rotated(c, q, positions, c.Input(7), c.Input(8), interleaved)
		k = rotated(c, k, positions, c.Input(7), c.Input(8), interleaved)
	}
	if past := c.Optional(3); past != nil {
		if len(past.Type.Shape) != 4 || len(c.Input(4).Type.Shape) != 4 {
			c.Fault("earlier keys %s and values %s", past.Type, c.Input(4).Type)
		}
		before := past.Type.Shape[2]
		all := before
		if !inOneBuffer(c, 3, 1) || !inOneBuffer(c, 4, 2) {
			longest := ops.Binary(b, ops.Max, total, ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{before}))
			all = c.Decided(longest, before.Add(queries))[0]
		}
		k, v = writeCache(c, past, k, first, all), writeCache(c, c.Input(4), v, first, all)
	}
	x := ops.AttentionOperands{Query: q, Key: k, Value: v, Mask: c.Optional(10), First: first}
	s := ops.AttentionSettings{Scale: c.Float("scale", 0), Softcap: c.Float("softcap", 0), Causal: c.Int("causal", 1) != 0}
	if !s.Causal {
		x.Lengths = lengths
	}
	if left := c.Int("local_window_size", -1); left >= 0 {
		s.Left = left
	}
	if sink := c.Optional(11); sink != nil || c.Int("smooth_softmax", 0) > 0 {
		return []*ir.Value{together(c, sunk(c, x, s, sink)), k, v}
	}
	y, _ := ops.Attention(b, x, s)
	return []*ir.Value{together(c, y), k, v}
}

// inOneBuffer reports whether an input and an output share a buffer: the caller says that the output updates the input,
// or the graph declares the same shape for both. The output then has no more entries than the input.
func inOneBuffer(c *convert.Call, in, out int) bool {
	if out >= len(c.Node.Output) || c.Node.Output[out] == "" {
		return false
	}
	from, to := c.Node.Input[in], c.Node.Output[out]
	if c.Scope.Outer == nil && c.Scope.Attempt.States[from] == to {
		return true
	}
	x, y := dimsOf(c.Scope, from), dimsOf(c.Scope, to)
	return x != nil && slices.EqualFunc(x, y, func(x, y *wire.Dimension) bool {
		return x.Known() && y.Known() && x.Value == y.Value ||
			x.Named() && y.Named() && x.Param == y.Param && !convert.Nameless[strings.TrimSpace(x.Param)]
	})
}

// dimsOf returns the dimensions that a graph declares for a value; nil if it declares none.
func dimsOf(g *convert.Scope, name string) []*wire.Dimension {
	if g.Proto == nil {
		return nil
	}
	for _, list := range [][]*wire.ValueInfoProto{g.Proto.Input, g.Proto.Output, g.Proto.ValueInfo} {
		for _, v := range list {
			if v.Name == name && v.Type != nil && v.Type.TensorType != nil && v.Type.TensorType.Shape != nil {
				return v.Type.TensorType.Shape.Dim
			}
		}
	}
	return nil
}

// writeCache writes new entries [B, G, S, D] into a cache [B, G, P, D], which is first extended to `all` entries. first
// has the position of each sequence's first new entry.
func writeCache(c *convert.Call, cache, news, first *ir.Value, all sym.Expr) *ir.Value {
	b, n := c.Builder, news.Type.Shape
	if more := c.Dims().Simplify(all.Sub(cache.Type.Shape[2])); !more.Equal(sym.Const(0)) {
		end := []sym.Expr{sym.Const(0), sym.Const(0), more, sym.Const(0)}
		cache = ops.Pad(b, cache, nil, "constant", make([]sym.Expr, 4), end)
	}
	at := ops.Binary(b, ops.Add, ops.Reshape(b, first, n[0], sym.Const(1), sym.Const(1), sym.Const(1)),
		ops.Reshape(b, ops.Counting(b, dtype.I64, n[2]), n[2], sym.Const(1)))
	return ops.ScatterElements(b, cache, ops.Expand(b, at, n...), news, 2, "none")
}

// sunk is attention whose softmax has one more term, which belongs to no value. It adds a key and a value of zeros; the
// score of the key is the sink's, one for each head, or 0 if sink is nil.
func sunk(c *convert.Call, x ops.AttentionOperands, s ops.AttentionSettings, sink *ir.Value) *ir.Value {
	b, dt := c.Builder, x.Query.Type.DType
	batch, queries, keys := x.Query.Type.Shape[0], x.Query.Type.Shape[2], x.Key.Type.Shape[2]
	unit := sym.Const(1)
	at := ops.Binary(b, ops.Add, ops.Reshape(b, x.First, batch, unit, unit, unit),
		ops.Reshape(b, ops.Counting(b, dtype.I64, queries), queries, unit))
	key := ops.Counting(b, dtype.I64, keys)
	seen := ops.Binary(b, ops.Le, key, at)
	if !s.Causal {
		seen = ops.Binary(b, ops.Lt, key, ops.Reshape(b, x.Lengths, batch, unit, unit, unit))
	}
	if s.Left > 0 {
		seen = ops.Binary(b, ops.And, seen, ops.Binary(b, ops.Gt, ops.Binary(b, ops.Add, key, c.Number(s.Left)), at))
	}
	bias := ops.Where(b, seen, ops.Scalar(b, dt, 0), ops.Scalar(b, dt, math.Inf(-1)))
	if x.Mask != nil {
		bias = ops.Binary(b, ops.Add, bias, x.Mask)
	}
	heads := x.Query.Type.Shape[1]
	if sink == nil {
		sink = ops.Scalar(b, dt, 0)
	} else {
		sink = ops.Reshape(b, sink, heads, unit, unit)
	}
	bias = ops.Concat(b, 3, ops.Expand(b, bias, batch, heads, queries, keys),
		ops.Expand(b, sink, batch, heads, queries, unit))
	zeroRow := func(v *ir.Value) *ir.Value {
		return ops.Pad(b, v, nil, "constant", make([]sym.Expr, 4), []sym.Expr{sym.Const(0), sym.Const(0), unit, sym.Const(0)})
	}
	y, _ := ops.Attention(b, ops.AttentionOperands{Query: x.Query, Key: zeroRow(x.Key), Value: zeroRow(x.Value),
		Mask: bias}, ops.AttentionSettings{Scale: s.Scale, Softcap: s.Softcap})
	return y
}

// rotated rotates [B, N, S, D] by the angles at positions, [B, S] or [1, S]; cos and sin have a row for each position.
func rotated(c *convert.Call, x, positions, cos, sin *ir.Value, interleaved bool) *ir.Value {
	b := c.Builder
	rows := func(table *ir.Value) *ir.Value {
		v := ops.Gather(b, table, positions, 0)
		if len(v.Type.Shape) != 3 {
			c.Fault("angles %s at positions %s", table.Type, positions.Type)
		}
		return ops.Reshape(b, v, v.Type.Shape[0], sym.Const(1), v.Type.Shape[1], v.Type.Shape[2])
	}
	return ops.Rotate(b, x, rows(cos), rows(sin), interleaved)
}

// microsoftRotary converts RotaryEmbedding. Its positions may be a single number: the position of the first element of
// every sequence.
func microsoftRotary(c *convert.Call) []*ir.Value {
	b, x, positions := c.Builder, c.Input(0), c.Input(1)
	refuseUnless(c, "is_packed_batching", 0)
	flat := len(x.Type.Shape) == 3
	if !flat && len(x.Type.Shape) != 4 || len(c.Input(2).Type.Shape) != 2 {
		c.Fault("an input %s with cosines %s", x.Type, c.Input(2).Type)
	}
	if flat {
		size, heads := c.Input(2).Type.Shape[1].Mul(sym.Const(2)), sym.Const(c.Int("num_heads", 0))
		if c.Int("num_heads", 0) == 0 {
			heads = x.Type.Shape[2].FloorDiv(size)
		}
		s := x.Type.Shape
		x = ops.Transpose(b, ops.Reshape(b, x, s[0], s[1], heads, s[2].FloorDiv(heads)), 0, 2, 1, 3)
	}
	if len(positions.Type.Shape) == 1 {
		positions = ops.Binary(b, ops.Add, ops.Cast(b, positions, dtype.I64), ops.Counting(b, dtype.I64, x.Type.Shape[2]))
		positions = ops.Reshape(b, positions, sym.Const(1), x.Type.Shape[2])
	}
	y := rotated(c, x, positions, c.Input(2), c.Input(3), c.Int("interleaved", 0) != 0)
	if flat {
		y = together(c, y)
	}
	return convert.One(y)
}

// projectedAttention converts Attention, whose projection is a product of floats.
func projectedAttention(c *convert.Call) []*ir.Value {
	refuseInputs(c, 6)
	bias := c.Optional(2)
	project := func(columns *ir.Value, shift *ir.Value) *ir.Value {
		return plus(c, ops.MatMul(c.Builder, c.Input(0), columns, false, false), shift)
	}
	return selfAttention(c, c.Input(1), bias, c.Optional(3), c.Optional(4), c.Optional(5), project)
}
