package ops

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// anything reports whether elements are neither strings nor complex numbers.
func anything(dt dtype.DType) bool { return dt != dtype.String && !dt.IsComplex() }

// bitsets reports whether elements are integers or bools.
func bitsets(dt dtype.DType) bool { return dt.IsInt() || dt == dtype.Bool }

// binaryTable lists the operators that apply one function to two elements, with broadcasting: z[i] = f(x[i], y[i]).
var binaryTable = []struct {
	function loop.BinaryOp
	accepts  accepts
	grad     func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value // nil: results are never floats
	own      Def                                                        // properties of this operator alone
}{
	{loop.Add, numbers, func(_ *Gradients, _ *ir.Node, up []*ir.Value) []*ir.Value {
		return []*ir.Value{up[0], up[0]}
	}, Def{Light: true, Commutative: true, Neutral: new(0.0), NotNegative: allNotNegative}},
	{loop.Sub, numbers, pairGrad(nil, func(g *Gradients, up, _, _, _ *ir.Value) *ir.Value {
		return g.neg(up)
	}), Def{Light: true, Neutral: new(0.0)}},
	{loop.Mul, numbers, pairGrad(
		func(g *Gradients, up, _, y, _ *ir.Value) *ir.Value { return g.mul(up, y) },
		func(g *Gradients, up, x, _, _ *ir.Value) *ir.Value {
			return g.mul(up, x)
		}), Def{Light: true, Commutative: true, Neutral: new(1.0), NotNegative: productNotNegative}},
	{loop.Div, numbers, pairGrad(
		func(g *Gradients, up, _, y, _ *ir.Value) *ir.Value { return g.div(up, y) },
		func(g *Gradients, up, _, y, z *ir.Value) *ir.Value {
			return g.neg(g.mul(g.div(up, y), z))
		}), Def{Light: true, Neutral: new(1.0), NotNegative: allNotNegative}},
	{loop.FloorMod, numbers, pairGrad(nil, func(g *Gradients, up, x, y, _ *ir.Value) *ir.Value {
		return g.neg(g.mul(up, g.f(loop.Floor, g.div(x, y))))
	}), Def{}},
	{loop.Rem, numbers, pairGrad(nil, func(g *Gradients, up, x, y, _ *ir.Value) *ir.Value {
		return g.neg(g.mul(up, g.f(loop.Trunc, g.div(x, y))))
	}), Def{}},
	{loop.Pow, numbers, pairGrad(powerSlope, exponentSlope), Def{Neutral: new(1.0)}},
	{loop.Min, numbers, pairGrad(extremeSlope(loop.Gt, loop.Ge, 1), extremeSlope(loop.Lt, loop.Le, 0)),
		Def{Light: true, Neutral: new(math.Inf(1)), NotNegative: allNotNegative}},
	{loop.Max, numbers, pairGrad(extremeSlope(loop.Lt, loop.Le, 1), extremeSlope(loop.Gt, loop.Ge, 0)),
		Def{Light: true, Neutral: new(math.Inf(-1)), NotNegative: someNotNegative}},
	{loop.And, bitsets, nil, Def{Light: true, Commutative: true}},
	{loop.Or, bitsets, nil, Def{Light: true, Commutative: true}}, {loop.Xor, bitsets, nil, Def{Commutative: true}},
	{loop.Shl, integers, nil, Def{}}, {loop.Shr, integers, nil, Def{}},
	{loop.Atan2, floats, pairGrad(
		func(g *Gradients, up, x, y, _ *ir.Value) *ir.Value { return angleSlope(g, up, x, y, y) },
		func(g *Gradients, up, x, y, _ *ir.Value) *ir.Value { return g.neg(angleSlope(g, up, x, y, x)) }), Def{}},
	{loop.Eq, anything, nil, Def{Light: true, Commutative: true}},
	{loop.Ne, anything, nil, Def{Light: true, Commutative: true}}, {loop.Lt, numbers, nil, Def{Light: true}},
	{loop.Le, numbers, nil, Def{Light: true}}, {loop.Gt, numbers, nil, Def{Light: true}},
	{loop.Ge, numbers, nil, Def{Light: true}},
}

// slope2 returns the derivative with respect to x or y, given the derivative up with respect to z = f(x, y); nil stands
// for up itself.
type slope2 func(g *Gradients, up, x, y, z *ir.Value) *ir.Value

// pairGrad returns the gradient rule of a function of two elements, given its slope by each of them.
func pairGrad(byX, byY slope2) func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return func(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
		out := []*ir.Value{up[0], up[0]}
		for i, by := range []slope2{byX, byY} {
			if by != nil && g.Wants(n.Inputs[i]) {
				out[i] = by(g, up[0], n.Inputs[0], n.Inputs[1], n.Outputs[0])
			}
		}
		return out
	}
}

// powerSlope returns the slope of xʸ by x, y·x^(y−1); if y is 0, the slope is 0 for every x.
func powerSlope(g *Gradients, up, x, y, _ *ir.Value) *ir.Value {
	if y.Const != nil && y.Const.Len() == 1 {
		switch c := y.Const.Float(0); c {
		case 0:
			return nil
		case 1:
			return up
		case 2:
			return g.mul(up, g.times(x, 2))
		}
		return g.mul(up, g.mul(y, g.op(loop.Pow, x, g.above(y, -1))))
	}
	d := g.mul(up, g.mul(y, g.op(loop.Pow, x, g.above(y, -1))))
	return g.choose(g.op(loop.Eq, y, g.number(y, 0)), nil, d)
}

