package compiler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/sym"
)

// Budget is the most that a program may take: held + weights + code + calls × (arena + outputs + workers × scratch), at the
// upper bounds of the dimensions.
type Budget struct {
	Bytes          int64
	Held           int64 // by the program besides, such as states of its own
	Calls, Workers int
}

// Saving is one change that a budget asked for, and what it costs.
type Saving struct {
	Kind   SavingKind
	Tensor string // the model's name where there is one
	At     string // the node before which it comes back
	Bytes  int64  // that no longer lie in memory in between
	// Operations and Moved are what each run does more: arithmetic, and bytes to and from files.
	Operations, Moved int64
	// Of a stretch and a batch: the pieces that it is computed in, the rows that these are of, its nodes, and the share of
	// its arithmetic that Operations adds. Of a batch: the loops over the pieces. Of a weight: the pieces that it is
	// brought in by, and the most rows of it that are.
	Pieces, Rows, Nodes, Loops int64
	Share                      float64
}

// SavingKind is how memory is saved.
type SavingKind string

// The kinds of saving, in the order in which they are tried.
const (
	ChunkUp   SavingKind = "chunk"     // computed in pieces, with what lies between there a piece at a time
	BatchUp   SavingKind = "batch"     // all of the batch computed in pieces of it, with sums that grow from piece to piece
	Recompute SavingKind = "recompute" // computed again where it is needed again
	SpillOut  SavingKind = "spill"     // put into a file and fetched back
	PageIn    SavingKind = "page"      // a weight left in the file, brought in where it is used
)

// Rates that tell which of two savings costs less: of one core, and of a disk.
const (
	operationsPerSecond = 30e9
	fileBytesPerSecond  = 1e9
)

// seconds is about how much longer a run takes.
func (s *Saving) seconds() float64 {
	return float64(s.Operations)/operationsPerSecond + float64(s.Moved)/fileBytesPerSecond
}

// squeezer changes a scheduled module so that it keeps less in memory at once.
type squeezer struct {
	c      *Compiled
	m      *loop.Module
	budget Budget
	ask    func() error                      // whether to go on
	value  func(name sym.Name) (int64, bool) // each dimension at its upper bound
	fixed  int64                             // of the whole, what no saving changes
	sizes  map[*loop.Buffer]sym.Expr
	bytes  map[*loop.Buffer]int64
	names  map[string]bool
	done   []Saving
	exact  int // see mostExact

	pageFirst   bool
	page        int64                   // the most that is brought in of a weight at once, as far as kernels can be cut; 0: all of it
	options     Options                 // for code
	kernels     map[string]*loop.Kernel // by text, without the name: those that were made
	kernelNames map[string]bool
}

// squeeze has the module keep within a budget, and gives what it then takes: more than the budget where nothing helps any more. The order of the steps has been chosen, and kernels
// compute in place, before it is asked: what is left is to compute again, to spill, and to page, which comes first where that is asked for.
func (c *Compiled) squeeze(o Options, w way, ask func() error) (whole int64, err error) {
	b := *o.Budget
	s := newSqueezer(c, b)
	s.ask, s.pageFirst, s.page, s.options = ask, w.page, w.most, o
	if !s.bounded() {
		return 0, nil
	}
	if whole, err = s.whole(c.Loop.Body); err != nil || whole <= b.Bytes {
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
		if c.Loop.Body = body; whole <= b.Bytes {
			break
		}
		// Fewer bytes alive may still lie less well.
		if s.live(body) > want {
			return whole, nil
		}
		margin += max(whole-b.Bytes, 64)
	}
	c.Savings = append(c.Savings, s.done...)
	verifyLoop(c.Loop, "saving memory")
	return whole, nil
}

// keepLoops is squeezed, in the better of its two ways, for a module whose kernels cannot be made anew of ir, so that nothing of it is computed in pieces.
func (c *Compiled) keepLoops(o Options, ask func() error) (whole int64, err error) {
	first := false
	if s := newSqueezer(c, *o.Budget); s.bounded() {
		first = s.target() <= 0
	}
	least := int64(math.MaxInt64)
	for _, pageFirst := range []bool{first, !first} {
		whole, err := c.squeezed(way{page: pageFirst}, o, ask)
		if err != nil || whole <= o.Budget.Bytes {
			return whole, err
		}
		least = min(least, whole)
	}
	return least, nil
}

