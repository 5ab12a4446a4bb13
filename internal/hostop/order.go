package hostop

import (
	"cmp"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// comparing returns a comparison of elements i and j of x: numbers by value, NaN last, strings by their bytes.
func comparing(x *tensor.Tensor) func(i, j int64) int {
	if x.DType() == dtype.String {
		return func(i, j int64) int { return cmp.Compare(x.Strings()[i], x.Strings()[j]) }
	}
	return comparingWith(x, x)
}

// comparingWith returns a comparison of element i of x and element j of y, numbers of one type, NaN last.
func comparingWith(x, y *tensor.Tensor) func(i, j int64) int {
	switch dt := x.DType(); dt {
	case dtype.F32:
		return floats[float32](x, y)
	case dtype.F64:
		return floats[float64](x, y)
	case dtype.I64:
		return numbers[int64](x, y)
	case dtype.I32:
		return numbers[int32](x, y)
	case dtype.U64:
		return numbers[uint64](x, y)
	default:
		if dt.IsFloat() {
			return func(i, j int64) int { return compareFloats(x.Float(i), y.Float(j)) }
		}
	}
	return func(i, j int64) int { return cmp.Compare(x.Int(i), y.Int(j)) }
}

// numbers is comparingWith for integers.
func numbers[T int32 | int64 | uint64](x, y *tensor.Tensor) func(i, j int64) int {
	a, one := tensor.Data[T](x)
	b, other := tensor.Data[T](y)
	if one != nil || other != nil { // the elements are not aligned
		return func(i, j int64) int { return cmp.Compare(T(x.Int(i)), T(y.Int(j))) }
	}
	return func(i, j int64) int { return cmp.Compare(a[i], b[j]) }
}

// floats is comparingWith for floating-point numbers.
func floats[T float32 | float64](x, y *tensor.Tensor) func(i, j int64) int {
	a, one := tensor.Data[T](x)
	b, other := tensor.Data[T](y)
	if one != nil || other != nil { // the elements are not aligned
		return func(i, j int64) int { return compareFloats(x.Float(i), y.Float(j)) }
	}
	return func(i, j int64) int { return compareFloats(a[i], b[j]) }
}

// compareFloats compares two numbers; NaN is above all others.
func compareFloats[T float32 | float64](a, b T) int {
	if (a != a) != (b != b) {
		return -cmp.Compare(a, b) // cmp puts NaN below all numbers
	}
	return cmp.Compare(a, b)
}
