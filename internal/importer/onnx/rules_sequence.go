package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A sequence is a list while what goes into it, and where, is known as the model is converted. What is done to it then is done here, and costs a run nothing.

// maxSequence is the most tensors that a list may have.
const maxSequence = 1 << 10

// listed is a sequence that is a list of tensors, of the type given where there are none.
func (c *call) listed(list []*ir.Value, dt dtype.DType) []*ir.Value {
	s := &composite{form: form{kind: Sequence, of: ir.Type{DType: dt}, vacant: len(list) == 0}, list: list, listed: true}
	for i, v := range list {
		f := c.graph.formOf(v)
		if f.kind != Tensor {
			c.Fault("%s in a sequence", f)
		}
		if i == 0 {
			s.of = f.of
		}
		if f.of.DType != s.of.DType {
			c.Fault("tensor %d of the sequence is %s, the first is %s", i, f.of, s.of)
		}
		s.of.Shape = alike(s.of.Shape, f.of.Shape)
	}
	v := c.graph.stand(s)
	if len(list) > maxSequence {
		v = c.graph.from(s.form, c.graph.packed(s))
	}
	return one(v)
}

// sequence is the i-th input, which must be a sequence, or an optional that has one.
func (c *call) sequence(i int) *composite {
	if i >= len(c.In) || c.In[i] == nil {
		c.Fault("input %d is missing", i)
	}
	s := c.graph.composites[c.graph.get(c.In[i])]
	if s == nil || s.kind != Sequence {
		c.Fault("input %d is %s, it must be a sequence", i, c.graph.formOf(c.In[i]))
	}
	return s
}

// packed is the parts of a sequence that is a list.
func (g *graph) packed(s *composite) []*ir.Value {
	dt, list := s.of.DType, s.list
	var pool *ir.Value
	if dt == dtype.String {
		dt = dtype.I64
		list, pool = g.pooled(g.listTexts(s.list))
	}
	if dt == dtype.Invalid {
		dt = dtype.F32
	}
	l := ops.Pack(g.build, dt, list...)
	parts := []*ir.Value{l.Elements, l.Extents}
	if pool != nil {
		parts = append(parts, pool)
	}
	return parts
}

func (g *graph) listTexts(list []*ir.Value) []ops.Text {
	out := make([]ops.Text, len(list))
	for i, v := range list {
		out[i] = g.text(v)
	}
	return out
}

// list is a sequence's elements and extents, and its pool where it is of texts.
func (g *graph) list(s *composite) (l ops.List, pool *ir.Value) {
	parts := s.parts
	if s.listed {
		parts = g.packed(s)
	}
	if len(parts) > 2 {
		pool = parts[2]
	}
	return ops.List{Elements: parts[0], Extents: parts[1]}, pool
}

// of is the sequence of a form that a list and a pool hold.
func (g *graph) of(t ir.Type, l ops.List, pool *ir.Value) *ir.Value {
	parts := []*ir.Value{l.Elements, l.Extents}
	if pool != nil {
		parts = append(parts, pool)
	}
	return g.from(form{kind: Sequence, of: t}, parts)
}

// known is a position that is known; otherwise where there is none.
func (c *call) known(i int, otherwise int64) (int64, bool) {
	v := c.Optional(i)
	if v == nil {
		return otherwise, true
	}
	if len(v.Known) != 1 {
		return 0, false
	}
	return v.Known[0].Const()
}

// position is a position as the run has it.
func (c *call) position(i int, otherwise *ir.Value) *ir.Value {
	if c.Optional(i) == nil {
		return otherwise
	}
	return scalarIn(c.Builder, c.wide(i))
}

// place resolves a position among so many, which may count from their end.
func (c *call) place(at int64, among int) int {
	if at < -int64(among) || at >= int64(among) {
		c.Fault("position %d of a sequence of %d", at, among)
	}
	if at < 0 {
		at += int64(among)
	}
	return int(at)
}

func sequenceConstruct(c *call) []*ir.Value {
	if len(c.In) == 0 || slices.Contains(c.In, nil) {
		c.Fault("a tensor of the sequence is missing")
	}
	return c.listed(slices.Clone(c.In), dtype.Invalid)
}

func sequenceEmpty(c *call) []*ir.Value {
	dt := c.Type("dtype")
	if dt == dtype.Invalid {
		dt = dtype.F32
	}
	return c.listed(nil, dt)
}

