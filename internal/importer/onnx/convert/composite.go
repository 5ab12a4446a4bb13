package convert

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// A value that is not one tensor of numbers is represented by several tensors, its components. ir knows only the
// components; while a model is converted, a stand-in, a value that belongs to no block, represents them, and the built
// model's Signature says which parameters and results are the components of which input or output. The components, in
// order:
//
//	strings    spans i64[shape], each offset<<32 | length, into pool u8[bytes]
//	sequence   elements T[total], end to end; extents i64[length, 8], the rank and the extents of each tensor.
//	            In a sequence of strings, the elements are spans, and pool follows.
//	optional   has bool[], and the components of its value, which are empty, or zeros, if it has no value
//
// A sequence whose tensors are known one by one is a list of them until its components are needed.

// Kind is the kind of a model's value.
type Kind uint8

// The kinds. A tensor has numbers or strings.
const (
	Tensor Kind = iota
	Sequence
	Optional
	OptionalSequence
)

// Unwrapped returns the kind of an optional's value; other kinds stay as they are.
func (k Kind) Unwrapped() Kind { return k &^ Optional }

// Form describes a value before its component tensors exist.
type Form struct {
	Kind Kind
	// Of is the type of the tensor, or of the tensors of a sequence: String for strings. Of a sequence, Shape is nil if
	// the rank of its tensors is not known, and extents that may differ are Differing. Of an optional that never has a
	// value, the type may be unknown (Invalid).
	Of ir.Type
	// Vacant says that a sequence has no tensors: its type's shape means nothing.
	Vacant bool
	// AnyRank says that a run decides the rank of a tensor, whose components are those of a sequence of it alone.
	AnyRank bool
}

// Differing is the extent of an axis that differs among a sequence's tensors.
var Differing = sym.Var(sym.Hidden("?"))

// Composite is the value that a stand-in represents.
type Composite struct {
	Form
	Components []*ir.Value // nil for a list; has alone for an absent optional
	List       []*ir.Value // the tensors of a sequence that is a list
	Listed     bool
	Absent     bool // it never has a value
}

// String describes the form, for errors.
func (f Form) String() string {
	names := [...]string{Tensor: "a tensor", Sequence: "a sequence", Optional: "an optional",
		OptionalSequence: "an optional sequence"}
	if f.Kind == Tensor && f.Of.DType == dtype.String {
		return "strings"
	}
	return names[f.Kind]
}

// simple reports whether a value of the form is one tensor of numbers.
func (f Form) simple() bool { return f.Kind == Tensor && f.Of.DType != dtype.String && !f.AnyRank }

// Stand returns a stand-in for a composite.
func (g *Scope) Stand(c *Composite) *ir.Value {
	v := &ir.Value{Name: g.Build.Source}
	if c.AnyRank {
		v.Type = ir.Type{DType: c.Of.DType}
	} else if c.Kind == Tensor {
		v.Type = ir.Type{DType: dtype.String, Shape: c.Components[0].Type.Shape}
	}
	if g.Composites == nil {
		g.Composites = map[*ir.Value]*Composite{}
	}
	g.Composites[v] = c
	return v
}

// FormOf returns the form of a value.
func (g *Scope) FormOf(v *ir.Value) Form {
	if c := g.Composites[v]; c != nil {
		return c.Form
	}
	return Form{Of: v.Type}
}

// StringValue returns the stand-in for a tensor of strings.
func (g *Scope) StringValue(t ops.Text) *ir.Value {
	return g.From(Form{Of: ir.Type{DType: dtype.String}}, []*ir.Value{t.Spans, t.Pool})
}

// IsStrings reports whether a value is a tensor of strings.
func (g *Scope) IsStrings(v *ir.Value) bool {
	c := g.Composites[v]
	return c != nil && c.Kind == Tensor && c.Of.DType == dtype.String && !c.AnyRank
}

// StringComponents returns the spans and the pool of a tensor of strings.
func (g *Scope) StringComponents(v *ir.Value) ops.Text {
	components := g.Composites[v].Components
	return ops.Text{Spans: components[0], Pool: components[1]}
}

