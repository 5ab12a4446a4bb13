package ops

import (
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// regionCase is a function with regions, and the same function without.
type regionCase struct {
	name         string
	region, flat func(b *ir.Builder, v []*ir.Value) *ir.Value
}

// exceeds returns whether the sum of x is above a limit, as a bool of one element.
func exceeds(b *ir.Builder, x *ir.Value, limit float64) *ir.Value {
	return Binary(b, loop.Gt, ReduceSum(b, x, false, 0), Scalar(b, dtype.F64, limit))
}

// cell returns one step: tanh(h·w + x).
func cell(b *ir.Builder, h, w, x *ir.Value) *ir.Value {
	return Unary(b, loop.Tanh, Binary(b, loop.Add, Binary(b, loop.Mul, h, w), x))
}

// branched returns a function that is tanh(x)·w or x·x, by the sum of x.
func branched(limit float64) func(b *ir.Builder, v []*ir.Value) *ir.Value {
	return func(b *ir.Builder, v []*ir.Value) *ir.Value {
		yes, no := &ir.Block{}, &ir.Block{}
		in := b.In(yes)
		yes.Results = []*ir.Value{Binary(in, loop.Mul, Unary(in, loop.Tanh, v[0]), v[1])}
		in = b.In(no)
		no.Results = []*ir.Value{Binary(in, loop.Mul, v[0], v[0])}
		return Binary(b, loop.Mul, If(b, exceeds(b, v[0], limit), yes, no)[0], v[1])
	}
}

// looped returns a function that runs the cell trip times, or while the state's sum is below a limit, and adds up the
// stacked states.
func looped(trip int64, limit *float64) func(b *ir.Builder, v []*ir.Value) *ir.Value {
	return func(b *ir.Builder, v []*ir.Value) *ir.Value {
		most := Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{sym.Const(trip)})
		body, in := LoopBody(b, "loop", sym.Const(trip), []*ir.Value{v[0]})
		h := cell(in, body.Params[2], v[1], v[0])
		on := in.Constant("on", truthTensor(true))
		if limit != nil {
			on = Unary(in, loop.Not, exceeds(in, h, *limit))
		}
		step := Cast(in, body.Params[0], dtype.F64)
		body.Results = []*ir.Value{on, h, Binary(in, loop.Mul, Binary(in, loop.Mul, h, v[1]), step)}
		out := Loop(b, body, most, nil, v[0])
		return Binary(b, loop.Add, out[0], ReduceSum(b, out[1], false, 0))
	}
}

// flatLoop is looped without a loop.
func flatLoop(trip int) func(b *ir.Builder, v []*ir.Value) *ir.Value {
	return func(b *ir.Builder, v []*ir.Value) *ir.Value {
		h, sum := v[0], Binary(b, loop.Mul, v[0], Scalar(b, dtype.F64, 0))
		for i := range trip {
			h = cell(b, h, v[1], v[0])
			sum = Binary(b, loop.Add, sum, Binary(b, loop.Mul, Binary(b, loop.Mul, h, v[1]), Scalar(b, dtype.F64, float64(i))))
		}
		return Binary(b, loop.Add, h, sum)
	}
}

// nested is a loop whose body has a branch that has a loop.
func nested(b *ir.Builder, v []*ir.Value) *ir.Value {
	body, in := LoopBody(b, "outer", sym.Const(2), []*ir.Value{v[0]})
	yes, no := &ir.Block{}, &ir.Block{}
	inner := in.In(yes)
	yes.Results = []*ir.Value{looped(2, nil)(inner, []*ir.Value{body.Params[2], v[1]})}
	no.Results = []*ir.Value{Unary(in.In(no), loop.Neg, v[1])}
	body.Results = []*ir.Value{in.Constant("on", truthTensor(true)), If(in, exceeds(in, v[1], 0), yes, no)[0]}
	return Loop(b, body, Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{sym.Const(2)}), nil, v[0])[0]
}

func nestedFlat(b *ir.Builder, v []*ir.Value) *ir.Value {
	h := v[0]
	for range 2 {
		h = flatLoop(2)(b, []*ir.Value{h, v[1]})
	}
	return h
}

// TestRegionDerivatives compares first and second derivatives through branches and loops with those of the same
// functions without regions: a trip count that is known, one that a condition decides, no iterations, and loops within
// branches within loops.
func TestRegionDerivatives(t *testing.T) {
	x, w := tensor.Of(0.5, 0.7), tensor.Of(0.9, 1.1)
	limit, never := 1.7, -10.0
	for _, c := range []regionCase{
		{"the first branch", branched(0), func(b *ir.Builder, v []*ir.Value) *ir.Value {
			return Binary(b, loop.Mul, Binary(b, loop.Mul, Unary(b, loop.Tanh, v[0]), v[1]), v[1])
		}},
		{"the second branch", branched(100), func(b *ir.Builder, v []*ir.Value) *ir.Value {
			return Binary(b, loop.Mul, Binary(b, loop.Mul, v[0], v[0]), v[1])
		}},
		{"three iterations", looped(3, nil), flatLoop(3)},
		{"none", looped(0, nil), flatLoop(0)},
		{"until a condition", looped(20, &limit), flatLoop(2)},
		{"once", looped(20, &never), flatLoop(1)},
		{"nested", nested, nestedFlat},
	} {
		for which := range 2 {
			first := func(f func(b *ir.Builder, v []*ir.Value) *ir.Value) func(b *ir.Builder, v []*ir.Value) *ir.Value {
				return func(b *ir.Builder, v []*ir.Value) *ir.Value { return Gradient(b, f(b, v), v)[which] }
			}
			second := func(f func(b *ir.Builder, v []*ir.Value) *ir.Value) func(b *ir.Builder, v []*ir.Value) *ir.Value {
				return func(b *ir.Builder, v []*ir.Value) *ir.Value {
					d := Gradient(b, f(b, v), v)[which]
					return Gradient(b, Binary(b, loop.Mul, d, v[1]), v)[0]
				}
			}
			in := []*tensor.Tensor{x, w}
			for order, derive := range []func(func(b *ir.Builder, v []*ir.Value) *ir.Value) func(b *ir.Builder,
				v []*ir.Value) *ir.Value{first, second} {
				if err := compareSample(composed(t, in, derive(c.region)), composed(t, in, derive(c.flat)), 1e-9); err != nil {
					t.Errorf("%s, by operand %d, order %d: %v", c.name, which, order+1, err)
				}
			}
		}
	}
}
