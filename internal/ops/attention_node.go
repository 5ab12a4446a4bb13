package ops

import (
	"maps"
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/attention"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator attention.
func init() {
	define(&Def{Op: "attention", Narrow: attentionNarrow, rows: rowRule{axes: attentionAxes}, Shape: attentionShape,
		Mean: attentionMean, Expand: attentionExpand, Samples: attentionSamples,
		Lowerings: []Lowering{{Name: "online", Blocks: true, When: attentionIsOnline, Build: attentionOnline},
			{Name: "single", Worker: true, Meant: true, When: attentionFusable, Build: attentionSingle}}})
}

// AttentionNode is Attention as one node, which expands to Attention; it does not give the scores. x.Mask holds every
// mask other than the causal one. The node's input mask is transposed, broadcast to [B, H, K, Q], as its kernels keep
// the scores.
func AttentionNode(b *ir.Builder, x AttentionOperands, s AttentionSettings) *ir.Value {
	inputs := []*ir.Value{x.Query, x.Key, x.Value, turnedMask(b, x.Mask), x.NextKey, x.NextValue}
	for inputs[len(inputs)-1] == nil {
		inputs = inputs[:len(inputs)-1]
	}
	return b.Op("attention", s.Attrs(), inputs...)
}

// turnedMask exchanges the last two axes of a mask; missing axes count as axes of extent 1. A mask that is computed
// element by element from smaller values, such as the biases of heads and the keys that a sequence hides, is computed
// from those values, turned: the schedule then computes its elements where attention reads them.
func turnedMask(b *ir.Builder, mask *ir.Value) *ir.Value {
	if mask == nil || len(mask.Type.Shape) == 0 {
		return mask
	}
	if len(mask.Type.Shape) == 1 {
		return Reshape(b, mask, mask.Type.Shape[0], one)
	}
	perm := make([]int64, len(mask.Type.Shape))
	for i := range perm {
		perm[i] = int64(i)
	}
	last := len(perm) - 1
	perm[last-1], perm[last] = perm[last], perm[last-1]
	if isOne(mask.Type.Shape[last-1]) || isOne(mask.Type.Shape[last]) {
		return Reshape(b, mask, unpermuted(mask.Type.Shape, perm)...)
	}
	if elements := sym.Product(mask.Type.Shape...); ofSmaller(b, mask, elements, 0) {
		return turnedOperands(b, mask, elements)
	}
	return Transpose(b, mask, perm...)
}

// maskDeepest is the largest number of functions in a row that a mask is composed of to be turned in its operands.
const maskDeepest = 4

// ofSmaller reports whether a value is computed, element by element, from values that have fewer than so many elements,
// or is one of these.
func ofSmaller(b *ir.Builder, v *ir.Value, elements sym.Expr, depth int) bool {
	if b.Dims().EQ(sym.Product(v.Type.Shape...), elements) != sym.Yes {
		return true
	}
	n := v.Node
	if n == nil || !Elementwise(n) || len(n.Outputs) != 1 || depth == maskDeepest {
		return false
	}
	for _, x := range n.Inputs {
		if x == nil || !ofSmaller(b, x, elements, depth+1) {
			return false
		}
	}
	return true
}

// turnedOperands computes a mask for which ofSmaller holds from its smaller operands, turned.
func turnedOperands(b *ir.Builder, v *ir.Value, elements sym.Expr) *ir.Value {
	if b.Dims().EQ(sym.Product(v.Type.Shape...), elements) != sym.Yes {
		return turnedMask(b, v)
	}
	in := make([]*ir.Value, len(v.Node.Inputs))
	for i, x := range v.Node.Inputs {
		in[i] = turnedOperands(b, x, elements)
	}
	return b.Op(v.Node.Op.Name(), v.Node.Attrs, in...)
}

// attentionOf returns a node's operands, the mask transposed as the node has it, and its settings.
func attentionOf(n *ir.Node) (AttentionOperands, AttentionSettings) {
	return AttentionOperands{Query: n.Inputs[0], Key: n.Inputs[1], Value: n.Inputs[2], Mask: input(n, 3),
		NextKey: input(n, 4), NextValue: input(n, 5)}, attention.SettingsOf(n.Attrs)
}

// attentionShape checks that the extents of queries, keys, values, mask and scales fit together and infers [B, H, Q,
// E].
func attentionShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 10); err != nil {
		return err
	}
	q, k, v := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	keys := sym.Const(0)
	if input(n, 4) != nil || input(n, 5) != nil {
		if err := attentionNext(c, n); err != nil {
			return err
		}
		keys = n.Inputs[4].Type.Shape[2]
	}
	if len(q.Shape) != 4 || len(k.Shape) != 4 || len(v.Shape) != 4 || !q.DType.IsFloat() ||
		!attentionReads(q.DType, k.DType) || !attentionReads(q.DType, v.DType) {
		return fault(n, "queries %s, keys %s and values %s", q, k, v)
	}
	for _, same := range []struct {
		a, b sym.Expr
		why  string
	}{{q.Shape[0], k.Shape[0], "as many sequences of queries as of keys"},
		{k.Shape[0], v.Shape[0], "as many sequences of keys as of values"},
		{q.Shape[3], k.Shape[3], "queries and keys of one size"},
		{k.Shape[1], v.Shape[1], "as many heads of keys as of values"}, {k.Shape[2], v.Shape[2], "as many keys as values"},
		{q.Shape[1].Mod(k.Shape[1].Max(one)), sym.Const(0), "heads of queries share heads of keys evenly"}} {
		if err := c.RequireEqual(n, same.a, same.b, same.why); err != nil {
			return err
		}
	}
	if mask := input(n, 3); mask != nil {
		scores := []sym.Expr{q.Shape[0], q.Shape[1], k.Shape[2].Add(keys), q.Shape[2]}
		if mask.Type.DType != dtype.Bool && !mask.Type.DType.IsFloat() || len(mask.Type.Shape) > 4 {
			return fault(n, "a mask %s", mask.Type)
		}
		if _, err := broadcast(c, n, scores, mask.Type.Shape); err != nil {
			return err
		}
	}
	if err := attentionScales(c, n); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: q.DType, Shape: []sym.Expr{q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[3]}})
	return nil
}

