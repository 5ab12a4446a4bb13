package leak

import (
	"fmt"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// store updates the state by a store to a variable, a field or an element.
func (w *walk) store(i *ssa.Store, s *state) {
	m := s.value(i.Val)
	if m.kind == 0 {
		m = constant(i.Val)
	}
	switch addr := i.Addr.(type) {
	case *ssa.Alloc:
		s.clear(addr)
		if load, ok := i.Val.(*ssa.UnOp); !ok || !s.copyFields(load.X, addr) {
			s.set(addr, m)
		}
		if m.kind == itself && w.escapes(addr, i) {
			s.ending = moved
		}
		return
	case *ssa.FieldAddr:
		if variable, ok := addr.X.(*ssa.Alloc); ok {
			w.storeField(variable, addr.Field, m, s)
			return
		}
	case *ssa.IndexAddr:
		if variable, ok := addr.X.(*ssa.Alloc); ok {
			if variable.Comment == "varargs" && m.kind == itself {
				m.kind = within
			}
			field := -2
			if c, ok := addr.Index.(*ssa.Const); ok {
				field = -3 - int(c.Int64())
			}
			w.storeField(variable, field, m, s)
			return
		}
		if l := s.of(addr.X); l.kind == derived {
			return
		} else if m.kind == derived && !outlives(addr.X) {
			s.set(addr.X, m)
			if isVariableLoad(addr.X) {
				s.set(addr.X.(*ssa.UnOp).X, m)
			}
			return
		}
	}
	w.keep(i, keyOf(i.Addr, 8), i.Val, m, s)
}

// storeField updates the state by a store to a field or element of a variable of the function. A resource that is
// stored there has another owner.
func (w *walk) storeField(variable *ssa.Alloc, field int, m mark, s *state) {
	switch m.kind {
	case itself, closer:
		if m.kind == itself && field >= 0 && onlyFields(variable) {
			break // a struct of this function, such as one that embeds a scope
		}
		s.ending, m = moved, mark{}
	case 0:
		delete(s.marks, location{variable, field})
		return
	}
	s.marks[location{variable, field}] = m
}

// onlyFields reports whether a function uses a struct only field by field, so that nobody else sees it.
func onlyFields(variable *ssa.Alloc) bool {
	for _, r := range *variable.Referrers() {
		switch r := r.(type) {
		case *ssa.FieldAddr, *ssa.DebugRef:
		case *ssa.Store:
			if r.Addr != variable {
				return false
			}
		case *ssa.UnOp: // a literal that is copied into a variable
			for _, use := range *r.Referrers() {
				if _, ok := use.(*ssa.Field); ok {
					continue
				}
				store, ok := use.(*ssa.Store)
				if to, mine := storeTarget(store, ok); !mine || to == variable || !onlyFields(to) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

// storeTarget returns the variable that a store replaces.
func storeTarget(store *ssa.Store, ok bool) (*ssa.Alloc, bool) {
	if !ok {
		return nil, false
	}
	to, ok := store.Addr.(*ssa.Alloc)
	return to, ok
}

// keep records a store to a variable, map or channel that outlives the function.
func (w *walk) keep(i ssa.Instruction, key string, v ssa.Value, m mark, s *state) {
	delete(s.pending, key)
	switch m.kind {
	case itself, within, closer:
		s.ending = moved
	case derived:
		s.pending[key] = keeping{at: i.Pos(), where: storageOf(i), id: m.id, what: v.Type()}
	}
}

// outlives reports whether an address is in a global variable, or reached from a parameter or captured variable.
func outlives(v ssa.Value) bool {
	for range 20 {
		switch x := v.(type) {
		case *ssa.Global, *ssa.Parameter, *ssa.FreeVar:
			return true
		case *ssa.FieldAddr:
			v = x.X
		case *ssa.IndexAddr:
			v = x.X
		case *ssa.UnOp:
			v = x.X
		default:
			return false
		}
	}
	return false
}

// storageOf returns the name of the kind of variable that an instruction stores to, for messages.
func storageOf(i ssa.Instruction) string {
	switch i := i.(type) {
	case *ssa.Store:
		switch i.Addr.(type) {
		case *ssa.Global:
			return "a global variable"
		case *ssa.FreeVar:
			return "a variable outside the closure"
		case *ssa.IndexAddr:
			return "a slice"
		}
		return "a field"
	case *ssa.MapUpdate:
		return "a map"
	}
	return "a channel"
}

// escapes reports whether an earlier closure captures a variable, closes or keeps it, and is passed to another
// function.
func (w *walk) escapes(variable *ssa.Alloc, at *ssa.Store) bool {
	for _, r := range *variable.Referrers() {
		closure, ok := r.(*ssa.MakeClosure)
		if !ok || !precedes(closure, at) {
			continue
		}
		i := slices.Index(closure.Bindings, ssa.Value(variable))
		if len(runs(closure)) < len(*closure.Referrers()) && w.a.effectOfBinding(closure, i) != borrows {
			return true
		}
	}
	return false
}

// put updates the state by a store to a map.
func (w *walk) put(i *ssa.MapUpdate, s *state) {
	m := s.value(i.Value)
	if is(i.Map.Type(), "Inputs") {
		if _, mine := i.Map.(*ssa.MakeMap); !mine && m.kind == itself && !isVariableLoad(i.Map) {
			s.ending = moved // the maker of the map may close its elements
			return
		}
		if m.kind == itself {
			m.kind = within
		}
		if m.kind != 0 && s.of(i.Map).kind == 0 {
			s.set(i.Map, m)
			if isVariableLoad(i.Map) {
				s.set(i.Map.(*ssa.UnOp).X, m)
			}
		}
		return
	}
	if _, mine := i.Map.(*ssa.MakeMap); mine && m.kind == derived {
		s.set(i.Map, m)
		return
	}
	if m.kind != derived || outlives(i.Map) {
		w.keep(i, keyOf(i.Map, 8)+"["+keyOf(i.Key, 4)+"]", i.Value, m, s)
	}
}

// isVariableLoad reports whether a value is read from a variable of the function.
func isVariableLoad(v ssa.Value) bool {
	load, ok := v.(*ssa.UnOp)
	return ok && isVariable(load.X)
}

// send updates the state by a send to a channel.
func (w *walk) send(v ssa.Value, i ssa.Instruction, s *state) {
	w.keep(i, fmt.Sprintf("%p", i), v, s.value(v), s)
}
