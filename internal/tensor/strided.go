package tensor

import "slices"

// RowMajor reports whether elements at these steps along the axes of a shape are in row-major order. The shape must
// have elements; the step of an axis of one element does not matter.
func RowMajor(shape, steps []int64) bool {
	for axis, stride := range Strides(shape) {
		if shape[axis] != 1 && steps[axis] != stride {
			return false
		}
	}
	return true
}

// Gather copies elements of a shape into to, in row-major order. The element at an index is in from, Σ index × step
// elements after element at; all of them must lie within from, and a step may be negative. An element has size bytes;
// to is aligned to size, from need not be.
func Gather(to, from []byte, size int64, shape, steps []int64, at int64) {
	if size > 8 || len(shape) == 0 || slices.Min(steps) < 0 {
		gather(to, from, size, shape, steps, at)
		return
	}
	from = from[at*size:]
	switch size {
	case 1:
		turned[uint8](to, from, shape, steps)
	case 2:
		turned[uint16](to, from, shape, steps)
	case 4:
		turned[uint32](to, from, shape, steps)
	default:
		turned[uint64](to, from, shape, steps)
	}
}

// gather is Gather one element at a time; it returns the rest of to.
func gather(to, from []byte, size int64, shape, steps []int64, at int64) []byte {
	if len(shape) == 0 {
		copy(to[:size], from[at*size:])
		return to[size:]
	}
	for range shape[0] {
		to = gather(to, from, size, shape[1:], steps[1:], at)
		at += steps[0]
	}
	return to
}
