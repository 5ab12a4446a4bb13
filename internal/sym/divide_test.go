package sym

import "testing"

// TestMultiple finds the number by which an expression is a multiple of another, or none.
func TestMultiple(t *testing.T) {
	n, m := Dim("n"), Dim("m")
	for _, c := range []struct {
		a, b Expr
		k    int64
		ok   bool
	}{
		{Const(12), Const(4), 3, true}, {Const(12), Const(5), 0, false}, {Const(3), Const(0), 0, false},
		{n.Mul(Const(784)), n, 784, true}, {n, n.Mul(Const(2)), 0, false},
		{n.Mul(Const(6)), n.Mul(Const(3)), 2, true}, {n.Add(Const(1)), n, 0, false}, {n.Mul(m), n, 0, false},
		{Const(4), n, 0, false}, {n.Mul(Const(4)).Add(Const(8)), n.Add(Const(2)), 4, true},
	} {
		if k, ok := c.a.Multiple(c.b); ok != c.ok || ok && k != c.k {
			t.Errorf("%s is %d times %s: %v", c.a, k, c.b, ok)
		}
	}
}
