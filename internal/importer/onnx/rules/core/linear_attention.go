package core

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// updateRules has the updates of the state of linear attention: whether the state decays, and whether only the
// difference from the retrieved value is written.
var updateRules = map[string]struct{ decays, retrieves bool }{
	"linear": {}, "gated": {decays: true}, "delta": {retrieves: true}, "gated_delta": {true, true},
}

// linearAttention converts LinearAttention: a scan over time whose state is a matrix for each head of keys and values,
// in f32.
func linearAttention(c *convert.Call) []*ir.Value {
	b, name := c.Builder, c.StringAttribute("update_rule", "gated_delta")
	update, ok := updateRules[name]
	if !ok {
		c.Fault("update_rule is %q", name)
	}
	readers, writers := c.Int("q_num_heads", 0), c.Int("kv_num_heads", 0)
	if readers < 1 || writers < 1 || readers%writers != 0 {
		c.Fault("%d heads of queries for %d of keys and values", readers, writers)
	}
	query, key, value := c.Input(0), c.Input(1), c.Input(2)
	for _, v := range []*ir.Value{query, key, value} {
		if len(v.Type.Shape) != 3 {
			c.Fault("%s is %s, it must have rank 3", v.Name, v.Type)
		}
	}
	batch, time, group := query.Type.Shape[0], query.Type.Shape[1], sym.Const(readers/writers)
	heads := sym.Const(writers)
	keys := query.Type.Shape[2].FloorDiv(sym.Const(readers))
	values := value.Type.Shape[2].FloorDiv(heads)
	// perTime reshapes and transposes [B, T, heads·rows·columns] to [T, B, heads, rows, columns].
	perTime := func(v *ir.Value, rows, columns sym.Expr) *ir.Value {
		split := ops.Reshape(b, ops.Cast(b, v, dtype.F32), batch, time, v.Type.Shape[2].FloorDiv(rows.Mul(columns)), rows,
			columns)
		return ops.Transpose(b, split, 1, 0, 2, 3, 4)
	}
	one := sym.Const(1)
	scanned := []*ir.Value{perTime(query, group, keys), perTime(key, keys, one), perTime(value, one, values)}
	if update.decays {
		decay := c.Input(4)
		rows := one // one for each head, or one for each key
		if last := decay.Type.Shape[len(decay.Type.Shape)-1]; c.Dims().EQ(last, heads) != sym.Yes {
			rows = keys
		}
		scanned = append(scanned, ops.Unary(b, ops.Exp, perTime(decay, rows, one)))
	}
	if update.retrieves {
		scanned = append(scanned, perTime(c.Input(5), one, one))
	}
	present := query.Type.DType
	state := ops.Scalar(b, dtype.F32, 0)
	if past := c.Optional(3); past != nil {
		state, present = ops.Cast(b, past, dtype.F32), past.Type.DType
	}
	state = ops.Expand(b, state, batch, heads, keys, values)
	body, in := scanBlock(c, b, []*ir.Value{state}, scanned, make([]int, len(scanned)))
	s, q, k, v := body.Params[0], body.Params[1], body.Params[2], body.Params[3]
	if update.decays {
		s = ops.Binary(in, ops.Mul, s, body.Params[4])
	}
	if update.retrieves {
		missing := ops.Binary(in, ops.Sub, v, ops.MatMul(in, k, s, true, false))
		v = ops.Binary(in, ops.Mul, body.Params[len(body.Params)-1], missing)
	}
	s = ops.Binary(in, ops.Add, s, ops.Binary(in, ops.Mul, k, v))
	body.Results = []*ir.Value{s, ops.MatMul(in, q, s, false, false)}
	out := ops.Scan(b, body, ops.ScanOver{}, []*ir.Value{state}, scanned)
	y := ops.Binary(b, ops.Mul, out[1], scaleOf(c, dtype.F32, keys, 1))
	y = ops.Reshape(b, ops.Transpose(b, y, 1, 0, 2, 3, 4), batch, time, values.Mul(sym.Const(readers)))
	return []*ir.Value{ops.Cast(b, y, query.Type.DType), ops.Cast(b, out[0], present)}
}

// scaleOf returns the attribute scale to the given power; if it is 0 or absent, 1/√width.
func scaleOf(c *convert.Call, dt dtype.DType, width sym.Expr, power float64) *ir.Value {
	b := c.Builder
	if s := c.Float("scale", 0); s != 0 {
		return ops.Scalar(b, dt, math.Pow(s, power))
	}
	if n, ok := width.Const(); ok {
		return ops.Scalar(b, dt, math.Pow(float64(max(n, 1)), -power/2))
	}
	n := ops.Cast(b, ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{width}), dtype.F32)
	return ops.Cast(b, ops.Binary(b, ops.Pow, n, ops.Scalar(b, dtype.F32, -power/2)), dt)
}