// AttentionScales returns the input of an attention node that holds the scales of the given input, its keys or values,
// if these are i8.
func AttentionScales(input int) int { return attention.Scales[input] }

// attentionScales checks that keys and values of i8, and no others, have scales, [B, G, K, 1].
func attentionScales(c *ir.Inference, n *ir.Node) error {
	for _, i := range []int{1, 2, 4, 5} {
		x, scale := input(n, i), input(n, attention.Scales[i])
		if bytes := x != nil && x.Type.DType == dtype.I8; bytes != (scale != nil) {
			return fault(n, "keys or values %v with scales %v; bytes need scales, other types have none", x, scale)
		}
		if scale == nil {
			continue
		}
		if scale.Type.DType != dtype.F32 || len(scale.Type.Shape) != 4 {
			return fault(n, "scales %s", scale.Type)
		}
		for axis, extent := range []sym.Expr{x.Type.Shape[0], x.Type.Shape[1], x.Type.Shape[2], one} {
			if err := c.RequireEqual(n, scale.Type.Shape[axis], extent, "a scale for each key and value"); err != nil {
				return err
			}
		}
	}
	return nil
}

// attentionNext checks the second pair of keys and values, inputs 4 and 5, which follow the first.
func attentionNext(c *ir.Inference, n *ir.Node) error {
	for i := range 2 {
		next := input(n, 4+i)
		if next == nil || len(next.Type.Shape) != 4 || !attentionReads(n.Inputs[0].Type.DType, next.Type.DType) {
			return fault(n, "a second segment of keys or values %v", next)
		}
		for axis, extent := range next.Type.Shape {
			same := n.Inputs[1+i].Type.Shape
			if axis == 2 {
				same = n.Inputs[4].Type.Shape
			}
			if len(same) != 4 {
				return fault(n, "keys or values of rank %d", len(same))
			}
			if err := c.RequireEqual(n, extent, same[axis],
				"both segments of keys and values have one size"); err != nil {
				return err
			}
		}
	}
	return nil
}

