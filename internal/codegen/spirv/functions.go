package spirv

import (
	"math"

	"github.com/weirml/weir/internal/codegen/blocks"
	"github.com/weirml/weir/internal/codegen/mathematics"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/target"
)

// GLSL's functions may have large errors and need not support NaN: those of package mathematics are used instead.

type (
	emitted     = mathematics.Functions[id, id]
	emittedWide = mathematics.WideFunctions[id, id]
)

var (
	functions = map[loop.UnaryOp]func(m emitted, x id) id{
		loop.Exp: emitted.Exp, loop.Expm1: emitted.Expm1, loop.Log: emitted.Log, loop.Log1p: emitted.Log1p,
		loop.Sin: emitted.Sin, loop.Cos: emitted.Cos,
		loop.Tan: emitted.Tan, loop.Asin: emitted.Asin, loop.Acos: emitted.Acos, loop.Atan: emitted.Atan,
		loop.Sinh: emitted.Sinh, loop.Cosh: emitted.Cosh,
		loop.Tanh: emitted.Tanh, loop.Asinh: emitted.Asinh, loop.Acosh: emitted.Acosh, loop.Atanh: emitted.Atanh,
		loop.Erf: emitted.Erf, loop.Sigmoid: emitted.Sigmoid,
	}
	wideFunctions = map[loop.UnaryOp]func(m emittedWide, x id) id{
		loop.Exp: emittedWide.Exp, loop.Expm1: emittedWide.Expm1, loop.Log: emittedWide.Log, loop.Log1p: emittedWide.Log1p,
		loop.Tanh:    emittedWide.Tanh,
		loop.Sigmoid: emittedWide.Sigmoid,
	}
)

// function applies a function of one f32.
func (w *writer) function(op loop.UnaryOp, x id) id {
	f, ok := functions[op]
	if !ok {
		blocks.Refuse("%s", op)
	}
	return f(emitted{Algebra: single{w.lanes(dtype.F32)}}, x)
}

// wideFunction applies a function of one f64.
func (w *writer) wideFunction(op loop.UnaryOp, x id) id {
	f, ok := wideFunctions[op]
	if !ok {
		blocks.Refuse("%s of f64", op)
	}
	return f(emittedWide{WideAlgebra: double{w.lanes(dtype.F64)}}, x)
}

// function2 applies a function of two f32.
func (w *writer) function2(op loop.BinaryOp, x, y id) id {
	m := emitted{Algebra: single{w.lanes(dtype.F32)}}
	if op == loop.Atan2 {
		return m.Atan2(x, y)
	}
	if c, known := w.numbers[y]; known {
		if power, ok := m.PowConstant(x, float32(c)); ok {
			return power
		}
	}
	return m.Pow(x, y)
}

// fromCode and toCode are those of package mathematics, of codes as words.
func (w *writer) fromCode(dt dtype.DType, x id) id {
	m := single{w.lanes(dtype.F32)}
	return emitted{Algebra: m}.FromCode(dt, m.back(x))
}

func (w *writer) toCode(dt dtype.DType, x id, clamped bool) id {
	m := single{w.lanes(dtype.F32)}
	return m.bits(emitted{Algebra: m}.ToCode(dt, x, clamped))
}

// lanes implements the algebra of package mathematics for one value: all values are floats, and integers are their
// bits.
type lanes struct {
	floatBits
	dt dtype.DType
}

// lanes returns the algebra for a type.
func (w *writer) lanes(dt dtype.DType) lanes { return lanes{w.floatBits(dt), dt} }

// integers applies an integer operation to the bits of floats.
func (l lanes) integers(op opcode, x, y id) id { return l.back(l.op(op, l.word, l.bits(x), l.bits(y))) }

