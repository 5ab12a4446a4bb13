package ir

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/literal"
	"github.com/weirml/weir/internal/text"
)

// Verify checks that a module is well formed: each value is produced once, before its uses and in a block that is
// visible there; names are unique in their function; dimensions are declared; constants have contents of their type;
// nodes' types agree with their operators' shape rules; known elements agree with the type. Errors are of kind ErrInput
// and name the node.
func Verify(m *Module) error {
	_, err := verify(m)
	return err
}

// Complete verifies a module that was written by hand, and adds the conditions of its shape rules that it does not
// state.
func Complete(m *Module) error {
	v, err := verify(m)
	if err != nil {
		return err
	}
	for i, list := range [][]Require{v.scratch.Requires[len(m.Requires):], v.scratch.Proved} {
		for _, r := range list {
			if v.declared("", r.Cond.A, r.Cond.B) != nil {
				continue // it names dimensions that the rule made again
			}
			if i == 0 {
				m.Requires = append(m.Requires, r)
			} else {
				m.Proved = append(m.Proved, r)
			}
		}
	}
	return nil
}

// verify verifies a module and returns the verifier with its inferred conditions.
func verify(m *Module) (*verifier, error) {
	v := &verifier{module: m, checked: map[sym.Name]bool{}}
	return v, v.all()
}

// all checks the header and all functions.
func (v *verifier) all() error {
	m := v.module
	if err := v.header(); err != nil {
		return err
	}
	functions, main := map[string]bool{}, false
	for _, f := range m.Funcs {
		if functions[f.Name] {
			return diag.Inputf("there are two functions %s", text.GlobalName(f.Name))
		}
		functions[f.Name] = true
		main = main || f == m.Main
		if err := v.function(f); err != nil {
			return err
		}
	}
	if !main {
		return diag.Inputf("the main function is not among the module's")
	}
	return nil
}

type verifier struct {
	module  *Module
	scratch *Module           // the shape rules' module, to which they add dimensions and conditions
	checked map[sym.Name]bool // dimensions already found to be declared
	names   map[string]bool   // of the function's values
}

// mostElements is an upper bound of a tensor's elements; times the bytes of an element, it fits 64 bits.
const mostElements = 1 << 58

// header checks dimensions, limits and conditions.
func (v *verifier) header() error {
	m := v.module
	if m.Dims == nil {
		m.Dims = sym.NewDims()
	}
	for _, name := range m.Dims.Names() {
		if r, _ := m.Dims.Get(name); r.Min > r.Max {
			return diag.Inputf("the range %d to %d is empty", r.Min, r.Max).AtDim(name.Text())
		} else if r.Min > mostElements {
			return diag.Inputf("it is at least %d, and no tensor has more than %d elements", r.Min, int64(mostElements)).
				AtDim(name.Text())
		}
	}
	for name, limit := range m.Limits {
		if _, ok := m.Dims.Get(name); !ok {
			return diag.Inputf("a limit of a dimension that is not declared").AtDim(name.Text())
		}
		for _, other := range limit.Vars() {
			if own, decided := m.Limits[other]; decided && !sym.IsUnlimited(own) {
				return diag.Inputf("the limit %s depends on a dimension that data decide", limit).AtDim(name.Text())
			}
		}
		if err := v.declared("a limit", limit); err != nil {
			return err
		}
	}
	for _, c := range m.Choices {
		if err := c.Check(sym.Limited(m.Limits)); err != nil {
			return diag.Inputf("%v", err)
		}
		for _, values := range c.Cases {
			if err := v.declared("a choice", values...); err != nil {
				return err
			}
		}
	}
	for _, list := range [][]Require{m.Requires, m.Proved} {
		for _, r := range list {
			if err := v.declared("a condition", r.Cond.A, r.Cond.B); err != nil {
				return err
			}
		}
	}
	v.scratch = &Module{Name: m.Name, Dims: m.Dims.Clone(), Limits: map[sym.Name]sym.Expr{},
		Requires: append([]Require{}, m.Requires...), Choices: slices.Clone(m.Choices), Main: m.Main, Funcs: m.Funcs}
	for name, limit := range m.Limits {
		v.scratch.Limits[name] = limit
	}
	return nil
}