func sequenceAt(c *call) []*ir.Value {
	s := c.sequence(0)
	if at, ok := c.known(1, 0); ok && s.listed {
		return one(s.list[c.place(at, len(s.list))])
	}
	shape := s.of.Shape
	if shape == nil {
		shape = c.declaredShape(0)
	}
	if shape == nil {
		c.Refuse("a tensor of a sequence whose tensors' rank nothing tells")
	}
	l, pool := c.graph.list(s)
	x := ops.At(c.Builder, l, c.position(1, nil), c.graph.found(shape)...)
	if pool != nil {
		return one(c.graph.texts(ops.Text{Spans: x, Pool: pool}))
	}
	return one(x)
}

// found is a shape as the sequence operators take it: what differs is found by the run.
func (g *graph) found(shape []sym.Expr) []sym.Expr {
	out := slices.Clone(shape)
	for i, e := range out {
		if e.Equal(differing) {
			out[i] = ops.AnyExtent
		}
	}
	return out
}

// declaredShape is the shape that the model's graph declares of an output; extents that are not numbers differ. nil where it declares none.
func (c *call) declaredShape(output int) []sym.Expr {
	if output >= len(c.Node.Output) {
		return nil
	}
	for g := c.graph; g != nil; g = g.outer {
		if g.proto == nil {
			continue
		}
		for _, list := range [][]*wire.ValueInfoProto{g.proto.ValueInfo, g.proto.Output} {
			for _, v := range list {
				if v.Name != c.Node.Output[output] {
					continue
				}
				if p, err := portOf(v, false, nil); err == nil && p.Kind == Tensor {
					p.Kind = Sequence
					return p.form().of.Shape
				}
			}
		}
	}
	return nil
}

func sequenceLength(c *call) []*ir.Value {
	s := c.sequence(0)
	if s.listed {
		return one(c.number(int64(len(s.list))))
	}
	return one(ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, s.parts[1].Type.Shape[:1]))
}

func sequenceInsert(c *call) []*ir.Value {
	s := c.sequence(0)
	if len(c.In) < 2 || c.In[1] == nil {
		c.Fault("the tensor to insert is missing")
	}
	v := c.In[1]
	f := c.graph.formOf(v)
	if f.kind != Tensor {
		c.Fault("input 1 is %s, it must be a tensor", f)
	}
	if s.listed && len(s.list) > 0 && s.of.DType != f.of.DType || !s.listed && s.of.DType != f.of.DType {
		c.Fault("%s in a sequence of tensors of %s", f.of, s.of.DType)
	}
	if s.listed {
		if at, ok := c.known(2, int64(len(s.list))); ok {
			if at != int64(len(s.list)) {
				at = int64(c.place(at, len(s.list)))
			}
			return c.listed(slices.Insert(slices.Clone(s.list), int(at), v), dtype.Invalid)
		}
	}
	l, pool := c.graph.list(s)
	x := v
	if pool != nil {
		var spans []*ir.Value
		spans, pool = c.graph.pooled([]ops.Text{{Spans: l.Elements, Pool: pool}, c.graph.text(v)})
		l.Elements, x = spans[0], spans[1]
	}
	t := ir.Type{DType: f.of.DType, Shape: alike(s.of.Shape, f.of.Shape)}
	if s.listed && len(s.list) == 0 {
		t.Shape = f.of.Shape
	}
	if c.Optional(2) == nil {
		return one(c.graph.of(t, ops.Append(c.Builder, l, x), pool))
	}
	return one(c.graph.of(t, ops.Insert(c.Builder, l, x, c.position(2, nil)), pool))
}

func sequenceErase(c *call) []*ir.Value {
	s := c.sequence(0)
	if s.listed {
		if len(s.list) == 0 {
			c.Fault("nothing to take out of an empty sequence")
		}
		if at, ok := c.known(1, -1); ok {
			k := c.place(at, len(s.list))
			return c.listed(slices.Delete(slices.Clone(s.list), k, k+1), s.of.DType)
		}
	}
	l, pool := c.graph.list(s)
	return one(c.graph.of(s.of, ops.Erase(c.Builder, l, c.position(1, c.number(-1))), pool))
}

