package amd64

import (
	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/lanes"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// load emits a read. Lanes that a mask leaves out are not touched in memory.
func (e *machine) load(l *loop.Load) lanes.Value {
	if e.Override != nil {
		if v, ok := e.Override(l); ok {
			return v
		}
	}
	m := e.Kernel.Memory(l.From)
	if m.DType != l.Type {
		e.Kernel.Bug("%%%s of %s is loaded as %s", l.From, m.DType, l.Type)
	}
	lanes.KindOf(l.Type)
	offset := e.Simpler(e.Resolve(m.Offset(l.Index)))
	same := !e.Varies(offset)
	if l.Mask == nil {
		return e.lanes(l.From, l.Type, offset, e.TailMask())
	}
	if holds, known := e.Decided(l.Mask); known && holds {
		return e.lanes(l.From, l.Type, offset, e.TailMask())
	} else if known {
		return e.Value(l.Else)
	}
	otherwise := e.Value(l.Else)
	if !e.Uniform(l.Mask) {
		mask := e.condition(l.Mask)
		if same {
			return e.loadWanted(l, offset, mask, otherwise)
		}
		v := e.lanes(l.From, l.Type, offset, e.withTail(mask.Lo))
		return e.Choose(mask, v, otherwise)
	}
	// A branch around the read.
	result := lanes.Value{DType: l.Type, Uniform: same && otherwise.Uniform}
	fresh := func(x asm.Reg) asm.Reg { return e.CopyOf(x) }
	result.Lo = fresh(otherwise.Lo)
	if result.Kind().Wide() {
		if result.Hi = result.Lo; !result.Uniform {
			result.Hi = fresh(otherwise.Hi)
		}
	}
	done := e.Label()
	e.Branch(l.Mask, false, done)
	e.assignBefore(done, result, func() lanes.Value { return e.lanes(l.From, l.Type, offset, e.TailMask()) })
	return result
}

// loadWanted reads one element for the lanes of a mask; a branch skips the read if the mask has no lane.
func (e *machine) loadWanted(l *loop.Load, offset sym.Expr, mask, otherwise lanes.Value) lanes.Value {
	result := lanes.Value{DType: l.Type, Lo: e.CopyOf(otherwise.Lo)}
	if result.Kind().Wide() {
		result.Hi = e.CopyOf(otherwise.Hi)
	}
	wanted, done := e.bitsOf(e.withTail(mask.Lo)), e.Label()
	e.integerImm(asm.CMP, wanted, 0)
	e.jump(asm.JE, done)
	e.assignBefore(done, result, func() lanes.Value {
		return e.Choose(mask, e.lanes(l.From, l.Type, offset, asm.NoReg), otherwise)
	})
	return result
}

// assignBefore emits what read makes, its assignment to result, and then the label.
func (e *machine) assignBefore(done asm.Label, result lanes.Value, read func() lanes.Value) {
	s := e.Open(nil)
	v := read()
	e.Assign(result.Lo, v.Lo)
	if result.Hi != asm.NoReg && result.Hi != result.Lo {
		e.Assign(result.Hi, v.Hi)
	}
	body := e.Close()
	e.Place(s, body)
	e.Bind(done)
}

// withTail returns a mask without the lanes that an incomplete strip lacks.
func (e *machine) withTail(mask asm.Reg) asm.Reg {
	if tail := e.TailMask(); tail != asm.NoReg {
		return e.maskAnd(mask, tail)
	}
	return mask
}

// lanes reads elements at an offset that differs by lane, or is the same for all lanes. Only the lanes of mask are
// touched (NoReg: all).
func (e *machine) lanes(buffer string, dt dtype.DType, offset sym.Expr, mask asm.Reg) lanes.Value {
	step, even := e.ConstantStep(offset)
	part := mask != asm.NoReg
	switch {
	case even && lanes.Packs(dt) && (step == 0 || step == 1 && !part):
		return e.loadPacked(buffer, dt, offset, step)
	case lanes.Packs(dt):
	case even && step == 0:
		return e.loadOne(dt, e.Address(buffer, offset))
	case even && step == 1 && !(part && e.partsSlow(dt)):
		at := e.Address(buffer, offset)
		if e.streams(buffer, dt, offset) {
			ahead := at
			ahead.Disp += streamAhead
			e.Emit(asm.Inst{Op: asm.PREFETCHT0, Args: [4]asm.Reg{asm.Memory}, Mem: ahead})
		}
		return e.loadRun(dt, at, mask)
	case even && dt.Bits() == 32 && e.isa.masks && -mostSpread <= step && step <= mostSpread && !(part && step < 0):
		return e.loadSpread(dt, e.Address(buffer, offset.Add(sym.Const(min(step, 0)*int64(e.isa.lanes-1)))), step, mask)
	case even && !part && smallDtypes(dt):
		if at := e.Address(buffer, offset); e.reaches(dt, at, step) {
			return e.gatherNarrow(dt, at, step)
		}
	case even && !part && dt.Bits() == 64:
		if at := e.Address(buffer, offset); e.reaches(dt, at, step) {
			return e.loadWide(dt, at, step)
		}
	}
	return e.gatherLanes(dt, e.scatteredAt(buffer, dt, offset), mask)
}

// streamAhead is the distance in bytes at which memory that a loop reads from end to end is fetched before its use:
// beyond the page in which the processor fetches by itself.
const streamAhead = 2048

// streams reports whether a vector of memory that nothing writes is read in each turn of a loop inside the vector loop,
// each time the next one, as the panels of weights of few bits are: such a loop does more with what it reads than move
// it, so that few reads are under way at once.
func (e *machine) streams(buffer string, dt dtype.DType, offset sym.Expr) bool {
	m := e.Kernel.Memory(buffer)
	if e.Strip == nil || dt.Bits() != 32 || m.Param == nil || m.Param.Access != loop.Read || e.TailMask() != asm.NoReg {
		return false
	}
	for _, n := range offset.Vars() {
		if b := e.Names[n]; b.Depth <= e.Strip.Depth || b.Lanes.Lo != asm.NoReg {
			continue
		}
		step, _, ok := offset.Linear(n)
		if bytes, known := step.Const(); ok && known && bytes*lanes.BytesOf(dt) == cacheLine {
			return true
		}
	}
	return false
}

// cacheLine is the size of a cache line, in bytes.
const cacheLine = 64

// partsSlow reports whether no instruction reads or writes only some lanes of a type's elements.
func (e *machine) partsSlow(dt dtype.DType) bool { return !e.isa.masks && smallDtypes(dt) }

// smallDtypes reports whether a type has 8 or 16 bits.
func smallDtypes(dt dtype.DType) bool { _, ok := extensions[dt]; return ok }

// loadOne reads one element into all lanes.
func (e *machine) loadOne(dt dtype.DType, at asm.Mem) lanes.Value {
	v := lanes.Value{DType: dt, Uniform: true}
	read := func(op asm.Op) asm.Reg {
		r := e.General()
		e.Emit(asm.Inst{Op: op, Bits: 32, Args: [4]asm.Reg{r, asm.Memory}, Mem: at})
		return r
	}
	switch dt {
	case dtype.F32, dtype.I32, dtype.U32:
		v.Lo = e.broadcast(at)
	case dtype.F64, dtype.I64, dtype.U64:
		v.Lo = e.builder.vector()
		e.Emit(asm.Inst{Op: asm.VBROADCASTSD, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{v.Lo, asm.Memory}, Mem: at})
		v.Hi = v.Lo
	case dtype.U8:
		v.Lo = e.broadcastInt(read(asm.MOVZXB))
	case dtype.I8:
		v.Lo = e.broadcastInt(read(asm.MOVSXB))
	case dtype.U16:
		v.Lo = e.broadcastInt(read(asm.MOVZXW))
	case dtype.I16:
		v.Lo = e.broadcastInt(read(asm.MOVSXW))
	case dtype.Bool:
		v.Lo = e.greaterInt(e.broadcastInt(read(asm.MOVZXB)), e.integer32(0))
	case dtype.F16:
		v.Lo = e.fromHalf(e.two(asm.VPBROADCASTW, e.low128(read(asm.MOVZXW))))
	case dtype.BF16:
		v.Lo = e.shiftLeft(e.broadcastInt(read(asm.MOVZXW)), 16)
	default:
		if !mathematics.Coded(dt) {
			lanes.Refuse("elements of %s", dt)
		}
		v.Lo = e.fromCode(dt, e.broadcastInt(read(asm.MOVZXB)))
	}
	return v
}

// low128 returns a general register in the low 32 bits of a vector.
func (e *machine) low128(x asm.Reg) asm.Reg {
	r := e.builder.vector()
	e.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{r, x}})
	return r
}

