package ops

import (
	"fmt"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
)

// TestNarrow shows that inference relies on earlier conditions: a dimension's range leaves out values at which a run is
// refused, and a condition that holds for the remaining values is not added.
func TestNarrow(t *testing.T) {
	m := &ir.Module{Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: &ir.Block{}},
		Limits: map[sym.Name]sym.Expr{sym.User("d"): sym.Unlimited}}
	for _, name := range []string{"h", "d"} {
		m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: sym.NoMax})
	}
	op, _ := ir.Lookup("relu")
	c, n := ir.NewInference(m), &ir.Node{Op: op}
	require := func(text string) {
		t.Helper()
		cond, err := sym.ParseCond(text)
		if err == nil {
			err = c.Require(n, cond, "a test")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct {
		cond, dim string
		least     int64
		required  int
	}{
		{"h != 7", "h", 0, 1},
		{"1 <= (h + 31)//32", "h", 1, 2},
		{"(h + 31)//32 == max(h - 1, 0)//32 + 1", "h", 1, 2},
		{"2*((h + 31)//32) == (h + 15)//16", "h", 17, 3},
		{"1 <= d", "d", 0, 4}, // a dimension that data decide keeps its range: the run finds its value
	} {
		require(row.cond)
		if r, _ := m.Dims.Get(sym.User(row.dim)); r.Min != row.least {
			t.Errorf("after %s, %s begins at %d", row.cond, row.dim, r.Min)
		}
		if len(m.Requires) != row.required {
			t.Errorf("after %s there are %d conditions", row.cond, len(m.Requires))
		}
	}
}

// TestExhausted shows that a module is not refused for formulas that cannot be compared.
func TestExhausted(t *testing.T) {
	m := &ir.Module{Dims: sym.NewDims()}
	var names []sym.Expr
	for i := range 6 {
		name := fmt.Sprint("d", i)
		m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 40})
		names = append(names, sym.Dim(name))
	}
	for k := int64(0); k < 1<<14 && !m.Dims.Exhausted(); k++ {
		e, f := sym.Const(k), sym.Const(k+7)
		for i, x := range names {
			next := names[(i+1)%len(names)]
			e = sym.MaxOf(e.Sub(x), sym.MinOf(next.Mul(x), e.Add(sym.Const(k))))
			f = sym.MaxOf(f.Sub(x), sym.MinOf(next.Mul(x), f.Add(sym.Const(k))))
		}
		m.Dims.LE(e, f)
	}
	if !m.Dims.Exhausted() {
		t.Fatal("there is credit left")
	}
	if m.Ask() != nil {
		t.Error("a module is refused for what it costs to prove")
	}
	if m.Dims.Renew(1); m.Dims.Exhausted() {
		t.Error("credit is not renewed")
	}
}
