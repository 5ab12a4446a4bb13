package budget

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/compiler/live"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/sym"
)

// squeezer changes a scheduled module so that fewer bytes are live at once.
type squeezer struct {
	c      Compilation
	m      *loop.Module
	budget Budget
	ask    func() error                      // returns an error to stop
	value  func(name sym.Name) (int64, bool) // each dimension at its upper bound
	fixed  int64                             // bytes that no saving changes
	// the bytes of fixed that are code and scratch of the present kernels
	ofKernels int64
	sizes     map[*loop.Buffer]sym.Expr
	bytes     map[*loop.Buffer]int64
	names     map[string]bool
	done      []Saving
	choices   int // see mostChoices

	pageFirst bool
	// bytes of a weight that are read at once if kernels can be cut along it; 0: all of it
	page        int64
	inside      bool                    // whole weights are read in the loops and branches that use them, every time
	kernels     map[string]*loop.Kernel // new kernels by their text without the name
	cuts        map[operand]*schedule.Cut
	slices      map[slice]*schedule.Slice
	parted      map[use]bool // see inParts
	kernelNames map[string]bool
	inPlace     map[live.Overwrite]bool // see live.Alias
}

// operand is a parameter of a kernel.
type operand struct {
	kernel *loop.Kernel
	param  int
}

// use is a launch that uses a weight.
type use struct {
	launch *loop.Launch
	weight *loop.Buffer
}

// slice is a range of the iterations of a kernel that is cut along an operand.
type slice struct {
	operand
	begin, end int64
}

// newSqueezer returns a squeezer for the module as it is now. Its bounded method must be called before the others.
func newSqueezer(c Compilation, b Budget) *squeezer {
	s := &squeezer{c: c, m: c.Loop(), budget: b, ask: func() error {
		return nil
	}, sizes: map[*loop.Buffer]sym.Expr{}, bytes: map[*loop.Buffer]int64{}, names: map[string]bool{}, choices: mostChoices,
		kernels: map[string]*loop.Kernel{}, kernelNames: map[string]bool{},
		cuts: map[operand]*schedule.Cut{}, slices: map[slice]*schedule.Slice{}, parted: map[use]bool{},
		inPlace: map[live.Overwrite]bool{}}
	if k, is := c.(*search); is {
		s.inPlace = k.inPlace
	}
	s.value = func(name sym.Name) (int64, bool) {
		r, ok := c.Loop().Dims.Get(name)
		return r.Max, ok && r.Max != sym.NoMax
	}
	for _, buffer := range c.Loop().Buffers {
		s.names[buffer.Name] = true
	}
	for _, k := range c.Loop().Kernels {
		s.kernelNames[k.Name] = true
	}
	return s
}

// bounded computes the bytes that no saving changes. It reports whether they, and the sizes of all temporary buffers
// and outputs that are planned before the run, are bounded.
func (s *squeezer) bounded() bool {
	outputs := int64(0)
	for _, b := range s.m.Buffers {
		if b.View != nil || b.State != nil || b.Kind != loop.Temp && b.Kind != loop.Output || live.Late(s.m, b) {
			continue
		}
		bytes, ok := s.size(b)
		if !ok {
			return false
		}
		if b.Kind == loop.Output {
			outputs += bytes
		}
	}
	scratch, err := live.ScratchOf(s.m, s.c.Code().Kernels).Eval(s.value)
	if err != nil {
		return false
	}
	s.ofKernels = s.c.Code().Bytes + int64(s.budget.Calls)*int64(s.budget.Workers)*scratch
	s.fixed = s.budget.Held + s.ofKernels + int64(s.budget.Calls)*outputs
	return true
}

// size returns a root buffer's size in bytes at the dimensions' upper bounds. It returns false if the size has no bound
// or is more than mostBytes.
func (s *squeezer) size(b *loop.Buffer) (int64, bool) {
	if bytes, known := s.bytes[b]; known {
		return bytes, bytes >= 0
	}
	s.bytes[b] = -1
	x, err := live.AtLimits(s.m, b)
	if err != nil {
		return 0, false
	}
	v, err := x.Eval(s.value)
	if err != nil || v < 0 || v > mostBytes {
		return 0, false
	}
	s.sizes[b], s.bytes[b] = x, v
	return v, true
}

// weights returns the bytes of the weights that are not paged.
func (s *squeezer) weights() (total int64) {
	for _, b := range s.m.Buffers {
		if b.Kind == loop.Weight && b.View == nil && !b.Paged {
			total += b.Data.Size()
		}
	}
	return total
}

// target returns the bytes that the budget leaves for one call's arena; it may be negative.
func (s *squeezer) target() int64 {
	return (s.budget.Bytes - s.fixed - s.weights()) / int64(s.budget.Calls)
}

