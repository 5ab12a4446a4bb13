package tensor

import (
	"fmt"
	"math"
	"math/cmplx"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Compare returns nil if got agrees with want, else an ErrInput that names the first element that does not, how many
// do not, and the largest error. Type and shape must be the same. Numbers agree where |got − want| ≤ atol + rtol ×
// |want|; a NaN agrees with a NaN and with nothing else, an infinity with itself only; bools and strings must be equal.
func Compare(got, want *Tensor, rtol, atol float64) error {
	return compare(got, want, rtol, atol, false)
}

// CompareAmong is Compare with a wider relative tolerance for floats: the larger of the element's magnitude and the
// mean magnitude on a line through it counts. A sum that cancels has the rounding of its terms, and neighbours tell how
// large these are. A line holds the elements that differ in one index only.
func CompareAmong(got, want *Tensor, rtol, atol float64) error {
	return compare(got, want, rtol, atol, want.dt.IsFloat())
}

// compare compares as Compare or, if among is true, as CompareAmong.
func compare(got, want *Tensor, rtol, atol float64, among bool) error {
	if got.dt != want.dt {
		return diag.Inputf("the element type is %v, not %v", got.dt, want.dt)
	}
	if !slices.Equal(got.shape, want.shape) {
		return diag.Inputf("the shape is %s, not %s", ShapeString(got.shape), ShapeString(want.shape))
	}
	if got.Equal(want) {
		return nil
	}
	distanceOf := distances(got, want)
	first, differ, largest := int64(-1), int64(0), 0.0
	var lines []line
	for i := range got.count {
		distance, limit := distanceOf(i)
		if distance <= atol+rtol*limit {
			continue
		}
		if among && !math.IsInf(distance, 0) {
			if lines == nil {
				lines = linesOf(want)
			}
			for _, l := range lines {
				limit = max(limit, l.means[l.at(i)])
			}
			if distance <= atol+rtol*limit {
				continue
			}
		}
		if first < 0 {
			first = i
		}
		differ++
		largest = max(largest, distance)
	}
	if first < 0 {
		return nil
	}
	idx := make([]int64, len(got.shape))
	Unravel(first, got.shape, idx)
	detail := fmt.Sprintf("element %s is %s, not %s", ShapeString(idx), got.Format(first), want.Format(first))
	if differ > 1 {
		detail += fmt.Sprintf("; %d of %d elements differ", differ, got.count)
		if !math.IsInf(largest, 0) {
			detail += fmt.Sprintf(", by at most %.6g", largest)
		}
	}
	return diag.Inputf("%s", detail)
}

// line describes the lines of a tensor along one axis; means has the mean magnitude of the finite elements of each
// line.
type line struct {
	extent, inner int64
	means         []float64
}

// at returns the index of the line that holds element i.
func (l line) at(i int64) int64 { return i/(l.extent*l.inner)*l.inner + i%l.inner }

// linesOf returns the lines along each axis of more than one element; it never returns nil.
func linesOf(t *Tensor) []line {
	lines := []line{}
	inner := int64(1)
	for _, extent := range slices.Backward(t.shape) {
		if extent > 1 {
			lines = append(lines, line{extent, inner, make([]float64, t.count/extent)})
		}
		inner *= extent
	}
	for i := range t.count {
		if v := math.Abs(t.Float(i)); v <= math.MaxFloat64 {
			for _, l := range lines {
				l.means[l.at(i)] += v / float64(l.extent)
			}
		}
	}
	return lines
}

// distances returns a function that gives the distance of two elements and the magnitude that a relative tolerance
// multiplies. The distance of equal elements is 0; it is infinite if no tolerance applies.
func distances(got, want *Tensor) func(i int64) (distance, magnitude float64) {
	verdict := func(equal bool) (float64, float64) {
		if equal {
			return 0, 0
		}
		return math.Inf(1), 0
	}
	switch dt := want.dt; {
	case dt == dtype.String:
		return func(i int64) (float64, float64) { return verdict(got.strings[i] == want.strings[i]) }
	case dt == dtype.Bool:
		return func(i int64) (float64, float64) { return verdict(got.Int(i) == want.Int(i)) }
	case dt == dtype.U64:
		return func(i int64) (float64, float64) {
			g, w := uint64(got.Int(i)), uint64(want.Int(i))
			return float64(max(g, w) - min(g, w)), float64(w)
		}
	case dt.IsInt():
		return func(i int64) (float64, float64) {
			g, w := got.Int(i), want.Int(i)
			return float64(uint64(max(g, w)) - uint64(min(g, w))), math.Abs(float64(w))
		}
	case dt.IsComplex():
		return func(i int64) (float64, float64) {
			g, w := got.Complex(i), want.Complex(i)
			re, _ := floatDistance(real(g), real(w))
			im, _ := floatDistance(imag(g), imag(w))
			if magnitude := cmplx.Abs(w); !math.IsNaN(magnitude) && !math.IsInf(magnitude, 0) {
				return math.Hypot(re, im), magnitude
			}
			return math.Hypot(re, im), 0
		}
	}
	return func(i int64) (float64, float64) { return floatDistance(got.Float(i), want.Float(i)) }
}

// floatDistance is distances for floats: two NaNs are equal, and a NaN or an infinity differs infinitely from other
// numbers.
func floatDistance(got, want float64) (distance, magnitude float64) {
	switch {
	case got == want || math.IsNaN(got) && math.IsNaN(want):
		return 0, 0
	case math.IsNaN(got) || math.IsNaN(want) || math.IsInf(got, 0) || math.IsInf(want, 0):
		return math.Inf(1), 0
	}
	return math.Abs(got - want), math.Abs(want)
}
