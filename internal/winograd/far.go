package winograd

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file decides which tiles are computed directly, because Winograd's algorithm would round too much in them.
//
// A result of a tile is a sum of all elements that the tile reads, in which the elements outside the result's window
// cancel. Rounding errors do not cancel. They are bounded by the largest element of the tile, not by the elements of
// the window: with the rows of the three matrices replaced by their absolute values (Higham, Accuracy and Stability of
// Numerical Algorithms, 2002, lemma 8.4; Barabasz, Anderson, Soodhalter and Gregg, Error Analysis and Improving the
// Accuracy of Winograd Convolution for Deep Neural Networks, 2020),
//
//	|error| ≤ growth² · (K·C + 20) · 2⁻²⁴ · largest · max|w|
//	growth = max over outputs p of Σᵢ |output|ₚᵢ · Σ|weights|ᵢ · Σ|input|ᵢ
//
// where largest is the greatest Σ|x| over the channels of one position that the tile reads, summed over the K planes of
// the kernel. A tile is far if largest exceeds Σ|x| of the window of one of its results, since in other tiles largest
// can be replaced by that sum; if it is so large or small that transforms overflow or lose bits; or if it is an
// infinity or NaN.

// The ranges of largest, and of the greatest magnitude in each filter, in which transforms neither overflow nor lose
// bits.
const (
	Above, Below             = 0x1p80, 0x1p-60
	filterAbove, filterBelow = 0x1p20, 0x1p-40
)

// Bound is the error of a result, relative to Σ|x| · max|w| of its own window and filter, that tests allow for
// tiles of each size. The proved bound is Proved; to reach it, all roundings would have to err in one
// direction.
var Bound = map[int64]float64{2: 1e-6, 4: 1e-5}

// Growth returns the factor growth² of the proved bound.
func Growth(tile int64) float64 {
	m, worst := algorithms[tile], 0.0
	total := func(row []float64) (sum float64) {
		for _, f := range row {
			sum += math.Abs(f)
		}
		return sum
	}
	for _, row := range m.Output {
		sum := 0.0
		for i, f := range row {
			sum += math.Abs(f) * total(m.Weights[i]) * total(m.Input[i])
		}
		worst = max(worst, sum)
	}
	return worst * worst
}

// Proved returns the proved bound of an error, relative to Σ|x| · max|w|, for a number of channels, counted
// over all planes of the kernel.
func Proved(tile, channels int64) float64 {
	return Growth(tile) * float64(channels+20) * 0x1p-24
}

// Range collects the greatest magnitude in each filter.
type Range []float32

// Add includes weights [3, 3, C, filters] of the filters from first on.
func (g Range) Add(w []float32, first, filters int64) {
	for greatest := g[first:][:filters]; len(w) > 0; w = w[filters:] {
		for o, v := range w[:filters] {
			if v = max(v, -v); !(v <= greatest[o]) {
				greatest[o] = v
			}
		}
	}
}

// Fits reports whether the weights can be transformed: the greatest magnitude of each filter is 0 or within bounds.
func (g Range) Fits() bool {
	return !slices.ContainsFunc(g, func(v float32) bool { return !(v == 0 || v >= filterBelow && v <= filterAbove) })
}

// IsFar returns 1 if a tile is far and 0 otherwise, given the greatest sum of magnitudes at a position and the least
// over the window of a result.
func IsFar(k *loop.Builder, largest, least loop.Expr) loop.Expr {
	number := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
	largest, least = k.Let("n", largest), k.Let("n", least)
	within := loop.Apply2(loop.And, loop.Apply2(loop.Le, largest, least), loop.Apply2(loop.Le, largest, number(Above)))
	sized := loop.Apply2(loop.Or, loop.Apply2(loop.Ge, largest, number(Below)),
		loop.Apply2(loop.Eq, largest, number(0)))
	return loop.Choose(loop.Apply2(loop.And, within, sized), number(0), number(1))
}

// Existing replaces the sums of results beyond an image of the given rows and columns by the greatest number. first is
// where the tile begins, and ragged whether tiles may extend beyond the image, along rows and columns.
func Existing(sums []loop.Expr, tile int64, first, outSize [2]sym.Expr, ragged [2]bool) {
	for i := range sums {
		for axis, at := range []int64{int64(i) / tile, int64(i) % tile} {
			if ragged[axis] {
				exists := loop.Apply2(loop.Lt, loop.At(first[axis].Add(sym.Const(at))), loop.At(outSize[axis]))
				sums[i] = loop.Choose(exists, sums[i], loop.Highest(dtype.F32))
			}
		}
	}
}

// Extreme returns the greatest or least of some values.
func Extreme(op loop.BinaryOp, list []loop.Expr) loop.Expr {
	total := list[0]
	for _, v := range list[1:] {
		total = loop.Apply2(op, total, v)
	}
	return total
}
