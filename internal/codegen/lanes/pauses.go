package lanes

import (
	"cmp"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
)

// Every call into machine code is short, since Go's collector waits for it, and so does the end of the run's context. A
// routine whose tiles are short is called for a few tiles at a time. In other routines, loops count down the frame's
// budget word, in instructions; when it is used up, the code saves all registers in the frame and returns to Go, which
// later calls the code again; it continues at the same instruction.
//
// The header of such a frame lies before it, at the same distance in all kernels, so that one routine of the program
// saves and restores registers for all.

// Budgets is how the loops of a routine count down the budget. Its zero value is ready.
type Budgets[I any] struct {
	room []I // memory that the next routine reuses

	// of loops, by the labels at which they begin again; a loop that is not listed may run for ever
	trips map[regalloc.Label]trips
	whole int                      // not 0: loops that begin now must not pause
	backs map[regalloc.Label]int64 // by the label at which a poll continues: the iterations that it counts
}

// Poller is a machine's instructions, of type I, as Budgets sees them.
type Poller[I any] interface {
	// Flow and Text are as in regalloc.Machine.
	Flow(in *I) (f regalloc.Flow, to regalloc.Label)
	Text(in *I) string
	// Cost returns the cost of an instruction; see budget.go.
	Cost(in *I) int64
	// Tests reports whether an instruction is a provisional test of a loop's counter; see Turn.
	Tests(in *I) bool
	// Poll appends code to list that counts down the budget by a cost and, if it is used up, jumps to out; code at out,
	// aside, pauses and jumps to back, after the poll. So the loop has no further taken jump. No flags are live here.
	Poll(list, aside []I, cost int64, out, back regalloc.Label) (longer, longerAside []I)
	// PollSometimes is Poll for a loop that counts several iterations at once: when the bits of mask in its counter, which
	// test tests, are 0. The budget is counted down at count, aside.
	PollSometimes(list, aside []I, test I, mask, cost int64, count, back regalloc.Label) (longer, longerAside []I)
}

// Turn records the number of iterations of the loop that begins again at a label: most, exactly or at most; its counter
// moves by multiples of by each time, a power of two, or is not known (0). It reports whether the counter is to be
// tested at the label, so that the budget need not be counted down in each iteration. The test is removed if there is
// no budget.
func (b *Budgets[I]) Turn(l regalloc.Label, most int64, exact bool, by int64) (test bool) {
	if b.trips == nil {
		b.trips = map[regalloc.Label]trips{}
	}
	t := trips{most: max(most, 0), exact: exact, whole: b.whole > 0}
	if most > fewTurns && !t.whole && by > 0 && by&(by-1) == 0 {
		t.by, test = by, true
	}
	b.trips[l] = t
	return test
}

// Whole calls do, in which no loop begins that pauses: the code uses registers that a pause does not save, and must not
// take long.
func (b *Budgets[I]) Whole(do func()) {
	b.whole++
	defer func() { b.whole-- }() // do may refuse
	do()
}

// costs are the costs of the instructions before each position.
type costs []int64

// between returns the cost of the instructions from at on and before end.
func (c costs) between(at, end int) int64 { return c[end] - c[at] }

// Unbounded is the cost of code without a bound.
const Unbounded = int64(1) << 50

// trips is the number of iterations of a loop at each entry: an upper bound or, if exact, the number. by is the step of
// its counter, a power of two; 0 if the counter's register is not known.
type trips struct {
	most  int64
	exact bool
	by    int64
	whole bool // no iteration may pause
}

// fewTurns is the largest number of iterations of a loop without a test of its counter.
const fewTurns = 256

// turn is a loop of a routine's instructions: from its label to the last jump back to it. The outermost turn is the
// routine.
type turn struct {
	label      regalloc.Label
	first, end int
	trips      trips
	inner      []*turn
	own        int64 // of one iteration, without inner loops that have budgets of their own
	unpaused   int64 // of all iterations, without any budgets
	polls      bool  // each iteration is counted, and may be the last before a return
	before     bool  // all iterations are counted before the loop
	every      int64 // the number of iterations that are counted at once, if more than one
}

