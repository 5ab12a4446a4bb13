package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file reads and writes elements that are not adjacent: at a fixed step, or at an index for each lane.

// scattered is an address for each lane: a common one, and an index in elements from there.
type scattered struct {
	at    asm.Mem // without an index of its own
	index value   // i32 or i64
	depth int     // of the innermost scope whose names the index mentions
	key   string  // identifies the index
}

// scatteredAt finds the elements of a buffer at an offset that differs by lane. Elements that share bytes are counted
// from the buffer's beginning.
func (e *emitter) scatteredAt(buffer string, dt dtype.DType, offset sym.Expr) scattered {
	p := e.takeApart(offset)
	lanes := p.rest
	if packs(dt) {
		lanes, p.base, p.step = offset, sym.Expr{}, sym.Expr{}
	}
	as := e.indexType(lanes, p.step, dt)
	if as == dtype.I64 && !packs(dt) {
		p = e.takeApart(e.dividedApart(offset))
		lanes = p.rest
		as = e.indexType(lanes, p.step, dt)
	}
	// All of it is computed once: the window of a gather, in front of the loops that do not change the index, reads it
	// there.
	key, depth := as.String()+lanes.Key()+" "+p.step.Key(), max(e.depthOf(lanes), e.depthOf(p.step), e.vector.depth)
	index := e.once(depth, "i "+key, func() ready {
		switch {
		case isZero(p.step):
			return ready{value: e.laneInteger(lanes, as)}
		case isZero(lanes):
			return ready{value: e.laneSteps(p.step, as)}
		}
		return ready{value: e.plus(e.laneSteps(p.step, as), e.laneInteger(lanes, as))}
	}).value
	if packs(dt) {
		return scattered{at: asm.Mem{Base: e.pointer(buffer, sym.Const(0))}, index: index}
	}
	return scattered{e.withoutIndex(e.address(buffer, p.base)), index, depth, key}
}

// indexType returns the type of the lanes of an index: i32 if the elements' offsets in bits, or their indices, fit.
func (e *emitter) indexType(rest, step sym.Expr, dt dtype.DType) dtype.DType {
	lo, hi := e.bounds(rest)
	low, high := e.bounds(step)
	reach := int64(8) * max(bytesAtLeast(dt), 1) * int64(e.isa.lanes)
	within := func(v, most int64) bool { return -most <= v && v <= most }
	if within(lo, 1<<27) && within(hi, 1<<27) && within(low, (1<<27)/reach) && within(high, (1<<27)/reach) &&
		e.partsFit(rest) {
		return dtype.I32
	}
	return dtype.I64
}

// bytesAtLeast returns the full bytes of an element; 0 for elements of fewer than 8 bits.
func bytesAtLeast(dt dtype.DType) int64 { return int64(dt.Bits()) / 8 }

// withoutIndex returns the same address with a base and a displacement only.
func (e *emitter) withoutIndex(at asm.Mem) asm.Mem {
	if at.Index == asm.NoReg {
		return at
	}
	base := e.general()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{base, asm.Memory}, Mem: at})
	return asm.Mem{Base: base}
}

// gatherLanes reads an element for each lane of a mask (NoReg: all).
func (e *emitter) gatherLanes(dt dtype.DType, p scattered, mask asm.Reg) value {
	v := value{dtype: dt}
	switch kindOf(dt) {
	case doubles, longs:
		v.lo, v.hi = e.gatherWide(p, mask)
		return v
	}
	if dt.Bits() == 32 {
		v.lo = e.gatherNear(p, mask)
		return v
	}
	return e.gatherSmall(dt, p, mask)
}

// gatherWords reads words of 32 bits, their indices counted in units of so many bytes.
func (e *emitter) gatherWords(p scattered, scale uint8, mask asm.Reg) asm.Reg {
	if p.index.dtype == dtype.I32 {
		at := p.at
		at.Index, at.Scale = p.index.lo, scale
		return e.gatherAt(at, mask)
	}
	lo, hi := e.halfMasks(mask)
	if mask != asm.NoReg && !e.isa.masks { // of words
		lo, hi = mask, e.upper(mask)
	}
	half := func(index, mask asm.Reg) asm.Reg {
		at := p.at
		at.Index, at.Scale = index, scale
		return e.gatherBy(asm.VGATHERQPS, at, mask)
	}
	return e.joined(half(p.index.lo, lo), half(p.index.hi, hi))
}

