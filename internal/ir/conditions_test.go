package ir

import (
	"testing"

	"github.com/weirml/weir/internal/sym"
)

// TestNarrowed: the range that a condition leaves has every value that meets the condition; of these conditions, no
// others.
func TestNarrowed(t *testing.T) {
	n := sym.User("n")
	x, c := sym.Var(n), sym.Const
	for _, cond := range []sym.Cond{
		{A: x, Rel: sym.EQ, B: sym.MinOf(x, c(64))},
		{A: sym.MinOf(x, c(64)), Rel: sym.EQ, B: x},
		{A: x, Rel: sym.EQ, B: sym.MaxOf(x, c(8))},
		{A: x.Add(c(3)), Rel: sym.LE, B: sym.MinOf(x.Add(c(3)), c(40))},
		{A: sym.MaxOf(x, c(8)), Rel: sym.LT, B: x.Add(c(1))},
		{A: x, Rel: sym.EQ, B: c(17)},
		{A: x.Add(c(1)), B: c(33)},
	} {
		dims := sym.NewDims()
		dims.Set(n, sym.Range{Min: 0, Max: sym.NoMax})
		r, _ := Narrowed(dims, cond).Get(n)
		for v := range int64(200) {
			holds, err := cond.Eval(func(sym.Name) (int64, bool) { return v, true })
			if within := r.Min <= v && v <= r.Max; err != nil || holds != within {
				t.Errorf("%s: n is %s, and the condition is %t for %d (%v)", cond, r, holds, v, err)
				break
			}
		}
	}
}
