package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Attention recognises scaled dot product attention that is spelled out as products around a softmax: with its scale on
// the scores, on the queries, or shared between queries and keys; with up to masksMost masks, added or as the condition
// of a choice, if they can be joined to one; with causal masks, which become a setting; with a cap on the scores; with
// heads of keys that several heads of queries share, if the keys are repeated or the queries' heads are joined.
func Attention(m *ir.Module) error { return apply(m, slices.Concat(attentions, transposes)) }

var attentions = []rule{
	{"attention", []string{"matmul"}, attention},
	{"attention of joined heads", []string{"reshape"}, joinedAttention},
	{"attention of a cache", []string{"attention"}, cachedAttention},
	{"attention of a narrow cache", []string{"attention"}, narrowAttention},
	{"attention of a cache of bytes", []string{"attention"}, bytesAttention},
}

// inside reports whether a value is read once, and a node of this block with one result computes it.
func (r *rewriting) inside(v *ir.Value) bool {
	return v != nil && v.Const == nil && v.Node != nil && r.uses[v] == 1 && r.owner[v.Node] == r.block &&
		len(v.Node.Outputs) == 1
}

// attention matches weights · values.
func attention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Attrs.Bool("transpose_a") || n.Attrs.DType("dtype") != dtype.Invalid || !n.Outputs[0].Type.DType.IsFloat() {
		return nil
	}
	s := &scores{r: r, b: b, scale: 1}
	if !s.weights(n.Inputs[0]) || s.joined != nil {
		return nil
	}
	value := s.operand(n.Inputs[1], n.Attrs.Bool("transpose_b"))
	query := s.operand(s.product.Inputs[0], s.product.Attrs.Bool("transpose_a"))
	key := s.operand(s.product.Inputs[1], !s.product.Attrs.Bool("transpose_b"))
	return s.build(query, key, value, n.Outputs[0].Type.Shape)
}

// joinedAttention matches attention in which the rows of the heads that share a head of keys are joined, as
// [B, G, H/G·Q, D], and split again afterwards.
func joinedAttention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	product := producer(n.Inputs[0], "matmul")
	if product == nil || !r.inside(n.Inputs[0]) || product.Attrs.Bool("transpose_a") ||
		product.Attrs.DType("dtype") != dtype.Invalid {
		return nil
	}
	weights := producer(product.Inputs[0], "reshape")
	out := n.Outputs[0].Type.Shape
	if weights == nil || !r.inside(product.Inputs[0]) || len(out) != 4 || len(product.Outputs[0].Type.Shape) != 4 {
		return nil
	}
	s := &scores{r: r, b: b, scale: 1}
	if !s.weights(weights.Inputs[0]) || s.joined == nil {
		return nil
	}
	rows := producer(s.peel(s.product.Inputs[0]), "reshape")
	if rows == nil || s.product.Attrs.Bool("transpose_a") {
		return nil
	}
	query := rows.Inputs[0]
	full := s.joined.Outputs[0].Type.Shape // [B, H, Q, K]
	if len(query.Type.Shape) != 4 || len(full) != 4 || !sameShape(r.Dims(), query.Type.Shape[:3], full[:3]) ||
		!sameShape(r.Dims(), query.Type.Shape[:3], out[:3]) ||
		r.Dims().EQ(query.Type.Shape[3], rows.Outputs[0].Type.Shape[3]) != sym.Yes {
		return nil
	}
	// Joining and splitting agree: the rows of a head of keys are the rows of its heads of queries.
	groups := s.product.Outputs[0].Type.Shape
	if r.Dims().EQ(groups[0], full[0]) != sym.Yes || !sameShape(r.Dims(), groups, weights.Outputs[0].Type.Shape) ||
		r.Dims().EQ(full[3], groups[3]) != sym.Yes {
		return nil
	}
	key := s.operand(s.product.Inputs[1], !s.product.Attrs.Bool("transpose_b"))
	return s.build(s.peel(query), key, s.operand(product.Inputs[1], product.Attrs.Bool("transpose_b")), out)
}

// narrowAttention lets attention read keys and values directly from a cache of bf16, without a widened copy.
func narrowAttention(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if n.Inputs[0].Type.DType != dtype.F32 {
		return nil
	}
	in, found := slices.Clone(n.Inputs), false
	for i := 1; i < len(in); i++ {
		if i == 3 { // the mask
			continue
		}
		if stored := storedNarrow(b, in[i], 0); stored != nil {
			in[i], found = stored, true
		}
	}
	if !found {
		return nil
	}
	return b.Op("attention", n.Attrs, in...)
}

// storedNarrow returns the elements of a cache of bf16 that v widens, in v's shape; nil if v is something else.
func storedNarrow(b *ir.Builder, v *ir.Value, depth int) *ir.Value {
	if v == nil || v.Node == nil || depth > 4 {
		return nil
	}
	n := v.Node
	switch {
	case n.Op.Name() == "cast":
		x := n.Inputs[0]
		if x.Type.DType == dtype.BF16 && x.Const == nil && (x.Node == nil || ops.Of(x.Node).Scatter) {
			return x
		}
	case ops.Of(n).Rearranges:
		if x := storedNarrow(b, n.Inputs[0], depth+1); x != nil {
			return b.Op(n.Op.Name(), n.Attrs, x)
		}
	}
	return nil
}

