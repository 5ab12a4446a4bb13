package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/winograd"
)

// Winograd computes convolutions of 3 × 3, or of planes of 3 × 3, with channels last in tiles, by fewer
// multiplications, if that takes less time and is worth the memory of the larger weights. Results are within
// winograd.Bound of the direct sums for every input: see docs/accuracy.md. Weights are not transformed if one is not
// finite, very large or very small.
func Winograd(m *ir.Module, costs recipes.Costs) error {
	return WinogradBy(m, costs, 1, func(string) int64 { return 0 })
}

// WinogradAs is Winograd with tiles of the given size for each convolution that can be computed in tiles: for tests.
func WinogradAs(m *ir.Module, costs recipes.Costs, tile int64) error {
	return WinogradBy(m, costs, 1, func(string) int64 { return tile })
}

// WinogradBy is Winograd with tiles of the size that choose returns for a node of the model: 1 for no tiles, 0 for the
// size that takes least time. It calls choose only for convolutions that can be computed in tiles. bf16Speed is the
// number of bf16 products that the machine computes in the time of one f32 product if BF16 follows; else 1. Tiles are
// of f32.
func WinogradBy(m *ir.Module, costs recipes.Costs, bf16Speed float64, choose func(node string) int64) error {
	return apply(m, []rule{{"convolution in tiles", []string{"convolution"},
		func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			return inTiles(r, b, n, costs, func(image recipes.Image) int64 {
				tile := choose(n.Source)
				if tile == 0 {
					direct := 1.0
					if r.uses[n.Inputs[1]] == 1 {
						direct = bf16Speed
					}
					return image.BestTile(direct)
				}
				if _, ok := image.Cost(tile); !ok || tile == 1 {
					return 0
				}
				return tile
			})
		}}})
}

// WinogradForBlocks is Winograd for machines that run blocks of threads: in stages, for images whose channels are
// first.
func WinogradForBlocks(m *ir.Module) error {
	return WinogradForBlocksBy(m, recipes.Costs{}, 1, func(string) int64 { return 0 })
}

// WinogradForBlocksAs is WinogradForBlocks with tiles of the given size for each convolution that can be computed in
// tiles: for tests.
func WinogradForBlocksAs(m *ir.Module, tile int64) error {
	return WinogradForBlocksBy(m, recipes.Costs{}, 1, func(string) int64 { return tile })
}

// WinogradForBlocksBy is WinogradForBlocks with tiles of the size that choose returns, as for WinogradBy.
func WinogradForBlocksBy(m *ir.Module, costs recipes.Costs, _ float64, choose func(node string) int64) error {
	return apply(m, []rule{{"convolution in stages", []string{"convolution"},
		func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			return inStages(r, b, n, costs, func(image recipes.Image) int64 {
				switch tile := choose(n.Source); tile {
				case 0:
					return image.BestTileOfStages()
				case 1:
					return 0
				default:
					return tile
				}
			})
		}}})
}

// inTiles builds a convolution in tiles of the size that choose returns; nil if it stays as it is.
func inTiles(r *rewriting, b *ir.Builder, n *ir.Node, costs recipes.Costs,
	choose func(image recipes.Image) int64) *ir.Value {
	w, x := n.Inputs[1], n.Inputs[0]
	if !ops.Last(n) || ops.HasHoles(n) || !canBeTiled(n) {
		return nil
	}
	planes := int64(1)
	if len(x.Type.Shape) == 5 {
		planes = n.Attrs.Ints("kernel")[0]
	}
	image := costs.ImageOf(x.Type.Shape, n.Outputs[0].Type.Shape, n.Attrs.Exprs("begin"), planes, r.Dims())
	if !image.Known() {
		return nil
	}
	weights, tile := weightsInTiles(b, w, w.Const, choose(image))
	if weights == nil {
		return nil
	}
	return ops.Winograd(b, x, weights, w, biasOf(n), tile, n.Attrs.Exprs("begin"), n.Attrs.Exprs("end"))
}

// inStages builds a convolution in stages, with tiles of the size that choose returns; nil if it stays as it is.
func inStages(r *rewriting, b *ir.Builder, n *ir.Node, costs recipes.Costs,
	choose func(image recipes.Image) int64) *ir.Value {
	w, x := n.Inputs[1], n.Inputs[0]
	if ops.Last(n) || ops.HasHoles(n) || len(x.Type.Shape) != 4 || !canBeTiled(n) {
		return nil
	}
	last := func(shape []sym.Expr) []sym.Expr { return permutedShape(shape, ops.ChannelsLast(4)) }
	image := costs.ImageOf(last(x.Type.Shape), last(n.Outputs[0].Type.Shape), n.Attrs.Exprs("begin"), 1, r.Dims())
	if !image.Known() {
		return nil
	}
	tile := choose(image)
	if tile == 0 {
		return nil
	}
	turned, err := tensor.Permuted(w.Const, w.Const.Shape(), ops.WeightsLast(n))
	if err != nil {
		b.Fail(err)
	}
	weights, tile := weightsInTiles(b, w, turned, tile)
	if weights == nil {
		return nil
	}
	return ops.WinogradStages(b, x, weights, w, biasOf(n), tile, n.Attrs.Exprs("begin"), n.Attrs.Exprs("end"))
}