// attentionReads reports whether queries of one type may be combined with keys or values of another type: with the same
// type and, if they are f32, with bf16, which is widened as it is loaded, and i8, which has scales.
func attentionReads(query, key dtype.DType) bool {
	return key == query || query == dtype.F32 && (key == dtype.BF16 || key == dtype.I8)
}

// attentionExpand expands the node to Attention, with keys and values scaled or converted to the queries' type.
func attentionExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	x, s := attentionOf(n)
	for i, v := range []**ir.Value{1: &x.Key, 2: &x.Value, 4: &x.NextKey, 5: &x.NextValue} {
		if v == nil {
			continue
		}
		if scale := input(n, attention.Scales[i]); scale != nil {
			*v = ScaledRows(b, *v, scale)
		} else if *v != nil {
			*v = Cast(b, *v, x.Query.Type.DType)
		}
	}
	x.Mask = turnedMask(b, x.Mask)
	y, _ := Attention(b, x, s)
	return []*ir.Value{y}
}

// attentionMean is the reference: for each query the scores of all keys, their softmax and the weighted sum of values,
// in 64 bits.
func attentionMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	_, s := attentionOf(n)
	past, err := e.Int(s.Past)
	if err != nil {
		return nil, err
	}
	q, k, v, mask := in[0], in[1], in[2], present(in, 3)
	heads, groups, size, cached, width := q.Shape()[1], k.Shape()[1], q.Shape()[3], k.Shape()[2], v.Shape()[3]
	keys := cached
	if nextK := present(in, 4); nextK != nil {
		keys += nextK.Shape()[2]
	}
	scale, fill := s.Scale, s.Hidden()
	if scale == 0 {
		scale = 1 / math.Sqrt(float64(size))
	}
	at := func(t *tensor.Tensor, index ...int64) float64 {
		return t.Float(tensor.Offset(tensor.Strides(t.Shape()), index))
	}
	row := func(i, next int, sequence, group, j, d int64) float64 {
		if j >= cached {
			i, j = next, j-cached
		}
		if scale := present(in, attention.Scales[i]); scale != nil {
			return at(in[i], sequence, group, j, d) * at(scale, sequence, group, j, 0)
		}
		return at(in[i], sequence, group, j, d)
	}
	tensor.Each(q.Shape()[:3], func(index []int64) {
		sequence, head, query := index[0], index[1], index[2]
		group := head / (heads / groups)
		scores, top := make([]float64, keys), math.Inf(-1)
		for j := range scores {
			sum := 0.0
			for d := range size {
				sum += at(q, sequence, head, query, d) * row(1, 4, sequence, group, int64(j), d)
			}
			sum *= scale
			if s.Softcap > 0 {
				sum = s.Softcap * math.Tanh(sum/s.Softcap)
			}
			if mask != nil {
				flat := broadcastFlat([]int64{sequence, head, int64(j), query}, mask.Shape())
				if mask.DType() != dtype.Bool {
					sum += mask.Float(flat)
				} else if mask.Int(flat) == 0 {
					sum = fill
				}
			}
			if s.Causal && int64(j) > query+past {
				sum = fill
			}
			scores[j], top = sum, max(top, sum)
		}
		total := 0.0
		for j := range scores {
			scores[j] = math.Exp(scores[j] - top)
			total += scores[j]
		}
		for j := range scores {
			if scores[j] /= total; s.Blank && math.IsNaN(scores[j]) {
				scores[j] = 0
			}
		}
		for d := range width {
			sum := 0.0
			for j, weight := range scores {
				sum += weight * row(2, 5, sequence, group, int64(j), d)
			}
			out.SetFloat(tensor.Offset(tensor.Strides(out.Shape()), []int64{sequence, head, query, d}), sum)
		}
	})
	return []*tensor.Tensor{out}, nil
}

