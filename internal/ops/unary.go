package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// accepts reports whether a function takes an element type.
type accepts func(dtype.DType) bool

func floats(dt dtype.DType) bool   { return dt.IsFloat() }
func integers(dt dtype.DType) bool { return dt.IsInt() }
func numbers(dt dtype.DType) bool  { return dt.IsFloat() || dt.IsInt() }
func truths(dt dtype.DType) bool   { return dt == dtype.Bool }

// unaryTable has every operator that is a function of one element: y[i] = f(x[i]). slope turns the derivative by y into
// the one by x; nil: the derivative is 0 or does not exist.
var unaryTable = []struct {
	function loop.UnaryOp
	accepts  accepts
	slope    slope
	own      Def // the operator's own properties
}{
	{loop.Neg, numbers, func(g *Gradients, up, _, _ *ir.Value) *ir.Value { return g.neg(up) }, Def{Light: true}},
	{loop.Abs, numbers, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.mul(up, g.f(loop.Sign, x))
	}, Def{Light: true, NotNegative: neverNegative}},
	{loop.Sign, numbers, nil, Def{Light: true}}, {loop.BitNot, integers, nil, Def{Light: true}},
	{loop.Not, truths, nil, Def{Light: true}},
	{loop.Floor, floats, nil, Def{Light: true}}, {loop.Ceil, floats, nil, Def{Light: true}},
	{loop.Round, floats, nil, Def{Light: true}}, {loop.Trunc, floats, nil, Def{Light: true}},
	{loop.Sqrt, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value {
		return g.div(g.times(up, 0.5), y)
	}, Def{Light: true, NotNegative: neverNegative}},
	{loop.Reciprocal, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value {
		return g.neg(g.mul(up, g.mul(y, y)))
	}, Def{Light: true}},
	{loop.Exp, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value {
		return g.mul(up, y)
	}, Def{NotNegative: neverNegative}},
	{loop.Log, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.div(up, x) }, Def{}},
	{loop.Log1p, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.div(up, g.above(x, 1)) }, Def{}},
	{loop.Expm1, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value { return g.mul(up, g.above(y, 1)) }, Def{}},
	{loop.Sin, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.mul(up, g.f(loop.Cos, x)) }, Def{}},
	{loop.Cos, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.neg(g.mul(up, g.f(loop.Sin, x)))
	}, Def{}},
	{loop.Tan, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value {
		return g.mul(up, g.above(g.mul(y, y), 1))
	}, Def{}},
	{loop.Asin, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.div(up, g.f(loop.Sqrt, g.cosine(x)))
	}, Def{}},
	{loop.Acos, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.neg(g.div(up, g.f(loop.Sqrt, g.cosine(x))))
	}, Def{}},
	{loop.Atan, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.div(up, g.above(g.mul(x, x), 1))
	}, Def{}},
	{loop.Sinh, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.mul(up, g.f(loop.Cosh, x)) }, Def{}},
	{loop.Cosh, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.mul(up, g.f(loop.Sinh, x)) }, Def{}},
	{loop.Tanh, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value { return g.mul(up, g.cosine(y)) }, Def{}},
	{loop.Asinh, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.div(up, g.f(loop.Sqrt, g.above(g.mul(x, x), 1)))
	}, Def{}},
	{loop.Acosh, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.div(up, g.f(loop.Sqrt, g.above(g.mul(x, x), -1)))
	}, Def{}},
	{loop.Atanh, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value { return g.div(up, g.cosine(x)) }, Def{}},
	{loop.Erf, floats, func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
		return g.mul(up, g.times(g.f(loop.Exp, g.neg(g.mul(x, x))), 2/math.Sqrt(math.Pi)))
	}, Def{}},
	{loop.Sigmoid, floats, func(g *Gradients, up, _, y *ir.Value) *ir.Value {
		return g.mul(up, g.mul(y, g.from(1, y)))
	}, Def{NotNegative: neverNegative}},
	{loop.IsNaN, floats, nil, Def{}}, {loop.IsInf, floats, nil, Def{}},
}

// slope turns the derivative by the result y of a function of one element into the one by its argument x.
type slope func(g *Gradients, up, x, y *ir.Value) *ir.Value

// grad is Def.Grad of an operator with the slope.
func (s slope) grad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	if s == nil {
		return []*ir.Value{nil}
	}
	return []*ir.Value{s(g, up[0], n.Inputs[0], n.Outputs[0])}
}

// cosine returns 1 − x².
func (g *Gradients) cosine(x *ir.Value) *ir.Value { return g.from(1, g.mul(x, x)) }

// init defines the operators of unaryTable.
func init() {
	for _, row := range unaryTable {
		define(unary(row.function, row.accepts, row.slope, row.own))
	}
}

// unary returns the definition of the operator that applies f to each element; tests have results of Bool.
func unary(f loop.UnaryOp, takes accepts, s slope, own Def) *Def {
	return &Def{
		Op: f.String(), Elementwise: true, Narrow: elementwiseNarrow, rows: elementwiseRows, Samples: unarySamples(takes),
		Grad: s.grad, Light: own.Light, NotNegative: own.NotNegative,
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
			known(c, n.Result(0, ir.Type{DType: out, Shape: t.Shape}), f, n.Inputs[0])
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
