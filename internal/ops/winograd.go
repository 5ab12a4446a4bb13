package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/winograd"
)

// init defines the operator winograd.
func init() {
	define(&Def{Op: "winograd", Cost: winogradCost, NoGrad: byPasses,
		rows: rowRule{axes: winogradAxes, seen: winogradSeen, loose: winogradLoose, granule: winogradGranule,
			cut: winogradCut}, Shape: winogradShape, Mean: winogradMean, Work: winogradWork,
		Samples:   winogradSamples,
		Lowerings: []Lowering{{Name: "sums", Separate: true, Meant: true, Build: winogradSums, Error: 1e-4}}})
}

// Winograd convolves x, [N, H, W, C], with a kernel of 3 × 3 with strides of 1, without dilation or groups. original
// are the weights, [3, 3, C, O]; weights are the same after winograd.Weights for tiles of tile × tile outputs, [(tile +
// 2)², C, O]. If x has planes, [N, D, H, W, C], so does the kernel, [K, 3, 3, C, O]; each plane is transformed
// independently, and weights are [K · (tile + 2)², C, O].
//
// Each result is within winograd.Bound · Σ|x| · max|w| of the convolution, with the sum over the result's own window
// and the maximum over the filter. A tile in which the algorithm may round more is computed directly with the original
// weights: see far.
func Winograd(b *ir.Builder, x, weights, original, bias *ir.Value, tile int64, begin, end []sym.Expr) *ir.Value {
	inputs := []*ir.Value{x, weights, original}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	return b.Op("winograd", ir.Attrs{"tile": tile, "begin": begin, "end": end}, inputs...)
}

// winogradKernel returns the number of planes of a kernel: 1 for images.
func winogradKernel(n *ir.Node) sym.Expr {
	if original := n.Inputs[2].Type.Shape; len(original) == 5 {
		return original[0]
	}
	return one
}

