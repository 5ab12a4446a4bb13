package recipes

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// This file computes convolutions with few output channels, which alone would fill few lanes. The kernel's elements
// along its last axes become, with the output channels, columns of one product: its rows are input positions, its
// elements the contribution of each kernel element at each position. A result is the sum of the contributions of
// neighbouring positions. The attribute "beside" is the number of these axes, one or two; weights [k…, I, O] are then
// [k before, I, k beside, O].

const (
	besideColumns = 112 // output columns of a block, if a row is long or its length is not a number
	besideLongest = 256 // the most output columns of a row that is one block
	besideRows    = 16  // output rows of a block, if both axes of the kernel are columns of the product
	besideFaster  = 0.8 // the estimated time, relative to other kernels, below which this one is chosen
	besideMoved   = 1.3 // the cost of storing and adding up a vector, in multiplications of vectors
	besideInputs  = 8   // the fewest input channels
)

// BesideAxes returns the best number of the kernel's last axes to lay beside the output channels of a convolution
// with its channels last, given the shapes of its input and result; 0 for none. The convolution has one group, and its
// weights no holes.
func (c Costs) BesideAxes(window sliding.Window, x, out []sym.Expr) int64 {
	rank := len(x)
	inner, known := x[rank-1].Const()
	filters, fixed := out[rank-1].Const()
	if !known || !fixed || inner < besideInputs || filters < 1 {
		return 0
	}
	vectors := func(columns int64) float64 { return float64((columns + c.sizes.Lanes - 1) / c.sizes.Lanes) }
	all := int64(1)
	for i, k := range window.Kernel {
		if window.Strides[i] != 1 {
			return 0
		}
		all *= k
	}
	best, least := int64(0), besideFaster*float64(all*inner)*vectors(filters)
	for axes := int64(1); axes <= min(2, int64(rank-2)); axes++ {
		f := newBesideForm(&nest{sizes: c.sizes}, window, x, out, axes)
		columns := f.elements * filters
		again := float64(f.rows+f.more) / float64(f.rows)
		cost := (float64(all/f.elements*inner)*vectors(columns) + besideMoved*float64(columns)) * again
		if cost < least {
			best, least = axes, cost
		}
	}
	return best
}

// besideForm is a convolution with the attribute "beside".
type besideForm struct {
	rowsForm
	both     bool  // rows and columns of the kernel are columns of the product; else columns only
	elements int64 // the number of kernel elements among the columns of the product
	rows     int64 // output rows of a block
	more     int64 // the input rows that a block sees in addition to rows
}

// newBesideForm returns the form for an input and a result, given by their shapes with channels last.
func newBesideForm(k *nest, window sliding.Window, x, out []sym.Expr, axes int64) *besideForm {
	rank := len(x)
	f := &besideForm{rowsForm: rowsForm{nest: k, window: window, x: &loop.Memory{}, groups: 1, lead: max(rank-4, 0)},
		both: axes > 1}
	f.x.Shape = x
	f.inner, f.outer = x[rank-1], out[rank-1]
	f.size, f.outSize = x[1:rank-1], out[1:rank-1]
	if rank == 3 {
		f.alone()
	}
	last := len(f.outSize) - 1
	f.elements, f.rows = f.window.Kernel[last], 1
	if f.both {
		f.elements *= f.window.Kernel[last-1]
		f.more = f.window.Extent(last-1) - 1
		line := 4 * f.elements * constant(f.outer, 1) * (min(constant(f.outSize[last], besideColumns), besideLongest) +
			f.window.Extent(last) - 1)
		height := max(constant(f.outSize[last-1], besideRows), 1)
		f.rows = min(max(f.sizes.Near/max(line, 1)-f.more, 1), besideRows, height)
		f.rows = ceilDiv(height, ceilDiv(height, f.rows))
	}
	return f
}

