package amd64

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/diag"
)

// Every call into machine code is short, since Go's collector waits for it, and so does the end of the run's context. A
// routine whose tiles are short is called for a few tiles at a time. In other routines, loops count down the frame's
// budget word, in instructions; when it is used up, the code saves all registers in the frame and returns to Go, which
// later calls the code again; it continues at the same instruction.
//
// The header of such a frame lies before it, at the same distance in all kernels, so that one routine of the program
// saves and restores registers for all.

// The costs of instructions that these limits count: about a quarter of a nanosecond each, four times as much if each
// must wait for memory.
const (
	callMost  = 1 << 19 // between two returns to Go
	tileMost  = 1 << 17 // of a tile without a pause
	loopMost  = 1 << 16 // of a loop without a pause, inside a tile that has others
	loopSmall = 1 << 12 // of a loop that is counted with the code around it
	guessMost = 1 << 9  // the same, if it may also be shorter than counted
)

// unbounded is the cost of code without a bound.
const unbounded = int64(1) << 50

// The header's words, by their distance from the frame.
const (
	budgetWord = -8  // the cost left before the code returns
	pauseWord  = -16 // the address of the routine that saves registers
	resumeWord = -24 // the address at which the code continues
)

// paused is the status of code that has not ended. Others are 0, and the number of a check that failed.
const paused = -1

// trips is the number of iterations of a loop at each entry: an upper bound or, if exact, the number. by is the step of
// its counter, a power of two; 0 if the counter's register is not known.
type trips struct {
	most  int64
	exact bool
	by    int64
	whole bool // no iteration may pause
}

// turns binds the label at which a loop begins again, and records its number of iterations. counter moves by multiples
// of a power of two each time. If there may be many iterations, the counter is tested here, so that the budget need not
// be counted down in each; the test is removed if there is no budget.
func (b *builder) turns(l asm.Label, most int64, exact bool, counter asm.Reg, by int64) {
	b.bind(l)
	if b.trips == nil {
		b.trips = map[asm.Label]trips{}
	}
	t := trips{most: max(most, 0), exact: exact, whole: b.standing}
	if most > fewTurns && !t.whole && by > 0 && by&(by-1) == 0 {
		t.by = by
		b.Emit(asm.Inst{Op: asm.TEST, Bits: 64, Args: [4]asm.Reg{counter}, Imm: turnTest})
	}
	b.trips[l] = t
}

// wholeTurns is turns for a loop in which the code must not pause, since it uses registers that a pause does not save.
// It runs exactly n times, which must not take long.
func (b *builder) wholeTurns(l asm.Label, n int64) {
	b.turns(l, n, true, asm.NoReg, 0)
	t := b.trips[l]
	t.whole = true
	b.trips[l] = t
}

// fewTurns is the largest number of iterations of a loop without a test of its counter.
const fewTurns = 256

// turnTest is a provisional mask of a counter's test, until the interval of counting down the budget is known.
const turnTest = 0x3A5A5A00

// isTurnTest reports whether an instruction is a counter's test with the provisional mask.
func isTurnTest(in *asm.Inst) bool { return in.Op == asm.TEST && in.Imm == turnTest }

// cost returns the cost of an instruction.
func cost(in *asm.Inst) int64 {
	switch in.Op {
	case asm.LABEL, asm.ALIGN:
		return 0
	case asm.TEST:
		if in.Imm == turnTest {
			return 0
		}
	case asm.DIV, asm.IDIV, asm.VDIVPS, asm.VDIVPD, asm.VSQRTPS, asm.VSQRTPD:
		return 20
	case asm.TILELOADD, asm.TILESTORED, asm.LDTILECFG:
		return squareReadCost
	case asm.TDPBUSD, asm.TDPBUUD, asm.TDPBSUD, asm.TDPBSSD, asm.TDPBF16PS:
		return squareProductCost
	}
	if in.Mem.Index.Class() == asm.Vector {
		return 32
	}
	if in.Mem.Pool == 0 && in.Mem.Base != asm.NoReg && in.Mem.Base != frameRegister {
		return 3
	}
	return 1
}