// Constant returns a constant of the model: a value, or the stand-in for strings.
func (g *Scope) Constant(name string, t *tensor.Tensor) *ir.Value {
	if t.DType() != dtype.String {
		return g.Build.Constant(name, t)
	}
	spans, pool, err := tensor.PackStrings(tensor.New, t)
	if err != nil {
		g.Build.Fail(err)
	}
	return g.StringValue(ops.Text{Spans: g.Build.Constant(name+".spans", spans[0]),
		Pool: g.Build.Constant(name+".pool", pool)})
}

// From returns the value of a form with the given components.
func (g *Scope) From(f Form, components []*ir.Value) *ir.Value {
	if f.simple() {
		return components[0]
	}
	if f.Kind.Unwrapped() == Tensor && !f.AnyRank {
		f.Of.Shape = components[f.Kind/Optional].Type.Shape
	}
	return g.Stand(&Composite{Form: f, Components: components})
}

// componentNames returns the suffixes of the components' names, after the value's own name.
func (f Form) componentNames() []string {
	var names []string
	if f.Kind >= Optional {
		names = append(names, ".has")
	}
	switch isString := f.Of.DType == dtype.String; {
	case (f.Kind.Unwrapped() == Sequence || f.AnyRank) && isString:
		return append(names, ".elements", ".extents", ".pool")
	case f.Kind.Unwrapped() == Sequence || f.AnyRank:
		return append(names, ".elements", ".extents")
	case isString:
		return append(names, ".spans", ".pool")
	case f.Kind == Optional:
		return append(names, ".value")
	}
	return []string{""}
}

// common returns a form that two values can both take; it ends the conversion if there is none.
func (g *Scope) common(a, b Form) Form {
	f := a
	f.Kind |= b.Kind
	switch {
	case a.AnyRank || b.AnyRank:
		return Form{Of: ir.Type{DType: a.Of.DType}, AnyRank: true}
	case a.simple() && b.simple():
	case a.Of.DType == dtype.Invalid:
		f.Of, f.Kind = b.Of, Optional|b.Kind
	case b.Of.DType == dtype.Invalid:
		f.Kind = Optional | a.Kind
	case a.Of.DType != b.Of.DType || a.Kind.Unwrapped() != b.Kind.Unwrapped():
		g.Build.Failf("%s of %s here and %s of %s there", a, a.Of.DType, b, b.Of.DType)
	case a.Of.Shape == nil && f.Kind.Unwrapped() == Tensor:
		f.Of.Shape = b.Of.Shape
	}
	if f.Kind.Unwrapped() == Sequence && !a.Vacant && !b.Vacant && a.Of.DType != dtype.Invalid &&
		b.Of.DType != dtype.Invalid {
		f.Of.Shape = Alike(a.Of.Shape, b.Of.Shape)
	} else if a.Vacant || a.Of.DType == dtype.Invalid {
		f.Of.Shape = b.Of.Shape
	}
	f.Vacant = a.Vacant && b.Vacant
	return g.lasting(f)
}

// lasting returns a form without extents of a sequence's tensors that data decide: outside the scope of these
// dimensions they may differ or be unknown.
func (g *Scope) lasting(f Form) Form {
	f.Of.Shape = slices.Clone(f.Of.Shape)
	for i, e := range f.Of.Shape {
		if f.Kind.Unwrapped() == Sequence && slices.ContainsFunc(e.Vars(), func(name sym.Name) bool {
			_, decided := g.Build.Module.Limits[name]
			return decided
		}) {
			f.Of.Shape[i] = Differing
		}
	}
	return f
}

// same reports whether two forms are equal.
func (f Form) same(o Form) bool {
	return f.Kind == o.Kind && f.Of.DType == o.Of.DType && f.Vacant == o.Vacant && (f.Kind.Unwrapped() == Tensor ||
		(f.Of.Shape == nil) == (o.Of.Shape == nil) && slices.EqualFunc(f.Of.Shape, o.Of.Shape, sym.Expr.Equal))
}

// Alike returns the extents that two shapes have in common, with Differing for the others; nil if the ranks differ.
func Alike(a, b []sym.Expr) []sym.Expr {
	if a == nil || b == nil || len(a) != len(b) {
		return nil
	}
	out := make([]sym.Expr, len(a))
	for i := range a {
		if out[i] = a[i]; !a[i].Equal(b[i]) {
			out[i] = Differing
		}
	}
	return out
}

