package recipes

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A band is a block of output rows and channels of a convolution with one input and one output channel per group. The
// input that a band sees is copied with its padding to the left and right, so that all strips of positions are equal.
// This serves windows so large that most strips see padding, and rows whose extent is not a number.

const (
	bandRows     = 8  // the most rows of a band
	mostUnrolled = 64 // the most elements of a kernel's row that are unrolled
)

// convolutionIsBands reports whether convolutionBands applies: a depthwise convolution along one or two axes with its
// channels last, one output channel per group, constant channels and a kernel row that can be unrolled.
func convolutionIsBands(k *convolution) bool {
	x := k.In[0].Shape
	axes := len(x) - 2
	if !k.last || axes < 1 || axes > 2 || !isDepthwise(k) ||
		k.D.EQ(x[axes+1], k.Out[0].Shape[axes+1]) != sym.Yes {
		return false
	}
	w := k.window
	begin, fixed := w.Begin[axes-1].Const()
	channels, known := x[axes+1].Const()
	return fixed && known && begin >= 0 && channels > 0 && w.Kernel[axes-1] <= mostUnrolled
}

// bandChannels returns the number of output channels computed together, a divisor of channels: the one that leaves the
// fewest lanes empty, if each channel takes the given bytes.
func (k *nest) bandChannels(channels, bytes int64) int64 {
	best, least := int64(1), math.Inf(1)
	for c := int64(1); c <= channels; c++ {
		if channels%c != 0 || c > k.sizes.Lanes && c*bytes > k.sizes.Near {
			continue
		}
		if lanes := float64((c+k.sizes.Lanes-1)/k.sizes.Lanes) / float64(c); lanes <= least {
			best, least = c, lanes
		}
	}
	return best
}

// bandRowsOf returns the number of rows of a band, given the rows of the result: a divisor of height, if one is large
// enough.
func bandRowsOf(height int64) int64 {
	if rows := divisor(height, bandRows, bandRows); rows >= bandRows/2 {
		return rows
	}
	return min(bandRows, height)
}

// rowsLeft returns the number of rows of the block at origin along an axis; only the last block may have fewer than
// rows.
func (f *rowsForm) rowsLeft(axis int, rows int64, origin sym.Expr) sym.Expr {
	if height, fixed := f.outSize[axis].Const(); fixed && height%rows == 0 {
		return sym.Const(rows)
	}
	return f.D.Simplify(sym.Const(rows).Min(f.outSize[axis].Sub(origin)))
}

