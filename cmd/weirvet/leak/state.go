package leak

import (
	"fmt"
	"go/token"
	"go/types"
	"maps"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// kind is the relation of a value to the resource of a walk.
type kind uint8

const (
	itself  kind = iota + 1 // the resource
	pair                    // a tuple whose element at is the resource
	failed                  // its error: nil on every walked path, since the resource exists
	failing                 // a bool that is true only if its error is not nil
	within                  // a list of arguments, or weir.Inputs, that holds it
	closer                  // a closure that closes or keeps it
	context                 // a context that computes in it, or the address of its scope there
	derived                 // a value that shares its memory, or belongs to it
	yes                     // the constant true
	no                      // the constant false
	number                  // the integer at: a loop's counter in the first iteration
)

// mark is the known relation of a value or variable.
type mark struct {
	kind kind
	at   int
	id   ssa.Value // of a derived value: the call that returned it
}

// location is a value, or a variable of the function, or one of its fields. Field is −1 for the entire variable.
type location struct {
	value ssa.Value
	field int
}

func entire(v ssa.Value) location { return location{v, -1} }

// ending is the state of the resource on a path.
type ending uint8

const (
	open ending = iota
	ended
	moved // another function closes it, or it is unknown who does
)

// state is the knowledge at a point of a path.
type state struct {
	marks    map[location]mark
	assumed  map[string]assumption
	pending  map[string]keeping // stores into variables that outlive the function
	defers   []*ssa.Defer       // the defers whose effect depends on the final values of variables
	ending   ending
	deferred effect // borrows: no defer closes it
}

// assumption is the outcome of a test on this path, and the block that ends in it.
type assumption struct {
	block   *ssa.BasicBlock
	outcome bool
}

// keeping is a store of a derived value.
type keeping struct {
	at    token.Pos
	where string
	id    ssa.Value
	what  types.Type
}

// clone returns a deep copy.
func (s *state) clone() *state {
	c := *s
	c.marks, c.assumed, c.pending, c.defers = maps.Clone(s.marks), maps.Clone(s.assumed), maps.Clone(s.pending),
		slices.Clone(s.defers)
	return &c
}

func (s *state) of(v ssa.Value) mark { return s.marks[entire(v)] }

// value returns the mark of a value, or of what the variable that it points to holds.
func (s *state) value(v ssa.Value) mark {
	m := s.of(v)
	if variable, ok := v.(*ssa.Alloc); ok && m.kind == 0 {
		if in := s.inside(variable); in.kind == derived {
			return in
		}
	}
	return m
}

// set sets the mark of a value; the zero mark removes it.
func (s *state) set(v ssa.Value, m mark) {
	if m.kind == 0 {
		delete(s.marks, entire(v))
	} else {
		s.marks[entire(v)] = m
	}
}

// clear forgets a variable and its fields.
func (s *state) clear(v ssa.Value) {
	maps.DeleteFunc(s.marks, func(p location, _ mark) bool { return p.value == v })
}

// copyFields gives the fields of a variable the marks of another's; it returns false if that has none.
func (s *state) copyFields(from ssa.Value, to *ssa.Alloc) (found bool) {
	for p, m := range maps.Clone(s.marks) {
		if p.value == from && p.field >= 0 {
			s.marks[location{to, p.field}], found = m, true
		}
	}
	return found
}

// settle removes the marks of values derived by a call; nil stands for all.
func (s *state) settle(id ssa.Value) {
	maps.DeleteFunc(s.marks, func(_ location, m mark) bool { return m.kind == derived && (id == nil || m.id == id) })
	maps.DeleteFunc(s.pending, func(_ string, k keeping) bool { return id == nil || k.id == id })
}

// key returns a string that is equal for equal states.
func (s *state) key(number func(any) int) string {
	var parts []string
	for p, m := range s.marks {
		parts = append(parts, fmt.Sprintf("%d.%d=%d.%d.%d", number(p.value), p.field, m.kind, m.at, number(m.id)))
	}
	for name, a := range s.assumed {
		parts = append(parts, fmt.Sprintf("%s@%d=%v", name, a.block.Index, a.outcome))
	}
	for name, k := range s.pending {
		parts = append(parts, fmt.Sprintf("%s>%d", name, k.at))
	}
	for _, d := range s.defers {
		parts = append(parts, fmt.Sprintf("d%d", number(d)))
	}
	slices.Sort(parts)
	return fmt.Sprintf("%d%d%s", s.ending, s.deferred, strings.Join(parts, ","))
}
