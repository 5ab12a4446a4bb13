package sym

import "testing"

// TestNames shows that names of different makers are different integers even if their strings are equal, and that names
// are parsed as they are printed.
func TestNames(t *testing.T) {
	makers := []func(string) Name{User, Made, Bound, Planned, Hidden}
	var all []Name
	for _, text := range []string{"i0_1#", "n", "", "?n", "$n", "&n", "!n", "a b", "\"", "max", "a\x00\n", "ñ", "1"} {
		for _, made := range makers {
			all = append(all, made(text))
		}
	}
	keys := map[string]Name{}
	for i, name := range all {
		if other, twice := keys[name.String()]; twice {
			t.Errorf("%#v and %#v are both written %s", name, other, name)
		}
		keys[name.String()] = name
		if back, ok := ParseName(name.String()); name.space != hidden && (!ok || back != name) {
			t.Errorf("%s is read back as %s", name, back)
		} else if name.space == hidden && ok {
			t.Errorf("a text names %s", name)
		}
		e := Var(name).Mul(Const(3)).Add(Var(name).FloorDiv(Const(2)))
		if back, err := Parse(e.String()); name.space != hidden && (err != nil || !back.Equal(e)) {
			t.Errorf("%s is read back as %s, %v", e, back, err)
		}
		for j, other := range all {
			if same := Var(name).Equal(Var(other)); same != (i == j) {
				t.Errorf("%s and %s: equal is %v", name, other, same)
			}
			swapped := e.Subst(func(n Name) (Expr, bool) { return Const(1), n == other })
			if _, constant := swapped.Const(); constant != (i == j) {
				t.Errorf("%s in the place of %s gives %s", other, name, swapped)
			}
		}
	}
	d := NewDims()
	d.Set(User("n"), Range{5, 5})
	if d.LE(Var(User("n")), Const(5)) != Yes || d.LE(Var(Bound("n")), Const(5)) != Unknown {
		t.Error("the range of one name is another's")
	}
}

// TestShown shows that names for people are printed as they are, that no two of them are alike, and that texts cannot
// have them.
func TestShown(t *testing.T) {
	names := []Name{User("v[0]"), Made("v[0]"), Made("n.count"), User("m")}
	labels := Labels(names)
	for _, c := range []struct {
		cond Cond
		want string
	}{
		{Cond{A: Var(names[0]), Rel: NE, B: Var(names[1])}, `"v[0]" != v[0]'`},
		{Cond{A: Var(User("n\n- m")), B: Const(1)}, `"n\n- m" <= 1`},
		{Cond{A: Var(names[2]).Mul(Const(4)), B: Var(names[3])}, "4*n.count <= m"},
		{Cond{A: Const(0), B: MaxOf(Var(names[3]).Sub(Var(names[2])), Var(names[1]).Neg())}, "n.count <= m or v[0]' <= 0"},
		{Cond{A: Var(names[3]).Mul(Var(names[3])).Add(Const(4)), Rel: EQ, B: Var(names[3]).Mul(Const(5))},
			"m == 1 or m == 4"},
		{Cond{A: Var(names[3]).Mul(Var(names[3])), Rel: EQ, B: Const(2)}, "m*m == 2"},
		{Cond{A: Var(names[3]).Mul(Var(names[3])), Rel: EQ, B: Const(0)}, "m*m == 0"},
		{Cond{A: Var(Made("other")), B: Const(1)}, "other <= 1"},
	} {
		if got := c.cond.Shown(labels).Words(); got != c.want {
			t.Errorf("%s: %s, want %s", c.cond, got, c.want)
		}
	}
	odd := []Name{User("n\n- m"), Made("v[0]"), Made("n.count")}
	said := Bindings(append(odd, User("unbound")), labels, map[Name]string{odd[1]: "element 0", odd[2]: "the count"},
		Numbers(func(name Name) (int64, bool) {
			return 5, name != User("unbound")
		}))
	if want := `"n\n- m" = 5, v[0]' = 5, n.count = 5 (the count)`; said != want {
		t.Errorf("%s, want %s", said, want)
	}
	for _, text := range []string{"v[0]", "v[0]'"} {
		if name, ok := ParseName(text); ok {
			t.Errorf("%s is read as %#v", text, name)
		}
	}
}
