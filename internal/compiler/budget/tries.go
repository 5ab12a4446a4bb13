package budget

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// strategy is one order of savings.
type strategy struct {
	pieces    int   // index of waysOfPieces
	pageFirst bool  // weights are paged before results are recomputed or spilled
	most      int64 // bytes of a weight read at once if its kernel can be cut; 0: all; anyPage: not chosen yet
}

// anyPage is the size of pages of a strategy that has not chosen one.
const anyPage = -1

// waysOfPieces are the ways to compute nodes in pieces before all else, in the order in which they are tried. nil means
// that no nodes are.
var waysOfPieces = []func(k *search) (undo func(), err error){nil, (*search).chunk, (*search).batch}

// tries are the strategies that a search has tried.
type tries struct {
	*search
	orders []bool    // the values of strategy.pageFirst
	free   float64   // seconds of a run without savings
	best   *strategy // the cheapest that keeps within the budget, or the one with the fewest bytes; nil: none yet
	added  float64   // seconds that best adds to a run
	kept   *strategy // the one whose changes the module has now; nil: none
	total  int64     // the bytes that the module then takes
	clean  state     // of the module before kept
	made   int       // the pieces that the module is computed in: an index of waysOfPieces
	undo   func() error
}

// within makes the module keep within the budget by the cheapest strategy that does. If none does, it makes the module
// take the fewest bytes that a strategy reaches for any budget. It looks for these fewest bytes first if one step needs
// more than the budget, so that a refusal takes one search. within returns the bytes that the program takes.
func (k *search) within() (bytes int64, err error) {
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return 0, nil
	}
	before, free := k.snapshot(), s.seconds(k.Loop().Body)
	if s.needed(false) > k.budget.Bytes {
		t := k.begin(free)
		if bytes, err = t.fewest(); err != nil || bytes > k.budget.Bytes {
			return bytes, err
		}
		if err := t.afresh(before); err != nil {
			return 0, err
		}
	}
	t := k.begin(free)
	if err := t.ways(); err != nil {
		return 0, err
	}
	if t.best != nil {
		return t.keepBest()
	}
	if err := t.afresh(before); err != nil {
		return 0, err
	}
	return k.begin(free).fewest()
}

// begin returns the tries of a module without savings, of which a run takes free seconds.
func (k *search) begin(free float64) *tries {
	return &tries{search: k, free: free, added: math.Inf(1), undo: func() error { return nil }}
}

// fewest makes a module without savings take the fewest bytes that a strategy reaches, whatever the budget, and returns
// them. Nothing that it does depends on the budget or on earlier tries, so these bytes are a budget that works.
func (t *tries) fewest() (bytes int64, err error) {
	given := t.budget.Bytes
	t.budget.Bytes, t.frugal = 0, true
	defer func() { t.budget.Bytes = given }()
	if err := t.ways(); err != nil {
		return 0, err
	}
	return t.keepBest()
}

// afresh makes the module as it was before the search.
func (t *tries) afresh(before state) error {
	t.saved, t.frugal = nil, false
	if t.m == nil {
		return t.restore(before)
	}
	if t.made > 0 {
		return t.undo()
	}
	return t.Remake()
}

// ways tries all strategies: those without pieces first, because they keep every bit and do not make the kernels again.
// They are left out if one step needs more than the budget, unless nothing else saves as much.
func (t *tries) ways() error {
	s := newSqueezer(t.search, t.budget)
	s.bounded()
	t.orders = []bool{false}
	if slices.ContainsFunc(t.Loop().Buffers, func(b *loop.Buffer) bool {
		return b.Kind == loop.Weight && b.View == nil && b.Data.Size() >= leastPaged
	}) {
		first := s.target() <= 0 // not even an empty arena keeps within the budget before weights are paged
		t.orders = []bool{first, !first}
	}
	t.least = math.MaxInt64
	ways, needed := waysOfPieces, s.needed(false)
	if t.m == nil {
		ways = ways[:1]
	}
	for pieces := range ways {
		if pieces == 0 && needed > t.budget.Bytes {
			continue
		}
		if there, err := t.make(pieces); err != nil {
			return err
		} else if !there {
			continue // there are no pieces that save anything
		}
		if taken, err := t.all(); taken || err != nil {
			return err
		}
	}
	if needed > t.budget.Bytes && needed < t.least && (t.best == nil || t.frugal) {
		if _, err := t.make(0); err != nil {
			return err
		}
		_, err := t.all()
		return err
	}
	return nil
}

// make computes the module in pieces by one of the waysOfPieces, without other savings. It reports whether the pieces
// save anything.
func (t *tries) make(pieces int) (there bool, err error) {
	if err := errors.Join(t.discard(), t.undo()); err != nil {
		return false, err
	}
	if t.undo, err = t.inPieces(waysOfPieces[pieces]); err != nil {
		return false, err
	}
	if t.made = pieces; pieces != 0 && t.saved == nil {
		t.made = 0
		return false, nil
	}
	t.clean = t.snapshot()
	return true, nil
}

