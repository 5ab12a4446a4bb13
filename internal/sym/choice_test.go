package sym

import "testing"

// TestChoice: a choice's condition states the choice, and a size is bounded by its largest case.
func TestChoice(t *testing.T) {
	f, g, k := Made("f"), Made("g"), Made("k")
	n, m := Var(User("n")), Var(User("m"))
	rowOrColumn := Choice{Names: []Name{f, g}, Cases: [][]Expr{{Const(1), n}, {n, Const(1)}}}
	dims := NewDims()
	for _, name := range []Name{User("n"), User("m"), f, g, k} {
		dims.Set(name, Range{Min: 0, Max: NoMax})
	}
	most := n.Max(Const(1))
	decided := Decided{Limits: map[Name]Expr{f: most, g: most, k: m}, Choices: []Choice{rowOrColumn}}
	for _, c := range []struct {
		name       string
		size, want Expr
	}{
		{"elements", Var(f).Mul(Var(g)), n},
		{"with another", Var(f).Mul(Var(g)).Mul(Var(k)), n.Mul(m)},
		{"one of them", Var(f).Mul(Var(k)), most.Mul(m)},
		{"both longer", Var(f).Add(Const(1)).Mul(Var(g).Add(Const(1))), n.Add(Const(1)).Mul(Const(2))},
		{"the longer", Var(f).Max(Var(g)), most},
	} {
		got, ok := decided.Largest(c.size, dims)
		if !ok || dims.EQ(got, c.want) != Yes && !dims.Simplify(got).Equal(dims.Simplify(c.want)) {
			t.Errorf("%s: %s (%v), want %s", c.name, got, ok, c.want)
		}
	}
	if got, ok := decided.Largest(n.Sub(Var(f)), dims); ok {
		t.Errorf("a size that falls is bounded by %s", got)
	}
	cond := rowOrColumn.Cond()
	again, ok := ChoiceOf(cond, func(name Name) bool { return name.Made() })
	if !ok || again.Cond().String() != cond.String() {
		t.Errorf("%s states %v (%v)", cond, again, ok)
	}
	for _, v := range []struct {
		f, g, n int64
		holds   bool
	}{{1, 7, 7, true}, {7, 1, 7, true}, {1, 1, 7, true}, {7, 7, 7, false}, {2, 7, 7, false}, {1, 1, 1, true}} {
		values := map[Name]int64{f: v.f, g: v.g, User("n"): v.n}
		if holds, err := cond.Eval(func(name Name) (int64, bool) { x, ok := values[name]; return x, ok }); err != nil ||
			holds != v.holds {
			t.Errorf("%s at %+v: %v (%v)", cond, v, holds, err)
		}
	}
}
