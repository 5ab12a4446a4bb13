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
	least  int64 // the fewest bytes of a strategy that was tried
	page   int64 // see largestPage, of the last squeeze

	inPlace map[live.Overwrite]bool // see live.Alias
}

// Within makes a compilation keep within a budget by any of the savings; it may rewrite m and make the kernels again
// from it. It returns the savings and the bytes that the compilation then takes: if nothing is enough, the fewest that
// it reached, which are more than the budget.
func Within(c Compilation, m *ir.Module, b Budget) (saved []Saving, bytes int64, err error) {
	k := &search{Compilation: c, m: m, budget: b, ask: m.Ask, inPlace: map[live.Overwrite]bool{}}
	bytes, err = k.within()
	return k.saved, bytes, err
}

// OfLoops is Within for a module whose kernels cannot be made again from ir, so that nothing is computed in pieces. The
// search stops with the error that ask returns.
func OfLoops(c Compilation, b Budget, ask func() error) (saved []Saving, bytes int64, err error) {
	k := &search{Compilation: c, budget: b, ask: ask, inPlace: map[live.Overwrite]bool{}}
	bytes, err = k.loops()
	return k.saved, bytes, err
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

// strategy is one order of savings.
type strategy struct {
	pieces    int   // index of waysOfPieces
	pageFirst bool  // weights are paged before results are recomputed or spilled
	most      int64 // bytes of a weight read at once if its kernel can be cut; 0: all
}

// waysOfPieces are the ways to compute nodes in pieces before all else, in the order in which they are tried. nil means
// that no nodes are.
var waysOfPieces = []func(k *search) (undo func(), err error){nil, (*search).chunk, (*search).batch}

// tries are the strategies that a search has tried.
type tries struct {
	*search
	orders   []bool    // the values of strategy.pageFirst
	free     float64   // seconds of a run without savings
	cheapest *strategy // of those that keep within the budget; nil: none does
	added    float64   // seconds that cheapest adds to a run
	kept     *strategy // the one whose changes the module has now; nil: none
	total    int64     // the bytes that the module then takes
	clean    state     // of the module before kept
}

// within makes the module keep within the budget by the cheapest strategy that does. The price of a strategy is the
// estimated time that it adds to a run. The first strategy that adds at most littleTime is taken, and no other is tried
// then. Strategies without pieces come first, because they keep every bit and do not make the kernels again; they are
// left out if one step needs more than the budget, unless nothing else saves anything. within returns the bytes that
// the program takes; if they are more than the budget, the fewest of any strategy tried.
func (k *search) within() (least int64, err error) {
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return 0, nil
	}
	t := &tries{search: k, orders: []bool{false}, free: s.seconds(k.Loop().Body), added: math.Inf(1)}
	if slices.ContainsFunc(k.Loop().Buffers, func(b *loop.Buffer) bool {
		return b.Kind == loop.Weight && b.View == nil && len(b.Data.Bytes()) >= leastPaged
	}) {
		first := s.target() <= 0 // not even an empty arena keeps within the budget before weights are paged
		t.orders = []bool{first, !first}
	}
	k.least = math.MaxInt64
	needed := s.needed(false)
	made := 0 // the pieces that the module is computed in
	undo := func() error { return nil }
	for pieces, way := range waysOfPieces {
		if pieces == 0 && needed > k.budget.Bytes {
			continue
		}
		if err := errors.Join(t.discard(), undo()); err != nil {
			return 0, err
		}
		if undo, err = k.inPieces(way); err != nil {
			return 0, err
		}
		if made = pieces; pieces != 0 && k.saved == nil {
			made = 0
			continue // there are no pieces that save anything
		}
		if taken, err := t.all(pieces); taken || err != nil {
			return t.total, err
		}
	}
	if t.cheapest == nil && needed > k.budget.Bytes && needed < k.least {
		if err := undo(); err != nil {
			return 0, err
		}
		k.saved = nil
		_, err := t.all(0)
		return k.least, err
	}
	if t.cheapest == nil {
		return k.least, nil
	}
	if t.cheapest == t.kept {
		return t.total, nil
	}
	if err := t.discard(); err != nil {
		return 0, err
	}
	if t.cheapest.pieces != made {
		if err := undo(); err != nil {
			return 0, err
		}
		if _, err := k.inPieces(waysOfPieces[t.cheapest.pieces]); err != nil {
			return 0, err
		}
	}
	return k.squeezed(t.cheapest)
}

