package recipes

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sliding"
	"github.com/weirml/weir/internal/sym"
)

// convolutionPixels computes a pointwise convolution: one matrix product per group, over all positions of all images.
func convolutionPixels(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	groups, last := k.groups, len(out.Shape)-1
	leading := out.Shape[:last]
	inner, perGroup := w.Shape[last-1], sliding.GroupOf(out.Shape[last], groups)
	k.Reshape(x, sym.Product(leading...), x.Shape[last])
	separate := k.separateGroups(w, groups, inner)
	sliding.Grouped(k.Builder, groups, func(group sym.Expr) {
		first := group.Mul(perGroup)
		filters := w.Tile([]sym.Expr{{}, first}, unit(2, 0, one), unit(2, 1, one))
		if separate {
			filters = w.Tile([]sym.Expr{{}, group, {}}, unit(3, 0, one), unit(3, 2, one))
		}
		acc := k.begun(k.optional(2), out, sym.Product(leading...), sym.Product(leading...), first, perGroup)
		k.Contract(acc.Shape[0], perGroup, inner, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			x.Tile([]sym.Expr{{}, group.Mul(inner)}, unit(2, 0, one), unit(2, 1, one)),
			filters)
		k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
			k.Store(out, append(sym.Unravel(at[0], leading), first.Add(at[1])), loop.Convert(out.DType, acc.Load(at...)))
		})
	})
}

// separateGroups reshapes weights to the axes before, then groups and the filters of a group, if there are several
// groups and a constant number of filters: panels of columns then start with a group's first filter. Otherwise groups
// and filters are one axis, and it returns false.
func (k *nest) separateGroups(w *loop.Memory, groups int64, before ...sym.Expr) bool {
	filters, fixed := w.Shape[len(w.Shape)-1].Const()
	if groups == 1 || !fixed {
		k.Reshape(w, append(before, w.Shape[len(w.Shape)-1])...)
		return false
	}
	k.Reshape(w, append(before, sym.Const(groups), sym.Const(filters/groups))...)
	return true
}

// begun declares an accumulator of positions × channels for out, with space for room positions; channel i starts with
// bias[first + i], or 0 if bias is nil.
func (k *nest) begun(bias, out *loop.Memory, room, positions, first, channels sym.Expr) *loop.Memory {
	dt := out.DType.Accumulator()
	acc := k.Local("acc", dt, room, channels)
	k.Nest(loop.Each, "z", []sym.Expr{positions, channels}, func(at []sym.Expr) {
		start := loop.Expr(loop.Number(dt, 0))
		if bias != nil {
			start = loop.Convert(dt, bias.Load(first.Add(at[1])))
		}
		k.Store(acc, at, start)
	})
	return acc
}

// rowsForm is a convolution whose last two spatial axes are called rows and columns; a convolution along one axis has a
// single row. Spatial axes before them are called lead.
type rowsForm struct {
	*nest
	window       sliding.Window
	x, w, out    *loop.Memory
	bias         *loop.Memory
	inner, outer sym.Expr   // input and output channels of a group
	lead         int        // axes before rows
	size         []sym.Expr // input extents: lead, rows, columns
	outSize      []sym.Expr // output extents: lead, rows, columns
	groups       int64
	block        rowsBlock
	holes        bool // see HasHoles
	groupAxis    bool // w has an axis for groups; see separateGroups
}

// rowsBlock is the size of the block that one iteration computes.
type rowsBlock struct {
	rows     int64    // output rows; the last block may have fewer, if the input is gathered
	columns  sym.Expr // output columns; the last block may have fewer; all of them if rows > 1
	splits   int64    // the number of blocks into which the output channels are divided
	gathered bool     // the input that a row of the kernel sees is copied position by position
}

const (
	fewestPositions = 48        // of a product; with fewer, several rows form a block
	mostPositions   = 256       // of a product; with more, a row is divided
	gatheredBytes   = 400 << 10 // about the most bytes that a block copies
	nearBytes       = 600 << 10 // about the size of the weights of a block of channels, if rows are computed one by one
	sharedPositions = 24        // the fewest of a block that is made smaller for several workers
	sharedWork      = 300_000   // multiplications of such a block, about: some microseconds
	namedChannels   = 16        // the fewest input channels for which rows are copied position by position
	// about the number of blocks of output channels, if there may be one block of positions only
	namedSplits = 4
)

