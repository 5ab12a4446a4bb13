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
		Lowerings: []Lowering{{Name: "sums", Separate: true, Meant: true, Build: matmulBlocksSums}}})
}

// Blocks describes the weights of MatMulBlocks: Depth × Columns numbers of Bits bits (2, 4 or 8). A weight is its
// number minus the zero point, times the scale; Block consecutive steps of the sum share both, in each column. Columns
// are stored in panels, whose number is even, or 1.
type Blocks struct {
	Bits, Block, Depth, Columns int64
	Zero                        int64 // the zero point of all weights, if there is no tensor of zero points
	Panel                       int64 // the number of columns of a panel, which are contiguous
}

// PerWord returns the number of weights in a word.
func (w Blocks) PerWord() int64 { return 32 / w.Bits }

// Words returns the number of words of a column.
func (w Blocks) Words() int64 { return (w.Depth + w.PerWord() - 1) / w.PerWord() }

// Count returns the number of blocks of a column.
func (w Blocks) Count() int64 { return (w.Depth + w.Block - 1) / w.Block }

// Panels returns the number of panels: even, or 1.
func (w Blocks) Panels() int64 {
	n := (w.Columns + w.Panel - 1) / w.Panel
	if n > 1 {
		n += n % 2
	}
	return n
}

// fits reports whether the numbers describe a possible layout.
func (w Blocks) fits() bool {
	known := w.Bits == 2 || w.Bits == 4 || w.Bits == 8
	return known && w.Block > 0 && w.Block%w.PerWord() == 0 && w.Depth > 0 && w.Columns > 0 && w.Zero >= 0 &&
		w.Zero < 1<<w.Bits && w.Panel > 0
}

// MatMulBlocks multiplies x, […, Depth] of f32, by weights of few bits. words (i32) is [panels, words of a column,
// Panel]: a word holds the weights of consecutive steps, the first in its lowest bits. scale and zero (u8; nil:
// Blocks.Zero) are [panels, blocks, Panel]. Scales are finite. Elements beyond Depth and Columns are not read.
// The weights stay packed in memory: they are unpacked in registers for few rows of x, and once, panel by panel, for
// many rows.
func MatMulBlocks(b *ir.Builder, x, words, scale, zero *ir.Value, w Blocks) *ir.Value {
	inputs := []*ir.Value{x, words, scale}
	if zero != nil {
		inputs = append(inputs, zero)
	}
	return b.Op("matmul_blocks", ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth, "columns": w.Columns,
		"zero": w.Zero, "panel": w.Panel}, inputs...)
}

