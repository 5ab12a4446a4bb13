package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// Branches puts the branch of an If in its place where the condition is a constant, or is proved to hold, or not to,
// for every value of the dimensions. Dimensions that the If itself would have decided, where its branches differ in
// shape, become the branch's own.
func Branches(m *ir.Module) error { return branches(m, nil) }

// Possible is Branches for an If of which one branch needs what no value of the dimensions gives, in the ranges that
// they have now: the other branch takes the If's place. That the condition goes the other way stays a condition of the
// module. A module is not valid before that.
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

// branches is Branches, of conditions that are known to have truth values too.
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

type taking struct {
	dims     *sym.Dims
	truths   map[sym.Name]int64      // dimensions that are truth values, and decided
	copied   map[*ir.Value]*ir.Value // of a value x, x and x: an argument's truth value has its name there
	replaced map[*ir.Value]*ir.Value
	decided  map[sym.Name]sym.Expr // dimensions that have become others
}

func (t *taking) current(v *ir.Value) *ir.Value {
	for t.replaced[v] != nil {
		v = t.replaced[v]
	}
	return v
}

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
		if n.Op.Name() == "and" && n.Inputs[0] == n.Inputs[1] {
			t.copied[n.Inputs[0]] = n.Outputs[0]
		}
		if n.Op.Name() == "if" {
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

// holds reports what is known of a bool of one element.
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

// take puts a branch in the place of its If.
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
				t.decided[name] = v.Type.Shape[axis] // the shape rule had made it
			}
		}
	}
}

// substitute puts what the decided dimensions have become for them, everywhere.
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
	for _, list := range []*[]ir.Require{&m.Requires, &m.Proved} {
		for i, r := range *list {
			(*list)[i].Cond.A, (*list)[i].Cond.B = one(r.Cond.A), one(r.Cond.B)
		}
	}
}

func (t *taking) has(name sym.Name) bool { _, ok := t.decided[name]; return ok }
