package loop

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/weirml/weir/internal/dtype"
)

// This file defines the scalar functions. Values are passed as their bits in the element type, zero-extended to 64
// bits, as in Const. Functions of f64 are computed in f64; functions of narrower floats are computed in f32, and the
// result is rounded to the element type; integers wrap. C64 values can only be moved and compared by Eq and Ne.

// Accepts reports whether the function is defined on operands of type dt.
func (op UnaryOp) Accepts(dt dtype.DType) bool {
	switch {
	case op >= unaryOps:
		return false
	case dt.IsFloat():
		return op != BitNot && op != Not
	case dt.IsInt():
		return op <= BitNot
	}
	return dt == dtype.Bool && op == Not
}

// Accepts reports whether the function is defined on operands of type dt.
func (op BinaryOp) Accepts(dt dtype.DType) bool {
	switch {
	case op >= binaryOps:
		return false
	case dt.IsFloat():
		return op < And || op >= Atan2
	case op == Dot:
		return dt == dtype.I32
	case dt.IsInt():
		return op != Atan2
	case dt == dtype.Bool:
		return op >= Min && op <= Xor || op >= Eq
	}
	return dt == dtype.C64 && (op == Eq || op == Ne)
}

// Scalar reports whether a kernel's values may have type dt: any type of at most 64 bits, except strings.
func Scalar(dt dtype.DType) bool {
	return dt != dtype.Invalid && dt != dtype.String && dt.Bits() <= 64
}

var floatUnary = [unaryOps]func(float64) float64{
	Neg: func(x float64) float64 { return -x }, Abs: math.Abs, Sign: sign,
	Floor: math.Floor, Ceil: math.Ceil, Round: math.RoundToEven, Trunc: math.Trunc,
	Sqrt: math.Sqrt, Reciprocal: func(x float64) float64 { return 1 / x },
	Exp: math.Exp, Log: Logarithm, Log1p: math.Log1p, Expm1: math.Expm1,
	Sin: math.Sin, Cos: math.Cos, Tan: math.Tan, Asin: math.Asin, Acos: math.Acos, Atan: math.Atan,
	Sinh: math.Sinh, Cosh: math.Cosh, Tanh: math.Tanh, Asinh: math.Asinh, Acosh: math.Acosh, Atanh: math.Atanh,
	Erf: math.Erf, Sigmoid: sigmoid,
}

var floatBinary = [Atan2 + 1]func(x, y float64) float64{
	Add:      func(x, y float64) float64 { return x + y },
	Sub:      func(x, y float64) float64 { return x - y },
	Mul:      func(x, y float64) float64 { return x * y },
	Div:      func(x, y float64) float64 { return x / y },
	FloorMod: floorMod, Rem: math.Mod, Pow: math.Pow,
	Min:   func(x, y float64) float64 { return min(x, y) },
	Max:   func(x, y float64) float64 { return max(x, y) },
	Atan2: math.Atan2,
}

var integerUnary = [BitNot + 1]func(x int64) int64{
	Neg: func(x int64) int64 { return -x },
	Abs: func(x int64) int64 { return max(x, -x) },
	Sign: func(x int64) int64 {
		return x>>63 | int64(uint64(-x)>>63)
	},
	BitNot: func(x int64) int64 { return ^x },
}

// signedBinary holds the functions of signed integers, which are sign-extended to 64 bits. Those of unsigned ones are
// zero-extended.
var signedBinary = [Atan2]func(x, y int64) int64{
	Add: func(x, y int64) int64 { return x + y },
	Sub: func(x, y int64) int64 { return x - y },
	Mul: func(x, y int64) int64 { return x * y },
	Div: func(x, y int64) int64 {
		if y == 0 {
			return 0
		}
		return x / y
	},
	FloorMod: func(x, y int64) int64 {
		if y == 0 {
			return 0
		}
		r := x % y
		if r != 0 && r^y < 0 {
			r += y
		}
		return r
	},
	Rem: func(x, y int64) int64 {
		if y == 0 {
			return 0
		}
		return x % y
	},
	Pow: power,
	Min: func(x, y int64) int64 { return min(x, y) },
	Max: func(x, y int64) int64 { return max(x, y) },
	And: func(x, y int64) int64 { return x & y },
	Or:  func(x, y int64) int64 { return x | y },
	Xor: func(x, y int64) int64 { return x ^ y },
	Dot: func(x, y int64) int64 { return int64(DotBytes(int32(x), int32(y))) },
}