// beyond returns the address half a vector of 64-bit lanes further on.
func (e *machine) beyond(at asm.Mem) asm.Mem {
	at.Disp += int32(e.isa.bits / 8)
	return at
}

// loadRun reads a run of elements.
func (e *machine) loadRun(dt dtype.DType, at asm.Mem, mask asm.Reg) lanes.Value {
	v := lanes.Value{DType: dt}
	k := lanes.Kinds[dt]
	if k.Wide() {
		if mask == asm.NoReg {
			v.Lo, v.Hi = e.builder.load(at), e.builder.load(e.beyond(at))
		} else {
			lo, hi := e.halves(mask, false)
			v.Lo, v.Hi = e.loadWideMasked(lo, at), e.loadWideMasked(hi, e.beyond(at))
		}
		return v
	}
	if dt.Bits() == 32 {
		if mask == asm.NoReg {
			v.Lo = e.builder.load(at)
		} else {
			v.Lo = e.loadMasked(mask, at)
		}
		return v
	}
	op, ok := extensions[dt]
	if !ok {
		lanes.Refuse("elements of %s", dt)
	}
	r := e.builder.vector()
	in := asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{r, asm.Memory}, Mem: at}
	if mask != asm.NoReg {
		if !e.isa.masks {
			lanes.Refuse("a part of a vector of %s", dt)
		}
		in.Mask, in.Zero = mask, true
	}
	e.Emit(in)
	return e.extended(dt, r)
}

