package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators quantize_blocks and matmul_blocks_bytes.
func init() {
	define(&Def{Op: "quantize_blocks", NoGrad: byPasses, Shape: quantizeBlocksShape, Mean: quantizeBlocksMean,
		Samples:   quantizeBlocksSamples,
		Lowerings: []Lowering{{Name: "rows", Build: quantizeBlocksRows}}})
	define(&Def{Op: "matmul_blocks_bytes", NoGrad: byPasses, Shape: blocksBytesShape, Mean: blocksBytesMean,
		Samples: blocksBytesSamples, Work: matmulBlocksWork,
		Lowerings: []Lowering{{Name: "panels", Build: blocksBytesPanels}}})
}

// BytesAllowed is an attribute of a product: its left operand may be rounded to bytes, in blocks.
const BytesAllowed = "bytes"

// leastOfScale is the smallest magnitude from which a block's scale is computed: smaller elements become 0, and no
// reciprocal overflows.
const leastOfScale = 1e-30

// FitsBytes reports whether x may be rounded to bytes in products by these weights: a block's sum must be within i32.
// If zeroTensor, zero points are a tensor: they are subtracted in f32, in which all sums must be exact.
func (w Blocks) FitsBytes(zeroTensor bool) bool {
	const exact = 24 // bits of f32
	most := int64(1) << 15
	if zeroTensor {
		most = 1 << (exact - 7 - w.Bits)
	}
	return w.fits() && w.Block <= most
}

// Step returns the step of the sum, within a word of weights, of weight index of the word, for products of bytes. The
// lowest bits of a word's bytes are four consecutive steps.
func (w Blocks) Step(index int64) int64 {
	perByte := 8 / w.Bits
	return index%perByte*4 + index/perByte
}

// wordsOfX returns the number of words, of four elements each, of a row of x.
func (w Blocks) wordsOfX() int64 { return w.Words() * w.PerWord() / 4 }

// QuantizeBlocks rounds x to signed bytes, with a scale for each block of a row. It returns the inputs of
// MatMulBlocksBytes.
func QuantizeBlocks(b *ir.Builder, x *ir.Value, w Blocks) []*ir.Value {
	return b.Node("quantize_blocks", ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth, "zero": w.Zero}, x).
		Outputs
}

// Quantised returns the weights' layout for QuantizeBlocks: if zero points are a tensor, its sums are multiplied by −1
// instead of minus the common zero point.
func (w Blocks) Quantised(zeroTensor bool) Blocks {
	w.Columns = 1
	if zeroTensor {
		w.Zero = 1
	}
	return w
}

// MatMulBlocksBytes is MatMulBlocks for an x that QuantizeBlocks returned. Sums within a block are exact. Blocks.Step
// describes the order of the weights of a word.
func MatMulBlocksBytes(b *ir.Builder, x []*ir.Value, words, scale, zero *ir.Value, w Blocks) *ir.Value {
	inputs := append(slices.Clone(x), words, scale)
	if zero != nil {
		inputs = append(inputs, zero)
	}
	return b.Op("matmul_blocks_bytes", ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth, "columns": w.Columns,
		"zero": w.Zero}, inputs...)
}

// quantizeBlocksShape infers, from x […, depth] (f32), its bytes, four to a word (i32), a scale for each block (f32),
// and the sum of each block's bytes times −zero (i32).
func quantizeBlocksShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	w, x := weightsOf(n), n.Inputs[0].Type
	w.Columns = 1
	if !w.FitsBytes(false) || len(x.Shape) < 1 || x.DType != dtype.F32 {
		return fault(n, "%s in blocks of %d of %d", x, w.Block, w.Depth)
	}
	last := len(x.Shape) - 1
	if err := c.RequireEqual(n, x.Shape[last], sym.Const(w.Depth),
		"the axis that a matrix product sums over"); err != nil {
		return err
	}
	along := func(extent int64) []sym.Expr {
		return append(slices.Clone(x.Shape[:last]), sym.Const(extent))
	}
	n.Result(0, ir.Type{DType: dtype.I32, Shape: along(w.wordsOfX())})
	n.Result(1, ir.Type{DType: dtype.F32, Shape: along(w.Count())})
	n.Result(2, ir.Type{DType: dtype.I32, Shape: along(w.Count())})
	return nil
}

