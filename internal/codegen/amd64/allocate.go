package amd64

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/diag"
)

// frameRegister holds the frame's address. Of the other general registers, RSP and RBP are Go's, and three hold
// operands of divisions and spilled values for the length of an instruction.
const frameRegister = asm.RDI

var (
	generalFree  = []asm.Reg{asm.RSI, asm.RBX, asm.R8, asm.R9, asm.R10, asm.R11, asm.R12, asm.R13, asm.R14, asm.R15}
	generalTemps = []asm.Reg{asm.RCX, asm.RDX, asm.RAX}
)

// vectorTemps is the number of vector registers (and of opmasks) that are kept for spilled values, if there are any.
const vectorTemps = 3

// interval is the live range of a virtual register, in positions: 2·i is the read of instruction i, 2·i+1 its write.
type interval struct {
	reg        asm.Reg // virtual; NoReg if no instruction names the register
	start, end int32
	weight     float64
	hint       asm.Reg // a virtual register that should have the same machine register
	machine    asm.Reg // chosen; NoReg: in memory
	constant   int32   // of a constant of the pool: its asm.Mem.Pool
	slot       int32   // in the frame, if it is in memory and not a constant
}

// spoil marks the beginning of code that names vector registers of the machine, and no virtual ones: virtual vector
// registers that are live across this position are kept in memory.
func (b *builder) spoil() { b.emit(spoils) }

// spoils marks the position; it is not emitted.
var spoils = asm.Inst{Op: asm.ALIGN, Imm: 1}

// allocator chooses machine registers for a routine: liveness over basic blocks, then one pass over the intervals by
// their starts (Poletto and Sarkar, "Linear Scan Register Allocation", 1999), in which the value that matters least
// goes to memory. Values that are constants of the pool are read from there instead of the frame.
type allocator struct {
	b         *builder
	insts     []asm.Inst
	depth     []int8
	index     [4]int // by class: the index of its first register
	intervals []interval
}

// block is a basic block: instructions that are entered at the first and left at the last.
type block struct {
	first, end         int
	next               [2]int32 // blocks that may follow
	follow             int      // the number of blocks in next
	gen, kill, in, out set
}

// allocate rewrites the routine's instructions with machine registers. The frame's bytes from spill on are for spilled
// values; it returns the end of the used ones.
func (b *builder) allocate(spill int32) ([]asm.Inst, int32) {
	b.foldBroadcasts()
	a := &allocator{b: b, insts: b.insts}
	a.index[asm.General], a.index[asm.Vector], a.index[asm.Opmask] = 0, b.count[asm.General],
		b.count[asm.General]+b.count[asm.Vector]
	a.findDepths()
	a.findIntervals()
	var temps [4]bool
	for {
		end, more := a.scan(temps, spill), false
		for c, need := range a.needTemps() {
			more = more || need && !temps[c]
			temps[c] = temps[c] || need
		}
		if !more {
			return a.rewrite(), end
		}
	}
}

func (a *allocator) at(r asm.Reg) int { return a.index[r.Class()] + r.Number() }

func (a *allocator) of(r asm.Reg) *interval { return &a.intervals[a.at(r)] }

// findDepths counts the loops around each instruction: the ranges between a label and a later jump back to it.
func (a *allocator) findDepths() {
	a.depth = reuse(&a.b.work.depth, len(a.insts)+1)
	places := a.labels()
	change := reuse(&a.b.work.change, len(a.insts)+2)
	for i := range a.insts {
		if in := &a.insts[i]; in.Op.Jumps() && int(places[in.To]) <= i {
			change[places[in.To]]++
			change[i+1]--
		}
	}
	depth := int32(0)
	for i := range a.insts {
		depth += change[i]
		a.depth[i] = int8(min(depth, 6))
	}
}

// labels returns the instruction at which each label is bound; an unbound label is at the beginning.
func (a *allocator) labels() []int32 {
	last := asm.Label(0)
	for i := range a.insts {
		last = max(last, a.insts[i].To)
	}
	places := reuse(&a.b.work.places, int(last)+1)
	for i := range a.insts {
		if a.insts[i].Op == asm.LABEL {
			places[a.insts[i].To] = int32(i)
		}
	}
	return places
}

// set is a set of virtual registers.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

