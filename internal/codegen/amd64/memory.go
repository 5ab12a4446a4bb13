package amd64

import (
	"fmt"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/dtype"
)

// This file reads and writes elements of memory; see lanes.Access.

// masked emits a read or a write of adjacent elements: of those in the mask, if there is one (NoReg: all).
func (b *builder) masked(in asm.Inst, mask asm.Reg) {
	if in.Mask = mask; mask != asm.NoReg && in.Args[1] == asm.Memory {
		in.Zero = true
	}
	b.Emit(in)
}

// Parts reports whether elements of a type can be read and written by masks: without opmasks, those of 32 bits or more.
func (b *builder) Parts(dt dtype.DType) bool { return b.isa.masks || dt.Bits() >= 32 }

// Load reads adjacent elements into lanes.
func (b *builder) Load(dt dtype.DType, m asm.Mem, mask asm.Reg) asm.Reg {
	r := b.NewVector()
	in := asm.Inst{Op: extensions[dt], Bits: uint16(b.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: m}
	switch {
	case in.Op != asm.NoOp:
	case mask == asm.NoReg:
		in.Op = asm.VMOVUPS
	case b.isa.masks:
		in.Op = sized(dt, asm.VMOVUPS, asm.VMOVUPD)
	default:
		in.Op, in.Args, mask = sized(dt, asm.VMASKMOVPS, asm.VMASKMOVPD), [4]asm.Reg{r, mask, asm.Memory}, asm.NoReg
	}
	b.masked(in, mask)
	return r
}

// extensions are the instructions that read narrow elements into lanes of 32 bits.
var extensions = perType{dtype.U8: asm.VPMOVZXBD, dtype.I8: asm.VPMOVSXBD, dtype.U16: asm.VPMOVZXWD,
	dtype.I16: asm.VPMOVSXWD, dtype.F16: asm.VCVTPH2PS}

// Store writes lanes to adjacent elements.
func (b *builder) Store(dt dtype.DType, m asm.Mem, x, mask asm.Reg) {
	in := asm.Inst{Op: asm.VMOVUPS, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: m}
	switch narrow := dt.Bits() < 32; {
	case narrow && mask != asm.NoReg:
		in.Op, in.Bits = narrowings[dt], 512
	case narrow:
		if in.Bits = uint16(b.isa.lanes * dt.Bits()); in.Bits < 128 {
			in.Op, in.Bits = asm.VMOVQ, 0
		}
		in.Args[1] = b.packed(dt, x)
	case mask == asm.NoReg:
	case b.isa.masks:
		in.Op = sized(dt, asm.VMOVUPS, asm.VMOVUPD)
	default:
		in.Op, in.Args, mask = sized(dt, asm.VMASKMOVPS, asm.VMASKMOVPD), [4]asm.Reg{asm.Memory, mask, x}, asm.NoReg
	}
	b.masked(in, mask)
}

// narrowings are the instructions of AVX-512 that narrow lanes of 32 bits.
var narrowings = perType{dtype.U8: asm.VPMOVDB, dtype.I8: asm.VPMOVDB, dtype.U16: asm.VPMOVDW, dtype.I16: asm.VPMOVDW,
	dtype.F16: asm.VCVTPS2PH}

// packed returns the elements of lanes of a narrow type, in the lowest bytes of a register.
func (b *builder) packed(dt dtype.DType, x asm.Reg) asm.Reg {
	switch {
	case b.isa.masks || dt == dtype.F16:
		return b.two(narrowings[dt], x)
	case dt.Bits() == 16:
		return b.twoImm(asm.VPERMQ, b.three(asm.VPSHUFB, x, b.Vector(lowWords)), 0x08)
	}
	return b.three(asm.VPERMD, b.Vector(firstAndFifth), b.three(asm.VPSHUFB, x, b.Vector(lowBytes)))
}

// How bytes and words of 32-bit lanes come together: within each half of a vector, then across.
var (
	lowBytes      = twice(0, 4, 8, 12)
	lowWords      = twice(0, 1, 4, 5, 8, 9, 12, 13)
	firstAndFifth = []byte{0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
)

// twice returns the indices of a shuffle that does the same in both halves; bytes without an index become 0.
func twice(from ...byte) []byte {
	half := make([]byte, 16)
	for i := range half {
		if half[i] = 0x80; i < len(from) {
			half[i] = from[i]
		}
	}
	return append(half[:16:16], half...)
}

// LoadOne reads one element into all lanes.
func (b *builder) LoadOne(dt dtype.DType, m asm.Mem) asm.Reg {
	if dt.Bits() >= 32 {
		r := b.NewVector()
		b.Emit(asm.Inst{Op: sized(dt, asm.VBROADCASTSS, asm.VBROADCASTSD), Bits: uint16(b.isa.bits),
			Args: [4]asm.Reg{r, asm.Memory}, Mem: m})
		return r
	}
	x := b.General()
	b.Emit(asm.Inst{Op: extended[dt], Bits: 32, Args: [4]asm.Reg{x, asm.Memory}, Mem: m})
	if dt != dtype.F16 {
		return b.Broadcast(dtype.I32, x)
	}
	r := b.NewVector()
	b.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{r, x}})
	return b.two(asm.VCVTPH2PS, b.two(asm.VPBROADCASTW, r))
}

