package pass

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Blocks makes products read dequantized constant weights of 2, 4 or 8 bits directly: the weights are laid out anew,
// and unpacked in registers or a panel at a time, so that neither the file's weights nor the dequantized weights take
// memory as well. A scale is of a block along the sum, of a column, or of all weights. Other readers of the weights
// still read the file's.
func Blocks(m *ir.Module, costs recipes.Costs) error { return blocks(m, costs, nil) }

// BlocksAllowed is Blocks for products whose model allows the other operand to be rounded to bytes. It rounds that
// operand: see ops.MatMulBlocksBytes.
func BlocksAllowed(m *ir.Module, costs recipes.Costs) error {
	return blocks(m, costs, func(n *ir.Node) bool { return n.Attrs.Bool(ops.BytesAllowed) })
}

// BlocksBytes is BlocksAllowed for all products.
func BlocksBytes(m *ir.Module, costs recipes.Costs) error {
	return blocks(m, costs, func(*ir.Node) bool { return true })
}

// blocks rewrites the products for which bytes is true to products of bytes; if bytes is nil, it rewrites all to
// products of floats.
func blocks(m *ir.Module, costs recipes.Costs, bytes func(n *ir.Node) bool) error {
	laid := map[*ir.Value]*blockWeights{} // by the dequantize's result, which several products may read
	rounded := map[blocksOperand][]*ir.Value{}
	return apply(m, []rule{{"a product of few bits", []string{"matmul"},
		func(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			x, w := n.Inputs[0], n.Inputs[1]
			d := producer(w, "dequantize")
			if cut := producer(w, "slice"); cut != nil && fromStart(cut) {
				d = producer(cut.Inputs[0], "dequantize")
			}
			if d == nil || bytes != nil && !bytes(n) || n.Attrs.Bool("transpose_a") || !floatsOf(x) || !floatsOf(n.Outputs[0]) ||
				producer(x, "dequantize") != nil {
				return nil
			}
			weights := laid[w]
			if weights == nil {
				weights = weightsOfBlocks(w, n.Attrs.Bool("transpose_b"))
				weights.inBytes, weights.Panel = bytes != nil, costs.Lanes()
				laid[w] = weights
			}
			if weights.scale == nil || weights.turned != n.Attrs.Bool("transpose_b") || bytes != nil &&
				!weights.FitsBytes(weights.zero != nil) {
				return nil
			}
			if x.Type.DType != dtype.F32 {
				x = ops.Cast(b, x, dtype.F32)
			}
			var y *ir.Value
			if name := d.Inputs[0].Name; bytes == nil {
				y = weights.product(b, x, name)
			} else {
				at := blocksOperand{r.block, n.Inputs[0], weights.Quantised(weights.zero != nil)}
				if rounded[at] == nil {
					rounded[at] = ops.QuantizeBlocks(b, x, at.weights)
				}
				y = weights.productOfBytes(b, rounded[at], name)
			}
			if to := n.Outputs[0].Type.DType; to != dtype.F32 {
				y = ops.Cast(b, y, to)
			}
			return y
		}}})
}

// blocksOperand is the key of a rounded operand: products in one block with weights of equal layout share it.
type blocksOperand struct {
	block   *ir.Block
	value   *ir.Value
	weights ops.Blocks
}

// product returns the product of x, of f32, and the weights.
func (w *blockWeights) product(b *ir.Builder, x *ir.Value, name string) *ir.Value {
	words, scale, zero := w.constants(b, name)
	return ops.MatMulBlocks(b, x, words, scale, zero, w.Blocks)
}

// productOfBytes returns the product of x, a rounded operand, and the weights.
func (w *blockWeights) productOfBytes(b *ir.Builder, x []*ir.Value, name string) *ir.Value {
	words, scale, zero := w.constants(b, name)
	return ops.MatMulBlocksBytes(b, x, words, scale, zero, w.Blocks)
}

// constants returns the weights as values; zero may be nil.
func (w *blockWeights) constants(b *ir.Builder, name string) (words, scale, zero *ir.Value) {
	data, scales, zeros, err := w.panels()
	if err != nil {
		b.Fail(err)
	}
	if zeros != nil {
		zero = b.Constant(name+".zero", zeros)
	}
	return b.Constant(name, data), b.Constant(name+".scale", scales), zero
}

// floatsOf reports whether a value is of a float type of at most 32 bits.
func floatsOf(v *ir.Value) bool { return v.Type.DType.IsFloat() && v.Type.DType.Bits() <= 32 }

// blockWeights are weights of a product that are to be laid out anew.
type blockWeights struct {
	ops.Blocks
	// weights, scale and zero are the file's; scale is nil if they cannot be laid out, zero is nil if Zero holds for all.
	weights, scale, zero *constantMatrix
	turned               bool  // columns are the first axis
	flip                 int64 // the bit whose inversion makes a weight unsigned, or 0
	perColumn            bool  // each column has its own scale
	perBlock             bool  // and each of its blocks
	inBytes              bool  // steps are in the order that products of bytes take
	made                 [3]*tensor.Tensor
}

