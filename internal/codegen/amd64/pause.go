package amd64

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/diag"
)

// No call into machine code lasts long: the collector waits for it, and so does whoever ends the run's context. A routine whose tiles are short is called for few
// tiles at a time. In any other, loops count down what the frame's budget word holds, in instructions; when it is used up, the code saves all registers in the frame
// and returns. Go then runs as it likes, and calls the code again, which continues at the same place.
//
// The header of such a frame lies in front of it, so that one routine of the program saves and loads registers for all kernels.

// The costs of instructions that these limits count: about a quarter of a nanosecond each, four times as much if each must wait for memory.
const (
	callMost  = 1 << 19 // between two returns to Go
	tileMost  = 1 << 17 // of a tile without a place to stop
	loopMost  = 1 << 16 // of a loop without a place to stop, inside a tile that has others
	loopSmall = 1 << 12 // of a loop that is counted with what is around it
	guessMost = 1 << 9  // the same, if it may also be shorter than counted
)

// unbounded is the cost of what has no bound.
const unbounded = int64(1) << 50

// The header's words, by their distance from the frame.
const (
	budgetWord = -8  // what may still be done before the code returns
	pauseWord  = -16 // the address of the routine that saves registers
	resumeWord = -24 // where the code continues
)

// paused is the status of code that has not ended. Others are 0, and the number of a check that failed.
const paused = -1

// trips is how often a loop's body runs at each entry: at most so often, or exactly.
type trips struct {
	most  int64
	exact bool
}

// turns binds the label at which a loop begins again, and notes how often its body runs.
func (b *builder) turns(l asm.Label, most int64, exact bool) {
	b.bind(l)
	if b.trips == nil {
		b.trips = map[asm.Label]trips{}
	}
	b.trips[l] = trips{max(most, 0), exact}
}

// cost is what an instruction is counted as.
func cost(in *asm.Inst) int64 {
	switch in.Op {
	case asm.LABEL, asm.ALIGN:
		return 0
	case asm.DIV, asm.IDIV, asm.VDIVPS, asm.VDIVPD, asm.VSQRTPS, asm.VSQRTPD:
		return 20
	}
	if in.Mem.Index.Class() == asm.Vector {
		return 32
	}
	if in.Mem.Pool == 0 && in.Mem.Base != asm.NoReg && in.Mem.Base != frameRegister {
		return 3
	}
	return 1
}

// turn is a loop of a routine's instructions: from its label to the last jump back to it. The outermost turn is the routine.
type turn struct {
	label      asm.Label
	first, end int
	trips      trips
	inner      []*turn
	own        int64 // of one iteration, without inner loops that have budgets of their own
	plain      int64 // of all iterations, if nothing in it had a budget
	polls      bool  // each iteration is counted, and may be the last before a return
	before     bool  // all iterations are counted in front of the loop
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
			if _, back := places[in.To]; back {
				ends[in.To] = i + 1
			}
		}
	}
	list := []*turn{{end: len(insts), trips: trips{1, true}}}
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

// measure computes what a turn and those in it cost without budgets.
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
		each, at = each+in.plain, in.end
	}
	count(t.end)
	t.own, t.plain = min(each, unbounded), times(each, t.trips.most)
}

// times is a product of two costs, at most unbounded.
func times(x, y int64) int64 {
	if x > 0 && y > unbounded/x {
		return unbounded
	}
	return x * y
}

// budget decides which turns are counted, and returns what of all iterations is counted around the turn.
func (t *turn) budget(insts []asm.Inst) int64 {
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
	}
	return 0
}

// pauseAlways makes every loop return at every iteration; tests set it.
var pauseAlways bool

// withPauses puts budgets into a routine whose tiles are long, or returns what a tile costs at most; that is 0 if there are budgets. tiles is the label of the loop over tiles.
func (b *builder) withPauses(insts []asm.Inst, tiles asm.Label) (list []asm.Inst, tile int64) {
	root := b.turnsOf(insts)
	over := root.find(tiles)
	if over == nil {
		panic(diag.Internalf("amd64: a routine without a loop over tiles\n%s", listing(insts)))
	}
	over.trips = trips{most: unbounded}
	if !pauseAlways && over.own <= tileMost {
		return insts, max(over.own, 1)
	}
	for _, t := range root.inner {
		t.budget(insts)
	}
	charges, before := map[int]int64{}, map[int]int64{}
	root.collect(charges, before)
	list = make([]asm.Inst, 0, len(insts)+4*(len(charges)+len(before)))
	for i := range insts {
		if c, ok := before[i]; ok {
			list = b.poll(list, c)
		}
		list = append(list, insts[i])
		if c, ok := charges[i]; ok {
			list = b.poll(list, c)
		}
	}
	return list, 0
}

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

// collect lists what is counted, by the turns' labels: behind them, or in front of them.
func (t *turn) collect(charges, before map[int]int64) {
	switch {
	case t.polls:
		charges[t.first] = max(t.own, 1)
	case t.before:
		before[t.first] = times(t.own, t.trips.most)
	}
	for _, in := range t.inner {
		in.collect(charges, before)
	}
}