// DotBytes computes Dot: the sum of the products of x's four unsigned bytes and y's four signed ones.
func DotBytes(x, y int32) (sum int32) {
	for shift := 0; shift < 32; shift += 8 {
		sum += int32(uint8(x>>shift)) * int32(int8(y>>shift))
	}
	return sum
}

var unsignedBinary = [Atan2]func(x, y uint64) uint64{
	Div: func(x, y uint64) uint64 {
		if y == 0 {
			return 0
		}
		return x / y
	},
	FloorMod: unsignedRem, Rem: unsignedRem,
	Pow: func(x, y uint64) uint64 {
		r := uint64(1)
		for ; y > 0; y >>= 1 {
			if y&1 != 0 {
				r *= x
			}
			x *= x
		}
		return r
	},
	Min: func(x, y uint64) uint64 { return min(x, y) },
	Max: func(x, y uint64) uint64 { return max(x, y) },
}

// unsignedRem returns x mod y, and 0 if y is 0.
func unsignedRem(x, y uint64) uint64 {
	if y == 0 {
		return 0
	}
	return x % y
}

// sign returns −1, 0 or 1, and NaN for NaN.
func sign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	case x == 0:
		return 0
	}
	return x
}

// Logarithm returns math.Log(x), but also on processors where math.Log takes subnormal numbers for 2⁻¹⁰²³.
func Logarithm(x float64) float64 {
	if x > 0 && x < 0x1p-1022 {
		return math.Log(x*0x1p54) - 54*math.Ln2
	}
	return math.Log(x)
}

// sigmoid returns 1 / (1 + e⁻ˣ) without overflow.
func sigmoid(x float64) float64 {
	if x >= 0 {
		return 1 / (1 + math.Exp(-x))
	}
	e := math.Exp(x)
	return e / (1 + e)
}

// floorMod returns Python's x % y on floats: the result has the divisor's sign, even if it is 0.
func floorMod(x, y float64) float64 {
	r := math.Mod(x, y)
	if r == 0 {
		return math.Copysign(0, y)
	}
	if r < 0 != (y < 0) {
		r += y
	}
	return r
}

// power returns x to the y, wrapping. If y is negative, it returns the reciprocal truncated toward zero, with 1/0 = 0.
func power(x, y int64) int64 {
	if y < 0 {
		switch {
		case x == 1 || x == -1 && y&1 == 0:
			return 1
		case x == -1:
			return -1
		}
		return 0
	}
	r := int64(1)
	for ; y > 0; y >>= 1 {
		if y&1 != 0 {
			r *= x
		}
		x *= x
	}
	return r
}

// EvalUnary applies a function to the bits of a value of type dt. The result has the Unary's type. It panics if the
// function does not accept dt.
func EvalUnary(op UnaryOp, dt dtype.DType, x uint64) uint64 {
	if f := unaryTable[op][dt]; f != nil {
		return f(x)
	}
	return unaryFunc(op, dt)(x)
}

// EvalBinary applies a function to the bits of two values of type dt. The result has the Binary's type. It panics if
// the function does not accept dt.
func EvalBinary(op BinaryOp, dt dtype.DType, x, y uint64) uint64 {
	if f := binaryTable[op][dt]; f != nil {
		return f(x, y)
	}
	return binaryFunc(op, dt)(x, y)
}

// EvalCast converts a value of type from to type to, as dtype.ConvertSlice does; wrap is Cast.Wrap.
func EvalCast(to, from dtype.DType, wrap bool, x uint64) uint64 { return castFunc(to, from, wrap)(x) }

// unaryTable and binaryTable hold each function for every type that it accepts; nil for others.
var unaryTable, binaryTable = func() (unary [unaryOps][dtype.String + 1]func(uint64) uint64,
	binary [binaryOps][dtype.String + 1]func(x, y uint64) uint64) {
	for dt := range dtype.String {
		for op := range unaryOps {
			if op.Accepts(dt) {
				unary[op][dt] = unaryFunc(op, dt)
			}
		}
		for op := range binaryOps {
			if op.Accepts(dt) {
				binary[op][dt] = binaryFunc(op, dt)
			}
		}
	}
	return unary, binary
}()

