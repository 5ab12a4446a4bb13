package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// flatten drops loops with one iteration. It merges two loops, one directly inside the other, if they index two
// neighbouring axes of each buffer that are contiguous in memory, so that one loop over their product walks every
// buffer in the same way. The axes of the buffers are merged too. It repeats until nothing merges.
func flatten(s *scheduler, k *loop.Kernel) bool {
	changed := dropSingle(k)
	for {
		outer, inner := s.mergeable(k)
		if outer == nil {
			return changed
		}
		s.merge(k, outer, inner)
		changed = true
	}
}

// dropSingle replaces loops with exactly one iteration by their bodies.
func dropSingle(k *loop.Kernel) bool {
	values := map[sym.Name]sym.Expr{}
	r := &loop.Rewrite{Stmt: func(c loop.Stmt) []loop.Stmt {
		if f, ok := c.(*loop.For); ok && isOne(f.Extent) && declaresNothing(f.Body) {
			values[f.Var] = zero
			return f.Body
		}
		return []loop.Stmt{c}
	}}
	body := r.Body(k.Body)
	if len(values) == 0 {
		return false
	}
	k.Body = loop.Substitute(body, values)
	return true
}

// declaresNothing reports whether a body has no declarations at its top level, so that it may replace the statement
// around it.
func declaresNothing(body []loop.Stmt) bool {
	for _, s := range body {
		switch s.(type) {
		case *loop.Let, *loop.Check, *loop.Var, *loop.Local:
			return false
		}
	}
	return true
}

// mergeable finds two loops to merge.
func (s *scheduler) mergeable(k *loop.Kernel) (outer, inner *loop.For) {
	loop.Walk(k.Body, func(stmt loop.Stmt) bool {
		f, ok := stmt.(*loop.For)
		if !ok || outer != nil {
			return outer == nil
		}
		g, ok := loop.Only(f.Body)
		if ok && f.Kind == g.Kind && (f.Kind == loop.Each || f.Kind == loop.Serial && onlyReduces(g)) &&
			s.walkAsOne(k, f, g) {
			outer, inner = f, g
		}
		return outer == nil
	})
	return outer, inner
}

// onlyReduces reports whether a serial loop only reduces into variables outside it, so that its order is free.
func onlyReduces(f *loop.For) bool {
	inside := map[string]bool{}
	for _, name := range declared(f.Body) {
		inside[name] = true
	}
	reduced := map[string]bool{}
	good := true
	loop.Walk(f.Body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Let, *loop.Check, *loop.For:
		case *loop.Reduce:
			good = good && !inside[s.Name] && associative[s.Op]
			reduced[s.Name] = true
		default:
			good = false
		}
		return good
	})
	loop.WalkValues(f.Body, func(e loop.Expr) {
		if r, ok := e.(*loop.Ref); ok && reduced[r.Name] {
			good = false
		}
	})
	return good
}

// scalar returns a scalar's name as a key beside the names of integers.
func scalar(name string) sym.Name { return sym.Hidden(name) }

// associative has the operations whose results do not depend on how operands are grouped, up to rounding.
var associative = map[loop.BinaryOp]bool{loop.Add: true, loop.Mul: true, loop.Min: true, loop.Max: true, loop.And: true,
	loop.Or: true, loop.Xor: true}

// walkAsOne reports whether the loops' variables appear only together, as the indices of neighbouring axes that can be
// merged.
func (s *scheduler) walkAsOne(k *loop.Kernel, f, g *loop.For) bool {
	if mentions(g.Extent, f.Var) {
		return false
	}
	uses := func(e sym.Expr) bool { return mentions(e, f.Var) || mentions(e, g.Var) }
	good := true
	// Extents, ranges and Index values cannot be merged.
	loop.Walk(g.Body, func(stmt loop.Stmt) bool {
		if _, ok := stmt.(*loop.Store); !ok {
			for _, e := range loop.Integers(stmt) {
				good = good && !uses(e)
			}
		}
		return good
	})
	loop.WalkValues(g.Body, func(e loop.Expr) {
		if x, ok := e.(*loop.Index); ok && uses(x.X) {
			good = false
		}
	})
	axes := map[string]int{}
	for a := range loop.EachAccess(g.Body) {
		if !good {
			return false
		}
		axis, ok := sideBySide(a.Index, f.Var, g.Var)
		if !ok {
			return false
		}
		if other, met := axes[a.Buffer]; met && axis >= 0 && other != axis {
			return false // the axes of a buffer are merged in one way only
		}
		if axis >= 0 {
			axes[a.Buffer] = axis
		}
		if axis >= 0 && (a.Tile != nil || !s.joint(k, a.Buffer, axis, g.Extent)) {
			return false
		}
	}
	return good
}