// gatherWide reads elements of 64 bits.
func (e *emitter) gatherWide(p scattered, mask asm.Reg) (x, y asm.Reg) {
	lo, hi := e.halfMasks(mask)
	op, low, high := asm.VGATHERQPD, p.index.lo, p.index.hi
	if p.index.dtype == dtype.I32 {
		op, high = asm.VGATHERDPD, e.upper(low)
	}
	half := func(index, mask asm.Reg) asm.Reg {
		at := p.at
		at.Index, at.Scale = index, 8
		return e.gatherBy(op, at, mask)
	}
	return half(low, lo), half(high, hi)
}

// halfMasks returns the masks of the two halves of 64-bit lanes; NoReg, of all of them, stays NoReg.
func (e *emitter) halfMasks(mask asm.Reg) (lo, hi asm.Reg) {
	if mask == asm.NoReg {
		return mask, mask
	}
	return e.halves(mask, false)
}

// gatherBy emits a gather instruction; lanes outside the mask are 0.
func (e *emitter) gatherBy(op asm.Op, at asm.Mem, mask asm.Reg) asm.Reg {
	r := e.builder.vector()
	e.assign(r, e.integer32(0))
	m := mask
	if m == asm.NoReg {
		m = e.maskConst(true)
	}
	m = e.copyOf(m) // a gather clears its mask
	in := asm.Inst{Op: op, Bits: uint16(e.isa.bits), Mem: at}
	if e.isa.masks {
		in.Args, in.Mask = [4]asm.Reg{r, asm.Memory}, m
	} else {
		in.Args = [4]asm.Reg{r, asm.Memory, m}
	}
	e.Emit(in)
	return r
}

// gatherSmall reads elements of less than 32 bits. For each it reads the aligned word of four bytes that contains it,
// which is in the element's own page.
func (e *emitter) gatherSmall(dt dtype.DType, p scattered, mask asm.Reg) value {
	word := e.general()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{word, asm.Memory}, Mem: p.at})
	start := e.copyOf(word)
	e.integerImm(asm.AND, start, 3)
	e.integerImm(asm.AND, word, -4)
	as := p.index.dtype
	shift := func(v value, op asm.Op, wide asm.Op, by int64) value {
		if as == dtype.I64 {
			op = wide
		}
		return e.each(v, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, by) })
	}
	// The offset of the element's lowest bit, from the first word on.
	bits := e.plus(shift(p.index, asm.VPSLLD, asm.VPSLLQ, int64(log2(int64(dt.Bits())))),
		e.allLanes(e.times(start, 8), as))
	if as == dtype.I64 && !e.isa.masks {
		refuse("%s at offsets of more than 32 bits", dt)
	}
	words := scattered{at: asm.Mem{Base: word}, index: shift(bits, asm.VPSRAD, asm.VPSRAQ, 5)}
	low := e.and(e.cast(bits, dtype.I32).lo, e.integer32(31))
	return e.small(dt, e.shiftRightBy(e.gatherWords(words, 4, mask), low))
}

// small returns lanes of a type from lanes whose lowest bits are elements of less than 32 bits, with any bits above.
func (e *emitter) small(dt dtype.DType, x asm.Reg) value {
	switch {
	case packs(dt):
		return e.unpacked(dt, x)
	case dt == dtype.F16:
		return value{dtype: dt, lo: e.fromHalf(e.lowWords(x))}
	case dt == dtype.BF16:
		return value{dtype: dt, lo: e.shiftLeft(x, 16)}
	case dt == dtype.Bool:
		return e.extended(dt, e.and(x, e.integer32(0xff)))
	case kindOf(dt) == integers:
		return e.settle(value{dtype: dt, lo: x})
	}
	return e.extended(dt, e.and(x, e.integer32(0xff)))
}

