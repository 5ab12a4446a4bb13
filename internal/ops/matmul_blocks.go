package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator matmul_blocks.
func init() {
	define(&Def{Op: "matmul_blocks", apart: apartBefore(1),
		NoGrad: "its weights are quantised, and it is for inference",
		Shape:  matmulBlocksShape, Mean: matmulBlocksMean, Samples: matmulBlocksSamples, Work: matmulBlocksWork,
		Lowerings: []Lowering{{Name: "panels", Build: matmulBlocksPanels}}})
}

// Blocks describes the weights of MatMulBlocks: Depth × Columns numbers of Bits bits (2, 4 or 8). A weight is its
// number minus the zero point, times the scale; Block consecutive steps of the sum share both, in each column. Columns
// are stored in panels of BlocksPanel.
type Blocks struct {
	Bits, Block, Depth, Columns int64
	Zero                        int64 // the zero point of all weights, if there is no tensor of zero points
}

// BlocksPanel is the number of columns of a panel, which are contiguous. The number of panels is even, or 1.
const BlocksPanel = 16

// PerWord returns the number of weights in a word.
func (w Blocks) PerWord() int64 { return 32 / w.Bits }

// Words returns the number of words of a column.
func (w Blocks) Words() int64 { return (w.Depth + w.PerWord() - 1) / w.PerWord() }

// Count returns the number of blocks of a column.
func (w Blocks) Count() int64 { return (w.Depth + w.Block - 1) / w.Block }

// Panels returns the number of panels: even, or 1.
func (w Blocks) Panels() int64 {
	n := (w.Columns + BlocksPanel - 1) / BlocksPanel
	if n > 1 {
		n += n % 2
	}
	return n
}

// fits reports whether the numbers describe a possible layout.
func (w Blocks) fits() bool {
	known := w.Bits == 2 || w.Bits == 4 || w.Bits == 8
	return known && w.Block > 0 && w.Block%w.PerWord() == 0 && w.Depth > 0 && w.Columns > 0 && w.Zero >= 0 &&
		w.Zero < 1<<w.Bits
}

// MatMulBlocks multiplies x, […, Depth] of f32, by weights of few bits. words (i32) is [panels, words of a column,
// BlocksPanel]: a word holds the weights of consecutive steps, the first in its lowest bits. scale and zero (u8; nil:
// Blocks.Zero) are [panels, blocks, BlocksPanel]. Scales are finite. Elements beyond Depth and Columns are not read.
// The weights stay packed in memory: they are unpacked in registers for few rows of x, and once, panel by panel, for
// many rows.
func MatMulBlocks(b *ir.Builder, x, words, scale, zero *ir.Value, w Blocks) *ir.Value {
	inputs := []*ir.Value{x, words, scale}
	if zero != nil {
		inputs = append(inputs, zero)
	}
	return b.Op("matmul_blocks", ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth, "columns": w.Columns,
		"zero": w.Zero}, inputs...)
}

// weightsOf returns a node's Blocks.
func weightsOf(n *ir.Node) Blocks {
	return Blocks{Bits: n.Attrs.Int("bits", 0), Block: n.Attrs.Int("block", 0), Depth: n.Attrs.Int("depth", 0),
		Columns: n.Attrs.Int("columns", 0), Zero: n.Attrs.Int("zero", 0)}
}

// matmulBlocksShape checks x, words, scales and zero points against the layout and infers […, Columns] of f32.
func matmulBlocksShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 4); err != nil {
		return err
	}
	w, x, words, scale := weightsOf(n), n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	if !w.fits() || len(x.Shape) < 1 || x.DType != dtype.F32 || words.DType != dtype.I32 || !scale.DType.IsFloat() ||
		scale.DType.Bits() > 32 {
		return fault(n, "%s by %s with scales %s: %d × %d weights of %d bits in blocks of %d", x, words, scale, w.Depth,
			w.Columns, w.Bits, w.Block)
	}
	last := len(x.Shape) - 1
	if err := c.RequireEqual(n, x.Shape[last], sym.Const(w.Depth),
		"the axis that a matrix product sums over"); err != nil {
		return err
	}
	if err := w.laid(c, n, n.Inputs[1], w.Words()); err != nil {
		return err
	}
	if err := w.laid(c, n, n.Inputs[2], w.Count()); err != nil {
		return err
	}
	if zero := input(n, 3); zero != nil {
		if zero.Type.DType != dtype.U8 {
			return fault(n, "zero points %s", zero.Type)
		}
		if err := w.laid(c, n, zero, w.Count()); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: dtype.F32, Shape: append(append([]sym.Expr{}, x.Shape[:last]...), sym.Const(w.Columns))})
	return nil
}

