package budget

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/sym"
)

// search looks for savings of one compilation.
type search struct {
	Compilation
	m      *ir.Module // the source of the kernels; nil if they cannot be made again
	budget Budget
	ask    func() error // returns an error to stop the search
	saved  []Saving
	frugal bool           // see Found
	least  int64          // the fewest bytes of a strategy that was tried
	page   int64          // see largestPage, of the last squeeze
	code   []*loop.Kernel // the kernels that Code is of

	inPlace map[live.Overwrite]bool // see live.Alias
}

// Found is what a search for savings has made of a module.
type Found struct {
	Savings []Saving
	Bytes   int64 // that the module takes, as the search estimates it
	// Frugal: no savings that were tried keep within the budget. These leave the fewest bytes that are known, whatever
	// the budget is.
	Frugal bool
}

// Within makes a compilation keep within a budget by any of the savings; it may rewrite m and make the kernels again
// from it.
func Within(c Compilation, m *ir.Module, b Budget) (Found, error) {
	return (&search{Compilation: c, m: m, budget: b, ask: m.Ask}).found()
}

// OfLoops is Within for a module whose kernels cannot be made again from ir, so that nothing is computed in pieces. The
// search stops with the error that ask returns.
func OfLoops(c Compilation, b Budget, ask func() error) (Found, error) {
	return (&search{Compilation: c, budget: b, ask: ask}).found()
}

// found runs the search.
func (k *search) found() (Found, error) {
	k.inPlace, k.code = map[live.Overwrite]bool{}, k.Loop().Kernels
	bytes, err := k.within()
	if err != nil {
		return Found{}, err
	}
	if _, err := loop.VerifyModule(k.Loop()); err != nil {
		panic(diag.Internalf("after saving memory: %v", err))
	}
	return Found{k.saved, bytes, k.frugal}, nil
}

// Whole returns the bytes that a compilation takes beside its code and scratch before any saving; 0 if they have no
// bound.
func Whole(c Compilation, b Budget) (int64, error) {
	s := newSqueezer(c, b)
	if !s.bounded() {
		return 0, nil
	}
	total, err := s.total(c.Loop().Body)
	return total - s.ofKernels, err
}

// Holds reports whether a budget leaves enough for an arena of this size. It returns true too if a dimension has no
// bound, so that nothing can be estimated.
func Holds(c Compilation, b Budget, arena sym.Expr) bool {
	s := newSqueezer(c, b)
	return !s.bounded() || s.holds(arena)
}

// Remake is Compilation.Remake.
func (k *search) Remake() error {
	err := k.Compilation.Remake()
	k.code = k.Loop().Kernels
	return err
}

// Regenerate is Compilation.Regenerate.
func (k *search) Regenerate() error {
	k.code = k.Loop().Kernels
	return k.Compilation.Regenerate()
}

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

// inPieces computes nodes of a module without savings in pieces, and begins the list of savings. undo makes the module
// again as it was.
func (k *search) inPieces(pieces func(k *search) (func(), error)) (undo func() error, err error) {
	undo = func() error { return nil }
	if k.saved = nil; pieces == nil {
		return undo, nil
	}
	back, err := pieces(k)
	if k.saved == nil {
		return undo, err
	}
	return func() error {
		back()
		_, err := k.remade(0)
		return err
	}, err
}

// seconds estimates the time of a run of the module as it is now.
func (k *search) seconds() float64 { return newSqueezer(k, k.budget).seconds(k.Loop().Body) }

// state is a copy of all that squeeze changes of a compilation.
type state struct {
	module loop.Module
	paged  map[*loop.Buffer]bool
	saved  []Saving
}

// snapshot returns the state of the compilation now.
func (k *search) snapshot() state {
	now := state{*k.Loop(), map[*loop.Buffer]bool{}, k.saved}
	for _, b := range now.module.Buffers {
		now.paged[b] = b.Paged
	}
	return now
}

// restore undoes all calls of squeeze since the snapshot.
func (k *search) restore(to state) error {
	m := k.Loop()
	m.Body, m.Buffers, k.saved = to.module.Body, to.module.Buffers, to.saved
	for _, b := range m.Buffers {
		b.Paged = to.paged[b]
	}
	m.Kernels = to.module.Kernels
	if k.frugal {
		return nil // whose choices do not depend on the code
	}
	return k.current()
}

// current generates the code of the module's kernels if the code is of others.
func (k *search) current() error {
	if slices.Equal(k.code, k.Loop().Kernels) {
		return nil
	}
	return k.Regenerate()
}

