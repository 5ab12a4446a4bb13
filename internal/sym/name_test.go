package sym

import "testing"

// TestNames: names of different makers are different integers whatever their texts, and are read back as they are
// written.
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
