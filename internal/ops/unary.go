package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// accepts says which element types a function takes.
type accepts func(dtype.DType) bool

func floats(dt dtype.DType) bool   { return dt.IsFloat() }
func integers(dt dtype.DType) bool { return dt.IsInt() }
func numbers(dt dtype.DType) bool  { return dt.IsFloat() || dt.IsInt() }
func truths(dt dtype.DType) bool   { return dt == dtype.Bool }

// unaryTable is every operator that is one function of one element: y[i] = f(x[i]).
var unaryTable = []struct {
	function loop.UnaryOp
	accepts  accepts
}{
	{loop.Neg, numbers}, {loop.Abs, numbers}, {loop.Sign, numbers}, {loop.BitNot, integers}, {loop.Not, truths},
	{loop.Floor, floats}, {loop.Ceil, floats}, {loop.Round, floats}, {loop.Trunc, floats}, {loop.Sqrt, floats}, {loop.Reciprocal, floats},
	{loop.Exp, floats}, {loop.Log, floats}, {loop.Log1p, floats}, {loop.Expm1, floats},
	{loop.Sin, floats}, {loop.Cos, floats}, {loop.Tan, floats}, {loop.Asin, floats}, {loop.Acos, floats}, {loop.Atan, floats},
	{loop.Sinh, floats}, {loop.Cosh, floats}, {loop.Tanh, floats}, {loop.Asinh, floats}, {loop.Acosh, floats}, {loop.Atanh, floats},
	{loop.Erf, floats}, {loop.Sigmoid, floats}, {loop.IsNaN, floats}, {loop.IsInf, floats},
}

func init() {
	for _, row := range unaryTable {
		define(unary(row.function, row.accepts))
	}
}

func unary(f loop.UnaryOp, takes accepts) *Def {
	return &Def{
		Op: f.String(), Samples: unarySamples(takes),
		Shape: func(c *ir.Inference, n *ir.Node) error {
			if err := arity(n, 1, 1); err != nil {
				return err
			}
			t := n.Inputs[0].Type
			if !takes(t.DType) {
				return fault(n, "elements of type %s", t.DType)
			}
			out := t.DType
			if f.Test() {
				out = dtype.Bool
			}
			known(c.Dims(), n.Result(0, ir.Type{DType: out, Shape: t.Shape}), f, n.Inputs[0].Known)
			return nil
		},
		Mean: func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			out, err := result(e, n, 0)
			if err != nil {
				return nil, err
			}
			dt := in[0].DType()
			for i := int64(0); i < out.Len(); i++ {
				setBits(out, i, loop.EvalUnary(f, dt, bitsOf(in[0], i)))
			}
			return []*tensor.Tensor{out}, nil
		},
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, loop.Apply(f, k.In[0].Load(at...)))
			})
		}}},
	}
}

// Unary applies a function to each element.
func Unary(b *ir.Builder, f loop.UnaryOp, x *ir.Value) *ir.Value { return b.Op(f.String(), nil, x) }