// laid requires that a value lies in panels.
func (w Blocks) laid(c *ir.Inference, n *ir.Node, v *ir.Value, along int64) error {
	want := []int64{w.Panels(), along, BlocksPanel}
	if len(v.Type.Shape) != len(want) {
		return fault(n, "weights %s in panels of %d", v.Type, BlocksPanel)
	}
	for i, extent := range want {
		if err := c.RequireEqual(n, v.Type.Shape[i], sym.Const(extent), "weights in panels"); err != nil {
			return err
		}
	}
	return nil
}

// matmulBlocksWork returns the number of operations: two for each weight and row.
func matmulBlocksWork(n *ir.Node) sym.Expr {
	w, x := weightsOf(n), n.Inputs[0].Type.Shape
	return product(x[:len(x)-1]).Mul(sym.Const(2 * w.Depth * w.Columns))
}

// matmulBlocksMean is the reference: it unpacks each column and multiplies all rows by it, in 64 bits.
func matmulBlocksMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	w, x, zero := weightsOf(n), in[0], present(in, 3)
	column := make([]float64, w.Depth)
	rows := x.Len() / w.Depth
	for c := range w.Columns {
		t, at := c/BlocksPanel, c%BlocksPanel
		for k := range w.Depth {
			word := uint32(in[1].Int((t*w.Words()+k/w.PerWord())*BlocksPanel + at))
			block := (t*w.Count()+k/w.Block)*BlocksPanel + at
			less := w.Zero
			if zero != nil {
				less = zero.Int(block)
			}
			column[k] = float64(int64(word>>(w.Bits*(k%w.PerWord())))&(1<<w.Bits-1)-less) * in[2].Float(block)
		}
		for r := range rows {
			sum := 0.0
			for k, v := range column {
				sum += x.Float(r*w.Depth+int64(k)) * v
			}
			out.SetFloat(r*w.Columns+c, sum)
		}
	}
	return []*tensor.Tensor{out}, nil
}

const (
	blocksFewRows  = 8       // the most rows for which weights are unpacked in registers, for each blocksRowsOnce of them
	blocksRowsOnce = 4       // rows that share weights unpacked in registers
	blocksChains   = 4       // independent sums, of one row or several: enough to hide the latency of an addition
	blocksElements = 1 << 20 // about the number of elements of x multiplied with an unpacked panel: they stay in the cache
	blocksLeast    = 256     // the fewest rows that are multiplied with an unpacked panel
)

// blocksNest writes the kernel of a MatMulBlocks.
type blocksNest struct {
	*Nest
	Blocks
	x, words, scale, zero, out *loop.Memory
	rows                       sym.Expr
}

// matmulBlocksPanels lowers MatMulBlocks: each iteration computes the columns of two panels.
func matmulBlocksPanels(k *Nest, n *ir.Node) {
	f := &blocksNest{Nest: k, Blocks: weightsOf(n), x: k.In[0], words: k.In[1], scale: k.In[2], zero: present(k.In, 3),
		out: k.Out[0]}
	f.rows = product(f.x.Shape[:len(f.x.Shape)-1])
	k.Reshape(f.x, f.rows, sym.Const(f.Depth))
	k.Reshape(f.out, f.rows, sym.Const(f.Columns))
	wide := min(2, f.Panels())
	pairs := sym.Const(f.Panels() / wide)
	few := func(t sym.Expr, rows int64) {
		k.Each("u", sym.Const(wide), func(u sym.Expr) { f.few(t.Mul(sym.Const(wide)).Add(u), rows) })
	}
	most := max(blocksLeast, blocksElements/f.Depth)
	pieces := f.rows.CeilDiv(sym.Const(most))
	many := func(t, piece sym.Expr) { f.many(t.Mul(sym.Const(wide)), wide, piece.Mul(sym.Const(most)), most) }
	rows, fixed := f.rows.Const()
	switch {
	case fixed && rows <= blocksFewRows:
		k.Each("t", pairs, func(t sym.Expr) { few(t, min(max(rows, 1), blocksRowsOnce)) })
	case fixed:
		k.Each("part", pieces, func(piece sym.Expr) { k.Each("t", pairs, func(t sym.Expr) { many(t, piece) }) })
	default:
		upTo := func(rows int64) loop.Expr {
			return loop.Apply2(loop.Le, loop.At(f.rows), loop.At(sym.Const(rows)))
		}
		k.Each("t", pairs, func(t sym.Expr) {
			k.When(upTo(1), func() { few(t, 1) }, func() {
				k.When(upTo(blocksFewRows), func() { few(t, blocksRowsOnce) }, func() {
					k.Each("part", pieces, func(piece sym.Expr) { many(t, piece) })
				})
			})
		})
	}
}