// blocks cuts the instructions into blocks, with empty sets of the given number of words. blockAt gets the block of
// each instruction.
func (a *allocator) blocks(blockAt []int32, words int) []block {
	count := 0
	for i := range a.insts {
		if i == 0 || a.insts[i].Op == asm.LABEL || a.insts[i-1].Op.Jumps() || a.insts[i-1].Op.Ends() {
			count++
		}
		blockAt[i] = int32(count - 1)
	}
	blocks, sets := reuse(&a.b.work.blocks, count), reuse(&a.b.work.sets, 4*count*words)
	next := func() set {
		s := sets[:words:words]
		sets = sets[words:]
		return set(s)
	}
	for i := range a.insts {
		bl := &blocks[blockAt[i]]
		if bl.end == 0 {
			*bl = block{first: i, gen: next(), kill: next(), in: next(), out: next()}
		}
		bl.end = i + 1
	}
	return blocks
}

// findIntervals computes the live range of every virtual register.
func (a *allocator) findIntervals() {
	total := a.b.count[asm.General] + a.b.count[asm.Vector] + a.b.count[asm.Opmask]
	blockAt := reuse(&a.b.work.blockAt, len(a.insts)+1)
	blocks := a.blocks(blockAt, (total+63)/64)
	a.intervals = reuse(&a.b.work.intervals, total)
	touch := func(n int, r asm.Reg, at int, weight float64) {
		v := &a.intervals[n]
		if v.reg == asm.NoReg {
			*v = interval{reg: r, start: int32(at), end: int32(at)}
		}
		v.start, v.end = min(v.start, int32(at)), max(v.end, int32(at))
		v.weight += weight
	}
	places := a.labels()
	weights := [8]float64{1, 8, 64, 512, 4096, 32768, 262144}
	for n := range blocks {
		bl := &blocks[n]
		for i := bl.first; i < bl.end; i++ {
			in := &a.insts[i]
			weight := weights[a.depth[i]]
			early := 0
			if overlaps(in) {
				early = 2
			}
			in.Visit(func(r *asm.Reg, role asm.Role) {
				if !r.Virtual() {
					return
				}
				if role&asm.Read != 0 {
					n := a.at(*r)
					touch(n, *r, 2*i+early, weight)
					if !bl.kill.has(n) {
						bl.gen.add(n)
					}
				}
			})
			in.Visit(func(r *asm.Reg, role asm.Role) {
				if r.Virtual() && role&asm.Write != 0 {
					n := a.at(*r)
					touch(n, *r, 2*i+1, weight)
					bl.kill.add(n)
				}
			})
			if isMove(in) && in.Args[0].Virtual() && in.Args[1].Virtual() {
				a.of(in.Args[0]).hint, a.of(in.Args[1]).hint = in.Args[1], in.Args[0]
			}
		}
		last := &a.insts[bl.end-1]
		if last.Op.Jumps() {
			bl.next[bl.follow] = blockAt[places[last.To]]
			bl.follow++
		}
		if !last.Op.Ends() && n+1 < len(blocks) {
			bl.next[bl.follow] = int32(n + 1)
			bl.follow++
		}
	}
	for changed := true; changed; {
		changed = false
		for n := len(blocks) - 1; n >= 0; n-- {
			bl := &blocks[n]
			for _, next := range bl.next[:bl.follow] {
				for w, in := range blocks[next].in {
					bl.out[w] |= in
				}
			}
			for w := range bl.in {
				if in := bl.gen[w] | bl.out[w]&^bl.kill[w]; in != bl.in[w] {
					bl.in[w], changed = in, true
				}
			}
		}
	}
	for n := range blocks {
		bl := &blocks[n]
		for w := range bl.in {
			for m := bl.in[w]; m != 0; m &= m - 1 {
				v := &a.intervals[w*64+bits.TrailingZeros64(m)]
				v.start = min(v.start, int32(2*bl.first))
			}
			for m := bl.out[w]; m != 0; m &= m - 1 {
				v := &a.intervals[w*64+bits.TrailingZeros64(m)]
				v.end = max(v.end, int32(2*bl.end))
			}
		}
	}
	for r, mem := range a.b.constants {
		if v := a.of(r); v.reg != asm.NoReg {
			v.constant, v.start = mem.Pool, -1
		}
	}
	for n := range a.intervals {
		if v := &a.intervals[n]; v.reg != asm.NoReg && v.constant == 0 && len(blocks) > 0 && blocks[0].in.has(n) {
			panic(diag.Internalf("amd64: register %v is read before it is written\n%s", v.reg, listing(a.insts)))
		}
	}
}