// attentionSamples returns operands for each setting and form of the kernels: masks, causal order, shared heads, a
// second segment, narrow types.
func attentionSamples(r *rand.Rand) []Sample {
	float := func(shape ...int64) *tensor.Tensor { return sampleNormal(r, dtype.F32, shape...) }
	attrs := func(more ir.Attrs) ir.Attrs {
		a := ir.Attrs{"scale": 0.5, "past": sym.Const(0)}
		for name, value := range more {
			a[name] = value
		}
		return a
	}
	hidden := sampleOf(r, dtype.Bool, 2, 1, 6, 4)
	for j := range int64(6) {
		hidden.SetInt(j*4, 0)
	}
	keep := sampleOf(r, dtype.Bool, 3, 1, 5, 2)
	for row := range int64(6) {
		keep.SetInt(row/2*10+row%2, 1) // a query that sees no key has no weights
	}
	late := sampleOf(r, dtype.Bool, 200, 7) // whose first block of keys is hidden
	for i := range late.Len() {
		if i/7 < 170 {
			late.SetInt(i, 0)
		}
	}
	bf16 := func(shape ...int64) *tensor.Tensor { return sampleNormal(r, dtype.BF16, shape...) }
	bytes := func(shape ...int64) *tensor.Tensor { return sampleOf(r, dtype.I8, shape...) }
	scales := func(shape ...int64) *tensor.Tensor {
		t := float(append(shape, 1)...)
		for i := range t.Len() {
			t.SetFloat(i, math.Abs(t.Float(i))/64)
		}
		return t
	}
	return []Sample{
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(2, 3, 4, 5), float(2, 3, 6, 5), float(2, 3, 6, 7)}},
		{Attrs: attrs(ir.Attrs{"scale": 0.0, "causal": true, "past": sym.Const(2)}),
			Inputs: []*tensor.Tensor{float(2, 3, 4, 5), float(2, 3, 6, 5), float(2, 3, 6, 7)}},
		{Attrs: attrs(ir.Attrs{"softcap": 2.0}), Inputs: []*tensor.Tensor{float(2, 4, 3, 5), float(2, 2, 6, 5),
			float(2, 2, 6, 7), float(6, 3)}},
		{Attrs: attrs(ir.Attrs{"causal": true, "fill": -1e4}), Inputs: []*tensor.Tensor{float(3, 4, 2, 6), float(3, 4, 5, 6),
			float(3, 4, 5, 7), keep}},
		{Attrs: attrs(ir.Attrs{"blank": true}), Inputs: []*tensor.Tensor{float(2, 3, 4, 5), float(2, 3, 6, 5),
			float(2, 3, 6, 7), hidden}},
		// Several blocks of queries and of keys; few queries, which are computed separately.
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(80)}),
			Inputs: []*tensor.Tensor{float(1, 2, 100, 3), float(1, 1, 180, 3), float(1, 1, 180, 2), float(1, 2, 180, 1)}},
		{Attrs: attrs(ir.Attrs{"blank": true, "causal": true, "fill": -1e4}),
			Inputs: []*tensor.Tensor{float(1, 1, 7, 3), float(1, 1, 200, 3), float(1, 1, 200, 2), late}},
		// With a second segment of keys and values.
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(3)}),
			Inputs: []*tensor.Tensor{float(2, 4, 2, 5), float(2, 2, 3, 5), float(2, 2, 3, 7), nil, float(2, 2, 2, 5),
				float(2, 2, 2, 7)}},
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(1, 2, 7, 5), float(1, 2, 3, 5), float(1, 2, 3, 7), float(173, 7),
			float(1, 2, 170, 5), float(1, 2, 170, 7)}},
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(2)}),
			Inputs: []*tensor.Tensor{float(2, 4, 1, 5), float(2, 2, 6, 5), float(2, 2, 6, 7)}},
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(0, 4, 2, 6), float(0, 4, 5, 6), float(0, 4, 5, 7)}},
		// With narrow keys and values, each query separately and in blocks.
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(1, 4, 1, 17), bf16(1, 2, 23, 17), bf16(1, 2, 23, 19)}},
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(70)}),
			Inputs: []*tensor.Tensor{float(1, 2, 103, 5), bf16(1, 1, 173, 5), float(1, 1, 173, 7)}},
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(1, 2, 9, 5), bf16(1, 2, 171, 5), bf16(1, 2, 171, 7), nil,
			float(1, 2, 3, 5), float(1, 2, 3, 7)}},
		// With keys, values or both of i8, which have scales.
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(2, 4, 1, 17), bytes(2, 2, 23, 17), bytes(2, 2, 23, 19), nil, nil,
			nil, scales(2, 2, 23), scales(2, 2, 23)}},
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(70)}),
			Inputs: []*tensor.Tensor{float(1, 2, 103, 5), bytes(1, 1, 173, 5), bf16(1, 1, 173, 7), nil, nil, nil,
				scales(1, 1, 173)}},
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(1, 2, 9, 5), float(1, 2, 171, 5), bytes(1, 2, 171, 7), nil, nil,
			nil, nil, scales(1, 2, 171)}},
		{Attrs: attrs(nil), Inputs: []*tensor.Tensor{float(1, 2, 9, 5), bytes(1, 2, 171, 5), bytes(1, 2, 171, 7),
			float(174, 1), bytes(1, 2, 3, 5), float(1, 2, 3, 7),
			scales(1, 2, 171), scales(1, 2, 171), scales(1, 2, 3)}},
		{Attrs: attrs(ir.Attrs{"causal": true, "past": sym.Const(3)}),
			Inputs: []*tensor.Tensor{float(1, 4, 3, 8), bytes(1, 2, 3, 8), bytes(1, 2, 3, 16), nil,
				bytes(1, 2, 3, 8), bytes(1, 2, 3, 16), scales(1, 2, 3), scales(1, 2, 3), scales(1, 2, 3), scales(1, 2, 3)}},
	}
}