// choose returns the block, which depends on the shapes alone.
func (f *rowsForm) choose() rowsBlock {
	last := len(f.outSize) - 1
	b := rowsBlock{rows: 1, columns: f.outSize[last], splits: 1}
	width, fixed := f.outSize[last].Const()
	height := constant(f.outSize[last-1], 1)
	if f.unpadded() && constant(f.outSize[last-1], 0) == 1 {
		return b // one product
	}
	if !fixed && constant(f.outSize[last-1], 0) == 1 && constant(f.inner, namedChannels) >= namedChannels {
		b.columns = sym.Const(f.sizes.Rows)
		if channels := constant(f.outer, 0); channels%f.sizes.Columns == 0 {
			b.splits = divisor(channels/f.sizes.Columns, namedSplits, channels/f.sizes.Columns)
		}
	}
	if !fixed || width < 1 || height < 1 {
		b.splits = max(b.splits, f.nearSplits())
		return b
	}
	kernelRow := max(f.window.Kernel[last]*constant(f.inner, 64), 1)
	b.gathered = width < fewestPositions
	element := int64(f.x.DType.Bits() / 8)
	switch {
	case b.gathered:
		// Each block copies again the input rows that it shares with its neighbours.
		bytes := func(rows int64) (total int64) {
			for _, ph := range phases(f.window.Kernel[last-1], f.window.Strides[last-1], f.window.Dilations[last-1]) {
				total += (rows + (ph.taps-1)*ph.shift) * width * kernelRow * element
			}
			return total
		}
		b.rows = divisor(height, (fewestPositions+width-1)/width, height)
		for b.rows > 1 && bytes(b.rows) > gatheredBytes {
			smaller := divisor(height, 1, b.rows-1)
			for d := smaller; d < b.rows; d++ {
				if height%d == 0 {
					smaller = d
				}
			}
			if smaller*width < fewestPositions/2 {
				break
			}
			b.rows = smaller
		}
		b.rows = f.sharedRows(b.rows, height, width)
	case width > mostPositions:
		if c := divisor(width, mostPositions/2, mostPositions); c >= fewestPositions {
			b.columns = sym.Const(c)
		}
	default:
		b.rows = divisor(height, 2, max(2, height/f.sizes.Blocks))
	}
	blocks := f.groups * ceilDiv(height, b.rows) * (width / constant(b.columns, width))
	for _, extent := range append([]sym.Expr{f.x.Shape[0]}, f.outSize[:last-1]...) {
		blocks *= max(constant(extent, 1), 1)
	}
	if channels := constant(f.outer, 0); channels%f.sizes.Columns == 0 && blocks < f.sizes.Blocks {
		b.splits = divisor(channels/f.sizes.Columns, (f.sizes.Blocks+blocks-1)/blocks, channels/f.sizes.Columns)
	}
	return b
}

// sharedRows returns the number of output rows of a gathered block such that all workers of a run have about the same
// work: at most most, the number for one worker. A smaller block copies more of the rows that it shares with its
// neighbours, and reads the weights for fewer positions.
func (f *rowsForm) sharedRows(most, height, width int64) int64 {
	if f.sizes.Workers < 2 || f.holes { // with holes, all rows of a copy are read
		return most
	}
	others := f.groups * max(constant(f.outer, 0)/f.sizes.Columns, 1)
	for _, extent := range append([]sym.Expr{f.x.Shape[0]}, f.outSize[:f.lead]...) {
		others *= max(constant(extent, 1), 1)
	}
	each := width * constant(f.outer, 64) * constant(f.inner, 64) // multiplications for a row of positions
	for _, n := range f.window.Kernel {
		each *= n
	}
	least := max(ceilDiv(sharedWork, each), ceilDiv(sharedPositions, width))
	rows, best := most, int64(math.MaxInt64)
	for r := min(least, most); r <= most; r++ {
		tiles := func(rows int64) int64 { return ceilDiv(rows*width, f.sizes.Sums) + min(rows, 1) }
		time := busiest(f.sizes.Workers, others, height/r, tiles(r), tiles(height%r))
		if time <= best {
			rows, best = r, time
		}
	}
	return rows
}