func newSqueezer(c *Compiled, b Budget) *squeezer {
	s := &squeezer{c: c, m: c.Loop, budget: b, ask: func() error { return nil }, sizes: map[*loop.Buffer]sym.Expr{}, bytes: map[*loop.Buffer]int64{}, names: map[string]bool{}, exact: mostExact,
		kernels: map[string]*loop.Kernel{}, kernelNames: map[string]bool{}}
	s.value = func(name sym.Name) (int64, bool) {
		r, ok := c.Loop.Dims.Get(name)
		return r.Max, ok && r.Max != sym.NoMax
	}
	for _, buffer := range c.Loop.Buffers {
		s.names[buffer.Name] = true
	}
	for _, k := range c.Loop.Kernels {
		s.kernelNames[k.Name] = true
	}
	return s
}

// bounded notes what no saving changes, and the sizes of all buffers; it reports whether all of them are bounded.
func (s *squeezer) bounded() bool {
	outputs := int64(0)
	for _, b := range s.m.Buffers {
		if b.View != nil || b.State != nil || b.Kind != loop.Temp && b.Kind != loop.Output || late(s.m, b) {
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
	scratch, err := scratchOf(s.m, s.c.Code.Kernels).Eval(s.value)
	if err != nil {
		return false
	}
	s.fixed = s.budget.Held + s.c.Code.Bytes + int64(s.budget.Calls)*(outputs+int64(s.budget.Workers)*scratch)
	return true
}

// size is a root buffer's size at the dimensions' bounds.
func (s *squeezer) size(b *loop.Buffer) (int64, bool) {
	if bytes, known := s.bytes[b]; known {
		return bytes, bytes >= 0
	}
	s.bytes[b] = -1
	x, err := atLimits(s.m, b)
	if err != nil {
		return 0, false
	}
	v, err := x.Eval(s.value)
	if err != nil || v < 0 || v > math.MaxInt64/1024 {
		return 0, false
	}
	s.sizes[b], s.bytes[b] = x, v
	return v, true
}

// weights is what the weights take that are not paged.
func (s *squeezer) weights() (total int64) {
	for _, b := range s.m.Buffers {
		if b.Kind == loop.Weight && b.View == nil && !b.Paged {
			total += int64(len(b.Data.Bytes()))
		}
	}
	return total
}

// target is the arena that the budget leaves.
func (s *squeezer) target() int64 {
	return (s.budget.Bytes - s.fixed - s.weights()) / int64(s.budget.Calls)
}

// holds reports whether the budget leaves enough for an arena of this size.
func (s *squeezer) holds(arena sym.Expr) bool {
	_, most := s.m.Dims.Bounds(arena)
	return most <= s.target()
}

// whole is what the module takes with an order of steps, as planned.
func (s *squeezer) whole(body []loop.Step) (int64, error) {
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

// profile is who is alive when, for an order of the steps.
type profile struct {
	time    *timeline
	problem memplan.Problem
	roots   []*loop.Buffer
	live    []int64 // bytes, by step number
	group   []int   // by buffer of the problem: the one that it is computed in place of
	first   []int   // by group
	last    []int
	bytes   []int64
	uses    map[*loop.Buffer][]int // the steps that mention a root buffer
}

// profile finds it, with kernels computing in place.
func (s *squeezer) profile(body []loop.Step) *profile {
	s.m.Body = body
	t := lifetimes(s.m)
	p := &profile{time: t, problem: memplan.Problem{Dims: s.m.Dims, Steps: max(1, t.steps)}, uses: map[*loop.Buffer][]int{}}
	for i, step := range body {
		loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
			b = b.Root()
			if list := p.uses[b]; len(list) == 0 || list[len(list)-1] != i {
				p.uses[b] = append(list, i)
			}
		})
	}
	for _, b := range s.m.Buffers {
		life := t.alive[b]
		if b.Kind != loop.Temp || b.View != nil || life == nil {
			continue
		}
		if _, ok := s.size(b); !ok {
			continue
		}
		p.problem.Buffers = append(p.problem.Buffers, memplan.Buffer{Name: b.Name, Size: s.sizes[b], First: life.first, Last: life.last})
		p.roots = append(p.roots, b)
	}
	s.c.alias(newAssembly(s.m, t), p.roots, &p.problem)
	n := len(p.roots)
	p.live, p.group, p.first, p.last, p.bytes = make([]int64, p.problem.Steps), make([]int, n), make([]int, n), make([]int, n), make([]int64, n)
	for i := range p.roots {
		g := i
		for p.problem.Buffers[g].Alias != nil {
			g = p.problem.Buffers[g].Alias.Of
		}
		if p.group[i] = g; g == i && p.bytes[g] == 0 {
			p.first[g], p.last[g] = math.MaxInt, -1
		}
	}
	for i, b := range p.roots {
		g, life := p.group[i], &p.problem.Buffers[i]
		p.first[g], p.last[g] = min(p.first[g], life.First), max(p.last[g], life.Last)
		p.bytes[g] = max(p.bytes[g], alignUp(s.bytes[b]))
	}
	for i := range p.roots {
		if p.group[i] == i {
			for at := p.first[i]; at <= p.last[i]; at++ {
				p.live[at] += p.bytes[i]
			}
		}
	}
	return p
}

// live is the most that is alive at once.
func (s *squeezer) live(body []loop.Step) int64 { return slices.Max(s.profile(body).live) }

// peak is the most that is alive at once, and at how many steps.
func (p *profile) peak() (bytes int64, steps int) {
	bytes = slices.Max(p.live)
	for _, live := range p.live {
		if live == bytes {
			steps++
		}
	}
	return bytes, steps
}

// fit changes the steps until no more is alive at once than the budget leaves, less a margin, or nothing helps any more.
func (s *squeezer) fit(margin int64) ([]loop.Step, error) {
	body := s.m.Body
	if s.pageFirst {
		body = s.pages(body, margin)
	}
	if cheapest := s.exactly(body, s.target()-margin); cheapest != nil {
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

// change is a saving and the steps with it.
type change struct {
	saving Saving
	body   []loop.Step
	made   []*loop.Buffer
}

// improve makes the change of a kind that costs least for each byte that it saves at the fullest step; nil where none saves anything there, or enough is saved. What it
// chooses does not depend on the target: a smaller one leads further the same way.
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
		if change == nil || change.saving.seconds()/float64(change.saving.Bytes) >= least {
			continue
		}
		s.m.Buffers = append(slices.Clone(buffers), change.made...)
		after, still := s.profile(change.body).peak()
		s.m.Buffers = buffers
		if after < peak || after == peak && still < times {
			best, least = change, change.saving.seconds()/float64(change.saving.Bytes)
		}
	}
	if best == nil {
		return nil
	}
	s.keep(best.made, best.saving)
	return best.body
}

// mostExact is the number of results that may be computed again up to which every choice among them is tried.
const mostExact = 10

// exactly is the steps with those results computed again that cost least of all choices that are enough; nil where the graph is not small, or no choice is enough.
func (s *squeezer) exactly(body []loop.Step, target int64) []loop.Step {
	p := s.profile(body)
	if peak, _ := p.peak(); peak <= target {
		return nil
	}
	type option struct {
		b *loop.Buffer
		g gap
	}
	var options []option
	for _, b := range p.roots {
		for at := range p.live {
			if b.Reserved {
				break
			}
			g, ok := p.idle(body, b, at)
			if !ok || slices.Contains(options, option{b, g}) || s.again(body, p, b, g) == nil {
				continue
			}
			if options = append(options, option{b, g}); len(options) > s.exact {
				return nil
			}
		}
	}
	// From the last gap to the first, so that a change leaves the places of those to come as they are.
	slices.SortStableFunc(options, func(a, b option) int { return b.g.next - a.g.next })
	type choice struct {
		body  []loop.Step
		saved []Saving
		made  []*loop.Buffer
		cost  float64
	}
	best := choice{cost: math.Inf(1)}
	buffers := s.m.Buffers
	var try func(c choice, rest []option)
	try = func(c choice, rest []option) {
		s.m.Buffers = slices.Concat(buffers, c.made)
		p := s.profile(c.body)
		if peak, _ := p.peak(); peak <= target {
			best = c
			return
		}
		for i, o := range rest {
			next := s.again(c.body, p, o.b, o.g)
			if next == nil || c.cost+next.saving.seconds() >= best.cost {
				continue
			}
			s.name(next.made, true)
			try(choice{next.body, slices.Concat(c.saved, []Saving{next.saving}), slices.Concat(c.made, next.made), c.cost + next.saving.seconds()}, rest[i+1:])
			s.name(next.made, false)
		}
	}
	try(choice{body: body}, options)
	s.m.Buffers = buffers
	if best.body == nil {
		return nil
	}
	s.keep(best.made, best.saved...)
	return best.body
}

// name takes the names of new buffers, or gives them back.
func (s *squeezer) name(made []*loop.Buffer, taken bool) {
	for _, b := range made {
		s.names[b.Name] = taken
	}
}

// keep makes a change's buffers the module's.
func (s *squeezer) keep(made []*loop.Buffer, saved ...Saving) {
	s.m.Buffers = append(slices.Clip(s.m.Buffers), made...)
	s.name(made, true)
	s.done = append(s.done, saved...)
}

// gap is where a buffer is alive and idle: after step last, before step next.
type gap struct{ last, next int }

// idle finds the gap around a step's number in which nobody touches a buffer. Behind it plain steps read it, and nobody writes it.
func (p *profile) idle(body []loop.Step, b *loop.Buffer, at int) (gap, bool) {
	g := gap{-1, -1}
	for _, i := range p.uses[b] {
		step := body[i]
		span := p.time.at[step]
		switch {
		case span.last < at:
			g.last = i
		case span.first <= at || !reader(step, b):
			return g, false
		case g.next < 0:
			g.next = i
		}
	}
	return g, g.last >= 0 && g.next >= 0
}

// reader reports whether a step is plain and only reads a root buffer.
func reader(step loop.Step, b *loop.Buffer) bool {
	_, writes, plain := operands(step)
	if host, is := step.(*loop.Host); is {
		writes, plain = host.Out, true
	}
	return plain && !slices.ContainsFunc(writes, func(x *loop.Buffer) bool { return x != nil && x.Root() == b })
}

// without is the steps with a buffer kept out of memory around a step's number; nil where it cannot be.
func (s *squeezer) without(kind SavingKind, body []loop.Step, p *profile, b *loop.Buffer, at int) *change {
	g, ok := p.idle(body, b, at)
	if !ok {
		return nil
	}
	if kind == SpillOut {
		return s.spill(body, b, g)
	}
	return s.again(body, p, b, g)
}

// fresh is a new buffer for what another holds.
func (s *squeezer) fresh(c *change, b *loop.Buffer, kind loop.BufferKind, what string) *loop.Buffer {
	name := ""
	for i := 1; name == "" || s.names[name] || slices.ContainsFunc(c.made, func(m *loop.Buffer) bool { return m.Name == name }); i++ {
		name = fmt.Sprintf("%s.%s%d", b.Name, what, i)
	}
	n := &loop.Buffer{Name: name, Kind: kind, DType: b.DType, Shape: b.Shape, Source: b.Source}
	c.made = append(c.made, n)
	return n
}

// replaced is a step that uses another buffer in place of b, through views too.
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
		return &loop.If{Cond: swap(step.Cond), Then: s.after(c, step.Then, b, with), Else: s.after(c, step.Else, b, with), Source: step.Source}
	case *loop.Loop:
		return &loop.Loop{Trip: swap(step.Trip), Cond: swap(step.Cond), Index: swap(step.Index), Count: step.Count, Body: s.after(c, step.Body, b, with), Source: step.Source}
	case *loop.Bind:
		return &loop.Bind{Dim: step.Dim, From: swap(step.From), At: step.At, Value: step.Value, Source: step.Source}
	}
	panic(diag.Internalf("a %T cannot be given another buffer", step))
}

