package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file reads and writes elements that are not adjacent: at a fixed step, or at an index for each lane.

// scattered is an address for each lane: a common one, and an index in elements from there.
type scattered struct {
	at    asm.Mem     // without an index of its own
	index lanes.Value // i32 or i64
	depth int         // of the innermost scope whose names the index mentions
	key   string      // identifies the index
}

// scatteredAt finds the elements of a buffer at an offset that differs by lane. Elements that share bytes are counted
// from the buffer's beginning.
func (e *machine) scatteredAt(buffer string, dt dtype.DType, offset sym.Expr) scattered {
	p := e.TakeApart(offset)
	varying := p.Rest
	if lanes.Packs(dt) {
		varying, p.Base, p.Step = offset, sym.Expr{}, sym.Expr{}
	}
	as := e.indexType(varying, p.Step, dt)
	if as == dtype.I64 && !lanes.Packs(dt) {
		p = e.TakeApart(e.DividedApart(offset))
		varying = p.Rest
		as = e.indexType(varying, p.Step, dt)
	}
	// All of it is computed once: the window of a gather, in front of the loops that do not change the index, reads it
	// there.
	key, depth := as.String()+varying.Key()+" "+p.Step.Key(), max(e.DepthOf(varying), e.DepthOf(p.Step), e.Strip.Depth)
	index := e.Once(depth, "i "+key, func() lanes.Ready {
		switch {
		case lanes.IsZero(p.Step):
			return lanes.Ready{Value: e.laneInteger(varying, as)}
		case lanes.IsZero(varying):
			return lanes.Ready{Value: e.LaneSteps(p.Step, as)}
		}
		return lanes.Ready{Value: e.plus(e.LaneSteps(p.Step, as), e.laneInteger(varying, as))}
	}).Value
	if lanes.Packs(dt) {
		return scattered{at: asm.Mem{Base: e.Pointer(buffer, sym.Const(0))}, index: index}
	}
	return scattered{e.withoutIndex(e.Address(buffer, p.Base)), index, depth, key}
}

// indexType returns the type of the lanes of an index: i32 if the elements' offsets in bits, or their indices, fit.
func (e *machine) indexType(rest, step sym.Expr, dt dtype.DType) dtype.DType {
	lo, hi := e.Bounds(rest)
	low, high := e.Bounds(step)
	reach := int64(8) * max(bytesAtLeast(dt), 1) * int64(e.isa.lanes)
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
func (e *machine) withoutIndex(at asm.Mem) asm.Mem {
	if at.Index == asm.NoReg {
		return at
	}
	base := e.General()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{base, asm.Memory}, Mem: at})
	return asm.Mem{Base: base}
}

// gatherLanes reads an element for each lane of a mask (NoReg: all).
func (e *machine) gatherLanes(dt dtype.DType, p scattered, mask asm.Reg) lanes.Value {
	v := lanes.Value{DType: dt}
	switch lanes.KindOf(dt) {
	case lanes.Doubles, lanes.Longs:
		v.Lo, v.Hi = e.gatherWide(p, mask)
		return v
	}
	if dt.Bits() == 32 {
		v.Lo = e.gatherNear(p, mask)
		return v
	}
	return e.gatherSmall(dt, p, mask)
}