// convolutionBands computes a depthwise convolution: each iteration computes a band, its rows in strips of positions.
// Rows of the kernel that lie outside the input are skipped.
func convolutionBands(k *convolution) {
	x, w, bias, out := k.In[0], k.In[1], k.optional(2), k.Out[0]
	axes := len(x.Shape) - 2
	window := k.window
	f := &rowsForm{nest: k.nest, window: window, x: x, w: w, out: out, bias: bias, size: x.Shape[1 : axes+1],
		outSize: out.Shape[1 : axes+1]}
	if axes == 1 {
		f.alone()
	}
	window, width := f.window, f.outSize[1]
	channels, _ := out.Shape[axes+1].Const()
	many := constant(width, 64)
	count := sym.Const(min(k.stripLength(window, 1, many), many))
	strips := f.D.Simplify(width.CeilDiv(count))
	stride, begin, zero := sym.Const(window.Strides[1]), window.Begin[1], sym.Const(0)
	seen := f.seen(strips.Mul(count), 1)
	rows := bandRowsOf(max(constant(f.outSize[0], bandRows), 1))
	lines := (rows-1)*window.Strides[0] + window.Extent(0)
	// columns of a row whose extent is not a number; one-dimensional data are longer than rows of an image
	usual := int64(64)
	if axes == 1 {
		usual = 2048
	}
	each := sym.Const(k.bandChannels(channels, 4*lines*constant(seen, usual)))
	dt := out.DType.Accumulator()
	blocks := []sym.Expr{sym.Const(channels).FloorDiv(each), x.Shape[0],
		f.D.Simplify(f.outSize[0].CeilDiv(sym.Const(rows)))}
	k.Nest(loop.Each, "b", blocks, func(b []sym.Expr) {
		channel, row := b[0].Mul(each), b[2].Mul(sym.Const(rows))
		top := f.window.Source(0, row, zero)
		band := k.Local("band", x.DType, sym.Const(lines), seen, each)
		// The band's columns from begin on hold copied columns of the input.
		copied := f.D.Simplify(seen.Sub(begin).Min(f.size[1]).Max(zero))
		k.Each("y", band.Shape[0], func(line sym.Expr) {
			from := top.Add(line)
			fill := func(first, count sym.Expr) {
				if v, fixed := count.Const(); fixed && v <= 0 {
					return
				}
				k.Nest(loop.Each, "z", []sym.Expr{count, each}, func(at []sym.Expr) {
					k.Store(band, []sym.Expr{line, first.Add(at[0]), at[1]}, loop.Number(x.DType, 0))
				})
			}
			copy := func() {
				fill(zero, f.D.Simplify(begin.Min(seen)))
				k.Nest(loop.Each, "c", []sym.Expr{copied, each}, func(at []sym.Expr) {
					k.Store(band, []sym.Expr{line, begin.Add(at[0]), at[1]},
						x.Load(f.at([]sym.Expr{b[1]}, nil, from, at[0], channel.Add(at[1]))...))
				})
				fill(begin.Add(copied), f.D.Simplify(seen.Sub(begin).Sub(copied).Max(zero)))
			}
			if axes == 1 {
				copy()
				return
			}
			k.When(loop.Inside(from, zero, f.size[0]), copy, nil) // rows outside the input are not read
		})
		left := f.rowsLeft(0, rows, row)
		// The weights of the channels, ordered by element of the kernel.
		filter := k.Local("filter", w.DType, sym.Const(window.Kernel[0]), sym.Const(window.Kernel[1]), each)
		k.Nest(loop.Each, "w", filter.Shape, func(at []sym.Expr) {
			k.Store(filter, at, w.Load(f.at(nil, nil, at[0], at[1], zero, channel.Add(at[2]))...))
		})
		made := k.Local("made", dt, sym.Const(rows), strips.Mul(count), each)
		// A strip is computed in all rows before the next strip, so that its columns of the band stay in the cache.
		k.Nest(loop.Each, "s", []sym.Expr{strips, left, each}, func(s []sym.Expr) {
			first, end := f.elements(0, row.Add(s[1]), 1)
			sums := f.begunStrip(count, dt, channel.Add(s[2]))
			k.Serial("k", f.D.Simplify(end.Sub(first)), func(t sym.Expr) {
				t = first.Add(t)
				y, x := s[1].Mul(sym.Const(window.Strides[0])).Add(t.Mul(sym.Const(window.Dilations[0]))),
					s[0].Mul(count).Mul(stride)
				k.strip(sums, window, 1, func(int64) bool { return true }, func(i int64) loop.Expr {
					return loop.Convert(dt, filter.Load(t, sym.Const(i), s[2]))
				}, func(column int64) loop.Expr {
					return loop.Convert(dt, band.Load(y, x.Add(sym.Const(column)), s[2]))
				})
			})
			for p, sum := range sums {
				k.Store(made, []sym.Expr{s[1], s[0].Mul(count).Add(sym.Const(int64(p))), s[2]}, sum)
			}
		})
		k.Nest(loop.Each, "o", []sym.Expr{left, width, each}, func(at []sym.Expr) {
			to := f.at([]sym.Expr{b[1]}, nil, row.Add(at[0]), at[1], channel.Add(at[2]))
			k.Store(out, to, loop.Convert(out.DType, made.Load(at...)))
		})
	})
}

// begunStrip declares the count sums of a strip, each starting with the channel's bias.
func (f *rowsForm) begunStrip(count sym.Expr, dt dtype.DType, channel sym.Expr) []*loop.Ref {
	sums := make([]*loop.Ref, constant(count, 1))
	for p := range sums {
		start := loop.Expr(loop.Number(dt, 0))
		if f.bias != nil {
			start = loop.Convert(dt, f.bias.Load(channel))
		}
		sums[p] = f.Var("sum", start)
	}
	return sums
}
