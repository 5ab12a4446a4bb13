// Package dtype is the element types of a tensor: their names and sizes, the conversions between them, and access to
// one element of packed data.
//
// The types are ONNX's. Data is contiguous, in the machine's byte order, which is little-endian wherever Weir is fast;
// types below eight bits are packed, the first element in the lowest bits, and a run of elements starts at a byte.
//
// # The meaning of conversions
//
// One definition holds for every machine, and all faster code is tested against it:
//
//   - to a float: rounded once, to nearest, ties to even, from any type. A value out of range becomes infinity, if the
//     type has one (see Encode). A NaN stays a NaN.
//   - float to integer: truncated toward zero. A NaN is 0. If the truncated value does not fit, it is clamped to the
//     range of i32 (for u32, i64 and negative values to u64: i64; for other values to u64: u64) and its low bits are
//     kept. So -1.0 is 255 as a u8, 300.0 is 44, as x86 compilers have it, and the result is the same on every machine.
//   - integer to integer: the low bits are kept.
//   - to bool: x != 0, so NaN is true. From bool: 0 or 1.
//   - complex to real: the imaginary part is dropped; to bool: either part is not 0.
package dtype

import (
	"fmt"
	"math"
	"math/bits"
)

// DType is an element type. The zero value is Invalid.
type DType uint8

// The element types.
const (
	Invalid DType = iota
	Bool          // one byte, 0 or 1; any other byte reads as 1
	U2
	I2
	U4
	I4
	U8
	I8
	U16
	I16
	U32
	I32
	U64
	I64
	F4E2M1     // sign, 2 exponent bits, 1 mantissa bit; no infinity, no NaN
	F8E4M3FN   // no infinity, one NaN for each sign
	F8E4M3FNUZ // no infinity, one NaN, no negative zero
	F8E5M2     // as IEEE 754 would have it
	F8E5M2FNUZ // no infinity, one NaN, no negative zero
	F8E8M0     // a power of two: no sign, no zero, no infinity, one NaN
	F16        // IEEE 754 binary16
	BF16       // the upper half of an f32
	F32
	F64
	C64  // two f32: real, imaginary
	C128 // two f64: real, imaginary
	String

	count = iota
)

// class is a family of types.
type class uint8

const (
	none class = iota
	boolean
	unsigned
	signed
	float
	complexNumber
	text
)

var types = [count]struct {
	name  string
	bits  int
	class class
}{
	Invalid:    {"invalid", 0, none},
	Bool:       {"bool", 8, boolean},
	U2:         {"u2", 2, unsigned},
	I2:         {"i2", 2, signed},
	U4:         {"u4", 4, unsigned},
	I4:         {"i4", 4, signed},
	U8:         {"u8", 8, unsigned},
	I8:         {"i8", 8, signed},
	U16:        {"u16", 16, unsigned},
	I16:        {"i16", 16, signed},
	U32:        {"u32", 32, unsigned},
	I32:        {"i32", 32, signed},
	U64:        {"u64", 64, unsigned},
	I64:        {"i64", 64, signed},
	F4E2M1:     {"f4e2m1", 4, float},
	F8E4M3FN:   {"f8e4m3fn", 8, float},
	F8E4M3FNUZ: {"f8e4m3fnuz", 8, float},
	F8E5M2:     {"f8e5m2", 8, float},
	F8E5M2FNUZ: {"f8e5m2fnuz", 8, float},
	F8E8M0:     {"f8e8m0", 8, float},
	F16:        {"f16", 16, float},
	BF16:       {"bf16", 16, float},
	F32:        {"f32", 32, float},
	F64:        {"f64", 64, float},
	C64:        {"c64", 64, complexNumber},
	C128:       {"c128", 128, complexNumber},
	String:     {"string", 0, text},
}

var byName = func() map[string]DType {
	m := make(map[string]DType, count)
	for _, dt := range All() {
		m[types[dt].name] = dt
	}
	return m
}()

// All returns every type but Invalid, in the order of the constants.
func All() []DType {
	all := make([]DType, 0, count-1)
	for dt := Bool; dt < count; dt++ {
		all = append(all, dt)
	}
	return all
}

