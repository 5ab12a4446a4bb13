package budget

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/sym"
)

// search looks for savings of one compilation.
type search struct {
	Compilation
	m      *ir.Module // that the kernels are made of; nil if they are not made anew
	budget Budget
	ask    func() error // whether to go on
	saved  []Saving
}

// Within has a compilation keep within a budget, by any of the savings: its kernels may be made anew of ir, which is
// changed. It returns the savings, and the bytes that the compilation then takes: more than the budget, and the least
// that it tried, if nothing is enough.
func Within(c Compilation, m *ir.Module, b Budget) (saved []Saving, bytes int64, err error) {
	k := &search{Compilation: c, m: m, budget: b, ask: m.Ask}
	bytes, err = k.within()
	return k.saved, bytes, err
}

// OfLoops is Within for a module whose kernels cannot be made anew of ir: nothing of it is computed in pieces. ask
// returns an error if the search is not to go on.
func OfLoops(c Compilation, b Budget, ask func() error) (saved []Saving, bytes int64, err error) {
	k := &search{Compilation: c, budget: b, ask: ask}
	bytes, err = k.loops()
	return k.saved, bytes, err
}

// Holds reports whether a budget leaves enough for an arena of this size, or cannot be reckoned with, since nothing
// bounds a dimension.
func Holds(c Compilation, b Budget, arena sym.Expr) bool {
	s := newSqueezer(c, b)
	return !s.bounded() || s.holds(arena)
}

// way is one way to keep within a budget.
type way struct {
	chunk bool  // stretches are computed in pieces, before all else
	batch bool  // the whole is computed in pieces of the batch, before all else
	page  bool  // weights are paged before results are computed again or spilled, not after
	most  int64 // of a weight, that is brought in at once where a kernel can do with parts; 0: all of it
}

// within has the module keep within the budget, in the first way that does. What sums up over its batch, as a training
// step does, is computed in pieces of that first. Where not even an empty arena would be small enough, so that weights
// must be paged in any case, that comes first. If what does adds more than a little time, the whole in pieces of the
// batch is tried too, and the better of the two is taken. It gives what the program takes then, or, which is more than
// the budget, the least that any way takes.
func (k *search) within() (least int64, err error) {
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return 0, nil
	}
	ways := []way{{chunk: true}, {}, {batch: true}}
	if pass.SumsUp(k.m) {
		ways = []way{{batch: true}, {chunk: true}, {}}
	}
	paging := []way{{page: true}, {chunk: true, page: true}, {batch: true, page: true}}
	pageable := slices.ContainsFunc(k.Loop().Buffers, func(b *loop.Buffer) bool {
		return b.Kind == loop.Weight && b.View == nil && len(b.Data.Bytes()) >= leastPaged
	})
	switch {
	case pageable && s.target() <= 0:
		ways = append(paging, ways...)
	case pageable:
		ways = append(ways, paging...)
	}
	little := littleTime * s.seconds()
	var fits *way
	var takes float64
	least = math.MaxInt64
	for i, w := range ways {
		if fits != nil && (!w.batch || w.page != fits.page) {
			continue
		}
		whole, undo, err := k.by(w, i == 0)
		if err != nil {
			return 0, err
		}
		if whole <= k.budget.Bytes {
			added := k.added()
			if fits == nil && (added <= little || w.batch) || fits != nil && added < takes {
				return whole, nil
			}
			if fits == nil {
				fits, takes = &w, added
			}
		}
		undo()
		least = min(least, whole)
	}
	if fits != nil {
		whole, _, err := k.by(*fits, false)
		return whole, err
	}
	return least, nil
}

// by has the program keep within its budget in one way, of kernels that are made anew unless they are as they were at
// first. It gives what it takes then; undo makes ir what it was.
func (k *search) by(w way, fresh bool) (whole int64, undo func(), err error) {
	if !fresh {
		if _, err := k.remade(0); err != nil {
			return 0, nil, err
		}
	}
	k.saved, undo = nil, func() {}
	if w.chunk {
		undo, err = k.chunk()
	} else if w.batch {
		undo, err = k.batch()
	}
	if err == nil {
		whole, err = k.squeezed(w)
	}
	return whole, undo, err
}

// added is about how much longer a run takes for what was saved, in seconds.
func (k *search) added() (seconds float64) {
	for i := range k.saved {
		seconds += k.saved[i].Seconds()
	}
	return seconds
}

// squeezed is squeeze with whole weights brought in where they are used, and if that is not enough with smaller and
// smaller parts of them. It gives the least that any takes.
func (k *search) squeezed(w way) (least int64, err error) {
	before := *k.Loop()
	savings := k.saved
	paged := map[*loop.Buffer]bool{}
	largest := int64(0)
	for _, b := range before.Buffers {
		if paged[b] = b.Paged; b.Kind == loop.Weight && b.View == nil {
			largest = max(largest, int64(len(b.Data.Bytes())))
		}
	}
	for range partings + 1 {
		whole, err := k.squeeze(w)
		if err != nil || whole <= k.budget.Bytes {
			return whole, err
		}
		if least == 0 || whole < least {
			least = whole
		}
		k.Loop().Body, k.Loop().Buffers, k.saved = before.Body, before.Buffers, savings
		for _, b := range before.Buffers {
			b.Paged = paged[b]
		}
		if !slices.Equal(k.Loop().Kernels, before.Kernels) {
			k.Loop().Kernels = before.Kernels
			if err := k.Regenerate(); err != nil {
				return 0, err
			}
		}
		if w.most == 0 {
			w.most = largest
		}
		if w.most /= partingFactor; w.most < leastPaged {
			break
		}
	}
	return least, nil
}

