// Package winograd has the algorithm of Winograd for convolutions of 3 × 3: its matrices, transformed weights, and the
// bounds of its errors.
package winograd

import (
	"math"

	"github.com/weirml/weir/internal/loop"
)

// Algorithm is an algorithm for a convolution of three taps that multiplies only as often as it reads elements
// (Winograd, 1980; Lavin and Gray, 2016). Nested with itself it computes a tile of outputs from a tile of inputs d and
// a kernel g: outputᵀ [(weights g weightsᵀ) ⊙ (input d inputᵀ)] output.
type Algorithm struct{ Input, Weights, Output [][]float64 }

// algorithms are the algorithms by the number of outputs that they compute at once. Their points are 0, ±1, ∞, and
// 0, ±1, ±2, ∞.
var algorithms = map[int64]*Algorithm{
	2: {
		Input:   [][]float64{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}},
		Weights: [][]float64{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
		Output:  [][]float64{{1, 1, 1, 0}, {0, 1, -1, 1}},
	},
	4: {
		Input: [][]float64{{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0},
			{0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}},
		Weights: [][]float64{{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6},
			{1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6},
			{0, 0, 1}},
		Output: [][]float64{{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
	},
}

// Of returns the algorithm that computes tile × tile outputs at once; nil if there is none.
func Of(tile int64) *Algorithm { return algorithms[tile] }

// Weights transforms weights w [3, 3, C, O] of f32 into out, [(tile + 2)², C, O]. It computes in f64 and rounds
// once.
func Weights(out, w []float32, channels, filters, tile int64) {
	g := algorithms[tile].Weights
	side := tile + 2
	half := make([]float64, 3*side*filters) // the kernel's columns transformed, [side, 3, O]
	for c := range channels {
		clear(half)
		for i := range side {
			for kx := range int64(3) {
				to := half[(i*3+kx)*filters:][:filters]
				for ky := range int64(3) {
					if f := g[i][ky]; f != 0 {
						for o, v := range w[((ky*3+kx)*channels+c)*filters:][:filters] {
							to[o] += f * float64(v)
						}
					}
				}
			}
		}
		for i := range side {
			for j := range side {
				to := out[((i*side+j)*channels+c)*filters:][:filters]
				a, b, d := half[i*3*filters:][:filters], half[(i*3+1)*filters:][:filters], half[(i*3+2)*filters:][:filters]
				for o := range to {
					to[o] = float32(g[j][0]*a[o] + g[j][1]*b[o] + g[j][2]*d[o])
				}
			}
		}
	}
}

// Combined returns the weighted sums of values by each row of a matrix. Two rows that differ in the signs of some
// columns share the sums of these columns and of the others.
func Combined(k *loop.Builder, rows [][]float64, values []loop.Expr) []loop.Expr {
	sum := func(row []float64, wanted func(i int) bool) loop.Expr {
		var total loop.Expr
		for _, negative := range []bool{false, true} {
			for i, f := range row {
				if f == 0 || f < 0 != negative || !wanted(i) {
					continue
				}
				term := values[i]
				if math.Abs(f) != 1 {
					term = loop.Apply2(loop.Mul, loop.Number(term.DType(), math.Abs(f)), term)
				}
				switch {
				case total == nil && negative:
					total = loop.Apply(loop.Neg, term)
				case total == nil:
					total = term
				case negative:
					total = loop.Apply2(loop.Sub, total, term)
				default:
					total = loop.Apply2(loop.Add, total, term)
				}
			}
		}
		return total
	}
	out := make([]loop.Expr, 0, len(rows))
	for len(out) < len(rows) {
		row := rows[len(out)]
		if len(out)+1 < len(rows) {
			other := rows[len(out)+1]
			mirrored, same, opposite := true, 0, 0
			for i, f := range row {
				mirrored = mirrored && math.Abs(f) == math.Abs(other[i])
				if f != 0 && f == other[i] {
					same++
				} else if f != 0 {
					opposite++
				}
			}
			if mirrored && same > 0 && opposite > 0 {
				even := k.Let("even", sum(row, func(i int) bool { return row[i] == other[i] }))
				odd := k.Let("odd", sum(row, func(i int) bool { return row[i] != other[i] }))
				out = append(out, k.Let("w", loop.Apply2(loop.Add, even, odd)), k.Let("w", loop.Apply2(loop.Sub, even, odd)))
				continue
			}
		}
		out = append(out, k.Let("w", sum(row, func(int) bool { return true })))
	}
	return out
}