// convolutionBeside computes a convolution with the attribute "beside": each iteration computes one block of rows and
// columns.
func convolutionBeside(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	window := k.window
	f := newBesideForm(k.nest, window, x.Shape, out.Shape, k.beside)
	*f.x = *x
	f.w, f.out, f.bias = w, out, k.optional(2)
	k.Reshape(x, append(slices.Clone(x.Shape[:rank-2]), x.Shape[rank-2].Mul(x.Shape[rank-1]))...)
	before := rank - 2 - int(k.beside)
	k.Reshape(w, append(slices.Clone(w.Shape[:before]), f.inner, sym.Const(f.elements).Mul(f.outer))...)
	last := len(f.outSize) - 1
	columns := f.outSize[last]
	if width, fixed := columns.Const(); !fixed || width > besideLongest {
		columns = sym.Const(besideColumns)
	}
	blocks := append([]sym.Expr{out.Shape[0]}, f.outSize[:last-1]...)
	blocks = append(blocks, k.D.Simplify(f.outSize[last-1].CeilDiv(sym.Const(f.rows))))
	fullRow := columns.Equal(f.outSize[last])
	if !fullRow {
		blocks = append(blocks, k.D.Simplify(f.outSize[last].CeilDiv(columns)))
	}
	k.Nest(loop.Each, "b", blocks, func(b []sym.Expr) {
		p := &besidePosition{besideForm: f, rowsPosition: rowsPosition{rowsForm: &f.rowsForm, image: b[0],
			lead:    b[1 : 1+f.lead],
			row:     b[1+f.lead].Mul(sym.Const(f.rows)),
			columns: columns, room: columns}}
		if !fullRow {
			p.column = b[2+f.lead].Mul(columns)
			p.columns = k.D.Simplify(columns.Min(f.outSize[last].Sub(p.column)))
		}
		p.block()
	})
}

// besidePosition is one block of the result, at its position.
type besidePosition struct {
	*besideForm
	rowsPosition
	made *loop.Memory // the contribution of each kernel element at each position that the block reads, padding included
}

// block writes the computation of the block: the product, then the sums.
func (p *besidePosition) block() {
	f, last := p.besideForm, len(p.besideForm.outSize)-1
	k := f.rowsForm.nest
	positions := p.columns.Add(sym.Const(f.window.Extent(last) - 1))
	line := []sym.Expr{sym.Const(f.elements).Mul(f.outer), p.room.Add(sym.Const(f.window.Extent(last) - 1))}
	dt := f.out.DType.Accumulator()
	if !f.both {
		p.made = k.Local("made", dt, line...)
		first, end := f.rowsForm.elements(last-1, p.row, 1)
		p.line(nil, positions, []sym.Expr{k.D.Simplify(end.Sub(first))}, func(at []sym.Expr) (y, element sym.Expr) {
			element = first.Add(at[0])
			return f.window.Source(last-1, p.row, element), element
		})
		p.sums(one)
		return
	}
	rows := f.rowsLeft(last-1, f.rows, p.row)
	p.made = k.Local("made", dt, append([]sym.Expr{sym.Const(f.rows + f.more)}, line...)...)
	top := p.row.Sub(f.window.Begin[last-1])
	first, end := sym.Const(0), rows.Add(sym.Const(f.more))
	if !f.window.Unpadded(last - 1) {
		first = k.D.Simplify(top.Neg().Max(first).Min(end))
		end = k.D.Simplify(f.size[last-1].Sub(top).Min(end).Max(first))
	}
	k.Each("y", k.D.Simplify(end.Sub(first)), func(j sym.Expr) {
		j = first.Add(j)
		p.line([]sym.Expr{j}, positions, nil, func([]sym.Expr) (y, element sym.Expr) { return top.Add(j), sym.Expr{} })
	})
	p.sums(rows)
}