// extended are the instructions that read a narrow element into a general register.
var extended = perType{dtype.U8: asm.MOVZXB, dtype.I8: asm.MOVSXB, dtype.U16: asm.MOVZXW, dtype.I16: asm.MOVSXW,
	dtype.F16: asm.MOVZXW}

// StoreOne writes lane 0.
func (b *builder) StoreOne(dt dtype.DType, m asm.Mem, x asm.Reg) {
	if dt.Bits() >= 32 {
		b.Emit(asm.Inst{Op: sized(dt, asm.VMOVSS, asm.VMOVSD), Args: [4]asm.Reg{asm.Memory, x}, Mem: m})
		return
	}
	if dt == dtype.F16 {
		x = b.toHalf(x)
	}
	b.StoreBits(dt.Bits(), m, b.FirstLane(dtype.U32, x))
}

// StoreLane writes one lane.
func (b *builder) StoreLane(dt dtype.DType, m asm.Mem, x asm.Reg, n int) {
	if dt == dtype.I64 {
		b.StoreWord(m, b.LaneNumber(dt, x, n))
		return
	}
	r := b.General()
	b.Emit(asm.Inst{Op: asm.VPEXTRD, Args: [4]asm.Reg{r, b.quarter(x, n/4)}, Imm: int64(n % 4)})
	b.StoreBits(dt.Bits(), m, r)
}

// Apart reports whether all lanes of a vector of elements a step apart lie within a displacement.
func (b *builder) Apart(dt dtype.DType, m asm.Mem, step int64) bool {
	last := step*lanes.BytesOf(dt)*int64(b.isa.lanes) + int64(m.Disp)
	return last == int64(int32(last))
}

// LoadApart reads elements of 8, 16 or 64 bits a step apart, lane by lane, which takes less time than a gather.
func (b *builder) LoadApart(dt dtype.DType, m asm.Mem, step int64) (lo, hi asm.Reg) {
	if dt == dtype.I64 {
		half := int64(b.isa.lanes / 2)
		lo = b.loadWide(m, step)
		m.Disp += int32(half * step * 8)
		return lo, b.loadWide(m, step)
	}
	size := lanes.BytesOf(dt)
	op := asm.VPINSRW
	if size == 1 {
		op = asm.VPINSRB
	}
	var parts []asm.Reg
	for lane := range int64(b.isa.lanes) {
		position := lane % (16 / size)
		if position == 0 {
			parts = append(parts, b.CopyOf(b.repeated32(0)))
		}
		r := parts[len(parts)-1]
		b.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{r, r, asm.Memory}, Mem: m, Imm: position})
		m.Disp += int32(step * size)
	}
	all := parts[0]
	if len(parts) > 1 {
		all = b.NewVector()
		b.Emit(asm.Inst{Op: asm.VINSERTI128, Bits: 256, Args: [4]asm.Reg{all, parts[0], parts[1]}, Imm: 1})
	}
	return b.two(extensions[dt], all), asm.NoReg
}

// loadWide reads a register of elements of 64 bits a step apart.
func (b *builder) loadWide(m asm.Mem, step int64) (all asm.Reg) {
	next := func() asm.Mem {
		at := m
		m.Disp += int32(step * 8)
		return at
	}
	for quarter := range b.isa.bits / 128 {
		pair := b.NewVector()
		b.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{pair, asm.Memory}, Mem: next()})
		b.Emit(asm.Inst{Op: asm.VPINSRQ, Args: [4]asm.Reg{pair, pair, asm.Memory}, Mem: next(), Imm: 1})
		if quarter == 0 {
			all = pair
		} else {
			all = b.vectorOf(asm.VINSERTF128, int64(quarter), all, pair)
		}
	}
	return all
}