// extended returns a value of a narrow type from lanes that one of the extensions made.
func (e *machine) extended(dt dtype.DType, r asm.Reg) lanes.Value {
	switch dt {
	case dtype.Bool:
		r = e.greaterInt(r, e.integer32(0))
	case dtype.BF16:
		r = e.shiftLeft(r, 16)
	default:
		if mathematics.Coded(dt) {
			r = e.fromCode(dt, r)
		}
	}
	return lanes.Value{DType: dt, Lo: r}
}

// extensions are the instructions that read narrow elements into lanes of 32 bits.
var extensions = map[dtype.DType]asm.Op{
	dtype.U8: asm.VPMOVZXBD, dtype.I8: asm.VPMOVSXBD, dtype.Bool: asm.VPMOVZXBD, dtype.U16: asm.VPMOVZXWD,
	dtype.I16:  asm.VPMOVSXWD,
	dtype.BF16: asm.VPMOVZXWD, dtype.F16: asm.VCVTPH2PS,
	dtype.F8E4M3FN: asm.VPMOVZXBD, dtype.F8E4M3FNUZ: asm.VPMOVZXBD, dtype.F8E5M2: asm.VPMOVZXBD,
	dtype.F8E5M2FNUZ: asm.VPMOVZXBD, dtype.F8E8M0: asm.VPMOVZXBD,
}

// gatherAt reads elements of 32 bits at a vector of indices; lanes that the mask leaves out are 0.
func (e *machine) gatherAt(at asm.Mem, mask asm.Reg) asm.Reg {
	return e.gatherBy(asm.VGATHERDPS, at, mask)
}

// Store emits a write.
func (e *machine) Store(s *loop.Store) {
	m := e.Kernel.Memory(s.To)
	offset := e.Resolve(m.Offset(s.Index))
	if simpler := e.Simpler(offset); e.Varies(simpler) { // in a loop that runs once it need not vary
		offset = simpler
	}
	condition := s.Mask
	if condition != nil {
		if holds, known := e.Decided(condition); known && !holds {
			return
		} else if known {
			condition = nil
		}
	}
	uniform := condition == nil || e.Uniform(condition)
	var mask lanes.Value
	if !uniform {
		mask = e.condition(condition)
	}
	write := func() {
		x := e.Value(s.X)
		if x.DType != m.DType {
			e.Kernel.Bug("%s is stored to %%%s of %s", x.DType, s.To, m.DType)
		}
		taken := e.TailMask()
		if !uniform {
			taken = e.withTail(mask.Lo)
		}
		e.storeLanes(s.To, m.DType, offset, x, taken)
	}
	if condition == nil || !uniform {
		write()
		return
	}
	done := e.Label()
	e.Branch(condition, false, done)
	scope := e.Open(nil)
	write()
	body := e.Close()
	e.Place(scope, body)
	e.Bind(done)
}

// storeLanes writes the lanes of a mask (NoReg: all), or outside a vector loop lane 0.
func (e *machine) storeLanes(buffer string, dt dtype.DType, offset sym.Expr, x lanes.Value, mask asm.Reg) {
	step, even := e.ConstantStep(offset)
	part := mask != asm.NoReg
	switch {
	case lanes.Packs(dt) && even:
		e.storePacked(buffer, dt, offset, step, x, mask)
	case e.Strip == nil:
		e.storeOne(dt, e.Address(buffer, offset), x)
	case !e.Varies(offset):
		lanes.Refuse("all lanes write one element")
	case even && step == 1 && !(part && e.partsSlow(dt)):
		e.storeRun(dt, e.Address(buffer, offset), x, mask)
	case even && !part && !x.Kind().Wide():
		e.scatter(buffer, dt, offset, step, x)
	default:
		e.scatterLanes(dt, e.scatteredAt(buffer, dt, offset), x, mask)
	}
}