// turnsOf finds a routine's loops. The instructions have machine registers.
func (b *Budgets[I]) turnsOf(m Poller[I], insts []I) (*turn, costs) {
	places := map[regalloc.Label]int{}
	ends := map[regalloc.Label]int{}
	for i := range insts {
		switch flow, to := m.Flow(&insts[i]); flow {
		case regalloc.Binds:
			places[to] = i
		case regalloc.Branches, regalloc.Jumps:
			if _, back := places[to]; back && b.backs[to] == 0 {
				ends[to] = i + 1
			}
		}
	}
	costs := make(costs, len(insts)+1)
	for i := range insts {
		costs[i+1] = costs[i] + m.Cost(&insts[i])
	}
	list := []*turn{{end: len(insts), trips: trips{most: 1, exact: true}}}
	for label, end := range ends {
		t := &turn{label: label, first: places[label], end: end, trips: trips{most: Unbounded}}
		if n, ok := b.trips[label]; ok {
			t.trips = n
		}
		list = append(list, t)
	}
	slices.SortFunc(list, func(x, y *turn) int {
		return cmp.Or(cmp.Compare(x.first, y.first), cmp.Compare(y.end, x.end), cmp.Compare(x.label, y.label))
	})
	open := list[:1:1]
	for _, t := range list[1:] {
		for t.first >= open[len(open)-1].end {
			open = open[:len(open)-1]
		}
		around := open[len(open)-1]
		if t.end > around.end {
			panic(diag.Internalf("two loops of a routine overlap\n%s", listingOf(m, insts)))
		}
		around.inner = append(around.inner, t)
		open = append(open, t)
	}
	list[0].measure(costs)
	return list[0], costs
}

// measure computes the costs of a turn and its inner turns without budgets.
func (t *turn) measure(costs costs) {
	at, each := t.first, int64(0)
	count := func(end int) { each, at = each+costs.between(at, end), end }
	for _, in := range t.inner {
		count(in.first)
		in.measure(costs)
		each, at = each+in.unpaused, in.end
	}
	count(t.end)
	t.own, t.unpaused = min(each, Unbounded), Times(each, t.trips.most)
}

// Times returns a product of two costs, at most unbounded.
func Times(x, y int64) int64 {
	if x > 0 && y > Unbounded/x {
		return Unbounded
	}
	return x * y
}

// budget decides which turns are counted, and returns the cost of all iterations that is counted around the turn.
func (t *turn) budget(costs costs) int64 {
	if t.trips.whole {
		return t.unpaused
	}
	at, own := t.first, int64(0)
	count := func(end int) { own, at = own+costs.between(at, end), end }
	for _, in := range t.inner {
		count(in.first)
		own += in.budget(costs)
		at = in.end
	}
	count(t.end)
	t.own = own
	all, most := Times(own, t.trips.most), int64(guessMost)
	if t.trips.exact {
		most = loopSmall
	}
	switch {
	case PauseAlways:
		t.polls = true
	case all <= most:
		return all
	case all <= LoopMost && t.trips.exact:
		t.before = true
	default:
		t.polls = true
		if t.every = 1; t.trips.by > 0 {
			for 2*t.every*own <= guessMost {
				t.every *= 2
			}
			if t.every > 1 { // a loop of fewer iterations may not be counted at all
				return t.every * own
			}
		}
	}
	return 0
}

// Put puts budgets into a routine whose tiles are long, or returns the greatest cost of a tile; that is 0 if there are
// budgets. tiles is the label of the loop over tiles, and label makes labels.
func (b *Budgets[I]) Put(m Poller[I], insts []I, tiles regalloc.Label, label func() regalloc.Label) (list []I,
	tile int64) {
	root, costs := b.turnsOf(m, insts)
	over := root.find(tiles)
	if over == nil {
		panic(diag.Internalf("a routine without a loop over tiles\n%s", listingOf(m, insts)))
	}
	over.trips = trips{most: Unbounded}
	if !PauseAlways && over.own <= TileMost {
		return slices.DeleteFunc(insts, func(in I) bool { return m.Tests(&in) }), max(over.own, 1)
	}
	for _, t := range root.inner {
		t.budget(costs)
	}
	at := map[int]*turn{}
	root.collect(at)
	list = slices.Grow(b.room[:0], len(insts)+5*len(at))
	defer func() { b.room = list }()
	b.backs = map[regalloc.Label]int64{}
	var aside []I
	poll := func(cost int64) {
		out, back := label(), label()
		b.backs[back] = 1
		list, aside = m.Poll(list, aside, cost, out, back)
	}
	var tested *turn // the turn whose counter's test comes next
	for i := range insts {
		t := at[i]
		switch {
		case m.Tests(&insts[i]):
			if tested != nil {
				count, back := label(), label()
				b.backs[back] = tested.every
				list, aside = m.PollSometimes(list, aside, insts[i], (tested.every-1)*tested.trips.by, tested.every*tested.own,
					count, back)
			}
			tested = nil
			continue
		case t == nil:
			list = append(list, insts[i])
			continue
		case t.before:
			poll(Times(t.own, t.trips.most))
		}
		if list = append(list, insts[i]); t.polls && t.every > 1 {
			tested = t
		} else if t.polls {
			poll(max(t.own, 1))
		}
	}
	return append(list, aside...), 0
}