// keepBest gives the module the savings of the best strategy, and returns the bytes that it takes.
func (t *tries) keepBest() (bytes int64, err error) {
	if t.best == nil {
		_, err := t.make(0)
		s := newSqueezer(t.search, t.budget)
		s.bounded()
		bytes, failed := s.total(t.Loop().Body)
		return bytes, errors.Join(err, failed)
	}
	if t.best == t.kept {
		return t.total, nil
	}
	if t.made != t.best.pieces {
		if _, err := t.make(t.best.pieces); err != nil {
			return 0, err
		}
	} else if err := t.discard(); err != nil {
		return 0, err
	}
	t.least = math.MaxInt64
	return t.squeezed(t.best)
}

// all tries all strategies with the pieces that the module is computed in. It reports whether one of them adds little
// time, which then is taken.
func (t *tries) all() (taken bool, err error) {
	orders := t.orders
	if len(orders) > 1 && t.onlyPages() {
		orders = orders[:1] // the other order is the same
	}
	for _, pageFirst := range orders {
		if err := t.discard(); err != nil {
			return false, err
		}
		least, w := t.least, &strategy{pieces: t.made, pageFirst: pageFirst, most: anyPage}
		total, err := t.squeezed(w)
		if err != nil {
			return false, err
		}
		if t.frugal && total < least {
			t.best, t.kept, t.total = w, w, total
		}
		if t.frugal || total > t.budget.Bytes {
			continue
		}
		t.kept, t.total = w, total
		adds := t.seconds() - t.free
		if adds < t.added {
			t.best, t.added = w, adds
		}
		if adds <= littleTime*t.free {
			return true, nil
		}
	}
	return false, nil
}

// discard undoes the changes that the module has.
func (t *tries) discard() error {
	if t.kept == nil {
		return nil
	}
	t.kept = nil
	return t.restore(t.clean)
}

// onlyPages reports whether pages are the only saving: no result can be recomputed or spilled so that the peak falls.
func (k *search) onlyPages() bool {
	s := newSqueezer(k, k.budget)
	m := k.Loop()
	body, buffers := m.Body, m.Buffers
	defer func() { m.Body, m.Buffers = body, buffers }()
	return s.bounded() && s.optimal(body, s.target()) == nil && s.improve(Recompute, body, 0) == nil &&
		s.improve(SpillOut, body, 0) == nil
}

// squeezed is squeeze with entire weights paged and, if that is not enough, with smaller and smaller pieces of them:
// only with sizes that may be enough or, if none may be, with those that may take the fewest bytes, from the largest
// for as long as smaller ones take fewer, such as with less code for pieces of equal sizes. It returns the fewest bytes
// reached. If they are enough, or fewer than any strategy's before in a search for the fewest,
// the module has the changes, and w the size of pieces.
func (k *search) squeezed(w *strategy) (least int64, err error) {
	sizes := []int64{w.most}
	if w.most == anyPage {
		largest := largestWeight(k.Loop(), func(*loop.Buffer) bool { return true })
		sizes[0] = 0
		for range mostReductions {
			if largest /= pageReduction; largest < leastPaged {
				break
			}
			sizes = append(sizes, largest)
		}
	}
	s := newSqueezer(k, k.budget)
	s.bounded()
	bounds := map[int64]int64{}
	for _, most := range sizes {
		s.page = most
		bounds[most] = s.needed(true)
	}
	code := int64(0) // parts of weights hardly need less code, so the fewest bytes are not looked for with larger bounds
	if k.frugal {
		code = s.ofKernels
	}
	hopeless := !slices.ContainsFunc(sizes, func(most int64) bool { return bounds[most] <= k.budget.Bytes })
	if hopeless {
		slices.SortStableFunc(sizes, func(a, b int64) int { return cmp.Compare(bounds[a], bounds[b]) })
	}
	before := k.snapshot()
	var best *state
	lowered := true // the last size that was tried took fewer bytes than those before it
	for i, most := range sizes {
		switch {
		case len(sizes) == 1:
		case hopeless && (bounds[most] >= k.least-code || i > 0 && bounds[most] == bounds[sizes[i-1]] && !lowered),
			!hopeless && (bounds[most] > k.budget.Bytes || i > 0 && sizes[i-1] == 0 && least > 0 && most >= k.page):
			continue
		}
		try := *w
		try.most = most
		total, err := k.squeeze(try)
		if err != nil {
			return 0, err
		}
		if lowered = least == 0 || total < least; lowered {
			least = total
		}
		if total <= k.budget.Bytes {
			w.most = most
			return total, nil
		}
		if k.frugal && total < k.least {
			w.most = most
			now := k.snapshot()
			best = &now
		}
		k.least = min(k.least, total)
		if err := k.restore(before); err != nil {
			return 0, err
		}
	}
	if best != nil {
		return least, errors.Join(k.restore(*best), k.current())
	}
	return cmp.Or(least, math.MaxInt64), nil
}
