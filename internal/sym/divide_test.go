package sym

import (
	"fmt"
	"testing"
)

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

// TestUnravel compares indices with counting, and looks for remainders that nobody needs: those of a shape's first axis
// of more than one element.
func TestUnravel(t *testing.T) {
	n, at := Dim("n"), Dim("at")
	for _, c := range []struct {
		shape []Expr
		text  string
	}{
		{nil, "[]"}, {[]Expr{n}, "[at]"}, {[]Expr{Const(1), n}, "[0 at]"}, {[]Expr{Const(1), Const(1)}, "[0 at]"},
		{[]Expr{Const(1), Const(1), n, Const(3)}, "[0 0 at//3 at%3]"}, {[]Expr{n, Const(1), Const(4)}, "[at//4 0 at%4]"},
		{[]Expr{Const(1), Const(2), n}, "[0 at//n at%n]"},
	} {
		index := Unravel(at, c.shape)
		if got := fmt.Sprint(index); got != c.text {
			t.Errorf("%s: %s, want %s", c.shape, got, c.text)
		}
		count, err := Product(c.shape...).Eval(func(Name) (int64, bool) { return 5, true })
		for flat := int64(0); err == nil && flat < count && len(c.shape) > 0; flat++ {
			back := Const(0)
			for axis, i := range index {
				back = back.Mul(c.shape[axis]).Add(i)
			}
			got, err := back.Eval(func(name Name) (int64, bool) {
				if x, _ := at.Name(); name == x {
					return flat, true
				}
				return 5, true
			})
			if err != nil || got != flat {
				t.Errorf("%s: element %d is found at %d: %v", c.shape, flat, got, err)
			}
		}
	}
}