// nearSplits returns the number of blocks of output channels for which the weights of each block stay in the cache
// while all output rows read them.
func (f *rowsForm) nearSplits() int64 {
	channels := constant(f.outer, 0)
	if channels%f.sizes.Columns != 0 || channels == 0 || f.groups > 1 {
		return 1
	}
	bytes := int64(f.w.DType.Bits() / 8)
	for _, extent := range f.w.Shape {
		bytes *= constant(extent, 1)
	}
	return divisor(channels/f.sizes.Columns, (bytes+nearBytes-1)/nearBytes, channels/f.sizes.Columns)
}

// at returns an index of x, out or w: before, then lead, the row and rest; the row is left out if the tensor has no
// axis for rows.
func (f *rowsForm) at(before []sym.Expr, lead []sym.Expr, row sym.Expr, rest ...sym.Expr) []sym.Expr {
	index := append(append([]sym.Expr{}, before...), lead...)
	if len(f.x.Shape) > 3 {
		index = append(index, row)
	}
	return append(index, rest...)
}

// alone turns a convolution along one axis into one along columns with a single row.
func (f *rowsForm) alone() {
	f.size, f.outSize = append([]sym.Expr{one}, f.size...), append([]sym.Expr{one}, f.outSize...)
	w := f.window
	f.window = sliding.Window{
		Kernel: append([]int64{1}, w.Kernel...), Strides: append([]int64{1}, w.Strides...),
		Dilations: append([]int64{1}, w.Dilations...),
		Begin:     append([]sym.Expr{{}}, w.Begin...), End: append([]sym.Expr{{}}, w.End...),
	}
}

// convolutionRows computes a convolution with its channels last: each iteration computes one block of rows, columns and
// channels by taps, gathered or padded.
func convolutionRows(k *convolution) {
	x, w, out := k.In[0], k.In[1], k.Out[0]
	rank := len(x.Shape)
	window := k.window
	f := &rowsForm{nest: k.nest, window: window, x: &loop.Memory{}, w: w, out: out, bias: k.optional(2),
		groups: k.groups, lead: max(rank-4, 0),
		holes: k.holes}
	*f.x = *x
	f.inner, f.outer = w.Shape[rank-2], sliding.GroupOf(out.Shape[rank-1], f.groups)
	f.size, f.outSize = x.Shape[1:rank-1], out.Shape[1:rank-1]
	if rank == 3 {
		f.alone()
	}
	f.block = f.choose()
	far := f.far()
	if far {
		f.block = f.farBlock()
	}
	// Along a row, columns and channels are one axis, of x as of the kernel.
	k.Reshape(x, append(append([]sym.Expr{}, x.Shape[:rank-2]...), x.Shape[rank-2].Mul(x.Shape[rank-1]))...)
	f.groupAxis = k.separateGroups(w, f.groups, append(append([]sym.Expr{}, w.Shape[:rank-3]...),
		w.Shape[rank-3].Mul(f.inner))...)
	last := len(f.outSize) - 1
	blocks := append([]sym.Expr{sym.Const(f.block.splits), out.Shape[0], sym.Const(f.groups)}, f.outSize[:last-1]...)
	blocks = append(blocks, f.D.Simplify(f.outSize[last-1].CeilDiv(sym.Const(f.block.rows))))
	fullRow := f.block.columns.Equal(f.outSize[last])
	if !fullRow {
		blocks = append(blocks, k.D.Simplify(f.outSize[last].CeilDiv(f.block.columns)))
	}
	k.Nest(loop.Each, "b", blocks, func(b []sym.Expr) {
		p := &rowsPosition{rowsForm: f, image: b[1], group: b[2], lead: b[3 : 3+f.lead],
			row: b[3+f.lead].Mul(sym.Const(f.block.rows))}
		p.columns, p.room = f.block.columns, f.block.columns
		if !fullRow {
			p.column = b[4+f.lead].Mul(f.block.columns)
		}
		if _, fixed := f.outSize[last].Const(); !fixed {
			p.columns = f.D.Simplify(f.block.columns.Min(f.outSize[last].Sub(p.column)))
			p.room = f.D.Simplify(f.block.columns.Min(f.outSize[last]))
		}
		p.channels = f.outer.FloorDiv(sym.Const(f.block.splits))
		p.first = p.group.Mul(f.outer).Add(b[0].Mul(p.channels))
		switch {
		case far:
			p.taps()
		case f.block.gathered:
			p.gathered()
		default:
			p.padded()
		}
	})
}

