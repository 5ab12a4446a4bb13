package portable

import (
	"unsafe"

	"github.com/weirml/weir/internal/dtype"
)

// raw returns a slice's bytes.
func raw[T number](v []T) []byte {
	var x T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), len(v)*int(unsafe.Sizeof(x)))
}

// converter fills to with values of one type, converted from values of another. codes is memory for as many elements,
// for types that are not represented by their own bits.
type converter[D, S number] func(to []D, from []S, codes []byte)

// convert returns the converter from one type to another, of representations d and s.
func convert[D, S number](dt, from dtype.DType, d, s rep, saturate bool) converter[D, S] {
	target, source := nativeType[d], nativeType[s]
	if dt == dtype.C64 {
		target = dt
	}
	if from == dtype.C64 {
		source = from
	}
	switch {
	case dt == dtype.Bool:
		return func(to []D, from []S, codes []byte) {
			dtype.ConvertSlice(dtype.Bool, raw(to), source, raw(from), int64(len(to)), saturate)
		}
	case dt.IsFloat() && dt != target:
		return func(to []D, from []S, codes []byte) {
			n := int64(len(to))
			dtype.ConvertSlice(dt, codes, source, raw(from), n, saturate)
			dtype.ConvertSlice(target, raw(to), dt, codes, n, saturate)
		}
	}
	wrap := settle[D](dt)
	return func(to []D, from []S, codes []byte) {
		dtype.ConvertSlice(target, raw(to), source, raw(from), int64(len(to)), saturate)
		if wrap != nil {
			wrap(to)
		}
	}
}

// settle returns the function that reduces results of arithmetic to values of their type: it rounds narrow floats, and
// wraps integers of fewer than eight bits. It returns nil for types that fill their representation.
func settle[T number](dt dtype.DType) func(v []T) {
	var result any
	switch dt {
	case dtype.U2, dtype.U4:
		mask := uint8(1)<<dt.Bits() - 1
		result = func(v []uint8) {
			for i := range v {
				v[i] &= mask
			}
		}
	case dtype.I2, dtype.I4:
		shift := 8 - dt.Bits()
		result = func(v []int8) {
			for i := range v {
				v[i] = v[i] << shift >> shift
			}
		}
	case dtype.F16:
		result = func(v []float32) {
			for i, x := range v {
				v[i] = dtype.F16ToF32(dtype.F16FromF32(x))
			}
		}
	case dtype.BF16:
		result = func(v []float32) {
			for i, x := range v {
				v[i] = dtype.BF16ToF32(dtype.BF16FromF32(x))
			}
		}
	case dtype.F4E2M1, dtype.F8E4M3FN, dtype.F8E4M3FNUZ, dtype.F8E5M2, dtype.F8E5M2FNUZ, dtype.F8E8M0:
		result = func(v []float32) {
			for i, x := range v {
				v[i] = float32(dtype.Decode(dt, dtype.Encode(dt, float64(x), true)))
			}
		}
	}
	f, _ := result.(func(v []T))
	return f
}

// reader returns a function that reads element i of memory of a type; nil if the type's elements are stored as their
// representation.
func reader[T number](dt dtype.DType, r rep) func(base unsafe.Pointer, i int64) T {
	var result any
	switch {
	case dt.Bits() < 8 && r != repF32:
		width, signed := dt.Bits(), r == repI8
		perByte := int64(8 / width)
		code := func(base unsafe.Pointer, i int64) uint8 {
			return *element[uint8](base, i/perByte) >> (i % perByte * int64(width)) << (8 - width) >> (8 - width)
		}
		if !signed {
			result = code
		} else {
			result = func(base unsafe.Pointer, i int64) int8 { return int8(code(base, i)<<(8-width)) >> (8 - width) }
		}
	case r != repF32 || dt == dtype.F32:
	case dt == dtype.F16:
		result = func(base unsafe.Pointer, i int64) float32 { return dtype.F16ToF32(*element[uint16](base, i)) }
	case dt == dtype.BF16:
		result = func(base unsafe.Pointer, i int64) float32 { return dtype.BF16ToF32(*element[uint16](base, i)) }
	case dt.Bits() == 8:
		var values [256]float32
		for code := range values {
			values[code] = float32(dtype.Decode(dt, uint16(code)))
		}
		result = func(base unsafe.Pointer, i int64) float32 { return values[*element[uint8](base, i)] }
	case dt.Bits() == 4:
		var values [16]float32
		for code := range values {
			values[code] = float32(dtype.Decode(dt, uint16(code)))
		}
		result = func(base unsafe.Pointer, i int64) float32 {
			return values[*element[uint8](base, i/2)>>(i%2*4)&15]
		}
	}
	f, _ := result.(func(base unsafe.Pointer, i int64) T)
	return f
}

// writer returns a function that writes element i of memory of a type; nil in the same cases as reader.
func writer[T number](dt dtype.DType, r rep) func(base unsafe.Pointer, i int64, v T) {
	var result any
	put := func(base unsafe.Pointer, i int64, code uint8) {
		width := dt.Bits()
		perByte := int64(8 / width)
		shift := i % perByte * int64(width)
		p := element[uint8](base, i/perByte)
		mask := uint8(1<<width-1) << shift
		*p = *p&^mask | code<<shift&mask
	}
	switch {
	case dt.Bits() < 8 && r == repU8:
		result = put
	case dt.Bits() < 8 && r == repI8:
		result = func(base unsafe.Pointer, i int64, v int8) { put(base, i, uint8(v)) }
	case r != repF32 || dt == dtype.F32:
	case dt == dtype.F16:
		result = func(base unsafe.Pointer, i int64, v float32) { *element[uint16](base, i) = dtype.F16FromF32(v) }
	case dt == dtype.BF16:
		result = func(base unsafe.Pointer, i int64, v float32) { *element[uint16](base, i) = dtype.BF16FromF32(v) }
	default:
		result = func(base unsafe.Pointer, i int64, v float32) {
			code := uint8(dtype.Encode(dt, float64(v), false)) // exact: v is a value of the type, perhaps infinity
			if dt.Bits() == 8 {
				*element[uint8](base, i) = code
			} else {
				put(base, i, code)
			}
		}
	}
	f, _ := result.(func(base unsafe.Pointer, i int64, v T))
	return f
}
