package sym

import "testing"

// TestExtremumArgs shows the arguments of minima and maxima, to which a constant may be added.
func TestExtremumArgs(t *testing.T) {
	n, m := Dim("n"), Dim("m")
	for _, c := range []struct {
		e    Expr
		want []Expr
		got  func(Expr) []Expr
	}{
		{n.Min(m).Add(Const(3)), []Expr{n.Add(Const(3)), m.Add(Const(3))}, Expr.MinArgs},
		{n.Max(m), []Expr{n, m}, Expr.MaxArgs},
		{n.Max(m), []Expr{n.Max(m)}, Expr.MinArgs},
		{n.Min(m).Add(n), []Expr{n.Min(m).Add(n)}, Expr.MinArgs},
		{Const(4), []Expr{Const(4)}, Expr.MinArgs},
	} {
		got := c.got(c.e)
		equal := len(got) == len(c.want)
		for _, w := range c.want {
			found := false
			for _, g := range got {
				found = found || g.Equal(w)
			}
			equal = equal && found
		}
		if !equal {
			t.Errorf("%s has %v, want %v", c.e, got, c.want)
		}
	}
}
