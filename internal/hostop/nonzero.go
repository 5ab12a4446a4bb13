package hostop

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

func init() { register("nonzero", nonzero) }

// nonzero finds the elements that are not zero: a column of indices for each, in the elements' order. A scalar counts as one axis.
func nonzero(c *Call) error {
	x := c.In[0]
	shape := x.Shape()
	if len(shape) == 0 {
		shape = []int64{1}
	}
	count := int64(0)
	for i := range x.Len() {
		c.work(1)
		if !isZero(x, i) {
			count++
		}
	}
	out, err := c.Result(0, int64(len(shape)), count)
	if err != nil {
		return err
	}
	column, flat := int64(0), int64(0)
	tensor.Each(shape, func(at []int64) {
		c.work(2)
		if !isZero(x, flat) {
			for axis, i := range at {
				out.SetInt(int64(axis)*count+column, i)
			}
			column++
		}
		flat++
	})
	return nil
}

// isZero reports whether an element of any type but complex ones is zero; an empty text is.
func isZero(x *tensor.Tensor, i int64) bool {
	switch {
	case x.DType() == dtype.String:
		return x.Strings()[i] == ""
	case x.DType().IsFloat():
		return x.Float(i) == 0
	}
	return x.Int(i) == 0
}
