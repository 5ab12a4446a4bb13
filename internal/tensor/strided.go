package tensor

import "slices"

// RowMajor reports whether elements that lie so far apart along the axes of a shape with elements lie in row-major
// order. The step of an axis of one element says nothing.
func RowMajor(shape, steps []int64) bool {
	for axis, stride := range Strides(shape) {
		if shape[axis] != 1 && steps[axis] != stride {
			return false
		}
	}
	return true
}

// Gather writes elements of a shape into to, in row-major order: the one at some indices lies in from, Σ index × step
// elements behind element at. An element has size bytes; to begins at a multiple of that, and from need not. A step may
// be negative. All elements lie within from.
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

// gather is Gather element by element; it returns what is left of to.
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
