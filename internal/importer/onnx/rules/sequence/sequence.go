package sequence

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A sequence is a list of values if its elements and their positions are known while the model is converted. Its
// operators are then carried out during conversion and cost a run nothing.

// maxSequence is the most tensors that a list may have; longer sequences are values of the run.
const maxSequence = 1 << 10

// listed returns a sequence of the tensors in list; dt is its type if the list is empty.
func listed(c *convert.Call, list []*ir.Value, dt dtype.DType) []*ir.Value {
	s := &convert.Composite{Form: convert.Form{Kind: convert.Sequence, Of: ir.Type{DType: dt}, Vacant: len(list) == 0},
		List: list, Listed: true}
	for i, v := range list {
		f := c.Scope.FormOf(v)
		if f.Kind != convert.Tensor {
			c.Fault("%s in a sequence", f)
		}
		if i == 0 {
			s.Of = f.Of
		}
		if f.Of.DType != s.Of.DType {
			c.Fault("tensor %d of the sequence is %s, the first is %s", i, f.Of, s.Of)
		}
		s.Of.Shape = convert.Alike(s.Of.Shape, f.Of.Shape)
	}
	v := c.Scope.Stand(s)
	if len(list) > maxSequence {
		v = c.Scope.From(s.Form, c.Scope.Packed(s))
	}
	return convert.One(v)
}

// sequence returns the i-th input, which must be a sequence or an optional that holds one.
func sequence(c *convert.Call, i int) *convert.Composite {
	if i >= len(c.In) || c.In[i] == nil {
		c.Fault("input %d is missing", i)
	}
	s := c.Scope.Composites[c.Scope.Get(c.In[i])]
	if s == nil || s.Kind != convert.Sequence {
		c.Fault("input %d is %s, it must be a sequence", i, c.Scope.FormOf(c.In[i]))
	}
	return s
}

// list returns the components of a sequence: its elements and extents, and its pool if it is of strings.
func list(g *convert.Scope, s *convert.Composite) (l ops.List, pool *ir.Value) {
	components := s.Components
	if s.Listed {
		components = g.Packed(s)
	}
	if len(components) > 2 {
		pool = components[2]
	}
	return ops.List{Elements: components[0], Extents: components[1]}, pool
}

// sequenceOf returns the sequence of tensors of type t with the elements and extents of l. pool has the characters of
// strings; it is nil for tensors of numbers.
func sequenceOf(g *convert.Scope, t ir.Type, l ops.List, pool *ir.Value) *ir.Value {
	components := []*ir.Value{l.Elements, l.Extents}
	if pool != nil {
		components = append(components, pool)
	}
	return g.From(convert.Form{Kind: convert.Sequence, Of: t}, components)
}

// knownInteger returns the i-th input, an integer, or fallback if the input is missing. ok is false if the integer is
// not known.
func knownInteger(c *convert.Call, i int, fallback int64) (value int64, ok bool) {
	v := c.Optional(i)
	if v == nil {
		return fallback, true
	}
	if len(v.Known) != 1 {
		return 0, false
	}
	return v.Known[0].Const()
}

// position returns the i-th input, a position, as a scalar that the run computes, or fallback if the input is missing.
func position(c *convert.Call, i int, fallback *ir.Value) *ir.Value {
	if c.Optional(i) == nil {
		return fallback
	}
	return convert.ScalarIn(c.Builder, c.Wide(i))
}

// resolvePosition returns the index, from 0, of a position among so many elements; a negative position counts from
// their end.
func resolvePosition(c *convert.Call, at int64, among int) int {
	if at < -int64(among) || at >= int64(among) {
		c.Fault("position %d of a sequence of %d", at, among)
	}
	if at < 0 {
		at += int64(among)
	}
	return int(at)
}

// sequenceConstruct converts SequenceConstruct.
func sequenceConstruct(c *convert.Call) []*ir.Value {
	if len(c.In) == 0 || slices.Contains(c.In, nil) {
		c.Fault("a tensor of the sequence is missing")
	}
	return listed(c, slices.Clone(c.In), dtype.Invalid)
}

