package recipes

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file computes convolutions whose kernel's elements lie so far apart that many of them see only padding. Each
// element of the kernel is multiplied with the input positions that are seen through it; no input is copied, and no
// padding multiplied.

const (
	farUseful    = 0.85 // the largest share of the positions seen by the kernel that lie in the input
	farChannels  = 16   // the fewest channels of a group: with fewer, sums are loaded and stored too often
	farPositions = 1024 // about the number of positions of a block
	farUnrolled  = 9    // the most elements of a kernel's row that are unrolled
)

// useful returns the share of the positions read by the kernel along an axis that lie in the input. An extent that is
// not a number counts as a usual size.
func (f *rowsForm) useful(axis int) float64 {
	const usual = 64
	size, positions := constant(f.size[axis], usual), constant(f.outSize[axis], usual)
	begin, fixed := f.window.Begin[axis].Const()
	if !fixed || positions < 1 || f.window.Unpadded(axis) {
		return 1
	}
	seen := int64(0)
	for k := range f.window.Kernel[axis] {
		shift, stride := begin-k*f.window.Dilations[axis], f.window.Strides[axis]
		first, end := max(ceilDiv(shift, stride), 0), min(ceilDiv(size+shift, stride), positions)
		seen += max(end-first, 0)
	}
	return float64(seen) / float64(positions*f.window.Kernel[axis])
}

// far reports whether the convolution is computed by p.taps.
func (f *rowsForm) far() bool {
	last := len(f.outSize) - 1
	if f.holes || constant(f.inner, farChannels) < farChannels || f.window.Dilations[last] == 1 &&
		f.window.Dilations[last-1] == 1 {
		return false
	}
	share := 1.0
	for axis := range f.outSize {
		share *= f.useful(axis)
	}
	return share < farUseful
}

// farBlock chooses the number of output rows of a block of taps; the last block may have fewer.
func (f *rowsForm) farBlock() rowsBlock {
	last := len(f.outSize) - 1
	width, height := max(constant(f.outSize[last], 64), 1), max(constant(f.outSize[last-1], farPositions), 1)
	b := rowsBlock{rows: min(max(farPositions/width, 1), height), columns: f.outSize[last], splits: 1}
	b.rows = ceilDiv(height, ceilDiv(height, b.rows))
	blocks := f.groups * ceilDiv(height, b.rows) * max(constant(f.x.Shape[0], 1), 1)
	if channels := constant(f.outer, 0); channels%f.sizes.Columns == 0 && blocks < f.sizes.Blocks {
		b.splits = divisor(channels/f.sizes.Columns, (f.sizes.Blocks+blocks-1)/blocks, channels/f.sizes.Columns)
	}
	return b
}

// sees returns the range [first, end) of output positions along an axis, relative to origin and below count, that read
// the input through element k of the kernel.
func (f *rowsForm) sees(axis int, k, origin, count sym.Expr) (first, end sym.Expr) {
	if f.window.Unpadded(axis) {
		return sym.Expr{}, count
	}
	stride, zero := sym.Const(f.window.Strides[axis]), sym.Const(0)
	shift := f.window.Begin[axis].Sub(k.Mul(sym.Const(f.window.Dilations[axis])))
	first = f.D.Simplify(shift.CeilDiv(stride).Sub(origin).Max(zero))
	end = f.D.Simplify(f.size[axis].Add(shift).CeilDiv(stride).Sub(origin).Min(count).Max(first))
	return first, end
}