// storeOne writes lane 0.
func (e *machine) storeOne(dt dtype.DType, at asm.Mem, x lanes.Value) {
	to := func(op asm.Op, bits uint16, r asm.Reg) {
		e.Emit(asm.Inst{Op: op, Bits: bits, Args: [4]asm.Reg{asm.Memory, r}, Mem: at})
	}
	switch dt {
	case dtype.F32, dtype.I32, dtype.U32:
		to(asm.VMOVSS, 0, x.Lo)
	case dtype.F64, dtype.I64, dtype.U64:
		to(asm.VMOVSD, 0, x.Lo)
	case dtype.U8, dtype.I8:
		to(asm.MOV, 8, e.lane32(x.Lo, false))
	case dtype.U16, dtype.I16:
		to(asm.MOV, 16, e.lane32(x.Lo, false))
	case dtype.Bool:
		r := e.bitsOf(x.Lo)
		e.integerImm(asm.AND, r, 1)
		to(asm.MOV, 8, r)
	case dtype.F16:
		to(asm.MOV, 16, e.lane32(e.toHalf(x.Lo), false))
	case dtype.BF16:
		to(asm.MOV, 16, e.lane32(e.shiftRight(x.Lo, 16), false))
	default:
		if !mathematics.Coded(dt) {
			lanes.Refuse("elements of %s", dt)
		}
		to(asm.MOV, 8, e.lane32(e.toCode(dt, x.Lo, false), false))
	}
}

// storeRun writes a run of elements.
func (e *machine) storeRun(dt dtype.DType, at asm.Mem, x lanes.Value, mask asm.Reg) {
	if x.Kind().Wide() {
		if mask == asm.NoReg {
			e.builder.store(at, x.Lo)
			e.builder.store(e.beyond(at), x.Hi)
			return
		}
		lo, hi := e.halves(mask, false)
		e.storeWideMasked(lo, at, x.Lo)
		e.storeWideMasked(hi, e.beyond(at), x.Hi)
		return
	}
	if dt.Bits() == 32 {
		if mask == asm.NoReg {
			e.builder.store(at, x.Lo)
		} else {
			e.storeMasked(mask, at, x.Lo)
		}
		return
	}
	if mask != asm.NoReg {
		if !e.isa.masks {
			lanes.Refuse("a part of a vector of %s", dt)
		}
		r := e.prepared(dt, x.Lo)
		in := asm.Inst{Op: asm.VPMOVDB, Bits: 512, Args: [4]asm.Reg{asm.Memory, r}, Mem: at, Mask: mask}
		switch {
		case dt == dtype.F16:
			in.Op = asm.VCVTPS2PH
		case dt.Bits() == 16:
			in.Op = asm.VPMOVDW
		}
		e.Emit(in)
		return
	}
	op, bits := asm.VMOVUPS, uint16(e.isa.lanes*dt.Bits())
	if bits < 128 {
		op, bits = asm.VMOVQ, 0
	}
	e.Emit(asm.Inst{Op: op, Bits: bits, Args: [4]asm.Reg{asm.Memory, e.narrowed(dt, x.Lo)}, Mem: at})
}

// prepared returns lanes of a narrow type whose lower bits are the elements, except for f16, for which there is an
// instruction.
func (e *machine) prepared(dt dtype.DType, r asm.Reg) asm.Reg {
	switch dt {
	case dtype.Bool:
		return e.selectLanes(r, e.integer32(1), e.integer32(0))
	case dtype.BF16: // values in registers are rounded already
		return e.shiftRight(r, 16)
	}
	if mathematics.Coded(dt) {
		return e.toCode(dt, r, false)
	}
	return r
}

// narrowed returns the elements of lanes of a narrow type, packed in the lowest bytes of a register.
func (e *machine) narrowed(dt dtype.DType, x asm.Reg) asm.Reg {
	r := e.prepared(dt, x)
	switch {
	case dt == dtype.F16:
		return e.two(asm.VCVTPS2PH, r)
	case e.isa.masks && dt.Bits() == 16:
		return e.two(asm.VPMOVDW, r)
	case e.isa.masks:
		return e.two(asm.VPMOVDB, r)
	case dt.Bits() == 16:
		return e.twoImm(asm.VPERMQ, e.three(asm.VPSHUFB, r, e.poolVector(lowWords)), 0x08)
	}
	return e.three(asm.VPERMD, e.poolVector(firstAndFifth), e.three(asm.VPSHUFB, r, e.poolVector(lowBytes)))
}