// lowWords returns the low 16 bits of each lane, side by side in the lower half.
func (e *emitter) lowWords(x asm.Reg) asm.Reg {
	if e.isa.masks {
		return e.two(asm.VPMOVDW, x)
	}
	return e.twoImm(asm.VPERMQ, e.three(asm.VPSHUFB, x, e.poolVector(lowWords)), 0x08)
}

// scatterLanes writes an element for each lane of a mask (NoReg: all), in the order of the lanes.
func (e *emitter) scatterLanes(dt dtype.DType, p scattered, x value, mask asm.Reg) {
	switch {
	case packs(dt):
		refuse("%s that share bytes with others, to memory", dt)
	case x.kind().wide() && e.isa.masks:
		e.scatterWide(p, x, mask)
	case dt.Bits() == 32 && e.isa.masks && p.index.dtype == dtype.I32:
		e.scatterBy(asm.VPSCATTERDD, p.at, p.index.lo, 4, x.lo, mask)
	case dt.Bits() == 32 && e.isa.masks:
		lo, hi := e.halfMasks(mask)
		e.scatterBy(asm.VPSCATTERQD, p.at, p.index.lo, 4, x.lo, lo)
		e.scatterBy(asm.VPSCATTERQD, p.at, p.index.hi, 4, e.upper(x.lo), hi)
	default:
		e.scatterOneByOne(dt, p, x, mask)
	}
}

// scatterWide stores 64-bit lanes at the addresses of an index, in two halves.
func (e *emitter) scatterWide(p scattered, x value, mask asm.Reg) {
	lo, hi := e.halfMasks(mask)
	op, low, high, second := asm.VPSCATTERQQ, p.index.lo, p.index.hi, x.hi
	if p.index.dtype == dtype.I32 {
		op, high = asm.VPSCATTERDQ, e.upper(low)
	}
	e.scatterBy(op, p.at, low, 8, x.lo, lo)
	e.scatterBy(op, p.at, high, 8, second, hi)
}

// scatterBy emits a scatter instruction, which clears its mask.
func (e *emitter) scatterBy(op asm.Op, at asm.Mem, index asm.Reg, scale uint8, x, mask asm.Reg) {
	at.Index, at.Scale = index, scale
	m := mask
	if m == asm.NoReg {
		m = e.maskConst(true)
	}
	m = e.copyOf(m)
	e.Emit(asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: at, Mask: m})
}

// scatterOneByOne writes lane after lane; a branch skips those outside the mask.
func (e *emitter) scatterOneByOne(dt dtype.DType, p scattered, x value, mask asm.Reg) {
	bits := asm.NoReg
	if mask != asm.NoReg {
		bits = e.bitsOf(mask)
	}
	all := x.lo
	if !x.kind().wide() {
		all = e.prepared(dt, x.lo)
		if dt == dtype.F16 {
			all = e.widened(e.toHalf(x.lo))
		}
	}
	for lane := range e.isa.lanes {
		over := e.label()
		if bits != asm.NoReg {
			e.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{bits}, Imm: 1 << lane})
			e.jump(asm.JE, over)
		}
		at := p.at
		at.Index, at.Scale = e.indexOf(p.index, lane), uint8(bytesOf(dt))
		e.storeLane(dt, at, all, x.hi, lane)
		e.bind(over)
	}
}

// widened returns words in half a vector as lanes of 32 bits.
func (e *emitter) widened(x asm.Reg) asm.Reg { return e.two(asm.VPMOVZXWD, x) }

// indexOf returns a general register with one lane of an index.
func (e *emitter) indexOf(index value, lane int) asm.Reg {
	if index.dtype == dtype.I64 {
		return e.wordOf(e.halfOf(index.lo, index.hi, lane), lane%(e.isa.lanes/2))
	}
	r := e.general()
	e.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, e.quarter(index.lo, lane/4)}, Imm: int64(lane % 4)})
	e.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	return r
}

// halfOf returns which of two registers of 64-bit lanes has a lane.
func (e *emitter) halfOf(lo, hi asm.Reg, lane int) asm.Reg {
	if lane < e.isa.lanes/2 {
		return lo
	}
	return hi
}

