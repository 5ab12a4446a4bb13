package dtype

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// loadBits returns the bits of element i, an element of at most 64 bits.
func loadBits(dt DType, data []byte, i int64) uint64 {
	switch width := dt.Bits(); width {
	case 2:
		return uint64(data[i/4]>>(2*(i&3))) & 3
	case 4:
		return uint64(data[i/2]>>(4*(i&1))) & 15
	case 8:
		return uint64(data[i])
	case 16:
		return uint64(binary.NativeEndian.Uint16(data[2*i:]))
	case 32:
		return uint64(binary.NativeEndian.Uint32(data[4*i:]))
	case 64:
		return binary.NativeEndian.Uint64(data[8*i:])
	}
	panic(fmt.Sprintf("dtype: no element access to %v", dt))
}

// storeBits stores the low bits of word as element i, and leaves its neighbours in the byte unchanged.
func storeBits(dt DType, data []byte, i int64, word uint64) {
	switch width := dt.Bits(); width {
	case 2:
		shift := 2 * (i & 3)
		data[i/4] = data[i/4]&^(3<<shift) | byte(word&3)<<shift
	case 4:
		shift := 4 * (i & 1)
		data[i/2] = data[i/2]&^(15<<shift) | byte(word&15)<<shift
	case 8:
		data[i] = byte(word)
	case 16:
		binary.NativeEndian.PutUint16(data[2*i:], uint16(word))
	case 32:
		binary.NativeEndian.PutUint32(data[4*i:], uint32(word))
	case 64:
		binary.NativeEndian.PutUint64(data[8*i:], word)
	default:
		panic(fmt.Sprintf("dtype: no element access to %v", dt))
	}
}

// LoadFloat returns element i of packed data as a float64: without rounding, except for integers above 2⁵³; of a
// complex number, the real component. String panics, as in every function below.
func LoadFloat(dt DType, data []byte, i int64) float64 {
	switch {
	case dt.IsComplex():
		return real(LoadComplex(dt, data, i))
	case dt == F64:
		return math.Float64frombits(loadBits(dt, data, i))
	case dt == F32:
		return float64(math.Float32frombits(uint32(loadBits(dt, data, i))))
	case dt.IsFloat():
		return Decode(dt, uint16(loadBits(dt, data, i)))
	case dt == U64:
		return float64(loadBits(dt, data, i))
	}
	return float64(LoadInt(dt, data, i))
}

// LoadInt returns element i of packed data as an int64; a U64 by its bits, a float converted as the package comment
// says.
func LoadInt(dt DType, data []byte, i int64) int64 {
	switch dt.class() {
	case float, complexNumber:
		return truncate(LoadFloat(dt, data, i))
	case boolean:
		if data[i] != 0 {
			return 1
		}
		return 0
	case signed:
		unused := 64 - dt.Bits()
		return int64(loadBits(dt, data, i)<<unused) >> unused
	}
	return int64(loadBits(dt, data, i))
}

// LoadComplex returns element i of packed data as a complex128.
func LoadComplex(dt DType, data []byte, i int64) complex128 {
	switch dt {
	case C64:
		return complex(LoadFloat(F32, data, 2*i), LoadFloat(F32, data, 2*i+1))
	case C128:
		return complex(LoadFloat(F64, data, 2*i), LoadFloat(F64, data, 2*i+1))
	}
	return complex(LoadFloat(dt, data, i), 0)
}

// StoreFloat stores x as element i of packed data, converted as the package comment says; the float8 types saturate.
func StoreFloat(dt DType, data []byte, i int64, x float64) { storeFloat(dt, data, i, x, true, Up) }

// storeFloat is StoreFloat with saturation and rounding as arguments.
func storeFloat(dt DType, data []byte, i int64, x float64, saturate bool, round Round) {
	switch {
	case dt.IsComplex():
		StoreComplex(dt, data, i, complex(x, 0))
	case dt == F64:
		storeBits(dt, data, i, math.Float64bits(x))
	case dt == F32:
		storeBits(dt, data, i, uint64(math.Float32bits(float32(x))))
	case dt == F8E8M0:
		data[i] = EncodeE8M0(x, saturate, round)
	case dt.IsFloat():
		storeBits(dt, data, i, uint64(Encode(dt, x, saturate)))
	case dt == Bool:
		storeBool(data, i, x != 0)
	case dt == U64:
		storeBits(dt, data, i, truncateUnsigned(x))
	case dt == I64 || dt == U32:
		storeBits(dt, data, i, uint64(truncate(x)))
	default:
		storeBits(dt, data, i, uint64(truncate32(x)))
	}
}