// chunk has what is alive at the fullest steps computed in pieces, where the module does not keep within the budget and
// takes less memory then: first in those that add the fewest operations of what should be enough, and if it is not, in
// those that keep least alive. undo makes ir what it was.
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

// chunkTo is chunk, for stretches that keep what the budget leaves, or as little as can be. It reports whether that is
// enough.
func (k *search) chunkTo(budget bool) (enough bool, undo func(), err error) {
	undo = func() {}
	for range mostChunkings {
		s := newSqueezer(k, k.budget)
		s.bounded()
		before, err := s.whole(k.Loop().Body)
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
	whole, err := s.whole(k.Loop().Body)
	return whole <= k.budget.Bytes, undo, err
}

// batch has the whole computed in pieces of the batch, where it takes less memory then: in the way that adds the fewest
// operations of those that should be enough, or in the one that takes least. undo makes ir what it was.
func (k *search) batch() (undo func(), err error) {
	undo = func() {}
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return undo, nil
	}
	before, err := s.whole(k.Loop().Body)
	if err != nil || before <= k.budget.Bytes {
		return undo, err
	}
	try := func(allowed float64) (whole int64, err error) {
		done, back := pass.Batch(k.m, allowed)
		if undo = back; done == nil {
			return before, nil
		}
		saving := savingOf(done.Chunked)
		saving.Kind, saving.Loops = BatchUp, done.Loops
		k.saved = []Saving{saving}
		if _, err := k.remade(before); err != nil {
			return 0, err
		}
		s := newSqueezer(k, k.budget)
		s.bounded()
		return s.whole(k.Loop().Body)
	}
	least, best := before, 0.0
	allowed := float64(s.target())
	for i := range mostBatchings {
		whole, err := try(allowed)
		if err != nil || whole <= k.budget.Bytes {
			return undo, err
		}
		if undo(); whole < least {
			least, best = whole, allowed
		}
		if allowed -= float64(whole - k.budget.Bytes); allowed < 0 || i == leastBatching {
			allowed = 0
		}
	}
	if least < before {
		_, err := try(best)
		return undo, err
	}
	k.saved, undo = nil, func() {}
	_, err = k.remade(before)
	return undo, err
}

// remade makes the kernels anew, and reports whether the module takes less then.
func (k *search) remade(before int64) (bool, error) {
	if err := k.Remake(); err != nil {
		return false, err
	}
	s := newSqueezer(k, k.budget)
	if !s.bounded() {
		return false, nil
	}
	after, err := s.whole(k.Loop().Body)
	return after < before, err
}

func savingOf(d pass.Chunked) Saving {
	first, last := d.Nodes[0], d.Nodes[len(d.Nodes)-1]
	return Saving{Kind: ChunkUp, Tensor: first.Outputs[0].Name, At: cmp.Or(last.Source, last.Outputs[0].Name),
		Bytes: d.Bytes, Operations: d.Operations, Share: d.Share, Pieces: d.Pieces, Rows: d.Rows, Nodes: int64(len(d.Nodes))}
}

// squeeze has the module keep within a budget, and gives what it then takes: more than the budget where nothing helps
// any more. The order of the steps has been chosen, and kernels compute in place, before it is asked: what is left is
// to compute again, to spill, and to page, which comes first where that is asked for.
func (k *search) squeeze(w way) (whole int64, err error) {
	b := k.budget
	s := newSqueezer(k, b)
	s.ask, s.pageFirst, s.page = k.ask, w.page, w.most
	if !s.bounded() {
		return 0, nil
	}
	if whole, err = s.whole(k.Loop().Body); err != nil || whole <= b.Bytes {
		return whole, err
	}
	for margin := int64(0); ; {
		want := s.target() - margin
		body, err := s.fit(margin)
		if err != nil {
			return 0, err
		}
		if err := s.regenerate(body); err != nil {
			return 0, err
		}
		if whole, err = s.whole(body); err != nil {
			return 0, err
		}
		if k.Loop().Body = body; whole <= b.Bytes {
			break
		}
		// Fewer bytes alive may still lie less well.
		if s.live(body) > want {
			return whole, nil
		}
		margin += max(whole-b.Bytes, leastMargin)
	}
	k.saved = append(k.saved, s.done...)
	if _, err := loop.VerifyModule(k.Loop()); err != nil {
		panic(diag.Internalf("after saving memory: %v", err))
	}
	return whole, nil
}

// loops is squeezed, in the better of its two ways, for a module whose kernels cannot be made anew of ir, so that
// nothing of it is computed in pieces.
func (k *search) loops() (whole int64, err error) {
	first := false
	if s := newSqueezer(k, k.budget); s.bounded() {
		first = s.target() <= 0
	}
	least := int64(math.MaxInt64)
	for _, pageFirst := range []bool{first, !first} {
		whole, err := k.squeezed(way{page: pageFirst})
		if err != nil || whole <= k.budget.Bytes {
			return whole, err
		}
		least = min(least, whole)
	}
	return least, nil
}