// quantizeBlocksMean is the reference: the scale of a block is its greatest magnitude / 127.
func quantizeBlocksMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var out [3]*tensor.Tensor
	for i := range out {
		var err error
		if out[i], err = result(e, n, i); err != nil {
			return nil, err
		}
	}
	w, x := weightsOf(n), in[0]
	for r := range x.Len() / w.Depth {
		for block := range w.Count() {
			first, end := block*w.Block, min((block+1)*w.Block, w.Depth)
			most := float32(leastOfScale)
			for k := first; k < end; k++ {
				most = max(most, float32(math.Abs(x.Float(r*w.Depth+k))))
			}
			by, sum := 127/most, int64(0)
			for k := first; k < end; k++ {
				v := float32(math.RoundToEven(float64(float32(float32(x.Float(r*w.Depth+k)) * by))))
				byteOf := loop.ToInt(dtype.I32, loop.EvalCast(dtype.I32, dtype.F32, false, loop.FromFloat(dtype.F32, float64(v))))
				at := r*w.wordsOfX() + k/4
				out[0].SetInt(at, out[0].Int(at)|(byteOf&0xff)<<(8*(k%4)))
				sum += int64(int8(byteOf))
			}
			out[1].SetFloat(r*w.Count()+block, float64(most/127))
			out[2].SetInt(r*w.Count()+block, -sum*w.Zero)
		}
	}
	return out[:], nil
}

// quantizeNest writes the kernel of a quantize_blocks.
type quantizeNest struct {
	*Nest
	Blocks
	x, words, scale, less *loop.Memory
}

// quantizeBlocksRows lowers quantize_blocks: it visits each row three times, for the blocks' greatest magnitudes, for
// the words, which lanes compute regardless of blocks, and for the blocks' sums.
func quantizeBlocksRows(k *Nest, n *ir.Node) {
	f := &quantizeNest{Nest: k, Blocks: weightsOf(n), x: k.In[0], words: k.Out[0], scale: k.Out[1], less: k.Out[2]}
	rows := product(f.x.Shape[:len(f.x.Shape)-1])
	k.Reshape(f.x, rows, sym.Const(f.Depth))
	k.Reshape(f.words, rows, sym.Const(f.wordsOfX()))
	k.Reshape(f.scale, rows, sym.Const(f.Count()))
	k.Reshape(f.less, rows, sym.Const(f.Count()))
	blocks := func(do func(b sym.Expr, steps int64)) {
		full := f.Depth / f.Block
		k.Each("b", sym.Const(full), func(b sym.Expr) { do(b, f.Block) })
		if rest := f.Depth % f.Block; rest > 0 {
			do(sym.Const(full), rest)
		}
	}
	k.Each("r", rows, func(r sym.Expr) {
		by := k.Local("by", dtype.F32, sym.Const((f.Depth+3)/4)) // of each word
		blocks(func(b sym.Expr, steps int64) { f.scaled(r, b, steps, by) })
		k.Each("w", sym.Const(f.Depth/4), func(w sym.Expr) { f.word(r, w, 4, by) })
		if rest := f.Depth % 4; rest > 0 {
			f.word(r, sym.Const(f.Depth/4), rest, by)
		}
		beyond := (f.Depth + 3) / 4
		if more := f.wordsOfX() - beyond; more > 0 {
			k.Each("z", sym.Const(more), func(z sym.Expr) {
				k.Store(f.words, []sym.Expr{r, z.Add(sym.Const(beyond))}, loop.Integer(dtype.I32, 0))
			})
		}
		blocks(func(b sym.Expr, steps int64) {
			sum := k.Var("sum", loop.Integer(dtype.I32, 0))
			k.Serial("g", sym.Const((steps+3)/4), func(g sym.Expr) {
				k.Reduce(sum, loop.Add, loop.Apply2(loop.Dot, loop.Integer(dtype.I32, 0x01010101),
					f.words.Load(r, b.Mul(sym.Const(f.Block/4)).Add(g))))
			})
			k.Store(f.less, []sym.Expr{r, b}, loop.Apply2(loop.Mul, sum, loop.Integer(dtype.I32, -f.Zero)))
		})
	})
}