// rowsPosition is one block, at its position: its origin and its output channels.
type rowsPosition struct {
	*rowsForm
	image, group, row, column sym.Expr
	lead                      []sym.Expr
	columns, room             sym.Expr // output columns of this block, and the most of any block
	first, channels           sym.Expr
}

// copied copies a section of the input, padding included, into a local. For each position of the kernel along the lead
// axes that lies in the input it copies rows; for each row, positions; for each position, columns with their channels.
// row and column return their position in the padded input. The local has space for mostRows rows of most columns.
func (p *rowsPosition) copied(name string, rows, mostRows, positions, columns, most sym.Expr,
	row func(j sym.Expr) sym.Expr, column func(position, k sym.Expr) sym.Expr, merged bool) *loop.Memory {
	f, last := p.rowsForm, len(p.outSize)-1
	local := f.Local(name, f.x.DType, append(numbers(f.window.Kernel[:f.lead]), mostRows.Mul(positions),
		most.Mul(f.inner))...)
	elements, first := p.leadElements()
	channels := f.inner.Mul(sym.Const(f.groups))
	f.Nest(loop.Each, "c", append(elements, rows, positions), func(at []sym.Expr) {
		to := make([]sym.Expr, f.lead)
		lead := make([]sym.Expr, f.lead)
		for i := range lead {
			to[i] = first[i].Add(at[i])
			lead[i] = f.window.Source(i, p.lead[i], to[i])
		}
		j, position := at[f.lead], at[f.lead+1]
		y := row(j).Sub(f.window.Begin[last-1])
		var inside loop.Expr // the row lies in the input
		if !f.window.Unpadded(last - 1) {
			inside = loop.Inside(y, sym.Const(0), f.size[last-1])
		}
		to = append(to, j.Mul(positions).Add(position))
		from := func(flat sym.Expr) []sym.Expr { return f.at([]sym.Expr{p.image}, lead, y, flat) }
		zeros := func(begin, end sym.Expr) {
			if count, fixed := end.Sub(begin).Const(); fixed && count <= 0 {
				return
			}
			f.Each("z", end.Sub(begin), func(e sym.Expr) {
				f.Store(local, append(to[:f.lead+1:f.lead+1], begin.Add(e)), loop.Number(f.x.DType, 0))
			})
		}
		length := columns.Mul(f.inner)
		copy := func() {
			if !merged {
				f.Nest(loop.Each, "e", []sym.Expr{columns, f.inner}, func(e []sym.Expr) {
					x := column(position, e[0]).Sub(f.window.Begin[last])
					index := from(x.Mul(channels).Add(p.group.Mul(f.inner)).Add(e[1]))
					value := f.x.Load(index...)
					if !f.window.Unpadded(last) {
						value = f.x.LoadIf(loop.Inside(x, sym.Const(0), f.size[last]), loop.Number(f.x.DType, 0), index...)
					}
					f.Store(local, append(to[:f.lead+1:f.lead+1], e[0].Mul(f.inner).Add(e[1])), value)
				})
				return
			}
			// The elements in [left, right) lie in the input.
			start := column(position, sym.Expr{}).Sub(f.window.Begin[last]).Mul(channels)
			left, right := sym.Expr{}, length
			if !f.window.Unpadded(last) {
				left = f.D.Simplify(start.Neg().Max(sym.Const(0)).Min(length))
				right = f.D.Simplify(f.size[last].Mul(channels).Sub(start).Max(left).Min(length))
				zeros(sym.Expr{}, left)
			}
			f.Each("e", right.Sub(left), func(e sym.Expr) {
				f.Store(local, append(to[:f.lead+1:f.lead+1], left.Add(e)), f.x.Load(from(start.Add(left).Add(e))...))
			})
			if !f.window.Unpadded(last) {
				zeros(right, length)
			}
		}
		if inside == nil {
			copy()
		} else {
			f.When(inside, copy, func() { zeros(sym.Expr{}, length) })
		}
	})
	return local
}