// StoreApart writes elements of at most 32 bits a step apart, lane by lane.
func (b *builder) StoreApart(dt dtype.DType, m asm.Mem, step int64, x asm.Reg) {
	size := lanes.BytesOf(dt)
	if size < 4 {
		x = b.packed(dt, x)
	}
	op, part := map[int64]asm.Op{1: asm.VPEXTRB, 2: asm.VPEXTRW, 4: asm.VEXTRACTPS}[size], x
	for lane := range int64(b.isa.lanes) {
		position := lane % (16 / size)
		switch {
		case position > 0 || lane == 0:
		case size == 4:
			part = b.quarter(x, int(lane/4))
		default:
			part = b.NewVector()
			b.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{part, x}, Imm: 1})
		}
		b.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{asm.Memory, part}, Mem: m, Imm: position})
		m.Disp += int32(step * size)
	}
}

// quarter returns 128 bits of a vector.
func (b *builder) quarter(x asm.Reg, n int) asm.Reg {
	if n == 0 {
		return x
	}
	if b.isa.bits == 512 {
		return b.twoImm(asm.VEXTRACTF32X4, x, int64(n))
	}
	return b.twoImm(asm.VEXTRACTF128, x, int64(n))
}

// StorePacked writes the low 2 or 4 bits of all lanes side by side.
func (b *builder) StorePacked(bits int, m asm.Mem, x asm.Reg) {
	var places []byte
	for i := range b.isa.lanes {
		places = append(places, byte(i*bits%32), 0, 0, 0)
	}
	r := b.three(asm.VPSLLVD, x, b.Vector(places))
	for _, n := range []int{2, 1} { // within each quarter of 512 bits
		r = b.three(asm.VORPS, r, b.Exchanged(r, n))
	}
	half := func(r asm.Reg) asm.Reg {
		upper := b.NewVector()
		b.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{upper, r}, Imm: 1})
		return b.three(asm.VORPS, r, upper)
	}
	write := func(bits int, r asm.Reg) {
		b.StoreBits(bits, m, b.FirstLane(dtype.U32, r))
		m.Disp += 4
	}
	if b.isa.lanes == 8 {
		write(8*bits, half(r))
		return
	}
	lower, upper := half(r), half(b.upper(r))
	if bits == 2 {
		write(32, b.three(asm.VORPS, lower, upper))
		return
	}
	write(32, lower)
	write(32, upper)
}

// Prefetch reads memory into the first-level cache.
func (b *builder) Prefetch(m asm.Mem) {
	b.Emit(asm.Inst{Op: asm.PREFETCHT0, Args: [4]asm.Reg{asm.Memory}, Mem: m})
}

// Gather reads words of 32 bits, their indices counted in units of so many bytes.
func (b *builder) Gather(m asm.Mem, index lanes.Value, scale uint8, mask asm.Reg) asm.Reg {
	if index.DType == dtype.I32 {
		return b.gatherBy(asm.VGATHERDPS, m, index.Lo, scale, mask)
	}
	lo, hi := b.halfMasks(mask)
	if mask != asm.NoReg && !b.isa.masks { // of words
		lo, hi = mask, b.upper(mask)
	}
	low := b.gatherBy(asm.VGATHERQPS, m, index.Lo, scale, lo)
	return b.joined(low, b.gatherBy(asm.VGATHERQPS, m, index.Hi, scale, hi))
}

// GatherWide reads elements of 64 bits.
func (b *builder) GatherWide(m asm.Mem, index lanes.Value, mask asm.Reg) (x, y asm.Reg) {
	lo, hi := b.halfMasks(mask)
	op, low, high := asm.VGATHERQPD, index.Lo, index.Hi
	if index.DType == dtype.I32 {
		op, high = asm.VGATHERDPD, b.upper(low)
	}
	return b.gatherBy(op, m, low, 8, lo), b.gatherBy(op, m, high, 8, hi)
}

// halfMasks is HalfMasks; NoReg, of all lanes, stays NoReg.
func (b *builder) halfMasks(mask asm.Reg) (lo, hi asm.Reg) {
	if mask == asm.NoReg {
		return mask, mask
	}
	return b.HalfMasks(mask)
}

// gatherBy emits a gather instruction; lanes outside the mask are 0.
func (b *builder) gatherBy(op asm.Op, m asm.Mem, index asm.Reg, scale uint8, mask asm.Reg) asm.Reg {
	m.Index, m.Scale = index, scale
	r := b.NewVector()
	b.Assign(r, b.repeated32(0))
	own := b.ownMask(mask)
	in := asm.Inst{Op: op, Bits: uint16(b.isa.bits), Mem: m, Args: [4]asm.Reg{r, asm.Memory}}
	if b.isa.masks {
		in.Mask = own
	} else {
		in.Args[2] = own
	}
	b.Emit(in)
	return r
}

