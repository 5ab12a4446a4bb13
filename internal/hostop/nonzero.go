package hostop

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("nonzero", nonzero) }

// nonzero returns the indices of the elements that are not zero, i64[rank, count], a column for each element in
// row-major order. A scalar has one axis.
func nonzero(c *Call) error {
	x := c.In[0]
	shape := x.Shape()
	if len(shape) == 0 {
		shape = []int64{1}
	}
	last := len(shape) - 1
	count := int64(0)
	var chunk [1 << 10]bool
	for first := int64(0); first < x.Len(); first += int64(len(chunk)) {
		piece := chunk[:min(int64(len(chunk)), x.Len()-first)]
		c.work(int64(len(piece)))
		nonzeros(piece, x, first)
		for _, is := range piece {
			one := int64(0)
			if is {
				one = 1
			}
			count += one
		}
	}
	out, err := c.Result(0, int64(len(shape)), count)
	if err != nil || count == 0 {
		return err
	}
	indices, err := tensor.Data[int64](out)
	if err != nil {
		return err
	}
	column, flat := int64(0), int64(0)
	rows := slices.Clone(shape)
	rows[last] = 1
	tensor.Each(rows, func(at []int64) {
		begin := column
		along := indices[int64(last)*count:][:count]
		for first := int64(0); first < shape[last]; first += int64(len(chunk)) {
			piece := chunk[:min(int64(len(chunk)), shape[last]-first)]
			c.work(2 * int64(len(piece)))
			nonzeros(piece, x, flat+first)
			for i, is := range piece {
				if column == count {
					break // only zeros are left
				}
				along[column] = first + int64(i)
				one := int64(0)
				if is {
					one = 1
				}
				column += one
			}
		}
		flat += shape[last]
		c.work((column - begin) * int64(last))
		for axis, i := range at[:last] {
			for j := begin; j < column; j++ {
				indices[int64(axis)*count+j] = i
			}
		}
	})
	return nil
}

// nonzeros reports for each element from first on whether it is not zero.
func nonzeros(to []bool, x *tensor.Tensor, first int64) {
	switch x.DType() {
	case dtype.Bool, dtype.U8, dtype.I8:
		for i, v := range x.Bytes()[first:][:len(to)] {
			to[i] = v != 0
		}
		return
	case dtype.F32:
		if data, err := tensor.Data[float32](x); err == nil {
			for i, v := range data[first:][:len(to)] {
				to[i] = v != 0
			}
			return
		}
	case dtype.I64:
		if data, err := tensor.Data[int64](x); err == nil {
			for i, v := range data[first:][:len(to)] {
				to[i] = v != 0
			}
			return
		}
	}
	for i := range to {
		to[i] = !isZero(x, first+int64(i))
	}
}

// isZero reports whether element i is zero; an empty string is. Complex types are not supported.
func isZero(x *tensor.Tensor, i int64) bool {
	switch {
	case x.DType() == dtype.String:
		return x.Strings()[i] == ""
	case x.DType().IsFloat():
		return x.Float(i) == 0
	}
	return x.Int(i) == 0
}