// storeBool stores x as element i of bools.
func storeBool(data []byte, i int64, x bool) {
	data[i] = 0
	if x {
		data[i] = 1
	}
}

// StoreInt stores x as element i of packed data: an integer type keeps the low bits, so that a U64 has x's bits; a
// float type rounds once, and the float8 types saturate.
func StoreInt(dt DType, data []byte, i int64, x int64) { storeSigned(dt, data, i, x, true, Up) }

// storeSigned is StoreInt with saturation and rounding as arguments.
func storeSigned(dt DType, data []byte, i int64, x int64, saturate bool, round Round) {
	switch {
	case dt == Bool:
		storeBool(data, i, x != 0)
	case dt.IsInt():
		storeBits(dt, data, i, uint64(x))
	case dt == F32 || dt == C64:
		storeFloat(dt, data, i, float64(F32FromI64(x)), saturate, round)
	case dt == F64 || dt == C128:
		storeFloat(dt, data, i, float64(x), saturate, round)
	default:
		storeFloat(dt, data, i, oddFloat(x), saturate, round)
	}
}

// storeUnsigned is storeSigned for a U64.
func storeUnsigned(dt DType, data []byte, i int64, x uint64, saturate bool, round Round) {
	switch {
	case x <= math.MaxInt64 || dt == Bool || dt.IsInt():
		storeSigned(dt, data, i, int64(x), saturate, round)
	case dt == F32 || dt == C64:
		storeFloat(dt, data, i, float64(F32FromU64(x)), saturate, round)
	case dt == F64 || dt == C128:
		storeFloat(dt, data, i, float64(x), saturate, round)
	default:
		storeFloat(dt, data, i, oddUnsigned(x), saturate, round)
	}
}

// StoreComplex stores x as element i of packed data. A real type drops the imaginary component; Bool is true if either
// component is not 0.
func StoreComplex(dt DType, data []byte, i int64, x complex128) {
	switch dt {
	case C64:
		StoreFloat(F32, data, 2*i, real(x))
		StoreFloat(F32, data, 2*i+1, imag(x))
	case C128:
		StoreFloat(F64, data, 2*i, real(x))
		StoreFloat(F64, data, 2*i+1, imag(x))
	case Bool:
		storeBool(data, i, x != 0)
	default:
		StoreFloat(dt, data, i, real(x))
	}
}

// truncate converts a float to i64, as the package comment says.
func truncate(x float64) int64 {
	switch {
	case x >= 1<<63:
		return math.MaxInt64
	case x >= -1<<63:
		return int64(x)
	case x < 0:
		return math.MinInt64
	}
	return 0 // NaN
}

// truncate32 converts a float to i32, as the package comment says.
func truncate32(x float64) int32 {
	switch {
	case x >= 1<<31:
		return math.MaxInt32
	case x > -1<<31:
		return int32(x)
	case x < 0:
		return math.MinInt32
	}
	return 0 // NaN
}

// truncateUnsigned converts a float to u64, as the package comment says.
func truncateUnsigned(x float64) uint64 {
	switch {
	case x >= 1<<64:
		return math.MaxUint64
	case x >= 1<<63:
		return uint64(x-1<<63) + 1<<63
	}
	return uint64(truncate(x))
}

// F32FromI64 rounds x once. Go's float32(x) is wrong on 32-bit machines: its runtime (uint64tofloat32) takes some
// values for ties that are not, such as 170897439928968.
func F32FromI64(x int64) float32 {
	if bits.UintSize == 32 {
		return float32(oddFloat(x))
	}
	return float32(x)
}

// F32FromU64 rounds x once, as F32FromI64 does.
func F32FromU64(x uint64) float32 {
	if bits.UintSize == 32 {
		return float32(oddUnsigned(x))
	}
	return float32(x)
}

// oddUnsigned returns a float64 that rounds to any type of at most 51 mantissa bits as x itself would: the last bit is
// set if a dropped bit was (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using
// rounding to odd", 2008).
func oddUnsigned(x uint64) float64 {
	drop := bits.Len64(x) - 53
	if drop <= 0 {
		return float64(x)
	}
	kept := x >> drop
	if x&(1<<drop-1) != 0 {
		kept |= 1
	}
	return math.Ldexp(float64(kept), drop)
}

// oddFloat is oddUnsigned with a sign.
func oddFloat(x int64) float64 {
	if x < 0 {
		return -oddUnsigned(-uint64(x))
	}
	return oddUnsigned(uint64(x))
}