func (l lanes) Add(x, y id) id { return l.arithmeticFloat(loop.Add, l.dt, x, y) }
func (l lanes) Sub(x, y id) id { return l.arithmeticFloat(loop.Sub, l.dt, x, y) }
func (l lanes) Mul(x, y id) id { return l.arithmeticFloat(loop.Mul, l.dt, x, y) }
func (l lanes) MulWhere(m, x, y id) id {
	return l.SelectLanes(m, l.Mul(x, y), l.back(l.floatBits.number(0)))
}
func (l lanes) Div(x, y id) id              { return l.divide(l.dt, x, y) }
func (l lanes) Min(x, y id) id              { return l.SelectLanes(l.test(opFOrdLessThan, x, y), x, y) }
func (l lanes) Max(x, y id) id              { return l.SelectLanes(l.test(opFOrdGreaterThan, x, y), x, y) }
func (l lanes) And(x, y id) id              { return l.integers(opBitwiseAnd, x, y) }
func (l lanes) Or(x, y id) id               { return l.integers(opBitwiseOr, x, y) }
func (l lanes) AddInt(x, y id) id           { return l.integers(opIAdd, x, y) }
func (l lanes) SubInt(x, y id) id           { return l.integers(opISub, x, y) }
func (l lanes) SelectLanes(m, x, y id) id   { return l.Choose(l.float, m, x, y) }
func (l lanes) Fnma(x, y, z id) id          { return l.Fma(l.negative(x), y, z) }
func (l lanes) Fms(x, y, z id) id           { return l.Fma(x, y, l.negative(z)) }
func (l lanes) ShiftLeft(x id, n int64) id  { return l.shifted(opShiftLeftLogical, x, n) }
func (l lanes) ShiftRight(x id, n int64) id { return l.shifted(opShiftRightLogical, x, n) }
func (l lanes) negative(x id) id            { return l.back(l.op(opBitwiseXor, l.word, l.bits(x), l.sign)) }
func (l lanes) shifted(op opcode, x id, n int64) id {
	return l.back(l.op(op, l.word, l.bits(x), l.constant32(uint32(n))))
}

// AndNot returns the bits of y that x does not have.
func (l lanes) AndNot(x, y id) id {
	return l.back(l.op(opBitwiseAnd, l.word, l.op(opNot, l.word, l.bits(x)), l.bits(y)))
}

// Fma returns x·y + z rounded once. For a machine whose instruction may round twice, it adds the rounding errors of the
// product and the sum (T. J. Dekker, A floating-point technique for extending the available precision, 1971; D. E.
// Knuth, The Art of Computer Programming, volume 2, 4.2.2): the result is the same except in rare cases.
func (l lanes) Fma(x, y, z id) id {
	if l.machine.Has(target.Fused) {
		return l.extended(glslFma, l.float, x, y, z)
	}
	add := func(x, y id) id { return l.exactly(opFAdd, l.float, x, y) }
	sub := func(x, y id) id { return l.exactly(opFSub, l.float, x, y) }
	mul := func(x, y id) id { return l.exactly(opFMul, l.float, x, y) }
	// Half the significand's bits: products of halves are exact.
	kept := l.floatBits.number(^uint64(1<<12 - 1))
	if l.width == 64 {
		kept = l.floatBits.number(^uint64(1<<27 - 1))
	}
	halves := func(x id) (high, low id) {
		high = l.back(l.op(opBitwiseAnd, l.word, l.bits(x), kept))
		return high, sub(x, high)
	}
	p := mul(x, y)
	a, b := halves(x)
	c, d := halves(y)
	lost := add(add(add(sub(mul(a, c), p), mul(a, d)), mul(b, c)), mul(b, d))
	sum := add(p, z)
	t := sub(sum, p)
	lost = add(add(sub(p, sub(sum, t)), sub(z, t)), lost)
	// The sum stays as it is if no error is above 0: a zero keeps its sign, and infinity does not become NaN.
	some := l.test(opFOrdGreaterThan, l.back(l.magnitude(lost)), l.back(l.floatBits.number(0)))
	return l.SelectLanes(some, add(sum, lost), sum)
}

// Near returns x·y + z, rounded once or twice.
func (l lanes) Near(x, y, z id) id {
	if l.machine.Has(target.Fused) {
		return l.extended(glslFma, l.float, x, y, z)
	}
	return l.exactly(opFAdd, l.float, l.exactly(opFMul, l.float, x, y), z)
}

// Compare returns a bool: whether a predicate holds for two floats.
func (l lanes) Compare(p mathematics.Predicate, x, y id) id {
	not := func(x id) id { return l.op(opLogicalNot, l.boolType(), x) }
	switch p {
	case mathematics.Equal:
		return l.test(opFOrdEqual, x, y)
	case mathematics.NotEqual:
		return l.test(opFUnordNotEqual, x, y)
	case mathematics.Less:
		return l.test(opFOrdLessThan, x, y)
	case mathematics.LessOrEqual:
		return l.test(opFOrdLessThanEqual, x, y)
	case mathematics.Greater:
		return l.test(opFOrdGreaterThan, x, y)
	case mathematics.GreaterOrEqual:
		return l.test(opFOrdGreaterThanEqual, x, y)
	case mathematics.NotLess:
		return not(l.test(opFOrdLessThan, x, y))
	}
	return l.op(opLogicalOr, l.boolType(), l.isNaN(l.dt, x), l.isNaN(l.dt, y)) // mathematics.Unordered
}

