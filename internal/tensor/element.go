package tensor

import (
	"reflect"
	"strconv"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Element is a Go type whose values are elements. Go has no type for F16, BF16, the float8 types and the packed types:
// uint16 or uint8 stands for their codes, see Data.
type Element interface {
	~bool | ~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~uint | ~int |
		~float32 | ~float64 | ~complex64 | ~complex128 | ~string
}

// wordTypes are the types of uint and int on this machine.
var wordTypes = func() [2]dtype.DType {
	if strconv.IntSize == 32 {
		return [2]dtype.DType{dtype.U32, dtype.I32}
	}
	return [2]dtype.DType{dtype.U64, dtype.I64}
}()

var byKind = map[reflect.Kind]dtype.DType{
	reflect.Bool:  dtype.Bool,
	reflect.Uint8: dtype.U8, reflect.Int8: dtype.I8,
	reflect.Uint16: dtype.U16, reflect.Int16: dtype.I16,
	reflect.Uint32: dtype.U32, reflect.Int32: dtype.I32,
	reflect.Uint64: dtype.U64, reflect.Int64: dtype.I64,
	reflect.Uint: wordTypes[0], reflect.Int: wordTypes[1],
	reflect.Float32: dtype.F32, reflect.Float64: dtype.F64,
	reflect.Complex64: dtype.C64, reflect.Complex128: dtype.C128,
	reflect.String: dtype.String,
}

// TypeOf returns the element type of T's values, such as F32 for float32.
func TypeOf[T Element]() dtype.DType { return byKind[reflect.TypeFor[T]().Kind()] }

// codes maps an element type that Go lacks to the type of its codes: for packed types, of their bytes.
var codes = map[dtype.DType]dtype.DType{
	dtype.F16: dtype.U16, dtype.BF16: dtype.U16,
	dtype.F8E4M3FN: dtype.U8, dtype.F8E4M3FNUZ: dtype.U8, dtype.F8E5M2: dtype.U8, dtype.F8E5M2FNUZ: dtype.U8,
	dtype.F8E8M0: dtype.U8,
	dtype.U2:     dtype.U8, dtype.I2: dtype.U8, dtype.U4: dtype.U8, dtype.I4: dtype.U8, dtype.F4E2M1: dtype.U8,
}

// Data returns t's elements as a slice, without a copy. T must be the element type's Go type: uint16 for the 16-bit
// floats, uint8 for the float8 types, and uint8 for packed types, whose slice has their bytes. Another T is ErrInput,
// as is data that is not aligned for T, which only borrowed data can be.
func Data[T Element](t *Tensor) ([]T, error) {
	want := t.dt
	if code, ok := codes[t.dt]; ok {
		want = code
	}
	if TypeOf[T]() != want {
		return nil, diag.Inputf("elements of type %v cannot be seen as %v", t.dt, reflect.TypeFor[T]())
	}
	if t.dt == dtype.String {
		first := unsafe.SliceData(t.strings)
		return unsafe.Slice((*T)(unsafe.Pointer(first)), len(t.strings)), nil
	}
	return view[T](t.contents())
}

// view returns data as a slice of T.
func view[T Element](data []byte) ([]T, error) {
	if len(data) == 0 {
		return []T{}, nil
	}
	var zero T
	first := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(first)%unsafe.Alignof(zero) != 0 {
		return nil, diag.Inputf("the data lies at address %#x, which is not aligned for %v", uintptr(first),
			reflect.TypeFor[T]())
	}
	return unsafe.Slice((*T)(first), len(data)/int(unsafe.Sizeof(zero))), nil
}

// FromSlice returns a tensor whose elements are data, which it borrows. The length must be the shape's count; without a
// shape the tensor is a scalar.
func FromSlice[T Element](data []T, shape ...int64) (*Tensor, error) {
	dt := TypeOf[T]()
	if dt == dtype.String {
		return OverStrings(shape, unsafe.Slice((*string)(unsafe.Pointer(unsafe.SliceData(data))), len(data)))
	}
	var zero T
	size := int(unsafe.Sizeof(zero))
	return Over(dt, shape, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))), len(data)*size))
}

// Scalar returns a tensor of rank 0 that holds x.
func Scalar[T Element](x T) *Tensor { return Must(FromSlice([]T{x})) }

// Of returns a rank-1 tensor of the given elements.
func Of[T Element](elements ...T) *Tensor { return Must(FromSlice(elements, int64(len(elements)))) }