// declared returns an error, which begins with what, if an expression has a dimension that is not declared.
func (v *verifier) declared(what string, list ...sym.Expr) error {
	for _, e := range list {
		if _, constant := e.Const(); constant {
			continue
		}
		for _, name := range e.Vars() {
			if v.checked[name] {
				continue
			}
			if _, ok := v.module.Dims.Get(name); !ok {
				return diag.Inputf("%s names a dimension that is not declared", what).AtDim(name.Text())
			}
			v.checked[name] = true
		}
	}
	return nil
}

// function checks a function's body and states.
func (v *verifier) function(f *Func) error {
	if f.Body == nil {
		return diag.Inputf("function %s has no body", text.GlobalName(f.Name))
	}
	v.names = map[string]bool{}
	if err := v.block(f.Body, map[*Value]bool{}); err != nil {
		return err
	}
	ins, outs := setOf(f.Body.Params), map[int]bool{}
	for _, s := range f.States {
		if !ins[s.In] || s.Out < 0 || s.Out >= len(f.Body.Results) || outs[s.Out] {
			return diag.Inputf("a state of %s pairs an input, once, with a result, once", text.GlobalName(f.Name))
		}
		delete(ins, s.In)
		outs[s.Out] = true
		if out := f.Body.Results[s.Out]; s.In.Type.String() != out.Type.String() {
			return diag.Inputf("state %s is %s and becomes %s", text.LocalName(s.In.Name), s.In.Type, out.Type)
		}
		if s.In.Bound {
			return diag.Inputf("a state must not give dimensions their values, and state %s does", text.LocalName(s.In.Name)).
				AtTensor(s.In.Name)
		}
	}
	if len(f.States) > 0 && f != v.module.Main {
		return diag.Inputf("function %s has states; only main may have them", text.GlobalName(f.Name))
	}
	return nil
}

// setOf returns a list as a set.
func setOf(list []*Value) map[*Value]bool {
	set := map[*Value]bool{}
	for _, v := range list {
		set[v] = true
	}
	return set
}

// block checks a block. seen holds the visible outer values, and is unchanged afterwards.
func (v *verifier) block(b *Block, seen map[*Value]bool) error {
	if b == nil {
		return diag.Inputf("a region without a block")
	}
	var own []*Value
	defer func() {
		for _, x := range own {
			delete(seen, x)
		}
	}()
	define := func(x *Value, from *Node, index int) error {
		if x == nil {
			return diag.Inputf("a definition without a value")
		}
		if seen[x] || v.names[x.Name] {
			return diag.Inputf("%s is defined twice", text.LocalName(x.Name)).AtTensor(x.Name)
		}
		if x.Node != from || x.Index != index && from != nil {
			return diag.Inputf("%s does not name the node that produces it", text.LocalName(x.Name)).AtTensor(x.Name)
		}
		seen[x], v.names[x.Name] = true, true
		own = append(own, x)
		return v.value(x)
	}
	for _, x := range b.Params {
		if err := define(x, nil, 0); err != nil {
			return err
		}
		if x.Const != nil {
			return diag.Inputf("parameter %s is a constant", text.LocalName(x.Name)).AtTensor(x.Name)
		}
	}
	for _, x := range b.Consts {
		if err := define(x, nil, 0); err != nil {
			return err
		}
		if err := v.constant(x); err != nil {
			return err
		}
	}
	for _, n := range b.Nodes {
		if err := v.node(n, seen); err != nil {
			return at(err, n)
		}
		for i, x := range n.Outputs {
			if err := define(x, n, i); err != nil {
				return at(err, n)
			}
		}
	}
	for _, x := range b.Results {
		if !seen[x] {
			return diag.Inputf("a result, %s, that is not computed", nameOf(x))
		}
	}
	return nil
}