// mentions reports whether a step uses a root buffer.
func mentions(step loop.Step, b *loop.Buffer) bool {
	found := false
	loop.EachBuffer([]loop.Step{step}, func(x *loop.Buffer) { found = found || x.Root() == b })
	return found
}

// after is the steps from one on, with another buffer in place of b.
func (s *squeezer) after(c *change, steps []loop.Step, b, with *loop.Buffer) []loop.Step {
	out := make([]loop.Step, len(steps))
	for i, step := range steps {
		if out[i] = step; mentions(step, b) {
			out[i] = s.replaced(c, step, b, with)
		}
	}
	return out
}

// spill writes a buffer to a file after its last use before a gap, and reads it back behind the gap.
func (s *squeezer) spill(body []loop.Step, b *loop.Buffer, g gap) *change {
	c := &change{saving: Saving{Kind: SpillOut, Tensor: tensorName(b), At: sourceOf(body[g.next]), Bytes: s.bytes[b], Moved: 2 * s.bytes[b]}}
	file, back := s.fresh(c, b, loop.Spill, "file"), s.fresh(c, b, loop.Temp, "back")
	c.body = slices.Concat(body[:g.last+1], []loop.Step{&loop.Copy{To: file, From: b}}, body[g.last+1:g.next],
		[]loop.Step{&loop.Copy{To: back, From: file}}, s.after(c, body[g.next:], b, back))
	return c
}