// constantMatrix is a constant as a matrix, or the first rows and columns of one. A constant of rank 0 or 1 is one row.
type constantMatrix struct {
	*tensor.Tensor
	rows, columns int64
	line          int64 // elements from a row to the next
	repeats       bool  // one element stands for all
}

// matrixOf returns a value as a constant matrix, also if it is an unfolded reshape, beginning or repetition of a
// constant; nil if it is none of these.
func matrixOf(v *ir.Value) *constantMatrix {
	if t := v.Const; t != nil {
		if t.Rank() > 2 {
			return nil
		}
		m := &constantMatrix{Tensor: t, rows: 1, columns: 1}
		if t.Rank() > 0 {
			m.columns = t.Shape()[t.Rank()-1]
		}
		if t.Rank() > 1 {
			m.rows = t.Shape()[0]
		}
		m.line = m.columns
		return m
	}
	extents := make([]int64, 2)
	if v.Node == nil || len(v.Type.Shape) != 2 {
		return nil
	}
	for i, e := range v.Type.Shape {
		n, fixed := e.Const()
		if !fixed {
			return nil
		}
		extents[i] = n
	}
	from := v.Node.Inputs[0]
	switch v.Node.Op.Name() {
	case "reshape":
		if from.Const != nil {
			return &constantMatrix{Tensor: from.Const, rows: extents[0], columns: extents[1], line: extents[1]}
		}
		if m := matrixOf(from); m != nil && m.line == m.columns && !m.repeats {
			return &constantMatrix{Tensor: m.Tensor, rows: extents[0], columns: extents[1], line: extents[1]}
		}
	case "slice":
		if m := matrixOf(from); m != nil && fromStart(v.Node) {
			m.rows, m.columns = extents[0], extents[1]
			return m
		}
	case "expand":
		if from.Const != nil && from.Const.Len() == 1 {
			return &constantMatrix{Tensor: from.Const, rows: extents[0], columns: extents[1], repeats: true}
		}
	}
	return nil
}

// fromStart reports whether a slice takes the first elements along each axis.
func fromStart(n *ir.Node) bool {
	return !slices.ContainsFunc(n.Attrs.Exprs("begin"), func(e sym.Expr) bool { return !e.Equal(sym.Const(0)) }) &&
		!slices.ContainsFunc(n.Attrs.Ints("step"), func(step int64) bool { return step != 1 })
}

// at is the flat index of an element.
func (m *constantMatrix) at(row, column int64) int64 {
	if m.repeats {
		return 0
	}
	return row*m.line + column
}

// number returns an element of a matrix of integers.
func (m *constantMatrix) number(row, column int64) int64 { return m.Int(m.at(row, column)) }

// one reports whether all elements are the same integer, and returns it.
func (m *constantMatrix) one() (x int64, ok bool) {
	x = m.number(0, 0)
	for row := range m.rows {
		for column := range m.columns {
			if m.number(row, column) != x {
				return 0, false
			}
		}
	}
	return x, true
}

// weightsOfBlocks returns the weights of v, a dequantize or a slice of one, as a product reads them. Weights that do
// not have the required form have no scale.
func weightsOfBlocks(v *ir.Value, turned bool) *blockWeights {
	w := &blockWeights{turned: turned}
	d, extents := v.Node, make([]int64, 2)
	if len(v.Type.Shape) != 2 {
		return w
	}
	for i, e := range v.Type.Shape {
		extents[i], _ = e.Const()
	}
	if d.Op.Name() == "slice" {
		d = d.Inputs[0].Node
	}
	from, scale := matrixOf(d.Inputs[0]), matrixOf(d.Inputs[1])
	if from == nil || scale == nil || from.repeats || scale.repeats || len(d.Inputs[0].Type.Shape) != 2 ||
		!from.DType().IsInt() || from.DType().Bits() > 8 || !floatsOf(d.Inputs[1]) {
		return w
	}
	depth, columns := 0, 1
	if turned {
		depth, columns = 1, 0
	}
	w.weights, w.Bits, w.Depth, w.Columns = from, int64(from.DType().Bits()), extents[depth], extents[columns]
	if w.Bits < 2 || w.Depth <= 0 || w.Columns <= 0 {
		return w
	}
	if from.DType().IsSigned() {
		w.flip = 1 << (w.Bits - 1)
	}
	w.Zero = w.flip
	if len(d.Inputs) > 2 && d.Inputs[2] != nil {
		if w.zero = matrixOf(d.Inputs[2]); w.zero == nil {
			return w
		}
	}
	axis := int(d.Attrs.Int("axis", 1)+2) % 2
	w.Block = w.Words() * w.PerWord()
	switch block := d.Attrs.Int("block", 0); {
	case block > 0 && axis == depth && (block%w.PerWord() == 0 || block >= w.Depth):
		if w.perBlock = block < w.Depth; w.perBlock {
			w.Block = block
		}
		w.perColumn = true
	case block == 0 && scale.rows*scale.columns == 1:
	case block == 0 && axis == columns && len(d.Inputs[1].Type.Shape) == 1:
		w.perColumn = true
	default:
		return w
	}
	for row := range scale.rows {
		for column := range scale.columns {
			if x := scale.Float(scale.at(row, column)); math.IsInf(x, 0) || math.IsNaN(x) {
				return w
			}
		}
	}
	if w.zero != nil {
		if x, same := w.zero.one(); same {
			w.zero, w.Zero = nil, w.unsigned(x)
		}
	}
	w.scale = scale
	return w
}

