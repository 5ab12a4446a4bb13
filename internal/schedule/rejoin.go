package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// rejoin merges two neighbouring axes of a parameter if some access splits one integer into a quotient and a remainder
// to index them, and every access is linear in its variables after the merge. It serves pointwise convolutions over all
// positions at once.
func rejoin(s *scheduler, k *loop.Kernel) bool {
	changed := false
	known := s.within(k)
	for _, p := range k.Params {
		for axis := len(p.Shape) - 2; axis >= 0; axis-- {
			if axis+1 < len(p.Shape) && s.shouldMerge(k, p, axis, known) {
				s.joinIndices(k, p, axis, known)
				changed = true
			}
		}
	}
	return changed
}

// shouldMerge reports whether an axis and the next should be merged.
func (s *scheduler) shouldMerge(k *loop.Kernel, p *loop.Param, axis int, known *sym.Dims) bool {
	if p.Strides != nil && !s.equal(p.Strides[axis], p.Strides[axis+1].Mul(p.Shape[axis+1])) {
		return false
	}
	found := false
	for a := range loop.EachAccess(k.Body) {
		if a.Buffer != p.Name {
			continue
		}
		if a.Tile != nil || !linear(mergedIndex(p, a.Index, axis, known)) {
			return false
		}
		found = found || !linear(a.Index[axis]) || !linear(a.Index[axis+1])
	}
	return found
}

// mergedIndex returns the index of two merged axes.
func mergedIndex(p *loop.Param, index []sym.Expr, axis int, known *sym.Dims) sym.Expr {
	return known.Simplify(index[axis].Mul(p.Shape[axis+1]).Add(index[axis+1]))
}

// within returns the ranges known inside a kernel: of the dimensions, and of the variables of loops with a constant
// extent.
func (s *scheduler) within(k *loop.Kernel) *sym.Dims {
	known := s.dims.Clone()
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		if f, ok := stmt.(*loop.For); ok {
			if n, ok := f.Extent.Const(); ok && n > 0 {
				known.Set(f.Var, sym.Range{Min: 0, Max: n - 1})
			}
		}
		return true
	})
	return known
}

// linear reports whether an expression is linear in each of its variables.
func linear(e sym.Expr) bool {
	if e.Multilinear() {
		return true
	}
	for _, name := range e.Vars() {
		if _, _, ok := e.Linear(name); !ok {
			return false
		}
	}
	return true
}

// joinIndices merges an axis of a parameter and the next, in its shape and in all accesses.
func (s *scheduler) joinIndices(k *loop.Kernel, p *loop.Param, axis int, known *sym.Dims) {
	join := func(buffer string, index []sym.Expr) []sym.Expr {
		if buffer != p.Name {
			return index
		}
		return slices.Concat(index[:axis], []sym.Expr{mergedIndex(p, index, axis, known)}, index[axis+2:])
	}
	k.Body = joinAccesses(k.Body, join)
	inner := p.Shape[axis+1]
	p.Shape = joinAxes(p.Shape, axis, inner)
	if p.Strides != nil {
		p.Strides = append(append([]sym.Expr(nil), p.Strides[:axis]...), p.Strides[axis+1:]...)
	}
}

// joinAccesses returns a body with the indices of loads and stores replaced by the results of join.
func joinAccesses(body []loop.Stmt, join func(buffer string, index []sym.Expr) []sym.Expr) []loop.Stmt {
	r := &loop.Rewrite{
		Expr: func(e loop.Expr) loop.Expr {
			if l, ok := e.(*loop.Load); ok {
				l.Index = join(l.From, l.Index)
			}
			return e
		},
		Stmt: func(c loop.Stmt) []loop.Stmt {
			if c, ok := c.(*loop.Store); ok {
				c.Index = join(c.To, c.Index)
			}
			return []loop.Stmt{c}
		},
	}
	return r.Body(body)
}
