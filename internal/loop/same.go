package loop

import (
	"slices"

	"github.com/weirml/weir/internal/sym"
)

// Same reports whether two expressions have the same structure: the same operations on the same operands.
func Same(x, y Expr) bool {
	if x == y {
		return true
	}
	switch a := x.(type) {
	case *Const:
		b, ok := y.(*Const)
		return ok && *a == *b
	case *Ref:
		b, ok := y.(*Ref)
		return ok && *a == *b
	case *Index:
		b, ok := y.(*Index)
		return ok && a.X.Equal(b.X)
	case *Load:
		b, ok := y.(*Load)
		if !ok || a.From != b.From || (a.Mask == nil) != (b.Mask == nil) ||
			!slices.EqualFunc(a.Index, b.Index, sym.Expr.Equal) {
			return false
		}
	case *Unary:
		if b, ok := y.(*Unary); !ok || a.Op != b.Op {
			return false
		}
	case *Binary:
		if b, ok := y.(*Binary); !ok || a.Op != b.Op {
			return false
		}
	case *Select:
		if _, ok := y.(*Select); !ok {
			return false
		}
	case *Cast:
		if b, ok := y.(*Cast); !ok || a.Type != b.Type || a.Wrap != b.Wrap {
			return false
		}
	}
	left, n := operands(x)
	right, m := operands(y)
	for i := range n {
		if n != m || !Same(left[i], right[i]) {
			return false
		}
	}
	return n == m
}