// winogradShape requires f32 operands of ranks 4 or 5, and weights that are transformed for the attribute tile.
func winogradShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 4); err != nil {
		return err
	}
	x, w, original, tile := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type, n.Attrs.Int("tile", 0)
	begin, end := n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	rank := len(x.Shape)
	ranks := (rank == 4 || rank == 5) && len(w.Shape) == 3 && len(original.Shape) == rank && len(begin) == rank-2 &&
		len(end) == rank-2
	if !ranks || winograd.Of(tile) == nil || x.DType != dtype.F32 || w.DType != dtype.F32 ||
		original.DType != dtype.F32 {
		return fault(n, "input %s, weights %s and %s, in tiles of %d", x, w, original, tile)
	}
	kernel := []sym.Expr{winogradKernel(n), sym.Const(3), sym.Const(3)}[5-rank:]
	if k, fixed := kernel[0].Const(); !fixed || k < 1 {
		return fault(n, "a kernel of %s planes", kernel[0])
	}
	pairs := [][2]sym.Expr{{w.Shape[0], winogradKernel(n).Mul(sym.Const((tile + 2) * (tile + 2)))},
		{w.Shape[1], x.Shape[rank-1]},
		{original.Shape[rank-2], x.Shape[rank-1]}, {original.Shape[rank-1], w.Shape[2]}}
	for i, extent := range kernel {
		pairs = append(pairs, [2]sym.Expr{original.Shape[i], extent})
	}
	for _, pair := range pairs {
		if err := c.RequireEqual(n, pair[0], pair[1], "transformed weights"); err != nil {
			return err
		}
	}
	shape := make([]sym.Expr, rank)
	shape[0], shape[rank-1] = x.Shape[0], w.Shape[2]
	for i := range begin {
		shape[1+i] = c.Dims().Simplify(sym.Sum(x.Shape[1+i], begin[i], end[i], one.Sub(kernel[i])))
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[1+i]},
			"the kernel fits the padded input"); err != nil {
			return err
		}
	}
	if bias := input(n, 3); bias != nil {
		if len(bias.Type.Shape) != 1 || bias.Type.DType != dtype.F32 {
			return fault(n, "a bias %s", bias.Type)
		}
		if err := c.RequireEqual(n, bias.Type.Shape[0], shape[rank-1], "one bias for each output channel"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// winogradMean computes the convolution directly with the original weights, in f64.
func winogradMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	begin, err := e.Ints(n.Attrs.Exprs("begin"))
	if err != nil {
		return nil, err
	}
	x, w, bias := in[0], in[2], present(in, 3)
	size, outSize := x.Shape(), out.Shape()
	last := len(size) - 1
	kernel, channels, filters := w.Shape()[:last-1], size[last], outSize[last]
	flat := int64(0)
	tensor.Each(outSize, func(at []int64) {
		sum := 0.0
		if bias != nil {
			sum = bias.Float(at[last])
		}
		tap := int64(-1)
		tensor.Each(kernel, func(k []int64) {
			tap++
			from := at[0]
			for i := range k {
				y := at[1+i] + k[i] - begin[i]
				if y < 0 || y >= size[1+i] {
					return
				}
				from = from*size[1+i] + y
			}
			for c := range channels {
				sum += x.Float(from*channels+c) * w.Float((tap*channels+c)*filters+at[last])
			}
		})
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// winogradSums lowers the operator to direct sums, with the original weights; positions in the padding take no part.
func winogradSums(k *Nest, n *ir.Node) {
	x, w, bias, out := k.In[0], k.In[2], present(k.In, 3), k.Out[0]
	begin, last := n.Attrs.Exprs("begin"), len(out.Shape)-1
	k.Nest(loop.Each, "o", out.Shape, func(o []sym.Expr) {
		start := loop.Expr(loop.Number(dtype.F32, 0))
		if bias != nil {
			start = bias.Load(o[last])
		}
		sum := k.Var("sum", start)
		k.Nest(loop.Serial, "k", w.Shape[:last], func(at []sym.Expr) {
			from := []sym.Expr{o[0]}
			var inside loop.Expr
			for i := range begin {
				p := o[1+i].Add(at[i]).Sub(begin[i])
				from, inside = append(from, p), loop.Both(inside, loop.Inside(p, sym.Const(0), x.Shape[1+i]))
			}
			none := loop.Number(dtype.F32, 0)
			value := x.LoadIf(inside, none, append(from, at[last-1])...)
			k.Reduce(sum, loop.Add, loop.Choose(inside, times(value, w.Load(append(at[:last:last], o[last])...)), none))
		})
		k.Store(out, o, sum)
	})
}

// winogradSamples covers both tiles on images and volumes with full and ragged tiles, with and without bias and
// padding.
func winogradSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, tile := range []int64{2, 4} {
		for i, shape := range [][]int64{{1, 8, 8, 3}, {2, 7, 6, 2}, {1, 5, 3, 1}, {0, 4, 4, 2}} {
			out = append(out, winogradSample(r, tile, shape, nil, []int64{int64(i % 2), 1}, i%2 == 0))
		}
		for i, c := range []struct{ shape, kernel, pad []int64 }{
			{[]int64{1, 4, 8, 8, 3}, []int64{3}, []int64{1, 1, 1}}, {[]int64{2, 5, 6, 7, 2}, []int64{1}, []int64{0, 1, 0}},
			{[]int64{1, 1, 6, 5, 1}, []int64{3}, []int64{1, 0, 1}}, {[]int64{1, 2, 5, 4, 2}, []int64{2}, []int64{2, 1, 1}},
			{[]int64{1, 0, 4, 4, 2}, []int64{3}, []int64{1, 1, 1}}} {
			out = append(out, winogradSample(r, tile, c.shape, c.kernel, c.pad, i%2 == 0))
		}
	}
	return out
}

// winogradSample returns a sample for an input's shape and a kernel with planes[0] planes, if any, with equal padding
// on both sides.
func winogradSample(r *rand.Rand, tile int64, shape, planes, pad []int64, bias bool) Sample {
	channels, count := shape[len(shape)-1], int64(1)
	if planes != nil {
		count = planes[0]
	}
	original := sampleNormal(r, dtype.F32, append(slices.Clone(planes), 3, 3, channels, 4)...)
	elements := (tile + 2) * (tile + 2)
	transformed := tensor.Must(tensor.New(dtype.F32, count*elements, channels, 4))
	weights, _ := tensor.Data[float32](original)
	to, _ := tensor.Data[float32](transformed)
	for k, each := int64(0), channels*4; k < count; k++ {
		winograd.Weights(to[k*elements*each:], weights[k*9*each:], channels, 4, tile)
	}
	in := []*tensor.Tensor{sampleNormal(r, dtype.F32, shape...), transformed, original}
	if bias {
		in = append(in, sampleNormal(r, dtype.F32, 4))
	}
	return Sample{Attrs: ir.Attrs{"tile": tile, "begin": ir.Constants(pad), "end": ir.Constants(pad)}, Inputs: in,
		Constant: []int{1, 2, 3}}
}

// winogradAxes allows pieces of images, and of planes or of rows whose number is a multiple of the tile.
func winogradAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	begin, out := n.Attrs.Exprs("begin"), n.Outputs[0].Type.Shape
	_, number := begin[0].Const()
	if axis == 0 || len(begin) == 3 {
		return axis == 0 || axis == 1 && number // planes are computed independently
	}
	// In pieces of a ragged height, a tile could have other results, and so be far in a piece only.
	height, known := out[1].Const()
	return axis == 1 && number && known && height%n.Attrs.Int("tile", 1) == 0
}

// winogradExtents returns the kernel's extent along the axis of rows or planes that is cut, and the number of results
// along it that are computed together.
func winogradExtents(n *ir.Node) (kernel, together int64) {
	if kernel, _ = winogradKernel(n).Const(); len(n.Inputs[0].Type.Shape) == 5 {
		return kernel, 1
	}
	return 3, n.Attrs.Int("tile", 0)
}

// winogradSeen returns all rows that the tiles of the result's rows read, so that pieces compute the same bits.
func winogradSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	if axis == 0 {
		return rows
	}
	begin, _ := n.Attrs.Exprs("begin")[0].Const()
	kernel, tile := winogradExtents(n)
	from := rows.From / tile * tile
	return RowRange{from - begin, from + (rows.To-from+tile-1)/tile*tile + kernel - 1 - begin}
}

// winogradGranule returns the tile's rows, so that pieces begin with a tile.
func winogradGranule(n *ir.Node, axis int) int64 {
	if axis == 0 {
		return 1
	}
	_, tile := winogradExtents(n)
	return tile
}

// winogradCut sets the padding of a piece so that its first tile reads the same rows of the operand.
func winogradCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if axis == 0 {
		return
	}
	kernel, _ := winogradExtents(n)
	begin := n.Attrs.Exprs("begin")[0].Add(c.offset(b, 0, 1))
	setExpr(attrs, "begin", 0, begin)
	setExpr(attrs, "end", 0, sym.Const(c.Out.Rows+kernel-1-c.In[0].Rows).Sub(begin))
}

func winogradLoose(_ *ir.Node, axis, _ int) bool { return axis == 1 }

// winogradCost counts two operations for each transformed weight and tile.
func winogradCost(n *ir.Node, size func(...sym.Expr) float64) float64 {
	out, tile := n.Outputs[0].Type.Shape, float64(n.Attrs.Int("tile", 1))
	return 2 * size(out...) * size(n.Inputs[1].Type.Shape...) / max(size(out[len(out)-1]), 1) / (tile * tile)
}
