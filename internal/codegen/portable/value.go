package portable

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
)

// scalar computes a value that is the same in all lanes. lanes computes n lanes: the slice that it returns may be a
// view of an operand's memory or a strip, good until the memory or the strip is written.
type (
	scalar[T number] func(f frame) T
	lanes[T number]  func(f frame, n int) []T
)

// value is a compiled expression: run is a scalar[T] if it is uniform, or else a lanes[T], where T represents dt.
type value struct {
	dt      dtype.DType
	uniform bool
	run     any
	within  *interval // the lanes in which a bool holds, if they are an interval
	inPlace bool      // the lanes are in the memory that the caller of expr wanted
}

// interval computes the lanes in which a condition holds: [first, end) within [0, n).
type interval func(f frame, n int) (first, end int)

// binding is the storage of a Let or Var.
type binding struct {
	dt      dtype.DType
	uniform bool
	at      int // a word, or a strip's offset
}

// family compiles expressions and statements of values of one representation.
type family interface {
	number(c *compiler, e *loop.Const) value
	ref(c *compiler, b binding) value
	load(c *compiler, e *loop.Load, into any) value
	unary(c *compiler, e *loop.Unary, into any) value
	binary(c *compiler, e *loop.Binary, into any) value
	choose(c *compiler, e *loop.Select, into any) value
	cast(c *compiler, e *loop.Cast, into any) value
	store(c *compiler, s *loop.Store) action
	assign(c *compiler, b binding, x loop.Expr) (action, bool)
	reduce(c *compiler, b binding, s *loop.Reduce) action
	check(c *compiler, s *loop.Check) action
}

// numeric is the family of T.
type numeric[T number] struct {
	rep   rep
	arith arithmetic[T]
}

// families has a family for each representation. init fills it, since methods of the families use it.
var families [reps]family

// init fills families.
func init() {
	families = [reps]family{
		repU8: &numeric[uint8]{repU8, integralArithmetic[uint8]()}, repI8: &numeric[int8]{repI8, integralArithmetic[int8]()},
		repU16: &numeric[uint16]{repU16, integralArithmetic[uint16]()},
		repI16: &numeric[int16]{repI16, integralArithmetic[int16]()},
		repU32: &numeric[uint32]{repU32, integralArithmetic[uint32]()},
		repI32: &numeric[int32]{repI32, integralArithmetic[int32]()},
		repU64: &numeric[uint64]{repU64, integralArithmetic[uint64]()},
		repI64: &numeric[int64]{repI64, integralArithmetic[int64]()},
		repF32: &numeric[float32]{repF32, f32Arithmetic()}, repF64: &numeric[float64]{repF64, realArithmetic[float64]()},
	}
}

// repOf returns the representation of a type: its bits if values are only copied.
func (c *compiler) repOf(dt dtype.DType) rep {
	r := represents[dt]
	if c.moving {
		r = moved[dt.Bits()]
	}
	if r == noRep {
		c.bug("values of type %s cannot be computed with", dt)
	}
	return r
}

func (c *compiler) family(dt dtype.DType) family { return families[c.repOf(dt)] }

// expr compiles an expression. into, if it is a lanes[T], returns the memory in which the caller wants the lanes.
func (c *compiler) expr(e loop.Expr, into any) value {
	switch e := e.(type) {
	case *loop.Const:
		return c.family(e.Type).number(c, e)
	case *loop.Ref:
		b, ok := c.bound[e.Name]
		if !ok {
			c.bug("%%%s has no value", e.Name)
		}
		return c.family(b.dt).ref(c, b)
	case *loop.Index:
		return c.index(e, into)
	case *loop.Load:
		return c.family(e.Type).load(c, e, into)
	case *loop.Unary:
		return c.family(e.X.DType()).unary(c, e, into)
	case *loop.Binary:
		return c.family(e.X.DType()).binary(c, e, into)
	case *loop.Select:
		return c.family(e.X.DType()).choose(c, e, into)
	case *loop.Cast:
		return c.family(e.Type).cast(c, e, into)
	}
	c.bug("an expression of type %T", e)
	panic("not reached")
}

