package regalloc

import (
	"math/bits"
	"strings"

	"github.com/weirml/weir/internal/diag"
)

// interval is the live range of a virtual register, in positions: 2·i is the read of instruction i, 2·i+1 its write.
type interval struct {
	reg        Reg // virtual; NoReg if no instruction names the register
	start, end int32
	weight     float64
	hint       Reg   // a virtual register that should have the same machine register
	machine    Reg   // chosen; NoReg: in memory
	constant   int32 // of a constant: its number
	slot       int32 // in the frame, if it is in memory and not a constant
}

// flow is an instruction's Flow, and its label.
type flow struct {
	Flow
	to Label
}

// block is a basic block: instructions that are entered at the first and left at the last.
type block struct {
	first, end         int
	next               [2]int32 // blocks that may follow
	follow             int      // the number of blocks in next
	gen, kill, in, out set
}

// set is a set of virtual registers.
type set []uint64

func (s set) has(i int) bool { return s[i/64]>>(i%64)&1 != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }

// findFlows asks the machine for the flow of every instruction.
func (a *allocator[I]) findFlows() {
	a.flows = reuse(&a.work.flows, len(a.insts))
	last := Label(0)
	for i := range a.insts {
		f := &a.flows[i]
		f.Flow, f.to = a.machine.Flow(&a.insts[i])
		last = max(last, f.to)
	}
	a.places = reuse(&a.work.places, int(last)+1)
	for i, f := range a.flows {
		if f.Flow == Binds {
			a.places[f.to] = int32(i)
		}
	}
}

// findDepths counts the loops around each instruction: the ranges between a label and a later jump back to it.
func (a *allocator[I]) findDepths() {
	a.depth = reuse(&a.work.depth, len(a.insts)+1)
	change := reuse(&a.work.change, len(a.insts)+2)
	for i, f := range a.flows {
		if f.leaves() && int(a.places[f.to]) <= i {
			change[a.places[f.to]]++
			change[i+1]--
		}
	}
	depth := int32(0)
	for i := range a.insts {
		depth += change[i]
		a.depth[i] = int8(min(depth, 6))
	}
}

// findBlocks cuts the instructions into blocks, with empty sets of the given number of words. blockAt gets the block of
// each instruction.
func (a *allocator[I]) findBlocks(blockAt []int32, words int) []block {
	count := 0
	for i, f := range a.flows {
		if i == 0 || f.Flow == Binds || a.flows[i-1].leaves() || !a.flows[i-1].falls() {
			count++
		}
		blockAt[i] = int32(count - 1)
	}
	blocks, sets := reuse(&a.work.blocks, count), reuse(&a.work.sets, 4*count*words)
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
func (a *allocator[I]) findIntervals() {
	total := 0
	for c := range Classes {
		a.index[c] = total
		total += a.routine.count[c]
	}
	blockAt := reuse(&a.work.blockAt, len(a.insts)+1)
	blocks := a.findBlocks(blockAt, (total+63)/64)
	a.intervals = reuse(&a.work.intervals, total)
	a.findUses(blocks)
	for n := range blocks {
		bl := &blocks[n]
		last := a.flows[bl.end-1]
		if last.leaves() {
			bl.next[bl.follow] = blockAt[a.places[last.to]]
			bl.follow++
		}
		if last.falls() && n+1 < len(blocks) {
			bl.next[bl.follow] = int32(n + 1)
			bl.follow++
		}
	}
	spread(blocks)
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
	for r, number := range a.routine.Constants {
		if v := a.of(r); v.reg != NoReg {
			v.constant, v.start = number, -1
		}
	}
	for n := range a.intervals {
		if v := &a.intervals[n]; v.reg != NoReg && v.constant == 0 && len(blocks) > 0 && blocks[0].in.has(n) {
			panic(diag.Internalf("register %v is read before it is written\n%s", v.reg, a.listing()))
		}
	}
}

// findUses begins the live ranges: it extends each to the positions that name the register, and finds the registers
// that each block reads before it writes them, and those that it writes.
func (a *allocator[I]) findUses(blocks []block) {
	touch := func(n int, r Reg, at int, weight float64) {
		v := &a.intervals[n]
		if v.reg == NoReg {
			*v = interval{reg: r, start: int32(at), end: int32(at)}
		}
		v.start, v.end = min(v.start, int32(at)), max(v.end, int32(at))
		v.weight += weight
	}
	weights := [8]float64{1, 8, 64, 512, 4096, 32768, 262144}
	// One closure for all instructions, since it escapes.
	var bl *block
	var weight float64
	var at int
	var written []Reg
	visit := func(r *Reg, role Role) {
		if !r.Virtual() {
			return
		}
		if role&Read != 0 {
			n := a.at(*r)
			touch(n, *r, at, weight)
			if !bl.kill.has(n) {
				bl.gen.add(n)
			}
		}
		if role&Write != 0 {
			written = append(written, *r)
		}
	}
	for n := range blocks {
		bl = &blocks[n]
		for i := bl.first; i < bl.end; i++ {
			in := &a.insts[i]
			weight, at = weights[a.depth[i]], 2*i
			if a.machine.Overlaps(in) {
				at += 2
			}
			written = written[:0]
			a.machine.Visit(in, visit)
			for _, r := range written {
				n := a.at(r)
				touch(n, r, 2*i+1, weight)
				bl.kill.add(n)
			}
			if to, from, ok := a.machine.Move(in); ok && to.Virtual() && from.Virtual() {
				a.of(to).hint, a.of(from).hint = from, to
			}
		}
	}
}

// spread computes the registers that are live before and after each block.
func spread(blocks []block) {
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
}

// listing returns the instructions as text.
func (a *allocator[I]) listing() string {
	var s strings.Builder
	for i := range a.insts {
		s.WriteString("\t" + a.machine.Text(&a.insts[i]) + "\n")
	}
	return s.String()
}