// sideBySide returns the axis that outer indexes while inner indexes the next one; −1 if neither appears. ok is false
// if they appear in any other way.
func sideBySide(index []sym.Expr, outer, inner sym.Name) (axis int, ok bool) {
	axis = -1
	for i, e := range index {
		if !mentions(e, outer) && !mentions(e, inner) {
			continue
		}
		switch {
		case axis < 0 && isVar(e, outer) && i+1 < len(index) && isVar(index[i+1], inner):
			axis = i
		case axis >= 0 && i == axis+1:
		default:
			return 0, false
		}
	}
	return axis, true
}

// joint reports whether an axis of a buffer and the next, of the given extent, are contiguous in memory.
func (s *scheduler) joint(k *loop.Kernel, buffer string, axis int, extent sym.Expr) bool {
	p := bufferOf(k, buffer)
	if p == nil || !s.equal(p.Shape[axis+1], extent) {
		return false
	}
	for a := range loop.EachAccess(k.Body) {
		if a.Buffer == buffer && a.Tile != nil {
			return false // after merging, a tile's steps along two axes cannot be distinguished
		}
	}
	return p.Strides == nil || s.equal(p.Strides[axis], p.Strides[axis+1].Mul(p.Shape[axis+1]))
}

// bufferOf returns a parameter, or a local in the form of one; nil if there is none of that name.
func bufferOf(k *loop.Kernel, name string) *loop.Param {
	for _, p := range k.Params {
		if p.Name == name {
			return p
		}
	}
	var found *loop.Param
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		if l, ok := s.(*loop.Local); ok && l.Name == name {
			found = &loop.Param{Name: name, DType: l.DType, Shape: l.Shape}
		}
		return found == nil
	})
	return found
}

// merge merges two loops, and two axes of each buffer that they index.
func (s *scheduler) merge(k *loop.Kernel, f, g *loop.For) {
	axes := map[string]int{}
	for a := range loop.EachAccess(g.Body) {
		if axis, _ := sideBySide(a.Index, f.Var, g.Var); axis >= 0 {
			axes[a.Buffer] = axis
		}
	}
	extents := map[string]sym.Expr{}
	for name, axis := range axes {
		extents[name] = bufferOf(k, name).Shape[axis+1]
	}
	// Within the merged loop, the pair of indices is the variable; elsewhere it is computed.
	outer, inner, product := f.Var, g.Var, f.Extent.Mul(g.Extent)
	f.Extent, f.Body = s.dims.Simplify(product), g.Body
	join := func(buffer string, index []sym.Expr) []sym.Expr {
		axis, ok := axes[buffer]
		if !ok {
			return index
		}
		merged := index[axis].Mul(extents[buffer]).Add(index[axis+1])
		if isVar(index[axis], outer) && isVar(index[axis+1], inner) {
			merged = sym.Var(outer)
		}
		return append(append(append([]sym.Expr(nil), index[:axis]...), merged), index[axis+2:]...)
	}
	k.Body = joinAccesses(k.Body, join)
	loop.Walk(k.Body, func(c loop.Stmt) bool {
		if l, ok := c.(*loop.Local); ok {
			if axis, ok := axes[l.Name]; ok {
				l.Shape = joinAxes(l.Shape, axis, extents[l.Name])
			}
		}
		return true
	})
	for _, p := range k.Params {
		if axis, ok := axes[p.Name]; ok {
			p.Shape = joinAxes(p.Shape, axis, extents[p.Name])
			if p.Strides != nil {
				p.Strides = append(append([]sym.Expr(nil), p.Strides[:axis]...), p.Strides[axis+1:]...)
			}
		}
	}
}

// joinAxes returns a shape with an axis and the next, of extent inner, merged.
func joinAxes(shape []sym.Expr, axis int, inner sym.Expr) []sym.Expr {
	return append(append(append([]sym.Expr(nil), shape[:axis]...), shape[axis].Mul(inner)), shape[axis+2:]...)
}
