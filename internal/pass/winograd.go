package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/tensor"
)

// Winograd has convolutions of 3 × 3 with channels last computed in tiles, by fewer multiplications, where that takes less time and is worth the memory of the larger weights. Results
// differ from those of sums of products, relative to the sum of the products' magnitudes, by at most about 1e-6 for tiles of 2 × 2 and 1e-5 for tiles of 4 × 4.
func Winograd(m *ir.Module) error {
	return apply(m, []rule{{"convolution in tiles", []string{"convolution"}, func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value { return inTiles(b, n, chosenTile) }}})
}

// WinogradAs is Winograd with tiles of the given size wherever they can be: for tests.
func WinogradAs(m *ir.Module, tile int64) error {
	return WinogradBy(m, func(string) int64 { return tile })
}

// WinogradBy is Winograd with tiles of the size that choose gives for a node of the model, where they can be: 1 for none, 0 for the size that Winograd would choose. It is asked
// only for convolutions that can be computed so.
func WinogradBy(m *ir.Module, choose func(node string) int64) error {
	return apply(m, []rule{{"convolution in tiles", []string{"convolution"}, func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
		return inTiles(b, n, func(height, width, channels, filters int64) int64 {
			tile := choose(n.Source)
			if tile == 0 {
				return chosenTile(height, width, channels, filters)
			}
			if _, ok := ops.WinogradCost(height, width, channels, filters, tile); !ok || tile == 1 {
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

// chosenTile is the size of tiles that is best for an image of so many output rows and columns; 0 for none.
func chosenTile(height, width, channels, filters int64) int64 {
	if channels < tilesLeast || filters < tilesLeast {
		return 0
	}
	tile, taps := int64(0), int64(9)
	best, _ := ops.WinogradCost(height, width, channels, filters, 0)
	limit := int64(float64(best) * tilesFaster)
	for _, t := range []int64{2, 4} {
		cost, ok := ops.WinogradCost(height, width, channels, filters, t)
		side := (t + 2) * (t + 2)
		if more := 4 * (side - taps) * channels * filters; ok && cost < limit && best-cost >= tilesWorthByte*more {
			tile, taps, best = t, side, cost
		}
	}
	return tile
}

// inTiles is a convolution by tiles of the size that choose gives.
func inTiles(b *ir.Builder, n *ir.Node, choose func(height, width, channels, filters int64) int64) *ir.Value {
	w, x := n.Inputs[1], n.Inputs[0]
	all := func(name string, want int64) bool {
		return !slices.ContainsFunc(n.Attrs.Ints(name), func(v int64) bool { return v != want })
	}
	if !ops.Last(n) || len(x.Type.Shape) != 4 || w.Const == nil || x.Type.DType != dtype.F32 || n.Outputs[0].Type.DType != dtype.F32 || n.Attrs.Int("groups", 1) != 1 ||
		!all("kernel", 3) || !all("strides", 1) || !all("dilations", 1) {
		return nil
	}
	height, fixed := n.Outputs[0].Type.Shape[1].Const()
	width, known := n.Outputs[0].Type.Shape[2].Const()
	channels, filters := w.Const.Shape()[2], w.Const.Shape()[3]
	if !fixed || !known || channels*filters == 0 {
		return nil
	}
	tile := choose(height, width, channels, filters)
	if tile == 0 {
		return nil
	}
	from, err := tensor.Data[float32](w.Const)
	if err != nil {
		return nil
	}
	weights, err := tensor.FromSlice(ops.WinogradWeights(from, channels, filters, tile), (tile+2)*(tile+2), channels, filters)
	if err != nil {
		b.Fail(err)
	}
	var bias *ir.Value
	if len(n.Inputs) > 2 {
		bias = n.Inputs[2]
	}
	return ops.Winograd(b, x, b.Constant(w.Name, weights), bias, tile, n.Attrs.Exprs("begin"), n.Attrs.Exprs("end"))
}