func concatFromSequence(c *call) []*ir.Value {
	s := c.sequence(0)
	stack := c.Int("new_axis", 0) != 0
	if !s.listed {
		return one(c.joined(s, stack))
	}
	if len(s.list) == 0 {
		c.Fault("an empty sequence")
	}
	list, pool := s.list, (*ir.Value)(nil)
	if s.of.DType == dtype.String {
		list, pool = c.graph.pooled(c.graph.listTexts(list))
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
		return one(c.graph.texts(ops.Text{Spans: x, Pool: pool}))
	}
	return one(x)
}

// joined concatenates a sequence that the run has.
func (c *call) joined(s *composite, stack bool) *ir.Value {
	shape := slices.Clone(s.of.Shape)
	l, pool := c.graph.list(s)
	declared := c.declaredShape(0)
	if shape == nil && declared == nil {
		c.Refuse("the tensors of a sequence together, whose rank nothing tells")
	}
	if shape == nil {
		if shape = declared; stack && len(shape) > 0 {
			shape = shape[1:]
		}
		for i := range shape {
			shape[i] = differing
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
		shape[axis] = differing
	}
	x := ops.Join(c.Builder, l, axis, stack, c.graph.found(shape)...)
	if pool != nil {
		return c.graph.texts(ops.Text{Spans: x, Pool: pool})
	}
	return x
}

// splitToSequence cuts an axis: into single slices, into pieces of one size (the last may be smaller), or into pieces of given sizes. Where the pieces are known, they
// are a list.
func splitToSequence(c *call) []*ir.Value {
	pool := (*ir.Value)(nil)
	if c.isTexts(0) {
		t := c.textInput(0)
		c.In, pool = slices.Clone(c.In), t.Pool
		c.In[0] = t.Spans
	}
	x := c.Input(0)
	axis := c.Axis(c.Int("axis", 0), len(x.Type.Shape))
	drop := c.Optional(1) == nil && c.Int("keepdims", 1) == 0
	sizes := c.pieces(x.Type.Shape[axis])
	if sizes == nil {
		return one(c.cutSequence(x, axis, drop, pool))
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
			pieces[i] = c.graph.texts(ops.Text{Spans: p, Pool: pool})
		}
	}
	return c.listed(pieces, dt)
}

// pieces are the sizes of a split, where they are known and not too many; nil where not.
func (c *call) pieces(extent sym.Expr) []sym.Expr {
	v := c.Optional(1)
	whole, fixed := extent.Const()
	sizes := []sym.Expr{}
	if v != nil && len(v.Type.Shape) > 0 {
		if v.Known == nil {
			return nil
		}
		for i, e := range v.Known {
			if n, ok := e.Const(); ok && n < 0 {
				c.Fault("piece %d of %d", i, n)
			} else if !ok {
				return nil
			}
		}
		c.require(sym.Cond{A: sym.Sum(v.Known...), Rel: sym.EQ, B: extent}, "the pieces of a split are the whole")
		return append(sizes, v.Known...)
	}
	size, ok := c.known(1, 1)
	if ok && size < 1 {
		c.Fault("pieces of %d", size)
	}
	if !ok || !fixed || whole/size > maxSequence {
		return nil
	}
	for ; whole > 0; whole -= size {
		sizes = append(sizes, sym.Const(min(size, whole)))
	}
	return sizes
}

// cutSequence splits x into pieces that the run knows.
func (c *call) cutSequence(x *ir.Value, axis int64, drop bool, pool *ir.Value) *ir.Value {
	b, extent := c.Builder, x.Type.Shape[axis]
	t := ir.Type{DType: x.Type.DType, Shape: slices.Clone(x.Type.Shape)}
	t.Shape[axis] = differing
	var lengths *ir.Value
	switch v := c.Optional(1); {
	case v == nil:
		lengths = ops.Fill(b, tensor.Scalar[int64](1), extent)
		if t.Shape[axis] = sym.Const(1); drop {
			t.Shape = slices.Delete(t.Shape, int(axis), int(axis)+1)
		}
	case len(v.Type.Shape) > 0:
		lengths = c.wide(1)
	default:
		known, err := c.Elements(v, c.String(), 1, sym.NoMax)
		if err != nil {
			c.Fail(err)
		}
		size := c.integer(known[0])
		begins := ops.Binary(b, ops.Mul, ops.Counting(b, dtype.I64, extent.CeilDiv(known[0])), size)
		lengths = ops.Binary(b, ops.Min, size, ops.Binary(b, ops.Sub, c.integer(extent), begins))
	}
	if pool != nil {
		t.DType = dtype.String
	}
	return c.graph.of(t, ops.Cut(b, x, lengths, axis, !drop), pool)
}