// destination returns the memory for lanes of T: into if that is a lanes[T], which it reports, or else a new strip.
func destination[T number](c *compiler, into any) (lanes[T], bool) {
	if f, ok := into.(lanes[T]); ok {
		return f, true
	}
	at := c.newStrip(int(unsafe.Sizeof(*new(T))))
	return func(f frame, n int) []T { return strip[T](f, at, n) }, false
}

// spread returns a value's lanes, and whether they are in into. A uniform value fills a strip.
func spread[T number](c *compiler, v value, into any) (lanes[T], bool) {
	if !v.uniform {
		return v.run.(lanes[T]), v.inPlace
	}
	one := v.run.(scalar[T])
	out, inPlace := destination[T](c, into)
	return func(f frame, n int) []T {
		to, x := out(f, n), one(f)
		for i := range to {
			to[i] = x
		}
		return to
	}, inPlace
}

// number compiles a constant.
func (k *numeric[T]) number(c *compiler, e *loop.Const) value {
	var x T
	switch {
	case c.moving || !e.Type.IsFloat():
		bits := e.Bits
		if e.Type.IsSigned() && !c.moving {
			shift := 64 - e.Type.Bits()
			bits = uint64(int64(bits) << shift >> shift)
		}
		x = T(bits)
	case k.rep == repF64:
		x = T(math.Float64frombits(e.Bits))
	default:
		x = T(loop.ToFloat(e.Type, e.Bits))
	}
	return value{dt: e.Type, uniform: true, run: scalar[T](func(frame) T { return x })}
}

// ref compiles a reference to a named value.
func (k *numeric[T]) ref(c *compiler, b binding) value {
	at := b.at
	if b.uniform {
		return value{dt: b.dt, uniform: true, run: scalar[T](func(f frame) T { return *word[T](f, at) })}
	}
	return value{dt: b.dt, run: lanes[T](func(f frame, n int) []T { return strip[T](f, at, n) })}
}

// index compiles an Index.
func (c *compiler) index(e *loop.Index, into any) value {
	l := c.lanes(e.X)
	if l.uniform() {
		return value{dt: dtype.I64, uniform: true, run: scalar[int64](l.start.get)}
	}
	out, inPlace := destination[int64](c, into)
	return value{dt: dtype.I64, inPlace: inPlace, run: lanes[int64](func(f frame, n int) []int64 {
		to := out(f, n)
		l.fill(f, to)
		return to
	})}
}

// unary compiles a function of one operand.
func (k *numeric[T]) unary(c *compiler, e *loop.Unary, into any) value {
	dt := e.X.DType()
	if e.Op.Test() {
		return k.test(c, e, into)
	}
	f, each, fix := k.arith.one[e.Op], k.arith.oneLoop[e.Op], settle[T](dt)
	if f == nil {
		c.bug("%s of %s", e.Op, dt)
	}
	mark := c.mark()
	x := c.expr(e.X, nil)
	c.release(mark)
	if x.uniform {
		run := x.run.(scalar[T])
		return value{dt: dt, uniform: true, run: scalar[T](func(frame frame) T { return settleOne(fix, f(run(frame))) })}
	}
	out, inPlace := destination[T](c, into)
	run := x.run.(lanes[T])
	if each == nil {
		each = func(to, x []T) {
			for i, v := range x[:len(to)] {
				to[i] = f(v)
			}
		}
	}
	return value{dt: dt, inPlace: inPlace, run: lanes[T](func(frame frame, n int) []T {
		v := run(frame, n)
		to := out(frame, n)
		each(to, v)
		if fix != nil {
			fix(to)
		}
		return to
	})}
}