// taps computes the block: it multiplies each element of the kernel with all positions of the block that see the input
// through it.
func (p *rowsPosition) taps() {
	f, last := p.rowsForm, len(p.outSize)-1
	width, stride := f.outSize[last], f.window.Strides
	rows := f.rowsLeft(last-1, f.block.rows, p.row)
	dt := f.out.DType.Accumulator()
	acc := f.Local("acc", dt, sym.Const(f.block.rows), width, p.channels)
	f.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) {
		start := loop.Expr(loop.Number(dt, 0))
		if f.bias != nil {
			start = loop.Convert(dt, f.bias.Load(p.first.Add(at[2])))
		}
		f.Store(acc, at, start)
	})
	channels, rank := f.inner.Mul(sym.Const(f.groups)), len(f.x.Shape)-1
	element := func(lead, from []sym.Expr, row, column sym.Expr) {
		begin, end := f.sees(last, column, sym.Expr{}, width)
		count := f.D.Simplify(end.Sub(begin))
		if n, fixed := count.Const(); fixed && n <= 0 {
			return
		}
		top, bottom := f.sees(last-1, row, p.row, rows)
		f.Each("r", f.D.Simplify(bottom.Sub(top)), func(r sym.Expr) {
			r = top.Add(r)
			y := f.window.Source(last-1, p.row.Add(r), row)
			x := f.window.Source(last, begin, column)
			f.Contract(count, p.channels, f.inner, acc.Tile([]sym.Expr{r, begin, {}}, unit(3, 1, one), unit(3, 2, one)),
				f.x.Tile(f.at([]sym.Expr{p.image}, from, y, x.Mul(channels).Add(p.group.Mul(f.inner))),
					unit(rank, rank-1, sym.Const(stride[last]).Mul(channels)), unit(rank, rank-1, one)),
				p.weights(lead, row, column.Mul(f.inner)))
		})
	}
	elements, first := p.leadElements()
	f.Nest(loop.Serial, "k", append(elements, sym.Const(f.window.Kernel[last-1])), func(at []sym.Expr) {
		lead, from, row := added(first, at[:f.lead]), make([]sym.Expr, f.lead), at[f.lead]
		for i := range lead {
			from[i] = f.window.Source(i, p.lead[i], lead[i])
		}
		if f.window.Kernel[last] <= farUnrolled {
			for column := range f.window.Kernel[last] {
				element(lead, from, row, sym.Const(column))
			}
			return
		}
		f.Serial("k", sym.Const(f.window.Kernel[last]), func(column sym.Expr) { element(lead, from, row, column) })
	})
	f.Nest(loop.Each, "o", []sym.Expr{rows, width, p.channels}, func(at []sym.Expr) {
		p.Store(f.out, f.at([]sym.Expr{p.image}, p.lead, p.row.Add(at[0]), at[1], p.first.Add(at[2])),
			loop.Convert(f.out.DType, acc.Load(at...)))
	})
}

// leadElements returns, for each axis before rows, the number of kernel elements through which the block sees the
// input, and the first of them.
func (p *rowsPosition) leadElements() (counts, first []sym.Expr) {
	for axis := range p.lead {
		begin, end := p.elements(axis, p.lead[axis], 1)
		counts, first = append(counts, p.D.Simplify(end.Sub(begin))), append(first, begin)
	}
	return counts, first
}

// added returns the elementwise sum of two lists.
func added(x, y []sym.Expr) []sym.Expr {
	out := make([]sym.Expr, len(x))
	for i := range x {
		out[i] = x[i].Add(y[i])
	}
	return out
}

// elements returns the range [first, end) of kernel elements along an axis through which some of count output
// positions, from origin on, read the input. It may be empty.
func (f *rowsForm) elements(axis int, origin sym.Expr, count int64) (first, end sym.Expr) {
	first, end = sym.Expr{}, sym.Const(f.window.Kernel[axis])
	if f.window.Unpadded(axis) {
		return first, end
	}
	stride, dilation := sym.Const(f.window.Strides[axis]), sym.Const(f.window.Dilations[axis])
	top := origin.Mul(stride).Sub(f.window.Begin[axis])
	bottom := top.Add(sym.Const((count - 1) * f.window.Strides[axis]))
	first = f.D.Simplify(bottom.Neg().CeilDiv(dilation).Max(sym.Const(0)))
	end = f.D.Simplify(f.size[axis].Sub(top).CeilDiv(dilation).Min(end).Max(first))
	return first, end
}
