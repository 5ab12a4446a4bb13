package loop_test

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// TestOffsets: a cached offset equals Offset's result, also for parameters that differ in their strides only.
func TestOffsets(t *testing.T) {
	i, n := sym.Var(sym.Bound("i")), sym.Dim("n")
	shape := []sym.Expr{n, sym.Const(7)}
	index := []sym.Expr{i.FloorDiv(sym.Const(7)), i.Mod(sym.Const(7))}
	var known loop.Offsets
	for range 2 {
		for _, strides := range [][]sym.Expr{nil, {sym.Const(1), n}, {sym.Const(9), sym.Const(1)}} {
			p := &loop.Param{Name: "x", DType: dtype.F32, Shape: shape, Strides: strides}
			if got, want := known.Of(p, index), p.Offset(index); !got.Equal(want) {
				t.Errorf("strides %v: %s, want %s", strides, got, want)
			}
		}
	}
}