// scaled computes the scale of a block of the given steps, and the factors of its words' elements.
func (f *quantizeNest) scaled(r, b sym.Expr, steps int64, by *loop.Memory) {
	first := b.Mul(sym.Const(f.Block))
	most := f.Var("most", loop.Number(dtype.F32, leastOfScale))
	f.Serial("k", sym.Const(steps), func(i sym.Expr) {
		f.Reduce(most, loop.Max, loop.Apply(loop.Abs, f.x.Load(r, first.Add(i))))
	})
	f.Store(f.scale, []sym.Expr{r, b}, loop.Apply2(loop.Div, most, loop.Number(dtype.F32, 127)))
	all := f.Let("by", loop.Apply2(loop.Div, loop.Number(dtype.F32, 127), most))
	f.Each("g", sym.Const((steps+3)/4), func(g sym.Expr) {
		f.Store(by, []sym.Expr{b.Mul(sym.Const(f.Block / 4)).Add(g)}, all)
	})
}

// word computes a word of at most four elements.
func (f *quantizeNest) word(r, w sym.Expr, count int64, by *loop.Memory) {
	factor, word := f.Let("factor", by.Load(w)), loop.Expr(nil)
	for j := range count {
		v := loop.Convert(dtype.I32, loop.Apply(loop.Round, times(f.x.Load(r, w.Mul(sym.Const(4)).Add(sym.Const(j))),
			factor)))
		if j < 3 {
			v = loop.Apply2(loop.And, v, loop.Integer(dtype.I32, 0xff))
		}
		if j == 0 {
			word = v
			continue
		}
		word = loop.Apply2(loop.Or, word, loop.Apply2(loop.Shl, v, loop.Integer(dtype.I32, 8*j)))
	}
	f.Store(f.words, []sym.Expr{r, w}, word)
}

// quantizeBlocksSamples returns rows for several layouts of weights.
func quantizeBlocksSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, s := range []struct {
		lead []int64
		Blocks
	}{
		{[]int64{3}, Blocks{4, 16, 48, 1, 8}}, {[]int64{}, Blocks{4, 32, 37, 1, 1}},
		{[]int64{2, 3}, Blocks{2, 64, 150, 1, 2}},
		{[]int64{5}, Blocks{8, 20, 50, 1, 128}}, {[]int64{0}, Blocks{4, 16, 16, 1, 0}},
		{[]int64{1}, Blocks{4, 128, 1000, 1, 1}},
	} {
		x := sampleNormal(r, dtype.F32, append(s.lead, s.Depth)...)
		for i := int64(0); i < x.Len(); i += 37 {
			x.SetFloat(i, []float64{0, 1e-38, 3e38, -1e4}[i%4])
		}
		out = append(out, Sample{Attrs: ir.Attrs{"bits": s.Bits, "block": s.Block, "depth": s.Depth, "zero": s.Zero},
			Inputs: []*tensor.Tensor{x}})
	}
	return out
}

// blocksBytesShape checks the results of quantize_blocks and the words, scales and zero points of MatMulBlocks and
// infers […, Columns] of f32.
func blocksBytesShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 5, 6); err != nil {
		return err
	}
	w, x, words, scale := weightsOf(n), n.Inputs[0].Type, n.Inputs[3].Type, n.Inputs[4].Type
	if !w.FitsBytes(input(n, 5) != nil) || len(x.Shape) < 1 || x.DType != dtype.I32 || words.DType != dtype.I32 ||
		!scale.DType.IsFloat() || scale.DType.Bits() > 32 {
		return fault(n, "%s by %s with scales %s: %d × %d weights of %d bits in blocks of %d", x, words, scale, w.Depth,
			w.Columns, w.Bits, w.Block)
	}
	last := len(x.Shape) - 1
	for i, along := range []int64{w.wordsOfX(), w.Count(), w.Count()} {
		v := n.Inputs[i].Type
		if len(v.Shape) != len(x.Shape) || v.DType != []dtype.DType{dtype.I32, dtype.F32, dtype.I32}[i] {
			return fault(n, "%s as rows of bytes", v)
		}
		for axis, extent := range append(slices.Clone(x.Shape[:last]), sym.Const(along)) {
			if err := c.RequireEqual(n, v.Shape[axis], extent, "rows of bytes"); err != nil {
				return err
			}
		}
	}
	if err := w.laid(c, n, n.Inputs[3], w.Words()); err != nil {
		return err
	}
	for _, shared := range n.Inputs[4:] {
		if err := w.laid(c, n, shared, w.Count()); err != nil {
			return err
		}
	}
	if zero := input(n, 5); zero != nil && zero.Type.DType != dtype.U8 {
		return fault(n, "zero points %s", zero.Type)
	}
	n.Result(0, ir.Type{DType: dtype.F32, Shape: append(slices.Clone(x.Shape[:last]), sym.Const(w.Columns))})
	return nil
}