// FromFloat returns the bits of x rounded to dt, a float type.
func FromFloat(dt dtype.DType, x float64) uint64 {
	switch dt {
	case dtype.F64:
		return math.Float64bits(x)
	case dtype.F32:
		return uint64(math.Float32bits(float32(x)))
	}
	var word [8]byte
	dtype.StoreFloat(dt, word[:], 0, float64(float32(x)))
	return loadBits(dt.Bits(), word[:], 0)
}

// ToFloat returns the value of bits x in dt, a float type.
func ToFloat(dt dtype.DType, x uint64) float64 {
	switch dt {
	case dtype.F64:
		return math.Float64frombits(x)
	case dtype.F32:
		return float64(math.Float32frombits(uint32(x)))
	}
	var word [8]byte
	storeBits(dt.Bits(), word[:], 0, x)
	return dtype.LoadFloat(dt, word[:], 0)
}

// FromInt returns the bits of x wrapped to dt, an integer type or Bool.
func FromInt(dt dtype.DType, x int64) uint64 {
	if dt == dtype.Bool {
		return boolBits(x != 0)
	}
	return uint64(x) << (64 - dt.Bits()) >> (64 - dt.Bits())
}

// ToInt returns the value of bits x in dt, an integer type or Bool; for U64, the bits as they are.
func ToInt(dt dtype.DType, x uint64) int64 {
	if !dt.IsSigned() {
		return int64(x)
	}
	return int64(x) << (64 - dt.Bits()) >> (64 - dt.Bits())
}

