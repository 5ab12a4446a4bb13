package array_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// exported are functions of x[n, 3], f32, that are written as ONNX.
var exported = map[string]array.Func{
	"elementwise": func(s *array.Scope, in ...*array.Array) []*array.Array {
		x := in[0]
		return []*array.Array{s.Add(s.Log1p(s.Abs(x)), s.Mul(s.Expm1(x), s.Trunc(x))), s.Remainder(x, s.Number(0.7)),
			s.Where(s.NotEqual(x, s.Number(1)), x, s.Neg(x))}
	},
	"shapes": func(s *array.Scope, in ...*array.Array) []*array.Array {
		x := in[0]
		return []*array.Array{s.Reshape(x, 3, -1), s.Flip(x, 1), s.Concat(0, x, x), s.Repeat(x, 2, 1), s.CumSum(x, 0),
			s.Roll(x, 1, 1), s.Take(x, array.From(s, []uint8{2, 0}), 1),
			s.SumKeep(x, 0), s.Softmax(x, 0), s.BroadcastTo(s.Sum(x), 2, 2)}
	},
	"cond": func(s *array.Scope, in ...*array.Array) []*array.Array {
		x := in[0]
		return s.Cond(s.Greater(s.Sum(x), s.Number(0)), func(s *array.Scope, v ...*array.Array) []*array.Array {
			return []*array.Array{s.Mul(v[0], s.Number(2))}
		}, func(s *array.Scope, v ...*array.Array) []*array.Array {
			return []*array.Array{s.Sub(x, s.Number(3))}
		}, x)
	},
	"while": func(s *array.Scope, in ...*array.Array) []*array.Array {
		limit := s.Number(50)
		return s.While(func(s *array.Scope, v ...*array.Array) *array.Array { return s.Less(s.Sum(s.Abs(v[0])), limit) },
			func(s *array.Scope, v ...*array.Array) []*array.Array {
				return []*array.Array{s.Add(s.Mul(v[0], s.Number(2)), in[0])}
			}, in[0])
	},
	"scan": func(s *array.Scope, in ...*array.Array) []*array.Array {
		end, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
			sum := s.Add(state[0], x[0])
			return []*array.Array{sum}, []*array.Array{s.Mul(sum, sum)}
		}, []*array.Array{s.Zeros(weir.F32, 3)}, in)
		return append(end, ys...)
	},
}

// TestWriteONNX writes functions as ONNX, also with named extents, and compares the models' results with the
// functions'.
func TestWriteONNX(t *testing.T) {
	for name, f := range exported {
		t.Run(name, func(t *testing.T) {
			array.AssertNoLeaks(t)
			s := array.NewScope("test")
			defer s.Close()
			x := array.From(s, []float32{1, -2, 3, 0.5, 1.25, -0.75, 2, 2, 1, 0, 1e-6, -1}, 4, 3)
			want := f(s, x)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			for _, spec := range []array.Spec{array.SpecOf("x", weir.F32, 4, 3), array.SpecOf("x", weir.F32, "rows", 3)} {
				var file bytes.Buffer
				if err := array.WriteONNX(&file, f, []array.Spec{spec}, nil); err != nil {
					t.Fatal(err)
				}
				compareModel(t, file.Bytes(), x, want)
			}
		})
	}
}

// compareModel runs a model of one input, and compares its results with want.
func compareModel(t *testing.T, model []byte, x *array.Array, want []*array.Array) {
	t.Helper()
	m, err := weir.LoadBytes(model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r, err := p.Run(context.Background(), weir.Inputs{"x": x.Tensor()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, a := range want {
		got, err := weir.Copy[float32](r.At(i))
		if err != nil {
			t.Fatal(err)
		}
		list, err := array.Copy[float32](a)
		if err != nil || len(list) != len(got) {
			t.Fatalf("result %d has %d elements, not %d: %v", i, len(got), len(list), err)
		}
		for k, v := range list {
			if d := math.Abs(float64(got[k] - v)); !(d <= 1e-5*max(1, math.Abs(float64(v)))) {
				t.Errorf("result %d, element %d is %v, not %v", i, k, got[k], v)
				break
			}
		}
	}
}

// TestWriteONNXRefused: the error names an operation that ONNX does not have, and the first error of the function.
func TestWriteONNXRefused(t *testing.T) {
	array.AssertNoLeaks(t)
	for says, f := range map[string]array.Func{
		"atan2": func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Atan2(in[0], in[0])} },
		"f32[4,3]": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return []*array.Array{s.MatMul(in[0], in[0])}
		},
	} {
		err := array.WriteONNX(&bytes.Buffer{}, f, []array.Spec{array.SpecOf("x", weir.F32, 4, 3)}, nil)
		var e *weir.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), says) {
			t.Error(err)
		}
	}
}