// poll counts down the budget, and pauses if it is used up. No flags are live here.
func (b *builder) poll(list []asm.Inst, charge int64) []asm.Inst {
	on := b.label()
	return append(list,
		asm.Inst{Op: asm.SUB, Bits: 64, Args: [4]asm.Reg{asm.Memory}, Mem: header(budgetWord), Imm: min(charge, 1<<30)},
		asm.Inst{Op: asm.JNS, To: on},
		asm.Inst{Op: asm.CALL, Args: [4]asm.Reg{asm.Memory}, Mem: header(pauseWord)},
		asm.Inst{Op: asm.LABEL, To: on})
}

func header(word int32) asm.Mem { return asm.Mem{Base: frameRegister, Disp: word} }

// isPoll reports whether an instruction begins a poll.
func isPoll(in *asm.Inst) bool {
	return in.Op == asm.SUB && in.Args[0] == asm.Memory && in.Mem == header(budgetWord)
}

// headerBytes is what lies in front of a frame of code that pauses: the header's words, and room for all registers.
func (i *isa) headerBytes() int64 {
	bytes := int64(-resumeWord) + 8*int64(len(savedGeneral)) + int64(i.registers*i.bits/8)
	if i.masks {
		bytes += 8 * 8
	}
	return (bytes + pauseAlign - 1) &^ (pauseAlign - 1)
}

// pauseAlign is the alignment of vectors in the header.
const pauseAlign = 64

// savedGeneral are the registers that code may change, but for the frame's.
var savedGeneral = []asm.Reg{asm.RAX, asm.RCX, asm.RDX, asm.RBX, asm.RSI, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}

// pauseCode is the routine that saves all registers and returns, and, from the offset resume on, the one that loads them and continues.
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
		b.emit(b.move(p.register, &p.at, false))
	}
	b.emit(asm.Inst{Op: asm.POP, Args: [4]asm.Reg{asm.RAX}})
	b.storeWord(header(resumeWord), asm.RAX)
	b.setNumber(asm.RAX, paused)
	b.emit(asm.Inst{Op: asm.RET})
	for _, in := range b.insts {
		b.code.Emit(in)
	}
	resume, b.insts = b.code.Len(), b.insts[:0]
	for _, p := range places {
		if p.register != asm.RAX {
			b.emit(b.move(p.register, &p.at, true))
		}
	}
	b.emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, asm.Memory}, Mem: header(resumeWord)})
	b.emit(asm.Inst{Op: asm.PUSH, Args: [4]asm.Reg{asm.RAX}})
	b.emit(b.move(asm.RAX, &accumulator.at, true))
	b.emit(asm.Inst{Op: asm.RET})
	for _, in := range b.insts {
		b.code.Emit(in)
	}
	code, err := b.code.Finish()
	if err != nil {
		panic(diag.Internalf("amd64: %v", err))
	}
	return code, resume
}

// gaps are the costs of the longest ways through instructions without a poll: from the beginning to the first poll, from the last one to the end, between two, and from the beginning to the
// end (negative if every way has a poll). Without any poll all but between are the same.
type gaps struct {
	before, after, between, through int64
	polls                           bool // there are some
}

// then is the gaps of one stretch after another.
func (g gaps) then(next gaps) gaps {
	both := gaps{before: g.before, after: next.after, between: max(g.between, next.between), through: -1, polls: g.polls || next.polls}
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

func plus(x, y int64) int64 { return min(x+y, unbounded) }

// gapsOf computes a turn's gaps from its instructions alone, whatever was meant to be counted.
func (t *turn) gapsOf(insts []asm.Inst) gaps {
	var each gaps
	at := t.first
	count := func(end int) {
		for ; at < end; at++ {
			c := cost(&insts[at])
			next := gaps{before: c, after: c, through: c}
			if isPoll(&insts[at]) {
				next = gaps{through: -1, polls: true}
			}
			each = each.then(next)
		}
	}
	for _, in := range t.inner {
		count(in.first)
		each, at = each.then(in.gapsOf(insts)), in.end
	}
	count(t.end)
	if !each.polls {
		all := times(each.through, t.trips.most)
		return gaps{before: all, after: all, through: all}
	}
	if each.through < 0 { // every iteration has a poll; the loop may be jumped over
		return gaps{before: each.before, after: each.after, between: max(each.between, plus(each.before, each.after)), through: 0, polls: true}
	}
	all := times(each.through, t.trips.most)
	return gaps{before: plus(each.before, all), after: plus(each.after, all), between: max(each.between, plus(plus(each.before, each.after), all)), through: all, polls: true}
}

// longestOf is the most that a routine does between two places at which it may return, in instructions: the end of a tile if it has no budgets.
func (b *builder) longestOf(insts []asm.Inst, tiles asm.Label) int64 {
	root := b.turnsOf(insts)
	over := root.find(tiles)
	over.trips = trips{1, true}
	if slices.ContainsFunc(insts, func(in asm.Inst) bool { return isPoll(&in) }) {
		over.trips = trips{most: unbounded}
	}
	g := root.gapsOf(insts)
	return max(g.before, g.after, g.between, g.through)
}

// longestMost is the most that longestOf may be of any kernel. What is more is a bug.
const longestMost = 1 << 19