// gatherWords reads words of 32 bits, their indices counted in units of so many bytes.
func (e *machine) gatherWords(p scattered, scale uint8, mask asm.Reg) asm.Reg {
	if p.index.DType == dtype.I32 {
		at := p.at
		at.Index, at.Scale = p.index.Lo, scale
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
	return e.joined(half(p.index.Lo, lo), half(p.index.Hi, hi))
}

// gatherWide reads elements of 64 bits.
func (e *machine) gatherWide(p scattered, mask asm.Reg) (x, y asm.Reg) {
	lo, hi := e.halfMasks(mask)
	op, low, high := asm.VGATHERQPD, p.index.Lo, p.index.Hi
	if p.index.DType == dtype.I32 {
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
func (e *machine) halfMasks(mask asm.Reg) (lo, hi asm.Reg) {
	if mask == asm.NoReg {
		return mask, mask
	}
	return e.halves(mask, false)
}

// gatherBy emits a gather instruction; lanes outside the mask are 0.
func (e *machine) gatherBy(op asm.Op, at asm.Mem, mask asm.Reg) asm.Reg {
	r := e.builder.vector()
	e.Assign(r, e.integer32(0))
	m := mask
	if m == asm.NoReg {
		m = e.maskConst(true)
	}
	m = e.CopyOf(m) // a gather clears its mask
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
func (e *machine) gatherSmall(dt dtype.DType, p scattered, mask asm.Reg) lanes.Value {
	word := e.General()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{word, asm.Memory}, Mem: p.at})
	start := e.CopyOf(word)
	e.integerImm(asm.AND, start, 3)
	e.integerImm(asm.AND, word, -4)
	as := p.index.DType
	shift := func(v lanes.Value, op asm.Op, wide asm.Op, by int64) lanes.Value {
		if as == dtype.I64 {
			op = wide
		}
		return e.Each(v, func(x asm.Reg) asm.Reg { return e.twoImm(op, x, by) })
	}
	// The offset of the element's lowest bit, from the first word on.
	bits := e.plus(shift(p.index, asm.VPSLLD, asm.VPSLLQ, int64(log2(int64(dt.Bits())))),
		e.allLanes(e.Times(start, 8), as))
	if as == dtype.I64 && !e.isa.masks {
		lanes.Refuse("%s at offsets of more than 32 bits", dt)
	}
	words := scattered{at: asm.Mem{Base: word}, index: shift(bits, asm.VPSRAD, asm.VPSRAQ, 5)}
	low := e.and(e.cast(bits, dtype.I32).Lo, e.integer32(31))
	return e.small(dt, e.shiftRightBy(e.gatherWords(words, 4, mask), low))
}

// small returns lanes of a type from lanes whose lowest bits are elements of less than 32 bits, with any bits above.
func (e *machine) small(dt dtype.DType, x asm.Reg) lanes.Value {
	switch {
	case lanes.Packs(dt):
		return e.unpacked(dt, x)
	case dt == dtype.F16:
		return lanes.Value{DType: dt, Lo: e.fromHalf(e.lowWords(x))}
	case dt == dtype.BF16:
		return lanes.Value{DType: dt, Lo: e.shiftLeft(x, 16)}
	case dt == dtype.Bool:
		return e.extended(dt, e.and(x, e.integer32(0xff)))
	case lanes.KindOf(dt) == lanes.Integers:
		return e.settle(lanes.Value{DType: dt, Lo: x})
	}
	return e.extended(dt, e.and(x, e.integer32(0xff)))
}

// lowWords returns the low 16 bits of each lane, side by side in the lower half.
func (e *machine) lowWords(x asm.Reg) asm.Reg {
	if e.isa.masks {
		return e.two(asm.VPMOVDW, x)
	}
	return e.twoImm(asm.VPERMQ, e.three(asm.VPSHUFB, x, e.poolVector(lowWords)), 0x08)
}

// scatterLanes writes an element for each lane of a mask (NoReg: all), in the order of the lanes.
func (e *machine) scatterLanes(dt dtype.DType, p scattered, x lanes.Value, mask asm.Reg) {
	switch {
	case lanes.Packs(dt):
		lanes.Refuse("%s that share bytes with others, to memory", dt)
	case x.Kind().Wide() && e.isa.masks:
		e.scatterWide(p, x, mask)
	case dt.Bits() == 32 && e.isa.masks && p.index.DType == dtype.I32:
		e.scatterBy(asm.VPSCATTERDD, p.at, p.index.Lo, 4, x.Lo, mask)
	case dt.Bits() == 32 && e.isa.masks:
		lo, hi := e.halfMasks(mask)
		e.scatterBy(asm.VPSCATTERQD, p.at, p.index.Lo, 4, x.Lo, lo)
		e.scatterBy(asm.VPSCATTERQD, p.at, p.index.Hi, 4, e.upper(x.Lo), hi)
	default:
		e.scatterOneByOne(dt, p, x, mask)
	}
}

// scatterWide stores 64-bit lanes at the addresses of an index, in two halves.
func (e *machine) scatterWide(p scattered, x lanes.Value, mask asm.Reg) {
	lo, hi := e.halfMasks(mask)
	op, low, high, second := asm.VPSCATTERQQ, p.index.Lo, p.index.Hi, x.Hi
	if p.index.DType == dtype.I32 {
		op, high = asm.VPSCATTERDQ, e.upper(low)
	}
	e.scatterBy(op, p.at, low, 8, x.Lo, lo)
	e.scatterBy(op, p.at, high, 8, second, hi)
}

// scatterBy emits a scatter instruction, which clears its mask.
func (e *machine) scatterBy(op asm.Op, at asm.Mem, index asm.Reg, scale uint8, x, mask asm.Reg) {
	at.Index, at.Scale = index, scale
	m := mask
	if m == asm.NoReg {
		m = e.maskConst(true)
	}
	m = e.CopyOf(m)
	e.Emit(asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: at, Mask: m})
}

// scatterOneByOne writes lane after lane; a branch skips those outside the mask.
func (e *machine) scatterOneByOne(dt dtype.DType, p scattered, x lanes.Value, mask asm.Reg) {
	bits := asm.NoReg
	if mask != asm.NoReg {
		bits = e.bitsOf(mask)
	}
	all := x.Lo
	if !x.Kind().Wide() {
		all = e.prepared(dt, x.Lo)
		if dt == dtype.F16 {
			all = e.widened(e.toHalf(x.Lo))
		}
	}
	for lane := range e.isa.lanes {
		over := e.Label()
		if bits != asm.NoReg {
			e.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{bits}, Imm: 1 << lane})
			e.jump(asm.JE, over)
		}
		at := p.at
		at.Index, at.Scale = e.indexOf(p.index, lane), uint8(lanes.BytesOf(dt))
		e.storeLane(dt, at, all, x.Hi, lane)
		e.Bind(over)
	}
}