// blocksBytesMean is the reference: sums of integers within a block, times both scales, in 64 bits.
func blocksBytesMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	w, x, xScale, less, words, scale, zero := weightsOf(n), in[0], in[1], in[2], in[3], in[4], present(in, 5)
	for at := range out.Len() {
		r, c := at/w.Columns, at%w.Columns
		t, lane, total := c/BlocksPanel, c%BlocksPanel, 0.0
		for block := range w.Count() {
			shared := (t*w.Count()+block)*BlocksPanel + lane
			sum := less.Int(r*w.Count() + block)
			if zero != nil {
				sum *= zero.Int(shared)
			}
			for index := block * w.Block / w.PerWord(); index < min((block+1)*w.Block/w.PerWord(), w.Words()); index++ {
				word := uint32(words.Int((t*w.Words()+index)*BlocksPanel + lane))
				for i := range w.PerWord() {
					step := index*w.PerWord() + w.Step(i)
					value := int8(x.Int(r*w.wordsOfX()+step/4) >> (8 * (step % 4)))
					sum += int64(word>>(w.Bits*i)&(1<<w.Bits-1)) * int64(value)
				}
			}
			total += float64(sum) * scale.Float(shared) * xScale.Float(r*w.Count()+block)
		}
		out.SetFloat(at, total)
	}
	return []*tensor.Tensor{out}, nil
}

// The number of rows computed together by two panels, which share the loads of x: as many as leave registers for their
// sums; and smaller numbers for the remaining rows.
const (
	blocksBytesRows = 6
	blocksBytesLeft = 2
)

// blocksBytesWords is the number of words that are computed without a branch between them.
const blocksBytesWords = 4

// blocksBytesNest writes the kernel of a MatMulBlocksBytes.
type blocksBytesNest struct {
	*Nest
	Blocks
	x, xScale, less, words, scale, zero, out *loop.Memory
	rows                                     sym.Expr
}

// blocksBytesPanels lowers MatMulBlocksBytes: each iteration computes the columns of two panels for all rows.
func blocksBytesPanels(k *Nest, n *ir.Node) {
	f := &blocksBytesNest{Nest: k, Blocks: weightsOf(n), x: k.In[0], xScale: k.In[1], less: k.In[2], words: k.In[3],
		scale: k.In[4], zero: present(k.In, 5), out: k.Out[0]}
	f.rows = product(f.x.Shape[:len(f.x.Shape)-1])
	k.Reshape(f.x, f.rows, sym.Const(f.wordsOfX()))
	k.Reshape(f.xScale, f.rows, sym.Const(f.Count()))
	k.Reshape(f.less, f.rows, sym.Const(f.Count()))
	k.Reshape(f.out, f.rows, sym.Const(f.Columns))
	wide := min(2, f.Panels())
	k.Each("t", sym.Const(f.Panels()/wide), func(t sym.Expr) {
		panels := make([]sym.Expr, wide)
		for u := range panels {
			panels[u] = t.Mul(sym.Const(wide)).Add(sym.Const(int64(u)))
		}
		groups := func(from, count sym.Expr, atOnce int64, all bool) {
			k.Each("r", count, func(r sym.Expr) { f.panels(panels, from.Add(r.Mul(sym.Const(atOnce))), atOnce, all) })
		}
		if rows, fixed := f.rows.Const(); fixed {
			count := max(1, (rows+blocksBytesRows-1)/blocksBytesRows)
			atOnce := max(1, (rows+count-1)/count)
			groups(sym.Const(0), sym.Const((rows+atOnce-1)/atOnce), atOnce, rows%atOnce == 0)
			return
		}
		k.When(loop.Apply2(loop.Le, loop.At(f.rows), loop.At(one)), func() { groups(sym.Const(0), f.rows, 1, true) }, func() {
			full := f.rows.FloorDiv(sym.Const(blocksBytesRows))
			groups(sym.Const(0), full, blocksBytesRows, true)
			done := full.Mul(sym.Const(blocksBytesRows))
			groups(done, f.rows.Sub(done).CeilDiv(sym.Const(blocksBytesLeft)), blocksBytesLeft, false)
		})
	})
}