// As returns the components of v in a form that common returned.
func (g *Scope) As(v *ir.Value, f Form) []*ir.Value {
	if f.AnyRank {
		v = g.anyRank(v)
	}
	c := g.Composites[v]
	if f.Kind < Optional {
		switch {
		case c == nil:
			return []*ir.Value{v}
		case c.Kind >= Optional:
			return g.As(g.Get(v), f)
		case c.Listed:
			return g.Packed(c)
		}
		return c.Components
	}
	switch {
	case c == nil || c.Kind < Optional:
		f.Kind = f.Kind.Unwrapped()
		return append([]*ir.Value{g.Truth(true)}, g.As(v, f)...)
	case c.Absent:
		return append([]*ir.Value{c.Components[0]}, g.emptyOptional(f)...)
	}
	return c.Components
}

// within returns the scope for rules that build in another block.
func (g *Scope) within(in *ir.Builder) *Scope {
	inner := *g
	inner.Build = in
	return &inner
}

// flat returns the components of values in the given forms.
func (g *Scope) flat(values []*ir.Value, forms []Form) (components []*ir.Value) {
	for i, v := range values {
		components = append(components, g.As(v, forms[i])...)
	}
	return components
}

// assemble returns the values that have the given components, each in its form; further components stay values.
func (g *Scope) assemble(forms []Form, components []*ir.Value) (values []*ir.Value) {
	for _, f := range forms {
		n := len(f.componentNames())
		values, components = append(values, g.From(f, components[:n:n])), components[n:]
	}
	return append(values, components...)
}

// Truth returns a bool constant.
func (g *Scope) Truth(yes bool) *ir.Value {
	t := tensor.Must(tensor.New(dtype.Bool))
	if yes {
		t.SetInt(0, 1)
	}
	return g.Build.Constant("has", t)
}

// emptyOptional returns the components, without has, of an optional without a value.
func (g *Scope) emptyOptional(f Form) []*ir.Value {
	dt := f.Of.DType
	isString := dt == dtype.String
	if isString {
		dt = dtype.I64
	}
	zeros := func(dt dtype.DType, shape ...int64) *ir.Value {
		t, err := tensor.New(dt, shape...)
		if err != nil {
			g.Build.Fail(err)
		}
		return g.Build.Constant("nothing", t)
	}
	var components []*ir.Value
	if f.Kind.Unwrapped() == Sequence {
		components = append(components, zeros(dt, 0), zeros(dtype.I64, 0, extentsWidth))
	} else {
		components = append(components, zeros(dt, make([]int64, len(f.Of.Shape))...))
	}
	if isString {
		components = append(components, zeros(dtype.U8, 0))
	}
	return components
}

// Get returns the value of an optional. A run in which it has none ends with an error.
func (g *Scope) Get(v *ir.Value) *ir.Value {
	c := g.Composites[v]
	if c == nil || c.Kind < Optional {
		return v
	}
	if c.Absent {
		g.Build.Failf("the optional has nothing to get")
	}
	if has := c.Components[0]; has.Const == nil {
		// The dimension is bound here, where the value is needed, so that nothing is required in a branch that is not
		// taken.
		here := ops.Cast(g.Build, has, dtype.I64)
		known, err := g.Build.Elements(here, g.Build.Source, 0, 1)
		if err != nil {
			g.Build.Fail(err)
		}
		g.require(g.Build.Source, "OptionalGetElement", sym.Cond{A: known[0], Rel: sym.EQ, B: sym.Const(1)},
			"the optional has something")
	} else if has.Const.Int(0) == 0 {
		g.Build.Failf("the optional has nothing to get")
	}
	f := c.Form
	f.Kind = f.Kind.Unwrapped()
	return g.From(f, c.Components[1:])
}

// require adds a condition of the node under conversion, as ir.Inference.Require does for an operator, if a rule
// expands the node.
func (g *Scope) require(source, op string, cond sym.Cond, why string) {
	if err := g.Build.RequireOf(source, op, 0, cond, why); err != nil {
		g.Build.Fail(err)
	}
}

// StringInput returns the spans and the pool of the i-th input, which must be a tensor of strings.
func (c *Call) StringInput(i int) ops.Text {
	if i >= len(c.In) || c.In[i] == nil {
		c.Fault("input %d is missing", i)
	}
	if !c.Scope.IsStrings(c.In[i]) {
		c.Fault("input %d is %s, it must be strings", i, c.Scope.FormOf(c.In[i]))
	}
	return c.Scope.StringComponents(c.In[i])
}