// test compiles a function of one operand whose result is a bool.
func (k *numeric[T]) test(c *compiler, e *loop.Unary, into any) value {
	test := k.arith.test[e.Op]
	if test == nil {
		c.bug("%s of %s", e.Op, e.X.DType())
	}
	out, inPlace := destination[uint8](c, into)
	mark := c.mark()
	x := c.expr(e.X, nil)
	c.release(mark)
	if x.uniform {
		run := x.run.(scalar[T])
		return value{dt: dtype.Bool, uniform: true, run: scalar[uint8](func(f frame) uint8 { return flag(test(run(f))) })}
	}
	run := x.run.(lanes[T])
	return value{dt: dtype.Bool, inPlace: inPlace, run: lanes[uint8](func(f frame, n int) []uint8 {
		v := run(f, n)
		to := out(f, n)
		for i, x := range v[:len(to)] {
			to[i] = flag(test(x))
		}
		return to
	})}
}

// settleOne applies the result of settle to one value; nil leaves it unchanged.
func settleOne[T number](fix func([]T), x T) T {
	if fix == nil {
		return x
	}
	one := [1]T{x}
	fix(one[:])
	return one[0]
}

// binary compiles a function of two operands.
func (k *numeric[T]) binary(c *compiler, e *loop.Binary, into any) value {
	if e.Op.Test() {
		return k.comparison(c, e, into)
	}
	dt := e.X.DType()
	f, fix := k.arith.two[e.Op], settle[T](dt)
	if f == nil {
		c.bug("%s of %s", e.Op, dt)
	}
	mark := c.mark()
	x, y := k.operand(c, e.X), k.operand(c, e.Y)
	c.release(mark)
	if x.uniform && y.uniform {
		left, right := x.run.(scalar[T]), y.run.(scalar[T])
		run := scalar[T](func(frame frame) T { return f(left(frame), right(frame)) })
		if fix != nil {
			run = func(frame frame) T { return settleOne(fix, f(left(frame), right(frame))) }
		}
		return value{dt: dt, uniform: true, run: run}
	}
	result := value{dt: dt, within: both(e.Op, x, y)}
	var out lanes[T]
	out, result.inPlace = destination[T](c, into)
	var run lanes[T]
	switch {
	case y.uniform && k.arith.rightLoop[e.Op] != nil:
		run = sided(x.run.(lanes[T]), y.run.(scalar[T]), out, k.arith.rightLoop[e.Op])
	case x.uniform && k.arith.leftLoop[e.Op] != nil:
		run = sided(y.run.(lanes[T]), x.run.(scalar[T]), out, k.arith.leftLoop[e.Op])
	default:
		if result.inPlace {
			c.newStrip(int(unsafe.Sizeof(*new(T)))) // for an operand's lanes
		}
		run = paired(c, x, y, out, k.pairs(e.Op))
		c.release(mark)
		if !result.inPlace {
			c.newStrip(int(unsafe.Sizeof(*new(T))))
		}
	}
	result.run = run
	if fix != nil {
		result.run = lanes[T](func(frame frame, n int) []T {
			to := run(frame, n)
			fix(to)
			return to
		})
	}
	return result
}

// operand compiles an operand. It keeps only the strip of the result, which is the first that the operand used.
func (k *numeric[T]) operand(c *compiler, e loop.Expr) value {
	mark := c.mark()
	x := c.expr(e, nil)
	c.release(mark)
	if !x.uniform {
		c.newStrip(int(unsafe.Sizeof(*new(T))))
	}
	return x
}

// pairs returns a function's loop over two strips.
func (k *numeric[T]) pairs(op loop.BinaryOp) func(to, x, y []T) {
	if each := k.arith.twoLoop[op]; each != nil {
		return each
	}
	f := k.arith.two[op]
	return func(to, x, y []T) {
		x, y = x[:len(to)], y[:len(to)]
		for i := range to {
			to[i] = f(x[i], y[i])
		}
	}
}

