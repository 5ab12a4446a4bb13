package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "winograd", Shape: winogradShape, Mean: winogradMean, Work: winogradWork, Samples: winogradSamples,
		Lowerings: []Lowering{{Name: "blocks", When: winogradIsBlocks, Build: winogradBlocks, Error: 1e-4}}})
}

// minimal is an algorithm for a convolution of three taps that takes as many multiplications as it reads elements (Winograd, 1980; Lavin and Gray, 2016). Nested with itself it computes a
// tile of outputs from a tile of inputs: outputᵀ [(weights g weightsᵀ) ⊙ (input d inputᵀ)] output.
type minimal struct{ input, weights, output [][]float64 }

// minimals are the algorithms by the outputs that they compute at once. Their points are 0, ±1, ∞, and 0, ±1, ±2, ∞.
var minimals = map[int64]minimal{
	2: {
		input:   [][]float64{{1, 0, -1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}},
		weights: [][]float64{{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}},
		output:  [][]float64{{1, 1, 1, 0}, {0, 1, -1, 1}},
	},
	4: {
		input: [][]float64{{4, 0, -5, 0, 1, 0}, {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0}, {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}},
		weights: [][]float64{{1. / 4, 0, 0}, {-1. / 6, -1. / 6, -1. / 6}, {-1. / 6, 1. / 6, -1. / 6}, {1. / 24, 1. / 12, 1. / 6}, {1. / 24, -1. / 12, 1. / 6},
			{0, 0, 1}},
		output: [][]float64{{1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}},
	},
}

// Winograd is the convolution of x, [N, H, W, C], with a kernel of 3 × 3 side by side, without dilation or groups. Its
// weights are plain, [3, 3, C, O], and transformed by WinogradWeights for tiles of so many outputs each way,
// [(tile + 2)², C, O].
//
// Each result is within WinogradBound · Σ|x| · max|w| of the convolution, with the sum over the result's own window and
// the maximum over the filter. A tile that the algorithm would not compute so well is computed with the plain weights:
// see far.
func Winograd(b *ir.Builder, x, weights, plain, bias *ir.Value, tile int64, begin, end []sym.Expr) *ir.Value {
	inputs := []*ir.Value{x, weights, plain}
	if bias != nil {
		inputs = append(inputs, bias)
	}
	return b.Op("winograd", ir.Attrs{"tile": tile, "begin": begin, "end": end}, inputs...)
}

// WinogradWeights transforms weights [3, 3, C, O] of f32 into out, [(tile + 2)², C, O]; they are computed in f64 and rounded once.
func WinogradWeights(out, w []float32, channels, filters, tile int64) {
	g := minimals[tile].weights
	side := tile + 2
	half := make([]float64, 3*side*filters) // the kernel's columns transformed, [side, 3, O]
	for c := range channels {
		clear(half)
		for i := range side {
			for kx := range int64(3) {
				to := half[(i*3+kx)*filters:][:filters]
				for ky := range int64(3) {
					if f := g[i][ky]; f != 0 {
						for o, v := range w[((ky*3+kx)*channels+c)*filters:][:filters] {
							to[o] += f * float64(v)
						}
					}
				}
			}
		}
		for i := range side {
			for j := range side {
				to := out[((i*side+j)*channels+c)*filters:][:filters]
				a, b, d := half[i*3*filters:][:filters], half[(i*3+1)*filters:][:filters], half[(i*3+2)*filters:][:filters]
				for o := range to {
					to[o] = float32(g[j][0]*a[o] + g[j][1]*b[o] + g[j][2]*d[o])
				}
			}
		}
	}
}

func winogradShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 4); err != nil {
		return err
	}
	x, w, plain, tile := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type, n.Attrs.Int("tile", 0)
	begin, end := n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	ranks := len(x.Shape) == 4 && len(w.Shape) == 3 && len(plain.Shape) == 4 && len(begin) == 2 && len(end) == 2
	if !ranks || minimals[tile].input == nil || x.DType != dtype.F32 || w.DType != dtype.F32 || plain.DType != dtype.F32 {
		return fault(n, "input %s, weights %s and %s, in tiles of %d", x, w, plain, tile)
	}
	for _, pair := range [][2]sym.Expr{{w.Shape[0], sym.Const((tile + 2) * (tile + 2))}, {w.Shape[1], x.Shape[3]},
		{plain.Shape[0], sym.Const(3)}, {plain.Shape[1], sym.Const(3)}, {plain.Shape[2], x.Shape[3]}, {plain.Shape[3], w.Shape[2]}} {
		if err := c.RequireEqual(n, pair[0], pair[1], "transformed weights"); err != nil {
			return err
		}
	}
	shape := []sym.Expr{x.Shape[0], {}, {}, w.Shape[2]}
	for i := range begin {
		shape[1+i] = c.Dims().Simplify(sym.Sum(x.Shape[1+i], begin[i], end[i], sym.Const(-2)))
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[1+i]}, "the kernel fits the padded input"); err != nil {
			return err
		}
	}
	if bias := input(n, 3); bias != nil {
		if len(bias.Type.Shape) != 1 || bias.Type.DType != dtype.F32 {
			return fault(n, "a bias %s", bias.Type)
		}
		if err := c.RequireEqual(n, bias.Type.Shape[0], shape[3], "one bias for each output channel"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

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
	size, places := x.Shape(), out.Shape()
	channels, filters := size[3], places[3]
	flat := int64(0)
	tensor.Each(places, func(at []int64) {
		sum := 0.0
		if bias != nil {
			sum = bias.Float(at[3])
		}
		for tap := range int64(9) {
			y, z := at[1]+tap/3-begin[0], at[2]+tap%3-begin[1]
			if y < 0 || y >= size[1] || z < 0 || z >= size[2] {
				continue
			}
			for c := range channels {
				sum += x.Float(((at[0]*size[1]+y)*size[2]+z)*channels+c) * w.Float((tap*channels+c)*filters+at[3])
			}
		}
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// combined are the sums that the rows of a matrix make of some values. Two rows that differ in the signs of some columns share their sums of those and of the others.
func (k *Nest) combined(rows [][]float64, values []loop.Expr) []loop.Expr {
	sum := func(row []float64, wanted func(i int) bool) loop.Expr {
		var total loop.Expr
		for _, negative := range []bool{false, true} {
			for i, f := range row {
				if f == 0 || f < 0 != negative || !wanted(i) {
					continue
				}
				term := values[i]
				if math.Abs(f) != 1 {
					term = times(like(term, math.Abs(f)), term)
				}
				switch {
				case total == nil && negative:
					total = loop.Apply(loop.Neg, term)
				case total == nil:
					total = term
				case negative:
					total = minus(total, term)
				default:
					total = plus(total, term)
				}
			}
		}
		return total
	}
	out := make([]loop.Expr, 0, len(rows))
	for len(out) < len(rows) {
		row := rows[len(out)]
		if len(out)+1 < len(rows) {
			other := rows[len(out)+1]
			mirrored, same, opposite := true, 0, 0
			for i, f := range row {
				mirrored = mirrored && math.Abs(f) == math.Abs(other[i])
				if f != 0 && f == other[i] {
					same++
				} else if f != 0 {
					opposite++
				}
			}
			if mirrored && same > 0 && opposite > 0 {
				even := k.Let("even", sum(row, func(i int) bool { return row[i] == other[i] }))
				odd := k.Let("odd", sum(row, func(i int) bool { return row[i] != other[i] }))
				out = append(out, k.Let("w", plus(even, odd)), k.Let("w", minus(even, odd)))
				continue
			}
		}
		out = append(out, k.Let("w", sum(row, func(int) bool { return true })))
	}
	return out
}

// winogradBlock is how much is done at once: rows and columns of tiles, parts of the output channels, each a loop over chunks of them.
type winogradBlock struct{ rows, columns, parts, chunk int64 }

const (
	fewestTiles   = 24      // rows of a product: below, weights pass by for too little
	mostTiles     = 64      // of a block
	winogradBytes = 4 << 20 // of a block's transformed inputs, at most
)

// winogradBlockOf chooses a block for so many output rows and columns; false where there is none. A block covers whole tiles, or the image.
func winogradBlockOf(height, width, channels, filters, tile int64) (b winogradBlock, ok bool) {
	rows, columns := (height+tile-1)/tile, (width+tile-1)/tile
	if height < 1 || width < 1 || channels < 1 || filters < 1 {
		return b, false
	}
	b.rows, b.columns = rows, columns
	if width%tile == 0 && columns > mostTiles {
		b.columns = divisor(columns, fewestTiles, mostTiles)
	}
	if height%tile == 0 {
		b.rows = divisor(rows, (fewestTiles+b.columns-1)/b.columns, rows)
	}
	b.chunk = filters
	if filters%64 == 0 {
		b.chunk = 64
	}
	b.parts = winogradParts(b, rows*columns, filters)
	return b, b.rows*b.columns*(tile+2)*(tile+2)*channels*4 <= winogradBytes
}

// winogradParts is how many parts of the output channels an image of so many tiles takes for there to be work for all.
func winogradParts(b winogradBlock, tiles, filters int64) int64 {
	return divisor(filters/b.chunk, (8*b.rows*b.columns+tiles-1)/tiles, filters/b.chunk)
}

// winogradFreeBlock is the most that a block has in an image of unknown size, which is likely to have so many output
// rows and columns; false if its tiles are too few.
func winogradFreeBlock(height, width, channels, filters, tile int64) (b winogradBlock, ok bool) {
	if channels < 1 || filters < 1 {
		return b, false
	}
	tiles := min(mostTiles, winogradBytes/((tile+2)*(tile+2)*channels*4))
	if tiles < fewestTiles {
		return b, false
	}
	b.columns = min(tiles, 16)
	b.rows, b.chunk = tiles/b.columns, filters
	if filters%64 == 0 {
		b.chunk = 64
	}
	b.parts = winogradParts(b, (height+tile-1)/tile*((width+tile-1)/tile), filters)
	return b, true
}

// winogradGrid is how blocks lie in an image. If the image's size is not known, a block has at most rows × columns
// tiles: the columns are shared evenly among the blocks beside each other, so that the last block may reach beyond the
// image, and the last block below has the rows that are left.
type winogradGrid struct {
	winogradBlock
	count  [2]sym.Expr // of blocks, along rows and columns
	tiles  [2]sym.Expr // of the image, along rows and columns; empty if fixed
	fixed  bool        // every block has rows × columns tiles
	ragged [2]bool     // whether tiles may reach beyond the image, along rows and columns
}

// winogradGridOf chooses the blocks for an image of outputs, [N, H, W, O]; false if there is none.
func winogradGridOf(x, out []sym.Expr, tile int64, d *sym.Dims) (g winogradGrid, ok bool) {
	channels, known := x[3].Const()
	filters, is := out[3].Const()
	if !known || !is {
		return g, false
	}
	by, number := sym.Const(tile), sym.Const
	if s, fixed := constants(out[1:3]); fixed {
		g.winogradBlock, ok = winogradBlockOf(s[0], s[1], channels, filters, tile)
		if !ok {
			return g, false
		}
		g.count = [2]sym.Expr{number((s[0] + tile - 1) / tile / g.rows), number((s[1] + tile - 1) / tile / g.columns)}
		g.fixed, g.ragged = true, [2]bool{s[0]%tile != 0, s[1]%tile != 0}
		return g, true
	}
	height, width := WinogradSizes(out, d)
	if g.winogradBlock, ok = winogradFreeBlock(height, width, channels, filters, tile); !ok {
		return g, false
	}
	g.tiles = [2]sym.Expr{out[1].CeilDiv(by), out[2].CeilDiv(by)}
	g.count = [2]sym.Expr{g.tiles[0].CeilDiv(number(g.rows)), g.tiles[1].CeilDiv(number(g.columns))}
	g.ragged = [2]bool{!isMultiple(out[1], tile), true}
	return g, true
}

// isMultiple reports whether a number is seen to divide an extent.
func isMultiple(extent sym.Expr, by int64) bool {
	rest, ok := extent.Mod(sym.Const(by)).Const()
	return ok && rest == 0
}

// sizeOf is how many rows and columns of tiles a block has, of those that are the row-th from the top.
func (g *winogradGrid) sizeOf(row sym.Expr) (rows, columns sym.Expr) {
	if g.fixed {
		return sym.Const(g.rows), sym.Const(g.columns)
	}
	rows = g.tiles[0].Sub(row.Mul(sym.Const(g.rows))).Min(sym.Const(g.rows))
	return rows, g.tiles[1].CeilDiv(g.count[1].Max(one)).Min(sym.Const(g.columns))
}

func winogradIsBlocks(n *ir.Node, d *sym.Dims) bool {
	_, ok := winogradGridOf(n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, n.Attrs.Int("tile", 0), d)
	return ok
}

// usualSide is what a dimension that decides an image's rows or columns counts as where a size must be guessed.
const usualSide = 256

// WinogradSizes are output rows and columns as they are, or as they are likely to be for dimensions in their ranges.
func WinogradSizes(out []sym.Expr, d *sym.Dims) (height, width int64) {
	guess := func(x sym.Expr) int64 {
		if v, fixed := x.Const(); fixed {
			return v
		}
		v, err := x.Eval(func(name sym.Name) (int64, bool) {
			r, ok := d.Get(name)
			if !ok {
				return usualSide, true
			}
			return min(max(usualSide, r.Min), r.Max), true
		})
		if err != nil {
			return usualSide
		}
		return min(max(v, 1), 1<<20)
	}
	return guess(out[1]), guess(out[2])
}

// WinogradCost is about what a convolution of 3 × 3 costs for each image by tiles of so many outputs each way, or directly where tile is 0, in multiplications; ok is false where it cannot be.
func WinogradCost(height, width, channels, filters, tile int64) (cost int64, ok bool) {
	if tile == 0 {
		return times64(height*width*9, channels*filters), true
	}
	b, ok := winogradBlockOf(height, width, channels, filters, tile)
	if !ok {
		return 0, false
	}
	return winogradCost(b, height, width, channels, filters, tile), true
}

// WinogradFreeCost is WinogradCost for an image of likely rows and columns that are not known.
func WinogradFreeCost(height, width, channels, filters, tile int64) (cost int64, ok bool) {
	if tile == 0 {
		return WinogradCost(height, width, channels, filters, 0)
	}
	most, ok := winogradFreeBlock(height, width, channels, filters, tile)
	if !ok {
		return 0, false
	}
	rows, columns := (height+tile-1)/tile, (width+tile-1)/tile
	most.rows, most.columns = min(most.rows, rows), min(most.columns, columns)
	height, width = (rows+most.rows-1)/most.rows*most.rows*tile, (columns+most.columns-1)/most.columns*most.columns*tile
	return winogradCost(most, height, width, channels, filters, tile), true
}

func winogradCost(b winogradBlock, height, width, channels, filters, tile int64) int64 {
	side := (tile + 2) * (tile + 2)
	blocks := ((height + tile - 1) / tile / b.rows) * ((width + tile - 1) / tile / b.columns)
	tiles := b.rows * b.columns
	// Transforming an element of a tile costs as much as about eight multiplications of a product.
	return times64(blocks*side, max(tiles, fewestTiles)*channels*filters+8*tiles*(channels*b.parts+filters))
}

func times64(x, y int64) int64 { return x * y }

// winogradBlocks transforms the inputs of a block of tiles, multiplies them by the weights, matrix by matrix, and transforms what comes out.
func winogradBlocks(k *Nest, n *ir.Node) {
	x, u, plain, bias, out := k.In[0], k.In[1], k.In[2], present(k.In, 3), k.Out[0]
	tile, begin := n.Attrs.Int("tile", 0), n.Attrs.Exprs("begin")
	block, _ := winogradGridOf(x.Shape, out.Shape, tile, k.D)
	filters, _ := out.Shape[3].Const()
	side := tile + 2
	channels, chunk, most := x.Shape[3], sym.Const(block.chunk), sym.Const(block.rows*block.columns)
	k.Reshape(plain, sym.Const(3), channels.Mul(sym.Const(3)), plain.Shape[3])
	form := &winogradForm{k, x, plain, tile, block, channels, chunk, out.Shape[1], out.Shape[2]}
	k.Nest(loop.Each, "b", []sym.Expr{sym.Const(block.parts), x.Shape[0], block.count[0], block.count[1]}, func(b []sym.Expr) {
		rows, columns := block.sizeOf(b[2])
		firstRow, firstColumn := b[2].Mul(sym.Const(block.rows*tile)), b[3].Mul(columns.Mul(sym.Const(tile)))
		tiles := rows.Mul(columns)
		place := &winogradPlace{form, rows, columns, b[1], firstRow.Sub(begin[0]), firstColumn.Sub(begin[1])}
		far := place.far(firstRow, firstColumn)
		seen := k.Local("seen", x.DType, sym.Const(side*side), most, channels)
		k.Each("r", rows, func(r sym.Expr) {
			half := k.Local("half", x.DType, sym.Const(side), sym.Const(block.columns*tile+2), channels)
			top := firstRow.Add(r.Mul(sym.Const(tile))).Sub(begin[0])
			k.Each("h", columns.Mul(sym.Const(tile)).Add(sym.Const(2)), func(h sym.Expr) {
				z := firstColumn.Add(h).Sub(begin[1])
				column := func(value func(y, c sym.Expr) loop.Expr) func() {
					return func() {
						k.Each("c", channels, func(c sym.Expr) {
							values := make([]loop.Expr, side)
							for i := range values {
								values[i] = k.Let("d", value(top.Add(sym.Const(int64(i))), c))
							}
							for i, v := range k.combined(minimals[tile].input, values) {
								k.Store(half, []sym.Expr{sym.Const(int64(i)), h, c}, v)
							}
						})
					}
				}
				within := loop.Inside(z, sym.Const(0), x.Shape[2])
				k.When(loop.Apply2(loop.And, within, loop.Inside(top, sym.Const(0), x.Shape[1].Sub(sym.Const(side-1)))),
					column(func(y, c sym.Expr) loop.Expr { return x.Load(b[1], y, z, c) }),
					column(func(y, c sym.Expr) loop.Expr {
						return x.LoadIf(loop.Apply2(loop.And, loop.Inside(y, sym.Const(0), x.Shape[1]), within), loop.Number(x.DType, 0), b[1], y, z, c)
					}))
			})
			k.Nest(loop.Each, "v", []sym.Expr{columns, sym.Const(side), channels}, func(at []sym.Expr) {
				values := make([]loop.Expr, side)
				for j := range values {
					values[j] = k.Let("d", half.Load(at[1], at[0].Mul(sym.Const(tile)).Add(sym.Const(int64(j))), at[2]))
				}
				for j, v := range k.combined(minimals[tile].input, values) {
					k.Store(seen, []sym.Expr{at[1].Mul(sym.Const(side)).Add(sym.Const(int64(j))), r.Mul(columns).Add(at[0]), at[2]}, v)
				}
			})
		})
		k.Each("o", sym.Const(filters/block.parts/block.chunk), func(o sym.Expr) {
			first := b[0].Mul(sym.Const(filters / block.parts)).Add(o.Mul(chunk))
			sums := k.Local("sums", x.DType, sym.Const(side*side), most, chunk)
			k.Each("p", sym.Const(side*side), func(p sym.Expr) {
				acc := k.Local("acc", x.DType, most, chunk)
				part := []sym.Expr{tiles, chunk}
				k.Nest(loop.Each, "z", part, func(at []sym.Expr) { k.Store(acc, at, loop.Number(x.DType, 0)) })
				k.Contract(tiles, chunk, channels, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
					seen.Tile([]sym.Expr{p, {}, {}}, unit(3, 1, one), unit(3, 2, one)), u.Tile([]sym.Expr{p, {}, first}, unit(3, 1, one), unit(3, 2, one)))
				k.Nest(loop.Each, "m", part, func(at []sym.Expr) { k.Store(sums, []sym.Expr{p, at[0], at[1]}, acc.Load(at...)) })
			})
			k.Nest(loop.Each, "t", []sym.Expr{rows, columns}, func(t []sym.Expr) {
				row, column := firstRow.Add(t[0].Mul(sym.Const(tile))), firstColumn.Add(t[1].Mul(sym.Const(tile)))
				// Where the last tiles reach beyond the image there are no results.
				store := func(p, q, c sym.Expr, v loop.Expr) {
					y, x := row.Add(p), column.Add(q)
					if bias != nil {
						v = plus(v, bias.Load(first.Add(c)))
					}
					write := func() { k.Store(out, []sym.Expr{b[1], y, x, first.Add(c)}, v) }
					if block.ragged[0] || block.ragged[1] {
						inRow, inColumn := loop.Inside(y, sym.Const(0), out.Shape[1]), loop.Inside(x, sym.Const(0), out.Shape[2])
						k.When(loop.Apply2(loop.And, inRow, inColumn), write, nil)
						return
					}
					write()
				}
				k.When(loop.Apply2(loop.Ne, far.Load(t...), loop.Number(dtype.F32, 0)), func() { place.direct(t, first, store) }, func() {
					k.Each("c", chunk, func(c sym.Expr) {
						half := make([][]loop.Expr, side)
						for j := range half {
							values := make([]loop.Expr, side)
							for i := range values {
								values[i] = k.Let("s", sums.Load(sym.Const(int64(i)*side+int64(j)), t[0].Mul(columns).Add(t[1]), c))
							}
							half[j] = k.combined(minimals[tile].output, values)
						}
						for p := range tile {
							values := make([]loop.Expr, side)
							for j := range values {
								values[j] = half[j][p]
							}
							for q, v := range k.combined(minimals[tile].output, values) {
								store(sym.Const(p), sym.Const(int64(q)), c, v)
							}
						}
					})
				})
			})
		})
	})
}

func winogradSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, tile := range []int64{2, 4} {
		for i, shape := range [][]int64{{1, 8, 8, 3}, {2, 7, 6, 2}, {1, 5, 3, 1}, {0, 4, 4, 2}} {
			pad := ir.Constants([]int64{int64(i % 2), 1})
			plain := sampleNormal(r, dtype.F32, 3, 3, shape[3], 4)
			transformed := tensor.Must(tensor.New(dtype.F32, (tile+2)*(tile+2), shape[3], 4))
			weights, _ := tensor.Data[float32](plain)
			to, _ := tensor.Data[float32](transformed)
			WinogradWeights(to, weights, shape[3], 4, tile)
			in := []*tensor.Tensor{sampleNormal(r, dtype.F32, shape...), transformed, plain}
			if i%2 == 0 {
				in = append(in, sampleNormal(r, dtype.F32, 4))
			}
			out = append(out, Sample{Attrs: ir.Attrs{"tile": tile, "begin": pad, "end": pad}, Inputs: in, Constant: []int{1, 2, 3}})
		}
	}
	return out
}
