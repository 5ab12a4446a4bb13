package core

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// heads splits the last axis of [B, S, heads·D]: [B, heads, S, D].
func heads(c *convert.Call, v *ir.Value, name string) *ir.Value {
	if len(v.Type.Shape) == 4 {
		return v
	}
	count := c.Int(name, 0)
	if len(v.Type.Shape) != 3 || count < 1 {
		c.Fault("%s is %s with %d heads in %s", v.Name, v.Type, count, name)
	}
	split := ops.Reshape(c.Builder, v, v.Type.Shape[0], v.Type.Shape[1], sym.Const(count),
		v.Type.Shape[2].FloorDiv(sym.Const(count)))
	return ops.Transpose(c.Builder, split, 0, 2, 1, 3)
}

// attention converts Attention.
func attention(c *convert.Call) []*ir.Value {
	b := c.Builder
	flat := len(c.Input(0).Type.Shape) == 3
	x := ops.AttentionOperands{Query: heads(c, c.Input(0), "q_num_heads"), Key: heads(c, c.Input(1), "kv_num_heads"),
		Value: heads(c, c.Input(2), "kv_num_heads"),
		Mask:  c.Optional(3), Lengths: c.Optional(6)}
	s := ops.AttentionSettings{Scale: c.Float("scale", 0), Softcap: c.Float("softcap", 0),
		Causal: c.Int("is_causal", 0) != 0, Softmax: c.Type("softmax_precision"), Zero: true,
		Left: window(c, "left_window_size"), Right: window(c, "right_window_size")}
	if past := c.Optional(4); past != nil {
		if len(past.Type.Shape) != 4 {
			c.Fault("the earlier keys are %s; they need rank 4", past.Type)
		}
		s.Past = past.Type.Shape[2]
		x.Key, x.Value = ops.Concat(b, 2, past, x.Key), ops.Concat(b, 2, c.Input(5), x.Value)
	}
	if x.Lengths != nil && c.Optional(4) == nil {
		// The cache is outside of the node: its last entries are those of the queries.
		x.First = ops.Binary(b, ops.Sub, ops.Cast(b, x.Lengths, dtype.I64), c.Integers(x.Query.Type.Shape[2]))
	}
	y, scores := ops.Attention(b, x, s)
	if flat {
		y = ops.Transpose(b, y, 0, 2, 1, 3)
		y = ops.Reshape(b, y, y.Type.Shape[0], y.Type.Shape[1], y.Type.Shape[2].Mul(y.Type.Shape[3]))
	}
	out := []*ir.Value{y, x.Key, x.Value}
	if c.Outputs > 3 {
		modes := []*ir.Value{scores.Product, scores.Capped, scores.Masked, scores.Weights}
		mode := c.Int("qk_matmul_output_mode", 0)
		if mode < 0 || mode >= int64(len(modes)) {
			c.Fault("qk_matmul_output_mode is %d", mode)
		}
		out = append(out, ops.Cast(b, modes[mode], c.Input(0).Type.DType))
	}
	return out
}

// window returns the number of keys on one side that a query sees, including its own; 0 means all.
func window(c *convert.Call, name string) int64 {
	size := c.Int(name, -1)
	if size < -1 || size > 1<<40 {
		c.Fault("%s is %d", name, size)
	}
	return size + 1
}

// rotaryEmbedding converts RotaryEmbedding.
func rotaryEmbedding(c *convert.Call) []*ir.Value {
	b, x, cos, sin := c.Builder, c.Input(0), c.Input(1), c.Input(2)
	shape := x.Type.Shape
	flat := len(shape) == 3
	if positions := c.Optional(3); positions != nil {
		cos, sin = ops.Gather(b, cos, positions, 0), ops.Gather(b, sin, positions, 0)
	}
	if len(cos.Type.Shape) != 3 || len(sin.Type.Shape) != 3 || !flat && len(shape) != 4 {
		c.Fault("an input %s with cosines %s and sines %s", x.Type, cos.Type, sin.Type)
	}
	// The angles are the same for every head, so the axis of heads has an extent of 1.
	between := func(v *ir.Value) *ir.Value {
		s := v.Type.Shape
		if flat {
			return ops.Reshape(b, v, s[0], s[1], sym.Const(1), s[2])
		}
		return ops.Reshape(b, v, s[0], sym.Const(1), s[1], s[2])
	}
	if flat {
		count := c.Int("num_heads", 0)
		if count < 1 {
			c.Fault("num_heads is missing")
		}
		x = ops.Reshape(b, x, shape[0], shape[1], sym.Const(count), shape[2].FloorDiv(sym.Const(count)))
	}
	y := ops.Rotate(b, x, between(cos), between(sin), c.Int("interleaved", 0) != 0)
	if flat {
		y = ops.Reshape(b, y, shape...)
	}
	return convert.One(y)
}