// phase is a set of kernel rows that share one copy of the input, in which consecutive output rows see consecutive
// copied rows: the kernel rows first, first + step, …, taps of them. From the first output row, the first kernel row
// sees input row offset; each further one sees the row copied shift rows later.
type phase struct{ first, step, taps, offset, shift int64 }

// phases divides the rows of a kernel into phases.
func phases(kernel, stride, dilation int64) []phase {
	if stride == 1 {
		return []phase{{step: 1, taps: kernel, shift: dilation}}
	}
	var list []phase
	for i := range kernel {
		switch {
		case dilation > 1:
			list = append(list, phase{first: i, taps: 1, offset: i * dilation})
		case i < stride:
			list = append(list, phase{first: i, step: stride, taps: (kernel - i + stride - 1) / stride, offset: i, shift: 1})
		}
	}
	return list
}

// gathered computes the block from copies, for each output position, of the input that each kernel row sees: positions
// of several output rows are then rows of one product.
func (p *rowsPosition) gathered() {
	f, last := p.rowsForm, len(p.outSize)-1
	width, stride := f.block.columns, f.window.Strides
	rows := f.rowsLeft(last-1, f.block.rows, p.row)
	list := phases(f.window.Kernel[last-1], stride[last-1], f.window.Dilations[last-1])
	copies := make([]*loop.Memory, len(list))
	for i, ph := range list {
		more := (ph.taps - 1) * ph.shift
		copies[i] = p.copied("columns", rows.Add(sym.Const(more)), sym.Const(f.block.rows+more), width,
			sym.Const(f.window.Kernel[last]), sym.Const(f.window.Kernel[last]),
			func(j sym.Expr) sym.Expr {
				return p.row.Add(j).Mul(sym.Const(stride[last-1])).Add(sym.Const(ph.offset))
			},
			func(position, k sym.Expr) sym.Expr {
				return p.column.Add(position).Mul(sym.Const(stride[last])).Add(k.Mul(sym.Const(f.window.Dilations[last])))
			}, f.groups == 1 && f.window.Dilations[last] == 1)
	}
	positions := rows.Mul(width)
	p.withoutHoles(copies, func() {
		acc := f.begun(f.bias, f.out, sym.Const(f.block.rows).Mul(width), positions, p.first, p.channels)
		elements, first := p.leadElements()
		for i, ph := range list {
			f.Nest(loop.Serial, "k", append(slices.Clone(elements), sym.Const(ph.taps)), func(at []sym.Expr) {
				lead, tap := added(first, at[:f.lead]), at[f.lead]
				columns := copies[i]
				f.Contract(positions, p.channels, columns.Shape[f.lead+1], acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
					columns.Tile(append(append([]sym.Expr{}, lead...), tap.Mul(sym.Const(ph.shift)).Mul(width), sym.Expr{}),
						unit(f.lead+2, f.lead, one), unit(f.lead+2, f.lead+1, one)),
					p.weights(lead, tap.Mul(sym.Const(ph.step)).Add(sym.Const(ph.first)), sym.Expr{}))
			})
		}
		p.store(acc, positions, p.row)
	})
}

// withoutHoles computes the block by product if its weights have no holes, or if all copied input is finite, so that a
// hole adds 0. Otherwise it computes the block directly.
func (p *rowsPosition) withoutHoles(copied []*loop.Memory, product func()) {
	f := p.rowsForm
	if !f.holes {
		product()
		return
	}
	number := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
	sum := f.Var("finite", number(0)) // 0 if all elements are finite, else NaN
	for _, m := range copied {
		// Copied columns are lanes, so that only one sum per lane remains.
		last := len(m.Shape) - 1
		sums := f.Local("finite", dtype.F32, m.Shape[last])
		f.Each("f", m.Shape[last], func(column sym.Expr) {
			each := f.Var("n", number(0))
			f.Nest(loop.Serial, "f", m.Shape[:last], func(at []sym.Expr) {
				f.Reduce(each, loop.Add, loop.Apply2(loop.Mul, m.Load(append(at[:last:last], column)...), number(0)))
			})
			f.Store(sums, []sym.Expr{column}, each)
		})
		f.Serial("f", m.Shape[last], func(column sym.Expr) { f.Reduce(sum, loop.Add, sums.Load(column)) })
	}
	f.When(loop.Apply2(loop.Eq, sum, number(0)), product, p.direct)
}