// sided applies a loop to lanes and a value for all lanes.
func sided[T number](x lanes[T], y scalar[T], out lanes[T], each func(to, x []T, y T)) lanes[T] {
	return func(f frame, n int) []T {
		v, w := x(f, n), y(f)
		to := out(f, n)
		each(to, v, w)
		return to
	}
}

// paired applies a loop to two operands, one of which may be uniform. A uniform one fills a strip after the other has
// been computed, whose computation may use that strip.
func paired[T, R number](c *compiler, x, y value, out lanes[R], each func(to []R, x, y []T)) lanes[R] {
	mark := c.mark()
	left, _ := spread[T](c, x, nil)
	right, _ := spread[T](c, y, nil)
	c.release(mark)
	if x.uniform {
		return func(f frame, n int) []R {
			w := right(f, n)
			v := left(f, n)
			to := out(f, n)
			each(to, v, w)
			return to
		}
	}
	return func(f frame, n int) []R {
		v := left(f, n)
		w := right(f, n)
		to := out(f, n)
		each(to, v, w)
		return to
	}
}

// comparison compiles a function of two operands whose result is a bool.
func (k *numeric[T]) comparison(c *compiler, e *loop.Binary, into any) value {
	if result, ok := c.between(e, into); ok {
		return result
	}
	dt := e.X.DType()
	f, each := k.arith.compare[e.Op], k.arith.compareLoop[e.Op]
	if dt == dtype.C64 {
		f = complexCompare[T](e.Op == loop.Ne)
		each = nil
	}
	out, inPlace := destination[uint8](c, into)
	mark := c.mark()
	x, y := k.operand(c, e.X), k.operand(c, e.Y)
	if x.uniform && y.uniform {
		c.release(mark)
		left, right := x.run.(scalar[T]), y.run.(scalar[T])
		return value{dt: dtype.Bool, uniform: true, run: scalar[uint8](func(frame frame) uint8 {
			return flag(f(left(frame), right(frame)))
		})}
	}
	if each == nil {
		each = func(to []uint8, x, y []T) {
			x, y = x[:len(to)], y[:len(to)]
			for i := range to {
				to[i] = flag(f(x[i], y[i]))
			}
		}
	}
	run := paired(c, x, y, out, each)
	c.release(mark)
	return value{dt: dtype.Bool, inPlace: inPlace, run: run}
}

// complexCompare returns the comparison of complex numbers in their bits: whether they are equal, or whether they
// differ.
func complexCompare[T number](differ bool) func(x, y T) bool {
	number := func(x uint64) complex64 {
		return complex(math.Float32frombits(uint32(x)), math.Float32frombits(uint32(x>>32)))
	}
	return func(x, y T) bool { return (number(uint64(x)) == number(uint64(y))) != differ }
}

// choose compiles a Select.
func (k *numeric[T]) choose(c *compiler, e *loop.Select, into any) value {
	start := c.mark()
	out, inPlace := destination[T](c, into)
	mark := c.mark()
	cond := c.condition(e.Cond)
	x, y := k.operand(c, e.X), k.operand(c, e.Y)
	if cond.uniform && x.uniform && y.uniform {
		c.release(start)
		test, left, right := cond.run.(scalar[uint8]), x.run.(scalar[T]), y.run.(scalar[T])
		return value{dt: x.dt, uniform: true, run: scalar[T](func(f frame) T {
			if test(f) != 0 {
				return left(f)
			}
			return right(f)
		})}
	}
	test, _ := spread[uint8](c, cond, nil)
	left, _ := spread[T](c, x, nil)
	right, _ := spread[T](c, y, nil)
	c.release(mark)
	return value{dt: x.dt, inPlace: inPlace, run: lanes[T](func(f frame, n int) []T {
		var m []uint8
		var v, w []T
		// Uniform values fill their strips last: the computation of the others may use these.
		for _, spreading := range []bool{false, true} {
			if cond.uniform == spreading {
				m = test(f, n)
			}
			if x.uniform == spreading {
				v = left(f, n)
			}
			if y.uniform == spreading {
				w = right(f, n)
			}
		}
		to := out(f, n)
		selectLoop(to, m, v, w)
		return to
	})}
}