// weight returns the i-th weight of a word, minus the zero point.
func (f *blocksNest) weight(word loop.Expr, i int64, zero loop.Expr) loop.Expr {
	bits := word
	if i > 0 {
		bits = loop.Apply2(loop.Shr, bits, loop.Integer(dtype.I32, f.Bits*i))
	}
	bits = loop.Apply2(loop.And, bits, loop.Integer(dtype.I32, 1<<f.Bits-1))
	y := loop.Convert(dtype.F32, bits)
	if zero == nil {
		return y
	}
	return minus(y, zero)
}

// zeroAt returns the zero point of a panel's block for a column; nil if it is 0.
func (f *blocksNest) zeroAt(t, block, c sym.Expr) loop.Expr {
	switch {
	case f.zero != nil:
		return f.Let("zero", loop.Convert(dtype.F32, loop.Convert(dtype.I32, f.zero.Load(t, block, c))))
	case f.Zero != 0:
		return loop.Number(dtype.F32, float64(f.Zero))
	}
	return nil
}

// eachBlock calls do for each block of a column: the full blocks in a loop of the given kind, then the last, shorter
// block.
func (f *blocksNest) eachBlock(kind loop.LoopKind, do func(block sym.Expr, steps int64)) {
	full := f.Depth / f.Block
	if full > 0 {
		f.For(kind, "b", sym.Const(full), func(b sym.Expr) { do(b, f.Block) })
	}
	if rest := f.Depth % f.Block; rest > 0 {
		do(sym.Const(full), rest)
	}
}

// eachWord calls do for each word of a block of the given steps: with its index in a column, its first step and its
// number of steps.
func (f *blocksNest) eachWord(kind loop.LoopKind, block sym.Expr, steps int64,
	do func(word, first sym.Expr, count int64)) {
	per, words := f.PerWord(), block.Mul(sym.Const(f.Block/f.PerWord()))
	if full := steps / per; full > 0 {
		f.For(kind, "g", sym.Const(full), func(g sym.Expr) { do(words.Add(g), words.Add(g).Mul(sym.Const(per)), per) })
	}
	if rest := steps % per; rest > 0 {
		last := words.Add(sym.Const(steps / per))
		do(last, last.Mul(sym.Const(per)), rest)
	}
}

// few computes a panel's columns for all rows, atOnce rows at a time, with the weights unpacked in registers.
func (f *blocksNest) few(t sym.Expr, atOnce int64) {
	chains := max(1, blocksChains/atOnce)
	rows, fixed := f.rows.Const()
	even := fixed && rows%atOnce == 0 || atOnce == 1
	f.Each("r", f.rows.CeilDiv(sym.Const(atOnce)), func(r sym.Expr) {
		row := func(i int64) sym.Expr {
			at := r.Mul(sym.Const(atOnce)).Add(sym.Const(i))
			if even {
				return at
			}
			return at.Min(f.rows.Sub(one)) // missing rows compute the last one again and are not stored
		}
		f.Each("c", sym.Const(BlocksPanel), func(c sym.Expr) {
			totals := make([]*loop.Ref, atOnce)
			for i := range totals {
				totals[i] = f.Var("total", loop.Number(dtype.F32, 0))
			}
			f.eachBlock(loop.Serial, func(block sym.Expr, steps int64) {
				zero := f.zeroAt(t, block, c)
				sums := make([][]*loop.Ref, atOnce)
				for i := range sums {
					for range chains {
						sums[i] = append(sums[i], f.Var("sum", loop.Number(dtype.F32, 0)))
					}
				}
				f.eachWord(loop.Serial, block, steps, func(index, first sym.Expr, count int64) {
					word := f.Let("word", f.words.Load(t, index, c))
					for j := range count {
						weight := f.Let("weight", f.weight(word, j, zero))
						for i := range atOnce {
							f.Reduce(sums[i][j%chains], loop.Add, times(f.x.Load(row(i), first.Add(sym.Const(j))), weight))
						}
					}
				})
				scale := f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(t, block, c)))
				for i, total := range totals {
					var sum loop.Expr = sums[i][0]
					for _, other := range sums[i][1:] {
						sum = plus(sum, other)
					}
					f.Reduce(total, loop.Add, times(sum, scale))
				}
			})
			for i, total := range totals {
				at := r.Mul(sym.Const(atOnce)).Add(sym.Const(int64(i)))
				write := func() { f.store(at, t.Mul(sym.Const(BlocksPanel)).Add(c), total) }
				if even {
					write()
				} else {
					f.When(loop.Apply2(loop.Lt, loop.At(at), loop.At(f.rows)), write, nil)
				}
			}
		})
	})
}