// boolBits returns the bits of a bool.
func boolBits(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// unaryFunc returns the function for one type, so that an interpreter does not choose it for each element.
func unaryFunc(op UnaryOp, dt dtype.DType) func(uint64) uint64 {
	switch {
	case !op.Accepts(dt):
		panic("loop: " + op.String() + " of " + dt.String() + " has no meaning")
	case op == Not:
		return func(x uint64) uint64 { return x ^ 1 }
	case op == IsNaN:
		return func(x uint64) uint64 { return boolBits(math.IsNaN(ToFloat(dt, x))) }
	case op == IsInf:
		return func(x uint64) uint64 { return boolBits(math.IsInf(ToFloat(dt, x), 0)) }
	case dt.IsInt() && !dt.IsSigned() && op == Abs:
		return func(x uint64) uint64 { return x }
	case dt.IsInt() && !dt.IsSigned() && op == Sign:
		return func(x uint64) uint64 { return boolBits(x != 0) }
	case dt.IsInt():
		f := integerUnary[op]
		return func(x uint64) uint64 { return FromInt(dt, f(ToInt(dt, x))) }
	}
	f := floatUnary[op]
	return func(x uint64) uint64 { return FromFloat(dt, f(ToFloat(dt, x))) }
}

// binaryFunc returns the function for one type of operands.
func binaryFunc(op BinaryOp, dt dtype.DType) func(x, y uint64) uint64 {
	switch {
	case !op.Accepts(dt):
		panic("loop: " + op.String() + " of " + dt.String() + " has no meaning")
	case op >= Eq:
		return compareFunc(op, dt)
	case dt.IsFloat():
		return floatBinaryFunc(op, dt)
	case op == Shl:
		return func(x, y uint64) uint64 {
			if y >= uint64(dt.Bits()) {
				return 0
			}
			return FromInt(dt, int64(x<<y))
		}
	case op == Shr && dt.IsSigned():
		return func(x, y uint64) uint64 { return FromInt(dt, ToInt(dt, x)>>min(y, 63)) }
	case op == Shr:
		return func(x, y uint64) uint64 { return x >> y }
	}
	if f := unsignedBinary[op]; f != nil && !dt.IsSigned() {
		return func(x, y uint64) uint64 { return FromInt(dt, int64(f(x, y))) }
	}
	f := signedBinary[op]
	return func(x, y uint64) uint64 { return FromInt(dt, f(ToInt(dt, x), ToInt(dt, y))) }
}

// floatBinaryFunc returns a function of floats. The common functions of f32 are written out: an f32 result rounded from
// f64 equals the f32 result.
func floatBinaryFunc(op BinaryOp, dt dtype.DType) func(x, y uint64) uint64 {
	f := floatBinary[op]
	if dt == dtype.F32 {
		single := func(x uint64) float32 { return math.Float32frombits(uint32(x)) }
		result := func(x float32) uint64 { return uint64(math.Float32bits(x)) }
		switch op {
		case Add:
			return func(x, y uint64) uint64 { return result(single(x) + single(y)) }
		case Sub:
			return func(x, y uint64) uint64 { return result(single(x) - single(y)) }
		case Mul:
			return func(x, y uint64) uint64 { return result(single(x) * single(y)) }
		}
	}
	return func(x, y uint64) uint64 { return FromFloat(dt, f(ToFloat(dt, x), ToFloat(dt, y))) }
}

var ordered = [binaryOps - Eq]func(less, equal bool) bool{
	Eq - Eq: func(_, equal bool) bool { return equal },
	Ne - Eq: func(_, equal bool) bool { return !equal },
	Lt - Eq: func(less, _ bool) bool { return less },
	Le - Eq: func(less, equal bool) bool { return less || equal },
}

// compareFunc returns a comparison for one type of operands.
func compareFunc(op BinaryOp, dt dtype.DType) func(x, y uint64) uint64 {
	if op == Gt || op == Ge {
		f := compareFunc(op-Gt+Lt, dt)
		return func(x, y uint64) uint64 { return f(y, x) }
	}
	f := ordered[op-Eq]
	switch {
	case dt == dtype.C64:
		return func(x, y uint64) uint64 { return boolBits(f(false, complexOf(x) == complexOf(y))) }
	case dt.IsFloat():
		return func(x, y uint64) uint64 {
			a, b := ToFloat(dt, x), ToFloat(dt, y)
			return boolBits(f(a < b, a == b))
		}
	case dt.IsSigned():
		return func(x, y uint64) uint64 { return boolBits(f(ToInt(dt, x) < ToInt(dt, y), x == y)) }
	}
	return func(x, y uint64) uint64 { return boolBits(f(x < y, x == y)) }
}

// complexOf returns the complex number of bits x.
func complexOf(x uint64) complex64 {
	return complex(math.Float32frombits(uint32(x)), math.Float32frombits(uint32(x>>32)))
}

// castFunc returns the conversion from one type to another. Those between integers are written out here; dtype does the
// others.
func castFunc(to, from dtype.DType, wrap bool) func(uint64) uint64 {
	switch {
	case to == from:
		return func(x uint64) uint64 { return x }
	case to == dtype.F64 && from == dtype.F32, to == dtype.F32 && from.IsFloat() && from != dtype.F64:
		return func(x uint64) uint64 { return FromFloat(to, ToFloat(from, x)) }
	case to.IsInt() && (from.IsInt() || from == dtype.Bool):
		return func(x uint64) uint64 { return FromInt(to, ToInt(from, x)) }
	}
	return func(x uint64) uint64 {
		var source, target [8]byte
		storeBits(from.Bits(), source[:], 0, x)
		dtype.ConvertSlice(to, target[:], from, source[:], 1, !wrap)
		return loadBits(to.Bits(), target[:], 0)
	}
}

// loadBits returns the bits of element i. Elements of fewer than 8 bits are packed, the first in the low bits of a
// byte.
func loadBits(width int, data []byte, i int64) uint64 {
	switch width {
	case 8:
		return uint64(data[i])
	case 16:
		return uint64(binary.NativeEndian.Uint16(data[2*i:]))
	case 32:
		return uint64(binary.NativeEndian.Uint32(data[4*i:]))
	case 64:
		return binary.NativeEndian.Uint64(data[8*i:])
	}
	shift, mask := packed(width, i)
	return uint64(data[i>>packedShift(width)]>>shift) & mask
}

// storeBits stores bits x as element i.
func storeBits(width int, data []byte, i int64, x uint64) {
	switch width {
	case 8:
		data[i] = byte(x)
	case 16:
		binary.NativeEndian.PutUint16(data[2*i:], uint16(x))
	case 32:
		binary.NativeEndian.PutUint32(data[4*i:], uint32(x))
	case 64:
		binary.NativeEndian.PutUint64(data[8*i:], x)
	default:
		shift, mask := packed(width, i)
		p := &data[i>>packedShift(width)]
		*p = *p&^byte(mask<<shift) | byte((x&mask)<<shift)
	}
}

// packedShift returns log2 of the number of elements in a byte.
func packedShift(width int) int { return 3 - bits.Len(uint(width)) + 1 }

// packed returns the shift of element i in its byte, and the mask of an element.
func packed(width int, i int64) (shift int, mask uint64) {
	perByte := int64(8 / width)
	return int(i%perByte) * width, 1<<width - 1
}