// sequenceEmpty converts SequenceEmpty; its tensors are f32 if dtype is absent.
func sequenceEmpty(c *convert.Call) []*ir.Value {
	dt := c.Type("dtype")
	if dt == dtype.Invalid {
		dt = dtype.F32
	}
	return listed(c, nil, dt)
}

// sequenceAt converts SequenceAt. If the list or the position is not known, it needs the tensors' rank, from the
// sequence or from the shape that the graph declares of the output.
func sequenceAt(c *convert.Call) []*ir.Value {
	s := sequence(c, 0)
	if at, ok := knownInteger(c, 1, 0); ok && s.Listed {
		return convert.One(s.List[resolvePosition(c, at, len(s.List))])
	}
	shape := s.Of.Shape
	if shape == nil {
		shape = declaredShape(c, 0)
	}
	if shape == nil {
		c.Refuse("a tensor of a sequence whose rank is unknown")
	}
	l, pool := list(c.Scope, s)
	x := ops.At(c.Builder, l, position(c, 1, nil), anyExtents(c.Scope, shape)...)
	if pool != nil {
		return convert.One(c.Scope.StringValue(ops.Text{Spans: x, Pool: pool}))
	}
	return convert.One(x)
}

// anyExtents returns a shape with ops.AnyExtent for the extents that differ between a sequence's tensors, as the
// sequence operators take it.
func anyExtents(g *convert.Scope, shape []sym.Expr) []sym.Expr {
	out := slices.Clone(shape)
	for i, e := range out {
		if e.Equal(convert.Differing) {
			out[i] = ops.AnyExtent
		}
	}
	return out
}

// declaredShape returns the shape that the graph declares of an output, with Differing for extents that are not
// numbers; nil if it declares none.
func declaredShape(c *convert.Call, output int) []sym.Expr {
	if output >= len(c.Node.Output) {
		return nil
	}
	for g := c.Scope; g != nil; g = g.Outer {
		if g.Proto == nil {
			continue
		}
		for _, list := range [][]*wire.ValueInfoProto{g.Proto.ValueInfo, g.Proto.Output} {
			for _, v := range list {
				if v.Name != c.Node.Output[output] {
					continue
				}
				if p, err := convert.PortOf(v, false, nil); err == nil && p.Kind == convert.Tensor {
					p.Kind = convert.Sequence
					return p.Form().Of.Shape
				}
			}
		}
	}
	return nil
}

// sequenceLength converts SequenceLength.
func sequenceLength(c *convert.Call) []*ir.Value {
	s := sequence(c, 0)
	if s.Listed {
		return convert.One(c.Number(int64(len(s.List))))
	}
	return convert.One(ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, s.Components[1].Type.Shape[:1]))
}

// sequenceInsert converts SequenceInsert. The result is a list if the sequence is one and the position is known.
func sequenceInsert(c *convert.Call) []*ir.Value {
	s := sequence(c, 0)
	if len(c.In) < 2 || c.In[1] == nil {
		c.Fault("the tensor to insert is missing")
	}
	v := c.In[1]
	f := c.Scope.FormOf(v)
	if f.Kind != convert.Tensor {
		c.Fault("input 1 is %s, it must be a tensor", f)
	}
	if s.Listed && len(s.List) > 0 && s.Of.DType != f.Of.DType || !s.Listed && s.Of.DType != f.Of.DType {
		c.Fault("%s in a sequence of tensors of %s", f.Of, s.Of.DType)
	}
	if s.Listed {
		if at, ok := knownInteger(c, 2, int64(len(s.List))); ok {
			if at != int64(len(s.List)) {
				at = int64(resolvePosition(c, at, len(s.List)))
			}
			return listed(c, slices.Insert(slices.Clone(s.List), int(at), v), dtype.Invalid)
		}
	}
	l, pool := list(c.Scope, s)
	x := v
	if pool != nil {
		var spans []*ir.Value
		spans, pool = c.Scope.Pooled([]ops.Text{{Spans: l.Elements, Pool: pool}, c.Scope.StringComponents(v)})
		l.Elements, x = spans[0], spans[1]
	}
	t := ir.Type{DType: f.Of.DType, Shape: convert.Alike(s.Of.Shape, f.Of.Shape)}
	if s.Listed && len(s.List) == 0 {
		t.Shape = f.Of.Shape
	}
	if c.Optional(2) == nil {
		return convert.One(sequenceOf(c.Scope, t, ops.Append(c.Builder, l, x), pool))
	}
	return convert.One(sequenceOf(c.Scope, t, ops.Insert(c.Builder, l, x, position(c, 2, nil)), pool))
}

