package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// What is not one tensor of numbers is several. ir knows only the tensors; while a model is converted, a stand-in, a value that belongs to no block, is passed about
// in their place, and the built model's Signature says what its parameters and results are the parts of. In the parts' order:
//
//	texts      spans i64[shape], each offset<<32 | length, into pool u8[bytes]
//	sequence   elements T[total], end to end; extents i64[length, 8], of each tensor its rank and its extents. Of texts, the elements are spans, and pool follows.
//	optional   has bool[], and the parts of what it may have, which are empty, or zeros, where it has nothing
//
// A sequence whose tensors are known one by one is a list of them until something needs its parts.

// Kind is what a value of a model is.
type Kind uint8

// The kinds. A tensor is of numbers or of texts.
const (
	Tensor Kind = iota
	Sequence
	Optional
	OptionalSequence
)

// plain is what an optional of the kind may have.
func (k Kind) plain() Kind { return k &^ Optional }

// form is what is known of a value's parts before there are any.
type form struct {
	kind Kind
	// of is the type of the tensor, or of the tensors of a sequence: String for texts. Of a sequence's tensors the rank may not be known (Shape is nil), and extents that
	// may differ are the differing one; an optional that never has anything may not know what it might have (Invalid).
	of ir.Type
	// vacant says of a sequence that it has no tensors: its type's shape says nothing.
	vacant bool
}

// differing is an extent that differs among a sequence's tensors.
var differing = sym.Var(sym.Hidden("?"))

// composite is what a stand-in stands for.
type composite struct {
	form
	parts  []*ir.Value // nil of a list; of an absent optional, has alone
	list   []*ir.Value // the tensors of a sequence that is a list
	listed bool
	absent bool // it never has anything
}

// String is what it is, for errors.
func (f form) String() string {
	names := [...]string{Tensor: "a tensor", Sequence: "a sequence", Optional: "an optional", OptionalSequence: "an optional sequence"}
	if f.kind == Tensor && f.of.DType == dtype.String {
		return "texts"
	}
	return names[f.kind]
}

// simple reports whether a value of the form is one tensor.
func (f form) simple() bool { return f.kind == Tensor && f.of.DType != dtype.String }

// stand makes a stand-in.
func (g *graph) stand(c *composite) *ir.Value {
	v := &ir.Value{Name: g.build.Source}
	if c.kind == Tensor {
		v.Type = ir.Type{DType: dtype.String, Shape: c.parts[0].Type.Shape}
	}
	if g.composites == nil {
		g.composites = map[*ir.Value]*composite{}
	}
	g.composites[v] = c
	return v
}

// formOf is a value's form.
func (g *graph) formOf(v *ir.Value) form {
	if c := g.composites[v]; c != nil {
		return c.form
	}
	return form{of: v.Type}
}

// texts is the stand-in of texts.
func (g *graph) texts(t ops.Text) *ir.Value {
	return g.from(form{of: ir.Type{DType: dtype.String}}, []*ir.Value{t.Spans, t.Pool})
}

// isTexts reports whether a value is texts.
func (g *graph) isTexts(v *ir.Value) bool {
	c := g.composites[v]
	return c != nil && c.kind == Tensor
}

// text is the parts of texts.
func (g *graph) text(v *ir.Value) ops.Text {
	parts := g.composites[v].parts
	return ops.Text{Spans: parts[0], Pool: parts[1]}
}

// constant is a constant of the model.
func (g *graph) constant(name string, t *tensor.Tensor) *ir.Value {
	if t.DType() != dtype.String {
		return g.build.Constant(name, t)
	}
	spans, pool, err := tensor.PackTexts(tensor.New, t)
	if err != nil {
		g.build.Fail(err)
	}
	return g.texts(ops.Text{Spans: g.build.Constant(name+".spans", spans[0]), Pool: g.build.Constant(name+".pool", pool)})
}

// from is the value of a form that the parts hold.
func (g *graph) from(f form, parts []*ir.Value) *ir.Value {
	if f.simple() {
		return parts[0]
	}
	if f.kind.plain() == Tensor {
		f.of.Shape = parts[f.kind/Optional].Type.Shape
	}
	return g.stand(&composite{form: f, parts: parts})
}

// partNames are what a form's parts are called, behind the value's own name.
func (f form) partNames() []string {
	var names []string
	if f.kind >= Optional {
		names = append(names, ".has")
	}
	switch text := f.of.DType == dtype.String; {
	case f.kind.plain() == Sequence && text:
		return append(names, ".elements", ".extents", ".pool")
	case f.kind.plain() == Sequence:
		return append(names, ".elements", ".extents")
	case text:
		return append(names, ".spans", ".pool")
	case f.kind == Optional:
		return append(names, ".value")
	}
	return []string{""}
}

