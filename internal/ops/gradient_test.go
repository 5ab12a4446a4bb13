package ops

import (
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
)

// TestGradient compares derivatives with central differences, for each row of derivatives and for values that are used
// more than once.
func TestGradient(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	type values = []*ir.Value
	unary := func(f loop.UnaryOp) func(*ir.Builder, values) *ir.Value {
		return func(b *ir.Builder, x values) *ir.Value { return Binary(b, loop.Mul, Unary(b, f, x[0]), x[1]) }
	}
	turned := func(x, y bool) func(*ir.Builder, values) *ir.Value {
		return func(b *ir.Builder, v values) *ir.Value {
			return Unary(b, loop.Tanh, MatMul(b, v[0], v[1], x, y))
		}
	}
	for name, c := range map[string]struct {
		shapes [][]int64
		build  func(*ir.Builder, values) *ir.Value
	}{
		"neg": {nil, unary(loop.Neg)}, "abs": {nil, unary(loop.Abs)}, "exp": {nil, unary(loop.Exp)},
		"log": {nil, unary(loop.Log)}, "sqrt": {nil, unary(loop.Sqrt)},
		"reciprocal": {nil, unary(loop.Reciprocal)}, "sin": {nil, unary(loop.Sin)}, "cos": {nil, unary(loop.Cos)},
		"tanh":    {nil, unary(loop.Tanh)},
		"sigmoid": {nil, unary(loop.Sigmoid)}, "erf": {nil, unary(loop.Erf)},
		"twice": {nil, func(b *ir.Builder, x values) *ir.Value {
			sum := Binary(b, loop.Add, x[0], x[1])
			return Binary(b, loop.Mul, sum, Binary(b, loop.Sub, sum, x[0]))
		}},
		"div": {nil, func(b *ir.Builder, x values) *ir.Value { return Binary(b, loop.Div, x[0], x[1]) }},
		"repeated": {[][]int64{{2, 3}, {3}}, func(b *ir.Builder, x values) *ir.Value {
			return Binary(b, loop.Div, Binary(b, loop.Sub, x[0], x[1]), x[1])
		}},
		"stretched": {[][]int64{{2, 1}, {1, 3}}, func(b *ir.Builder, x values) *ir.Value {
			return Binary(b, loop.Mul, x[0], x[1])
		}},
		"product":         {[][]int64{{2, 3}, {3, 4}}, turned(false, false)},
		"product T":       {[][]int64{{3, 2}, {3, 4}}, turned(true, false)},
		"product of T":    {[][]int64{{2, 3}, {4, 3}}, turned(false, true)},
		"product T of T":  {[][]int64{{3, 2}, {4, 3}}, turned(true, true)},
		"product of many": {[][]int64{{2, 2, 3}, {3, 4}}, turned(false, false)},
		"moved": {[][]int64{{2, 3}, {3, 2}}, func(b *ir.Builder, x values) *ir.Value {
			return Binary(b, loop.Mul, Transpose(b, x[0], 1, 0),
				Expand(b, Reshape(b, ReduceSum(b, x[1], false, 0), ir.Constants([]int64{1, 2})...), ir.Constants([]int64{3, 2})...))
		}},
		"wide": {nil, func(b *ir.Builder, x values) *ir.Value { return Cast(b, Binary(b, loop.Mul, x[0], x[1]), dtype.F64) }},
		"none": {nil, func(b *ir.Builder, x values) *ir.Value { return Binary(b, loop.Mul, x[1], x[1]) }},
	} {
		shapes := c.shapes
		if shapes == nil {
			shapes = [][]int64{{2, 3}, {2, 3}}
		}
		var in []*tensor.Tensor
		for _, shape := range shapes {
			x := tensor.Must(tensor.New(dtype.F64, shape...))
			for i := range x.Len() {
				x.SetFloat(i, 0.5+r.Float64())
			}
			in = append(in, x)
		}
		for which, x := range in {
			got := composed(t, in, func(b *ir.Builder, x []*ir.Value) *ir.Value { return Gradient(b, c.build(b, x), x)[which] })
			for i := range x.Len() {
				const h = 1e-5
				at, sides := x.Float(i), [2]float64{}
				for k, moved := range []float64{at - h, at + h} {
					x.SetFloat(i, moved)
					y := composed(t, in, c.build)
					for j := range y.Len() {
						sides[k] += y.Float(j)
					}
				}
				x.SetFloat(i, at)
				if want := (sides[1] - sides[0]) / (2 * h); math.Abs(got.Float(i)-want) > 1e-7*max(1, math.Abs(want)) {
					t.Errorf("%s: by element %d of operand %d it is %v, not %v", name, i, which, got.Float(i), want)
				}
			}
		}
	}
}

// TestGradientRefuses shows that differentiating an operator without a derivative fails.
func TestGradientRefuses(t *testing.T) {
	x := newSampled(Sample{Inputs: []*tensor.Tensor{tensor.Must(tensor.New(dtype.F64, 2, 1))}}, false)
	err := func() (err error) {
		defer ir.Catch(&err)
		Gradient(x.build, Couple(x.build, x.inputs[0], 2), x.inputs)
		return nil
	}()
	if !errors.Is(err, diag.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// TestGradientShapes differentiates products of operands that are broadcast along every axis, of rank 0, with extents
// of 1, empty, and with NaN and infinities: the derivative has each operand's shape, and is the sum of the other
// operand over the repeated axes.
func TestGradientShapes(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	shapes := [][]int64{{}, {1}, {3}, {2, 1}, {1, 3}, {2, 3}, {4, 2, 3}, {4, 1, 1}, {1, 1, 1}, {0, 3}, {2, 0}, {4, 0, 3}}
	for _, xs := range shapes {
		for _, ys := range shapes {
			full, ok := broadcastShape(xs, ys)
			if !ok {
				continue
			}
			x, y := sampleFloats(r, dtype.F64, xs...), sampleFloats(r, dtype.F64, ys...)
			got := composed(t, []*tensor.Tensor{x, y}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
				return Gradient(b, Binary(b, loop.Mul, v[0], v[1]), v)[0]
			})
			want := tensor.Must(tensor.New(dtype.F64, xs...))
			tensor.Each(full, func(at []int64) {
				to := broadcastFlat(at, xs)
				want.SetFloat(to, want.Float(to)+y.Float(broadcastFlat(at, ys)))
			})
			if err := compareSample(got, want, 0); err != nil {
				t.Errorf("%v by %v: %v", xs, ys, err)
			}
		}
	}
}

// broadcastShape returns the shape that two shapes are broadcast to; false if they cannot be.
func broadcastShape(x, y []int64) ([]int64, bool) {
	out := make([]int64, max(len(x), len(y)))
	for i := range out {
		out[i] = 1
		for _, s := range [][]int64{x, y} {
			at := i - len(out) + len(s)
			if at < 0 || s[at] == 1 {
				continue
			}
			if out[i] != 1 && out[i] != s[at] {
				return nil, false
			}
			out[i] = s[at]
		}
	}
	return out, true
}
