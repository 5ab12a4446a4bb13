package compiler

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/pass"
	"github.com/weirml/weir/internal/sym"
)

// way is one way to keep within a budget.
type way struct {
	chunk bool  // stretches are computed in pieces, before all else
	batch bool  // the whole is computed in pieces of the batch, before all else
	page  bool  // weights are paged before results are computed again or spilled, not after
	most  int64 // of a weight, that is brought in at once where a kernel can do with parts; 0: all of it
}

// keepWithin has the program keep within its budget. Where that cannot be, the error names the least that a way took: what is computed in pieces or again depends on the budget, so
// whoever shows the number tries it first.
func (c *Compiled) keepWithin(m *ir.Module, o Options) error {
	least, err := c.within(m, o)
	if err != nil || least <= o.Budget.Bytes {
		return err
	}
	return OverBudget(least, "%d bytes are allowed, and whatever is computed in pieces or again, spilled or paged, it takes %d", o.Budget.Bytes, least)
}

// OverBudget is the error of a budget that is not enough, where so many bytes may be.
func OverBudget(least int64, format string, args ...any) *diag.Error {
	e := diag.New(diag.ErrBudget, format, args...).WithFix("a budget of %d bytes works", least)
	e.Budget = least
	return e
}

// within has the program keep within its budget, in the first way that does. What sums up over its batch, as a training step does, is computed in pieces of that first. Where not even an
// empty arena would be small enough, so that weights must be paged in any case, that comes first. Where what does adds more than a little time, the whole in pieces of the batch is tried
// too, and the better of the two is taken. It gives what the program takes then, or, which is more than the budget, the least that any way takes.
func (c *Compiled) within(m *ir.Module, o Options) (least int64, err error) {
	s := newSqueezer(c, *o.Budget)
	if !s.bounded() {
		return 0, nil
	}
	ways := []way{{chunk: true}, {}, {batch: true}}
	if pass.SumsUp(m) {
		ways = []way{{batch: true}, {chunk: true}, {}}
	}
	paging := []way{{page: true}, {chunk: true, page: true}, {batch: true, page: true}}
	pageable := slices.ContainsFunc(c.Loop.Buffers, func(b *loop.Buffer) bool {
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
		whole, undo, err := c.by(w, m, o, i == 0)
		if err != nil {
			return 0, err
		}
		if whole <= o.Budget.Bytes {
			added := c.added()
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
		whole, _, err := c.by(*fits, m, o, false)
		return whole, err
	}
	return least, nil
}

// littleTime is the share of a run's time that savings may add before another way is looked for.
const littleTime = 0.05

// by has the program keep within its budget in one way, of kernels that are made anew unless they are as they were at first. It gives what it takes then; undo makes ir what it was.
func (c *Compiled) by(w way, m *ir.Module, o Options, fresh bool) (whole int64, undo func(), err error) {
	if !fresh {
		if _, err := c.remade(m, o, 0); err != nil {
			return 0, nil, err
		}
	}
	c.Savings, undo = nil, func() {}
	if w.chunk {
		undo, err = c.chunk(m, o)
	} else if w.batch {
		undo, err = c.batch(m, o)
	}
	if err == nil {
		whole, err = c.squeezed(w, o, m.Ask)
	}
	return whole, undo, err
}

// added is about how much longer a run takes for what was saved, in seconds.
func (c *Compiled) added() (seconds float64) {
	for i := range c.Savings {
		seconds += c.Savings[i].seconds()
	}
	return seconds
}

// seconds is about how long a run takes, at the dimensions' bounds.
func (s *squeezer) seconds() (seconds float64) {
	s.c.launches(s.m.Body, func(l *loop.Launch) {
		if n, err := sym.AtLimits(loop.CostOf(l.Kernel).Operations, s.m.Limits).Eval(s.value); err == nil {
			seconds += float64(n) / operationsPerSecond
		}
	})
	return seconds
}

// keepWritten is keepWithin for a module that lays out memory itself: its storages stay as they are, and its kernels are not made anew.
func (c *Compiled) keepWritten(m *ir.Module, o Options) error {
	least, err := c.keepLoops(o, m.Ask)
	if err != nil {
		return err
	}
	if least > o.Budget.Bytes {
		return OverBudget(least, "%d bytes are allowed, and whatever is computed again, spilled or paged, it takes %d: the storages that its text lays out stay as they are, and such a text is not computed in pieces", o.Budget.Bytes, least)
	}
	return c.checkPlaces()
}

// partings is how often the parts that weights are brought in by are made smaller, each time by partingFactor.
const (
	partings      = 5
	partingFactor = 4
)

// squeezed is squeeze with whole weights brought in where they are used, and where that is not enough with smaller and smaller parts of them. It gives the least that any takes.
func (c *Compiled) squeezed(w way, o Options, ask func() error) (least int64, err error) {
	before := *c.Loop
	savings := c.Savings
	paged := map[*loop.Buffer]bool{}
	largest := int64(0)
	for _, b := range before.Buffers {
		if paged[b] = b.Paged; b.Kind == loop.Weight && b.View == nil {
			largest = max(largest, int64(len(b.Data.Bytes())))
		}
	}
	for range partings + 1 {
		whole, err := c.squeeze(o, w, ask)
		if err != nil || whole <= o.Budget.Bytes {
			return whole, err
		}
		if least == 0 || whole < least {
			least = whole
		}
		c.Loop.Body, c.Loop.Buffers, c.Savings = before.Body, before.Buffers, savings
		for _, b := range before.Buffers {
			b.Paged = paged[b]
		}
		if !slices.Equal(c.Loop.Kernels, before.Kernels) {
			c.Loop.Kernels = before.Kernels
			if err := c.regenerate(o); err != nil {
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

// regenerate makes the code of the module's kernels anew.
func (c *Compiled) regenerate(o Options) error {
	if c.Code != nil && c.Code.Release != nil {
		if err := c.Code.Release(); err != nil {
			return err
		}
	}
	c.Code = nil
	if err := c.proveOwn(); err != nil {
		return err
	}
	return c.generate(o)
}

// mostChunkings is how often stretches are looked for that are better computed in pieces: each time all of the model's kernels are made anew.
const mostChunkings = 3

// chunkMargin is the share of what the budget leaves that stretches are looked for to keep within: what they will take is estimated.
const chunkMargin = 0.9

// chunk has what is alive at the fullest steps computed in pieces, where the module does not keep within the budget and takes less memory then: first in those that add the fewest
// operations of what should be enough, and where it is not, in those that keep least alive. undo makes ir what it was.
func (c *Compiled) chunk(m *ir.Module, o Options) (undo func(), err error) {
	s := newSqueezer(c, *o.Budget)
	if !s.bounded() {
		return func() {}, nil
	}
	if s.target() > 0 {
		enough, undo, err := c.chunkTo(m, o, true)
		if err != nil || enough {
			return undo, err
		}
		undo()
		c.Savings = nil
		if _, err := c.remade(m, o, 0); err != nil {
			return undo, err
		}
	}
	_, undo, err = c.chunkTo(m, o, false)
	return undo, err
}

// chunkTo is chunk, for stretches that keep what the budget leaves, or as little as can be. It reports whether that is enough.
func (c *Compiled) chunkTo(m *ir.Module, o Options, budget bool) (enough bool, undo func(), err error) {
	undo = func() {}
	for range mostChunkings {
		s := newSqueezer(c, *o.Budget)
		s.bounded()
		before, err := s.whole(c.Loop.Body)
		if err != nil || before <= o.Budget.Bytes {
			return err == nil, undo, err
		}
		full, allowed := s.fullest(), 0.0
		if budget {
			allowed = chunkMargin * float64(s.target())
		}
		done, back := pass.Chunk(m, func(n *ir.Node) bool { return full[n.Source] }, allowed)
		if done == nil {
			return false, undo, nil
		}
		less, err := c.remade(m, o, before)
		if err != nil {
			return false, undo, err
		}
		if !less {
			back()
			_, err := c.remade(m, o, before)
			return false, undo, err
		}
		earlier := undo
		undo = func() { back(); earlier() }
		for _, d := range done {
			c.Savings = append(c.Savings, savingOf(d))
		}
	}
	s := newSqueezer(c, *o.Budget)
	s.bounded()
	whole, err := s.whole(c.Loop.Body)
	return whole <= o.Budget.Bytes, undo, err
}

// mostBatchings is how often the whole is computed in other pieces of the batch, since what it takes is estimated.
const mostBatchings = 5

// batch has the whole computed in pieces of the batch, where it takes less memory then: in the way that adds the fewest operations of those that should be enough, or in the one that takes
// least. undo makes ir what it was.
func (c *Compiled) batch(m *ir.Module, o Options) (undo func(), err error) {
	undo = func() {}
	s := newSqueezer(c, *o.Budget)
	if !s.bounded() {
		return undo, nil
	}
	before, err := s.whole(c.Loop.Body)
	if err != nil || before <= o.Budget.Bytes {
		return undo, err
	}
	try := func(allowed float64) (whole int64, err error) {
		done, back := pass.Batch(m, allowed)
		if undo = back; done == nil {
			return before, nil
		}
		saving := savingOf(done.Chunked)
		saving.Kind, saving.Loops = BatchUp, done.Loops
		c.Savings = []Saving{saving}
		if _, err := c.remade(m, o, before); err != nil {
			return 0, err
		}
		s := newSqueezer(c, *o.Budget)
		s.bounded()
		return s.whole(c.Loop.Body)
	}
	least, best := before, 0.0
	allowed := float64(s.target())
	for i := range mostBatchings {
		whole, err := try(allowed)
		if err != nil || whole <= o.Budget.Bytes {
			return undo, err
		}
		if undo(); whole < least {
			least, best = whole, allowed
		}
		if allowed -= float64(whole - o.Budget.Bytes); allowed < 0 || i == mostBatchings-2 {
			allowed = 0
		}
	}
	if least < before {
		_, err := try(best)
		return undo, err
	}
	c.Savings, undo = nil, func() {}
	_, err = c.remade(m, o, before)
	return undo, err
}

// fullest are the sources of the steps at which more is alive than the budget leaves, and at least half as much as at the fullest.
func (s *squeezer) fullest() map[string]bool {
	out := map[string]bool{}
	p := s.profile(s.m.Body)
	few := max(s.target(), slices.Max(p.live)/2)
	for _, step := range s.m.Body {
		most := int64(0)
		for at := p.time.at[step].first; at <= p.time.at[step].last; at++ {
			most = max(most, p.live[at])
		}
		if _, plain := step.(*loop.Launch); plain && most > few {
			for _, name := range strings.Split(sourceOf(step), ",") {
				out[strings.TrimSpace(name)] = true
			}
		}
	}
	delete(out, "")
	return out
}

// remade makes the kernels anew, and reports whether the module takes less then.
func (c *Compiled) remade(m *ir.Module, o Options, before int64) (bool, error) {
	c.drop()
	if err := c.afresh(); err != nil {
		return false, err
	}
	if err := c.kernels(m, o, func(string, func() string) {}); err != nil {
		return false, err
	}
	s := newSqueezer(c, *o.Budget)
	if !s.bounded() {
		return false, nil
	}
	after, err := s.whole(c.Loop.Body)
	return after < before, err
}

func savingOf(d pass.Chunked) Saving {
	first, last := d.Nodes[0], d.Nodes[len(d.Nodes)-1]
	return Saving{Kind: ChunkUp, Tensor: first.Outputs[0].Name, At: cmp.Or(last.Source, last.Outputs[0].Name), Bytes: d.Bytes, Operations: d.Operations, Share: d.Share, Pieces: d.Pieces, Rows: d.Rows, Nodes: int64(len(d.Nodes))}
}
