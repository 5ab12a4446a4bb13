package loop

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// TestSame: expressions that differ in one field are not the same; equal copies are.
func TestSame(t *testing.T) {
	i, j := sym.Var(sym.Made("i")), sym.Var(sym.Made("j"))
	number := func(v float64) Expr { return Number(dtype.F32, v) }
	load := func(from string, at sym.Expr, mask Expr) Expr {
		l := &Load{From: from, Index: []sym.Expr{at}, Type: dtype.F32}
		if mask != nil {
			l.Mask, l.Else = mask, number(0)
		}
		return l
	}
	flag := func(name string) Expr { return &Ref{Name: name, Type: dtype.Bool} }
	// No two of these are the same; each is made twice.
	make := func() []Expr {
		return []Expr{
			number(1), number(2), Number(dtype.F64, 1),
			&Ref{Name: "a", Type: dtype.F32}, &Ref{Name: "b", Type: dtype.F32}, At(i), At(j),
			load("x", i, nil), load("x", j, nil), load("y", i, nil), load("x", i, flag("p")), load("x", i, flag("q")),
			Apply(Exp, load("x", i, nil)), Apply(Log, load("x", i, nil)), Apply(Exp, load("x", j, nil)),
			Apply2(Sub, number(1), number(2)), Apply2(Sub, number(2), number(1)), Apply2(Add, number(1), number(2)),
			Choose(flag("p"), number(1), number(2)), Choose(flag("q"), number(1), number(2)),
			Choose(flag("p"), number(2), number(2)),
			&Cast{Type: dtype.F16, X: number(1)}, &Cast{Type: dtype.F8E4M3FN, X: number(1)},
			&Cast{Type: dtype.F8E4M3FN, X: number(1), Wrap: true},
		}
	}
	left, right := make(), make()
	for a, x := range left {
		for b, y := range right {
			if got := Same(x, y); got != (a == b) {
				t.Errorf("expressions %d and %d: the same is %v", a, b, got)
			}
		}
	}
}
