package hostop

import (
	"cmp"
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// comparing is the order of a tensor's elements i and j: numbers by value, NaN above all of them, texts by their bytes.
func comparing(x *tensor.Tensor) func(i, j int64) int {
	if x.DType() == dtype.String {
		return func(i, j int64) int { return cmp.Compare(x.Strings()[i], x.Strings()[j]) }
	}
	return comparingWith(x, x)
}

// comparingWith is the order of element i of x and element j of y, numbers of one type, NaN above all others.
func comparingWith(x, y *tensor.Tensor) func(i, j int64) int {
	switch dt := x.DType(); {
	case dt == dtype.U64:
		return func(i, j int64) int { return cmp.Compare(uint64(x.Int(i)), uint64(y.Int(j))) }
	case dt.IsFloat():
		return func(i, j int64) int {
			a, b := x.Float(i), y.Float(j)
			if math.IsNaN(a) != math.IsNaN(b) {
				return -cmp.Compare(a, b) // cmp puts NaN below all numbers
			}
			return cmp.Compare(a, b)
		}
	}
	return func(i, j int64) int { return cmp.Compare(x.Int(i), y.Int(j)) }
}
