package amd64

import (
	"fmt"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// kind is the form of an element type's values in registers.
type kind uint8

const (
	noKind   kind = iota
	floats        // f32 lanes: f32, and narrower floats as f32 that hold only values of their type
	integers      // i32 lanes: integers of up to 32 bits, extended by their type's sign
	flags         // a mask
	doubles       // two registers of f64 lanes
	longs         // two registers of i64 lanes
)

var kinds = map[dtype.DType]kind{
	dtype.F32: floats, dtype.F16: floats, dtype.BF16: floats, dtype.F64: doubles, dtype.Bool: flags,
	dtype.I8: integers, dtype.U8: integers, dtype.I16: integers, dtype.U16: integers, dtype.I32: integers,
	dtype.U32: integers,
	dtype.I64: longs, dtype.U64: longs,
	dtype.I2: integers, dtype.U2: integers, dtype.I4: integers, dtype.U4: integers,
	dtype.F4E2M1: floats, dtype.F8E4M3FN: floats, dtype.F8E4M3FNUZ: floats, dtype.F8E5M2: floats, dtype.F8E5M2FNUZ: floats,
	dtype.F8E8M0: floats,
}

// kindOf returns an element type's kind; it refuses types without one.
func kindOf(dt dtype.DType) kind {
	k, ok := kinds[dt]
	if !ok {
		refuse("elements of %s", dt)
	}
	return k
}

// wide reports whether values take two registers.
func (k kind) wide() bool { return k == doubles || k == longs }

// bytesOf returns an element's size in bytes; it refuses types without a kind.
func bytesOf(dt dtype.DType) int64 {
	if dt.Bits() < 8 {
		refuse("elements of %s", dt)
	}
	return int64(dt.Bits() / 8)
}

// value is an expression's value: a number in each lane. For kinds of 64 bits, lo holds the lower half of the lanes and
// hi the higher. A uniform value is the same in all lanes. The registers must not be changed.
type value struct {
	dtype   dtype.DType
	lo, hi  asm.Reg
	uniform bool
}

// kind returns the kind of the value's type.
func (v value) kind() kind { return kinds[v.dtype] }

// binding is the value of a scalar's name.
type binding struct {
	value
	depth   int // of the scope that declares it
	mutable bool
}

// vectorLoop is the vector loop whose body is being written.
type vectorLoop struct {
	depth    int      // of its scope
	original sym.Name // its variable
	variable sym.Name // lane 0's iteration or, in expressions that differ by lane, each lane's
	lane0    sym.Name // lane 0's iteration, for all lanes
	number   sym.Name // a lane's number
	tail     asm.Reg  // the mask of an incomplete strip's lanes; NoReg: all
}

// value emits an expression, in the outermost scope in which its value is the same.
func (e *emitter) value(x loop.Expr) value {
	depth, ok := e.outside(x)
	if !ok {
		return e.expression(x)
	}
	return e.once(depth, fmt.Sprintf("v%p", x)+e.replacements(x), func() ready {
		v := e.vector
		if v != nil && depth < v.depth {
			e.vector = nil
		}
		r := e.expression(x)
		e.vector = v
		return ready{value: r}
	}).value
}

// outside returns the depth of the outermost scope in which an expression can be computed just before the scope inside
// it; false if that is the scope at hand, or the expression costs nothing.
func (e *emitter) outside(x loop.Expr) (depth int, ok bool) {
	switch x.(type) {
	case *loop.Const, *loop.Ref, *loop.Index:
		return 0, false
	}
	here := e.depthHere()
	if e.override != nil || here == 0 {
		return 0, false
	}
	depth, ok = e.needs(x)
	if !ok || depth >= here {
		return 0, false
	}
	// Memory may be read only if the loops would read it. The head of a scope runs only if its body does.
	for d := e.here.depth; d > depth+1; d-- {
		if !e.scopes[d].certain {
			depth = d - 1
			break
		}
	}
	for d := here; d > depth; d-- {
		if e.scopes[d].checked && reads(x) {
			depth = d
			break
		}
	}
	return depth, depth < here
}

// reads reports whether an expression reads memory.
func reads(x loop.Expr) (found bool) {
	loop.WalkExpr(x, func(x loop.Expr) {
		if _, ok := x.(*loop.Load); ok {
			found = true
		}
	})
	return found
}

// needs returns the depth of the innermost scope that an expression's value depends on; false if it must stay where it
// is.
func (e *emitter) needs(x loop.Expr) (depth int, ok bool) {
	index := func(s sym.Expr) { depth = max(depth, e.depthOf(e.resolve(s))) }
	changed := func(name string, of func(s *scope) []string) {
		for _, s := range e.scopes {
			if s.depth > depth && slices.Contains(of(s), name) {
				depth = s.depth
			}
		}
	}
	switch x := x.(type) {
	case *loop.Const:
		return 0, true
	case *loop.Ref:
		b := e.bound[x.Name]
		depth = b.depth
		changed(x.Name, func(s *scope) []string { return s.assigned })
		return depth, true
	case *loop.Index:
		index(x.X)
		return depth, true
	case *loop.Load:
		if x.Mask != nil {
			return 0, false
		}
		for _, s := range x.Index {
			index(s)
		}
		changed(x.From, func(s *scope) []string { return s.stored })
		return depth, true
	}
	for _, y := range loop.Operands(x) {
		d, ok := e.needs(y)
		if !ok {
			return 0, false
		}
		depth = max(depth, d)
	}
	return depth, true
}

// replacements returns a key of the values of the unrolled loops' variables in an expression: the expression has a
// value for each key.
func (e *emitter) replacements(x loop.Expr) (list string) {
	add := func(s sym.Expr) {
		for _, n := range s.Vars() {
			if b := e.names[n]; b.replaced {
				list += " " + n.String() + "=" + b.value.Key()
			}
		}
	}
	switch x := x.(type) {
	case *loop.Index:
		add(x.X)
	case *loop.Load:
		for _, s := range x.Index {
			add(s)
		}
	}
	for _, y := range loop.Operands(x) {
		list += e.replacements(y)
	}
	return list
}

// expression emits an expression in the present scope.
func (e *emitter) expression(x loop.Expr) value {
	switch x := x.(type) {
	case *loop.Const:
		return e.constant(x)
	case *loop.Ref:
		b, ok := e.bound[x.Name]
		if !ok {
			e.k.bug("%s is not declared", x.Name)
		}
		return b.value
	case *loop.Index:
		return e.index(x.X)
	case *loop.Load:
		return e.load(x)
	case *loop.Unary:
		return e.unary(x)
	case *loop.Binary:
		return e.binary(x)
	case *loop.Select:
		if v, ok := e.expFrom(x); ok {
			return v
		}
		cond, a, b := e.value(x.Cond), e.value(x.X), e.value(x.Y)
		return e.choose(cond, a, b)
	case *loop.Cast:
		if v, ok := e.quantise(x); ok {
			return v
		}
		if v, ok := e.lookedUp(x); ok {
			return v
		}
		return e.convert(e.value(x.X), x.Type, x.Wrap)
	}
	e.k.bug("an expression of type %T", x)
	panic("not reached")
}

// constant returns a number in all lanes.
func (e *emitter) constant(x *loop.Const) value {
	v := value{dtype: x.Type, uniform: true}
	switch kindOf(x.Type) {
	case floats:
		v.lo = e.float(float32(loop.ToFloat(x.Type, x.Bits)))
	case integers:
		v.lo = e.integer32(int32(loop.ToInt(x.Type, x.Bits)))
	case flags:
		v.lo = e.maskConst(x.Bits != 0)
	default:
		v.lo = e.repeated64(x.Bits)
		v.hi = v.lo
	}
	return v
}

func (e *emitter) integer32(v int32) asm.Reg { return e.builder.integer(v) }

// index returns a symbolic integer as an i64.
func (e *emitter) index(x sym.Expr) value {
	x = e.resolve(x)
	if v, ok := x.Const(); ok {
		r := e.repeated64(uint64(v))
		return value{dtype: dtype.I64, lo: r, hi: r, uniform: true}
	}
	x = e.simpler(x)
	step, ok := e.constantStep(x)
	if !ok {
		if e.fits(x) {
			return e.cast(e.laneInteger(x, dtype.I32), dtype.I64)
		}
		return e.laneInteger(x, dtype.I64)
	}
	base := e.broadcastWide(e.integer(x))
	if step == 0 {
		return value{dtype: dtype.I64, lo: base, hi: base, uniform: true}
	}
	half := e.isa.lanes / 2
	lo, hi := make([]int64, half), make([]int64, half)
	for i := range half {
		lo[i], hi[i] = int64(i)*step, int64(i+half)*step
	}
	return value{dtype: dtype.I64, lo: e.three(asm.VPADDQ, base, e.longs(lo)), hi: e.three(asm.VPADDQ, base, e.longs(hi))}
}

// each applies an operation to the one or two registers of a value.
func (e *emitter) each(v value, do func(x asm.Reg) asm.Reg) value {
	r := value{dtype: v.dtype, uniform: v.uniform, lo: do(v.lo)}
	if v.kind().wide() {
		if r.hi = r.lo; !v.uniform {
			r.hi = do(v.hi)
		}
	}
	return r
}

// pairs applies an operation to two values of one kind.
func (e *emitter) pairs(dt dtype.DType, x, y value, do func(x, y asm.Reg) asm.Reg) value {
	r := value{dtype: dt, uniform: x.uniform && y.uniform, lo: do(x.lo, y.lo)}
	if x.kind().wide() {
		if r.hi = r.lo; !r.uniform {
			r.hi = do(x.hi, y.hi)
		}
	}
	return r
}

// tests applies a comparison to two values; the masks of 64-bit lanes become one.
func (e *emitter) tests(x, y value, do func(x, y asm.Reg) asm.Reg) value {
	r := value{dtype: dtype.Bool, uniform: x.uniform && y.uniform}
	if !x.kind().wide() {
		r.lo = do(x.lo, y.lo)
		return r
	}
	lo := do(x.lo, y.lo)
	hi := lo
	if !r.uniform {
		hi = do(x.hi, y.hi)
	}
	r.lo = e.join(lo, hi)
	return r
}

// join combines the masks of the two halves of 64-bit lanes into a mask of 32-bit lanes.
func (e *emitter) join(lo, hi asm.Reg) asm.Reg {
	if e.isa.masks {
		r := e.maskRegister()
		e.Emit(asm.Inst{Op: asm.KUNPCKBW, Args: [4]asm.Reg{r, hi, lo}})
		return r
	}
	r := e.vectorOf(asm.VSHUFPS, 0x88, lo, hi)
	return e.twoImm(asm.VPERMQ, r, 0xd8)
}

// halves splits a mask of 32-bit lanes into those of the two halves of 64-bit lanes, the reverse of join.
func (e *emitter) halves(mask asm.Reg, uniform bool) (lo, hi asm.Reg) {
	if uniform {
		return mask, mask
	}
	if e.isa.masks {
		hi = e.maskRegister()
		e.Emit(asm.Inst{Op: asm.KSHIFTRW, Args: [4]asm.Reg{hi, mask}, Imm: 8})
		return mask, hi
	}
	return e.two(asm.VPMOVSXDQ, mask), e.two(asm.VPMOVSXDQ, e.upper(mask))
}

// upper returns the upper half of a vector.
func (e *emitter) upper(x asm.Reg) asm.Reg {
	op := asm.VEXTRACTF128
	if e.isa.bits == 512 {
		op = asm.VEXTRACTF64X4
	}
	return e.twoImm(op, x, 1)
}

// vectorOf emits an operation on two vectors and an immediate.
func (e *emitter) vectorOf(op asm.Op, imm int64, x, y asm.Reg) asm.Reg {
	r := e.builder.vector()
	e.Emit(asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: imm})
	return r
}

