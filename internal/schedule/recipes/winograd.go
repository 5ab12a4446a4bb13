package recipes

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/winograd"
)

// winogradForm has the data that all blocks of a kernel share. The transformed weights u are [planes of the kernel ·
// elements of a tile, channels, filters], and original is the kernel, [rows of all its planes, 3 · channels, filters].
type winogradForm struct {
	*nest
	x, u, original, bias, out *loop.Memory
	tile, kernel              int64 // outputs of a tile each way, and planes of the kernel
	block                     winogradGrid
	images, depth, planes     sym.Expr   // images, planes of the input, planes of the output
	size, outSize             []sym.Expr // rows, columns and channels of the input and of the output
	before                    sym.Expr   // planes of padding
	begin                     []sym.Expr // padding before rows and columns
	channels, chunk, most     sym.Expr   // input channels, filters computed at once, most tiles of a block in a plane
}

// winogradPosition is one block: its image, the first plane, row and column of its results, and the first row and
// column of the input that its first tile reads.
type winogradPosition struct {
	*winogradForm
	outputs, rows, columns            sym.Expr // planes of results, and rows and columns of tiles
	image                             sym.Expr
	firstPlane, firstRow, firstColumn sym.Expr
	top, left                         sym.Expr
}

// winogradBlocks is a recipe for Winograd's algorithm: it transforms the inputs of a block of tiles, multiplies them by
// the weights, one matrix for each element of a tile, and transforms the products back. It applies if a block fits.
func winogradBlocks(k *nest) bool {
	form, fits := winogradFormOf(k)
	if !fits {
		return false
	}
	// The kernel's planes and rows become one axis.
	k.Reshape(form.original, sym.Const(3*form.kernel), form.channels.Mul(sym.Const(3)), form.outSize[2])
	block := &form.block
	filters := constant(form.outSize[2], 0)
	along := []sym.Expr{sym.Const(block.splits), form.images, block.count[0], block.count[1]}
	k.deep(block.deep, func(deep sym.Expr) {
		k.Nest(loop.Each, "b", along, func(b []sym.Expr) {
			p := form.position(b[1], deep, b[2], b[3])
			far := p.far()
			seen := p.transformed()
			k.Each("o", sym.Const(filters/block.splits/block.chunk), func(o sym.Expr) {
				first := b[0].Mul(sym.Const(filters / block.splits)).Add(o.Mul(form.chunk))
				p.results(p.products(seen, first), far, first)
			})
		})
	})
	return true
}

// winogradFormOf reads the meaning and the parameters; ok is false if they do not fit each other, or no block fits.
func winogradFormOf(k *nest) (f *winogradForm, ok bool) {
	if len(k.In) < 3 || len(k.Out) != 1 || len(k.In[0].Shape) < 4 || len(k.In[0].Shape) > 5 {
		return nil, false
	}
	f = &winogradForm{nest: k, x: k.In[0], u: k.In[1], original: k.In[2], bias: k.optional(3), out: k.Out[0],
		tile: attribute[int64](k, "tile"), begin: attribute[[]sym.Expr](k, "begin"), kernel: 1, depth: one, planes: one,
		images: k.In[0].Shape[0]}
	rank := len(f.x.Shape)
	if winograd.Of(f.tile) == nil || len(f.begin) != rank-2 || len(f.out.Shape) != rank || len(f.original.Shape) != rank {
		return nil, false
	}
	if f.block, ok = (Costs{k.sizes}).winogradGridOf(f.x.Shape, f.out.Shape, f.original.Shape, f.begin, f.tile, k.D); !ok {
		return nil, false
	}
	if rank == 5 {
		f.kernel = planesOf(f.original.Shape)
		f.depth, f.planes = f.x.Shape[1], f.out.Shape[1]
		f.before, f.begin = f.begin[0], f.begin[1:]
	}
	f.size, f.outSize = f.x.Shape[rank-3:], f.out.Shape[rank-3:]
	f.channels, f.chunk, f.most = f.size[2], sym.Const(f.block.chunk), sym.Const(f.block.rows*f.block.columns)
	return f, true
}

// deep writes a loop of count iterations over body; without a loop if count is 1.
func (k *nest) deep(count sym.Expr, body func(i sym.Expr)) {
	if n, fixed := count.Const(); fixed && n == 1 {
		body(sym.Expr{})
		return
	}
	k.Each("d", count, body)
}

// position returns the block with these indices along planes, rows and columns of an image.
func (f *winogradForm) position(image, deep, down, right sym.Expr) *winogradPosition {
	rows, columns := f.block.sizeOf(down)
	p := &winogradPosition{winogradForm: f, rows: rows, columns: columns, image: image,
		firstRow:    down.Mul(sym.Const(f.block.rows * f.tile)),
		firstColumn: right.Mul(columns.Mul(sym.Const(f.tile)))}
	p.top, p.left = p.firstRow.Sub(f.begin[0]), p.firstColumn.Sub(f.begin[1])
	p.firstPlane = deep.Mul(sym.Const(f.block.planes))
	p.outputs = sym.Const(f.block.planes)
	if !isMultiple(f.planes, f.block.planes) {
		p.outputs = f.D.Simplify(f.planes.Sub(p.firstPlane).Min(p.outputs))
	}
	return p
}

