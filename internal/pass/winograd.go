package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor"
)

// Winograd has convolutions of 3 × 3 with channels last computed in tiles, by fewer multiplications, where that takes
// less time and is worth the memory of the larger weights. Results are within ops.WinogradBound of the plain sums,
// whatever the input: see docs/accuracy.md. Weights that are no numbers, or very large or small ones, are not
// transformed.
func Winograd(m *ir.Module) error {
	return WinogradBy(m, 1, func(string) int64 { return 0 })
}

// WinogradAs is Winograd with tiles of the given size wherever they can be: for tests.
func WinogradAs(m *ir.Module, tile int64) error {
	return WinogradBy(m, 1, func(string) int64 { return tile })
}

// WinogradBy is Winograd with tiles of the size that choose gives for a node of the model, where they can be: 1 for
// none, 0 for the size that takes least time. It is asked only for convolutions that can be computed so. brains is how
// many products of bf16 the machine does in the time of one of f32, if Brain is to follow; else 1. Tiles are of f32.
func WinogradBy(m *ir.Module, brains float64, choose func(node string) int64) error {
	return apply(m, []rule{{"convolution in tiles", []string{"convolution"}, func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		return inTiles(r, b, n, func(cost costOfTiles, height, width, channels, filters int64) int64 {
			tile := choose(n.Source)
			if tile == 0 {
				direct := 1.0
				if r.uses[n.Inputs[1]] == 1 {
					direct = brains
				}
				return chosenTile(cost, height, width, channels, filters, direct)
			}
			if _, ok := cost(height, width, channels, filters, tile); !ok || tile == 1 {
				return 0
			}
			return tile
		})
	}}})
}

const (
	tilesLeast     = 32  // channels, in and out, below which transforms take more time than they save
	tilesFaster    = 0.8 // of the time of a direct convolution, which tiles must stay below
	tilesWorthByte = 10  // multiplications that a byte more of weights must save for each image
)

// costOfTiles is ops.WinogradCost, or what stands for it if rows and columns are only likely.
type costOfTiles func(height, width, channels, filters, tile int64) (cost int64, ok bool)

// chosenTile is the size of tiles that is best for an image of so many output rows and columns; 0 for none. direct is
// how many times as fast a multiplication is without tiles.
func chosenTile(cost costOfTiles, height, width, channels, filters int64, direct float64) int64 {
	if channels < tilesLeast || filters < tilesLeast {
		return 0
	}
	tile, taps := int64(0), int64(9)
	best, _ := cost(height, width, channels, filters, 0)
	best = int64(float64(best) / direct)
	limit := int64(float64(best) * tilesFaster)
	for _, t := range []int64{2, 4} {
		time, ok := cost(height, width, channels, filters, t)
		side := (t + 2) * (t + 2)
		if more := 4 * (side - taps) * channels * filters; ok && time < limit && best-time >= tilesWorthByte*more {
			tile, taps, best = t, side, time
		}
	}
	return tile
}

// inTiles is a convolution by tiles of the size that choose gives.
func inTiles(r *rewriting, b *ir.Builder, n *ir.Node,
	choose func(cost costOfTiles, height, width, channels, filters int64) int64) *ir.Value {
	w, x := n.Inputs[1], n.Inputs[0]
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(n.Attrs.Ints(name), func(v int64) bool { return v != want })
	}
	if !ops.Last(n) || ops.HasHoles(n) || len(x.Type.Shape) != 4 || w.Const == nil || x.Type.DType != dtype.F32 || n.Outputs[0].Type.DType != dtype.F32 || n.Attrs.Int("groups", 1) != 1 ||
		!all("kernel", 3) || !all("strides", 1) || !all("dilations", 1) {
		return nil
	}
	out, cost := n.Outputs[0].Type.Shape, costOfTiles(ops.WinogradCost)
	_, fixed := out[1].Const()
	_, known := out[2].Const()
	if !fixed || !known {
		cost = ops.WinogradFreeCost
	}
	height, width := ops.WinogradSizes(out, r.Dims())
	channels, filters := w.Const.Shape()[2], w.Const.Shape()[3]
	if channels*filters == 0 {
		return nil
	}
	tile := choose(cost, height, width, channels, filters)
	if tile == 0 {
		return nil
	}
	if !transformable(w.Const) {
		return nil
	}
	weights, err := tiledWeights(w.Const, tile)
	if err != nil {
		b.Fail(err)
	}
	var bias *ir.Value
	if len(n.Inputs) > 2 {
		bias = n.Inputs[2]
	}
	return ops.Winograd(b, x, b.Constant(w.Name, weights), w, bias, tile, n.Attrs.Exprs("begin"), n.Attrs.Exprs("end"))
}

// transformable reports whether weights [3, 3, C, O] have a range in which transforming them loses nothing.
func transformable(w *tensor.Tensor) bool {
	axis, shape := max(w.Major(), 2), w.Shape()
	step := max(1<<20/max(w.Len()/shape[axis], 1), 1)
	found := make(ops.WinogradRange, shape[3])
	for begin := int64(0); begin < shape[axis]; begin += step {
		part := slices.Clone(shape)
		part[axis] = min(step, shape[axis]-begin)
		x, release := tensor.Temporary(dtype.F32, part...)
		w.Fill(x, axis, begin, begin+part[axis])
		found.Add(floats(x), int64(axis-2)*begin, part[3])
		release()
	}
	return found.Fits()
}

// tiledWeights are weights [3, 3, C, O], transformed.
func tiledWeights(from *tensor.Tensor, tile int64) (*tensor.Tensor, error) {
	side, channels, filters := tile+2, from.Shape()[2], from.Shape()[3]
	major := 2
	if from.Major() == 2 {
		major = 1
	}
	return tensor.Deferred(dtype.F32, []int64{side * side, channels, filters}, from, major, func(to *tensor.Tensor, axis int, begin, end int64) {
		if axis == 0 && end-begin < side*side { // elements of a tile need all of a kernel
			all, release := tensor.Temporary(dtype.F32, side*side, channels, filters)
			defer release()
			transformed(all, from, 2, 0, channels, tile)
			all.Fill(to, 0, begin, end)
			return
		}
		if axis == 0 {
			axis, begin, end = 1, 0, channels
		}
		transformed(to, from, axis+1, begin, end, tile)
	})
}

// transformed transforms the weights of some channels or filters, which are the indices from begin to end along an axis.
func transformed(to, from *tensor.Tensor, axis int, begin, end, tile int64) {
	shape := slices.Clone(from.Shape())
	shape[axis] = end - begin
	part, release := tensor.Temporary(dtype.F32, shape...)
	defer release()
	from.Fill(part, axis, begin, end)
	ops.WinogradWeights(floats(to), floats(part), shape[2], shape[3], tile)
}