// wordOf returns a general register with one lane of 64 bits of a register.
func (e *emitter) wordOf(x asm.Reg, lane int) asm.Reg {
	r := e.general()
	e.Emit(asm.Inst{Op: asm.VPEXTRQ, Args: [4]asm.Reg{r, e.quarter(x, lane/2)}, Imm: int64(lane % 2)})
	return r
}

// quarter returns 128 bits of a vector.
func (e *emitter) quarter(x asm.Reg, n int) asm.Reg {
	if n == 0 {
		return x
	}
	op := asm.VEXTRACTF128
	if e.isa.bits == 512 {
		op = asm.VEXTRACTF32X4
	}
	return e.twoImm(op, x, int64(n))
}

// storeLane writes one lane; for elements of up to 32 bits, the low bits of a lane of lo.
func (e *emitter) storeLane(dt dtype.DType, at asm.Mem, lo, hi asm.Reg, lane int) {
	if kinds[dt].wide() {
		e.storeWord(at, e.wordOf(e.halfOf(lo, hi, lane), lane%(e.isa.lanes/2)))
		return
	}
	r := e.general()
	e.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, e.quarter(lo, lane/4)}, Imm: int64(lane % 4)})
	e.Emit(asm.Inst{Op: asm.MOV, Bits: uint16(dt.Bits()), Args: [4]asm.Reg{asm.Memory, r}, Mem: at})
}

// checkLanes makes a value of each lane usable in indices, or ends the call with the first lane that fails the check.
func (e *emitter) checkLanes(s *loop.Check, v value) {
	low, high := e.resolve(s.Min), e.resolve(s.Max)
	as := dtype.I64
	if v.kind() == integers && v.dtype != dtype.U32 && e.fits(low) && e.fits(high) {
		as = dtype.I32
	}
	v = e.cast(v, as)
	least, greatest := e.laneInteger(low, as), e.laneInteger(high, as)
	below, above := e.above(least, v), e.above(v, greatest)
	bits := e.bitsOf(e.withTail(e.maskOr(below.lo, above.lo)))
	right := e.label()
	e.integerImm(asm.CMP, bits, 0)
	e.jump(asm.JE, right)
	scope := e.open(nil)
	first := e.general()
	e.Emit(asm.Inst{Op: asm.TZCNT, Bits: 32, Args: [4]asm.Reg{first, bits}})
	e.failCheck(s, e.laneAt(v, first), e.laneAt(least, first), e.laneAt(greatest, first))
	body := e.close()
	e.Append(scope.head)
	e.Append(body)
	e.bind(right)
	e.checked(s, name{lanes: v, min: low, max: high})
}

// laneAt returns the lane of v whose number is in a register.
func (e *emitter) laneAt(v value, lane asm.Reg) asm.Reg {
	if v.uniform || v.dtype == dtype.I32 {
		r := v.lo
		if !v.uniform {
			r = e.three(asm.VPERMD, e.broadcastInt(lane), r)
		}
		if v.dtype == dtype.I32 {
			return e.lane32(r, true)
		}
		return e.lane64(r)
	}
	// Which half, and which pair of words in it.
	half := int64(e.isa.lanes / 2)
	r := e.copyOf(e.lane64(e.three(asm.VPERMD, e.pairAt(lane), v.lo)))
	other := e.lane64(e.three(asm.VPERMD, e.pairAt(lane), v.hi))
	e.integerImm(asm.CMP, lane, half)
	e.integerOp(asm.CMOVGE, r, other)
	return r
}

// pairAt returns the numbers of the two words of a lane of 64 bits.
func (e *emitter) pairAt(lane asm.Reg) asm.Reg {
	var odd []byte
	for i := range e.isa.lanes {
		odd = append(odd, byte(i%2), 0, 0, 0)
	}
	return e.addInt(e.broadcastInt(e.times(lane, 2)), e.poolVector(odd))
}

// mostSpread is the greatest step of elements of 32 bits that are read together with the elements between them.
const mostSpread = 4

