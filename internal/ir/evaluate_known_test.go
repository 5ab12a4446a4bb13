package ir

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestKnownIsChecked: an evaluation compares the elements that it computes with those that a shape rule claims.
func TestKnownIsChecked(t *testing.T) {
	n := sym.User("n")
	for _, c := range []struct {
		known sym.Expr
		bound bool
		right bool
	}{
		{sym.Const(7), false, true},
		{sym.Const(8), false, false},
		{sym.Var(n).Add(sym.Const(2)), false, true},
		{sym.Var(n), false, false},
		{sym.Var(sym.User("unbound")), false, true},
		{sym.Var(sym.Made("data")), true, true},
	} {
		m := &Module{Dims: sym.NewDims(), Limits: map[sym.Name]sym.Expr{sym.Made("data"): sym.Const(9)}}
		m.Dims.Set(sym.Made("data"), sym.Range{Min: 0, Max: 9})
		e := &Evaluation{Module: m, Dims: map[sym.Name]int64{n: 5}, values: map[*Value]*tensor.Tensor{}}
		v := &Value{Name: "v", Type: Type{DType: dtype.I64, Shape: []sym.Expr{sym.Const(1)}}, Known: []sym.Expr{c.known},
			Bound: c.bound}
		if err := e.set(v, tensor.Of[int64](7)); (err == nil) != c.right {
			t.Errorf("%s: %v", c.known, err)
		}
	}
}