// ownMask returns a copy of a mask (NoReg: of all lanes) for an instruction that clears it.
func (b *builder) ownMask(mask asm.Reg) asm.Reg {
	if mask == asm.NoReg {
		mask = b.MaskOf(true)
	}
	return b.CopyOf(mask)
}

// Scatters reports whether there are instructions that write at indices.
func (b *builder) Scatters() bool { return b.isa.masks }

// Scatter writes lanes of 32 bits, and ScatterWide of 64, at indices.
func (b *builder) Scatter(m asm.Mem, index lanes.Value, x, mask asm.Reg) {
	if index.DType == dtype.I32 {
		b.scatterBy(asm.VPSCATTERDD, m, index.Lo, 4, x, mask)
		return
	}
	lo, hi := b.halfMasks(mask)
	b.scatterBy(asm.VPSCATTERQD, m, index.Lo, 4, x, lo)
	b.scatterBy(asm.VPSCATTERQD, m, index.Hi, 4, b.upper(x), hi)
}
func (b *builder) ScatterWide(m asm.Mem, index lanes.Value, x, y, mask asm.Reg) {
	lo, hi := b.halfMasks(mask)
	op, low, high := asm.VPSCATTERQQ, index.Lo, index.Hi
	if index.DType == dtype.I32 {
		op, high = asm.VPSCATTERDQ, b.upper(low)
	}
	b.scatterBy(op, m, low, 8, x, lo)
	b.scatterBy(op, m, high, 8, y, hi)
}

// scatterBy emits a scatter instruction.
func (b *builder) scatterBy(op asm.Op, m asm.Mem, index asm.Reg, scale uint8, x, mask asm.Reg) {
	m.Index, m.Scale = index, scale
	b.Emit(asm.Inst{Op: op, Bits: uint16(b.isa.bits), Args: [4]asm.Reg{asm.Memory, x}, Mem: m, Mask: b.ownMask(mask)})
}

// mostSpread is the greatest step of elements of 32 bits that are read together with the elements between them.
const mostSpread = 4

// Spreads reports whether LoadSpread reads elements at a step.
func (b *builder) Spreads(step int64, part bool) bool {
	return b.isa.masks && -mostSpread <= step && step <= mostSpread && !(part && step < 0)
}

// LoadSpread reads elements of 32 bits at a small step, forward or backward; m is the lowest address. It reads as many
// vectors as the step, which begin and end with a wanted element, and takes the wanted elements of each.
//
// With a mask (NoReg: all lanes) only its lanes' elements are touched; the step is then forward.
func (e *machine) LoadSpread(m asm.Mem, step int64, mask asm.Reg) asm.Reg {
	by, count := max(step, -step), int64(e.isa.lanes)
	var all asm.Reg
	for part := range by {
		from := part * (count - 1)
		address := m
		address.Disp += int32(4 * from)
		x := e.loadWanted(address, mask, by, from)
		if part == 0 && by == 1 {
			return e.three(asm.VPERMD, e.spreadIndex(step, 0, count), x)
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
	return all
}

// loadWanted reads a vector of elements of 32 bits at at; with a mask, only the wanted elements, by apart, of which
// the first is lane 0's and at is from elements after that.
func (e *machine) loadWanted(at asm.Mem, mask asm.Reg, by, from int64) asm.Reg {
	if mask == asm.NoReg {
		return e.Load(dtype.I32, at, asm.NoReg)
	}
	wanted := func() asm.Reg { return e.spreadMask(mask, by, from) }
	if mask == e.emitter.TailMask() {
		key := fmt.Sprintf("k%d %d %d", mask, by, from)
		once := e.emitter.Once(e.emitter.Strip.Depth, key, func() lanes.Ready { return lanes.Ready{Register: wanted()} })
		return e.Load(dtype.I32, at, once.Register)
	}
	return e.Load(dtype.I32, at, wanted())
}

// spreadMask returns the mask of the elements, by apart, that the lanes of a mask want, for the vector that begins from
// elements after lane 0's.
func (e *machine) spreadMask(mask asm.Reg, by, from int64) asm.Reg {
	pattern := int64(0)
	for lane := range int64(e.isa.lanes) {
		pattern |= 1 << (lane * by)
	}
	bits := e.General()
	e.Emit(asm.Inst{Op: asm.PDEP, Bits: 64, Args: [4]asm.Reg{bits, e.LaneWord(dtype.I32, mask), e.Number(pattern)}})
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
	return e.Vector(list)
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
	return e.Vector(list)
}