// common is a form that two values can both take.
func (g *graph) common(a, b form) form {
	f := a
	f.kind |= b.kind
	switch {
	case a.simple() && b.simple():
	case a.of.DType == dtype.Invalid:
		f.of, f.kind = b.of, Optional|b.kind
	case b.of.DType == dtype.Invalid:
		f.kind = Optional | a.kind
	case a.of.DType != b.of.DType || a.kind.plain() != b.kind.plain():
		g.build.Failf("%s of %s here and %s of %s there", a, a.of.DType, b, b.of.DType)
	case a.of.Shape == nil && f.kind.plain() == Tensor:
		f.of.Shape = b.of.Shape
	}
	if f.kind.plain() == Sequence && !a.vacant && !b.vacant && a.of.DType != dtype.Invalid && b.of.DType != dtype.Invalid {
		f.of.Shape = alike(a.of.Shape, b.of.Shape)
	} else if a.vacant || a.of.DType == dtype.Invalid {
		f.of.Shape = b.of.Shape
	}
	f.vacant = a.vacant && b.vacant
	return g.lasting(f)
}

// lasting is a form without extents of a sequence's tensors that data decide: they may not be the same, or not known, where the form is.
func (g *graph) lasting(f form) form {
	f.of.Shape = slices.Clone(f.of.Shape)
	for i, e := range f.of.Shape {
		if f.kind.plain() == Sequence && slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { _, decided := g.build.Module.Limits[name]; return decided }) {
			f.of.Shape[i] = differing
		}
	}
	return f
}

// same reports whether two forms are one.
func (f form) same(o form) bool {
	return f.kind == o.kind && f.of.DType == o.of.DType && f.vacant == o.vacant && (f.kind.plain() == Tensor ||
		(f.of.Shape == nil) == (o.of.Shape == nil) && slices.EqualFunc(f.of.Shape, o.of.Shape, sym.Expr.Equal))
}

// alike is what is known of tensors of one shape or the other.
func alike(a, b []sym.Expr) []sym.Expr {
	if a == nil || b == nil || len(a) != len(b) {
		return nil
	}
	out := make([]sym.Expr, len(a))
	for i := range a {
		if out[i] = a[i]; !a[i].Equal(b[i]) {
			out[i] = differing
		}
	}
	return out
}

// as is the parts that hold v in a form that common gave.
func (g *graph) as(v *ir.Value, f form) []*ir.Value {
	c := g.composites[v]
	if f.kind < Optional {
		switch {
		case c == nil:
			return []*ir.Value{v}
		case c.kind >= Optional:
			return g.as(g.get(v), f)
		case c.listed:
			return g.packed(c)
		}
		return c.parts
	}
	switch {
	case c == nil || c.kind < Optional:
		f.kind = f.kind.plain()
		return append([]*ir.Value{g.truth(true)}, g.as(v, f)...)
	case c.absent:
		return append([]*ir.Value{c.parts[0]}, g.nothing(f)...)
	}
	return c.parts
}

// within is the graph as rules see it that build elsewhere.
func (g *graph) within(in *ir.Builder) *graph {
	inner := *g
	inner.build = in
	return &inner
}

// flat is the parts of values in the forms given.
func (g *graph) flat(values []*ir.Value, forms []form) (parts []*ir.Value) {
	for i, v := range values {
		parts = append(parts, g.as(v, forms[i])...)
	}
	return parts
}

// whole is the values that parts hold, each in the form given.
func (g *graph) whole(forms []form, parts []*ir.Value) (values []*ir.Value) {
	for _, f := range forms {
		n := len(f.partNames())
		values, parts = append(values, g.from(f, parts[:n:n])), parts[n:]
	}
	return append(values, parts...)
}

// truth is a bool constant.
func (g *graph) truth(yes bool) *ir.Value {
	t := tensor.Must(tensor.New(dtype.Bool))
	if yes {
		t.SetInt(0, 1)
	}
	return g.build.Constant("has", t)
}

// nothing is the parts, but for has, of an optional that has nothing.
func (g *graph) nothing(f form) []*ir.Value {
	dt := f.of.DType
	text := dt == dtype.String
	if text {
		dt = dtype.I64
	}
	zeros := func(dt dtype.DType, shape ...int64) *ir.Value {
		t, err := tensor.New(dt, shape...)
		if err != nil {
			g.build.Fail(err)
		}
		return g.build.Constant("nothing", t)
	}
	var parts []*ir.Value
	if f.kind.plain() == Sequence {
		parts = append(parts, zeros(dt, 0), zeros(dtype.I64, 0, extentsWidth))
	} else {
		parts = append(parts, zeros(dt, make([]int64, len(f.of.Shape))...))
	}
	if text {
		parts = append(parts, zeros(dtype.U8, 0))
	}
	return parts
}

