package array

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

// registry is the set of open scopes without a parent.
type registry struct {
	mu  sync.Mutex
	all map[*Scope]struct{}
}

var roots = &registry{all: map[*Scope]struct{}{}}

// add adds an open scope.
func (r *registry) add(s *Scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all[s] = struct{}{}
}

// remove removes a closed scope.
func (r *registry) remove(s *Scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, s)
}

// list returns the open scopes, ordered by the line that opened them.
func (r *registry) list() []*Scope {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*Scope
	for s := range r.all {
		out = append(out, s)
	}
	slices.SortStableFunc(out, func(a, b *Scope) int {
		return cmp.Or(cmp.Compare(a.opened.line(), b.opened.line()), cmp.Compare(a.name, b.name))
	})
	return out
}

// everyScope calls f with each open scope.
func everyScope(f func(s *Scope)) {
	for _, s := range roots.list() {
		s.each(f)
	}
}

// Stats describes a scope's arrays, loans and inner scopes.
type Stats struct {
	Name     string
	Line     string // the line that opened the scope, "file:line"
	Bytes    int64  // the size of the arrays that it owns
	Arrays   []Group
	Loans    []string // the arrays that other scopes lent to it
	Refused  string   // the line and the loans of the last Close that loans prevented; "" if there was none
	Children []Stats  // the scopes inside, in the order in which they were opened
}

// Group describes arrays of one type that one line made.
type Group struct {
	Type  string // like "f32[64,784]"
	Line  string
	Count int
	Bytes int64
	Loans int // the number of loans of these arrays to other scopes
	// Idle is the number of the arrays that were read, but not any more since the newest of the group was made. In a
	// loop that makes an array from the one before, all but the newest are idle.
	Idle int
}

// Stats describes the scope and the scopes inside it.
func (s *Scope) Stats() Stats {
	owned, borrowed := s.holds()
	s.mu.Lock()
	out := Stats{Name: s.name, Line: s.opened.line(), Bytes: s.bytes, Refused: s.refused}
	children := slices.Clone(s.children)
	s.mu.Unlock()
	out.Arrays = grouped(owned)
	slices.SortFunc(out.Arrays, func(a, b Group) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Type, b.Type))
	})
	for _, l := range borrowed {
		out.Loans = append(out.Loans, fmt.Sprintf("%v by %v at %s", l.array, l.from, l.at.line()))
	}
	for _, child := range children {
		out.Children = append(out.Children, child.Stats())
	}
	return out
}

// grouped returns the groups of arrays of one scope, newest first.
func grouped(arrays []*Array) (out []Group) {
	type key struct {
		made   site
		typeOf string
	}
	groups := map[key]int{} // the index in out
	newest := map[key]uint64{}
	for _, a := range arrays {
		k := key{a.made, a.String()}
		i, known := groups[k]
		if !known {
			i = len(out)
			groups[k], newest[k] = i, a.ordinal
			out = append(out, Group{Type: k.typeOf, Line: a.made.line()})
		}
		out[i].add(a, newest[k])
	}
	return out
}

// add counts an array; newest is the ordinal of the newest one of the group.
func (g *Group) add(a *Array, newest uint64) {
	a.lock.Lock()
	defer a.lock.Unlock()
	g.Count++
	g.Bytes += a.bytes
	g.Loans += len(a.loans)
	if read := a.read.Load(); read > 0 && read < newest {
		g.Idle++
	}
}

// String returns the group as a line of a dump.
func (g Group) String() string {
	text := fmt.Sprintf("%d × %s: %d bytes, made at %s", g.Count, g.Type, g.Bytes, g.Line)
	if g.Loans > 0 {
		text += fmt.Sprintf(", lent %d times", g.Loans)
	}
	if g.Idle > 0 {
		text += fmt.Sprintf(", %d of them not read any more", g.Idle)
	}
	return text
}

// Count returns the number of arrays that the scope owns, without the scopes inside it.
func (s *Scope) Count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}

// Dump writes the scope and the scopes inside it as a tree: for each, the arrays by the line that made them, largest
// first, and the loans.
func (s *Scope) Dump(w io.Writer) error { return s.Stats().write(w, 0) }

// Dump writes all scopes that are open.
func Dump(w io.Writer) error {
	for _, s := range roots.list() {
		if err := s.Dump(w); err != nil {
			return err
		}
	}
	return nil
}

// write writes a scope and its inner scopes, indented by depth.
func (s Stats) write(w io.Writer, depth int) error {
	indent := strings.Repeat("  ", depth)
	count := 0
	for _, g := range s.Arrays {
		count += g.Count
	}
	text := fmt.Sprintf("%s%s: %d bytes, %d arrays, %d loans, opened at %s\n", indent, s.Name, s.Bytes, count,
		len(s.Loans), s.Line)
	for _, g := range s.Arrays {
		text += fmt.Sprintf("%s  %v\n", indent, g)
	}
	for _, l := range s.Loans {
		text += fmt.Sprintf("%s  on loan: %s\n", indent, l)
	}
	if s.Refused != "" {
		text += fmt.Sprintf("%s  Close was refused %s\n", indent, s.Refused)
	}
	if _, err := io.WriteString(w, text); err != nil {
		return err
	}
	for _, child := range s.Children {
		if err := child.write(w, depth+1); err != nil {
			return err
		}
	}
	return nil
}
