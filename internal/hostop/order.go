package hostop

import (
	"cmp"
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// comparing is the order of a tensor's elements i and j: numbers by value, NaN above all of them, texts by their bytes.
func comparing(x *tensor.Tensor) func(i, j int64) int {
	dt := x.DType()
	switch {
	case dt == dtype.String:
		return func(i, j int64) int { return cmp.Compare(x.Strings()[i], x.Strings()[j]) }
	case dt == dtype.U64:
		return func(i, j int64) int { return cmp.Compare(uint64(x.Int(i)), uint64(x.Int(j))) }
	case dt.IsFloat():
		return func(i, j int64) int {
			a, b := x.Float(i), x.Float(j)
			if math.IsNaN(a) != math.IsNaN(b) {
				return -cmp.Compare(a, b) // cmp puts NaN below all numbers
			}
			return cmp.Compare(a, b)
		}
	}
	return func(i, j int64) int { return cmp.Compare(x.Int(i), x.Int(j)) }
}