// get is what an optional has; a run in which it has nothing ends there.
func (g *graph) get(v *ir.Value) *ir.Value {
	c := g.composites[v]
	if c == nil || c.kind < Optional {
		return v
	}
	if c.absent {
		g.build.Failf("the optional has nothing to get")
	}
	if has := c.parts[0]; has.Const == nil {
		// A value made here is bound here: in a branch that is not taken, nothing is asked for.
		here := ops.Cast(g.build, has, dtype.I64)
		known, err := g.build.Elements(here, g.build.Source, 0, 1)
		if err != nil {
			g.build.Fail(err)
		}
		g.require(g.build.Source, "OptionalGetElement", sym.Cond{A: known[0], Rel: sym.EQ, B: sym.Const(1)}, "the optional has something")
	} else if has.Const.Int(0) == 0 {
		g.build.Failf("the optional has nothing to get")
	}
	f := c.form
	f.kind = f.kind.plain()
	return g.from(f, c.parts[1:])
}

// require states a condition of the node under conversion: what ir.Inference.Require does, for an operator that a rule takes apart.
func (g *graph) require(source, op string, cond sym.Cond, why string) {
	if err := g.build.RequireOf(source, op, 0, cond, why); err != nil {
		g.build.Fail(err)
	}
}

// textInput is the parts of the i-th input, which must be texts.
func (c *call) textInput(i int) ops.Text {
	if i >= len(c.In) || c.In[i] == nil {
		c.Fault("input %d is missing", i)
	}
	if !c.graph.isTexts(c.In[i]) {
		c.Fault("input %d is %s, it must be texts", i, c.graph.formOf(c.In[i]))
	}
	return c.graph.text(c.In[i])
}

// isTexts reports whether the i-th input is texts.
func (c *call) isTexts(i int) bool { return i < len(c.In) && c.graph.isTexts(c.In[i]) }

// apply converts a node by its rule. Texts are moved as their spans, over one pool.
func (g *graph) apply(c *call, convert rule) []*ir.Value {
	if n, ok := g.model.rules.integers[ruleName(c.Node)]; ok && c.Version >= n.since {
		for i := n.first; i <= n.last && i < len(c.In); i++ {
			if v := c.In[i]; v != nil && !v.Type.DType.IsInt() && !g.isTexts(v) {
				c.Fault("input %d is of %s, and must be integers", i, v.Type.DType)
			}
		}
	}
	if !slices.ContainsFunc(c.In, g.isTexts) {
		return convert(c)
	}
	name := ruleName(c.Node)
	if r := g.model.rules.texts[name]; r != nil {
		return r(c)
	}
	row, moved := g.model.rules.moves[name]
	if !moved {
		return convert(c)
	}
	var places []int
	var list []ops.Text
	for i, v := range c.In {
		may := row.in == nil || slices.Contains(row.in, i)
		switch {
		case v == nil || !may && !g.isTexts(v):
		case !may:
			c.Fault("input %d is texts", i)
		case !g.isTexts(v):
			c.Fault("input %d is %s where others are texts", i, g.formOf(v))
		default:
			places, list = append(places, i), append(list, g.text(v))
		}
	}
	spans, pool := g.pooled(list)
	c.In = slices.Clone(c.In)
	for k, i := range places {
		c.In[i] = spans[k]
	}
	out := slices.Clone(convert(c))
	for i, v := range out {
		if v != nil && (row.out == nil || slices.Contains(row.out, i)) {
			out[i] = g.texts(ops.Text{Spans: v, Pool: pool})
		}
	}
	return out
}

// pooled puts texts over one pool: their own, one behind the other, with the spans moved on accordingly.
func (g *graph) pooled(list []ops.Text) (spans []*ir.Value, pool *ir.Value) {
	var pools []*ir.Value
	var begins []sym.Expr
	total := sym.Const(0)
	for _, t := range list {
		at := slices.Index(pools, t.Pool)
		if at < 0 {
			at = len(pools)
			pools, begins = append(pools, t.Pool), append(begins, total)
			total = total.Add(t.Pool.Type.Shape[0])
		}
		spans = append(spans, g.movedOn(t.Spans, begins[at]))
	}
	switch len(pools) {
	case 0:
		return nil, g.build.Constant("pool", tensor.Must(tensor.New(dtype.U8, 0)))
	case 1:
		return spans, pools[0]
	}
	g.require(g.build.Source, "", sym.Cond{A: total, Rel: sym.LE, B: sym.Const(ops.TextLimit)}, "all texts together have so many bytes")
	return spans, ops.Concat(g.build, 0, pools...)
}

// movedOn moves spans on by so many bytes.
func (g *graph) movedOn(spans *ir.Value, by sym.Expr) *ir.Value {
	if v, ok := by.Const(); ok && v == 0 {
		return spans
	}
	bytes := ops.Integers(g.build, ir.Type{DType: dtype.I64}, []sym.Expr{by})
	return ops.Binary(g.build, ops.Add, spans, ops.Binary(g.build, ops.Mul, bytes, g.build.Constant("c", tensor.Scalar[int64](1<<32))))
}

// needsTensor refuses a value that is not one tensor of numbers as the i-th input.
func (c *call) needsTensor(i int) {
	if f := c.graph.composites[c.In[i]]; f != nil {
		c.Fail(diag.Unsupportedf("input %d is %s", i, f.form).AtNode(c.Source, c.Node.OpType))
	}
}