// IsStrings reports whether the i-th input is a tensor of strings.
func (c *Call) IsStrings(i int) bool { return i < len(c.In) && c.Scope.IsStrings(c.In[i]) }

// Apply converts a node by its rule. An operator that only moves elements moves the spans of strings, which share one
// pool.
func (g *Scope) Apply(c *Call, convert Rule) []*ir.Value {
	if n, ok := g.Source.Rules.Integers[ruleName(c.Node)]; ok && c.Version >= n.since {
		for i := n.first; i <= n.last && i < len(c.In); i++ {
			if v := c.In[i]; v != nil && !v.Type.DType.IsInt() && !g.IsStrings(v) {
				c.Fault("input %d is of %s, and must be integers", i, v.Type.DType)
			}
		}
	}
	if !slices.ContainsFunc(c.In, g.IsStrings) {
		return convert(c)
	}
	name := ruleName(c.Node)
	if r := g.Source.Rules.Strings[name]; r != nil {
		return r(c)
	}
	row, moved := g.Source.Rules.Moves[name]
	if !moved {
		return convert(c)
	}
	var indices []int
	var list []ops.Text
	for i, v := range c.In {
		may := row.In == nil || slices.Contains(row.In, i)
		switch {
		case v == nil || !may && !g.IsStrings(v):
		case !may:
			c.Fault("input %d is strings", i)
		case !g.IsStrings(v):
			c.Fault("input %d is %s and others are strings", i, g.FormOf(v))
		default:
			indices, list = append(indices, i), append(list, g.StringComponents(v))
		}
	}
	spans, pool := g.Pooled(list)
	c.In = slices.Clone(c.In)
	for k, i := range indices {
		c.In[i] = spans[k]
	}
	out := slices.Clone(convert(c))
	for i, v := range out {
		if v != nil && (row.Out == nil || slices.Contains(row.Out, i)) {
			out[i] = g.StringValue(ops.Text{Spans: v, Pool: pool})
		}
	}
	return out
}

// Pooled concatenates the pools of tensors of strings, each pool once, and returns their spans, shifted accordingly,
// and the pool.
func (g *Scope) Pooled(list []ops.Text) (spans []*ir.Value, pool *ir.Value) {
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
		return nil, g.Build.Constant("pool", tensor.Must(tensor.New(dtype.U8, 0)))
	case 1:
		return spans, pools[0]
	}
	g.require(g.Build.Source, "", sym.Cond{A: total, Rel: sym.LE, B: sym.Const(ops.TextLimit)},
		"all texts together have so many bytes")
	return spans, ops.Concat(g.Build, 0, pools...)
}

// movedOn adds a number of bytes to the offsets of spans.
func (g *Scope) movedOn(spans *ir.Value, by sym.Expr) *ir.Value {
	if v, ok := by.Const(); ok && v == 0 {
		return spans
	}
	bytes := ops.Integers(g.Build, ir.Type{DType: dtype.I64}, []sym.Expr{by})
	return ops.Binary(g.Build, ops.Add, spans, ops.Binary(g.Build, ops.Mul, bytes,
		g.Build.Constant("c", tensor.Scalar[int64](1<<32))))
}

// needsTensor refuses an i-th input that is not one tensor of numbers.
func (c *Call) needsTensor(i int) {
	if f := c.Scope.Composites[c.In[i]]; f != nil {
		c.Fail(diag.Unsupportedf("input %d is %s", i, f.Form).AtNode(c.Source, c.Node.OpType))
	}
}

// Packed returns the components of a sequence that is a list.
func (g *Scope) Packed(s *Composite) []*ir.Value {
	dt, list := s.Of.DType, s.List
	var pool *ir.Value
	if dt == dtype.String {
		dt = dtype.I64
		list, pool = g.Pooled(g.ListStrings(s.List))
	}
	if dt == dtype.Invalid {
		dt = dtype.F32
	}
	l := ops.Pack(g.Build, dt, list...)
	components := []*ir.Value{l.Elements, l.Extents}
	if pool != nil {
		components = append(components, pool)
	}
	return components
}

// ListStrings returns the spans and pools of tensors of strings.
func (g *Scope) ListStrings(list []*ir.Value) []ops.Text {
	out := make([]ops.Text, len(list))
	for i, v := range list {
		out[i] = g.StringComponents(v)
	}
	return out
}