// squeezed is squeeze with entire weights paged and, if that is not enough, with smaller and smaller pieces of them:
// only with sizes that may be enough or, if none may be, with the largest of those that may take the fewest bytes. It
// returns the fewest bytes reached. If they are enough, or fewer than any strategy's before in a search for the fewest,
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
	for i, most := range sizes {
		switch {
		case len(sizes) == 1:
		case hopeless && (bounds[most] >= k.least-code || i > 0 && bounds[most] == bounds[sizes[i-1]]),
			!hopeless && (bounds[most] > k.budget.Bytes || i > 0 && sizes[i-1] == 0 && least > 0 && most >= k.page):
			continue
		}
		try := *w
		try.most = most
		total, err := k.squeeze(try)
		if err != nil {
			return 0, err
		}
		if least == 0 || total < least {
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

// chunk computes the nodes at the fullest steps in pieces, if the module exceeds the budget and pieces reduce it: first
// those that add the fewest operations among those expected to be enough; if they are not, those that keep the fewest
// bytes live. undo restores ir.
func (k *search) chunk() (undo func(), err error) {
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return func() {}, nil
	}
	if s.target() > 0 {
		enough, undo, err := k.chunkTo(true)
		if err != nil || enough {
			return undo, err
		}
		undo()
		k.saved = nil
		if _, err := k.remade(0); err != nil {
			return undo, err
		}
	}
	_, undo, err = k.chunkTo(false)
	return undo, err
}

// chunkTo is chunk for nodes that keep within the budget, or, if budget is false, keep as few bytes live as possible.
// It reports whether the module then fits.
func (k *search) chunkTo(budget bool) (enough bool, undo func(), err error) {
	undo = func() {}
	for range mostChunkings {
		s := newSqueezer(k, k.budget)
		s.bounded()
		before, err := s.total(k.Loop().Body)
		if err != nil || before <= k.budget.Bytes {
			return err == nil, undo, err
		}
		full, allowed := s.fullest(), 0.0
		if budget {
			allowed = chunkMargin * float64(s.target())
		}
		done, back := pass.Chunk(k.m, func(n *ir.Node) bool { return full[n.Source] }, allowed)
		if done == nil {
			return false, undo, nil
		}
		less, err := k.remade(before)
		if err != nil {
			return false, undo, err
		}
		if !less {
			back()
			_, err := k.remade(before)
			return false, undo, err
		}
		earlier := undo
		undo = func() { back(); earlier() }
		for _, d := range done {
			k.saved = append(k.saved, savingOf(d))
		}
	}
	s := newSqueezer(k, k.budget)
	s.bounded()
	total, err := s.total(k.Loop().Body)
	return total <= k.budget.Bytes, undo, err
}

// batch computes the entire module in pieces of its batch, if it exceeds the budget and pieces reduce it: with the
// fewest additional operations among the choices expected to be enough, else with the fewest bytes. undo restores ir.
func (k *search) batch() (undo func(), err error) {
	undo = func() {}
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return undo, nil
	}
	before, err := s.total(k.Loop().Body)
	if err != nil || before <= k.budget.Bytes {
		return undo, err
	}
	type division struct {
		saving Saving
		nodes  int
	}
	totals, made := map[division]int64{}, division{} // made is what the kernels are made of
	try := func(allowed float64, make bool) (total int64, err error) {
		done, back := pass.Batch(k.m, allowed)
		if undo = back; done == nil {
			return before, nil
		}
		saving := savingOf(done.Chunked)
		saving.Kind, saving.Loops = BatchUp, done.Loops
		k.saved = []Saving{saving}
		now := division{saving, len(k.m.Main.Body.Nodes)}
		if total, known := totals[now]; known && (!make || now == made) {
			return total, nil
		}
		if _, err := k.remade(before); err != nil {
			return 0, err
		}
		s := newSqueezer(k, k.budget)
		s.bounded()
		total, err = s.total(k.Loop().Body)
		made, totals[now] = now, total
		return total, err
	}
	least, best := before, 0.0
	allowed := float64(s.target())
	if allowed <= 0 { // kernels of pieces may have less code and need less scratch
		allowed = float64(s.target()+s.ofKernels/int64(s.budget.Calls)) / 2
	}
	for i := range mostBatchings {
		total, err := try(allowed, false)
		if err != nil || total <= k.budget.Bytes {
			return undo, err
		}
		if undo(); total < least {
			least, best = total, allowed
		}
		if allowed -= float64(total - k.budget.Bytes); allowed < 0 || i == leastBatching {
			allowed = 0
		}
	}
	if least < before {
		_, err := try(best, true)
		return undo, err
	}
	k.saved, undo = nil, func() {}
	_, err = k.remade(before)
	return undo, err
}

// remade makes the kernels again and reports whether the module then takes fewer bytes than before.
func (k *search) remade(before int64) (bool, error) {
	if err := k.Remake(); err != nil {
		return false, err
	}
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return false, nil
	}
	after, err := s.total(k.Loop().Body)
	return after < before, err
}

// savingOf returns the saving of nodes that are computed in pieces.
func savingOf(d pass.Chunked) Saving {
	first, last := d.Nodes[0], d.Nodes[len(d.Nodes)-1]
	return Saving{Kind: ChunkUp, Tensor: first.Outputs[0].Name, At: cmp.Or(last.Source, last.Outputs[0].Name),
		Bytes: d.Bytes, Operations: d.Operations, Share: d.Share, Pieces: d.Pieces, Rows: d.Rows, Nodes: int64(len(d.Nodes))}
}

// squeeze recomputes, spills and pages buffers until the module keeps within the budget, and returns the bytes it
// takes: more than the budget if nothing helps any more. The order of the steps is already chosen, and kernels already
// compute in place.
func (k *search) squeeze(w strategy) (total int64, err error) {
	b := k.budget
	s := newSqueezer(k, b)
	s.ask, s.pageFirst, s.page = k.ask, w.pageFirst, w.most
	if !s.bounded() {
		return 0, nil
	}
	if total, err = s.total(k.Loop().Body); err != nil || total <= b.Bytes {
		return total, err
	}
	for margin := int64(0); ; {
		want := s.target() - margin
		body, err := s.fit(margin)
		if err != nil {
			return 0, err
		}
		if total, err = s.total(body); err != nil {
			return 0, err
		}
		k.page = s.largestPage(body)
		if bare := total - s.ofKernels; bare > b.Bytes && bare >= k.least {
			return total, nil // whatever the code of the new kernels takes
		}
		if err := s.regenerate(body); err != nil {
			return 0, err
		}
		if total, err = s.total(body); err != nil {
			return 0, err
		}
		// The plan of fewer live bytes may still be larger, because of fragmentation.
		if k.Loop().Body = body; total <= b.Bytes || s.live(body) > want {
			break
		}
		margin += max(total-b.Bytes, leastMargin)
	}
	if k.saved = append(k.saved, s.done...); !k.Allowed() {
		return math.MaxInt64, nil
	}
	return total, nil
}