// selectLoop sets each lane to x if m is 1, and to y if it is 0, without branches.
func selectLoop[T number](to []T, m []uint8, x, y []T) {
	m, x, y = m[:len(to)], x[:len(to)], y[:len(to)]
	switch unsafe.Sizeof(*new(T)) {
	case 1:
		selectBits(bitsOf[uint8](to), m, bitsOf[uint8](x), bitsOf[uint8](y))
	case 2:
		selectBits(bitsOf[uint16](to), m, bitsOf[uint16](x), bitsOf[uint16](y))
	case 4:
		selectBits(bitsOf[uint32](to), m, bitsOf[uint32](x), bitsOf[uint32](y))
	case 8:
		selectBits(bitsOf[uint64](to), m, bitsOf[uint64](x), bitsOf[uint64](y))
	}
}

// bitsOf returns a slice as one of another type of the same size.
func bitsOf[B, T number](v []T) []B {
	return unsafe.Slice((*B)(unsafe.Pointer(unsafe.SliceData(v))), len(v))
}

// selectBits is selectLoop for integers.
func selectBits[B integral](to []B, m []uint8, x, y []B) {
	m, x, y = m[:len(to)], x[:len(to)], y[:len(to)]
	for i := range to {
		take := -B(m[i])
		to[i] = x[i]&take | y[i]&^take
	}
}

// cast compiles a conversion to T.
func (k *numeric[T]) cast(c *compiler, e *loop.Cast, into any) value {
	from := e.X.DType()
	if from == e.Type && from != dtype.Bool {
		return c.expr(e.X, into)
	}
	switch c.repOf(from) {
	case repU8:
		return castFrom[T, uint8](c, e, k.rep, repU8, into)
	case repI8:
		return castFrom[T, int8](c, e, k.rep, repI8, into)
	case repU16:
		return castFrom[T, uint16](c, e, k.rep, repU16, into)
	case repI16:
		return castFrom[T, int16](c, e, k.rep, repI16, into)
	case repU32:
		return castFrom[T, uint32](c, e, k.rep, repU32, into)
	case repI32:
		return castFrom[T, int32](c, e, k.rep, repI32, into)
	case repU64:
		return castFrom[T, uint64](c, e, k.rep, repU64, into)
	case repI64:
		return castFrom[T, int64](c, e, k.rep, repI64, into)
	case repF32:
		return castFrom[T, float32](c, e, k.rep, repF32, into)
	}
	return castFrom[T, float64](c, e, k.rep, repF64, into)
}

// castFrom compiles a conversion from S to D, of representations s and d.
func castFrom[D, S number](c *compiler, e *loop.Cast, d, s rep, into any) value {
	out, inPlace := destination[D](c, into)
	codes := c.newStrip(4) // at least the two bytes of the longest code of a narrow float
	mark := c.mark()
	x := c.expr(e.X, nil)
	c.release(mark)
	do := convert[D, S](e.Type, x.dt, d, s, !e.Wrap)
	if x.uniform {
		// A word serves as a strip of one lane.
		source, result, code := c.newWord(), c.newWord(), c.newWord()
		run := x.run.(scalar[S])
		return value{dt: e.Type, uniform: true, run: scalar[D](func(f frame) D {
			*word[S](f, source) = run(f)
			to := unsafe.Slice(word[D](f, result), 1)
			do(to, unsafe.Slice(word[S](f, source), 1), raw(unsafe.Slice(word[uint8](f, code), 8)))
			return to[0]
		})}
	}
	run := x.run.(lanes[S])
	return value{dt: e.Type, inPlace: inPlace, run: lanes[D](func(f frame, n int) []D {
		v := run(f, n)
		to := out(f, n)
		do(to, v, strip[uint8](f, codes, 4*n))
		return to
	})}
}