// causalConvolution converts CausalConvWithState: a convolution of each channel over the earlier and the new entries.
func causalConvolution(c *convert.Call) []*ir.Value {
	b, x, w := c.Builder, c.Input(0), c.Input(1)
	if len(x.Type.Shape) != 3 || len(w.Type.Shape) != 3 {
		c.Fault("an input %s with weights %s, both of which must have rank 3", x.Type, w.Type)
	}
	channels, ok := w.Type.Shape[0].Const()
	width, fixed := w.Type.Shape[2].Const()
	if !ok || !fixed || width < 1 || channels < 1 {
		c.Refuse("weights of shape %s", w.Type)
	}
	history := sym.Const(width - 1)
	past := c.Optional(3)
	if past == nil {
		past = ops.Expand(b, ops.Scalar(b, x.Type.DType, 0), x.Type.Shape[0], x.Type.Shape[1], history)
	}
	all := ops.Concat(b, 2, past, x)
	ones := []int64{1}
	y := ops.Convolution(b, all, w, c.Optional(2), ops.Window{Kernel: []int64{width}, Strides: ones, Dilations: ones,
		Begin: ir.Constants([]int64{0}), End: ir.Constants([]int64{0})}, channels)
	switch activation := c.StringAttribute("activation", "none"); activation {
	case "silu", "swish":
		wide := ops.Cast(b, y, dtype.F32)
		y = ops.Cast(b, ops.Binary(b, ops.Mul, wide, ops.Unary(b, ops.Sigmoid, wide)), x.Type.DType)
	case "none":
	default:
		c.Fault("activation is %q", activation)
	}
	return []*ir.Value{y, ops.SliceAxis(b, all, 2, all.Type.Shape[2].Sub(history), history)}
}

// flexAttention converts FlexAttention, whose attributes may contain graphs that change the scores and the weights.
func flexAttention(c *convert.Call) []*ir.Value {
	b := c.Builder
	query, key, value := c.Input(0), c.Input(1), c.Input(2)
	for _, v := range []*ir.Value{query, key, value} {
		if len(v.Type.Shape) != 4 {
			c.Fault("%s is %s, it must have rank 4", v.Name, v.Type)
		}
	}
	precision := c.Type("softmax_precision")
	if precision == dtype.Invalid {
		if precision = dtype.F32; query.Type.DType == dtype.F64 {
			precision = dtype.F64
		}
	}
	shape := query.Type.Shape
	writers := key.Type.Shape[1]
	group := shape[1].FloorDiv(writers)
	c.Condition(sym.Cond{A: group.Mul(writers), Rel: sym.EQ, B: shape[1]},
		"each head of keys serves as many of the queries")
	// Each head of keys and values serves a group of heads of queries; the group is an axis.
	grouped := func(v *ir.Value, heads ...sym.Expr) *ir.Value {
		return ops.Reshape(b, v, append(append([]sym.Expr{v.Type.Shape[0]}, heads...), v.Type.Shape[2:]...)...)
	}
	root := scaleOf(c, query.Type.DType, shape[3], 0.5)
	q := grouped(ops.Binary(b, ops.Mul, query, root), writers, group)
	k := grouped(ops.Binary(b, ops.Mul, key, root), writers, sym.Const(1))
	scores := ops.Cast(b, ops.MatMul(b, q, k, false, true), precision)
	scores = ops.Reshape(b, scores, shape[0], shape[1], shape[2], key.Type.Shape[2])
	scores = modified(c, "score_mod", scores)
	weights := modified(c, "prob_mod", ops.Softmax(b, scores, 3))
	weights = grouped(weights, writers, group)
	y := ops.MatMul(b, weights, grouped(ops.Cast(b, value, precision), writers, sym.Const(1)), false, false)
	y = ops.Reshape(b, y, shape[0], shape[1], shape[2], value.Type.Shape[3])
	return convert.One(ops.Cast(b, y, value.Type.DType))
}

// modified applies the graph in an attribute to a value; it keeps the type.
func modified(c *convert.Call, name string, v *ir.Value) *ir.Value {
	if c.Attribute(name, wire.AttributeGraph) == nil {
		return v
	}
	out := c.Scope.Body(c.Graph(name), c.Builder, []*ir.Value{v})
	if len(out) != 1 || out[0].Type.DType != v.Type.DType || len(out[0].Type.Shape) != len(v.Type.Shape) {
		c.Fault("%s makes of %s something else", name, v.Type)
	}
	return out[0]
}
