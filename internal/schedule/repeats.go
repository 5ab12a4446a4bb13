package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// stretch is a step that a run decides, 1 or 0, from one element of an operand to the next: 1 if its extent is the one
// that it is broadcast to.
type stretch struct{ step, extent, to sym.Expr }

// stretches returns the steps in the conditions of the module.
func (s *scheduler) stretches() (list []stretch) {
	for _, r := range s.module.Requires {
		if extent, step, to, ok := r.Cond.Repeated(); ok {
			list = append(list, stretch{step, extent, to})
		}
	}
	return list
}

// splitRepeats gives vector loops along axes that may repeat a copy for runs in which none does: there, elements are
// adjacent.
func splitRepeats(s *scheduler, k *loop.Kernel) bool {
	all := s.stretches()
	if len(all) == 0 {
		return false
	}
	names, changed := s.newNamer(k), false
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for i, stmt := range body {
			if f, ok := stmt.(*loop.For); ok && f.Kind == loop.Vector {
				if when := whenAdjacent(names, f, all); when != nil {
					body[i], changed = when, true
				}
				continue
			}
			for _, inner := range loop.Bodies(stmt) {
				visit(*inner)
			}
		}
	}
	visit(k.Body)
	return changed
}

// whenAdjacent returns a branch that runs a vector loop with steps of 1 if all extents along it are equal; nil if none
// of its steps is decided by the run.
func whenAdjacent(names *namer, f *loop.For, all []stretch) loop.Stmt {
	var along []stretch
	(&loop.Rewrite{Integer: func(e sym.Expr) sym.Expr {
		for _, x := range all {
			slope, _, ok := e.Linear(f.Var)
			if ok && !slope.Replace(x.step, sym.Const(1)).Equal(slope) &&
				!slices.ContainsFunc(along, func(y stretch) bool { return y.step.Equal(x.step) }) {
				along = append(along, x)
			}
		}
		return e
	}}).Body(f.Body)
	if len(along) == 0 {
		return nil
	}
	var cond loop.Expr
	adjacent := &loop.Rewrite{Integer: func(e sym.Expr) sym.Expr {
		for _, x := range along {
			e = e.Replace(x.step, sym.Const(1))
		}
		return e
	}}
	for _, x := range along {
		equal := loop.Apply2(loop.Eq, loop.At(x.extent), loop.At(x.to))
		if cond == nil {
			cond = equal
		} else {
			cond = loop.Apply2(loop.And, cond, equal)
		}
	}
	list := []loop.Stmt{f}
	return &loop.When{Cond: cond, Then: names.again(adjacent.Body(list)), Else: list}
}