// reaches reports whether all lanes of a vector of elements a step apart lie within a displacement.
func (e *machine) reaches(dt dtype.DType, at asm.Mem, step int64) bool {
	last := step*lanes.BytesOf(dt)*int64(e.isa.lanes) + int64(at.Disp)
	return last == int64(int32(last))
}

// gatherNarrow reads elements of 8 or 16 bits a step apart, lane by lane.
func (e *machine) gatherNarrow(dt dtype.DType, at asm.Mem, step int64) lanes.Value {
	size := lanes.BytesOf(dt)
	op := asm.VPINSRW
	if size == 1 {
		op = asm.VPINSRB
	}
	var parts []asm.Reg
	for lane := range int64(e.isa.lanes) {
		position := lane % (16 / size)
		if position == 0 {
			parts = append(parts, e.CopyOf(e.integer32(0)))
		}
		r := parts[len(parts)-1]
		e.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{r, r, asm.Memory}, Mem: at, Imm: position})
		at.Disp += int32(step * size)
	}
	all := parts[0]
	if len(parts) > 1 {
		all = e.builder.vector()
		e.Emit(asm.Inst{Op: asm.VINSERTI128, Bits: 256, Args: [4]asm.Reg{all, parts[0], parts[1]}, Imm: 1})
	}
	return e.extended(dt, e.two(extensions[dt], all))
}

// loadWide reads elements of 64 bits a step apart, lane by lane, which takes less time than a gather.
func (e *machine) loadWide(dt dtype.DType, at asm.Mem, step int64) lanes.Value {
	next := func() asm.Mem {
		m := at
		at.Disp += int32(step * 8)
		return m
	}
	half := func() (all asm.Reg) {
		for quarter := range e.isa.bits / 128 {
			pair := e.builder.vector()
			e.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{pair, asm.Memory}, Mem: next()})
			e.Emit(asm.Inst{Op: asm.VPINSRQ, Args: [4]asm.Reg{pair, pair, asm.Memory}, Mem: next(), Imm: 1})
			if quarter == 0 {
				all = pair
				continue
			}
			joined := e.builder.vector()
			e.Emit(asm.Inst{Op: asm.VINSERTF128, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{joined, all, pair},
				Imm: int64(quarter)})
			all = joined
		}
		return all
	}
	v := lanes.Value{DType: dt, Lo: half()}
	v.Hi = half()
	return v
}

// scatterNarrow writes elements of 8 or 16 bits a step apart, lane by lane.
func (e *machine) scatterNarrow(dt dtype.DType, at asm.Mem, step int64, x lanes.Value) {
	size := lanes.BytesOf(dt)
	op := asm.VPEXTRW
	if size == 1 {
		op = asm.VPEXTRB
	}
	all := e.narrowed(dt, x.Lo)
	for lane := range int64(e.isa.lanes) {
		position := lane % (16 / size)
		if position == 0 && lane > 0 {
			upper := e.builder.vector()
			e.Emit(asm.Inst{Op: asm.VEXTRACTI128, Bits: 256, Args: [4]asm.Reg{upper, all}, Imm: 1})
			all = upper
		}
		e.Emit(asm.Inst{Op: op, Args: [4]asm.Reg{asm.Memory, all}, Mem: at, Imm: position})
		at.Disp += int32(step * size)
	}
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

// scatter writes elements of at most 32 bits a step apart, lane by lane.
func (e *machine) scatter(buffer string, dt dtype.DType, offset sym.Expr, step int64, x lanes.Value) {
	at := e.Address(buffer, offset)
	switch {
	case !e.reaches(dt, at, step):
		e.scatterLanes(dt, e.scatteredAt(buffer, dt, offset), x, asm.NoReg)
		return
	case smallDtypes(dt):
		e.scatterNarrow(dt, at, step, x)
		return
	}
	bytes := step * 4
	for quarter := range e.isa.lanes / 4 {
		part := x.Lo
		if quarter > 0 {
			op := asm.VEXTRACTF128
			if e.isa.bits == 512 {
				op = asm.VEXTRACTF32X4
			}
			part = e.twoImm(op, x.Lo, int64(quarter))
		}
		for i := range 4 {
			e.Emit(asm.Inst{Op: asm.VEXTRACTPS, Args: [4]asm.Reg{asm.Memory, part}, Mem: at, Imm: int64(i)})
			at.Disp += int32(bytes)
		}
	}
}
