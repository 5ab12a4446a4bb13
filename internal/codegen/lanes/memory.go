package lanes

import (
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// load emits a read. Lanes that a mask leaves out are not touched in memory.
func (e *Emitter) load(l *loop.Load) Value {
	if e.Override != nil {
		if v, ok := e.Override(l); ok {
			return v
		}
	}
	m := e.Kernel.Memory(l.From)
	if m.DType != l.Type {
		e.Kernel.Bug("%%%s of %s is loaded as %s", l.From, m.DType, l.Type)
	}
	KindOf(l.Type)
	offset := e.Simpler(e.Resolve(m.Offset(l.Index)))
	same := !e.Varies(offset)
	if l.Mask == nil {
		return e.elements(l.From, l.Type, offset, e.TailMask())
	}
	if holds, known := e.Decided(l.Mask); known && holds {
		return e.elements(l.From, l.Type, offset, e.TailMask())
	} else if known {
		return e.Value(l.Else)
	}
	otherwise := e.Value(l.Else)
	if !e.Uniform(l.Mask) {
		mask := e.Value(l.Mask)
		if same {
			return e.loadWanted(l, offset, mask, otherwise)
		}
		v := e.elements(l.From, l.Type, offset, e.withTail(mask.Lo))
		return e.Choose(mask, v, otherwise)
	}
	// A branch around the read.
	result := Value{DType: l.Type, Uniform: same && otherwise.Uniform}
	fresh := func(x regalloc.Reg) regalloc.Reg { return e.CopyOf(x) }
	result.Lo = fresh(otherwise.Lo)
	if result.Kind().Wide() {
		if result.Hi = result.Lo; !result.Uniform {
			result.Hi = fresh(otherwise.Hi)
		}
	}
	done := e.Label()
	e.Branch(l.Mask, false, done)
	e.assignBefore(done, result, func() Value { return e.elements(l.From, l.Type, offset, e.TailMask()) })
	return result
}

// loadWanted reads one element for the lanes of a mask; a branch skips the read if the mask has no lane.
func (e *Emitter) loadWanted(l *loop.Load, offset sym.Expr, mask, otherwise Value) Value {
	result := Value{DType: l.Type, Lo: e.CopyOf(otherwise.Lo)}
	if result.Kind().Wide() {
		result.Hi = e.CopyOf(otherwise.Hi)
	}
	wanted, done := e.LaneWord(dtype.I32, e.withTail(mask.Lo)), e.Label()
	e.CompareNumber(wanted, 0)
	e.JumpIf(Equal, done)
	e.assignBefore(done, result, func() Value {
		return e.Choose(mask, e.elements(l.From, l.Type, offset, regalloc.NoReg), otherwise)
	})
	return result
}

// assignBefore emits what read makes, its assignment to result, and then the label.
func (e *Emitter) assignBefore(done regalloc.Label, result Value, read func() Value) {
	s := e.Open(nil)
	v := read()
	e.Assign(result.Lo, v.Lo)
	if result.Hi != regalloc.NoReg && result.Hi != result.Lo {
		e.Assign(result.Hi, v.Hi)
	}
	body := e.Close()
	e.Place(s, body)
	e.Bind(done)
}

// withTail returns a mask without the lanes that an incomplete strip lacks.
func (e *Emitter) withTail(mask regalloc.Reg) regalloc.Reg {
	if tail := e.TailMask(); tail != regalloc.NoReg {
		return e.Masks(loop.And, mask, tail)
	}
	return mask
}

// elements reads elements at an offset that differs by lane, or is the same for all lanes. Only the lanes of mask are
// touched (NoReg: all).
func (e *Emitter) elements(buffer string, dt dtype.DType, offset sym.Expr, mask regalloc.Reg) Value {
	step, even := e.ConstantStep(offset)
	part := mask != regalloc.NoReg
	switch {
	case even && Packs(dt) && (step == 0 || step == 1 && !part):
		return e.loadPacked(buffer, dt, offset, step)
	case Packs(dt):
	case even && step == 0:
		return e.loadOne(dt, e.Address(buffer, offset))
	case even && step == 1 && (!part || e.Parts(raw(dt))):
		at := e.Address(buffer, offset)
		if e.streams(buffer, dt, offset) {
			ahead := at
			ahead.Disp += streamAhead
			e.Prefetch(ahead)
		}
		return e.loadRun(dt, at, mask)
	case even && dt.Bits() == 32 && e.Spreads(step, part):
		lowest := e.Address(buffer, offset.Add(sym.Const(min(step, 0)*int64(e.lanes-1))))
		return Value{DType: dt, Lo: e.LoadSpread(lowest, step, mask)}
	case even && !part && dt.Bits() != 32:
		if at := e.Address(buffer, offset); e.Apart(raw(dt), at, step) {
			lo, hi := e.LoadApart(raw(dt), at, step)
			v := e.extended(dt, lo)
			v.Hi = hi
			return v
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
func (e *Emitter) streams(buffer string, dt dtype.DType, offset sym.Expr) bool {
	m := e.Kernel.Memory(buffer)
	if e.Strip == nil || dt.Bits() != 32 || m.Param == nil || m.Param.Access != loop.Read ||
		e.TailMask() != regalloc.NoReg {
		return false
	}
	for _, n := range offset.Vars() {
		if b := e.Names[n]; b.Depth <= e.Strip.Depth || b.Lanes.Lo != regalloc.NoReg {
			continue
		}
		step, _, ok := offset.Linear(n)
		if bytes, known := step.Const(); ok && known && bytes*BytesOf(dt) == cacheLine {
			return true
		}
	}
	return false
}

// raw returns the type as which a machine reads and writes elements of a type: without the meaning of their bits.
func raw(dt dtype.DType) dtype.DType {
	switch dt {
	case dtype.F32, dtype.U32:
		return dtype.I32
	case dtype.F64, dtype.U64:
		return dtype.I64
	case dtype.BF16:
		return dtype.U16
	case dtype.Bool:
		return dtype.U8
	}
	if mathematics.Coded(dt) {
		return dtype.U8
	}
	return dt
}

// loadOne reads one element into all lanes.
func (e *Emitter) loadOne(dt dtype.DType, at regalloc.Mem) Value {
	v := e.extended(dt, e.LoadOne(raw(dt), at))
	v.Uniform = true
	if v.Kind().Wide() {
		v.Hi = v.Lo
	}
	return v
}

// beyond returns the address half a vector of 64-bit lanes further on.
func (e *Emitter) beyond(at regalloc.Mem) regalloc.Mem {
	at.Disp += int32(4 * e.lanes)
	return at
}

// loadRun reads a run of elements.
func (e *Emitter) loadRun(dt dtype.DType, at regalloc.Mem, mask regalloc.Reg) Value {
	if !Kinds[dt].Wide() {
		return e.extended(dt, e.Load(raw(dt), at, mask))
	}
	v := Value{DType: dt}
	lo, hi := e.halfMasks(mask)
	v.Lo, v.Hi = e.Load(dtype.I64, at, lo), e.Load(dtype.I64, e.beyond(at), hi)
	return v
}

// extended returns a value of a type from lanes that were read as its raw type.
func (e *Emitter) extended(dt dtype.DType, r regalloc.Reg) Value {
	switch dt {
	case dtype.Bool:
		r = e.word.GreaterInt(r, e.word.Integer(0))
	case dtype.BF16:
		r = e.word.ShiftLeft(r, 16)
	default:
		if mathematics.Coded(dt) {
			r = e.Functions().FromCode(dt, r)
		}
	}
	return Value{DType: dt, Lo: r}
}

// store emits a write.
func (e *Emitter) store(s *loop.Store) {
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
	var mask Value
	if !uniform {
		mask = e.Value(condition)
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
func (e *Emitter) storeLanes(buffer string, dt dtype.DType, offset sym.Expr, x Value, mask regalloc.Reg) {
	step, even := e.ConstantStep(offset)
	part := mask != regalloc.NoReg
	switch {
	case Packs(dt) && even:
		e.storePacked(buffer, dt, offset, step, x, mask)
	case e.Strip == nil:
		e.storeOne(dt, e.Address(buffer, offset), x)
	case !e.Varies(offset):
		Refuse("all lanes write one element")
	case even && step == 1 && (!part || e.Parts(raw(dt))):
		e.storeRun(dt, e.Address(buffer, offset), x, mask)
	case even && !part && !x.Kind().Wide():
		e.scatterApart(buffer, dt, offset, step, x)
	default:
		e.scatterLanes(dt, e.scatteredAt(buffer, dt, offset), x, mask)
	}
}

// storeOne writes lane 0.
func (e *Emitter) storeOne(dt dtype.DType, at regalloc.Mem, x Value) {
	if dt != dtype.Bool {
		e.StoreOne(raw(dt), at, e.prepared(dt, x.Lo))
		return
	}
	r := e.LaneWord(dtype.I32, x.Lo)
	e.IntegerNumber(And, r, 1)
	e.StoreBits(8, at, r)
}

// storeRun writes a run of elements.
func (e *Emitter) storeRun(dt dtype.DType, at regalloc.Mem, x Value, mask regalloc.Reg) {
	if !x.Kind().Wide() {
		e.Machine.Store(raw(dt), at, e.prepared(dt, x.Lo), mask)
		return
	}
	lo, hi := e.halfMasks(mask)
	e.Machine.Store(dtype.I64, at, x.Lo, lo)
	e.Machine.Store(dtype.I64, e.beyond(at), x.Hi, hi)
}

// prepared returns lanes of a type as those of its raw type.
func (e *Emitter) prepared(dt dtype.DType, r regalloc.Reg) regalloc.Reg {
	switch dt {
	case dtype.Bool:
		return e.word.SelectLanes(r, e.word.Integer(1), e.word.Integer(0))
	case dtype.BF16: // values in registers are rounded already
		return e.word.ShiftRight(r, 16)
	}
	if mathematics.Coded(dt) {
		return e.Functions().ToCode(dt, r, false)
	}
	return r
}

// scatterApart writes elements of at most 32 bits a step apart, lane by lane.
func (e *Emitter) scatterApart(buffer string, dt dtype.DType, offset sym.Expr, step int64, x Value) {
	at := e.Address(buffer, offset)
	if !e.Apart(raw(dt), at, step) {
		e.scatterLanes(dt, e.scatteredAt(buffer, dt, offset), x, regalloc.NoReg)
		return
	}
	e.StoreApart(raw(dt), at, step, e.prepared(dt, x.Lo))
}
