package lanes

import (
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file reads and writes elements that are not adjacent: at a fixed step, or at an index for each lane.

// scattered is an address for each lane: a common one, and an index in elements from there.
type scattered struct {
	at    regalloc.Mem // without an index of its own
	index Value        // i32 or i64
	depth int          // of the innermost scope whose names the index mentions
	key   string       // identifies the index
}

// scatteredAt finds the elements of a buffer at an offset that differs by lane. Elements that share bytes are counted
// from the buffer's beginning.
func (e *Emitter) scatteredAt(buffer string, dt dtype.DType, offset sym.Expr) scattered {
	p := e.TakeApart(offset)
	varying := p.Rest
	if Packs(dt) {
		varying, p.Base, p.Step = offset, sym.Expr{}, sym.Expr{}
	}
	as := e.indexType(varying, p.Step, dt)
	if as == dtype.I64 && !Packs(dt) {
		p = e.TakeApart(e.DividedApart(offset))
		varying = p.Rest
		as = e.indexType(varying, p.Step, dt)
	}
	// All of it is computed once: the window of a gather, in front of the loops that do not change the index, reads it
	// there.
	key, depth := as.String()+varying.Key()+" "+p.Step.Key(), max(e.DepthOf(varying), e.DepthOf(p.Step), e.Strip.Depth)
	index := e.Once(depth, "i "+key, func() Ready {
		switch {
		case IsZero(p.Step):
			return Ready{Value: e.laneInteger(varying, as)}
		case IsZero(varying):
			return Ready{Value: e.LaneSteps(p.Step, as)}
		}
		return Ready{Value: e.plus(e.LaneSteps(p.Step, as), e.laneInteger(varying, as))}
	}).Value
	if Packs(dt) {
		return scattered{at: regalloc.Mem{Base: e.Pointer(buffer, sym.Const(0))}, index: index}
	}
	return scattered{e.withoutIndex(e.Address(buffer, p.Base)), index, depth, key}
}

// indexType returns the type of the lanes of an index: i32 if the elements' offsets in bits, or their indices, fit.
func (e *Emitter) indexType(rest, step sym.Expr, dt dtype.DType) dtype.DType {
	lo, hi := e.Bounds(rest)
	low, high := e.Bounds(step)
	reach := int64(8) * max(bytesAtLeast(dt), 1) * int64(e.lanes)
	within := func(v, most int64) bool { return -most <= v && v <= most }
	if within(lo, 1<<27) && within(hi, 1<<27) && within(low, (1<<27)/reach) && within(high, (1<<27)/reach) &&
		e.PartsFit(rest) {
		return dtype.I32
	}
	return dtype.I64
}

// bytesAtLeast returns the full bytes of an element; 0 for elements of fewer than 8 bits.
func bytesAtLeast(dt dtype.DType) int64 { return int64(dt.Bits()) / 8 }

// withoutIndex returns the same address with a base and a displacement only.
func (e *Emitter) withoutIndex(at regalloc.Mem) regalloc.Mem {
	if at.Index == regalloc.NoReg {
		return at
	}
	return regalloc.Mem{Base: e.AddressOf(at)}
}

// gatherLanes reads an element for each lane of a mask (NoReg: all).
func (e *Emitter) gatherLanes(dt dtype.DType, p scattered, mask regalloc.Reg) Value {
	v := Value{DType: dt}
	switch {
	case KindOf(dt).Wide():
		v.Lo, v.Hi = e.GatherWide(p.at, p.index, mask)
	case dt.Bits() == 32:
		v.Lo = e.gatherNear(p, mask)
	default:
		return e.gatherSmall(dt, p, mask)
	}
	return v
}

// gatherSmall reads elements of less than 32 bits. For each it reads the aligned word of four bytes that contains it,
// which is in the element's own page.
func (e *Emitter) gatherSmall(dt dtype.DType, p scattered, mask regalloc.Reg) Value {
	word := e.AddressOf(p.at)
	start := e.CopyOf(word)
	e.IntegerNumber(And, start, 3)
	e.IntegerNumber(And, word, -4)
	as := p.index.DType
	// The offset of the element's lowest bit, from the first word on.
	bits := e.plus(e.shiftBy(loop.Shl, p.index, int64(Log2(int64(dt.Bits())))), e.allLanes(e.Times(start, 8), as))
	if !e.Has(loop.Shr, as) {
		Refuse("%s at offsets of more than 32 bits", dt)
	}
	index := e.shiftBy(loop.Shr, bits, 5)
	low := e.word.And(e.cast(bits, dtype.I32).Lo, e.word.Integer(31))
	return e.small(dt, e.word.ShiftRightBy(e.Gather(regalloc.Mem{Base: word}, index, 4, mask), low))
}

// small returns lanes of a type from lanes whose lowest bits are elements of less than 32 bits, with any bits above.
func (e *Emitter) small(dt dtype.DType, x regalloc.Reg) Value {
	switch {
	case Packs(dt):
		return e.unpacked(dt, x)
	case dt == dtype.F16:
		return Value{DType: dt, Lo: e.FromF16(x)}
	case dt == dtype.BF16:
		return Value{DType: dt, Lo: e.word.ShiftLeft(x, 16)}
	case dt == dtype.Bool:
		return e.extended(dt, e.word.And(x, e.word.Integer(0xff)))
	case KindOf(dt) == Integers:
		return e.settle(Value{DType: dt, Lo: x})
	}
	return e.extended(dt, e.word.And(x, e.word.Integer(0xff)))
}

// scatterLanes writes an element for each lane of a mask (NoReg: all), in the order of the lanes.
func (e *Emitter) scatterLanes(dt dtype.DType, p scattered, x Value, mask regalloc.Reg) {
	switch {
	case Packs(dt):
		Refuse("%s that share bytes with others, to memory", dt)
	case x.Kind().Wide() && e.Scatters():
		e.ScatterWide(p.at, p.index, x.Lo, x.Hi, mask)
	case dt.Bits() == 32 && e.Scatters():
		e.Scatter(p.at, p.index, x.Lo, mask)
	default:
		e.scatterOneByOne(dt, p, x, mask)
	}
}

// scatterOneByOne writes lane after lane; a branch skips those outside the mask.
func (e *Emitter) scatterOneByOne(dt dtype.DType, p scattered, x Value, mask regalloc.Reg) {
	bits := regalloc.NoReg
	if mask != regalloc.NoReg {
		bits = e.LaneWord(dtype.I32, mask)
	}
	all := x.Lo
	if !x.Kind().Wide() {
		all = e.prepared(dt, x.Lo)
		if dt == dtype.F16 {
			all = e.ToF16(x.Lo)
		}
	}
	for lane := range e.lanes {
		over := e.Label()
		if bits != regalloc.NoReg {
			e.JumpOnSet(bits, lane, false, over)
		}
		at := p.at
		at.Index, at.Scale = e.indexOf(p.index, lane), uint8(BytesOf(dt))
		e.storeLane(dt, at, all, x.Hi, lane)
		e.Bind(over)
	}
}

// indexOf returns a general register with one lane of an index.
func (e *Emitter) indexOf(index Value, lane int) regalloc.Reg {
	x, n := index.Lo, lane
	if index.DType == dtype.I64 {
		x, n = e.halfOf(index.Lo, index.Hi, lane)
	}
	return e.LaneNumber(index.DType, x, n)
}

// halfOf returns which of two registers of 64-bit lanes has a lane, and its number there.
func (e *Emitter) halfOf(lo, hi regalloc.Reg, lane int) (x regalloc.Reg, n int) {
	if lane < e.lanes/2 {
		return lo, lane
	}
	return hi, lane - e.lanes/2
}

// storeLane writes one lane; for elements of up to 32 bits, the low bits of a lane of lo.
func (e *Emitter) storeLane(dt dtype.DType, at regalloc.Mem, lo, hi regalloc.Reg, lane int) {
	x, n := lo, lane
	if Kinds[dt].Wide() {
		x, n = e.halfOf(lo, hi, lane)
	}
	e.StoreLane(raw(dt), at, x, n)
}

// checkLanes makes a value of each lane usable in indices, or ends the call with the first lane that fails the check.
func (e *Emitter) checkLanes(s *loop.Check, v Value) {
	low, high := e.Resolve(s.Min), e.Resolve(s.Max)
	as := dtype.I64
	if v.Kind() == Integers && v.DType != dtype.U32 && e.Fits(low) && e.Fits(high) {
		as = dtype.I32
	}
	v = e.cast(v, as)
	least, greatest := e.laneInteger(low, as), e.laneInteger(high, as)
	below, above := e.above(least, v), e.above(v, greatest)
	bits := e.LaneWord(dtype.I32, e.withTail(e.Masks(loop.Or, below.Lo, above.Lo)))
	right := e.Label()
	e.CompareNumber(bits, 0)
	e.JumpIf(Equal, right)
	scope := e.Open(nil)
	first := e.FirstSet(bits)
	e.FailCheck(s, e.laneAt(v, first), e.laneAt(least, first), e.laneAt(greatest, first))
	body := e.Close()
	e.Place(scope, body)
	e.Bind(right)
	e.Checked(s, Name{Lanes: v, Min: low, Max: high})
}

// laneAt returns the lane of v whose number is in a register.
func (e *Emitter) laneAt(v Value, lane regalloc.Reg) regalloc.Reg {
	if v.Uniform || v.DType == dtype.I32 {
		r := v.Lo
		if !v.Uniform {
			r = e.TakeLanes(e.Broadcast(dtype.I32, lane), r)
		}
		if v.DType == dtype.I32 {
			return e.FirstLane(dtype.I32, r)
		}
		return e.FirstLane(dtype.I64, r)
	}
	// Which half, and which pair of words in it.
	half := int64(e.lanes / 2)
	r := e.CopyOf(e.FirstLane(dtype.I64, e.TakeLanes(e.pairAt(lane), v.Lo)))
	other := e.FirstLane(dtype.I64, e.TakeLanes(e.pairAt(lane), v.Hi))
	e.CompareNumber(lane, half)
	e.AssignIf(GreaterOrEqual, r, other)
	return r
}

// pairAt returns the numbers of the two words of a lane of 64 bits.
func (e *Emitter) pairAt(lane regalloc.Reg) regalloc.Reg {
	return e.word.AddInt(e.Broadcast(dtype.I32, e.Times(lane, 2)), e.perLane(func(lane int) int { return lane % 2 }))
}
