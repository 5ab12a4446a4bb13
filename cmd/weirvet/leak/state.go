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

// kind is what a value is to the resource that is walked.
type kind uint8

const (
	itself  kind = iota + 1 // the resource
	pair                    // a tuple whose element at is the resource
	failed                  // the error that came with it: nil on every path that is walked, since there is a resource
	failing                 // a bool that is true only if that error is not nil
	within                  // a list of arguments, or weir.Inputs, that holds it
	closer                  // a closure that closes or keeps it
	context                 // a context that computes in it, or the address of its scope there
	derived                 // what shares its memory, or belongs to it
	yes                     // the constant true
	no                      // the constant false
	number                  // the integer at: a loop's counter in the first turn
)

// mark is what is known of a value or variable.
type mark struct {
	kind kind
	at   int
	id   ssa.Value // of what is derived: the call that gave it
}

// place is a value, or a variable of the function, or one of its fields. Field is −1 for the whole.
type place struct {
	value ssa.Value
	field int
}

func whole(v ssa.Value) place { return place{v, -1} }

// ending is what has become of the resource on a path.
type ending uint8

const (
	open ending = iota
	ended
	moved // somebody else closes it, or nobody knows
)

// state is what is known at a point of a path.
type state struct {
	marks    map[place]mark
	assumed  map[string]assumption
	pending  map[string]keeping // what is kept in places that outlive the function
	defers   []*ssa.Defer       // those whose effect depends on what variables hold at the end
	ending   ending
	deferred effect // borrows: no defer closes it
}

// assumption is the outcome of a test on this path, and the block that ends in it.
type assumption struct {
	block   *ssa.BasicBlock
	outcome bool
}

// keeping is a store of something derived.
type keeping struct {
	at    token.Pos
	where string
	id    ssa.Value
	what  types.Type
}

func (s *state) clone() *state {
	c := *s
	c.marks, c.assumed, c.pending, c.defers = maps.Clone(s.marks), maps.Clone(s.assumed), maps.Clone(s.pending),
		slices.Clone(s.defers)
	return &c
}

func (s *state) of(v ssa.Value) mark { return s.marks[whole(v)] }

func (s *state) set(v ssa.Value, m mark) {
	if m.kind == 0 {
		delete(s.marks, whole(v))
	} else {
		s.marks[whole(v)] = m
	}
}

// clear forgets a variable and its fields.
func (s *state) clear(v ssa.Value) {
	maps.DeleteFunc(s.marks, func(p place, _ mark) bool { return p.value == v })
}

// settle forgets that something is derived.
func (s *state) settle(id ssa.Value) {
	maps.DeleteFunc(s.marks, func(_ place, m mark) bool { return m.kind == derived && (id == nil || m.id == id) })
	maps.DeleteFunc(s.pending, func(_ string, k keeping) bool { return id == nil || k.id == id })
}

// key is equal for equal states.
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