// line writes the contributions of a line of `positions` positions into made, at index at. It sums over the kernel
// elements along the axes whose elements are not columns; rows are the extents of the loop over the kernel's rows, if
// these are among them. source returns the input's row and the kernel's row for an index of that loop.
func (p *besidePosition) line(at []sym.Expr, positions sym.Expr, rows []sym.Expr,
	source func(at []sym.Expr) (y, element sym.Expr)) {
	f, last := p.besideForm, len(p.besideForm.outSize)-1
	k, columns := f.rowsForm.nest, p.made.Shape[len(at)]
	origin := p.column.Sub(f.window.Begin[last])
	left, right := sym.Const(0), positions
	fill := func(from, to sym.Expr) {
		count := k.D.Simplify(to.Sub(from))
		if n, fixed := count.Const(); fixed && n <= 0 {
			return
		}
		k.Nest(loop.Each, "z", []sym.Expr{columns, count}, func(z []sym.Expr) {
			k.Store(p.made, append(slices.Clone(at), z[0], from.Add(z[1])), loop.Number(p.made.DType, 0))
		})
	}
	if !f.window.Unpadded(last) {
		left = k.D.Simplify(origin.Neg().Max(left).Min(positions))
		right = k.D.Simplify(f.size[last].Sub(origin).Min(positions).Max(left))
		fill(sym.Const(0), left)
		fill(right, positions)
	}
	count := k.D.Simplify(right.Sub(left))
	acc := k.Local("acc", p.made.DType, p.made.Shape[len(at)+1], columns)
	k.Nest(loop.Each, "z", []sym.Expr{count, columns}, func(z []sym.Expr) { k.Store(acc, z, loop.Number(acc.DType, 0)) })
	elements, first := p.leadElements()
	multiply := func(e []sym.Expr) {
		lead, from := added(first, e[:f.lead]), make([]sym.Expr, f.lead)
		for i := range from {
			from[i] = f.window.Source(i, p.lead[i], lead[i])
		}
		y, element := source(e[f.lead:])
		weights := lead
		if len(rows) > 0 {
			weights = f.at(nil, lead, element)
		}
		rank, deep := len(f.x.Shape)-1, len(f.w.Shape)
		k.Contract(count, columns, f.inner, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			f.x.Tile(f.at([]sym.Expr{p.image}, from, y, origin.Add(left).Mul(f.inner)), unit(rank, rank-1, f.inner),
				unit(rank, rank-1, one)),
			f.w.Tile(append(slices.Clone(weights), sym.Expr{}, sym.Expr{}), unit(deep, deep-2, one), unit(deep, deep-1, one)))
	}
	if terms := append(elements, rows...); len(terms) > 0 {
		k.Nest(loop.Serial, "k", terms, multiply)
	} else {
		multiply(nil)
	}
	k.Nest(loop.Each, "m", []sym.Expr{count, columns}, func(m []sym.Expr) {
		k.Store(p.made, append(slices.Clone(at), m[1], left.Add(m[0])), acc.Load(m...))
	})
}

// sums adds up the contributions and stores the given number of rows of results.
func (p *besidePosition) sums(rows sym.Expr) {
	f, last := p.besideForm, len(p.besideForm.outSize)-1
	k, width, dilation := f.rowsForm.nest, f.window.Kernel[last], f.window.Dilations
	k.Nest(loop.Each, "s", []sym.Expr{rows, f.outer, p.columns}, func(at []sym.Expr) {
		row, filter, column := p.row.Add(at[0]), at[1], at[2]
		start := loop.Expr(loop.Number(p.made.DType, 0))
		if f.bias != nil {
			start = loop.Convert(p.made.DType, f.bias.Load(filter))
		}
		sum := k.Var("sum", start)
		add := func(before []sym.Expr, element sym.Expr) {
			for i := range width {
				from := append(slices.Clone(before), element.Add(sym.Const(i)).Mul(f.outer).Add(filter),
					column.Add(sym.Const(i*dilation[last])))
				k.Reduce(sum, loop.Add, p.made.Load(from...))
			}
		}
		if f.both {
			first, end := f.rowsForm.elements(last-1, row, 1)
			k.Serial("k", k.D.Simplify(end.Sub(first)), func(t sym.Expr) {
				t = first.Add(t)
				add([]sym.Expr{at[0].Add(t.Mul(sym.Const(dilation[last-1])))}, t.Mul(sym.Const(width)))
			})
		} else {
			add(nil, sym.Expr{})
		}
		k.Store(f.out, f.at([]sym.Expr{p.image}, p.lead, row, p.column.Add(column), filter), loop.Convert(f.out.DType, sum))
	})
}