// deepest is the most steps in a row that are done again for one buffer.
const deepest = 6

// again computes a buffer anew behind a gap, with what is needed for it and is not there any more. It is not done where a file costs less.
func (s *squeezer) again(body []loop.Step, p *profile, b *loop.Buffer, g gap) *change {
	c := &change{saving: Saving{Kind: Recompute, Tensor: tensorName(b), At: sourceOf(body[g.next]), Bytes: s.bytes[b]}}
	start := p.time.at[body[g.next]].first
	anew := map[*loop.Buffer]*loop.Buffer{}
	var steps []loop.Step
	var need func(b *loop.Buffer, depth int) bool
	need = func(b *loop.Buffer, depth int) bool {
		if anew[b] != nil {
			return true
		}
		at := maker(body[:g.next], b)
		if at < 0 || depth > deepest || s.bytes[b] < 0 {
			return false
		}
		reads, writes, _ := operands(body[at])
		for _, x := range writes {
			if x.View != nil || x.Kind != loop.Temp || maker(body, x) != at {
				return false
			}
		}
		for _, x := range reads {
			root := x.Root()
			if out := replaced(s.m, root); out != nil && slices.ContainsFunc(body[:g.next], func(step loop.Step) bool { return mentions(step, out) }) {
				return false // a state that was written over
			}
			if root.Kind != loop.Temp || anew[root] != nil {
				continue
			}
			if slices.ContainsFunc(body[at:g.next], func(step loop.Step) bool { return mentions(step, root) && !reader(step, root) }) {
				return false // it holds something else by now
			}
			if life := p.time.alive[root]; life.last >= start && root != b {
				continue
			}
			if x.View != nil || !need(root, depth+1) {
				return false
			}
		}
		step := body[at]
		for _, x := range writes {
			anew[x] = s.fresh(c, x, loop.Temp, "again")
		}
		for old, new := range anew {
			step = s.replaced(c, step, old, new)
		}
		steps = append(steps, step)
		if l, is := step.(*loop.Launch); is {
			operations, err := sym.AtLimits(loop.CostOf(l.Kernel).Operations, s.m.Limits).Eval(s.value)
			if err != nil {
				return false
			}
			c.saving.Operations += operations
		} else {
			c.saving.Moved += s.bytes[b]
		}
		return true
	}
	if !need(b, 0) {
		return nil
	}
	if file := (Saving{Moved: 2 * s.bytes[b]}); c.saving.seconds() > file.seconds() {
		return nil
	}
	c.body = slices.Concat(body[:g.next], steps, s.after(c, body[g.next:], b, anew[b]))
	return c
}

