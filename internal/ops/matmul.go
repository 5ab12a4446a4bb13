package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "matmul", Shape: matmulShape, Mean: matmulMean,
		Lowerings: []Lowering{{Name: "contract", Build: matmulContract}}})
}

// MatMul multiplies matrices a[…, M, K] and b[…, K, N] over broadcast leading axes. With transposeA, a is stored as […, K, M]; with
// transposeB, b as […, N, K]. dt is the result's type (Invalid: the operands'): integers of 8 bits accumulate in i32 when dt is I32.
func MatMul(b *ir.Builder, x, y *ir.Value, transposeA, transposeB bool) *ir.Value {
	return b.Op("matmul", ir.Attrs{"transpose_a": transposeA, "transpose_b": transposeB}, x, y)
}

// MatMulAny is MatMul for operands of any rank above 0: a vector on the left is a row, one on the right a column, and the axis of 1 that
// it was given is taken from the result again.
func MatMulAny(b *ir.Builder, x, y *ir.Value) *ir.Value {
	row, column := len(x.Type.Shape) == 1, len(y.Type.Shape) == 1
	if row {
		x = Reshape(b, x, one, x.Type.Shape[0])
	}
	if column {
		y = Reshape(b, y, y.Type.Shape[0], one)
	}
	z := MatMul(b, x, y, false, false)
	shape := append([]sym.Expr{}, z.Type.Shape...)
	if column {
		shape = shape[:len(shape)-1]
	}
	if row {
		at := len(z.Type.Shape) - 2
		shape = append(shape[:at:at], shape[at+1:]...)
	}
	if row || column {
		z = Reshape(b, z, shape...)
	}
	return z
}

// matmulAxes are the positions of the rows, the shared axis and the columns.
func matmulAxes(n *ir.Node) (m, ka, kb, cols int) {
	ra, rb := len(n.Inputs[0].Type.Shape), len(n.Inputs[1].Type.Shape)
	m, ka = ra-2, ra-1
	if n.Attrs.Bool("transpose_a") {
		m, ka = ka, m
	}
	kb, cols = rb-2, rb-1
	if n.Attrs.Bool("transpose_b") {
		kb, cols = cols, kb
	}
	return m, ka, kb, cols
}

func matmulShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	a, b := n.Inputs[0].Type, n.Inputs[1].Type
	if len(a.Shape) < 2 || len(b.Shape) < 2 {
		return fault(n, "operands of rank %d and %d, each needs at least 2", len(a.Shape), len(b.Shape))
	}
	out := n.Attrs.DType("dtype")
	if out == dtype.Invalid {
		out = a.DType
		if a.DType != b.DType {
			return fault(n, "operands of types %s and %s", a.DType, b.DType)
		}
	}
	m, ka, kb, cols := matmulAxes(n)
	if err := c.RequireEqual(n, a.Shape[ka], b.Shape[kb], "the axis that a matrix product sums over"); err != nil {
		return err
	}
	shape, err := broadcast(c, n, a.Shape[:len(a.Shape)-2], b.Shape[:len(b.Shape)-2])
	if err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: out, Shape: append(shape, a.Shape[m], b.Shape[cols])})
	return nil
}

func matmulMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	a, b := in[0], in[1]
	m, ka, kb, cols := matmulAxes(n)
	rank := out.Rank()
	depth := a.Shape()[ka]
	sa, sb := tensor.Strides(a.Shape()), tensor.Strides(b.Shape())
	flat := int64(0)
	integer := out.DType().IsInt()
	tensor.Each(out.Shape(), func(index []int64) {
		x := matrixAt(index[:rank-2], a.Shape()[:a.Rank()-2], a.Shape()[a.Rank()-2]*a.Shape()[a.Rank()-1]) + index[rank-2]*sa[m]
		y := matrixAt(index[:rank-2], b.Shape()[:b.Rank()-2], b.Shape()[b.Rank()-2]*b.Shape()[b.Rank()-1]) + index[rank-1]*sb[cols]
		if integer {
			sum := int64(0)
			for k := int64(0); k < depth; k++ {
				sum += a.Int(x+k*sa[ka]) * b.Int(y+k*sb[kb])
			}
			out.SetInt(flat, sum)
		} else {
			sum := 0.0
			for k := int64(0); k < depth; k++ {
				sum += a.Float(x+k*sa[ka]) * b.Float(y+k*sb[kb])
			}
			out.SetFloat(flat, sum)
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// matrixAt is where the matrix begins that leading index picks from a stack with the given leading shape.
func matrixAt(index, leading []int64, size int64) int64 {
	return stretchedFlat(index, leading) * size
}

func matmulContract(k *Nest, n *ir.Node) {
	a, b, out := k.In[0], k.In[1], k.Out[0]
	m, ka, kb, cols := matmulAxes(n)
	rank := len(out.Shape)
	rows, columns, depth := out.Shape[rank-2], out.Shape[rank-1], a.Shape[ka]
	lead, leadA, leadB := out.Shape[:rank-2], a.Shape[:len(a.Shape)-2], b.Shape[:len(b.Shape)-2]
	// One stack of rows times one matrix is one product: no batch axis is left for the right operand to vary along.
	k.Nest(loop.Each, "b", lead, func(batch []sym.Expr) {
		acc := k.Local("acc", accumulator(out.DType), rows, columns)
		k.Nest(loop.Each, "z", acc.Shape, func(at []sym.Expr) { k.Store(acc, at, loop.Number(acc.DType, 0)) })
		k.Contract(rows, columns, depth,
			acc.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			a.Tile(append(stretched(batch, leadA), zeros(2)...), unit(len(a.Shape), m, one), unit(len(a.Shape), ka, one)),
			b.Tile(append(stretched(batch, leadB), zeros(2)...), unit(len(b.Shape), kb, one), unit(len(b.Shape), cols, one)))
		k.Nest(loop.Each, "o", acc.Shape, func(at []sym.Expr) {
			k.Store(out, append(append([]sym.Expr{}, batch...), at...), loop.Convert(out.DType, acc.Load(at...)))
		})
	})
}

// accumulator is the type in which sums of products of dt are kept.
func accumulator(dt dtype.DType) dtype.DType {
	switch {
	case dt == dtype.F64 || dt == dtype.I64 || dt == dtype.U64:
		return dt
	case dt.IsInt():
		return dtype.I32
	}
	return dtype.F32
}
