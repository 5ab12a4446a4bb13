package tensor

// Strides returns, for each axis of a contiguous row-major shape, the distance in elements between neighbours along it.
// If the shape has no elements, the strides are meaningless.
func Strides(shape []int64) []int64 {
	strides := make([]int64, len(shape))
	step := int64(1)
	for axis := len(shape) - 1; axis >= 0; axis-- {
		strides[axis] = step
		step *= shape[axis]
	}
	return strides
}

// Offset returns the flat index of idx: the sum of idx × strides.
func Offset(strides, idx []int64) int64 {
	offset := int64(0)
	for axis, i := range idx {
		offset += i * strides[axis]
	}
	return offset
}

// Unravel writes into idx, whose length is the rank, the indices of the element at flat index i.
func Unravel(i int64, shape, idx []int64) {
	for axis := len(shape) - 1; axis >= 0; axis-- {
		idx[axis] = i % shape[axis]
		i /= shape[axis]
	}
}

// Each calls f with the indices of every element of shape in row-major order. f may read idx during the call only and
// must not change it. A scalar's shape gives one call without indices, a shape that has a 0 gives none.
func Each(shape []int64, f func(idx []int64)) {
	While(shape, func(idx []int64) bool { f(idx); return true })
}

// While is Each that ends when f returns false.
func While(shape []int64, f func(idx []int64) bool) {
	for _, d := range shape {
		if d <= 0 {
			return
		}
	}
	idx := make([]int64, len(shape))
	for {
		if !f(idx) {
			return
		}
		axis := len(shape) - 1
		for ; axis >= 0; axis-- {
			if idx[axis]++; idx[axis] < shape[axis] {
				break
			}
			idx[axis] = 0
		}
		if axis < 0 {
			return
		}
	}
}