// sequenceErase converts SequenceErase. The result is a list if the sequence is one and the position is known.
func sequenceErase(c *convert.Call) []*ir.Value {
	s := sequence(c, 0)
	if s.Listed {
		if len(s.List) == 0 {
			c.Fault("nothing to take out of an empty sequence")
		}
		if at, ok := knownInteger(c, 1, -1); ok {
			k := resolvePosition(c, at, len(s.List))
			return listed(c, slices.Delete(slices.Clone(s.List), k, k+1), s.Of.DType)
		}
	}
	l, pool := list(c.Scope, s)
	return convert.One(sequenceOf(c.Scope, s.Of, ops.Erase(c.Builder, l, position(c, 1, c.Number(-1))), pool))
}

// concatFromSequence converts ConcatFromSequence.
func concatFromSequence(c *convert.Call) []*ir.Value {
	s := sequence(c, 0)
	stack := c.Int("new_axis", 0) != 0
	if !s.Listed {
		return convert.One(concatenated(c, s, stack))
	}
	if len(s.List) == 0 {
		c.Fault("an empty sequence")
	}
	list, pool := s.List, (*ir.Value)(nil)
	if s.Of.DType == dtype.String {
		list, pool = c.Scope.Pooled(c.Scope.ListStrings(list))
	}
	rank := len(list[0].Type.Shape)
	if stack {
		rank++
	}
	axis := c.Axis(c.Int("axis", 0), rank)
	if stack {
		list = slices.Clone(list)
		for i, v := range list {
			if len(v.Type.Shape) != rank-1 {
				c.Fault("tensors of ranks %d and %d", rank-1, len(v.Type.Shape))
			}
			list[i] = ops.Reshape(c.Builder, v, slices.Insert(slices.Clone(v.Type.Shape), int(axis), sym.Const(1))...)
		}
	}
	x := ops.Concat(c.Builder, axis, list...)
	if pool != nil {
		return convert.One(c.Scope.StringValue(ops.Text{Spans: x, Pool: pool}))
	}
	return convert.One(x)
}

// concatenated joins the tensors of a sequence that is not a list.
func concatenated(c *convert.Call, s *convert.Composite, stack bool) *ir.Value {
	shape := slices.Clone(s.Of.Shape)
	l, pool := list(c.Scope, s)
	declared := declaredShape(c, 0)
	if shape == nil && declared == nil {
		c.Refuse("the tensors of a sequence together, whose rank is unknown")
	}
	if shape == nil {
		if shape = declared; stack && len(shape) > 0 {
			shape = shape[1:]
		}
		for i := range shape {
			shape[i] = convert.Differing
		}
	}
	rank := len(shape)
	if stack {
		rank++
	}
	axis := c.Axis(c.Int("axis", 0), rank)
	switch {
	case stack:
		shape = slices.Insert(shape, int(axis), l.Extents.Type.Shape[0])
	case rank == 1:
		shape[0] = l.Elements.Type.Shape[0]
	default:
		shape[axis] = convert.Differing
	}
	x := ops.Join(c.Builder, l, axis, stack, anyExtents(c.Scope, shape)...)
	if pool != nil {
		return c.Scope.StringValue(ops.Text{Spans: x, Pool: pool})
	}
	return x
}