// Parse returns the type that String prints as s.
func Parse(s string) (DType, bool) {
	dt, ok := byName[s]
	return dt, ok
}

// String returns the type's name in Weir's texts: f32, i64, bool, f8e4m3fn, …; Invalid is "invalid", which Parse does
// not accept.
func (dt DType) String() string {
	if dt >= count {
		return fmt.Sprintf("dtype(%d)", uint8(dt))
	}
	return types[dt].name
}

// MarshalText writes the type's name.
func (dt DType) MarshalText() ([]byte, error) { return []byte(dt.String()), nil }

// UnmarshalText reads a type's name.
func (dt *DType) UnmarshalText(name []byte) error {
	parsed, ok := Parse(string(name))
	if !ok {
		return fmt.Errorf("no element type is called %q", name)
	}
	*dt = parsed
	return nil
}

// class returns the type's family; none for Invalid and unknown types.
func (dt DType) class() class {
	if dt >= count {
		return none
	}
	return types[dt].class
}

// Bits returns the size of one element in bits; 0 for String and Invalid, whose elements are not bytes.
func (dt DType) Bits() int {
	if dt >= count {
		return 0
	}
	return types[dt].bits
}

// Size returns the size of one element in bytes, and 0 for String, Invalid and the types that pack several into a byte.
func (dt DType) Size() int { return dt.Bits() / 8 }

// Bytes returns the packed size of n elements in bytes: n × Bits / 8, rounded up. It is 0 for String. The errors are a
// negative n, and a size that does not fit an int64.
func (dt DType) Bytes(n int64) (int64, error) {
	if n < 0 {
		return 0, fmt.Errorf("%d elements of %v: a count cannot be negative", n, dt)
	}
	width := uint64(dt.Bits())
	hi, lo := bits.Mul64(uint64(n), width)
	lo, carry := bits.Add64(lo, 7, 0)
	hi += carry
	size := hi<<61 | lo>>3
	if hi>>3 != 0 || size > math.MaxInt64 {
		return 0, fmt.Errorf("%d elements of %v are more than 2⁶³ bytes", n, dt)
	}
	return int64(size), nil
}

// IsFloat reports whether dt is a real floating-point type, F8E8M0 included.
func (dt DType) IsFloat() bool { return dt.class() == float }

// IsInt reports whether dt is an integer type, signed or not; Bool is not one.
func (dt DType) IsInt() bool { return dt.class() == signed || dt.class() == unsigned }

// Accumulator returns the type in which sums of products of values of the type are kept.
func (dt DType) Accumulator() DType {
	switch {
	case dt == F64 || dt == I64 || dt == U64:
		return dt
	case dt.IsInt():
		return I32
	}
	return F32
}

// IsSigned reports whether dt is a signed integer type.
func (dt DType) IsSigned() bool { return dt.class() == signed }

// IsUnsigned reports whether dt is an unsigned integer type; Bool is not one.
func (dt DType) IsUnsigned() bool { return dt.class() == unsigned }

// IsComplex reports whether dt is C64 or C128.
func (dt DType) IsComplex() bool { return dt.class() == complexNumber }

// IsSubByte reports whether several elements share a byte.
func (dt DType) IsSubByte() bool { return dt.Bits() != 0 && dt.Bits() < 8 }

// MinInt returns the least value of an integer type or Bool; for any other type it panics.
func (dt DType) MinInt() int64 {
	dt.needInt()
	if dt.IsSigned() {
		return math.MinInt64 >> (64 - dt.Bits())
	}
	return 0
}

// MaxInt returns the greatest value of an integer type or Bool; for any other type it panics.
func (dt DType) MaxInt() uint64 {
	dt.needInt()
	switch {
	case dt == Bool:
		return 1
	case dt.IsSigned():
		return math.MaxInt64 >> (64 - dt.Bits())
	}
	return math.MaxUint64 >> (64 - dt.Bits())
}

// needInt panics unless dt is an integer type or Bool.
func (dt DType) needInt() {
	if !dt.IsInt() && dt != Bool {
		panic(fmt.Sprintf("dtype: %v is not an integer type", dt))
	}
}