// loadSpread reads elements of 32 bits at a small step, forward or backward; at is the lowest address. It reads as many
// vectors as the step, which begin and end with a wanted element, and takes the wanted elements of each.
//
// With a mask (NoReg: all lanes) only its lanes' elements are touched; the step is then forward.
func (e *emitter) loadSpread(dt dtype.DType, at asm.Mem, step int64, mask asm.Reg) value {
	by, lanes := max(step, -step), int64(e.isa.lanes)
	var all asm.Reg
	for part := range by {
		from := part * (lanes - 1)
		address := at
		address.Disp += int32(4 * from)
		x := e.loadWanted32(address, mask, by, from)
		if part == 0 && by == 1 {
			return value{dtype: dt, lo: e.three(asm.VPERMD, e.spreadIndex(step, 0, lanes), x)}
		} else if part == 0 {
			all = x
			continue
		}
		index := e.copyOf(e.spreadIndex(step, from, lanes))
		if part == 1 {
			index = e.copyOf(e.spreadPair(step))
		}
		e.Emit(asm.Inst{Op: asm.VPERMI2D, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{index, all, x}})
		all = index
	}
	return value{dtype: dt, lo: all}
}

// loadWanted32 reads a vector of elements of 32 bits at at; with a mask, only the wanted elements, by apart, of which
// the first is lane 0's and at is from elements after that.
func (e *emitter) loadWanted32(at asm.Mem, mask asm.Reg, by, from int64) asm.Reg {
	if mask == asm.NoReg {
		return e.builder.load(at)
	}
	wanted := func() asm.Reg { return e.spreadMask(mask, by, from) }
	if mask == e.tailMask() {
		key := fmt.Sprintf("k%d %d %d", mask, by, from)
		return e.loadMasked(e.once(e.vector.depth, key, func() ready { return ready{register: wanted()} }).register, at)
	}
	return e.loadMasked(wanted(), at)
}

// spreadMask returns the mask of the elements, by apart, that the lanes of a mask want, for the vector that begins from
// elements after lane 0's.
func (e *emitter) spreadMask(mask asm.Reg, by, from int64) asm.Reg {
	pattern := int64(0)
	for lane := range int64(e.isa.lanes) {
		pattern |= 1 << (lane * by)
	}
	bits := e.general()
	e.Emit(asm.Inst{Op: asm.PDEP, Bits: 64, Args: [4]asm.Reg{bits, e.bitsOf(mask), e.number(pattern)}})
	if from > 0 {
		e.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{bits}, Imm: from})
	}
	r := e.maskRegister()
	e.Emit(asm.Inst{Op: asm.KMOVW, Bits: 32, Args: [4]asm.Reg{r, bits}})
	return r
}

// offsetOfLane returns the offset of a lane's element from the lowest one.
func (e *emitter) offsetOfLane(lane, step int64) int64 {
	if step < 0 {
		return (int64(e.isa.lanes) - 1 - lane) * -step
	}
	return lane * step
}

// spreadIndex returns, for each lane, the index of its element in a vector that begins from elements after the lowest.
// A lane whose element lies before the vector keeps that of the first operand.
func (e *emitter) spreadIndex(step, from, lanes int64) asm.Reg {
	var list []byte
	for lane := range lanes {
		at, from := e.offsetOfLane(lane, step), from
		which := lane // the first operand's element
		if at >= from && at < from+lanes {
			which = at - from
			if from > 0 {
				which += lanes
			}
		}
		list = append(list, byte(which), 0, 0, 0)
	}
	return e.poolVector(list)
}

// spreadPair returns, for each lane, the element of the first two vectors that it takes; any for lanes of later
// vectors.
func (e *emitter) spreadPair(step int64) asm.Reg {
	lanes := int64(e.isa.lanes)
	var list []byte
	for lane := range lanes {
		at := e.offsetOfLane(lane, step)
		if at >= lanes {
			at = min(at-(lanes-1), lanes-1) + lanes
		}
		list = append(list, byte(at), 0, 0, 0)
	}
	return e.poolVector(list)
}