// of returns an index of an image, or of a plane of it, in the axes of x and out.
func (p *winogradPosition) of(plane sym.Expr, rest ...sym.Expr) []sym.Expr {
	if len(p.x.Shape) == 4 {
		return append([]sym.Expr{p.image}, rest...)
	}
	return append([]sym.Expr{p.image, plane}, rest...)
}

// source returns the input's plane that the block reads as its plane i; it may be padding.
func (p *winogradPosition) source(i sym.Expr) sym.Expr { return p.firstPlane.Add(i).Sub(p.before) }

// within returns the range of those of a block's count planes, from plane `from` on, that lie in the input.
func (p *winogradPosition) within(from sym.Expr, count sym.Expr) (first, end sym.Expr) {
	if p.flat() {
		return sym.Expr{}, count
	}
	origin := p.before.Sub(p.firstPlane.Add(from))
	first = p.D.Simplify(origin.Max(sym.Const(0)))
	return first, p.D.Simplify(p.depth.Add(origin).Min(count).Max(first))
}

// flat reports whether the convolution is of images, without padding of planes.
func (f *winogradForm) flat() bool {
	n, fixed := f.depth.Const()
	return fixed && n == 1 && f.kernel == 1 && f.before.Equal(sym.Expr{})
}

// seenPlanes returns the number of planes that the block reads, padding included, and the most for any block.
func (p *winogradPosition) seenPlanes() (planes, most sym.Expr) {
	return p.outputs.Add(sym.Const(p.kernel - 1)), sym.Const(p.block.planes + p.kernel - 1)
}

// transformed returns the transformed inputs of the block: for each element of a tile, those of all tiles of each
// plane.
func (w *winogradPosition) transformed() *loop.Memory {
	k, side := w.nest, sym.Const(w.tile+2)
	planes, most := w.seenPlanes()
	seen := k.Local("seen", w.x.DType, side.Mul(side), most.Mul(w.most), w.channels)
	first, end := w.within(sym.Expr{}, planes)
	k.deep(w.D.Simplify(end.Sub(first)), func(i sym.Expr) {
		i = first.Add(i)
		k.Each("r", w.rows, func(r sym.Expr) {
			half := w.half(w.source(i), w.top.Add(r.Mul(sym.Const(w.tile))))
			k.Nest(loop.Each, "v", []sym.Expr{w.columns, side, w.channels}, func(at []sym.Expr) {
				values := make([]loop.Expr, w.tile+2)
				for j := range values {
					values[j] = k.Let("d", half.Load(at[1], at[0].Mul(sym.Const(w.tile)).Add(sym.Const(int64(j))), at[2]))
				}
				for j, v := range winograd.Combined(k.Builder, winograd.Of(w.tile).Input, values) {
					k.Store(seen, []sym.Expr{at[1].Mul(side).Add(sym.Const(int64(j))), i.Mul(w.most).Add(r.Mul(w.columns)).Add(at[0]),
						at[2]}, v)
				}
			})
		})
	})
	return seen
}

// half returns the transformed columns of a row of tiles whose first input row is top.
func (w *winogradPosition) half(plane, top sym.Expr) *loop.Memory {
	k, x, side := w.nest, w.x, w.tile+2
	half := k.Local("half", x.DType, sym.Const(side), sym.Const(w.block.columns*w.tile+2), w.channels)
	k.Each("h", w.columns.Mul(sym.Const(w.tile)).Add(sym.Const(2)), func(h sym.Expr) {
		z := w.left.Add(h)
		column := func(value func(y, c sym.Expr) loop.Expr) func() {
			return func() {
				k.Each("c", w.channels, func(c sym.Expr) {
					values := make([]loop.Expr, side)
					for i := range values {
						values[i] = k.Let("d", value(top.Add(sym.Const(int64(i))), c))
					}
					for i, v := range winograd.Combined(k.Builder, winograd.Of(w.tile).Input, values) {
						k.Store(half, []sym.Expr{sym.Const(int64(i)), h, c}, v)
					}
				})
			}
		}
		within := loop.Inside(z, sym.Const(0), w.size[1])
		k.When(loop.Apply2(loop.And, within, loop.Inside(top, sym.Const(0), w.size[0].Sub(sym.Const(side-1)))),
			column(func(y, c sym.Expr) loop.Expr { return x.Load(w.of(plane, y, z, c)...) }),
			column(func(y, c sym.Expr) loop.Expr {
				return x.LoadIf(loop.Apply2(loop.And, loop.Inside(y, sym.Const(0), w.size[0]), within), loop.Number(x.DType, 0),
					w.of(plane, y, z, c)...)
			}))
	})
	return half
}

