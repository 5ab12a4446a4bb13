package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Quick tests of kernels: see step.when.

// splitsIndices reports whether an access has an index that is not linear in its variables.
func splitsIndices(_ *scheduler, k *loop.Kernel) bool {
	for a := range loop.EachAccess(k.Body) {
		if slices.ContainsFunc(a.Index, func(e sym.Expr) bool { return !linear(e) }) {
			return true
		}
	}
	return false
}

// withoutRegisterTiles reports whether the machine's contractions are in memory.
func withoutRegisterTiles(s *scheduler, _ *loop.Kernel) bool { return !s.registerTiles() }

// hasLocals reports whether a kernel has locals.
func hasLocals(_ *scheduler, k *loop.Kernel) bool {
	return anyStatement(k, func(stmt loop.Stmt) bool {
		_, is := stmt.(*loop.Local)
		return is
	})
}

// hasNests reports whether an each-loop of a kernel contains a vector loop alone.
func hasNests(_ *scheduler, k *loop.Kernel) bool {
	return anyStatement(k, func(stmt loop.Stmt) bool {
		f, is := stmt.(*loop.For)
		if !is || f.Kind != loop.Each {
			return false
		}
		v, only := loop.Only(f.Body)
		return only && v.Kind == loop.Vector
	})
}

// repeats reports whether axes of the module may repeat.
func repeats(s *scheduler, _ *loop.Kernel) bool { return len(s.stretches()) > 0 }

// anyStatement reports whether a test holds of a statement of a kernel, at any depth.
func anyStatement(k *loop.Kernel, is func(stmt loop.Stmt) bool) (found bool) {
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		found = found || is(stmt)
		return !found
	})
	return found
}
