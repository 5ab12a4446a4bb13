package compiler

import (
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// exhaust asks for proofs that fail, until the budget of proofs is used up.
func exhaust(t *testing.T, dims *sym.Dims) {
	t.Helper()
	a, b := sym.Dim("n"), sym.Dim("m")
	for i := int64(1); !dims.Exhausted(); i++ {
		if i > 1<<16 {
			t.Fatal("proofs cost nothing")
		}
		e := sym.Const(0)
		for k := range int64(12) {
			d := a.Mul(sym.Const(k + 1)).Sub(b.Mul(sym.Const(i))).FloorDiv(sym.Const(k + 2))
			e = e.Add(d.Mul(d))
		}
		dims.NotNegative(e, false)
	}
}

// TestExhausted shows that Exhausted is set exactly if proofs used up their budget before a program was rewritten or
// scheduled, and that the program still compiles.
func TestExhausted(t *testing.T) {
	const text = "weir 1\nir @m {\ndim n in [0, inf]\ndim m in [0, inf]\nmain @main(%x: f32[n, m]) {\n  %y: f32[n, m] = " +
		"neg(%x)\n  return %y\n}\n}"
	for _, at := range []string{"", Passes[0].Name, "schedule"} {
		used := at != ""
		m, err := ir.Parse(text, ir.ParseOptions{})
		if err != nil {
			t.Fatal(err)
		}
		machine, err := Machine("portable", 1, false)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(m, Options{Machine: machine, After: func(stage, _ string) {
			if used && stage == at {
				exhaust(t, m.Dims)
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		if c.Exhausted != used {
			t.Errorf("used up after %q: said %v", at, c.Exhausted)
		}
		if c.Code.Release != nil {
			c.Code.Release()
		}
	}
}
