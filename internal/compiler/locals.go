package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// boundLocals gives kernels' locals extents that are greatest where the dimensions that a run decides are at their
// limits: scratch is taken for those, and an extent that shrinks from one iteration of a loop to the next is greater
// before.
func (c *Compiled) boundLocals() {
	for _, k := range c.Loop.Kernels {
		loop.Walk(k.Body, func(s loop.Stmt) bool {
			if l, is := s.(*loop.Local); is {
				l.Shape = slices.Clone(l.Shape)
				for i, extent := range l.Shape {
					if _, ok := atMost(c.Loop, extent); !ok {
						l.Shape[i] = largest(c.Loop, extent)
					}
				}
			}
			return true
		})
	}
}

// atMost is a size with what a run decides at its limits, where that is proved to be no less.
func atMost(m *loop.Module, size sym.Expr) (limit sym.Expr, ok bool) {
	limit = sym.AtLimits(size, m.Limits)
	return limit, size.Equal(limit) || m.Dims.LE(size, limit) == sym.Yes || monotone(m, size)
}

// largest is no less than a size, whatever the run decides: the size where that is at its least, or a number; the size
// itself where neither is proved, so that the run has to see.
func largest(m *loop.Module, size sym.Expr) sym.Expr {
	least := size.Subst(func(name sym.Name) (sym.Expr, bool) {
		r, _ := m.Dims.Get(name)
		_, decided := m.Limits[name]
		return sym.Const(r.Min), decided
	})
	if m.Dims.LE(size, least) == sym.Yes {
		return least
	}
	if _, most := m.Dims.Bounds(size); most <= mostAtLimit {
		return sym.Const(most)
	}
	return size
}
