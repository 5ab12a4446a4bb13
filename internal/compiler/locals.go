package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
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
					if _, ok := live.AtMost(c.Loop, extent); !ok {
						l.Shape[i] = live.Largest(c.Loop, extent)
					}
				}
			}
			return true
		})
	}
}