// widened returns words in half a vector as lanes of 32 bits.
func (e *machine) widened(x asm.Reg) asm.Reg { return e.two(asm.VPMOVZXWD, x) }

// indexOf returns a general register with one lane of an index.
func (e *machine) indexOf(index lanes.Value, lane int) asm.Reg {
	if index.DType == dtype.I64 {
		return e.wordOf(e.halfOf(index.Lo, index.Hi, lane), lane%(e.isa.lanes/2))
	}
	r := e.General()
	e.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, e.quarter(index.Lo, lane/4)}, Imm: int64(lane % 4)})
	e.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	return r
}

// halfOf returns which of two registers of 64-bit lanes has a lane.
func (e *machine) halfOf(lo, hi asm.Reg, lane int) asm.Reg {
	if lane < e.isa.lanes/2 {
		return lo
	}
	return hi
}

// wordOf returns a general register with one lane of 64 bits of a register.
func (e *machine) wordOf(x asm.Reg, lane int) asm.Reg {
	r := e.General()
	e.Emit(asm.Inst{Op: asm.VPEXTRQ, Args: [4]asm.Reg{r, e.quarter(x, lane/2)}, Imm: int64(lane % 2)})
	return r
}

// quarter returns 128 bits of a vector.
func (e *machine) quarter(x asm.Reg, n int) asm.Reg {
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
func (e *machine) storeLane(dt dtype.DType, at asm.Mem, lo, hi asm.Reg, lane int) {
	if lanes.Kinds[dt].Wide() {
		e.StoreWord(at, e.wordOf(e.halfOf(lo, hi, lane), lane%(e.isa.lanes/2)))
		return
	}
	r := e.General()
	e.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, e.quarter(lo, lane/4)}, Imm: int64(lane % 4)})
	e.Emit(asm.Inst{Op: asm.MOV, Bits: uint16(dt.Bits()), Args: [4]asm.Reg{asm.Memory, r}, Mem: at})
}

// CheckLanes makes a value of each lane usable in indices, or ends the call with the first lane that fails the check.
func (e *machine) CheckLanes(s *loop.Check, v lanes.Value) {
	low, high := e.Resolve(s.Min), e.Resolve(s.Max)
	as := dtype.I64
	if v.Kind() == lanes.Integers && v.DType != dtype.U32 && e.Fits(low) && e.Fits(high) {
		as = dtype.I32
	}
	v = e.cast(v, as)
	least, greatest := e.laneInteger(low, as), e.laneInteger(high, as)
	below, above := e.above(least, v), e.above(v, greatest)
	bits := e.bitsOf(e.withTail(e.maskOr(below.Lo, above.Lo)))
	right := e.Label()
	e.integerImm(asm.CMP, bits, 0)
	e.jump(asm.JE, right)
	scope := e.Open(nil)
	first := e.General()
	e.Emit(asm.Inst{Op: asm.TZCNT, Bits: 32, Args: [4]asm.Reg{first, bits}})
	e.FailCheck(s, e.laneAt(v, first), e.laneAt(least, first), e.laneAt(greatest, first))
	body := e.Close()
	e.Place(scope, body)
	e.Bind(right)
	e.Checked(s, lanes.Name{Lanes: v, Min: low, Max: high})
}