// scan gives intervals machine registers, in the order of their starts. With temps of a class, some of its registers
// are left out.
func (a *allocator) scan(temps [4]bool, spill int32) int32 {
	var free [4][]asm.Reg
	free[asm.General] = slices.Clone(generalFree)
	for n := a.b.isa.registers - 1; n >= 0; n-- {
		if !temps[asm.Vector] || n < a.b.isa.registers-vectorTemps {
			free[asm.Vector] = append(free[asm.Vector], asm.V(n))
		}
	}
	for n := 7; n >= 1; n-- {
		if !temps[asm.Opmask] || n <= 7-vectorTemps {
			free[asm.Opmask] = append(free[asm.Opmask], asm.K(n))
		}
	}
	order := a.b.work.order[:0]
	for n := range a.intervals {
		if v := &a.intervals[n]; v.reg != asm.NoReg {
			v.machine = asm.NoReg
			order = append(order, int32(n))
		}
	}
	a.b.work.order = order
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(a.intervals[x].start, a.intervals[y].start), cmp.Compare(x, y))
	})
	var spoiled []int32 // positions
	for i := range a.insts {
		if a.insts[i].Op == asm.ALIGN && a.insts[i] == spoils {
			spoiled = append(spoiled, int32(2*i))
		}
	}
	var active [4][]*interval
	for _, n := range order {
		v := &a.intervals[n]
		c := v.reg.Class()
		if at, _ := slices.BinarySearch(spoiled, v.start+1); c == asm.Vector && at < len(spoiled) && spoiled[at] < v.end {
			continue
		}
		kept := active[c][:0]
		for _, other := range active[c] {
			if other.end < v.start {
				free[c] = append(free[c], other.machine)
			} else {
				kept = append(kept, other)
			}
		}
		active[c] = kept
		if len(free[c]) == 0 {
			least := v
			for _, other := range active[c] {
				if other.density() < least.density() {
					least = other
				}
			}
			if least == v {
				continue
			}
			free[c] = append(free[c], least.machine)
			least.machine = asm.NoReg
			active[c] = slices.DeleteFunc(active[c], func(other *interval) bool { return other == least })
		}
		at := len(free[c]) - 1
		if v.hint != asm.NoReg {
			if other := a.of(v.hint); other.machine != asm.NoReg {
				if i := slices.Index(free[c], other.machine); i >= 0 {
					at = i
				}
			}
		}
		v.machine = free[c][at]
		free[c] = slices.Delete(free[c], at, at+1)
		active[c] = append(active[c], v)
	}
	for _, n := range order {
		if v := &a.intervals[n]; v.machine == asm.NoReg && v.constant == 0 {
			size := int32(8)
			if v.reg.Class() == asm.Vector {
				size = int32(a.b.isa.bits / 8)
			}
			spill = (spill + size - 1) / size * size
			v.slot = spill
			spill += size
		}
	}
	return spill
}

// density returns the cost of keeping a value in memory, per position of its live range.
func (v *interval) density() float64 { return v.weight / float64(v.end-v.start+4) }

// memory returns a spilled value's address.
func (v *interval) memory() asm.Mem {
	if v.constant != 0 {
		return asm.Mem{Pool: v.constant}
	}
	return asm.Mem{Base: frameRegister, Disp: v.slot}
}

// needTemps reports, by class, whether an instruction needs a spilled value in a register.
func (a *allocator) needTemps() (need [4]bool) {
	if !slices.ContainsFunc(a.intervals, func(v interval) bool { return v.reg != asm.NoReg && v.machine == asm.NoReg }) {
		return need
	}
	var in asm.Inst
	for i := range a.insts {
		in = a.insts[i]
		a.fold(&in)
		in.Visit(func(r *asm.Reg, role asm.Role) {
			if r.Virtual() && a.of(*r).machine == asm.NoReg {
				need[r.Class()] = true
			}
		})
	}
	need[asm.General] = false // this class has temporaries of its own
	return need
}