// double is the algebra for f64.
type double struct{ lanes }

// Float returns a constant.
func (d double) Float(c float64) id {
	x := d.constantDouble(math.Float64bits(c))
	d.numbers[x] = c
	return x
}

func (d double) Integer(c int64) id { return d.Float(math.Float64frombits(uint64(c))) }

// single is the algebra for f32.
type single struct{ lanes }

// Float returns a constant.
func (s single) Float(c float32) id {
	x := s.constantFloat(math.Float32bits(c))
	s.numbers[x] = float64(c)
	return x
}

func (s single) Integer(c int32) id                { return s.back(s.constant32(uint32(c))) }
func (s single) Sqrt(x id) id                      { return s.extended(glslSqrt, s.float, x) }
func (s single) Trunc(x id) id                     { return s.extended(glslTrunc, s.float, x) }
func (s single) Xor(x, y id) id                    { return s.integers(opBitwiseXor, x, y) }
func (s single) MulInt(x, y id) id                 { return s.integers(opIMul, x, y) }
func (s single) ShiftLeftBy(x, n id) id            { return s.shiftBy(opShiftLeftLogical, x, n) }
func (s single) ShiftRightBy(x, n id) id           { return s.shiftBy(opShiftRightLogical, x, n) }
func (s single) ToFloat(x id) id                   { return s.op(opConvertSToF, s.float, s.bits(x)) }
func (s single) EqualInt(x, y id) id               { return s.test(opIEqual, s.bits(x), s.bits(y)) }
func (s single) GreaterInt(x, y id) id             { return s.test(opSGreaterThan, s.bits(x), s.bits(y)) }
func (s single) MaskAnd(x, y id) id                { return s.op(opLogicalAnd, s.boolType(), x, y) }
func (s single) MaskOr(x, y id) id                 { return s.op(opLogicalOr, s.boolType(), x, y) }
func (s single) ShiftRightSigned(x id, n int64) id { return s.shifted(opShiftRightArithmetic, x, n) }

// ToInt rounds a float that fits an integer of 32 bits, ties to even.
func (s single) ToInt(x id) id {
	return s.back(s.op(opConvertFToS, s.word, s.extended(glslRoundEven, s.float, x)))
}

// shiftBy shifts by a number of bits; the result is 0 if that is 32 or more.
func (s single) shiftBy(op opcode, x, n id) id {
	n = s.bits(n)
	y := s.op(op, s.word, s.bits(x), s.and(n, 31))
	return s.back(s.Choose(s.word, s.test(opULessThan, n, s.constant32(32)), y, s.constant32(0)))
}

// Lookup chooses an element by one bit of the index after the other, since drivers keep indexed arrays in slow memory.
func (s single) Lookup(table *[8]uint32, index id) id {
	rest := make([]id, len(table))
	for i, bits := range table {
		rest[i] = s.constant32(bits)
	}
	for bit := uint32(0); len(rest) > 1; bit++ {
		odd := s.test(opINotEqual, s.and(s.bits(index), 1<<bit), s.constant32(0))
		next := make([]id, len(rest)/2)
		for i := range next {
			next[i] = rest[2*i]
			if rest[2*i] != rest[2*i+1] {
				next[i] = s.op(opSelect, s.word, odd, rest[2*i+1], rest[2*i])
			}
		}
		rest = next
	}
	return s.back(rest[0])
}

// Rarely returns the values of otherwise if the mask holds, and else usual.
func (s single) Rarely(mask id, usual []id, otherwise func() []id) []id {
	results := make([]id, len(usual))
	for i, x := range usual {
		results[i] = s.Variable(s.float)
		s.Set(results[i], x)
	}
	s.When(mask, func() {
		for i, x := range otherwise() {
			s.Set(results[i], x)
		}
	}, nil)
	for i, x := range results {
		results[i] = s.Get(x, s.float)
	}
	return results
}
