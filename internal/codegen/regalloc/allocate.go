package regalloc

import (
	"cmp"
	"slices"

	"github.com/weirml/weir/internal/diag"
)

// allocator chooses machine registers for a routine: liveness over basic blocks, then one pass over the intervals by
// their starts (Poletto and Sarkar, "Linear Scan Register Allocation", 1999), in which the value that matters least
// goes to memory. Values that are constants of the pool are read from there instead of the frame.
type allocator[I any] struct {
	machine   Machine[I]
	routine   *Routine[I]
	work      *Workspace[I]
	frame     Reg
	place     func(r Reg) (at Mem, ok bool) // of a spilled value, for Fold
	banks     [Classes]Bank
	insts     []I
	flows     []flow
	places    []int32 // by label: the instruction at which it is bound; the first one if it is not
	depth     []int8
	index     [Classes]int // by class: the index of its first register
	intervals []interval
}

// Allocate returns the routine's instructions with machine registers; the list is the workspace's. The frame's bytes
// from spill on are for spilled values; end is the end of the used ones.
func (r *Routine[I]) Allocate(machine Machine[I], spill int32) (insts []I, end int32) {
	a := &allocator[I]{machine: machine, routine: r, work: r.work, frame: machine.Frame(), insts: r.Insts}
	a.place = a.placeOf
	for c := General; c < Classes; c++ {
		a.banks[c] = machine.Bank(c)
	}
	a.findFlows()
	a.findDepths()
	a.findIntervals()
	var temporaries [Classes]bool // of these classes some registers are kept for spilled values
	for {
		end, more := a.scan(temporaries, spill), false
		for c, need := range a.needTemporaries() {
			more = more || need && !temporaries[c]
			temporaries[c] = temporaries[c] || need
		}
		if !more {
			return a.rewrite(), end
		}
	}
}

func (a *allocator[I]) at(r Reg) int { return a.index[r.Class()] + r.Number() }

func (a *allocator[I]) of(r Reg) *interval { return &a.intervals[a.at(r)] }