// needed returns a bound on the bytes that the module takes if nothing more is computed in pieces: some step needs all
// of what it reads, or writes, in memory; if weights is true, beside the parts of the weights that it reads at once.
func (s *squeezer) needed(weights bool) int64 {
	p := s.profile(s.m.Body)
	most := int64(0)
	sum := func(list []*loop.Buffer) (bytes int64) {
		seen := map[*loop.Buffer]bool{}
		for _, b := range list {
			if b = b.Root(); b.Kind == loop.Temp && p.time.Alive[b] != nil && !seen[b] {
				seen[b] = true
				bytes += max(0, s.bytes[b])
			}
		}
		return bytes
	}
	live.Each(s.m.Body, func(l *loop.Launch) {
		reads, writes, _ := live.Operands(l)
		bytes := max(sum(reads), sum(writes))
		if weights {
			bytes += s.parts(l) / int64(s.budget.Calls) // a weight that is not paged is held once for all calls
		}
		most = max(most, bytes)
	})
	return s.fixed - s.ofKernels + int64(s.budget.Calls)*most
}

// holds reports whether the budget leaves enough for an arena of this size.
func (s *squeezer) holds(arena sym.Expr) bool {
	_, most := s.m.Dims.Bounds(arena)
	return most <= s.target()
}

// total returns the bytes that the module takes with an order of steps, after its arena is planned.
func (s *squeezer) total(body []loop.Step) (int64, error) {
	p := s.profile(body)
	at, err := p.problem.At(s.value)
	if err != nil {
		return 0, err
	}
	plan, err := memplan.Plan(at, memplan.Options{Layouts: 1})
	if err != nil {
		return 0, err
	}
	height, _ := plan.Arena.Const()
	return s.fixed + s.weights() + int64(s.budget.Calls)*height, nil
}

// fit changes the steps until the live bytes, plus margin, fit the budget, or nothing helps any more.
func (s *squeezer) fit(margin int64) ([]loop.Step, error) {
	body := s.m.Body
	if s.pageFirst {
		body = s.pages(body, margin)
	}
	if cheapest := s.optimal(body, s.target()-margin); cheapest != nil {
		return cheapest, nil
	}
	for _, kind := range []SavingKind{Recompute, SpillOut} {
		for {
			next := s.improve(kind, body, s.target()-margin)
			if next == nil {
				break
			}
			body = next
			if err := s.ask(); err != nil {
				return nil, err
			}
		}
	}
	return s.pages(body, margin), nil
}

// change is a saving, and the steps and new buffers that make it.
type change struct {
	saving Saving
	body   []loop.Step
	made   []*loop.Buffer
	names  map[string]bool // of the buffers made
	count  map[string]int  // by the stem of names: the last number tried
}

// undo returns to the buffers and the saving that a change had before.
func (c *change) undo(made []*loop.Buffer, saving Saving) {
	for _, b := range c.made[len(made):] {
		delete(c.names, b.Name)
	}
	clear(c.count)
	c.made, c.saving = made, saving
}

// newChange returns a change that makes nothing.
func newChange(saving Saving) *change {
	return &change{saving: saving, names: map[string]bool{}, count: map[string]int{}}
}

// improve makes the change of a kind with the least cost per byte saved, among those that lower the peak. It returns
// nil if none does, or the peak is at most target. Its choice does not depend on the target, so a smaller target only
// continues the same sequence of changes.
func (s *squeezer) improve(kind SavingKind, body []loop.Step, target int64) []loop.Step {
	p := s.profile(body)
	peak, times := p.peak()
	if peak <= target {
		return nil
	}
	buffers := s.m.Buffers
	at := slices.Index(p.live, peak)
	var best *change
	least := math.Inf(1)
	for i, b := range p.roots {
		if g := p.group[i]; p.first[g] > at || p.last[g] < at || b.Reserved {
			continue
		}
		change := s.without(kind, body, p, b, at)
		if change == nil || change.saving.Seconds()/float64(change.saving.Bytes) >= least {
			continue
		}
		s.m.Buffers = append(slices.Clone(buffers), change.made...)
		after, still := s.profile(change.body).peak()
		s.m.Buffers = buffers
		if after < peak || after == peak && still < times {
			best, least = change, change.saving.Seconds()/float64(change.saving.Bytes)
		}
	}
	if best == nil {
		return nil
	}
	s.keep(best.made, best.saving)
	return best.body
}

// name reserves the names of new buffers if taken is true, and frees them otherwise.
func (s *squeezer) name(made []*loop.Buffer, taken bool) {
	for _, b := range made {
		s.names[b.Name] = taken
	}
}

// keep adds a change's buffers to the module and its savings to the list.
func (s *squeezer) keep(made []*loop.Buffer, saved ...Saving) {
	s.m.Buffers = append(slices.Clip(s.m.Buffers), made...)
	s.name(made, true)
	s.done = append(s.done, saved...)
}

// gap is an interval in which a buffer is live but unused: after step last, before step next.
type gap struct{ last, next int }

// idle returns the gap around a step number in which no step uses a buffer. It returns false if there is none, or if a
// later step writes the buffer or reads it within a body.
func (p *profile) idle(body []loop.Step, b *loop.Buffer, at int) (gap, bool) {
	g := gap{-1, -1}
	for _, i := range p.uses[b] {
		step := body[i]
		when := p.time.At[step]
		switch {
		case when.Last < at:
			g.last = i
		case when.First <= at || !p.reads(body, i, b):
			return g, false
		case g.next < 0:
			g.next = i
		}
	}
	return g, g.last >= 0 && g.next >= 0
}

