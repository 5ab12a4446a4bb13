package recipes

import (
	"math"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// strip is a run of neighbouring output positions of a row that are computed together: they share the kernel's elements
// and the input that they see.
type strip struct {
	first, count int64
	again        int64 // the number of consecutive strips of this form; 0 stands for one
}

// mostEdges is the largest number of strips at the ends of rows that get code of their own.
const mostEdges = 6

// stripLength returns the number of neighbouring positions of a row that are computed together: at most as many as have
// their sums, and the input that they read through one element of the kernel, in registers, and at least half as many.
// It minimizes the cost of a row; a load counts half as much as a multiplication.
func (k *nest) stripLength(w sliding.Window, axis int, positions int64) int64 {
	kernel, best, least := w.Kernel[axis], (k.sizes.Sums+1)/2, int64(math.MaxInt64)
	cost := func(count int64) int64 { return 2*count*kernel + kernel + (count-1)*w.Strides[axis] + w.Extent(axis) }
	for most := best; most <= k.sizes.Sums; most++ {
		total := positions / most * cost(most)
		if rest := positions % most; rest > 0 {
			total += cost(rest)
		}
		if total <= least {
			best, least = most, total
		}
	}
	return best
}

// stripsOf divides a row into strips: the middle ones, which see no padding, are equal; ok is false if more than
// mostEdges are not.
func (k *nest) stripsOf(w sliding.Window, axis int, begin, extent, positions int64) (list []strip, ok bool) {
	most, edges := k.stripLength(w, axis, positions), 0
	for first := int64(0); first < positions; first += most {
		s := strip{first: first, count: min(most, positions-first)}
		left := first*w.Strides[axis] - begin
		right := left + (s.count-1)*w.Strides[axis] + w.Extent(axis)
		if last := len(list) - 1; left >= 0 && right <= extent && s.count == most {
			if last >= 0 && list[last].again > 0 {
				list[last].again++
				continue
			}
			s.again = 1
		} else {
			edges++
		}
		list = append(list, s)
	}
	return list, edges <= mostEdges
}

// convolutionIsStrips reports whether convolutionStrips applies: channels last, one input and one output channel per
// group, and two axes of constant extents.
func convolutionIsStrips(k *convolution) bool {
	x := k.In[0].Shape
	if !k.last || len(x) != 4 || !isDepthwise(k) || k.D.EQ(x[3], k.Out[0].Shape[3]) != sym.Yes {
		return false
	}
	w := k.window
	sizes, fixed := constants([]sym.Expr{x[2], k.Out[0].Shape[2], w.Begin[1]})
	if !fixed || sizes[0] < 1 || sizes[1] < 1 || w.Kernel[1] > 7 {
		return false
	}
	_, ok := k.stripsOf(w, 1, sizes[2], sizes[0], sizes[1])
	return ok
}

// convolutionStrips computes a depthwise convolution: each iteration computes a row in strips of positions, with
// neighbouring channels in lanes. Kernel rows outside the input, and at the ends of rows kernel columns outside it, are
// skipped.
func convolutionStrips(k *convolution) {
	x, w, bias, out := k.In[0], k.In[1], k.optional(2), k.Out[0]
	window := k.window
	sizes, _ := constants([]sym.Expr{x.Shape[2], out.Shape[2], window.Begin[1]})
	strips, _ := k.stripsOf(window, 1, sizes[2], sizes[0], sizes[1])
	dt := out.DType.Accumulator()
	k.Nest(loop.Each, "b", out.Shape[:2], func(b []sym.Expr) {
		made := k.Local("made", dt, out.Shape[2], out.Shape[3])
		// The kernel's rows in [first, end) see rows of the input.
		top, dilation := window.Source(0, b[1], sym.Expr{}), sym.Const(window.Dilations[0])
		first, end := sym.Expr{}, sym.Const(window.Kernel[0])
		if !window.Unpadded(0) {
			first = k.D.Simplify(top.Neg().CeilDiv(dilation).Max(sym.Const(0)))
			end = k.D.Simplify(x.Shape[1].Sub(top).CeilDiv(dilation).Min(end))
		}
		for _, s := range strips {
			compute := func(begin sym.Expr, sees func(column int64) bool) {
				k.Each("c", out.Shape[3], func(c sym.Expr) {
					sums := make([]*loop.Ref, s.count)
					for p := range sums {
						start := loop.Expr(loop.Number(dt, 0))
						if bias != nil {
							start = loop.Convert(dt, bias.Load(c))
						}
						sums[p] = k.Var("sum", start)
					}
					k.Serial("k", end.Sub(first), func(t sym.Expr) {
						row := first.Add(t)
						y := top.Add(row.Mul(dilation))
						k.strip(sums, window, 1, sees, func(i int64) loop.Expr {
							return loop.Convert(dt, w.Load(row, sym.Const(i), sym.Expr{}, c))
						}, func(column int64) loop.Expr {
							at := begin.Mul(sym.Const(window.Strides[1])).Add(sym.Const(column - sizes[2]))
							return loop.Convert(dt, x.Load(b[0], y, at, c))
						})
					})
					for p, sum := range sums {
						k.Store(made, []sym.Expr{begin.Add(sym.Const(int64(p))), c}, sum)
					}
				})
			}
			if s.again > 0 {
				k.Each("s", sym.Const(s.again), func(i sym.Expr) {
					compute(sym.Const(s.first).Add(i.Mul(sym.Const(s.count))), func(int64) bool { return true })
				})
				continue
			}
			compute(sym.Const(s.first), func(column int64) bool {
				at := s.first*window.Strides[1] + column - sizes[2]
				return at >= 0 && at < sizes[0]
			})
		}
		k.Nest(loop.Each, "o", made.Shape, func(at []sym.Expr) {
			k.Store(out, append(b[:2:2], at...), loop.Convert(out.DType, made.Load(at...)))
		})
	})
}

// strip adds to the sums of a strip the products with one row of the kernel. Each element of the kernel is loaded once,
// and so is each column for which sees is true: it stays in a register for as many elements as there are sums.
func (k *nest) strip(sums []*loop.Ref, window sliding.Window, axis int, sees func(column int64) bool, weight,
	x func(i int64) loop.Expr) {
	seen := map[int64]loop.Expr{}
	for i := range window.Kernel[axis] {
		var w loop.Expr
		for p, sum := range sums {
			column := int64(p)*window.Strides[axis] + i*window.Dilations[axis]
			if !sees(column) {
				continue
			}
			if w == nil {
				w = k.Let("w", weight(i))
			}
			if seen[column] == nil {
				seen[column] = k.Let("x", x(column))
			}
			k.Reduce(sum, loop.Add, times(seen[column], w))
		}
	}
}