// splitToSequence converts SplitToSequence: it cuts an axis into single slices, into pieces of one size (the last may
// be smaller), or into pieces of given sizes. If their sizes are known, the result is a list.
func splitToSequence(c *convert.Call) []*ir.Value {
	pool := (*ir.Value)(nil)
	if c.IsStrings(0) {
		t := c.StringInput(0)
		c.In, pool = slices.Clone(c.In), t.Pool
		c.In[0] = t.Spans
	}
	x := c.Input(0)
	axis := c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	drop := c.Optional(1) == nil && c.Int("keepdims", 1) == 0
	sizes := pieces(c, x.Type.Shape[axis])
	if sizes == nil {
		return convert.One(cutSequence(c, x, axis, drop, pool))
	}
	pieces := ops.Split(c.Builder, x, int(axis), sizes)
	dt := x.Type.DType
	if drop {
		shape := slices.Delete(slices.Clone(x.Type.Shape), int(axis), int(axis)+1)
		for i, p := range pieces {
			pieces[i] = ops.Reshape(c.Builder, p, shape...)
		}
	}
	if pool != nil {
		dt = dtype.String
		for i, p := range pieces {
			pieces[i] = c.Scope.StringValue(ops.Text{Spans: p, Pool: pool})
		}
	}
	return listed(c, pieces, dt)
}

// pieces returns the sizes of a split; nil if they are not known or too many.
func pieces(c *convert.Call, extent sym.Expr) []sym.Expr {
	v := c.Optional(1)
	total, fixed := extent.Const()
	sizes := []sym.Expr{}
	if v != nil && len(v.Type.Shape) > 0 {
		known := c.Known(1)
		if known == nil {
			return nil
		}
		for i, e := range known {
			if n, ok := e.Const(); ok && n < 0 {
				c.Fault("piece %d of %d", i, n)
			} else if !ok {
				return nil
			}
		}
		c.Condition(sym.Cond{A: sym.Sum(known...), Rel: sym.EQ, B: extent}, "the pieces of a split are the whole")
		return append(sizes, known...)
	}
	size, ok := knownInteger(c, 1, 1)
	if ok && size < 1 {
		c.Fault("pieces of %d", size)
	}
	if !ok || !fixed || total/size > maxSequence {
		return nil
	}
	for ; total > 0; total -= size {
		sizes = append(sizes, sym.Const(min(size, total)))
	}
	return sizes
}

// cutSequence splits x into pieces whose sizes only the run knows.
func cutSequence(c *convert.Call, x *ir.Value, axis int64, drop bool, pool *ir.Value) *ir.Value {
	b, extent := c.Builder, x.Type.Shape[axis]
	t := ir.Type{DType: x.Type.DType, Shape: slices.Clone(x.Type.Shape)}
	t.Shape[axis] = convert.Differing
	var lengths *ir.Value
	switch v := c.Optional(1); {
	case v == nil:
		lengths = ops.Fill(b, tensor.Scalar[int64](1), extent)
		if t.Shape[axis] = sym.Const(1); drop {
			t.Shape = slices.Delete(t.Shape, int(axis), int(axis)+1)
		}
	case len(v.Type.Shape) > 0:
		lengths = c.Wide(1)
	default:
		known, err := c.Elements(v, c.String(), 1, sym.NoMax)
		if err != nil {
			c.Fail(err)
		}
		size := c.Integer(known[0])
		begins := ops.Binary(b, ops.Mul, ops.Counting(b, dtype.I64, extent.CeilDiv(known[0])), size)
		lengths = ops.Binary(b, ops.Min, size, ops.Binary(b, ops.Sub, c.Integer(extent), begins))
	}
	if pool != nil {
		t.DType = dtype.String
	}
	return sequenceOf(c.Scope, t, ops.Cut(b, x, lengths, axis, !drop), pool)
}