// turn is a loop of a routine's instructions: from its label to the last jump back to it. The outermost turn is the
// routine.
type turn struct {
	label      asm.Label
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
func (b *builder) turnsOf(insts []asm.Inst) *turn {
	places := map[asm.Label]int{}
	ends := map[asm.Label]int{}
	for i := range insts {
		switch in := &insts[i]; {
		case in.Op == asm.LABEL:
			places[in.To] = i
		case in.Op.Jumps():
			if _, back := places[in.To]; back && b.backs[in.To] == 0 {
				ends[in.To] = i + 1
			}
		}
	}
	list := []*turn{{end: len(insts), trips: trips{most: 1, exact: true}}}
	for label, end := range ends {
		t := &turn{label: label, first: places[label], end: end, trips: trips{most: unbounded}}
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
			panic(diag.Internalf("amd64: two loops of a routine overlap\n%s", listing(insts)))
		}
		around.inner = append(around.inner, t)
		open = append(open, t)
	}
	list[0].measure(insts)
	return list[0]
}

// measure computes the costs of a turn and its inner turns without budgets.
func (t *turn) measure(insts []asm.Inst) {
	at, each := t.first, int64(0)
	count := func(end int) {
		for ; at < end; at++ {
			each += cost(&insts[at])
		}
	}
	for _, in := range t.inner {
		count(in.first)
		in.measure(insts)
		each, at = each+in.unpaused, in.end
	}
	count(t.end)
	t.own, t.unpaused = min(each, unbounded), times(each, t.trips.most)
}

// times returns a product of two costs, at most unbounded.
func times(x, y int64) int64 {
	if x > 0 && y > unbounded/x {
		return unbounded
	}
	return x * y
}