// panels computes panels' columns for atOnce rows from first on; all reports whether all of these rows exist.
func (f *blocksBytesNest) panels(panels []sym.Expr, first sym.Expr, atOnce int64, all bool) {
	row := func(i int64) sym.Expr {
		at := first.Add(sym.Const(i))
		if all {
			return at
		}
		return at.Min(f.rows.Sub(one)) // missing rows compute the last one again and are not stored
	}
	f.Each("c", sym.Const(BlocksPanel), func(c sym.Expr) {
		tile := &bytesTile{blocksBytesNest: f, panels: panels, column: c, row: row,
			totals: f.variables(loop.Number(dtype.F32, 0), len(panels), atOnce)}
		full := f.Depth / f.Block
		f.Serial("b", sym.Const(full), func(b sym.Expr) { tile.block(b, f.Block) })
		if rest := f.Depth % f.Block; rest > 0 {
			tile.block(sym.Const(full), rest)
		}
		for i := range atOnce {
			at := first.Add(sym.Const(i))
			write := func() {
				for u, t := range panels {
					f.store(at, t, c, tile.totals[u][i])
				}
			}
			if all {
				write()
			} else {
				f.When(loop.Apply2(loop.Lt, loop.At(at), loop.At(f.rows)), write, nil)
			}
		}
	})
}

// variables declares variables of one value, for each row of each panel.
func (f *blocksBytesNest) variables(value loop.Expr, panels int, rows int64) [][]*loop.Ref {
	out := make([][]*loop.Ref, panels)
	for u := range out {
		for range rows {
			out[u] = append(out[u], f.Var("sum", value))
		}
	}
	return out
}

// bytesTile is the state computed together: a column of each panel, for some rows.
type bytesTile struct {
	*blocksBytesNest
	panels []sym.Expr
	column sym.Expr
	row    func(i int64) sym.Expr
	totals [][]*loop.Ref
	sums   [][]*loop.Ref // of a block
}

// block adds the products of a block's steps to the totals.
func (f *bytesTile) block(b sym.Expr, steps int64) {
	f.begin(b)
	begin, words := b.Mul(sym.Const(f.Block/f.PerWord())), (steps+f.PerWord()-1)/f.PerWord()
	if full := words / blocksBytesWords; full > 1 {
		f.Serial("g", sym.Const(full), func(g sym.Expr) {
			for i := range int64(blocksBytesWords) {
				f.word(begin.Add(g.Mul(sym.Const(blocksBytesWords))).Add(sym.Const(i)))
			}
		})
		begin, words = begin.Add(sym.Const(full*blocksBytesWords)), words%blocksBytesWords
	}
	for i := range words {
		f.word(begin.Add(sym.Const(i)))
	}
	f.end(b)
}

// begin declares the sums of a block. If all weights have one zero point, the sums start with its contribution.
func (f *bytesTile) begin(b sym.Expr) {
	if f.zero != nil || f.Zero == 0 {
		f.sums = f.variables(loop.Integer(dtype.I32, 0), len(f.panels), int64(len(f.totals[0])))
		return
	}
	f.sums = make([][]*loop.Ref, len(f.panels))
	for i := range f.totals[0] {
		less := f.Let("less", f.less.Load(f.row(int64(i)), b))
		for u := range f.sums {
			f.sums[u] = append(f.sums[u], f.Var("sum", less))
		}
	}
}

// word adds the products of the steps in a word of each column.
func (f *bytesTile) word(index sym.Expr) {
	words := make([]loop.Expr, len(f.panels))
	for u, t := range f.panels {
		words[u] = f.Let("word", f.words.Load(t, index, f.column))
	}
	pieces := f.PerWord() / 4
	for h := range pieces {
		bytes := make([]loop.Expr, len(words))
		for u, word := range words {
			bytes[u] = f.Let("bytes", f.bytes(word, h))
		}
		at := index.Mul(sym.Const(pieces)).Add(sym.Const(h))
		for i := range f.totals[0] {
			x := f.Let("x", f.x.Load(f.row(int64(i)), at))
			for u := range bytes {
				f.Reduce(f.sums[u][i], loop.Add, loop.Apply2(loop.Dot, bytes[u], x))
			}
		}
	}
}