// products returns the sums of products of the filters from first on: for each element of a tile, those of all tiles of
// each plane of results. The kernel's planes are summed before they are transformed back.
func (w *winogradPosition) products(seen *loop.Memory, first sym.Expr) *loop.Memory {
	k, elements := w.nest, (w.tile+2)*(w.tile+2)
	sums := k.Local("sums", w.x.DType, sym.Const(elements), sym.Const(w.block.planes).Mul(w.most), w.chunk)
	tiles := w.rows.Mul(w.columns)
	shape := []sym.Expr{tiles, w.chunk}
	k.Each("p", sym.Const(elements), func(p sym.Expr) {
		k.deep(w.outputs, func(plane sym.Expr) {
			acc := k.Local("acc", w.x.DType, w.most, w.chunk)
			k.Nest(loop.Each, "z", shape, func(at []sym.Expr) { k.Store(acc, at, loop.Number(w.x.DType, 0)) })
			add := func(tap sym.Expr) {
				k.Contract(tiles, w.chunk, w.channels, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
					seen.Tile([]sym.Expr{p, plane.Add(tap).Mul(w.most), {}}, unit(3, 1, one), unit(3, 2, one)),
					w.u.Tile([]sym.Expr{tap.Mul(sym.Const(elements)).Add(p), {}, first}, unit(3, 1, one), unit(3, 2, one)))
			}
			if w.flat() {
				add(sym.Expr{})
			} else {
				begin, end := w.within(plane, sym.Const(w.kernel))
				k.Serial("k", w.D.Simplify(end.Sub(begin)), func(tap sym.Expr) { add(begin.Add(tap)) })
			}
			k.Nest(loop.Each, "m", shape, func(at []sym.Expr) {
				k.Store(sums, []sym.Expr{p, plane.Mul(w.most).Add(at[0]), at[1]}, acc.Load(at...))
			})
		})
	})
	return sums
}

// results stores the sums of the filters from first on, transformed back; for far tiles, direct sums.
func (w *winogradPosition) results(sums, far *loop.Memory, first sym.Expr) {
	k, tile := w.nest, sym.Const(w.tile)
	w.deep(w.outputs, func(plane sym.Expr) {
		to := w.firstPlane.Add(plane)
		k.Nest(loop.Each, "t", []sym.Expr{w.rows, w.columns}, func(t []sym.Expr) {
			row, column := w.firstRow.Add(t[0].Mul(tile)), w.firstColumn.Add(t[1].Mul(tile))
			// The last tiles may extend beyond the image, where there are no results.
			store := func(p, q, c sym.Expr, v loop.Expr) {
				y, x := row.Add(p), column.Add(q)
				if w.bias != nil {
					v = plus(v, w.bias.Load(first.Add(c)))
				}
				write := func() { k.Store(w.out, w.of(to, y, x, first.Add(c)), v) }
				if w.block.ragged[0] || w.block.ragged[1] {
					inRow, inColumn := loop.Inside(y, sym.Const(0), w.outSize[0]), loop.Inside(x, sym.Const(0), w.outSize[1])
					k.When(loop.Apply2(loop.And, inRow, inColumn), write, nil)
					return
				}
				write()
			}
			isFar := far.Load(plane.Mul(sym.Const(w.block.rows)).Add(t[0]), t[1])
			k.When(loop.Apply2(loop.Ne, isFar, loop.Number(dtype.F32, 0)), func() { w.direct(plane, t, first, store) }, func() {
				k.Each("c", w.chunk, func(c sym.Expr) {
					w.back(func(i int64) loop.Expr {
						return sums.Load(sym.Const(i), plane.Mul(w.most).Add(t[0].Mul(w.columns)).Add(t[1]), c)
					}, func(p, q sym.Expr, v loop.Expr) { store(p, q, c, v) })
				})
			})
		})
	})
}

// back transforms the sums of a tile back and passes each result to store.
func (w *winogradPosition) back(sum func(element int64) loop.Expr, store func(p, q sym.Expr, v loop.Expr)) {
	k, side := w.nest, w.tile+2
	half := make([][]loop.Expr, side)
	for j := range half {
		values := make([]loop.Expr, side)
		for i := range values {
			values[i] = k.Let("s", sum(int64(i)*side+int64(j)))
		}
		half[j] = winograd.Combined(k.Builder, winograd.Of(w.tile).Output, values)
	}
	for p := range w.tile {
		values := make([]loop.Expr, side)
		for j := range values {
			values[j] = half[j][p]
		}
		for q, v := range winograd.Combined(k.Builder, winograd.Of(w.tile).Output, values) {
			store(sym.Const(p), sym.Const(int64(q)), v)
		}
	}
}
