package recipes

import (
	"testing"

	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// TestWinogradOfNothing shows that choosing a block for images without rows, columns, planes or channels never panics
// and returns a block with positive sizes or none.
func TestWinogradOfNothing(t *testing.T) {
	for _, fixed := range []bool{true, false} {
		for size := range int64(1 << 5) {
			of := func(bit int) int64 { return (size >> bit & 1) * 64 }
			i := Image{of(0), of(1), of(2), 3, 0, of(3), of(4), fixed, target.Portable(1).Sizes()}
			for _, planes := range []sym.Expr{sym.Const(i.Planes), sym.Var(sym.User("n"))} {
				if b, ok := i.block(4, planes); ok && (b.rows < 1 || b.columns < 1 || b.planes < 1 || b.splits < 1) {
					t.Errorf("%+v: %+v", i, b)
				}
			}
		}
	}
}