// sequenceMap applies a body to each tensor of a sequence, with the tensors of further sequences at the same place, and further tensors as they are.
func sequenceMap(c *call) []*ir.Value {
	first := c.sequence(0)
	proto := c.Graph("body")
	in := slices.Clone(c.In)
	lists := first.listed && len(first.list) <= maxUnrolled
	for i := range in {
		if i > 0 && in[i] == nil {
			c.Fault("input %d is missing", i)
		}
		if s := c.graph.composites[in[i]]; s != nil && s.kind.plain() == Sequence {
			in[i] = c.graph.get(in[i])
			lists = lists && c.sequence(i).listed
		}
	}
	if lists {
		return c.mapped(proto, in, len(first.list))
	}
	var count sym.Expr
	for i, v := range in {
		s := c.graph.composites[v]
		if s == nil || s.kind != Sequence {
			continue
		}
		n := sym.Const(int64(len(s.list)))
		if s.listed {
			in[i] = c.graph.from(s.form, c.graph.packed(s))
		} else {
			n = s.parts[1].Type.Shape[0]
		}
		if i == 0 {
			count = n
		}
		c.require(sym.Cond{A: n, Rel: sym.EQ, B: count}, "sequences of one length")
	}
	var empty []*ir.Value
	for _, o := range proto.Output {
		p, err := portOf(o, false, nil)
		if err != nil {
			c.Fail(err)
		}
		p.Kind = Sequence
		empty = append(empty, c.listed(nil, p.Type.DType)...)
	}
	carried, _ := c.loop(count, c.integer(count), nil, empty, func(g *graph, iteration, condition *ir.Value, carried []*ir.Value) []*ir.Value {
		params := make([]*ir.Value, len(in))
		for i, v := range in {
			params[i] = v
			if s := g.composites[v]; s != nil && s.kind == Sequence {
				at := &call{Builder: g.build, graph: g, Node: &wire.NodeProto{OpType: "SequenceMap"}, Version: c.Version, In: []*ir.Value{v, iteration}}
				if s.of.Shape == nil && i < len(proto.Input) {
					s.of.Shape = c.inputShape(proto.Input[i])
				}
				params[i] = sequenceAt(at)[0]
			}
		}
		out := []*ir.Value{condition}
		for i, v := range g.values(proto, g.build, params) {
			insert := &call{Builder: g.build, graph: g, Node: &wire.NodeProto{OpType: "SequenceMap"}, Version: c.Version, In: []*ir.Value{carried[i], v}}
			out = append(out, sequenceInsert(insert)[0])
		}
		return out
	})
	return carried
}

// maxUnrolled is the longest list for each of whose tensors SequenceMap converts its body.
const maxUnrolled = 16

// inputShape is the shape that a body declares of an input, with differing for what is no number.
func (c *call) inputShape(v *wire.ValueInfoProto) []sym.Expr {
	p, err := portOf(v, false, nil)
	if err != nil || p.Kind != Tensor {
		return nil
	}
	p.Kind = Sequence
	return p.form().of.Shape
}

// mapped is sequenceMap of lists.
func (c *call) mapped(proto *wire.GraphProto, in []*ir.Value, length int) []*ir.Value {
	lists := make([][]*ir.Value, len(proto.Output))
	for k := range length {
		params := make([]*ir.Value, len(in))
		for i, v := range in {
			params[i] = v
			if s := c.graph.composites[v]; s != nil && s.kind == Sequence {
				if len(s.list) != length {
					c.Fault("sequences of %d and %d tensors", length, len(s.list))
				}
				params[i] = s.list[k]
			}
		}
		for i, v := range c.graph.values(proto, c.Builder, params) {
			lists[i] = append(lists[i], v)
		}
	}
	var out []*ir.Value
	for i, list := range lists {
		p, err := portOf(proto.Output[i], false, nil)
		if err != nil && length == 0 {
			c.Fail(err)
		}
		out = append(out, c.listed(list, p.Type.DType)...)
	}
	return out
}