// choose returns x in the lanes in which cond holds, and y in the others.
func (e *emitter) choose(cond, x, y value) value {
	r := value{dtype: x.dtype, uniform: cond.uniform && x.uniform && y.uniform}
	switch {
	case x.kind() == flags:
		r.lo = e.maskOr(e.maskAnd(cond.lo, x.lo), e.maskAnd(e.maskNot(cond.lo), y.lo))
	case x.kind().wide():
		lo, hi := e.halves(cond.lo, cond.uniform)
		r.lo = e.selectWide(lo, x.lo, y.lo)
		if r.hi = r.lo; !r.uniform {
			r.hi = e.selectWide(hi, x.hi, y.hi)
		}
	default:
		r.lo = e.selectLanes(cond.lo, x.lo, y.lo)
	}
	return r
}

// settle rounds or wraps a result computed in f32 or i32 lanes to its narrower type.
func (e *emitter) settle(v value) value {
	switch v.dtype {
	case dtype.F16:
		v.lo = e.fromHalf(e.toHalf(v.lo))
	case dtype.BF16:
		v.lo = e.shiftLeft(e.toBF16(v.lo), 16)
	case dtype.I8:
		v.lo = e.shiftRightSigned(e.shiftLeft(v.lo, 24), 24)
	case dtype.I16:
		v.lo = e.shiftRightSigned(e.shiftLeft(v.lo, 16), 16)
	case dtype.U8:
		v.lo = e.and(v.lo, e.integer32(0xff))
	case dtype.U16:
		v.lo = e.and(v.lo, e.integer32(0xffff))
	case dtype.I2, dtype.I4:
		unused := int64(32 - v.dtype.Bits())
		v.lo = e.shiftRightSigned(e.shiftLeft(v.lo, unused), unused)
	case dtype.U2, dtype.U4:
		v.lo = e.and(v.lo, e.integer32(int32(1)<<v.dtype.Bits()-1))
	default:
		return e.settleCoded(v, true)
	}
	return v
}