// maker is the one step that writes a root buffer, and may be done again: a launch that only writes it, or a copy out of a file. −1 where there is none.
func maker(body []loop.Step, b *loop.Buffer) int {
	at := -1
	for i, step := range body {
		_, writes, _ := operands(step)
		if !slices.ContainsFunc(writes, func(x *loop.Buffer) bool { return x.Root() == b }) {
			continue
		}
		if at >= 0 {
			return -1
		}
		switch step := step.(type) {
		case *loop.Launch:
			if slices.ContainsFunc(step.Kernel.Params, func(p *loop.Param) bool { return p.Access == loop.Update }) {
				return -1
			}
		case *loop.Copy:
			if !step.From.Away() {
				return -1
			}
		default:
			return -1
		}
		at = i
	}
	return at
}

// leastPaged is the size of the smallest weight that is worth leaving in a file, in bytes.
const leastPaged = 1024

// pages leaves weights in their file until the budget holds: those first that cost least for their bytes, such as tables of which a run reads some rows, of those that cost the same the
// largest.
func (s *squeezer) pages(body []loop.Step, margin int64) []loop.Step {
	type option struct {
		w    *loop.Buffer
		cost float64
	}
	var options []option
	for _, b := range s.m.Buffers {
		if b.Kind != loop.Weight || b.View != nil || b.Paged || len(b.Data.Bytes()) < leastPaged {
			continue
		}
		if c := s.pageOf(body, b); c != nil {
			options = append(options, option{b, math.Round(float64(c.saving.Moved) / float64(c.saving.Bytes))})
		}
	}
	slices.SortStableFunc(options, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(len(b.w.Data.Bytes()), len(a.w.Data.Bytes())))
	})
	peak := s.live(body)
	for i := 0; i < len(options) && peak > s.target()-margin; {
		o := options[i]
		c := s.pageOf(body, o.w)
		buffers := s.m.Buffers
		s.m.Buffers = append(slices.Clone(buffers), c.made...)
		grown := s.live(c.body)
		s.m.Buffers = buffers
		if int64(s.budget.Calls)*(grown-peak) >= c.saving.Bytes {
			i++
			continue
		}
		s.keep(c.made, c.saving)
		o.w.Paged = true
		if options = slices.Delete(options, i, i+1); grown > peak {
			i = 0 // there is room now for others that would have made it themselves
		}
		body, peak = c.body, grown
	}
	return body
}