// fold makes one spilled operand of an instruction an operand in memory, if a form of the instruction allows it.
func (a *allocator) fold(in *asm.Inst) {
	if in.Op == asm.LABEL || in.Mem != (asm.Mem{}) || slices.Contains(in.Args[:], asm.Memory) {
		return
	}
	for at := len(in.Args) - 1; at >= 0; at-- {
		r := in.Args[at]
		if !r.Virtual() {
			continue
		}
		v := a.of(r)
		if v.machine != asm.NoReg || count(in, r) > 1 || !a.foldable(in, at) {
			continue
		}
		in.Args[at], in.Mem = asm.Memory, v.memory()
		return
	}
}

// foldable reports whether an operand may lie in memory instead, in as many bytes as its register has. A written
// operand must fill them.
func (a *allocator) foldable(in *asm.Inst, at int) bool {
	role := asm.Role(0)
	in.Visit(func(r *asm.Reg, ro asm.Role) {
		if *r == in.Args[at] {
			role |= ro
		}
	})
	if role&asm.Write != 0 && !(in.Args[at].Class() == asm.General && in.Bits == 64 || isMove(in)) {
		return false
	}
	other := *in
	other.Args[at], other.Mem = asm.Memory, asm.Mem{Base: frameRegister}
	return other.Encodes() && (a.b.isa.masks || other.Features() < asm.AVX512F)
}

// count returns how often an instruction names a register.
func count(in *asm.Inst, r asm.Reg) int {
	n := 0
	in.Visit(func(other *asm.Reg, _ asm.Role) {
		if *other == r {
			n++
		}
	})
	return n
}

// rewrite returns the instructions with machine registers: spilled values are operands in memory, or move through the
// temporary ones.
func (a *allocator) rewrite() []asm.Inst {
	out := slices.Grow(a.b.work.out[:0], len(a.insts)+len(a.insts)/8)
	for r, place := range a.b.constants {
		if v := a.of(r); v.reg != asm.NoReg && v.machine != asm.NoReg {
			out = append(out, a.b.move(v.machine, &place, true))
		}
	}
	slices.SortFunc(out, func(x, y asm.Inst) int { return int(x.Args[0]) - int(y.Args[0]) })
	var in asm.Inst
	for i := range a.insts {
		in = a.insts[i]
		a.fold(&in)
		var temps []asm.Reg // pairs: the virtual register, its temporary
		var before, after []asm.Inst
		in.Visit(func(r *asm.Reg, role asm.Role) {
			if !r.Virtual() {
				return
			}
			v := a.of(*r)
			if v.machine != asm.NoReg {
				*r = v.machine
				return
			}
			temp := asm.NoReg
			for t := 0; t < len(temps); t += 2 {
				if temps[t] == *r {
					temp = temps[t+1]
				}
			}
			slot := v.memory()
			if temp == asm.NoReg {
				temp = a.temp(&a.insts[i], r.Class(), temps)
				temps = append(temps, *r, temp)
				if role&asm.Read != 0 {
					before = append(before, a.b.move(temp, &slot, true))
				}
			} else if role&asm.Read != 0 && !slices.ContainsFunc(before, func(b asm.Inst) bool { return b.Args[0] == temp }) {
				before = append(before, a.b.move(temp, &slot, true))
			}
			if role&asm.Write != 0 {
				after = append(after, a.b.move(temp, &slot, false))
			}
			*r = temp
		})
		out = append(out, before...)
		if !(isMove(&in) && in.Args[0] == in.Args[1]) {
			out = append(out, in)
		}
		out = append(out, after...)
	}
	a.b.work.out = out
	return out
}

// temp returns a temporary register for a spilled operand of an instruction, other than those it has already.
func (a *allocator) temp(in *asm.Inst, c asm.Class, taken []asm.Reg) asm.Reg {
	usable := func(t asm.Reg) bool {
		if slices.Contains(taken, t) {
			return false
		}
		mentioned := false
		in.Visit(func(r *asm.Reg, _ asm.Role) { mentioned = mentioned || *r == t })
		return !mentioned
	}
	switch c {
	case asm.General:
		for _, t := range generalTemps {
			if usable(t) {
				return t
			}
		}
	case asm.Vector:
		for n := 1; n <= vectorTemps; n++ {
			if t := asm.V(a.b.isa.registers - n); usable(t) {
				return t
			}
		}
	case asm.Opmask:
		for n := 7; n > 7-vectorTemps; n-- {
			if usable(asm.K(n)) {
				return asm.K(n)
			}
		}
	}
	panic(diag.Internalf("amd64: no temporary register for %s", in))
}
