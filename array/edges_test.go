package array_test

import (
	"errors"
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestEdgeDerivatives compares derivatives at points at which a function or its formula has an edge with PyTorch's. In
// an eager call, a number is part of the code, so each derivative is also taken in a trace.
func TestEdgeDerivatives(t *testing.T) {
	array.AssertNoLeaks(t)
	type pair struct{ x, slope float64 }
	inf := math.Inf(1)
	of := func(f func(s *array.Scope, x *array.Array) *array.Array) func(*array.Scope, *array.Array) *array.Array {
		return f
	}
	two := math.Sqrt(math.Pi) / 2
	for _, test := range []struct {
		name   string
		f      func(s *array.Scope, x *array.Array) *array.Array
		points []pair
	}{
		{"relu", of((*array.Scope).Relu), []pair{{-1, 0}, {0, 0}, {math.Copysign(0, -1), 0}, {1, 1}, {inf, 1}}},
		{"relu6", of((*array.Scope).Relu6), []pair{{-1, 0}, {0, 0}, {3, 1}, {6, 0}, {7, 0}}},
		{"clip", func(s *array.Scope, x *array.Array) *array.Array { return s.Clip(x, s.Number(-2), s.Number(3)) },
			[]pair{{-3, 0}, {-2, 0}, {0, 1}, {3, 0}, {4, 0}}},
		{"a limit", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Minimum(s.Number(3), x)
		}, []pair{{2, 1}, {3, 0}, {4, 0}}},
		{"a tie", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Maximum(x, s.Abs(x))
		}, []pair{{-2, -1}, {0, 0.5}, {2, 1}}},
		{"prelu", func(s *array.Scope, x *array.Array) *array.Array { return s.PRelu(x, array.Scalar(s, float32(0.25))) },
			[]pair{{-1, 0.25}, {0, 0.25}, {1, 1}}},
		{"hard swish", of((*array.Scope).HardSwish), []pair{{-4, 0}, {-3, 0}, {0, 0.5}, {3, 1}, {4, 1}}},
		{"log sigmoid", of((*array.Scope).LogSigmoid), []pair{{-1e4, 1}, {0, 0.5}, {math.Log(3), 0.25}, {1e4, 0}}},
		{"softplus", of((*array.Scope).Softplus), []pair{{-1e4, 0}, {0, 0.5}, {1e4, 1}}},
		{"erfinv", of((*array.Scope).Erfinv), []pair{{0, two}, {0.5, two * math.Exp(math.Pow(math.Erfinv(0.5), 2))},
			{-0.999, two * math.Exp(math.Pow(math.Erfinv(0.999), 2))}, {1, inf}}},
		{"log of a sum of exponentials", func(s *array.Scope, x *array.Array) *array.Array {
			return s.LogAddExp(x, array.Scalar(s, float32(1)))
		},
			[]pair{{1, 0.5}, {1 + math.Log(3), 0.75}, {1e4, 1}, {-1e4, 0}}},
		{"root of two squares", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Hypot(x, array.Scalar(s, float32(3)))
		},
			[]pair{{0, 0}, {3, math.Sqrt2 / 2}, {-3, -math.Sqrt2 / 2}, {4, 0.8}}},
		{"root of a square", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Hypot(array.Scalar(s, float32(0)), x)
		}, []pair{{0, 0}, {-2, -1}}},
		{"angle", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Atan2(x, array.Scalar(s, float32(0)))
		}, []pair{{0, 0}, {1, 0}}},
		{"angle of the other", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Atan2(array.Scalar(s, float32(0)), x)
		}, []pair{{0, 0}, {2, 0}}},
		{"deviation of equals", func(s *array.Scope, x *array.Array) *array.Array {
			return s.StdKeep(s.Tile(s.ExpandDims(x, 1), 1, 3), 1)
		},
			[]pair{{0, 0}, {5, 0}}},
		{"3-norm", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Norm(s.ExpandDims(x, 1), 3, 1)
		}, []pair{{-2, -1}, {0, 0}, {3, 1}}},
		{"½-norm", func(s *array.Scope, x *array.Array) *array.Array {
			return s.Norm(s.Stack(1, x, s.ZerosLike(x)), 0.5, 1)
		}, []pair{{-2, -1}, {0, 0}, {3, 1}}},
	} {
		for _, p := range test.points {
			s := array.NewScope("point")
			c, err := array.Jit(array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{s.Sum(test.f(s, in[0]))}
			}), array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 1)}})
			if err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			got, err := array.Item[float32](c.Call(s, array.From(s, []float32{float32(p.x)}))[0])
			if err := errors.Join(err, s.Close(), c.Close()); err != nil {
				t.Fatalf("%s: %v", test.name, err)
			}
			if g := float64(got); g != p.slope && !(math.Abs(g-p.slope) <= 1e-4*math.Max(1, math.Abs(p.slope))) {
				t.Errorf("the derivative of %s at %v is %v, not %v", test.name, p.x, g, p.slope)
			}
		}
	}
}

// TestSecondOfMarked: functions with an explicit derivative have second derivatives and Jacobian–vector products.
func TestSecondOfMarked(t *testing.T) {
	array.AssertNoLeaks(t)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, test := range []struct {
		name string
		f    func(s *array.Scope, x *array.Array) *array.Array
		x    float64
		want [2]float64 // the first and the second derivative
	}{
		{"log sigmoid", (*array.Scope).LogSigmoid, 0.7, [2]float64{sigmoid(-0.7), -sigmoid(0.7) * sigmoid(-0.7)}},
		{"erfinv", (*array.Scope).Erfinv, 0.5, [2]float64{math.Sqrt(math.Pi) / 2 * math.Exp(math.Pow(math.Erfinv(0.5), 2)),
			math.Pi / 2 * math.Erfinv(0.5) * math.Exp(2*math.Pow(math.Erfinv(0.5), 2))}},
	} {
		f := func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{s.Sum(test.f(s, in[0]))}
		}
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			one := s.OnesLike(in[0])
			return append(array.JVP(f, 1)(s, in[0], one), array.JVP(array.Grad(f), 1)(s, in[0], one)...)
		}, array.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := array.NewScope("point")
		for i, y := range c.Call(s, array.From(s, []float64{test.x})) {
			list, err := array.Copy[float64](y)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(list[0]-test.want[i]) > 1e-5 {
				t.Errorf("%s: derivative %d is %v, not %v", test.name, i+1, list[0], test.want[i])
			}
		}
		if err := errors.Join(s.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	}
}
