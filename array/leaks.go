package array

import (
	"fmt"
	"strings"
	"sync"

	"github.com/weirml/weir"
)

// TB is the subset of *testing.T and *testing.B that AssertNoLeaks uses.
type TB interface {
	Helper()
	Cleanup(f func())
	Errorf(format string, args ...any)
}

// AssertNoLeaks makes the test fail if a scope opened after the call is still open when the test ends, if a scope
// opened before holds more arrays or loans, or if the process holds more memory in tensors. It also fails if a loop
// grew a scope: if a scope that was closed meanwhile held at least 100 arrays of one type that one line made, and that
// were read but not any more since the line made another. The error lists each scope with its arrays and lines. Tests
// that run in parallel are counted too.
func AssertNoLeaks(t TB) {
	t.Helper()
	type holding struct{ arrays, loans int }
	has := func(s *Scope) holding {
		s.mu.Lock()
		defer s.mu.Unlock()
		return holding{s.count, len(s.borrowed)}
	}
	before := map[*Scope]holding{}
	everyScope(func(s *Scope) { before[s] = has(s) })
	bytes, began := weir.Usage().Tensors, growths.watch()
	t.Cleanup(func() {
		t.Helper()
		everyScope(func(s *Scope) {
			old, known := before[s]
			_, inKnown := before[s.parent]
			switch now := has(s); {
			case known && (now.arrays > old.arrays || now.loans > old.loans):
				t.Errorf("a scope opened before the test holds %d arrays and %d loans more: %s", now.arrays-old.arrays,
					now.loans-old.loans, s.dumped())
			case !known && (s.parent == nil || inKnown): // the dump includes inner scopes
				t.Errorf("a scope is open: %s", s.dumped())
			}
		})
		for _, g := range growths.since(began) {
			t.Errorf("a loop grew %s: close the arrays, or open a scope in each turn", g)
		}
		if now := weir.Usage().Tensors; now > bytes {
			t.Errorf("tensors take %d bytes, %d more than when the test began", now, now-bytes)
		}
	})
}

// dumped returns the scope's dump.
func (s *Scope) dumped() string {
	var text strings.Builder
	_ = s.Dump(&text)
	return text.String()
}

// manyIdle is the number of idle arrays of one group from which a loop is said to have grown a scope.
const manyIdle = 100

// growth lists the scopes that loops grew, from the first call of AssertNoLeaks whose test still runs.
type growth struct {
	mu       sync.Mutex
	watchers int
	list     []string
}

var growths growth

// watch begins to record; it returns the position in the list, for since.
func (g *growth) watch() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.watchers++
	return len(g.list)
}

// since ends what watch began, and returns the scopes recorded meanwhile.
func (g *growth) since(began int) []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := append([]string(nil), g.list[began:]...)
	if g.watchers--; g.watchers == 0 {
		g.list = nil
	}
	return out
}

// record adds a scope that is about to be closed, if a loop grew it.
func (g *growth) record(s *Scope) {
	s.mu.Lock()
	few := s.count < manyIdle || s.capped || s.trace != nil
	s.mu.Unlock()
	if few || !g.watched() {
		return
	}
	owned, _ := s.holds()
	for _, group := range grouped(owned) {
		if group.Idle >= manyIdle {
			g.add(fmt.Sprintf("%v: it held %v", s, group))
		}
	}
}

// watched reports whether a call of watch has not ended.
func (g *growth) watched() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.watchers > 0
}

// add adds a scope's description.
func (g *growth) add(text string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(g.list, text)
}
