package recipes

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// planeElements is about the number of positions of a channel that convolutionPlanes computes together.
const planeElements = 4096

// convolutionIsPlanes reports whether convolutionPlanes applies: one input channel per group, a stride of 1 and
// constant extents.
func convolutionIsPlanes(k *convolution) bool {
	if !isDepthwise(k) {
		return false
	}
	for _, stride := range k.window.Strides {
		if stride != 1 {
			return false
		}
	}
	for _, shape := range [][]sym.Expr{k.In[0].Shape[2:], k.Out[0].Shape[2:]} {
		for _, extent := range shape {
			if v, ok := extent.Const(); !ok || v < 1 {
				return false
			}
		}
	}
	return true
}

// rowsAtOnce returns the largest divisor of rows for which a block of rows of the given width stays small.
func rowsAtOnce(rows, width int64) int64 {
	for blocks := int64(1); blocks < rows; blocks++ {
		if rows%blocks == 0 && rows/blocks*width <= planeElements {
			return rows / blocks
		}
	}
	return 1
}

// convolutionPlanes copies a block of rows of one channel, padding included, and treats it as one line: at each kernel
// position, the outputs of all rows see consecutive elements of the line. Results at the ends of rows, where the window
// would wrap, are computed and not stored. Each product multiplies a kernel row with shifted copies of the line.
func convolutionPlanes(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	window := k.window
	perGroup := sliding.GroupOf(out.Shape[1], k.groups)
	outSize, _ := constants(out.Shape[2:])
	padded, steps, last := make([]int64, rank-2), make([]int64, rank-2), rank-3
	step := int64(1)
	for i := last; i >= 0; i-- {
		padded[i], steps[i] = outSize[i]+window.Extent(i)-1, step
		step *= padded[i]
	}
	rows := rowsAtOnce(outSize[0], steps[0])
	padded[0] = rows + window.Extent(0) - 1
	length := int64(1)
	block := append([]int64{rows}, outSize[1:]...)
	for i, extent := range block {
		length += (extent - 1) * steps[i]
	}
	along := func(at []sym.Expr) sym.Expr {
		flat := sym.Expr{}
		for i, e := range at {
			flat = flat.Add(e.Mul(sym.Const(steps[i])))
		}
		return flat
	}
	k.Nest(loop.Each, "b", []sym.Expr{out.Shape[0], x.Shape[1], sym.Const(outSize[0] / rows)}, func(b []sym.Expr) {
		first := b[2].Mul(sym.Const(rows))
		line := k.Local("line", x.DType, sym.Const(padded[0]*steps[0]))
		k.Nest(loop.Each, "p", numbers(padded), func(at []sym.Expr) {
			from, position := []sym.Expr{b[0], b[1]}, append([]sym.Expr{first.Add(at[0])}, at[1:]...)
			var mask loop.Expr
			for i, p := range position {
				p = p.Sub(window.Begin[i])
				from = append(from, p)
				mask = loop.Both(mask, window.Inside(i, p, x.Shape[2+i]))
			}
			if mask == nil {
				k.Store(line, []sym.Expr{along(at)}, x.Load(from...))
			} else {
				k.Store(line, []sym.Expr{along(at)}, x.LoadIf(mask, loop.Number(x.DType, 0), from...))
			}
		})
		channel := b[1].Mul(perGroup)
		acc := sliding.Biased(k.Builder, k.optional(2), out.DType.Accumulator(), channel, perGroup, sym.Const(length))
		k.Nest(loop.Serial, "k", w.Shape[2:2+last], func(at []sym.Expr) {
			shift := sym.Expr{}
			for i, e := range at {
				shift = shift.Add(e.Mul(sym.Const(window.Dilations[i] * steps[i])))
			}
			k.Contract(perGroup, sym.Const(length), w.Shape[2+last],
				acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
				w.Tile(append(append([]sym.Expr{channel, {}}, at...), sym.Expr{}), unit(rank, 0, one), unit(rank, rank-1, one)),
				line.Tile([]sym.Expr{shift}, []sym.Expr{sym.Const(window.Dilations[last])}, []sym.Expr{one}))
		})
		k.Nest(loop.Each, "o", append([]sym.Expr{perGroup}, numbers(block)...), func(at []sym.Expr) {
			to := append([]sym.Expr{b[0], channel.Add(at[0]), first.Add(at[1])}, at[2:]...)
			k.Store(out, to, loop.Convert(out.DType, acc.Load(at[0], along(at[1:]))))
		})
	})
}