// attentionAxes reports whether the result can be computed slice by slice along an axis: sequences, or queries if not
// causal. in receives the matching axis of each input.
func attentionAxes(n *ir.Node, axis int, in []int, aligned func(*ir.Value, int) int) bool {
	if input(n, 4) != nil || axis == 1 || axis == 3 || axis == 2 && n.Attrs.Bool("causal") {
		return false
	}
	in[0] = axis
	if axis == 0 {
		in[1], in[2] = 0, 0
	}
	if mask := input(n, 3); mask != nil {
		in[3] = aligned(mask, 4)
	}
	for i := 6; i < len(n.Inputs) && axis == 0; i++ {
		if n.Inputs[i] != nil {
			in[i] = 0
		}
	}
	return true
}

// attentionNarrow returns the sections of the inputs that a section of the result needs: along sequences, queries,
// value elements and, if no two heads share keys, heads.
func attentionNarrow(p NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	q, k, full := n.Inputs[0], n.Inputs[1], AxisSection{}
	if len(n.Inputs) > 4 {
		want[0], want[1], want[3] = full, full, full
	}
	if p.Dims.EQ(q.Type.Shape[1], k.Type.Shape[1]) != sym.Yes {
		want[1] = full
	}
	if n.Attrs.Bool("causal") && want[2].Step != 1 {
		want[2] = full
	}
	r := Reading{Made: want, In: []Section{{want[0], want[1], want[2], full}, {want[0], want[1], full, full},
		{want[0], want[1], full, want[3]}}}
	if len(n.Inputs) > 3 {
		r.In = append(r.In, broadcastSection(n.Inputs[3], Section{want[0], want[1], full, want[2]}))
	}
	for range n.Inputs[min(len(n.Inputs), 4):] {
		r.In = append(r.In, nil)
	}
	if past, ok := n.Attrs["past"].(sym.Expr); ok && !want[2].Full() {
		r.Attrs = maps.Clone(n.Attrs)
		r.Attrs["past"] = past.Add(want[2].Begin)
	}
	return r, true
}
