package convert

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// The rank of a result may depend on whether an extent is 1, which a run decides: Squeeze without axes removes the axis
// then. The nodes after it are converted for both cases, as those after an If are (fork.go). An output that still has
// two ranks at the end of the model is represented by its elements and its extents.

// Single reports whether an extent is 1, if the ranges of dimensions and the branches around decide it.
func (g *Scope) Single(extent sym.Expr) sym.Truth {
	one := sym.Cond{A: extent, Rel: sym.EQ, B: sym.Const(1)}
	for _, fact := range g.facts {
		switch fact.String() {
		case one.String():
			return sym.Yes
		case sym.Cond{A: extent, Rel: sym.NE, B: sym.Const(1)}.String():
			return sym.No
		}
	}
	return g.Build.Dims().Prove(one)
}

// knowing returns the facts of a branch that is taken if cond is true, or false.
func (g *Scope) knowing(cond *ir.Value, holds bool) []sym.Cond {
	facts := slices.Clone(g.facts)
	if fact, ok := comparison(cond, holds); ok {
		facts = append(facts, fact)
	}
	return facts
}

// squeezed returns the choice whether an axis of Squeeze's operand, which names no axes, has one element; nil if it is
// known of all axes.
func (c *Call) squeezed() *choice {
	x := c.Optional(0)
	if x == nil || c.Attributes["axes"] != nil || c.Optional(1) != nil || len(c.Node.Output) != 1 {
		return nil
	}
	at := slices.IndexFunc(x.Type.Shape, func(e sym.Expr) bool { return c.Scope.Single(e) == sym.Unknown })
	if f := c.Scope.FormOf(x); at < 0 || f.Kind != Tensor || f.AnyRank {
		return nil
	}
	a := c.Scope.Attempt
	if a.sized = true; !a.narrow && len(a.asked) > 0 {
		a.narrow = true
		c.again()
	}
	forks, path := a.forks, c.Scope.nodePath()
	if _, known := forks[path]; !known {
		forks[path] = fork{only: -1, within: true}
	}
	again := func(name string) *wire.GraphProto {
		return &wire.GraphProto{Name: name, Node: []*wire.NodeProto{c.Node},
			Output: []*wire.ValueInfoProto{{Name: c.Node.Output[0]}}}
	}
	extent := x.Type.Shape[at]
	return &choice{c, ops.Binary(c.Builder, ops.Eq, c.Integer(extent), c.Number(1)),
		[2]*wire.GraphProto{again("more"), again("one")}, false,
		[2]string{extent.String() + " other than 1", extent.String() + " = 1"}}
}

// follows reports whether a condition holds whenever fact does.
func (g *Scope) follows(cond, fact sym.Cond) bool {
	if cond.String() == fact.String() {
		return true
	}
	bind, ok := binding(fact)
	return ok && g.Build.Dims().Prove(sym.Cond{A: cond.A.Subst(bind), Rel: cond.Rel, B: cond.B.Subst(bind)}) == sym.Yes
}

// fixes returns the dimension to which a condition gives a value; ok is false if it is of another kind.
func fixes(c sym.Cond) (name sym.Name, value int64, ok bool) {
	if c.Rel != sym.EQ {
		return name, 0, false
	}
	a, b := c.A, c.B
	if _, is := a.Const(); is {
		a, b = b, a
	}
	name, alone := a.Name()
	value, constant := b.Const()
	return name, value, alone && constant
}

// binding returns the substitution of the dimension to which a condition gives a value.
func binding(c sym.Cond) (bind func(name sym.Name) (sym.Expr, bool), ok bool) {
	of, value, ok := fixes(c)
	return func(name sym.Name) (sym.Expr, bool) { return sym.Const(value), name == of }, ok
}

// reshaped gives the results of the branch the shapes of the other branch's results if they are equal by the fact that
// holds in this branch: then the choice has the other branch's formulas.
func (s *side) reshaped(others []*ir.Value, fact sym.Cond) {
	bind, ok := binding(fact)
	if !ok {
		return
	}
	for k, v := range s.block.Results {
		shape := others[k].Type.Shape
		if !slices.EqualFunc(v.Type.Shape, shape, sym.Expr.Equal) &&
			slices.EqualFunc(v.Type.Shape, shape, func(a, b sym.Expr) bool { return a.Subst(bind).Equal(b.Subst(bind)) }) {
			s.block.Results[k] = ops.Reshape(s.Build, v, shape...)
		}
	}
}

// anyRank returns a tensor as one whose rank a run decides.
func (g *Scope) anyRank(v *ir.Value) *ir.Value {
	f := g.FormOf(v)
	if f.AnyRank {
		return v
	}
	list, pool := []*ir.Value{v}, (*ir.Value)(nil)
	if f.Of.DType == dtype.String {
		t := g.StringComponents(v)
		list[0], pool = t.Spans, t.Pool
	}
	l := ops.Pack(g.Build, list[0].Type.DType, list...)
	components := []*ir.Value{l.Elements, l.Extents}
	if pool != nil {
		components = append(components, pool)
	}
	return g.Stand(&Composite{Form: Form{Of: ir.Type{DType: f.Of.DType}, AnyRank: true}, Components: components})
}