// budget decides which turns are counted, and returns the cost of all iterations that is counted around the turn.
func (t *turn) budget(insts []asm.Inst) int64 {
	if t.trips.whole {
		return t.unpaused
	}
	at, own := t.first, int64(0)
	count := func(end int) {
		for ; at < end; at++ {
			own += cost(&insts[at])
		}
	}
	for _, in := range t.inner {
		count(in.first)
		own += in.budget(insts)
		at = in.end
	}
	count(t.end)
	t.own = own
	all, most := times(own, t.trips.most), int64(guessMost)
	if t.trips.exact {
		most = loopSmall
	}
	switch {
	case pauseAlways:
		t.polls = true
	case all <= most:
		return all
	case all <= loopMost && t.trips.exact:
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

// pauseAlways makes every loop return at every iteration; tests set it.
var pauseAlways bool

// withPauses puts budgets into a routine whose tiles are long, or returns the greatest cost of a tile; that is 0 if
// there are budgets. tiles is the label of the loop over tiles.
func (b *builder) withPauses(insts []asm.Inst, tiles asm.Label) (list []asm.Inst, tile int64) {
	root := b.turnsOf(insts)
	over := root.find(tiles)
	if over == nil {
		panic(diag.Internalf("amd64: a routine without a loop over tiles\n%s", listing(insts)))
	}
	over.trips = trips{most: unbounded}
	if !pauseAlways && over.own <= tileMost {
		return withoutTests(insts), max(over.own, 1)
	}
	for _, t := range root.inner {
		t.budget(insts)
	}
	at := map[int]*turn{}
	root.collect(at)
	list = slices.Grow(b.work.paused[:0], len(insts)+5*len(at))
	defer func() { b.work.paused = list }()
	b.backs = map[asm.Label]int64{}
	var aside []asm.Inst
	var tested *turn // the turn whose counter's test comes next
	for i := range insts {
		t := at[i]
		switch {
		case isTurnTest(&insts[i]):
			if tested != nil {
				b.pollSometimes(&list, &aside, insts[i], tested)
			}
			tested = nil
			continue
		case t == nil:
			list = append(list, insts[i])
			continue
		case t.before:
			b.poll(&list, &aside, times(t.own, t.trips.most))
		}
		if list = append(list, insts[i]); t.polls && t.every > 1 {
			tested = t
		} else if t.polls {
			b.poll(&list, &aside, max(t.own, 1))
		}
	}
	return append(list, aside...), 0
}

// pollSometimes is poll for a loop that counts several iterations at once; test is its counter's test.
func (b *builder) pollSometimes(list, aside *[]asm.Inst, test asm.Inst, t *turn) {
	count, back := b.label(), b.label()
	b.backs[back] = t.every
	test.Imm = (t.every - 1) * t.trips.by
	*list = append(*list, test, asm.Inst{Op: asm.JE, To: count}, asm.Inst{Op: asm.LABEL, To: back})
	*aside = append(*aside, asm.Inst{Op: asm.LABEL, To: count}, charge(t.every*t.own), asm.Inst{Op: asm.JNS, To: back},
		pause, asm.Inst{Op: asm.JMP, To: back})
}

// withoutTests returns the instructions without the counters' tests.
func withoutTests(insts []asm.Inst) []asm.Inst {
	return slices.DeleteFunc(insts, func(in asm.Inst) bool { return isTurnTest(&in) })
}

// find returns the turn with a label, t or inside t; nil if there is none.
func (t *turn) find(label asm.Label) *turn {
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

// poll counts down the budget, and pauses if it is used up. The pause is emitted in aside, so that the loop has no
// further taken jump. No flags are live here.
func (b *builder) poll(list, aside *[]asm.Inst, cost int64) {
	out, back := b.label(), b.label()
	b.backs[back] = 1
	*list = append(*list, charge(cost), asm.Inst{Op: asm.JS, To: out}, asm.Inst{Op: asm.LABEL, To: back})
	*aside = append(*aside, asm.Inst{Op: asm.LABEL, To: out}, pause, asm.Inst{Op: asm.JMP, To: back})
}

// charge counts down the budget.
func charge(cost int64) asm.Inst {
	return asm.Inst{Op: asm.SUB, Bits: 64, Args: [4]asm.Reg{asm.Memory}, Mem: header(budgetWord), Imm: min(cost, 1<<30)}
}

// pause leaves the code, which later continues after it.
var pause = asm.Inst{Op: asm.CALL, Args: [4]asm.Reg{asm.Memory}, Mem: asm.Mem{Base: frameRegister, Disp: pauseWord}}

// header returns the address of a word of the header.
func header(word int32) asm.Mem { return asm.Mem{Base: frameRegister, Disp: word} }

// headerBytes returns the bytes before the frame of code that pauses: the header's words, and room for all registers.
func (i *isa) headerBytes() int64 {
	bytes := int64(-resumeWord) + 8*int64(len(savedGeneral)) + int64(i.registers*i.bits/8)
	if i.masks {
		bytes += 8 * 8
	}
	return (bytes + pauseAlign - 1) &^ (pauseAlign - 1)
}

// pauseAlign is the alignment of vectors in the header.
const pauseAlign = 64

// savedGeneral are the registers that code may change, except the frame's.
var savedGeneral = []asm.Reg{asm.RAX, asm.RCX, asm.RDX, asm.RBX, asm.RSI, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12,
	asm.R13, asm.R14, asm.R15}

// pauseCode returns the routine that saves all registers and returns, and, from the offset resume on, the one that
// loads them and continues.
func (i *isa) pauseCode() (code []byte, resume int) {
	b := newBuilder(i)
	type place struct {
		register asm.Reg
		at       asm.Mem
	}
	var places []place
	at := -int32(i.headerBytes())
	for n := range i.registers {
		places = append(places, place{asm.V(n), header(at)})
		at += int32(i.bits / 8)
	}
	if i.masks {
		for n := 1; n < 8; n++ {
			places = append(places, place{asm.K(n), header(at)})
			at += 8
		}
		at += 8
	}
	for _, r := range savedGeneral {
		places = append(places, place{r, header(at)})
		at += 8
	}
	accumulator := places[len(places)-len(savedGeneral)]
	for _, p := range places {
		b.Emit(i.Store(p.at, p.register))
	}
	b.Emit(asm.Inst{Op: asm.POP, Args: [4]asm.Reg{asm.RAX}})
	b.storeWord(header(resumeWord), asm.RAX)
	b.setNumber(asm.RAX, paused)
	b.Emit(asm.Inst{Op: asm.RET})
	for _, in := range b.Insts {
		b.code.Emit(in)
	}
	resume, b.Insts = b.code.Len(), b.Insts[:0]
	for _, p := range places {
		if p.register != asm.RAX {
			b.Emit(i.Load(p.register, p.at))
		}
	}
	b.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, asm.Memory}, Mem: header(resumeWord)})
	b.Emit(asm.Inst{Op: asm.PUSH, Args: [4]asm.Reg{asm.RAX}})
	b.Emit(i.Load(asm.RAX, accumulator.at))
	b.Emit(asm.Inst{Op: asm.RET})
	for _, in := range b.Insts {
		b.code.Emit(in)
	}
	code, err := b.code.Finish()
	if err != nil {
		panic(diag.Internalf("amd64: %v", err))
	}
	return code, resume
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
func plus(x, y int64) int64 { return min(x+y, unbounded) }

// gapsOf computes a turn's gaps from its instructions alone, independently of the decisions of budget.
func (t *turn) gapsOf(insts []asm.Inst, backs map[asm.Label]int64) gaps {
	var each gaps
	at, every := t.first, int64(0)
	count := func(end int) {
		for ; at < end; at++ {
			c := cost(&insts[at])
			next := gaps{before: c, after: c, through: c}
			if n := backs[insts[at].To]; n > 1 && insts[at].Op == asm.LABEL {
				every = n
			} else if n == 1 && insts[at].Op == asm.LABEL {
				next = gaps{through: -1, polls: true}
			}
			each = each.then(next)
		}
	}
	for _, in := range t.inner {
		count(in.first)
		each, at = each.then(in.gapsOf(insts, backs)), in.end
	}
	count(t.end)
	if every > 1 && each.through >= 0 { // a path through so many iterations has a poll
		all := times(each.through, min(every, t.trips.most))
		ends := max(each.before, each.after)
		return gaps{before: plus(all, ends), after: plus(all, ends), between: max(each.between, plus(all, 2*ends)),
			through: all, polls: true}
	}
	if !each.polls {
		all := times(each.through, t.trips.most)
		return gaps{before: all, after: all, through: all}
	}
	if each.through < 0 { // every iteration has a poll; the loop may be jumped over
		return gaps{before: each.before, after: each.after, between: max(each.between, plus(each.before, each.after)),
			through: 0, polls: true}
	}
	all := times(each.through, t.trips.most)
	return gaps{before: plus(each.before, all), after: plus(each.after, all),
		between: max(each.between, plus(plus(each.before, each.after), all)), through: all, polls: true}
}

// longestOf returns the greatest cost of a routine between two points at which it may return, in instructions: the end
// of a tile if it has no budgets.
func (b *builder) longestOf(insts []asm.Inst, tiles asm.Label) int64 {
	root := b.turnsOf(insts)
	over := root.find(tiles)
	over.trips = trips{most: 1, exact: true}
	if len(b.backs) > 0 {
		over.trips = trips{most: unbounded}
	}
	g := root.gapsOf(insts, b.backs)
	return max(g.before, g.after, g.between, g.through)
}

// longestMost is the largest legal result of longestOf. A larger one is a bug.
const longestMost = 1 << 19
