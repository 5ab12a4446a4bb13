package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator col2im.
func init() {
	define(&Def{Op: "col2im", apart: apartFirst, Shape: col2imShape, Mean: col2imMean, Samples: col2imSamples,
		Lowerings: []Lowering{{Name: "window", Build: col2imWindow}}})
}

// Col2Im adds up overlapping blocks. x[N, C·k…, L] holds, for each of the window's L positions in order, the elements
// of a block of each channel; each element of the result, the image [N, C, shape…], is the sum of the block elements at
// its position. The block's extents, which may depend on data, are given by block; the window's kernel is ignored.
func Col2Im(b *ir.Builder, x *ir.Value, shape, block []sym.Expr, w Window) *ir.Value {
	attrs := w.Attrs()
	attrs["shape"], attrs["block"] = shape, block
	delete(attrs, "kernel")
	return b.Op("col2im", attrs, x)
}

// blocks is the geometry of col2im.
type blocks struct {
	strides, dilations []int64
	begin, end         []sym.Expr
	block              []sym.Expr
	positions          []sym.Expr // the number of the window's positions along each axis
}

// blocksOf reads the geometry of a node; it returns an error if the lists differ in length or a stride or dilation is
// not positive.
func blocksOf(n *ir.Node) (blocks, error) {
	shape := n.Attrs.Exprs("shape")
	w := blocks{strides: n.Attrs.Ints("strides"), dilations: n.Attrs.Ints("dilations"), begin: n.Attrs.Exprs("begin"),
		end: n.Attrs.Exprs("end"), block: n.Attrs.Exprs("block")}
	for _, length := range []int{len(w.strides), len(w.dilations), len(w.begin), len(w.end), len(w.block)} {
		if length != len(shape) {
			return w, fault(n, "a window over %d axes in a list for %d", length, len(shape))
		}
	}
	for i, extent := range shape {
		if w.strides[i] < 1 || w.dilations[i] < 1 {
			return w, fault(n, "strides and dilations must be positive")
		}
		reach := w.block[i].Sub(one).Mul(sym.Const(w.dilations[i])).Add(one)
		w.positions = append(w.positions, extent.Add(w.begin[i]).Add(w.end[i]).Sub(reach).FloorDiv(sym.Const(w.strides[i])).
			Add(one))
	}
	return w, nil
}

// col2imShape checks that the columns fit the image, the block and the window and infers [N, C, shape…].
func col2imShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, shape := n.Inputs[0].Type, n.Attrs.Exprs("shape")
	if len(x.Shape) != 3 || len(shape) == 0 || !numbers(x.DType) && !truths(x.DType) {
		return fault(n, "columns %s for an image of %d axes", x, len(shape))
	}
	w, err := blocksOf(n)
	if err != nil {
		return err
	}
	for i := range shape {
		if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: w.block[i]}, "a block has elements"); err != nil {
			return err
		}
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: w.positions[i]},
			"the block fits the padded image"); err != nil {
			return err
		}
	}
	block := product(w.block)
	if err := c.RequireEqual(n, x.Shape[1].Mod(block), sym.Const(0),
		"rows are a multiple of the block's elements"); err != nil {
		return err
	}
	if err := c.RequireEqual(n, x.Shape[2], c.Dims().Simplify(product(w.positions)),
		"a column for each of the window's positions"); err != nil {
		return err
	}
	channels := c.Dims().Simplify(x.Shape[1].FloorDiv(block))
	n.Result(0, ir.Type{DType: x.DType, Shape: append([]sym.Expr{x.Shape[0], channels}, shape...)})
	return nil
}

// col2imMean is the reference: it adds each element of x to the image element at its position.
func col2imMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	w, err := blocksOf(n)
	if err != nil {
		return nil, err
	}
	block, err := e.Ints(w.block)
	if err != nil {
		return nil, err
	}
	positions, err := e.Ints(w.positions)
	if err != nil {
		return nil, err
	}
	begin, err := e.Ints(w.begin)
	if err != nil {
		return nil, err
	}
	x, dt := in[0], out.DType()
	rows, _ := constants([]sym.Expr{product(ir.Constants(block))})
	sums := make([]float64, out.Len())
	strides := tensor.Strides(out.Shape())
	for image := range out.Shape()[0] {
		for channel := range out.Shape()[1] {
			row := (image*x.Shape()[1] + channel*rows[0]) * x.Shape()[2]
			tensor.Each(block, func(k []int64) {
				flat := row
				row += x.Shape()[2]
				tensor.Each(positions, func(p []int64) {
					to, inside := image*strides[0]+channel*strides[1], true
					for i := range p {
						at := p[i]*w.strides[i] + k[i]*w.dilations[i] - begin[i]
						inside = inside && at >= 0 && at < out.Shape()[2+i]
						to += at * strides[2+i]
					}
					if inside && dt.IsFloat() {
						sums[to] += x.Float(flat)
					} else if inside {
						setBits(out, to, loop.EvalBinary(adding(dt), dt, bitsOf(out, to), bitsOf(x, flat)))
					}
					flat++
				})
			})
		}
	}
	if dt.IsFloat() {
		for i, sum := range sums {
			out.SetFloat(int64(i), sum)
		}
	}
	return []*tensor.Tensor{out}, nil
}

// adding returns the operator that sums elements of a type: or for bools.
func adding(dt dtype.DType) loop.BinaryOp {
	if dt == dtype.Bool {
		return loop.Or
	}
	return loop.Add
}

// col2imWindow lowers col2im: each iteration computes one element of the image, the sum over the block elements that
// lie at its position.
func col2imWindow(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	w, _ := blocksOf(n)
	dt := computing(x.DType)
	k.Nest(loop.Each, "o", out.Shape, func(o []sym.Expr) {
		sum := k.Var("sum", loop.Number(dt, 0))
		k.Nest(loop.Serial, "k", w.block, func(at []sym.Expr) {
			row, column := o[1], sym.Const(0)
			var mask loop.Expr
			for i := range at {
				stride := sym.Const(w.strides[i])
				from := o[2+i].Add(w.begin[i]).Sub(at[i].Mul(sym.Const(w.dilations[i])))
				position := from.FloorDiv(stride)
				mask = loop.Both(mask, loop.Inside(position, sym.Const(0), w.positions[i]))
				if w.strides[i] > 1 {
					mask = loop.Both(mask, loop.Apply2(loop.Eq, loop.At(from.Mod(stride)), loop.Integer(dtype.I64, 0)))
				}
				row, column = row.Mul(w.block[i]).Add(at[i]), column.Mul(w.positions[i]).Add(position)
			}
			value := loop.Convert(dt, x.LoadIf(mask, loop.Number(x.DType, 0), o[0], row, column))
			k.Reduce(sum, adding(dt), value)
		})
		k.Store(out, o, loop.Convert(out.DType, sum))
	})
}

// col2imSamples returns columns for each sample window and element type.
func col2imSamples(r *rand.Rand) (out []Sample) {
	for i, w := range sampleWindows {
		shape := []int64{6, 7}
		attrs := w.Attrs()
		attrs["shape"], attrs["block"] = ir.Constants(shape), ir.Constants(w.Kernel)
		delete(attrs, "kernel")
		count := int64(1)
		for axis := range shape {
			positions, _ := w.Positions(axis, sym.Const(shape[axis])).Const()
			count *= positions
		}
		for j, dt := range append(floatTypes, dtype.I32, dtype.U8, dtype.Bool) {
			rows := w.Kernel[0] * w.Kernel[1] * int64((i+j)%4)
			out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleOf(r, dt, 2, rows, count)},
				Constant: []int{0}})
		}
	}
	return out
}