// scan gives intervals machine registers, in the order of their starts. The temporaries of the given classes are left
// out.
func (a *allocator[I]) scan(temporaries [Classes]bool, spill int32) int32 {
	var free [Classes][]Reg
	for c := range free {
		for _, r := range a.banks[c].Free {
			if !temporaries[c] || !slices.Contains(a.banks[c].Temporaries, r) {
				free[c] = append(free[c], r)
			}
		}
	}
	order := a.work.order[:0]
	for n := range a.intervals {
		if v := &a.intervals[n]; v.reg != NoReg {
			v.machine = NoReg
			order = append(order, int32(n))
		}
	}
	a.work.order = order
	slices.SortFunc(order, func(x, y int32) int {
		return cmp.Or(cmp.Compare(a.intervals[x].start, a.intervals[y].start), cmp.Compare(x, y))
	})
	var spoiled []int32 // positions
	for i, f := range a.flows {
		if f.Flow == Spoils {
			spoiled = append(spoiled, int32(2*i))
		}
	}
	var active [Classes][]*interval
	for _, n := range order {
		v := &a.intervals[n]
		c := v.reg.Class()
		if at, _ := slices.BinarySearch(spoiled, v.start+1); c == Vector && at < len(spoiled) && spoiled[at] < v.end {
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
			least.machine = NoReg
			active[c] = slices.DeleteFunc(active[c], func(other *interval) bool { return other == least })
		}
		at := len(free[c]) - 1
		if v.hint != NoReg {
			if other := a.of(v.hint); other.machine != NoReg {
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
		if v := &a.intervals[n]; v.machine == NoReg && v.constant == 0 {
			size := a.banks[v.reg.Class()].Bytes
			spill = (spill + size - 1) / size * size
			v.slot = spill
			spill += size
		}
	}
	return spill
}

// density returns the cost of keeping a value in memory, per position of its live range.
func (v *interval) density() float64 { return v.weight / float64(v.end-v.start+4) }

// placeOf returns the address of a virtual register's value; ok is false for registers that are not in memory.
func (a *allocator[I]) placeOf(r Reg) (at Mem, ok bool) {
	if !r.Virtual() {
		return at, false
	}
	if v := a.of(r); v.machine == NoReg {
		return a.memory(v), true
	}
	return at, false
}

// memory returns a spilled value's address.
func (a *allocator[I]) memory(v *interval) Mem {
	if v.constant != 0 {
		return Mem{Pool: v.constant}
	}
	return Mem{Base: a.frame, Disp: v.slot}
}

// needTemporaries reports, by class, whether an instruction needs a spilled value in a register that is one of those
// that values may have.
func (a *allocator[I]) needTemporaries() (need [Classes]bool) {
	if !slices.ContainsFunc(a.intervals, func(v interval) bool { return v.reg != NoReg && v.machine == NoReg }) {
		return need
	}
	var in I
	visit := func(r *Reg, _ Role) {
		if r.Virtual() && a.of(*r).machine == NoReg {
			need[r.Class()] = true
		}
	}
	for i := range a.insts {
		in = a.insts[i]
		a.machine.Fold(&in, a.place)
		a.machine.Visit(&in, visit)
	}
	for c, bank := range a.banks {
		need[c] = need[c] && len(bank.Temporaries) > 0 && slices.Contains(bank.Free, bank.Temporaries[0])
	}
	return need
}

// borrowed is a temporary register that holds a spilled value for an instruction.
type borrowed struct {
	virtual, temporary Reg
	loaded             bool
}

// rewrite returns the instructions with machine registers: spilled values are operands in memory, or move through the
// temporary ones.
func (a *allocator[I]) rewrite() []I {
	out := slices.Grow(a.work.out[:0], len(a.insts)+len(a.insts)/8)
	out = a.loadConstants(out)
	var i int
	var in I
	var temporaries []borrowed
	var before, after []I
	visit := func(r *Reg, role Role) { // one closure for all instructions, since it escapes
		if !r.Virtual() {
			return
		}
		v := a.of(*r)
		if v.machine != NoReg {
			*r = v.machine
			return
		}
		at := slices.IndexFunc(temporaries, func(b borrowed) bool { return b.virtual == *r })
		if at < 0 {
			at = len(temporaries)
			temporaries = append(temporaries, borrowed{virtual: *r, temporary: a.temporary(i, r.Class(), temporaries)})
		}
		b, slot := &temporaries[at], a.memory(v)
		if role&Read != 0 && !b.loaded {
			before, b.loaded = append(before, a.machine.Load(b.temporary, slot)), true
		}
		if role&Write != 0 {
			after = append(after, a.machine.Store(slot, b.temporary))
		}
		*r = b.temporary
	}
	spilled := false
	assign := func(r *Reg, _ Role) {
		if r.Virtual() {
			v := a.of(*r)
			*r = v.machine
			spilled = spilled || v.machine == NoReg
		}
	}
	for i = range a.insts {
		in, spilled = a.insts[i], false
		temporaries, before, after = temporaries[:0], before[:0], after[:0]
		if a.machine.Visit(&in, assign); spilled { // which is rare
			in = a.insts[i]
			a.machine.Fold(&in, a.place)
			a.machine.Visit(&in, visit)
		}
		out = append(out, before...)
		if to, from, ok := a.machine.Move(&in); !ok || to != from {
			out = append(out, in)
		}
		out = append(out, after...)
	}
	a.work.out = out
	return out
}

// loadConstants appends the instructions that load the constants with registers of their own.
func (a *allocator[I]) loadConstants(out []I) []I {
	var kept []*interval
	for r := range a.routine.Constants {
		if v := a.of(r); v.reg != NoReg && v.machine != NoReg {
			kept = append(kept, v)
		}
	}
	slices.SortFunc(kept, func(x, y *interval) int { return cmp.Compare(x.machine, y.machine) })
	for _, v := range kept {
		out = append(out, a.machine.Load(v.machine, a.memory(v)))
	}
	return out
}

// temporary returns a temporary register for a spilled operand of instruction i, other than those it has already.
func (a *allocator[I]) temporary(i int, c Class, taken []borrowed) Reg {
	for _, t := range a.banks[c].Temporaries {
		usable := !slices.ContainsFunc(taken, func(b borrowed) bool { return b.temporary == t })
		a.machine.Visit(&a.insts[i], func(r *Reg, _ Role) { usable = usable && *r != t })
		if usable {
			return t
		}
	}
	panic(diag.Internalf("no temporary register for %s", a.machine.Text(&a.insts[i])))
}