// all tries all strategies with the pieces that the module is computed in. It reports whether one of them adds little
// time, which then is taken.
func (t *tries) all(pieces int) (taken bool, err error) {
	t.clean = t.snapshot()
	orders := t.orders
	if len(orders) > 1 && t.onlyPages() {
		orders = orders[:1] // the other order is the same
	}
	for _, pageFirst := range orders {
		if err := t.discard(); err != nil {
			return false, err
		}
		w := &strategy{pieces: pieces, pageFirst: pageFirst}
		total, err := t.squeezed(w)
		if err != nil {
			return false, err
		}
		if total > t.budget.Bytes {
			continue
		}
		t.kept, t.total = w, total
		adds := t.seconds() - t.free
		if adds <= littleTime*t.free {
			return true, nil
		}
		if adds < t.added {
			t.cheapest, t.added = w, adds
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
	if slices.Equal(m.Kernels, to.module.Kernels) {
		return nil
	}
	m.Kernels = to.module.Kernels
	return k.Regenerate()
}

// squeezed is squeeze with entire weights paged and, if that is not enough, with smaller and smaller pieces of them:
// only with sizes that may be enough or, if none may be, with the largest of those that may take the fewest bytes. It
// returns the fewest bytes reached, and keeps the size of pieces that is enough in w.
func (k *search) squeezed(w *strategy) (least int64, err error) {
	sizes := []int64{w.most}
	if w.most == 0 {
		largest := largestWeight(k.Loop(), func(*loop.Buffer) bool { return true })
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
	hopeless := !slices.ContainsFunc(sizes, func(most int64) bool { return bounds[most] <= k.budget.Bytes })
	if hopeless {
		slices.SortStableFunc(sizes, func(a, b int64) int { return cmp.Compare(bounds[a], bounds[b]) })
	}
	before := k.snapshot()
	for i, most := range sizes {
		switch {
		case w.most != 0:
		case hopeless && (bounds[most] >= k.least || i > 0 && bounds[most] == bounds[sizes[i-1]]),
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
		if k.least = min(k.least, total); total <= k.budget.Bytes {
			w.most = most
			return total, nil
		}
		if err := k.restore(before); err != nil {
			return 0, err
		}
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
		if k.Loop().Body = body; total <= b.Bytes {
			break
		}
		// The plan of fewer live bytes may still be larger, because of fragmentation.
		if s.live(body) > want {
			return total, nil
		}
		margin += max(total-b.Bytes, leastMargin)
	}
	k.saved = append(k.saved, s.done...)
	if _, err := loop.VerifyModule(k.Loop()); err != nil {
		panic(diag.Internalf("after saving memory: %v", err))
	}
	return total, nil
}

// loops is squeezed for a module whose kernels cannot be made again from ir; it tries paging first and paging last, and
// returns the fewer bytes.
func (k *search) loops() (total int64, err error) {
	first := false
	if s := newSqueezer(k, k.budget); s.bounded() {
		first = s.target() <= 0
	} else {
		return 0, nil
	}
	least := int64(math.MaxInt64)
	k.least = least
	for _, pageFirst := range []bool{first, !first} {
		total, err := k.squeezed(&strategy{pageFirst: pageFirst})
		if err != nil || total <= k.budget.Bytes {
			return total, err
		}
		least = min(least, total)
	}
	return least, nil
}