// weightsOf returns a node's Blocks.
func weightsOf(n *ir.Node) Blocks {
	return Blocks{Bits: n.Attrs.Int("bits", 0), Block: n.Attrs.Int("block", 0), Depth: n.Attrs.Int("depth", 0),
		Columns: n.Attrs.Int("columns", 0), Zero: n.Attrs.Int("zero", 0), Panel: n.Attrs.Int("panel", 1)}
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
	want := []int64{w.Panels(), along, w.Panel}
	if len(v.Type.Shape) != len(want) {
		return fault(n, "weights %s in panels of %d", v.Type, w.Panel)
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
		t, at := c/w.Panel, c%w.Panel
		for k := range w.Depth {
			word := uint32(in[1].Int((t*w.Words()+k/w.PerWord())*w.Panel + at))
			block := (t*w.Count()+k/w.Block)*w.Panel + at
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

// rowsOf returns the number of rows of a tensor with an axis of columns, and the index of a row in its other axes.
func rowsOf(shape []sym.Expr) (rows sym.Expr, index func(row sym.Expr, rest ...sym.Expr) []sym.Expr) {
	lead := shape[:len(shape)-1]
	return product(lead), func(row sym.Expr, rest ...sym.Expr) []sym.Expr {
		return append(sym.Unravel(row, lead), rest...)
	}
}

// weight returns weight index of a word, a number of 32 bits.
func (w Blocks) weight(word loop.Expr, index sym.Expr) loop.Expr {
	by := loop.Convert(dtype.I32, loop.At(index.Mul(sym.Const(w.Bits))))
	return loop.Apply2(loop.And, loop.Apply2(loop.Shr, word, by), loop.Integer(dtype.I32, 1<<w.Bits-1))
}

// matmulBlocksSums lowers MatMulBlocks to one sum for each element of the result.
func matmulBlocksSums(k *Nest, n *ir.Node) {
	x, words, scale, zero, out, w := k.In[0], k.In[1], k.In[2], present(k.In, 3), k.Out[0], weightsOf(n)
	rows, at := rowsOf(out.Shape)
	k.Nest(loop.Each, "o", []sym.Expr{rows, sym.Const(w.Columns)}, func(o []sym.Expr) {
		panel, column := o[1].FloorDiv(sym.Const(w.Panel)), o[1].Mod(sym.Const(w.Panel))
		total := k.Var("total", loop.Number(dtype.F32, 0))
		k.Serial("b", sym.Const(w.Count()), func(block sym.Expr) {
			less := loop.Expr(loop.Number(dtype.F32, float64(w.Zero)))
			if zero != nil {
				less = loop.Convert(dtype.F32, loop.Convert(dtype.I32, zero.Load(panel, block, column)))
			}
			sum, first, per := k.Var("sum", loop.Number(dtype.F32, 0)), block.Mul(sym.Const(w.Block)), sym.Const(w.PerWord())
			k.Serial("k", k.D.Simplify(sym.Const(w.Block).Min(sym.Const(w.Depth).Sub(first))), func(step sym.Expr) {
				step = first.Add(step)
				number := w.weight(words.Load(panel, step.FloorDiv(per), column), step.Mod(per))
				k.Reduce(sum, loop.Add, times(x.Load(at(o[0], step)...), minus(loop.Convert(dtype.F32, number), less)))
			})
			k.Reduce(total, loop.Add, times(sum, loop.Convert(dtype.F32, scale.Load(panel, block, column))))
		})
		k.Store(out, at(o[0], o[1]), total)
	})
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
		{[]int64{1}, Blocks{4, 16, 48, 16, 8, 16}, false, dtype.F32},
		{[]int64{}, Blocks{4, 16, 37, 21, 0, 16}, true, dtype.F32},
		{[]int64{3}, Blocks{4, 32, 43, 50, 0, 16}, true, dtype.F16},
		{[]int64{2, 3}, Blocks{2, 16, 50, 33, 2, 16}, false, dtype.F32},
		{[]int64{11}, Blocks{4, 16, 37, 21, 0, 16}, true, dtype.F32},
		{[]int64{3, 5}, Blocks{8, 64, 50, 70, 128, 16}, false, dtype.BF16},
		{[]int64{9}, Blocks{2, 16, 5, 3, 0, 16}, true, dtype.F32},
		{[]int64{0}, Blocks{4, 16, 16, 16, 0, 16}, false, dtype.F32},
		{[]int64{300}, Blocks{8, 4, 6, 17, 0, 16}, true, dtype.F32},
		{[]int64{7}, Blocks{4, 16, 40, 20, 8, 8}, false, dtype.F32},
	} {
		w := s.Blocks
		integers := func(dt dtype.DType, most int64, shape ...int64) *tensor.Tensor {
			t := tensor.Must(tensor.New(dt, shape...))
			for i := range t.Len() {
				t.SetInt(i, r.Int63n(most))
			}
			return t
		}
		scale := tensor.Must(tensor.New(s.scale, w.Panels(), w.Count(), w.Panel))
		for i := range scale.Len() {
			scale.SetFloat(i, 0.01+r.Float64())
		}
		in := []*tensor.Tensor{sampleNormal(r, dtype.F32, append(s.lead, w.Depth)...),
			integers(dtype.I32, 1<<32, w.Panels(), w.Words(), w.Panel), scale}
		if s.zeros {
			in = append(in, integers(dtype.U8, 1<<w.Bits, w.Panels(), w.Count(), w.Panel))
		}
		constant := []int{1, 2, 3}[:len(in)-1]
		out = append(out, Sample{Constant: constant, Attrs: ir.Attrs{"bits": w.Bits, "block": w.Block, "depth": w.Depth,
			"columns": w.Columns, "zero": w.Zero, "panel": w.Panel}, Inputs: in})
	}
	return out
}
