package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A band is some output rows of some channels of a convolution with one input and one output channel a group. What it
// sees is copied with its padding to the left and right, so that all strips of positions are alike: for windows so
// large that few strips see no padding, and for rows whose extent is a name.

const (
	bandRows     = 8 // of a band, at most
	bandLanes    = 16
	bandBytes    = 1 << 18
	mostUnrolled = 64 // elements of a kernel's row
)

func convolutionIsBands(n *ir.Node, d *sym.Dims) bool {
	x := n.Inputs[0].Type.Shape
	axes := len(x) - 2
	if !Last(n) || axes < 1 || axes > 2 || !convolutionIsDepthwise(n, d) ||
		d.EQ(x[axes+1], n.Outputs[0].Type.Shape[axes+1]) != sym.Yes {
		return false
	}
	w, _ := windowOf(n, axes)
	begin, fixed := w.Begin[axes-1].Const()
	channels, known := x[axes+1].Const()
	return fixed && known && begin >= 0 && channels > 0 && w.Kernel[axes-1] <= mostUnrolled
}

// bandChannels is how many of the output channels are done at once, a divisor: as few lanes as can be are left empty,
// if each takes so many bytes.
func bandChannels(channels, bytes int64) int64 {
	best, least := int64(1), math.Inf(1)
	for c := int64(1); c <= channels; c++ {
		if channels%c != 0 || c > bandLanes && c*bytes > bandBytes {
			continue
		}
		if lanes := float64((c+bandLanes-1)/bandLanes) / float64(c); lanes <= least {
			best, least = c, lanes
		}
	}
	return best
}

// bandRowsOf is the rows of a band of so many in all: a divisor, if one is large enough.
func bandRowsOf(height int64) int64 {
	if rows := divisor(height, bandRows, bandRows); rows >= bandRows/2 {
		return rows
	}
	return min(bandRows, height)
}

// rowsLeft is how many of the rows of a block there are along an axis, from an origin on: fewer only in a ragged last
// block.
func (f *rowsForm) rowsLeft(axis int, rows int64, origin sym.Expr) sym.Expr {
	if height, fixed := f.places[axis].Const(); fixed && height%rows == 0 {
		return sym.Const(rows)
	}
	return f.D.Simplify(sym.Const(rows).Min(f.places[axis].Sub(origin)))
}

// convolutionBands computes bands, each row of one in strips of positions. Rows of the kernel outside the input are
// left out.
func convolutionBands(k *Nest, n *ir.Node) {
	x, w, bias, out := k.In[0], k.In[1], present(k.In, 2), k.Out[0]
	axes := len(x.Shape) - 2
	window, _ := windowOf(n, axes)
	f := &rowsForm{Nest: k, window: window, x: x, w: w, out: out, bias: bias, size: x.Shape[1 : axes+1],
		places: out.Shape[1 : axes+1]}
	if axes == 1 {
		f.alone()
	}
	window, width := f.window, f.places[1]
	channels, _ := out.Shape[axes+1].Const()
	many := constant(width, 64)
	count := sym.Const(min(stripLength(window, 1, many), many))
	strips := f.D.Simplify(width.CeilDiv(count))
	stride, begin, zero := sym.Const(window.Strides[1]), window.Begin[1], sym.Const(0)
	seen := f.seen(strips.Mul(count), 1)
	rows := bandRowsOf(max(constant(f.places[0], bandRows), 1))
	lines := (rows-1)*window.Strides[0] + window.span(0)
	usual := int64(64) // of a row that has a name; what is a line is longer than a picture's row
	if axes == 1 {
		usual = 2048
	}
	each := sym.Const(bandChannels(channels, 4*lines*constant(seen, usual)))
	dt := accumulator(out.DType)
	blocks := []sym.Expr{sym.Const(channels).FloorDiv(each), x.Shape[0],
		f.D.Simplify(f.places[0].CeilDiv(sym.Const(rows)))}
	k.Nest(loop.Each, "b", blocks, func(b []sym.Expr) {
		channel, row := b[0].Mul(each), b[2].Mul(sym.Const(rows))
		top := f.window.source(0, row, zero)
		band := k.Local("band", x.DType, sym.Const(lines), seen, each)
		// Columns of the band from begin on are the input's: copied of them.
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
			k.When(loop.Inside(from, zero, f.size[0]), copy, nil) // others are not read
		})
		left := f.rowsLeft(0, rows, row)
		// Weights of the channels, one element of the kernel after the other.
		filter := k.Local("filter", w.DType, sym.Const(window.Kernel[0]), sym.Const(window.Kernel[1]), each)
		k.Nest(loop.Each, "w", filter.Shape, func(at []sym.Expr) {
			k.Store(filter, at, w.Load(f.at(nil, nil, at[0], at[1], zero, channel.Add(at[2]))...))
		})
		made := k.Local("made", dt, sym.Const(rows), strips.Mul(count), each)
		// A strip is done in all rows before the next, so that what they see of the band stays near.
		k.Nest(loop.Each, "s", []sym.Expr{strips, left, each}, func(s []sym.Expr) {
			first, end := f.elements(0, row.Add(s[1]), 1)
			sums := f.begunStrip(count, dt, channel.Add(s[2]))
			k.Serial("k", f.D.Simplify(end.Sub(first)), func(t sym.Expr) {
				t = first.Add(t)
				y, place := s[1].Mul(sym.Const(window.Strides[0])).Add(t.Mul(sym.Const(window.Dilations[0]))),
					s[0].Mul(count).Mul(stride)
				k.strip(sums, window, 1, func(int64) bool { return true }, func(i int64) loop.Expr {
					return loop.Convert(dt, filter.Load(t, sym.Const(i), s[2]))
				}, func(column int64) loop.Expr {
					return loop.Convert(dt, band.Load(y, place.Add(sym.Const(column)), s[2]))
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

// begunStrip declares the sums of a strip, begun with a channel's bias.
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