// without returns the change that keeps a buffer out of memory around a step number; nil if none is possible.
func (s *squeezer) without(kind SavingKind, body []loop.Step, p *profile, b *loop.Buffer, at int) *change {
	g, ok := p.idle(body, b, at)
	if !ok {
		return nil
	}
	if kind == SpillOut {
		return s.spill(body, b, g)
	}
	return s.recompute(body, p, b, g)
}

// fresh adds to a change a new buffer of b's type and shape, with a name that begins with b's.
func (s *squeezer) fresh(c *change, b *loop.Buffer, kind loop.BufferKind, what string) *loop.Buffer {
	stem := b.Name + "." + what
	name := ""
	for name == "" || s.names[name] || c.names[name] {
		c.count[stem]++
		name = fmt.Sprint(stem, c.count[stem])
	}
	c.names[name] = true
	n := &loop.Buffer{Name: name, Kind: kind, DType: b.DType, Shape: b.Shape, Source: b.Source}
	c.made = append(c.made, n)
	return n
}

// replaced returns a step that uses another buffer instead of b, through views too.
func (s *squeezer) replaced(c *change, step loop.Step, b, with *loop.Buffer) loop.Step {
	var swap func(x *loop.Buffer) *loop.Buffer
	swap = func(x *loop.Buffer) *loop.Buffer {
		switch {
		case x == b:
			return with
		case x == nil || x.Root() != b:
			return x
		}
		v := s.fresh(c, x, with.Kind, "view")
		v.View = &loop.View{Of: swap(x.View.Of), Offset: x.View.Offset, Strides: x.View.Strides}
		return v
	}
	all := func(list []*loop.Buffer) []*loop.Buffer {
		out := make([]*loop.Buffer, len(list))
		for i, x := range list {
			out[i] = swap(x)
		}
		return out
	}
	switch step := step.(type) {
	case *loop.Launch:
		return &loop.Launch{Kernel: step.Kernel, Args: all(step.Args), Source: step.Source}
	case *loop.Host:
		return &loop.Host{Op: step.Op, Attrs: step.Attrs, In: all(step.In), Out: all(step.Out), Source: step.Source}
	case *loop.Copy:
		c := &loop.Copy{To: swap(step.To), From: swap(step.From)}
		if step.Pick != nil {
			c.Pick = &loop.Pick{Index: swap(step.Pick.Index), Rows: step.Pick.Rows, Source: step.Pick.Source}
		}
		return c
	case *loop.If:
		return &loop.If{Cond: swap(step.Cond), Then: s.after(c, step.Then, b, with), Else: s.after(c, step.Else, b, with),
			Source: step.Source}
	case *loop.Loop:
		return &loop.Loop{Trip: swap(step.Trip), Cond: swap(step.Cond), Index: swap(step.Index), Count: step.Count,
			Body: s.after(c, step.Body, b, with), Source: step.Source}
	case *loop.Bind:
		return &loop.Bind{Dim: step.Dim, From: swap(step.From), At: step.At, Value: step.Value, Source: step.Source}
	}
	panic(diag.Internalf("a %T cannot be given another buffer", step))
}

// after returns steps that use another buffer instead of b.
func (s *squeezer) after(c *change, steps []loop.Step, b, with *loop.Buffer) []loop.Step {
	out := make([]loop.Step, len(steps))
	for i, step := range steps {
		if out[i] = step; live.Mentions(step, b) {
			out[i] = s.replaced(c, step, b, with)
		}
	}
	return out
}

// spill returns the change that writes a buffer to a file after its last use before a gap, and reads it back after the
// gap.
func (s *squeezer) spill(body []loop.Step, b *loop.Buffer, g gap) *change {
	c := newChange(Saving{Kind: SpillOut, Tensor: live.TensorName(b), At: live.SourceOf(body[g.next]),
		Bytes: s.bytes[b], Moved: spillMoves * s.bytes[b]})
	file, back := s.fresh(c, b, loop.Spill, "file"), s.fresh(c, b, loop.Temp, "back")
	c.body = slices.Concat(body[:g.last+1], []loop.Step{&loop.Copy{To: file, From: b}}, body[g.last+1:g.next],
		[]loop.Step{&loop.Copy{To: back, From: file}}, s.after(c, body[g.next:], b, back))
	return c
}

// fullest returns the sources of the launches at which the live bytes exceed what the budget leaves, and are at least
// 1/fullestShare of the peak.
func (s *squeezer) fullest() map[string]bool {
	out := map[string]bool{}
	p := s.profile(s.m.Body)
	few := max(s.target(), slices.Max(p.live)/fullestShare)
	for _, step := range s.m.Body {
		most := int64(0)
		for at := p.time.At[step].First; at <= p.time.At[step].Last; at++ {
			most = max(most, p.live[at])
		}
		if _, launch := step.(*loop.Launch); launch && most > few {
			for _, name := range strings.Split(live.SourceOf(step), ",") {
				out[strings.TrimSpace(name)] = true
			}
		}
	}
	delete(out, "")
	return out
}