// sequenceMap converts SequenceMap: it applies a body to each tensor of a sequence, together with the tensors at the
// same position of further sequences, and with further tensors as they are.
func sequenceMap(c *convert.Call) []*ir.Value {
	first := sequence(c, 0)
	proto := c.Graph("body")
	in := slices.Clone(c.In)
	lists := first.Listed && len(first.List) <= maxUnrolled
	for i := range in {
		if i > 0 && in[i] == nil {
			c.Fault("input %d is missing", i)
		}
		if s := c.Scope.Composites[in[i]]; s != nil && s.Kind.Unwrapped() == convert.Sequence {
			in[i] = c.Scope.Get(in[i])
			lists = lists && sequence(c, i).Listed
		}
	}
	if lists {
		return mapped(c, proto, in, len(first.List))
	}
	var count sym.Expr
	for i, v := range in {
		s := c.Scope.Composites[v]
		if s == nil || s.Kind != convert.Sequence {
			continue
		}
		n := sym.Const(int64(len(s.List)))
		if s.Listed {
			in[i] = c.Scope.From(s.Form, c.Scope.Packed(s))
		} else {
			n = s.Components[1].Type.Shape[0]
		}
		if i == 0 {
			count = n
		}
		c.Condition(sym.Cond{A: n, Rel: sym.EQ, B: count}, "sequences of one length")
	}
	var empty []*ir.Value
	for _, o := range proto.Output {
		p, err := convert.PortOf(o, false, nil)
		if err != nil {
			c.Fail(err)
		}
		p.Kind = convert.Sequence
		empty = append(empty, listed(c, nil, p.Type.DType)...)
	}
	carried, _ := c.Loop(count, c.Integer(count), nil, empty, func(g *convert.Scope, iteration, condition *ir.Value,
		carried []*ir.Value) []*ir.Value {
		params := make([]*ir.Value, len(in))
		for i, v := range in {
			params[i] = v
			if s := g.Composites[v]; s != nil && s.Kind == convert.Sequence {
				at := &convert.Call{Builder: g.Build, Scope: g, Node: &wire.NodeProto{OpType: "SequenceMap"}, Version: c.Version,
					In: []*ir.Value{v, iteration}}
				if s.Of.Shape == nil && i < len(proto.Input) {
					s.Of.Shape = inputShape(c, proto.Input[i])
				}
				params[i] = sequenceAt(at)[0]
			}
		}
		out := []*ir.Value{condition}
		for i, v := range g.Values(proto, g.Build, params) {
			insert := &convert.Call{Builder: g.Build, Scope: g, Node: &wire.NodeProto{OpType: "SequenceMap"}, Version: c.Version,
				In: []*ir.Value{carried[i], v}}
			out = append(out, sequenceInsert(insert)[0])
		}
		return out
	})
	return carried
}

// maxUnrolled is the length of the longest list for which SequenceMap converts its body once for each tensor.
const maxUnrolled = 16

// inputShape returns the shape that a body declares of an input, with Differing for extents that are not numbers; nil
// if it declares none.
func inputShape(c *convert.Call, v *wire.ValueInfoProto) []sym.Expr {
	p, err := convert.PortOf(v, false, nil)
	if err != nil || p.Kind != convert.Tensor {
		return nil
	}
	p.Kind = convert.Sequence
	return p.Form().Of.Shape
}

// mapped is sequenceMap of lists, all of the given length.
func mapped(c *convert.Call, proto *wire.GraphProto, in []*ir.Value, length int) []*ir.Value {
	lists := make([][]*ir.Value, len(proto.Output))
	for k := range length {
		params := make([]*ir.Value, len(in))
		for i, v := range in {
			params[i] = v
			if s := c.Scope.Composites[v]; s != nil && s.Kind == convert.Sequence {
				if len(s.List) != length {
					c.Fault("sequences of %d and %d tensors", length, len(s.List))
				}
				params[i] = s.List[k]
			}
		}
		for i, v := range c.Scope.Values(proto, c.Builder, params) {
			lists[i] = append(lists[i], v)
		}
	}
	var out []*ir.Value
	for i, list := range lists {
		p, err := convert.PortOf(proto.Output[i], false, nil)
		if err != nil && length == 0 {
			c.Fail(err)
		}
		out = append(out, listed(c, list, p.Type.DType)...)
	}
	return out
}