// cachedAttention matches attention whose keys and values are appended to a cache's, and reads both directly, without
// the concatenation.
func cachedAttention(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	if len(n.Inputs) > 4 {
		return nil
	}
	keys, values := r.pieces(b, n.Inputs[1]), r.pieces(b, n.Inputs[2])
	if keys == nil || values == nil || r.Dims().EQ(keys[0].Type.Shape[2], values[0].Type.Shape[2]) != sym.Yes {
		return nil
	}
	mask := (*ir.Value)(nil)
	if len(n.Inputs) > 3 {
		mask = n.Inputs[3]
	}
	return b.Op("attention", n.Attrs, n.Inputs[0], keys[0], values[0], mask, keys[1], values[1])
}

// pieces returns the two tensors whose concatenation along the third axis is v, [B, G, K, D]; a transpose or a reshape
// may follow the concatenation. It returns nil if v is something else.
func (r *rewriting) pieces(b *ir.Builder, v *ir.Value) []*ir.Value {
	if !r.inside(v) {
		return nil
	}
	n, axis := v.Node, int64(2)
	move := func(x *ir.Value) *ir.Value { return x }
	switch n.Op.Name() {
	case "transpose":
		perm := permutation(n)
		axis = perm[2]
		move = func(x *ir.Value) *ir.Value { return turned(b, x, perm) }
	case "reshape":
		from, to := n.Inputs[0].Type.Shape, v.Type.Shape
		if len(from) != 3 || !isOne(to[1]) || !sameShape(r.Dims(), from, []sym.Expr{to[0], to[2], to[3]}) {
			return nil
		}
		axis = 1
		move = func(x *ir.Value) *ir.Value {
			return ops.Reshape(b, x, x.Type.Shape[0], sym.Const(1), x.Type.Shape[1], x.Type.Shape[2])
		}
	}
	if n.Op.Name() != "concat" {
		v = n.Inputs[0]
	}
	joint := producer(v, "concat")
	if joint == nil || !r.inside(v) || len(joint.Inputs) != 2 {
		return nil
	}
	if at := joint.Attrs.Int("axis", 0); at != axis && at+int64(len(v.Type.Shape)) != axis {
		return nil
	}
	return []*ir.Value{move(joint.Inputs[0]), move(joint.Inputs[1])}
}

// build appends attention as one node, and returns its result in the shape out; nil if the operands do not fit.
func (s *scores) build(query, key, value *ir.Value, out []sym.Expr) *ir.Value {
	b := s.b
	if !query.Type.DType.IsFloat() || s.scale == 0 || math.IsInf(s.scale, 0) {
		return nil
	}
	if size, ok := query.Type.Shape[len(query.Type.Shape)-1].Const(); ok &&
		near(query.Type.DType, s.scale, 1/math.Sqrt(float64(size))) {
		s.scale = 1 / math.Sqrt(float64(size)) // undoes the rounding of the model's factors
	}
	mask := s.mask()
	if mask == nil && len(s.keep)+len(s.bias) > 0 {
		return nil
	}
	rank := len(query.Type.Shape)
	if rank == 3 && len(key.Type.Shape) == 3 && len(value.Type.Shape) == 3 {
		single := func(v *ir.Value) *ir.Value {
			return ops.Reshape(b, v, slices.Insert(slices.Clone(v.Type.Shape), 1, sym.Const(1))...)
		}
		query, key, value = single(query), single(key), single(value)
		if mask != nil && len(mask.Type.Shape) == 3 {
			mask = single(mask)
		}
	}
	if len(query.Type.Shape) != 4 || len(key.Type.Shape) != 4 || len(value.Type.Shape) != 4 {
		return nil
	}
	if k, v := s.shared(query, key), s.shared(query, value); k != nil && v != nil &&
		sameShape(s.r.Dims(), k.Type.Shape[:3], v.Type.Shape[:3]) {
		key, value = k, v
	}
	settings := ops.AttentionSettings{Scale: s.scale, Softcap: s.cap, Causal: s.causal, Past: s.past, Softmax: s.softmax,
		Blank: s.blank}
	if (s.causal || len(s.keep) > 0) && !math.IsInf(s.fill, -1) {
		settings.Fill = s.fill
	}
	y := ops.AttentionNode(b, ops.AttentionOperands{Query: query, Key: key, Value: value, Mask: mask}, settings)
	if rank == 3 {
		y = ops.Reshape(b, y, out...)
	}
	return y
}

// shared returns the keys or values before their repetition for the H heads of queries, [B, G, K, D]; nil if they are
// not repeated.
func (s *scores) shared(query, v *ir.Value) *ir.Value {
	merged := producer(v, "reshape")
	if merged == nil {
		return nil
	}
	repeated := producer(merged.Inputs[0], "expand")
	if repeated == nil || len(repeated.Inputs[0].Type.Shape) != 5 || len(repeated.Outputs[0].Type.Shape) != 5 {
		return nil
	}
	from, to, out := repeated.Inputs[0].Type.Shape, repeated.Outputs[0].Type.Shape, v.Type.Shape
	d := s.r.Dims()
	if !isOne(from[2]) || !sameShape(d, []sym.Expr{from[0], from[1], from[3], from[4]},
		[]sym.Expr{to[0], to[1], to[3], to[4]}) ||
		!sameShape(d, []sym.Expr{to[0], to[1].Mul(to[2]), to[3], to[4]}, out) ||
		d.EQ(out[1], query.Type.Shape[1]) != sym.Yes {
		return nil
	}
	return ops.Reshape(s.b, repeated.Inputs[0], from[0], from[1], from[3], from[4])
}