// exponentSlope returns the slope of z = xʸ by y, z·log x; it is 0 if x is 0 and y is not negative.
func exponentSlope(g *Gradients, up, x, y, z *ir.Value) *ir.Value {
	zero := g.op(loop.And, g.op(loop.Eq, x, g.number(x, 0)), g.op(loop.Ge, y, g.number(y, 0)))
	return g.choose(zero, nil, g.mul(up, g.mul(z, g.f(loop.Log, x))))
}

// angleSlope returns up · side / (x² + y²); 0 at the point (0, 0), which has no angle.
func angleSlope(g *Gradients, up, x, y, side *ir.Value) *ir.Value {
	square := g.plus(g.mul(x, x), g.mul(y, y))
	origin := g.op(loop.And, g.op(loop.Eq, x, g.number(x, 0)), g.op(loop.Eq, y, g.number(y, 0)))
	return g.choose(origin, nil, g.div(g.mul(up, side), square))
}

// extremeSlope returns the slope of the smaller or larger of two elements by one of them: 0 if the comparison lost is
// true for them, and half of up if they are equal. If the other operand is a constant, a limit, the slope is also 0 at
// the limit, where lostOrTied is true.
func extremeSlope(lost, lostOrTied loop.BinaryOp, other int) slope2 {
	return func(g *Gradients, up, x, y, _ *ir.Value) *ir.Value {
		if isConstant([]*ir.Value{x, y}[other]) {
			return g.choose(g.op(lostOrTied, x, y), nil, up)
		}
		tied := g.choose(g.op(loop.Eq, x, y), g.times(up, 0.5), up)
		return g.choose(g.op(lost, x, y), nil, tied)
	}
}

// isConstant reports whether a value is a constant, or a constant converted, expanded or reshaped.
func isConstant(v *ir.Value) bool {
	for v.Const == nil && v.Node != nil && len(v.Node.Inputs) > 0 {
		switch v.Node.Op.Name() {
		case "cast", "expand", "reshape":
			v = v.Node.Inputs[0]
		default:
			return false
		}
	}
	return v.Const != nil
}

// init defines the operators of binaryTable.
func init() {
	for _, row := range binaryTable {
		def := binary(row.function, row.accepts, row.own)
		def.Grad = row.grad
		define(def)
	}
}

// binary returns the operator of f: its reference and its kernel apply f to each pair of broadcast elements. own holds
// the properties of this operator alone.
func binary(f loop.BinaryOp, takes accepts, own Def) *Def {
	return &Def{
		Op: f.String(), Elementwise: true, Broadcasts: true, Narrow: elementwiseNarrow, rows: elementwiseRows,
		Samples: binarySamples(takes),
		Light:   own.Light, Commutative: own.Commutative, Neutral: own.Neutral, NotNegative: own.NotNegative,
		Shape: func(c *ir.Inference, n *ir.Node) error {
			if err := arity(n, 2, 2); err != nil {
				return err
			}
			x, y := n.Inputs[0].Type, n.Inputs[1].Type
			if x.DType != y.DType {
				return fault(n, "operands of types %s and %s", x.DType, y.DType)
			}
			if !takes(x.DType) {
				return fault(n, "elements of type %s", x.DType)
			}
			shape, err := broadcast(c, n, x.Shape, y.Shape)
			if err != nil {
				return err
			}
			out := x.DType
			if f.Test() {
				out = dtype.Bool
			}
			v := n.Result(0, ir.Type{DType: out, Shape: shape})
			known2(c, v, f, n.Inputs[0], n.Inputs[1])
			return nil
		},
		Mean: func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
			out, err := result(e, n, 0)
			if err != nil {
				return nil, err
			}
			dt, flat := in[0].DType(), int64(0)
			tensor.Each(out.Shape(), func(at []int64) {
				x, y := bitsOf(in[0], broadcastFlat(at, in[0].Shape())), bitsOf(in[1], broadcastFlat(at, in[1].Shape()))
				setBits(out, flat, loop.EvalBinary(f, dt, x, y))
				flat++
			})
			return []*tensor.Tensor{out}, nil
		},
		Lowerings: []Lowering{{Name: "map", Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				x, y := k.In[0].Load(broadcastIndex(at, k.In[0].Shape)...), k.In[1].Load(broadcastIndex(at, k.In[1].Shape)...)
				k.Store(k.Out[0], at, loop.Apply2(f, x, y))
			})
		}}},
	}
}

// Binary applies a function to pairs of elements, with broadcasting.
func Binary(b *ir.Builder, f loop.BinaryOp, x, y *ir.Value) *ir.Value {
	return b.Op(f.String(), nil, x, y)
}

// Scalar returns a constant of rank 0.
func Scalar(b *ir.Builder, dt dtype.DType, x float64) *ir.Value {
	t, err := tensor.New(dt)
	if err != nil {
		b.Fail(err)
	}
	if dt.IsInt() || dt == dtype.Bool {
		t.SetInt(0, int64(x))
	} else {
		t.SetFloat(0, x)
	}
	return b.Constant("c", t)
}