// laneAt returns the lane of v whose number is in a register.
func (e *machine) laneAt(v lanes.Value, lane asm.Reg) asm.Reg {
	if v.Uniform || v.DType == dtype.I32 {
		r := v.Lo
		if !v.Uniform {
			r = e.three(asm.VPERMD, e.broadcastInt(lane), r)
		}
		if v.DType == dtype.I32 {
			return e.lane32(r, true)
		}
		return e.lane64(r)
	}
	// Which half, and which pair of words in it.
	half := int64(e.isa.lanes / 2)
	r := e.CopyOf(e.lane64(e.three(asm.VPERMD, e.pairAt(lane), v.Lo)))
	other := e.lane64(e.three(asm.VPERMD, e.pairAt(lane), v.Hi))
	e.integerImm(asm.CMP, lane, half)
	e.integerOp(asm.CMOVGE, r, other)
	return r
}

// pairAt returns the numbers of the two words of a lane of 64 bits.
func (e *machine) pairAt(lane asm.Reg) asm.Reg {
	var odd []byte
	for i := range e.isa.lanes {
		odd = append(odd, byte(i%2), 0, 0, 0)
	}
	return e.addInt(e.broadcastInt(e.Times(lane, 2)), e.poolVector(odd))
}

// mostSpread is the greatest step of elements of 32 bits that are read together with the elements between them.
const mostSpread = 4

// loadSpread reads elements of 32 bits at a small step, forward or backward; at is the lowest address. It reads as many
// vectors as the step, which begin and end with a wanted element, and takes the wanted elements of each.
//
// With a mask (NoReg: all lanes) only its lanes' elements are touched; the step is then forward.
func (e *machine) loadSpread(dt dtype.DType, at asm.Mem, step int64, mask asm.Reg) lanes.Value {
	by, count := max(step, -step), int64(e.isa.lanes)
	var all asm.Reg
	for part := range by {
		from := part * (count - 1)
		address := at
		address.Disp += int32(4 * from)
		x := e.loadWanted32(address, mask, by, from)
		if part == 0 && by == 1 {
			return lanes.Value{DType: dt, Lo: e.three(asm.VPERMD, e.spreadIndex(step, 0, count), x)}
		} else if part == 0 {
			all = x
			continue
		}
		index := e.CopyOf(e.spreadIndex(step, from, count))
		if part == 1 {
			index = e.CopyOf(e.spreadPair(step))
		}
		e.Emit(asm.Inst{Op: asm.VPERMI2D, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{index, all, x}})
		all = index
	}
	return lanes.Value{DType: dt, Lo: all}
}

// loadWanted32 reads a vector of elements of 32 bits at at; with a mask, only the wanted elements, by apart, of which
// the first is lane 0's and at is from elements after that.
func (e *machine) loadWanted32(at asm.Mem, mask asm.Reg, by, from int64) asm.Reg {
	if mask == asm.NoReg {
		return e.builder.load(at)
	}
	wanted := func() asm.Reg { return e.spreadMask(mask, by, from) }
	if mask == e.TailMask() {
		key := fmt.Sprintf("k%d %d %d", mask, by, from)
		once := e.Once(e.Strip.Depth, key, func() lanes.Ready { return lanes.Ready{Register: wanted()} })
		return e.loadMasked(once.Register, at)
	}
	return e.loadMasked(wanted(), at)
}

// spreadMask returns the mask of the elements, by apart, that the lanes of a mask want, for the vector that begins from
// elements after lane 0's.
func (e *machine) spreadMask(mask asm.Reg, by, from int64) asm.Reg {
	pattern := int64(0)
	for lane := range int64(e.isa.lanes) {
		pattern |= 1 << (lane * by)
	}
	bits := e.General()
	e.Emit(asm.Inst{Op: asm.PDEP, Bits: 64, Args: [4]asm.Reg{bits, e.bitsOf(mask), e.Number(pattern)}})
	if from > 0 {
		e.Emit(asm.Inst{Op: asm.SHR, Bits: 64, Args: [4]asm.Reg{bits}, Imm: from})
	}
	r := e.maskRegister()
	e.Emit(asm.Inst{Op: asm.KMOVW, Bits: 32, Args: [4]asm.Reg{r, bits}})
	return r
}

// offsetOfLane returns the offset of a lane's element from the lowest one.
func (e *machine) offsetOfLane(lane, step int64) int64 {
	if step < 0 {
		return (int64(e.isa.lanes) - 1 - lane) * -step
	}
	return lane * step
}

// spreadIndex returns, for each lane, the index of its element in a vector that begins from elements after the lowest.
// A lane whose element lies before the vector keeps that of the first operand.
func (e *machine) spreadIndex(step, from, lanes int64) asm.Reg {
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
func (e *machine) spreadPair(step int64) asm.Reg {
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
