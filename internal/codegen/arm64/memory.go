package arm64

import (
	"github.com/weirml/weir/internal/codegen/arm64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// This file is lanes.Access. No instruction reads or writes only the lanes of a mask: these are done one after the
// other.

// access emits a load or a store of one register.
func (b *builder) access(op asm.Op, s asm.Shape, r asm.Reg, at asm.Mem) {
	b.Emit(asm.Inst{Op: op, Shape: s, Args: [6]asm.Reg{r, asm.Memory}, Mem: at})
}

// accessLane emits a load (LD1) or a store (ST1) of one element of a register.
func (b *builder) accessLane(op asm.Op, s asm.Shape, r asm.Reg, n int, at asm.Mem) {
	b.Emit(asm.Inst{Op: op, Shape: s, Args: [6]asm.Reg{r, asm.Memory}, Mem: at, Lane: uint8(n)})
}

// read returns a register that an access fills.
func (b *builder) read(s asm.Shape, at asm.Mem) asm.Reg {
	r := b.NewVector()
	b.access(asm.LDR, s, r, at)
	return r
}

// element returns the shape of one element.
func element(dt dtype.DType) asm.Shape {
	return [...]asm.Shape{1: asm.B, 2: asm.H, 4: asm.S, 8: asm.D}[dt.Bits()/8]
}

// after returns the address some bytes after another.
func after(at asm.Mem, bytes int64) asm.Mem {
	at.Disp += int32(bytes)
	return at
}

// extended returns the lanes of elements of 8 or 16 bits that lie in the low bits of lanes of 32; F16 in the low half
// of the register, side by side.
func (b *builder) extended(dt dtype.DType, x asm.Reg) asm.Reg {
	switch dt {
	case dtype.I8, dtype.I16:
		n := int64(32 - dt.Bits())
		return b.twoImm(asm.SSHR, asm.S4, b.twoImm(asm.SHL, asm.S4, x, n), n)
	case dtype.F16:
		return b.two(asm.FCVTL, asm.H4, x)
	}
	return x
}

// Load reads adjacent elements into the lanes of a mask, or all.
func (b *builder) Load(dt dtype.DType, at regalloc.Mem, mask regalloc.Reg) regalloc.Reg {
	if mask != regalloc.NoReg {
		return b.loadPart(dt, at, mask)
	}
	switch dt {
	case dtype.I32, dtype.I64:
		return b.read(asm.Q, at)
	case dtype.F16:
		return b.two(asm.FCVTL, asm.H4, b.read(asm.D, at))
	}
	extend := asm.USHLL
	if dt == dtype.I8 || dt == dtype.I16 {
		extend = asm.SSHLL
	}
	r := b.read([...]asm.Shape{1: asm.S, 2: asm.D}[dt.Bits()/8], at)
	if dt.Bits() == 8 {
		r = b.twoImm(extend, asm.B8, r, 0)
	}
	return b.twoImm(extend, asm.H4, r, 0)
}

// partOf calls do for each lane of a mask, n lanes of a size, with a branch around it.
func (b *builder) partOf(mask asm.Reg, n, bits int, do func(lane int)) {
	word := b.LaneWord(map[int]dtype.DType{32: dtype.I32, 64: dtype.I64}[bits], mask)
	for lane := range n {
		past := b.Label()
		b.JumpOnSet(word, lane, false, past)
		do(lane)
		b.Bind(past)
	}
}

// zero returns a register that may be changed, of zeros.
func (b *builder) zero() asm.Reg {
	r := b.NewVector()
	b.opImm(asm.MOVI, asm.D2, 0, r)
	return r
}

// loadPart reads the lanes of a mask. All of them are read at once.
func (b *builder) loadPart(dt dtype.DType, at asm.Mem, mask asm.Reg) asm.Reg {
	n, bits, r := lanesOf(dt), max(dt.Bits(), 32), b.zero()
	b.partOf(mask, n, bits, func(lane int) {
		place := lane * bits / dt.Bits() // in the low bits of its lane
		if dt == dtype.F16 {
			place = lane
		}
		b.accessLane(asm.LD1, element(dt), r, place, after(at, int64(lane*dt.Bits()/8)))
	})
	return b.extended(dt, r)
}

// lanesOf returns the number of lanes of an element type's values in a register.
func lanesOf(dt dtype.DType) int {
	if dt.Bits() == 64 {
		return vectorLanes / 2
	}
	return vectorLanes
}

// Store writes the lanes of a mask, or all.
func (b *builder) Store(dt dtype.DType, at regalloc.Mem, x, mask regalloc.Reg) {
	if mask != regalloc.NoReg {
		x = b.bits(dt, x)
		b.partOf(mask, lanesOf(dt), max(dt.Bits(), 32), func(lane int) {
			b.StoreLane(dt, after(at, int64(lane*dt.Bits()/8)), x, lane)
		})
		return
	}
	switch {
	case dt == dtype.F16:
		b.access(asm.STR, asm.D, b.two(asm.FCVTN, asm.H4, x), at)
	case dt.Bits() == 16:
		b.access(asm.STR, asm.D, b.two(asm.XTN, asm.H4, x), at)
	case dt.Bits() == 8:
		x = b.three(asm.UZP1, asm.H8, x, x)
		b.access(asm.STR, asm.S, b.two(asm.XTN, asm.B8, x), at)
	default:
		b.access(asm.STR, asm.Q, x, at)
	}
}

// bits returns the lanes as StoreLane takes them.
func (b *builder) bits(dt dtype.DType, x asm.Reg) asm.Reg {
	if dt == dtype.F16 {
		return b.ToF16(x)
	}
	return x
}

// Parts reports that there are masks of all types.
func (b *builder) Parts(dtype.DType) bool { return true }

// LoadOne reads one element into all lanes.
func (b *builder) LoadOne(dt dtype.DType, at regalloc.Mem) regalloc.Reg {
	switch dt {
	case dtype.F16:
		return b.two(asm.DUP, asm.S4, b.two(asm.FCVTL, asm.H4, b.read(asm.H, at)))
	case dtype.I32, dtype.I64:
		return b.two(asm.DUP, shapeOf(dt), b.read(element(dt), at))
	}
	in := asm.Inst{Mem: at, Args: [6]asm.Reg{b.General(), asm.Memory}}
	switch dt {
	case dtype.U8:
		in.Op = asm.LDRB
	case dtype.U16:
		in.Op = asm.LDRH
	case dtype.I8:
		in.Op, in.Shape = asm.LDRSB, asm.W32
	default:
		in.Op, in.Shape = asm.LDRSH, asm.W32
	}
	b.Emit(in)
	return b.two(asm.DUP, asm.S4, in.Args[0])
}

// StoreOne writes lane 0, and StoreLane lane n.
func (b *builder) StoreOne(dt dtype.DType, at regalloc.Mem, x regalloc.Reg) {
	if dt == dtype.F16 {
		x = b.two(asm.FCVTN, asm.H4, x)
	}
	b.access(asm.STR, element(dt), x, at)
}
func (b *builder) StoreLane(dt dtype.DType, at regalloc.Mem, x regalloc.Reg, n int) {
	if n == 0 {
		b.access(asm.STR, element(dt), x, at)
		return
	}
	b.accessLane(asm.ST1, element(dt), x, n*max(dt.Bits(), 32)/dt.Bits(), at)
}

// Apart reports that elements are read and written at any step that displacements hold.
func (b *builder) Apart(dt dtype.DType, at regalloc.Mem, step int64) bool {
	far := int64(at.Disp) + step*int64(dt.Bits()/8)*vectorLanes
	return far == int64(int32(far))
}

// LoadApart reads elements a step apart.
func (b *builder) LoadApart(dt dtype.DType, at regalloc.Mem, step int64) (lo, hi regalloc.Reg) {
	n, bits := lanesOf(dt), max(dt.Bits(), 32)
	one := func(first int) asm.Reg {
		r := b.read(element(dt), after(at, step*int64(first*dt.Bits()/8)))
		for lane := 1; lane < n; lane++ {
			place := lane * bits / dt.Bits()
			if dt == dtype.F16 {
				place = lane
			}
			b.accessLane(asm.LD1, element(dt), r, place, after(at, step*int64((first+lane)*dt.Bits()/8)))
		}
		return b.extended(dt, r)
	}
	if lo = one(0); dt.Bits() == 64 {
		hi = one(n)
	}
	return lo, hi
}

// StoreApart writes elements a step apart.
func (b *builder) StoreApart(dt dtype.DType, at regalloc.Mem, step int64, x regalloc.Reg) {
	x = b.bits(dt, x)
	for lane := range vectorLanes {
		b.StoreLane(dt, after(at, step*int64(lane*dt.Bits()/8)), x, lane)
	}
}

// Spreads reports that LoadSpread is not there: no instruction takes every n-th lane of several vectors.
func (b *builder) Spreads(int64, bool) bool { return false }
func (b *builder) LoadSpread(regalloc.Mem, int64, regalloc.Reg) regalloc.Reg {
	panic(diag.Internalf("arm64: elements that are spread"))
}

// indexOf returns the address of a lane's element.
func (b *builder) indexOf(at asm.Mem, index lanes.Value, lane int, scale uint8) asm.Mem {
	if index.Kind().Wide() {
		at.Index = b.LaneNumber(dtype.I64, [...]asm.Reg{index.Lo, index.Hi}[lane/2], lane%2)
	} else {
		at.Index = b.LaneNumber(dtype.I32, index.Lo, lane)
	}
	at.Scale = scale
	return at
}

// eachOf calls do for each lane of a mask, or for all.
func (b *builder) eachOf(mask asm.Reg, do func(lane int)) {
	if mask != regalloc.NoReg {
		b.partOf(mask, vectorLanes, 32, do)
		return
	}
	for lane := range vectorLanes {
		do(lane)
	}
}

// Gather reads 32 bits for each lane of a mask, and GatherWide 64.
func (b *builder) Gather(at regalloc.Mem, index lanes.Value, scale uint8, mask regalloc.Reg) regalloc.Reg {
	r := b.zero()
	b.eachOf(mask, func(lane int) { b.accessLane(asm.LD1, asm.S, r, lane, b.indexOf(at, index, lane, scale)) })
	return r
}
func (b *builder) GatherWide(at regalloc.Mem, index lanes.Value, mask regalloc.Reg) (lo, hi regalloc.Reg) {
	r := [2]asm.Reg{b.zero(), b.zero()}
	b.eachOf(mask, func(lane int) { b.accessLane(asm.LD1, asm.D, r[lane/2], lane%2, b.indexOf(at, index, lane, 8)) })
	return r[0], r[1]
}

// Scatters reports that there are Scatter and ScatterWide: they write lane by lane.
func (b *builder) Scatters() bool { return true }
func (b *builder) Scatter(at regalloc.Mem, index lanes.Value, x, mask regalloc.Reg) {
	b.eachOf(mask, func(lane int) { b.accessLane(asm.ST1, asm.S, x, lane, b.indexOf(at, index, lane, 4)) })
}
func (b *builder) ScatterWide(at regalloc.Mem, index lanes.Value, lo, hi, mask regalloc.Reg) {
	b.eachOf(mask, func(lane int) {
		b.accessLane(asm.ST1, asm.D, [...]asm.Reg{lo, hi}[lane/2], lane%2, b.indexOf(at, index, lane, 8))
	})
}

// StorePacked writes the low 2 or 4 bits of all lanes side by side.
func (b *builder) StorePacked(bits int, at regalloc.Mem, x regalloc.Reg) {
	low := b.three(asm.AND, asm.B16, x, b.repeated32(1<<bits-1))
	placed := b.three(asm.USHL, asm.S4, low, b.three(asm.MUL, asm.S4, b.iota32(), b.repeated32(uint32(bits))))
	b.access(asm.STR, [...]asm.Shape{2: asm.B, 4: asm.H}[bits], b.two(asm.ADDV, asm.S4, placed), at)
}

// Prefetch reads memory into the cache.
func (b *builder) Prefetch(at regalloc.Mem) {
	b.Emit(asm.Inst{Op: asm.PRFM, Args: [6]asm.Reg{asm.Memory}, Mem: at})
}
