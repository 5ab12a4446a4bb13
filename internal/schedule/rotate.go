package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// rotatePanels changes the order in which the steps of a recurrence read panels of weights, if the second-level cache
// holds only a part of what a step reads. In the same order at each step, a panel has left the cache before the next
// step reads it. Instead, each step begins with the panels that the step before read last.
func (s *scheduler) rotatePanels() {
	for _, k := range s.module.Kernels {
		r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
			if steps, ok := stmt.(*loop.For); ok && steps.Kind == loop.Serial {
				s.rotate(k, steps)
			}
			return []loop.Stmt{stmt}
		}}
		k.Body = r.Body(k.Body)
	}
}

// keptPart is the part of the second-level cache in which panels stay from one step to the next.
const keptPart = 0.75

// rotate changes the order of the panels in a loop over steps, which it owns.
func (s *scheduler) rotate(k *loop.Kernel, steps *loop.For) {
	var nests []*panels
	total := int64(0) // bytes that a step reads
	for _, stmt := range steps.Body {
		if p := s.panelsOf(k, stmt, steps.Var); p != nil {
			nests = append(nests, p)
			total += p.count * p.bytes
		}
	}
	room := int64(float64(s.machine.Limits.L2) * keptPart)
	if total <= room {
		return
	}
	for _, p := range nests {
		kept := (room - (total - p.count*p.bytes)) / p.bytes
		if kept <= 0 {
			continue
		}
		at := sym.Var(p.nest.Var).Add(sym.Var(steps.Var).Mul(sym.Const(p.count - kept))).Mod(p.nest.Extent)
		p.nest.Body = loop.Substitute(p.nest.Body, map[sym.Name]sym.Expr{p.nest.Var: at})
	}
}

// panels is a nest of a step whose iterations, in any order, each read a panel of weights.
type panels struct {
	nest  *loop.For
	count int64
	bytes int64 // of a panel
}

// panelsOf returns the panels that a statement of a step reads, or nil if it reads none, or not the same at each step.
func (s *scheduler) panelsOf(k *loop.Kernel, stmt loop.Stmt, step sym.Name) *panels {
	nest, ok := stmt.(*loop.For)
	for ok && nest.Kind == loop.Each {
		inner, only := loop.Only(nest.Body)
		if _, most := s.dims.Bounds(nest.Extent); most != 1 || !only {
			break
		}
		nest = inner
	}
	if !ok || nest.Kind != loop.Each {
		return nil
	}
	count, fixed := nest.Extent.Const()
	p := &panels{nest: nest, count: count}
	read := map[string]bool{}
	loop.Walk(nest.Body, func(stmt loop.Stmt) bool {
		c, ok := stmt.(*loop.Contract)
		if !ok {
			return fixed
		}
		weights := c.B.Buffer
		i := slices.IndexFunc(k.Params, func(p *loop.Param) bool { return p.Name == weights && p.Access == loop.Read })
		rows, short := c.K.Const()
		columns, narrow := c.N.Const()
		fixed = fixed && i >= 0 && short && narrow && anyMentions(c.B.Origin, nest.Var) && !anyMentions(c.B.Origin, step)
		if fixed && !read[weights] {
			read[weights] = true
			p.bytes += rows * columns * int64(k.Params[i].DType.Bits()) / 8
		}
		return fixed
	})
	if !fixed || p.bytes == 0 {
		return nil
	}
	return p
}
