package loop_test

import (
	"testing"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// TestDivisors: Positive reports whether a divisor is at least 1 at every division by it that a run reaches, because of
// loop extents, requirements, conditions or checks. Safe replaces such a divisor in an expression, and no other.
func TestDivisors(t *testing.T) {
	least := func(name string, n int64) loop.Require {
		return loop.Require{Cond: sym.Cond{A: sym.Const(n), Rel: sym.LE, B: sym.Dim(name)}}
	}
	for _, c := range []struct {
		body, divisor string
		requires      []loop.Require
		positive      bool
	}{
		{`each i < m { store %y[i%m] = 0 }`, "m", nil, true},
		{`each i < n { store %y[i%m] = 0 }`, "m", nil, false},
		{`each i < n { store %y[i%m] = 0 }`, "m", []loop.Require{least("m", 1)}, true},
		{`each i < n { store %y[i%m] = 0 }`, "m", []loop.Require{least("m", 0)}, false},
		{`each i < m { store %y[i%m] = 0 }  store %y[n%m] = 0`, "m", nil, false},
		{`each i < m*n { store %y[(i//n)%m] = 0 }`, "n", nil, true},
		{`each i < m + n { store %y[i%n] = 0 }`, "n", nil, false},
		{`each t < (m//4 + 14)//16 { store %y[t%(m//4 - 1)] = 0 }`, "m//4 - 1", nil, true},
		{`each t < (m//4 + 15)//16 { store %y[t%(m//4 - 1)] = 0 }`, "m//4 - 1", nil, false},
		{`each t < (m - 2)*(n - 3) { store %y[(t//(n - 3))%(m - 2)] = 0 }`, "n - 3", nil, false},
		{`each t < (m - 2)*(n - 3) { store %y[(t//(n - 3))%(m - 2)] = 0 }`, "n - 3",
			[]loop.Require{least("m", 2), least("n", 3)}, true},
		{`each t < m - n { store %y[t%(m - n)] = 0 }`, "m - n", nil, true},
		{`each t < m - n + 1 { store %y[t%(m - n)] = 0 }`, "m - n", nil, false},
		{`each t < 4 { when gt(index(m), 0) { store %y[t%m] = 0 } }`, "m", nil, true},
		{`each t < 4 { when gt(index(m), 0) { store %y[t] = 0 } else { store %y[t%m] = 0 } }`, "m", nil, false},
		{`each t < 4 { store %y[t%m] = 0 where ge(index(m), 1) }`, "m", nil, true},
		{`each t < 4 { store %y[0] = cast(f32, index(t%m)) where ge(index(m), 1) }`, "m", nil, false},
		{`each t < 4 { check c = i64(3) in [t, m - 1] "c"  store %y[c%m] = 0 }`, "m", nil, true},
	} {
		k, err := loop.ParseKernel("kernel @k(%y: f32[9] write) dims(m, n) { " + c.body + " }")
		if err != nil {
			t.Fatal(c.body, err)
		}
		y, err := sym.Parse(c.divisor)
		if err != nil {
			t.Fatal(err)
		}
		m := &loop.Module{Requires: c.requires}
		d := loop.DivisorsOf(k, m)
		if d.Positive(y) != c.positive {
			t.Errorf("%s: whether %s is positive is said to be %v", c.body, y, !c.positive)
		}
		x := sym.Dim("n").FloorDiv(y)
		if safe := d.Safe(x); safe.Equal(x) == c.positive {
			t.Errorf("%s: %s is made %s", c.body, x, safe)
		}
	}
}
