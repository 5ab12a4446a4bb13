package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// finishWhereStored removes a local if the last nest of its body reads each element once and stores a result computed
// from it: that result is then computed where the element is stored. The local of a depthwise convolution, an entire
// row of pixels, would take the space of a cache, and as many writes and reads as there are sums.
func finishWhereStored(s *scheduler, k *loop.Kernel) bool {
	names := s.newNamer(k)
	changed := false
	var visit func(body []loop.Stmt) []loop.Stmt
	visit = func(body []loop.Stmt) []loop.Stmt {
		for i, stmt := range body {
			if l, ok := stmt.(*loop.Local); ok && l.Space == 0 {
				if finished := s.finished(l, body[i+1:], names); finished != nil {
					changed = true
					return append(append([]loop.Stmt(nil), body[:i]...), visit(finished)...)
				}
			}
			for _, inner := range loop.Bodies(stmt) {
				*inner = visit(*inner)
			}
		}
		return body
	}
	k.Body = visit(k.Body)
	return changed
}

// finished returns the statements after a local without the last nest, whose result is computed at each store to the
// local; nil if that is impossible.
func (s *scheduler) finished(l *loop.Local, body []loop.Stmt, names *namer) []loop.Stmt {
	if len(body) < 2 {
		return nil
	}
	before := body[:len(body)-1]
	last, axes := s.lastNest(l, body[len(body)-1])
	if last == nil || !s.storedOnce(l, before, last.To) {
		return nil
	}
	loads := 0
	loop.WalkExpr(last.X, func(e loop.Expr) {
		if load, ok := e.(*loop.Load); ok && load.From == l.Name {
			loads++
		}
	})
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		store, ok := stmt.(*loop.Store)
		if !ok || store.To != l.Name {
			return []loop.Stmt{stmt}
		}
		var result []loop.Stmt
		value := store.X
		if loads > 1 {
			ref := &loop.Ref{Name: names.name("r"), Type: value.DType()}
			result = append(result, &loop.Let{Name: ref.Name, X: value})
			value = ref
		}
		at := func(e sym.Expr) sym.Expr {
			return e.Subst(func(name sym.Name) (sym.Expr, bool) {
				axis, ok := axes[name]
				if !ok {
					return sym.Expr{}, false
				}
				return store.Index[axis], true
			})
		}
		made := &loop.Rewrite{Integer: at, Expr: func(e loop.Expr) loop.Expr {
			if load, ok := e.(*loop.Load); ok && load.From == l.Name {
				return copied(value)
			}
			return e
		}}
		index := make([]sym.Expr, len(last.Index))
		for i, e := range last.Index {
			index[i] = at(e)
		}
		return append(result, &loop.Store{To: last.To, Index: index, X: made.Value(copied(last.X))})
	}}
	return r.Body(before)
}

// lastNest returns the store of a nest that reads each element of a local once, and the axis of the local that each
// loop variable indexes; nil for other statements.
func (s *scheduler) lastNest(l *loop.Local, stmt loop.Stmt) (store *loop.Store, axes map[sym.Name]int) {
	var loops []*loop.For
	body := []loop.Stmt{stmt}
	for {
		f, ok := loop.Only(body)
		if !ok {
			break
		}
		if f.Kind != loop.Each {
			return nil, nil
		}
		loops, body = append(loops, f), f.Body
	}
	if len(body) != 1 {
		return nil, nil
	}
	store, ok := body[0].(*loop.Store)
	if !ok || store.To == l.Name || store.Mask != nil {
		return nil, nil
	}
	for a := range loop.EachAccess([]loop.Stmt{stmt}) {
		if a.Buffer != l.Name {
			continue
		}
		if a.Write || a.Tile != nil || a.Mask != nil || axes != nil && !sameIndex(a.Index, axes) {
			return nil, nil
		}
		if axes != nil {
			continue
		}
		axes = map[sym.Name]int{}
		for axis, e := range a.Index {
			f := s.loopOver(loops, e, l.Shape[axis], false)
			switch _, twice := axes[variableOf(f)]; {
			case f != nil && !twice:
				axes[f.Var] = axis
			case f == nil && isZero(e) && isOne(l.Shape[axis]):
			default:
				return nil, nil
			}
		}
	}
	if len(axes) == 0 || len(axes) != len(loops) {
		return nil, nil
	}
	return store, axes
}

// variableOf returns a loop's variable; no name for nil.
func variableOf(f *loop.For) sym.Name {
	if f == nil {
		return sym.Name{}
	}
	return f.Var
}

// sameIndex reports whether each variable is the index of its axis.
func sameIndex(index []sym.Expr, axes map[sym.Name]int) bool {
	for name, axis := range axes {
		if !isVar(index[axis], name) {
			return false
		}
	}
	return true
}

// storedOnce reports whether statements store each element of a local exactly once, write no other memory, do not read
// the local, and do not touch the buffer to.
func (s *scheduler) storedOnce(l *loop.Local, body []loop.Stmt, to string) bool {
	count, elements, simple := zero, one, true
	loop.Walk(body, func(stmt loop.Stmt) bool {
		switch stmt.(type) {
		case *loop.For, *loop.Let, *loop.Var, *loop.Set, *loop.Reduce, *loop.Store:
		default:
			simple = false
		}
		return simple
	})
	if !simple {
		return false
	}
	for a := range loop.EachAccess(body) {
		if a.Buffer == to || a.Write != (a.Buffer == l.Name) {
			return false
		}
		if a.Buffer != l.Name {
			continue
		}
		if _, ok := a.Stmt.(*loop.Store); !ok || a.Tile != nil || a.Mask != nil {
			return false
		}
		times := one
		for _, f := range a.Loops {
			times = times.Mul(f.Extent)
		}
		count = count.Add(times)
	}
	for _, e := range l.Shape {
		elements = elements.Mul(e)
	}
	return s.equal(count, elements)
}