// store stores a result if its column exists.
func (f *blocksNest) store(row, column sym.Expr, x loop.Expr) {
	var mask loop.Expr
	if f.Columns%BlocksPanel != 0 || f.Panels()*BlocksPanel != f.Columns {
		mask = loop.Apply2(loop.Lt, loop.At(column), loop.At(sym.Const(f.Columns)))
	}
	f.StoreIf(mask, f.out, []sym.Expr{row, column}, x)
}

// many unpacks wide panels, starting at t, and multiplies at most most rows, starting at first, by them.
func (f *blocksNest) many(t sym.Expr, wide int64, first sym.Expr, most int64) {
	depth, width, begin := sym.Const(f.Depth), sym.Const(wide*BlocksPanel), t.Mul(sym.Const(BlocksPanel))
	panel := f.Local("panel", dtype.F32, depth, width)
	f.Each("u", sym.Const(wide), func(u sym.Expr) {
		from := t.Add(u)
		f.eachBlock(loop.Each, func(block sym.Expr, steps int64) {
			f.eachWord(loop.Each, block, steps, func(index, step sym.Expr, count int64) {
				f.Each("c", sym.Const(BlocksPanel), func(c sym.Expr) {
					word := f.Let("word", f.words.Load(from, index, c))
					scale := f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(from, block, c)))
					zero := f.zeroAt(from, block, c)
					for j := range count {
						f.Store(panel, []sym.Expr{step.Add(sym.Const(j)), u.Mul(sym.Const(BlocksPanel)).Add(c)},
							times(f.weight(word, j, zero), scale))
					}
				})
			})
		})
	})
	rows, columns := f.rows, width
	if n, fixed := rows.Const(); !fixed || n > most {
		rows = f.rows.Sub(first).Min(sym.Const(most))
	}
	if f.Columns%(wide*BlocksPanel) != 0 {
		columns = sym.Const(f.Columns).Sub(begin).Min(width)
	}
	acc := f.Local("acc", dtype.F32, f.rows.Min(sym.Const(most)), width)
	each := func(hint string, body func(at []sym.Expr)) {
		f.Nest.Nest(loop.Each, hint, []sym.Expr{rows, columns}, body)
	}
	each("z", func(at []sym.Expr) { f.Store(acc, at, loop.Number(dtype.F32, 0)) })
	f.Contract(rows, columns, depth, acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
		f.x.Tile([]sym.Expr{first, sym.Const(0)}, unit(2, 0, one), unit(2, 1, one)),
		panel.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)))
	each("o", func(at []sym.Expr) { f.Store(f.out, []sym.Expr{first.Add(at[0]), begin.Add(at[1])}, acc.Load(at...)) })
}

// matmulBlocksSamples returns weights of several widths, blocks and zero points.
func matmulBlocksSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, s := range []struct {
		lead []int64
		Blocks
		zeros bool
		scale dtype.DType
	}{
		{[]int64{1}, Blocks{4, 16, 48, 16, 8}, false, dtype.F32},
		{[]int64{}, Blocks{4, 16, 37, 21, 0}, true, dtype.F32},
		{[]int64{3}, Blocks{4, 32, 43, 50, 0}, true, dtype.F16},
		{[]int64{2, 3}, Blocks{2, 16, 50, 33, 2}, false, dtype.F32},
		{[]int64{11}, Blocks{4, 16, 37, 21, 0}, true, dtype.F32},
		{[]int64{3, 5}, Blocks{8, 64, 50, 70, 128}, false, dtype.BF16},
		{[]int64{9}, Blocks{2, 16, 5, 3, 0}, true, dtype.F32},
		{[]int64{0}, Blocks{4, 16, 16, 16, 0}, false, dtype.F32},
		{[]int64{300}, Blocks{8, 4, 6, 17, 0}, true, dtype.F32},
	} {
		w := s.Blocks
		integers := func(dt dtype.DType, most int64, shape ...int64) *tensor.Tensor {
			t := tensor.Must(tensor.New(dt, shape...))
			for i := range t.Len() {
				t.SetInt(i, r.Int63n(most))
			}
			return t
		}
		scale := tensor.Must(tensor.New(s.scale, w.Panels(), w.Count(), BlocksPanel))
		for i := range scale.Len() {
			scale.SetFloat(i, 0.01+r.Float64())
		}
		in := []*tensor.Tensor{sampleNormal(r, dtype.F32, append(s.lead, w.Depth)...),
			integers(dtype.I32, 1<<32, w.Panels(), w.Words(), BlocksPanel), scale}
		if s.zeros {
			in = append(in, integers(dtype.U8, 1<<w.Bits, w.Panels(), w.Count(), BlocksPanel))
		}
		constant := []int{1, 2, 3}[:len(in)-1]
		out = append(out, Sample{Constant: constant, Attrs: ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth,
			"columns": w.Columns, "zero": w.Zero}, Inputs: in})
	}
	return out
}