// direct computes the block as sums of products, skipping holes.
func (p *rowsPosition) direct() {
	f, last := p.rowsForm, len(p.outSize)-1
	number := func(v float64) loop.Expr { return loop.Number(dtype.F32, v) }
	terms := append(numbers(f.window.Kernel), f.inner)
	rows := f.rowsLeft(last-1, f.block.rows, p.row)
	f.Nest(loop.Each, "d", []sym.Expr{rows, p.columns, p.channels}, func(to []sym.Expr) {
		position := append(append([]sym.Expr{}, p.lead...), p.row.Add(to[0]), p.column.Add(to[1]))
		filter := p.first.Add(to[2])
		start := loop.Expr(number(0))
		if f.bias != nil {
			start = f.bias.Load(filter)
		}
		sum := f.Var("sum", start)
		f.Nest(loop.Serial, "k", terms, func(at []sym.Expr) {
			var mask loop.Expr
			from := make([]sym.Expr, len(position))
			for i := range position {
				from[i] = f.window.Source(i, position[i], at[i])
				mask = loop.Both(mask, f.window.Inside(i, from[i], f.size[i]))
			}
			channel := at[last+1]
			flat := from[last].Mul(f.inner.Mul(sym.Const(f.groups))).Add(p.group.Mul(f.inner)).Add(channel)
			index := f.at([]sym.Expr{p.image}, from[:f.lead], from[last-1], flat)
			value := f.x.Load(index...)
			if mask != nil {
				value = f.x.LoadIf(mask, number(0), index...)
			}
			weight := f.Let("w", f.w.Load(f.at(nil, at[:f.lead], at[last-1],
				append([]sym.Expr{at[last].Mul(f.inner).Add(channel)}, p.filter(to[2])...)...)...))
			hole := loop.Apply2(loop.And, loop.Apply2(loop.Eq, weight, number(0)),
				loop.Apply2(loop.Gt, loop.Apply2(loop.Div, number(1), weight), number(0)))
			f.Reduce(sum, loop.Add, loop.Choose(hole, number(0), loop.Apply2(loop.Mul, value, weight)))
		})
		f.Store(f.out, f.at([]sym.Expr{p.image}, p.lead, position[last-1], position[last], filter), sum)
	})
}

// filter returns the index of an output channel of the block in the weights' last axes.
func (p *rowsPosition) filter(channel sym.Expr) []sym.Expr {
	if p.groupAxis {
		return []sym.Expr{p.group, p.first.Sub(p.group.Mul(p.outer)).Add(channel)}
	}
	return []sym.Expr{p.first.Add(channel)}
}

// weights returns the tile of the weights that begins at a position of the kernel.
func (p *rowsPosition) weights(lead []sym.Expr, row, inRow sym.Expr) loop.Tile {
	rank, filter := len(p.w.Shape), p.filter(sym.Expr{})
	return p.w.Tile(p.at(nil, lead, row, append([]sym.Expr{inRow}, filter...)...), unit(rank, rank-1-len(filter), one),
		unit(rank, rank-1, one))
}

// store stores the given number of positions of an accumulator, starting at an output row.
func (p *rowsPosition) store(acc *loop.Memory, positions, row sym.Expr) {
	p.Nest(loop.Each, "o", []sym.Expr{positions, acc.Shape[1]}, func(at []sym.Expr) {
		y, x := row, p.column.Add(at[0])
		if p.block.rows > 1 && p.block.gathered {
			y, x = row.Add(at[0].FloorDiv(p.block.columns)), at[0].Mod(p.block.columns)
		}
		p.Store(p.out, p.rowsForm.at([]sym.Expr{p.image}, p.lead, y, x, p.first.Add(at[1])),
			loop.Convert(p.out.DType, acc.Load(at...)))
	})
}

