// Package strided describes memory with strides that other code lends, and the orders of axes in memory.
package strided

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// OrderedAxis is an axis in an order of axes.
type OrderedAxis struct {
	Axis     int
	Reversed bool // its elements lie in reverse order
	Repeated bool // all its indices share one element
}

// Order is the axes of memory, from the outermost to the innermost.
type Order []OrderedAxis

// RowMajor returns the row-major order of rank axes.
func RowMajor(rank int) Order {
	order := make(Order, rank)
	for axis := range order {
		order[axis].Axis = axis
	}
	return order
}

// OrderOf returns the order of axes of memory with strides in elements; nil for row-major order.
func OrderOf(sizes, steps []int64) (Order, error) {
	order := RowMajor(len(sizes))
	if slices.Contains(sizes, 0) || lies(sizes, steps, order) {
		return nil, nil
	}
	far := func(axis int) uint64 { // an axis of stride 0 is the outermost
		if steps[axis] == 0 {
			return math.MaxUint64
		}
		return magnitude(steps[axis])
	}
	slices.SortStableFunc(order, func(a, b OrderedAxis) int { return cmp.Compare(far(b.Axis), far(a.Axis)) })
	for i, a := range order {
		order[i].Reversed, order[i].Repeated = sizes[a.Axis] > 1 && steps[a.Axis] < 0, sizes[a.Axis] > 1 && steps[a.Axis] == 0
	}
	if !lies(sizes, steps, order) {
		return nil, diag.Unsupportedf("a layout of the extents %v with the strides %v, which leaves gaps or shares "+
			"elements", sizes, steps).
			WithFix("leave it out: the argument is copied for the run")
	}
	return order, nil
}

// String returns the axes, such as "0,2,3,1", with "-" after a reversed axis and "*" after a repeated one.
func (order Order) String() string {
	list := make([]string, len(order))
	for i, a := range order {
		list[i] = strconv.Itoa(a.Axis)
		switch {
		case a.Reversed:
			list[i] += "-"
		case a.Repeated:
			list[i] += "*"
		}
	}
	return strings.Join(list, ",")
}

// Parse parses an order of rank axes; "" is row-major order.
func Parse(l string, rank int) (Order, error) {
	if l == "" {
		return RowMajor(rank), nil
	}
	var order Order
	for word := range strings.SplitSeq(l, ",") {
		word = strings.TrimSpace(word)
		number := strings.TrimRight(word, "-*")
		axis, err := strconv.Atoi(number)
		mark := word[len(number):]
		if err != nil || axis < 0 || axis >= rank || len(mark) > 1 || slices.ContainsFunc(order, func(a OrderedAxis) bool {
			return a.Axis == axis
		}) {
			return nil, diag.Inputf("layout %q: %q is no axis of %d, or is there twice", l, word, rank).
				WithFix("name each axis once, from the outermost in memory to the innermost, as %q", RowMajor(rank).String())
		}
		order = append(order, OrderedAxis{axis, mark == "-", mark == "*"})
	}
	if len(order) != rank {
		return nil, diag.Inputf("layout %q names %d axes of %d", l, len(order), rank)
	}
	return order, nil
}

// lies reports whether the elements of a non-empty shape with these strides lie in an order of axes. Nil strides are
// row-major.
func lies(sizes, steps []int64, order Order) bool {
	if steps == nil {
		return slices.Equal(order, RowMajor(len(sizes))) || lies(sizes, tensor.Strides(sizes), order)
	}
	want := int64(1)
	for _, a := range slices.Backward(order) {
		size, step := sizes[a.Axis], steps[a.Axis]
		switch {
		case size == 1:
		case a.Repeated:
			if step != 0 {
				return false
			}
		case a.Reversed && step != -want || !a.Reversed && step != want:
			return false
		default:
			want *= size
		}
	}
	return true
}

// Laid returns a shape with its axes in the given order; repeated axes have extent one.
func Laid[T any](shape []T, order Order, one T) []T {
	out := make([]T, len(order))
	for i, a := range order {
		if out[i] = shape[a.Axis]; a.Repeated {
			out[i] = one
		}
	}
	return out
}