// nameOf returns a value's name for an error; "none" for nil.
func nameOf(x *Value) string {
	if x == nil {
		return "none"
	}
	return text.LocalName(x.Name)
}

// at adds the node and its line to an error that names none.
func at(err error, n *Node) error {
	e, ok := err.(*diag.Error)
	if !ok || e.Node != "" || e.Op != "" || n.Op == nil {
		return err
	}
	return inLine(e.AtNode(n.Source, n.Op.Name()), n.Line)
}

// inLine adds a line of the text to an error; 0 adds none.
func inLine(err error, line int) error {
	e, ok := err.(*diag.Error)
	if !ok || line == 0 {
		return err
	}
	copied := *e
	copied.Detail = fmt.Sprintf("line %d: %s", line, e.Detail)
	return &copied
}

// value checks a definition's type and known elements.
func (v *verifier) value(x *Value) error {
	fault := func(format string, args ...any) error {
		return diag.Inputf("%s: %s: %s", text.LocalName(x.Name), x.Type, fmt.Sprintf(format, args...)).AtTensor(x.Name)
	}
	t := x.Type
	if t.DType == dtype.Invalid || t.DType > dtype.String {
		return fault("no element type")
	}
	if len(t.Shape) > tensor.MaxRank {
		return fault("more than %d axes", tensor.MaxRank)
	}
	for _, e := range t.Shape {
		if size, ok := e.Const(); ok && size < 0 {
			return fault("an extent below 0")
		}
	}
	if err := v.declared("the type of "+text.LocalName(x.Name), t.Shape...); err != nil {
		return err
	}
	if x.Known == nil {
		if x.Bound {
			return fault("bound to dimensions that are not named")
		}
		return nil
	}
	if !t.DType.IsInt() && t.DType != dtype.Bool || len(x.Known) > MaxKnown {
		return fault("%d elements are known", len(x.Known))
	}
	if count := sym.Product(t.Shape...); v.module.Dims.EQ(count, sym.Const(int64(len(x.Known)))) == sym.No {
		return fault("%d elements are known of %s", len(x.Known), count)
	}
	return v.declared("what is known of "+text.LocalName(x.Name), x.Known...)
}

// constant checks that a constant has contents of its type.
func (v *verifier) constant(x *Value) error {
	if x.Const == nil {
		return diag.Inputf("constant %s has no contents", text.LocalName(x.Name)).AtTensor(x.Name).
			WithFix("weir dump --weights writes them into the text")
	}
	ok := x.Const.DType() == x.Type.DType && x.Const.Rank() == len(x.Type.Shape)
	for axis, e := range x.Type.Shape {
		size, fixed := e.Const()
		ok = ok && fixed && size == x.Const.Shape()[axis]
	}
	if !ok || x.Bound || x.Known != nil && int64(len(x.Known)) != x.Const.Len() {
		return diag.Inputf("constant %s is %s and holds %s", text.LocalName(x.Name), x.Type, x.Const).AtTensor(x.Name)
	}
	for i, e := range x.Known {
		if k, fixed := e.Const(); !fixed || k != x.Const.Int(int64(i)) {
			return diag.Inputf("element %d of constant %s is known as %s", i, text.LocalName(x.Name), e).AtTensor(x.Name)
		}
	}
	return nil
}