// canBeTiled reports whether a convolution of f32 has a kernel of 3 × 3, or of planes of 3 × 3, constant weights, one
// group, and strides and dilations of 1.
func canBeTiled(n *ir.Node) bool {
	w, x := n.Inputs[1], n.Inputs[0]
	rank, kernel := len(x.Type.Shape), n.Attrs.Ints("kernel")
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(n.Attrs.Ints(name), func(v int64) bool { return v != want })
	}
	return (rank == 4 || rank == 5) && w.Const != nil && x.Type.DType == dtype.F32 &&
		n.Outputs[0].Type.DType == dtype.F32 && n.Attrs.Int("groups", 1) == 1 &&
		kernel[rank-4] == 3 && kernel[rank-3] == 3 && all("strides", 1) && all("dilations", 1)
}

// weightsInTiles returns the weights from, [3, 3, C, O] or planes of them, transformed for tiles of a size and named
// like w; nil if the size is 0 or the weights cannot be transformed.
func weightsInTiles(b *ir.Builder, w *ir.Value, from *tensor.Tensor, tile int64) (*ir.Value, int64) {
	if tile == 0 || !transformable(from) {
		return nil, 0
	}
	weights, err := tiledWeights(from, tile)
	if err != nil {
		b.Fail(err)
	}
	return b.Constant(w.Name, weights), tile
}

// biasOf returns a convolution's bias; nil if it has none.
func biasOf(n *ir.Node) *ir.Value {
	if len(n.Inputs) > 2 {
		return n.Inputs[2]
	}
	return nil
}

// transformable reports whether weights [3, 3, C, O], or planes of them, have a range in which transforming them loses
// nothing.
func transformable(w *tensor.Tensor) bool {
	shape := w.Shape()
	channels := len(shape) - 2
	axis := max(w.Major(), channels)
	step := max(1<<20/max(w.Len()/shape[axis], 1), 1)
	found := make(winograd.Range, shape[channels+1])
	for begin := int64(0); begin < shape[axis]; begin += step {
		slab := slices.Clone(shape)
		slab[axis] = min(step, shape[axis]-begin)
		x, release := tensor.Temporary(dtype.F32, slab...)
		w.Fill(x, axis, begin, begin+slab[axis])
		found.Add(floats(x), int64(axis-channels)*begin, slab[channels+1])
		release()
	}
	return found.Fits()
}

// tiledWeights returns weights [3, 3, C, O], or planes of them, transformed. They are computed when they are first
// read.
func tiledWeights(from *tensor.Tensor, tile int64) (*tensor.Tensor, error) {
	shape, elements := from.Shape(), (tile+2)*(tile+2)
	last, planes := len(shape)-1, int64(1)
	if last == 4 {
		planes = shape[0]
	}
	planesOf := func(to *tensor.Tensor, first, end int64) {
		if last == 4 {
			transformed(to, from, 0, first, end, tile)
			return
		}
		transformed(to, from, 2, 0, shape[2], tile)
	}
	major := 2
	if from.Major() == last-1 {
		major = 1
	}
	to := []int64{planes * elements, shape[last-1], shape[last]}
	return tensor.Deferred(dtype.F32, to, from, major, func(to *tensor.Tensor, axis int, begin, end int64) {
		first, after := begin/elements, (end+elements-1)/elements
		switch {
		case axis > 0:
			transformed(to, from, axis+last-2, begin, end, tile)
		case begin%elements == 0 && end%elements == 0:
			planesOf(to, first, after)
		default: // elements of a tile need all of a kernel's plane
			all, release := tensor.Temporary(dtype.F32, (after-first)*elements, shape[last-1], shape[last])
			defer release()
			planesOf(all, first, after)
			all.Fill(to, 0, begin-first*elements, end-first*elements)
		}
	})
}

// transformed transforms the weights of the channels, filters or planes with indices from begin to end along an axis.
func transformed(to, from *tensor.Tensor, axis int, begin, end, tile int64) {
	shape := slices.Clone(from.Shape())
	shape[axis] = end - begin
	slab, release := tensor.Temporary(dtype.F32, shape...)
	defer release()
	from.Fill(slab, axis, begin, end)
	channels, filters := shape[len(shape)-2], shape[len(shape)-1]
	out, in := floats(to), floats(slab)
	for each := channels * filters; len(in) > 0; out, in = out[(tile+2)*(tile+2)*each:], in[9*each:] {
		winograd.Weights(out, in, channels, filters, tile)
	}
}
