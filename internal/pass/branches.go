package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Branches replaces an If by one of its branches if its condition is a constant, or proved true or false for every
// value of the dimensions. If the branches differ in shape, the dimensions that the If decides become the extents of
// the branch taken.
func Branches(m *ir.Module) error { return branches(m, nil) }

// Possible is Branches for an If of which one branch requires a condition that no value of the dimensions, in their
// present ranges, meets: the other branch replaces the If. The module still requires the If's condition to choose that
// branch. A module is not valid before this pass.
func Possible(m *ir.Module) error {
	truths := map[sym.Name]int64{}
	for _, r := range m.Requires {
		for _, name := range slices.Concat(r.Cond.A.Vars(), r.Cond.B.Vars()) {
			limit, decided := m.Limits[name]
			if most, constant := limit.Const(); !decided || !constant || most != 1 {
				continue
			}
			never := func(truth int64) bool {
				with := func(n sym.Name) (sym.Expr, bool) { return sym.Const(truth), n == name }
				cond := sym.Cond{A: r.Cond.A.Subst(with), Rel: r.Cond.Rel, B: r.Cond.B.Subst(with)}
				return m.Dims.Prove(cond) == sym.No
			}
			if no, yes := never(0), never(1); no != yes {
				truths[name] = map[bool]int64{true: 1}[no]
			}
		}
	}
	if len(truths) == 0 {
		return nil
	}
	return branches(m, truths)
}

// branches is Branches, with the truth values of some dimensions given.
func branches(m *ir.Module, truths map[sym.Name]int64) error {
	t := &taking{dims: m.Dims, truths: truths, decided: map[sym.Name]sym.Expr{}}
	t.copied, t.replaced = map[*ir.Value]*ir.Value{}, map[*ir.Value]*ir.Value{}
	for _, f := range m.Funcs {
		t.block(f.Body)
	}
	if len(t.decided) > 0 {
		t.substitute(m)
	}
	return nil
}

// taking is one application of Branches.
type taking struct {
	dims     *sym.Dims
	truths   map[sym.Name]int64      // dimensions that are truth values, and known
	copied   map[*ir.Value]*ir.Value // by x: the value "x and x", which gives an argument's truth value its name
	replaced map[*ir.Value]*ir.Value
	decided  map[sym.Name]sym.Expr // replacements of dimensions
}

// current returns the value that v has been replaced by, or v.
func (t *taking) current(v *ir.Value) *ir.Value {
	for t.replaced[v] != nil {
		v = t.replaced[v]
	}
	return v
}

// block replaces the Ifs of a block and of its regions.
func (t *taking) block(b *ir.Block) {
	old := b.Nodes
	b.Nodes = make([]*ir.Node, 0, len(old))
	for _, n := range old {
		for i, v := range n.Inputs {
			n.Inputs[i] = t.current(v)
		}
		for _, region := range n.Regions {
			t.block(region)
		}
		if n.Op.Name() == "and" && len(n.Inputs) == 2 && n.Inputs[0] == n.Inputs[1] {
			t.copied[n.Inputs[0]] = n.Outputs[0]
		}
		// Possible comes before Verify, so a node may be malformed.
		if n.Op.Name() == "if" && len(n.Regions) == 2 && len(n.Inputs) == 1 && n.Inputs[0] != nil {
			if holds := t.holds(n.Inputs[0]); holds != sym.Unknown {
				taken := n.Regions[0]
				if holds == sym.No {
					taken = n.Regions[1]
				}
				t.take(b, n, taken)
				continue
			}
		}
		b.Nodes = append(b.Nodes, n)
	}
	for i, v := range b.Results {
		b.Results[i] = t.current(v)
	}
}

// holds reports whether a bool of one element is known to be true or false.
func (t *taking) holds(v *ir.Value) sym.Truth {
	for _, x := range []*ir.Value{v, t.copied[v]} {
		if x == nil || len(x.Known) != 1 {
			continue
		}
		if name, alone := x.Known[0].Name(); alone {
			if truth, decided := t.truths[name]; decided {
				return [...]sym.Truth{sym.No, sym.Yes}[truth]
			}
		}
	}
	switch {
	case v.Const != nil && v.Const.Len() == 1:
		if v.Const.Int(0) != 0 {
			return sym.Yes
		}
		return sym.No
	case v.Bound || len(v.Known) != 1:
		return sym.Unknown
	case t.dims.EQ(v.Known[0], sym.Const(0)) == sym.Yes:
		return sym.No
	case t.dims.EQ(v.Known[0], sym.Const(0)) == sym.No:
		return sym.Yes
	}
	return sym.Unknown
}

// take replaces an If by one of its branches.
func (t *taking) take(b *ir.Block, n *ir.Node, taken *ir.Block) {
	b.Consts = append(b.Consts, taken.Consts...)
	b.Nodes = append(b.Nodes, taken.Nodes...)
	for i, out := range n.Outputs {
		v := taken.Results[i]
		t.replaced[out] = v
		if v.Node != nil && slices.Contains(taken.Nodes, v.Node) && !slices.Contains(taken.Results[:i], v) {
			v.TakeName(out)
		}
		for axis, extent := range out.Type.Shape {
			name, ok := extent.Name()
			if ok && !extent.Equal(n.Regions[0].Results[i].Type.Shape[axis]) &&
				!extent.Equal(n.Regions[1].Results[i].Type.Shape[axis]) {
				t.decided[name] = v.Type.Shape[axis] // the If's shape rule made the dimension
			}
		}
	}
}

// substitute replaces the decided dimensions everywhere.
func (t *taking) substitute(m *ir.Module) {
	with := func(name sym.Name) (sym.Expr, bool) { x, ok := t.decided[name]; return x, ok }
	for changed := true; changed; { // one may have become an expression of others
		changed = false
		for name, x := range t.decided {
			if y := x.Subst(with); !y.Equal(x) {
				t.decided[name], changed = y, true
			}
		}
	}
	one := func(e sym.Expr) sym.Expr {
		if y := e.Subst(with); !y.Equal(e) {
			return m.Dims.Simplify(y)
		}
		return e
	}
	rewriteExprs(m, one)
	for name := range t.decided {
		delete(m.Limits, name)
	}
	dims := m.Dims.Empty()
	for _, name := range m.Dims.Names() {
		if r, _ := m.Dims.Get(name); !t.has(name) {
			dims.Set(name, r)
		}
	}
	m.Dims = dims
	for name, limit := range m.Limits {
		m.Limits[name] = one(limit)
	}
	m.Choices = choicesWithout(m.Choices, t.has)
	for i, c := range m.Choices {
		m.Choices[i] = c.Subst(with)
	}
	for _, list := range []*[]ir.Require{&m.Requires, &m.Proved} {
		for i, r := range *list {
			(*list)[i].Cond.A, (*list)[i].Cond.B = one(r.Cond.A), one(r.Cond.B)
		}
	}
}

// choicesWithout returns the choices of the dimensions that are not gone.
func choicesWithout(list []sym.Choice, gone func(name sym.Name) bool) (out []sym.Choice) {
	for _, c := range list {
		if c, ok := c.Only(func(name sym.Name) bool { return !gone(name) }); ok {
			out = append(out, c)
		}
	}
	return out
}

// has reports whether a dimension is replaced.
func (t *taking) has(name sym.Name) bool { _, ok := t.decided[name]; return ok }
