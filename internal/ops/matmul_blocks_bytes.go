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
		Lowerings: []Lowering{{Name: "sums", Separate: true, Meant: true, Build: blocksBytesSums}}})
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
		"zero": w.Zero, "panel": w.Panel}, inputs...)
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
		{[]int64{3}, Blocks{4, 16, 48, 1, 8, 16}}, {[]int64{}, Blocks{4, 32, 37, 1, 1, 16}},
		{[]int64{2, 3}, Blocks{2, 64, 150, 1, 2, 16}},
		{[]int64{5}, Blocks{8, 20, 50, 1, 128, 16}}, {[]int64{0}, Blocks{4, 16, 16, 1, 0, 16}},
		{[]int64{1}, Blocks{4, 128, 1000, 1, 1, 16}},
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
		t, lane, total := c/w.Panel, c%w.Panel, 0.0
		for block := range w.Count() {
			shared := (t*w.Count()+block)*w.Panel + lane
			sum := less.Int(r*w.Count() + block)
			if zero != nil {
				sum *= zero.Int(shared)
			}
			for index := block * w.Block / w.PerWord(); index < min((block+1)*w.Block/w.PerWord(), w.Words()); index++ {
				word := uint32(words.Int((t*w.Words()+index)*w.Panel + lane))
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

// blocksBytesSums lowers MatMulBlocksBytes to one sum for each element of the result: within a block, words of four
// elements are multiplied as bytes.
func blocksBytesSums(k *Nest, n *ir.Node) {
	x, xScale, less, words, scale, zero, out := k.In[0], k.In[1], k.In[2], k.In[3], k.In[4], present(k.In, 5), k.Out[0]
	w := weightsOf(n)
	rows, at := rowsOf(out.Shape)
	pieces, each := w.PerWord()/4, w.Block/w.PerWord() // bytes of four steps in a word, and words of a block
	k.Nest(loop.Each, "o", []sym.Expr{rows, sym.Const(w.Columns)}, func(o []sym.Expr) {
		panel, column := o[1].FloorDiv(sym.Const(w.Panel)), o[1].Mod(sym.Const(w.Panel))
		total := k.Var("total", loop.Number(dtype.F32, 0))
		k.Serial("b", sym.Const(w.Count()), func(b sym.Expr) {
			sum := k.Var("sum", loop.Integer(dtype.I32, 0))
			first := b.Mul(sym.Const(each))
			count := k.D.Simplify(sym.Const(each).Min(sym.Const(w.Words()).Sub(first)))
			k.Nest(loop.Serial, "g", []sym.Expr{count, sym.Const(pieces)}, func(g []sym.Expr) {
				index := first.Add(g[0])
				bytes := loop.Apply2(loop.Shr, words.Load(panel, index, column),
					loop.Convert(dtype.I32, loop.At(g[1].Mul(sym.Const(w.Bits)))))
				if w.Bits < 8 {
					bytes = loop.Apply2(loop.And, bytes, loop.Integer(dtype.I32, (1<<w.Bits-1)*0x01010101))
				}
				k.Reduce(sum, loop.Add, loop.Apply2(loop.Dot, bytes, x.Load(at(o[0], index.Mul(sym.Const(pieces)).Add(g[1]))...)))
			})
			shared := loop.Expr(less.Load(at(o[0], b)...))
			if zero != nil {
				shared = loop.Apply2(loop.Mul, shared, loop.Convert(dtype.I32, zero.Load(panel, b, column)))
			}
			real := loop.Convert(dtype.F32, loop.Apply2(loop.Add, sum, shared))
			by := times(xScale.Load(at(o[0], b)...), loop.Convert(dtype.F32, scale.Load(panel, b, column)))
			k.Reduce(total, loop.Add, times(real, by))
		})
		k.Store(out, at(o[0], o[1]), total)
	})
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
		{[]int64{1}, Blocks{4, 16, 48, 16, 8, 16}, false, dtype.F32},
		{[]int64{}, Blocks{4, 16, 37, 21, 0, 16}, true, dtype.F32},
		{[]int64{3}, Blocks{4, 32, 43, 50, 0, 16}, true, dtype.F16},
		{[]int64{2, 3}, Blocks{2, 16, 50, 33, 2, 16}, false, dtype.F32},
		{[]int64{11}, Blocks{4, 16, 37, 21, 0, 16}, true, dtype.F32},
		{[]int64{3, 5}, Blocks{8, 64, 50, 70, 128, 16}, false, dtype.BF16},
		{[]int64{9}, Blocks{2, 16, 5, 3, 0, 16}, true, dtype.F32},
		{[]int64{0}, Blocks{4, 16, 16, 16, 0, 16}, false, dtype.F32},
		{[]int64{30}, Blocks{8, 4, 6, 17, 0, 16}, true, dtype.F32},
		{[]int64{13}, Blocks{4, 32, 96, 40, 8, 16}, false, dtype.F32},
		{[]int64{7}, Blocks{4, 16, 40, 20, 8, 8}, false, dtype.F32},
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
			integers(dtype.I32, -1000, 1000, along(w.Count())...),
			integers(dtype.I32, -1<<31, 1<<31, w.Panels(), w.Words(), w.Panel),
			scales(s.scale, w.Panels(), w.Count(), w.Panel)}
		constant := []int{3, 4}
		if s.zeros {
			in, constant = append(in, integers(dtype.U8, 0, 1<<w.Bits, w.Panels(), w.Count(), w.Panel)), append(constant, 5)
		}
		out = append(out, Sample{Constant: constant, Attrs: ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth,
			"columns": w.Columns, "zero": w.Zero, "panel": w.Panel}, Inputs: in})
	}
	return out
}
