package compiler

import (
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/loop"
)

// boundLocals replaces the extents of kernels' locals by upper bounds if they may be larger below the data dimensions'
// limits than at them, because scratch is allocated for the limits.
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