// node checks a node's inputs, attributes and regions, and its outputs against the shape rule.
func (v *verifier) node(n *Node, seen map[*Value]bool) error {
	if n.Op == nil {
		return diag.Inputf("a node without an operator")
	}
	for _, x := range n.Inputs {
		if x != nil && !seen[x] {
			return diag.Inputf("%s is used before it is computed, or outside its block", text.LocalName(x.Name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.Attrs)) {
		a := n.Attrs[name]
		if !literal.Legal(a) {
			return diag.Inputf("attribute %s is a %T", name, a)
		}
		list := n.Attrs.Exprs(name)
		if e, ok := a.(sym.Expr); ok {
			list = []sym.Expr{e}
		}
		if err := v.declared("attribute "+name, list...); err != nil {
			return err
		}
	}
	for _, r := range n.Regions {
		if err := v.region(r, seen); err != nil {
			return err
		}
	}
	for _, x := range n.Outputs {
		if x == nil {
			return diag.Inputf("a missing output")
		}
	}
	return v.infer(n)
}

// region checks a block that a run may leave out: the ranges that its conditions narrow are its own.
func (v *verifier) region(r *Block, seen map[*Value]bool) error {
	dims, outer := v.scratch.Dims, v.scratch.Dims.Clone()
	err := v.block(r, seen)
	for _, name := range outer.Names() {
		was, _ := outer.Get(name)
		dims.Set(name, was)
	}
	return err
}

// infer applies the shape rule to a copy of the node and compares the results. New dimensions that the rule makes are
// not compared.
func (v *verifier) infer(n *Node) (err error) {
	defer func() {
		// Rules rely on the numbers of inputs and regions that their constructors give.
		if r := recover(); r != nil {
			err = diag.Inputf("%d inputs, %d attributes and %d regions do not fit %s (%v)", len(n.Inputs), len(n.Attrs),
				len(n.Regions), n.Op.Name(), r)
		}
	}()
	again := &Node{Op: n.Op, Attrs: Attrs{}, Regions: n.Regions, Source: n.Source, Line: n.Line}
	for name, a := range n.Attrs {
		again.Attrs[name] = a
	}
	for _, x := range n.Inputs {
		if x != nil {
			copied := *x // a rule may bind dimensions to its inputs' elements
			x = &copied
		}
		again.Inputs = append(again.Inputs, x)
	}
	if err := n.Op.Infer(&Inference{Module: v.scratch, fresh: map[string]int{}, names: map[string]int{}},
		again); err != nil {
		return err
	}
	if len(again.Outputs) != len(n.Outputs) {
		return diag.Inputf("%d outputs, the shape rule makes %d", len(n.Outputs), len(again.Outputs))
	}
	for i, x := range n.Outputs {
		y := again.Outputs[i]
		same := x.Type.DType == y.Type.DType && v.agree(x.Type.Shape, y.Type.Shape)
		if !same {
			return diag.Inputf("%s is %s, the shape rule makes it %s", text.LocalName(x.Name), x.Type, y.Type)
		}
		if x.Known != nil && y.Known != nil && v.differ(x.Known, y.Known) {
			return diag.Inputf("the known elements of %s are %s, the shape rule makes them %s", text.LocalName(x.Name),
				literal.Index(x.Known), literal.Index(y.Known))
		}
	}
	return nil
}

// agree reports whether two lists are proved to be equal, except for data dimensions, of which a rule makes new ones
// each time.
func (v *verifier) agree(a, b []sym.Expr) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Equal(b[i]) {
			continue
		}
		switch v.scratch.Dims.EQ(a[i], b[i]) {
		case sym.No:
			return false
		case sym.Unknown:
			// Pass extents may have simplified one of them. Simplify takes long, so it is the last resort.
			if !v.decided(a[i]) && !v.decided(b[i]) && !v.scratch.Dims.Simplify(a[i]).Equal(v.scratch.Dims.Simplify(b[i])) {
				return false
			}
		}
	}
	return true
}

// differ reports whether two lists of known elements differ for some of the bindings that are tried. Elements have many
// forms, and equality of two of them may be hard to prove; no access to memory relies on them.
func (v *verifier) differ(a, b []sym.Expr) bool {
	if len(a) != len(b) {
		return true
	}
	for i := range a {
		if !a[i].Equal(b[i]) && !v.decided(a[i]) && !v.decided(b[i]) && v.scratch.Dims.Differ(a[i], b[i]) {
			return true
		}
	}
	return false
}

// decided reports whether an expression names a dimension that data decide.
func (v *verifier) decided(e sym.Expr) bool {
	for _, name := range e.Vars() {
		if _, ok := v.scratch.Limits[name]; ok {
			return true
		}
	}
	return false
}