// unsigned returns a weight or a zero point as an unsigned number of w.Bits bits.
func (w *blockWeights) unsigned(x int64) int64 { return (x ^ w.flip) & (1<<w.Bits - 1) }

// shared is the flat index, in a matrix of scales or zero points, of the element for a column's block.
func (w *blockWeights) shared(m *constantMatrix, block, column int64) int64 {
	switch {
	case !w.perColumn:
		return 0
	case w.perBlock && !w.turned:
		return m.at(block, column)
	case !w.perBlock && m.rows == 1:
		return m.at(0, column)
	case !w.turned:
		return m.at(0, column)
	}
	return m.at(column, block)
}

// panels returns the words, the scales and the zero points (nil: Zero) as ops.MatMulBlocks takes them. They are
// computed when they are first read.
func (w *blockWeights) panels() (words, scale, zero *tensor.Tensor, err error) {
	if w.made[0] != nil {
		return w.made[0], w.made[1], w.made[2], nil
	}
	major := 1
	if w.turned {
		major = 0
	}
	if words, err = tensor.Deferred(dtype.I32, []int64{w.Panels(), w.Words(), w.Panel}, w.weights.Tensor, major,
		w.fillWords); err != nil {
		return nil, nil, nil, err
	}
	laid := func(to dtype.DType, from *constantMatrix, set func(to *tensor.Tensor, at, from int64)) (*tensor.Tensor,
		error) {
		return tensor.Deferred(to, []int64{w.Panels(), w.Count(), w.Panel}, from.Tensor, 0,
			func(to *tensor.Tensor, axis int, begin, end int64) {
				w.each(to, axis, begin, end, func(at, block, column int64) { set(to, at, w.shared(from, block, column)) })
			})
	}
	scale, err = laid(w.scale.DType(), w.scale, func(to *tensor.Tensor, at, from int64) {
		to.SetFloat(at, w.scale.Float(from))
	})
	if err == nil && w.zero != nil {
		zero, err = laid(dtype.U8, w.zero, func(to *tensor.Tensor, at, from int64) {
			to.SetInt(at, w.unsigned(w.zero.Int(from)))
		})
	}
	w.made = [3]*tensor.Tensor{words, scale, zero}
	return words, scale, zero, err
}

// each calls do for each element of to, a piece of a tensor in panels along an axis, whose column the weights have:
// with the element's flat index in to, its index along the second axis of the entire tensor, and its column.
func (w *blockWeights) each(to *tensor.Tensor, axis int, begin, end int64, do func(at, along, column int64)) {
	first, shape := [3]int64{}, to.Shape()
	first[axis] = begin
	flat := int64(0)
	for t := range shape[0] {
		for along := range shape[1] {
			for c := range shape[2] {
				if column := (first[0]+t)*w.Panel + first[2] + c; column < w.Columns {
					do(flat, first[1]+along, column)
				}
				flat++
			}
		}
	}
}

// fillWords lays weights out in words, in a piece of the tensor along an axis; elements beyond the columns are 0.
func (w *blockWeights) fillWords(to *tensor.Tensor, axis int, begin, end int64) {
	out, data := to.Bytes(), w.weights.Bytes()
	clear(out)
	per, flip := w.PerWord(), uint32(0)
	for i := range per {
		flip |= uint32(w.flip) << (w.Bits * i)
	}
	line := w.weights.line
	words := w.turned && line%per == 0 && w.Depth%per == 0 // the file has the same words
	w.each(to, axis, begin, end, func(at, along, column int64) {
		word := uint32(0)
		if words {
			word = binary.LittleEndian.Uint32(data[4*(column*(line/per)+along):])
		} else {
			for i := range min(per, w.Depth-along*per) {
				flat := (along*per+i)*line + column
				if w.turned {
					flat = column*line + along*per + i
				}
				bit := flat * w.Bits
				word |= uint32(data[bit/8]>>(bit%8)) & (1<<w.Bits - 1) << (w.Bits * i)
			}
		}
		word ^= flip
		if w.inBytes {
			word = w.inSteps(word)
		}
		binary.LittleEndian.PutUint32(out[4*at:], word)
	})
}

// inSteps reorders a word's weights to the order of ops.Blocks.Step.
func (w *blockWeights) inSteps(word uint32) (out uint32) {
	for i := range w.PerWord() {
		out |= word >> (w.Bits * w.Step(i)) & (1<<w.Bits - 1) << (w.Bits * i)
	}
	return out
}