// end adds the scaled sums to the totals.
func (f *bytesTile) end(b sym.Expr) {
	scale, zero := make([]loop.Expr, len(f.panels)), make([]loop.Expr, len(f.panels))
	for u, t := range f.panels {
		scale[u] = f.Let("scale", loop.Convert(dtype.F32, f.scale.Load(t, b, f.column)))
		if f.zero != nil {
			zero[u] = f.Let("zero", loop.Convert(dtype.F32, loop.Convert(dtype.I32, f.zero.Load(t, b, f.column))))
		}
	}
	for i := range f.totals[0] {
		row := f.row(int64(i))
		var less loop.Expr
		if f.zero != nil {
			less = f.Let("less", loop.Convert(dtype.F32, f.less.Load(row, b)))
		}
		by := f.Let("by", f.xScale.Load(row, b))
		for u := range f.panels {
			sum := f.Var("real", loop.Convert(dtype.F32, f.sums[u][i]))
			if less != nil {
				f.Reduce(sum, loop.Add, times(zero[u], less))
			}
			f.Reduce(f.totals[u][i], loop.Add, times(times(sum, by), scale[u]))
		}
	}
}

// bytes extracts four of a word's weights as bytes.
func (f *blocksBytesNest) bytes(word loop.Expr, piece int64) loop.Expr {
	if piece > 0 {
		word = loop.Apply2(loop.Shr, word, loop.Integer(dtype.I32, f.Bits*piece))
	}
	if f.Bits < 8 {
		word = loop.Apply2(loop.And, word, loop.Integer(dtype.I32, (1<<f.Bits-1)*0x01010101))
	}
	return word
}

// store stores a result if its column exists.
func (f *blocksBytesNest) store(row, t, c sym.Expr, x loop.Expr) {
	var mask loop.Expr
	column := t.Mul(sym.Const(BlocksPanel)).Add(c)
	if f.Panels()*BlocksPanel != f.Columns {
		mask = loop.Apply2(loop.Lt, loop.At(column), loop.At(sym.Const(f.Columns)))
	}
	f.StoreIf(mask, f.out, []sym.Expr{row, column}, x)
}

// blocksBytesSamples returns weights of several widths, blocks and zero points.
func blocksBytesSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, s := range []struct {
		lead []int64
		Blocks
		zeros bool
		scale dtype.DType
	}{
		{[]int64{1}, Blocks{4, 16, 48, 16, 8}, false, dtype.F32}, {[]int64{}, Blocks{4, 16, 37, 21, 0}, true, dtype.F32},
		{[]int64{3}, Blocks{4, 32, 43, 50, 0}, true, dtype.F16}, {[]int64{2, 3}, Blocks{2, 16, 50, 33, 2}, false, dtype.F32},
		{[]int64{11}, Blocks{4, 16, 37, 21, 0}, true, dtype.F32},
		{[]int64{3, 5}, Blocks{8, 64, 50, 70, 128}, false, dtype.BF16},
		{[]int64{9}, Blocks{2, 16, 5, 3, 0}, true, dtype.F32}, {[]int64{0}, Blocks{4, 16, 16, 16, 0}, false, dtype.F32},
		{[]int64{30}, Blocks{8, 4, 6, 17, 0}, true, dtype.F32}, {[]int64{13}, Blocks{4, 32, 96, 40, 8}, false, dtype.F32},
	} {
		w := s.Blocks
		integers := func(dt dtype.DType, least, most int64, shape ...int64) *tensor.Tensor {
			t := tensor.Must(tensor.New(dt, shape...))
			for i := range t.Len() {
				t.SetInt(i, least+r.Int63n(most-least))
			}
			return t
		}
		scales := func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			t := tensor.Must(tensor.New(dt, shape...))
			for i := range t.Len() {
				t.SetFloat(i, 0.01+r.Float64())
			}
			return t
		}
		along := func(extent int64) []int64 { return append(slices.Clone(s.lead), extent) }
		in := []*tensor.Tensor{integers(dtype.I32, -1<<31, 1<<31, along(w.wordsOfX())...),
			scales(dtype.F32, along(w.Count())...),
			integers(dtype.I32, -1000, 1000, along(w.Count())...), integers(dtype.I32, -1<<31, 1<<31, w.Panels(), w.Words(),
				BlocksPanel),
			scales(s.scale, w.Panels(), w.Count(), BlocksPanel)}
		constant := []int{3, 4}
		if s.zeros {
			in, constant = append(in, integers(dtype.U8, 0, 1<<w.Bits, w.Panels(), w.Count(), BlocksPanel)), append(constant, 5)
		}
		out = append(out, Sample{Constant: constant, Attrs: ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth,
			"columns": w.Columns, "zero": w.Zero}, Inputs: in})
	}
	return out
}