// padded copies the rows that the block sees, with padding, and multiplies one output row at a time: neighbouring
// positions see slices of the copied row that begin a stride apart.
func (p *rowsPosition) padded() {
	f, last := p.rowsForm, len(p.outSize)-1
	if f.unpadded() {
		p.products(nil)
		return
	}
	stride := f.window.Strides
	rows := (f.block.rows-1)*stride[last-1] + f.window.Extent(last-1)
	width, most := f.seen(p.columns, last), f.seen(p.room, last)
	begin := p.column.Mul(sym.Const(stride[last]))
	from := p.copied("rows", sym.Const(rows), sym.Const(rows), one, width, most,
		func(j sym.Expr) sym.Expr { return p.row.Mul(sym.Const(stride[last-1])).Add(j) },
		func(_, k sym.Expr) sym.Expr { return begin.Add(k) }, f.groups == 1 && p.columns.Equal(p.room))
	p.withoutHoles([]*loop.Memory{from}, func() { p.products(from) })
}

// unpadded reports whether rows need no copy: there is one group, no hole, and no padding along rows and columns.
func (f *rowsForm) unpadded() bool {
	last := len(f.outSize) - 1
	return f.groups == 1 && !f.holes && f.window.Unpadded(last) && f.window.Unpadded(last-1)
}

// seen returns the number of input elements, padding included, that the given number of output positions read along an
// axis; 0 if there are no positions.
func (f *rowsForm) seen(positions sym.Expr, axis int) sym.Expr {
	seen := f.D.Simplify(positions.Sub(one).Mul(sym.Const(f.window.Strides[axis])).Add(sym.Const(f.window.Extent(axis))))
	if f.D.LE(sym.Expr{}, seen) != sym.Yes {
		return seen.Max(sym.Expr{}) // the window is shorter than its stride
	}
	return seen
}

// products multiplies one output row of the block at a time; from is the copied input, nil if the input itself is read.
func (p *rowsPosition) products(from *loop.Memory) {
	f, last := p.rowsForm, len(p.outSize)-1
	stride, dilation, kernel := f.window.Strides, f.window.Dilations, f.window.Kernel
	elements, first := p.leadElements()
	window, depth := append(elements, sym.Const(kernel[last-1])), sym.Const(kernel[last]).Mul(f.inner)
	if dilation[last] > 1 {
		window, depth = append(window, sym.Const(kernel[last])), f.inner
	}
	f.Each("r", sym.Const(f.block.rows), func(r sym.Expr) {
		acc := f.begun(f.bias, f.out, p.room, p.columns, p.first, p.channels)
		f.Nest(loop.Serial, "k", window, func(at []sym.Expr) {
			lead, row, x := added(first, at[:f.lead]), at[f.lead], sym.Expr{}
			if dilation[last] > 1 {
				x = at[last]
			}
			origin := append(append([]sym.Expr{}, lead...), r.Mul(sym.Const(stride[last-1])).
				Add(row.Mul(sym.Const(dilation[last-1]))), x.Mul(sym.Const(dilation[last])).Mul(f.inner))
			of, rank := from, f.lead+2
			if of == nil {
				source := make([]sym.Expr, f.lead)
				for i := range source {
					source[i] = f.window.Source(i, p.lead[i], lead[i])
				}
				y, before := p.row.Mul(sym.Const(stride[last-1])).Add(origin[f.lead]),
					p.column.Mul(sym.Const(stride[last])).Mul(f.inner)
				of, rank = f.x, len(f.x.Shape)-1
				origin = f.at([]sym.Expr{p.image}, source, y, before.Add(origin[f.lead+1]))
			}
			f.Contract(p.columns, p.channels, depth, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
				of.Tile(origin, unit(rank, rank-1, sym.Const(stride[last]).Mul(f.inner)), unit(rank, rank-1, one)),
				p.weights(lead, row, x.Mul(f.inner)))
		})
		p.store(acc, p.columns, p.row.Add(r))
	})
}
