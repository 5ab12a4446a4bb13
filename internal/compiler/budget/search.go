package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/schedule/recipes"
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
		costs := recipes.CostsOn(k.Code().Machine)
		done, back := pass.Chunk(k.m, costs, func(n *ir.Node) bool { return full[n.Source] }, allowed)
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