// settleCoded rounds a result computed in f32 lanes to a float of at most 8 bits; clamped is as in toCode.
func (e *emitter) settleCoded(v value, clamped bool) value {
	if mathematics.Coded(v.dtype) {
		v.lo = e.fromCode(v.dtype, e.toCode(v.dtype, v.lo, clamped))
	}
	return v
}

// toHalf returns f32 lanes as f16 in half a vector; fromHalf is the reverse.
func (e *emitter) toHalf(x asm.Reg) asm.Reg   { return e.twoImm(asm.VCVTPS2PH, x, 0) }
func (e *emitter) fromHalf(x asm.Reg) asm.Reg { return e.two(asm.VCVTPH2PS, x) }

// toBF16 returns f32 lanes as bf16 in the low 16 bits of each: rounded to nearest, half to even; NaN stays NaN.
func (e *emitter) toBF16(x asm.Reg) asm.Reg {
	odd := e.and(e.shiftRight(x, 16), e.integer32(1))
	rounded := e.shiftRight(e.addInt(e.addInt(x, e.integer32(0x7fff)), odd), 16)
	quiet := e.or(e.shiftRight(x, 16), e.integer32(0x40))
	return e.selectLanes(e.compare(unordered, x, x), quiet, rounded)
}

// lane32 returns a general register with lane 0 of a vector of 32-bit lanes, extended by its sign or by zeros.
func (e *emitter) lane32(x asm.Reg, signed bool) asm.Reg {
	r := e.general()
	e.Emit(asm.Inst{Op: asm.VMOVD, Args: [4]asm.Reg{r, x}})
	if signed {
		e.Emit(asm.Inst{Op: asm.MOVSXD, Bits: 64, Args: [4]asm.Reg{r, r}})
	}
	return r
}

// lane64 returns a general register with the lowest 64 bits of a vector.
func (e *emitter) lane64(x asm.Reg) asm.Reg {
	r := e.general()
	e.Emit(asm.Inst{Op: asm.VMOVQ, Args: [4]asm.Reg{r, x}})
	return r
}

// wholeNumber returns a general register with a uniform integer.
func (e *emitter) wholeNumber(v value) asm.Reg {
	switch v.kind() {
	case longs:
		return e.lane64(v.lo)
	case integers:
		return e.lane32(v.lo, v.dtype.IsSigned())
	case flags:
		r := e.bitsOf(v.lo)
		e.integerImm(asm.AND, r, 1)
		return r
	}
	refuse("an index of %s", v.dtype)
	return asm.NoReg
}

// fromNumber returns a uniform value from an integer in a general register.
func (e *emitter) fromNumber(dt dtype.DType, r asm.Reg) value {
	v := value{dtype: dt, uniform: true}
	if kindOf(dt) == longs {
		v.lo = e.broadcastWide(r)
		v.hi = v.lo
		return v
	}
	v.lo = e.broadcastInt(r)
	return e.settle(v)
}