// find returns the turn with a label, t or inside t; nil if there is none.
func (t *turn) find(label regalloc.Label) *turn {
	if t.label == label {
		return t
	}
	for _, in := range t.inner {
		if found := in.find(label); found != nil {
			return found
		}
	}
	return nil
}

// collect adds the counted turns to at, by the positions of their labels.
func (t *turn) collect(at map[int]*turn) {
	if t.polls || t.before {
		at[t.first] = t
	}
	for _, in := range t.inner {
		in.collect(at)
	}
}

// gaps are the costs of the longest ways through instructions without a poll: from the beginning to the first poll,
// from the last one to the end, between two, and from the beginning to the end (negative if every way has a poll).
// Without any poll all but between are the same.
type gaps struct {
	before, after, between, through int64
	polls                           bool // there are some
}

// then returns the gaps of code followed by code with the gaps next.
func (g gaps) then(next gaps) gaps {
	both := gaps{before: g.before, after: next.after, between: max(g.between, next.between), through: -1, polls: g.polls ||
		next.polls}
	if g.polls && next.polls {
		both.between = max(both.between, plus(g.after, next.before))
	}
	if g.through >= 0 {
		both.before = max(g.before, plus(g.through, next.before))
	}
	if next.through >= 0 {
		both.after = max(next.after, plus(g.after, next.through))
	}
	if g.through >= 0 && next.through >= 0 {
		both.through = plus(g.through, next.through)
	}
	return both
}

// plus returns a sum of two costs, at most unbounded.
func plus(x, y int64) int64 { return min(x+y, Unbounded) }

// gapsOf computes a turn's gaps from its instructions alone, independently of the decisions of budget.
func (t *turn) gapsOf(costs costs, polls map[int]int64) gaps {
	var each gaps
	at, every := t.first, int64(0)
	count := func(end int) {
		for ; at < end; at++ {
			c := costs.between(at, at+1)
			next := gaps{before: c, after: c, through: c}
			if n := polls[at]; n > 1 {
				every = n
			} else if n == 1 {
				next = gaps{through: -1, polls: true}
			}
			each = each.then(next)
		}
	}
	for _, in := range t.inner {
		count(in.first)
		each, at = each.then(in.gapsOf(costs, polls)), in.end
	}
	count(t.end)
	if every > 1 && each.through >= 0 { // a path through so many iterations has a poll
		all := Times(each.through, min(every, t.trips.most))
		ends := max(each.before, each.after)
		return gaps{before: plus(all, ends), after: plus(all, ends), between: max(each.between, plus(all, 2*ends)),
			through: all, polls: true}
	}
	if !each.polls {
		all := Times(each.through, t.trips.most)
		return gaps{before: all, after: all, through: all}
	}
	if each.through < 0 { // every iteration has a poll; the loop may be jumped over
		return gaps{before: each.before, after: each.after, between: max(each.between, plus(each.before, each.after)),
			through: 0, polls: true}
	}
	all := Times(each.through, t.trips.most)
	return gaps{before: plus(each.before, all), after: plus(each.after, all),
		between: max(each.between, plus(plus(each.before, each.after), all)), through: all, polls: true}
}

// Finish is Put and Longest, with memory that the next routine reuses.
func (b *Budgets[I]) Finish(m Poller[I], insts []I, tiles regalloc.Label, label func() regalloc.Label,
	room *[]I) (list []I, tile, longest int64) {
	b.room = *room
	list, tile = b.Put(m, insts, tiles, label)
	longest = b.Longest(m, list, tiles)
	*room = b.room
	return list, tile, longest
}

// Longest returns the greatest cost of a routine between two points at which it may return, in instructions: the end of
// a tile if it has no budgets.
func (b *Budgets[I]) Longest(m Poller[I], insts []I, tiles regalloc.Label) int64 {
	root, costs := b.turnsOf(m, insts)
	over := root.find(tiles)
	over.trips = trips{most: 1, exact: true}
	if len(b.backs) > 0 {
		over.trips = trips{most: Unbounded}
	}
	polls := map[int]int64{}
	if len(b.backs) > 0 {
		for i := range insts {
			if flow, to := m.Flow(&insts[i]); flow == regalloc.Binds && b.backs[to] > 0 {
				polls[i] = b.backs[to]
			}
		}
	}
	g := root.gapsOf(costs, polls)
	return max(g.before, g.after, g.between, g.through)
}

// listingOf returns the instructions as text.
func listingOf[I any](m Poller[I], insts []I) string {
	var s strings.Builder
	for i := range insts {
		s.WriteString("\t" + m.Text(&insts[i]) + "\n")
	}
	return s.String()
}