// pageOf is the change that leaves a weight in its file; nil where it cannot be.
func (s *squeezer) pageOf(body []loop.Step, w *loop.Buffer) *change {
	c := &change{saving: Saving{Kind: PageIn, Tensor: tensorName(w), Bytes: int64(len(w.Data.Bytes()))}}
	if c.body = s.paged(c, body, w, 1); c.body == nil {
		return nil
	}
	return c
}

func tensorName(b *loop.Buffer) string {
	if b.Source != "" {
		return b.Source
	}
	return b.Name
}

// sourceOf names the model's nodes that a step computes.
func sourceOf(step loop.Step) string {
	switch s := step.(type) {
	case *loop.Launch:
		return s.Source
	case *loop.Host:
		return s.Source
	case *loop.Copy:
		return tensorName(s.To)
	case *loop.Loop:
		return s.Source
	case *loop.If:
		return s.Source
	}
	return ""
}

// LargestStep is the step whose operands and results together take most of the arena, for one binding of the dimensions: as long as no step is computed in pieces, no plan's arena is
// smaller. It gives the bytes, and the model's nodes that the step computes.
func (c *Compiled) LargestStep(value func(name sym.Name) (int64, bool)) (bytes int64, source string, err error) {
	for _, step := range c.Loop.Body {
		sum := int64(0)
		seen := map[*loop.Buffer]bool{}
		loop.EachBuffer([]loop.Step{step}, func(b *loop.Buffer) {
			root := b.Root()
			if seen[root] || root.Kind != loop.Temp || late(c.Loop, root) {
				return
			}
			seen[root] = true
			size, fault := atLimits(c.Loop, root)
			if fault == nil {
				var v int64
				v, fault = size.Eval(value)
				sum += alignUp(v)
			}
			if err == nil {
				err = fault
			}
		})
		if sum > bytes {
			bytes, source = sum, sourceOf(step)
		}
	}
	return bytes, source, err
}
