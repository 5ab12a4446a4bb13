package dtype

import "unsafe"

// direct has a typed loop for each pair of Go's types and for the pairs that models use most; nil for others. A loop
// takes bytes that are aligned and long enough for n elements.
var direct [count][count]func(d, s []byte, n int)

// number is a Go type whose values are real numbers.
type number interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64
}

// slice returns data's first n elements of type T.
func slice[T any](data []byte, n int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

// init fills direct.
func init() {
	fromInteger[uint8](U8)
	fromInteger[int8](I8)
	fromInteger[uint16](U16)
	fromInteger[int16](I16)
	fromInteger[uint32](U32)
	fromInteger[int32](I32)
	fromInteger[uint64](U64)
	fromInteger[int64](I64)
	direct[I64][F32] = func(d, s []byte, n int) {
		to := slice[float32](d, n)
		for i, x := range slice[int64](s, n) {
			to[i] = F32FromI64(x)
		}
	}
	direct[U64][F32] = func(d, s []byte, n int) {
		to := slice[float32](d, n)
		for i, x := range slice[uint64](s, n) {
			to[i] = F32FromU64(x)
		}
	}
	fromFloat[float32](F32)
	fromFloat[float64](F64)
	direct[F32][F64] = cast[float32, float64]
	direct[F64][F32] = cast[float64, float32]
	direct[C64][C128] = widenComplex
	direct[C128][C64] = narrowComplex
	direct[Bool] = [count]func(d, s []byte, n int){
		Bool: isTrue[uint8], U8: isTrue[uint8], I8: isTrue[uint8], I32: fromBool[int32], I64: fromBool[int64],
		F32: fromBool[float32],
	}
	direct[F16][F32] = func(d, s []byte, n int) {
		to := slice[float32](d, n)
		for i, code := range slice[uint16](s, n) {
			to[i] = F16ToF32(code)
		}
	}
	direct[BF16][F32] = func(d, s []byte, n int) {
		to := slice[float32](d, n)
		for i, code := range slice[uint16](s, n) {
			to[i] = BF16ToF32(code)
		}
	}
	direct[F32][F16] = func(d, s []byte, n int) {
		to := slice[uint16](d, n)
		for i, x := range slice[float32](s, n) {
			to[i] = F16FromF32(x)
		}
	}
	direct[F32][BF16] = func(d, s []byte, n int) {
		to := slice[uint16](d, n)
		for i, x := range slice[float32](s, n) {
			to[i] = BF16FromF32(x)
		}
	}
}

// fromInteger fills in an integer type's row: Go's own conversions keep the low bits and round once, except from 64
// bits to f32.
func fromInteger[S number](src DType) {
	direct[src] = [count]func(d, s []byte, n int){
		Bool: isTrue[S],
		U8:   cast[S, uint8], I8: cast[S, int8],
		U16: cast[S, uint16], I16: cast[S, int16],
		U32: cast[S, uint32], I32: cast[S, int32],
		U64: cast[S, uint64], I64: cast[S, int64],
		F32: cast[S, float32], F64: cast[S, float64],
	}
}

// fromFloat fills in a float type's row. For values out of range, Go's conversions to integers depend on the machine,
// so integers have loops of their own.
func fromFloat[S float32 | float64](src DType) {
	direct[src] = [count]func(d, s []byte, n int){
		Bool: isTrue[S],
		U8:   toNarrow[S, uint8], I8: toNarrow[S, int8],
		U16: toNarrow[S, uint16], I16: toNarrow[S, int16],
		I32: toNarrow[S, int32],
		U32: toWide[S, uint32], I64: toWide[S, int64],
		U64: func(d, s []byte, n int) {
			to := slice[uint64](d, n)
			for i, x := range slice[S](s, n) {
				to[i] = truncateUnsigned(float64(x))
			}
		},
	}
}

// cast converts by Go's conversion.
func cast[S, D number](d, s []byte, n int) {
	to := slice[D](d, n)
	for i, x := range slice[S](s, n) {
		to[i] = D(x)
	}
}

// toNarrow converts floats to an integer type whose definition goes through i32.
func toNarrow[S float32 | float64, D number](d, s []byte, n int) {
	to := slice[D](d, n)
	for i, x := range slice[S](s, n) {
		to[i] = D(truncate32(float64(x)))
	}
}

// toWide converts floats to an integer type whose definition goes through i64.
func toWide[S float32 | float64, D number](d, s []byte, n int) {
	to := slice[D](d, n)
	for i, x := range slice[S](s, n) {
		to[i] = D(truncate(float64(x)))
	}
}

// isTrue converts numbers to bools: 1 unless the number is 0.
func isTrue[S number](d, s []byte, n int) {
	for i, x := range slice[S](s, n) {
		d[i] = 0
		if x != 0 {
			d[i] = 1
		}
	}
}

// fromBool converts bools to 0 or 1.
func fromBool[D number](d, s []byte, n int) {
	to := slice[D](d, n)
	for i, x := range s[:n] {
		to[i] = 0
		if x != 0 {
			to[i] = 1
		}
	}
}

// widenComplex converts C64 to C128.
func widenComplex(d, s []byte, n int) {
	to := slice[complex128](d, n)
	for i, x := range slice[complex64](s, n) {
		to[i] = complex128(x)
	}
}

// narrowComplex converts C128 to C64.
func narrowComplex(d, s []byte, n int) {
	to := slice[complex64](d, n)
	for i, x := range slice[complex128](s, n) {
		to[i] = complex64(x)
	}
}
