package nn_test

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/nn"
)

// typed lists layers with parameters whose element type is an option, and the shape of an input of each.
var typed = []struct {
	build func(o ...nn.Option) nn.Layer
	shape []int
}{
	{func(o ...nn.Option) nn.Layer { return nn.Linear(6, 4, o...) }, []int{2, 6}},
	{func(o ...nn.Option) nn.Layer { return nn.Conv2d(2, 4, 3, append(o, nn.Padding(1))...) }, []int{1, 2, 5, 4}},
	{func(o ...nn.Option) nn.Layer { return nn.ConvTranspose1d(2, 4, 3, o...) }, []int{1, 2, 5}},
	{func(o ...nn.Option) nn.Layer { return nn.LayerNorm(6, o...) }, []int{3, 6}},
	{func(o ...nn.Option) nn.Layer { return nn.RMSNorm(6, o...) }, []int{3, 6}},
	{func(o ...nn.Option) nn.Layer { return nn.BatchNorm(3, o...) }, []int{4, 3, 2}},
	{func(o ...nn.Option) nn.Layer { return nn.GroupNorm(2, 4, o...) }, []int{2, 4, 3}},
	{func(o ...nn.Option) nn.Layer { return nn.LSTM(3, 4, o...) }, []int{2, 3, 3}},
	{func(o ...nn.Option) nn.Layer { return nn.GRU(3, 4, o...) }, []int{2, 3, 3}},
	{func(o ...nn.Option) nn.Layer { return nn.TransformerEncoderLayer(8, 2, 12, o...) }, []int{1, 4, 8}},
	{func(o ...nn.Option) nn.Layer { return nn.PRelu(3, o...) }, []int{2, 3, 2}},
	{func(o ...nn.Option) nn.Layer { return nn.Positions(5, 4, o...) }, []int{2, 3, 4}},
}

// TestTypes: layers of f64, bf16 and f16 read the f32 parameters of a file, and give the f32 layer's results up to the
// rounding of their type.
func TestTypes(t *testing.T) {
	for _, dt := range []weir.DType{weir.F64, weir.BF16, weir.F16} {
		for _, c := range typed {
			t.Run(fmt.Sprint(dt, c.build()), func(t *testing.T) {
				plain, other := c.build(), c.build(nn.Type(dt))
				s, p := open(t, plain)
				q, err := nn.New(other, 3)
				if err != nil {
					t.Fatal(err)
				}
				defer q.Close()
				var file bytes.Buffer
				if err := p.WriteSafetensors(&file); err != nil {
					t.Fatal(err)
				}
				if err := q.ReadSafetensors(&file); err != nil {
					t.Fatal(err)
				}
				x := ramp(s, c.shape...)
				want := nn.One(nn.Training(s, p, nil), plain, x)
				got := nn.One(nn.Training(s, q, nil), other, s.Cast(x, dt))
				if got.DType() != dt {
					t.Errorf("the result is %v", got)
				}
				list := elements(t, s.Cast(got, weir.F32))
				tolerance := map[weir.DType]float64{weir.F64: 1e-5, weir.F16: 2e-2, weir.BF16: 1e-1}[dt]
				for i, v := range elements(t, want) {
					if d := math.Abs(float64(list[i] - v)); !(d <= tolerance*max(1, math.Abs(float64(v)))) {
						t.Fatalf("element %d is %v, not %v", i, list[i], v)
					}
				}
			})
		}
	}
}

// TestParametersOwnNothing: the results of a layer, in inference and in training, belong to the scope in which it runs,
// and the scope of its parameters gains no array, byte or child.
func TestParametersOwnNothing(t *testing.T) {
	check := func(net nn.Layer, input func(s *array.Scope) *array.Array) {
		t.Run(fmt.Sprint(net), func(t *testing.T) {
			s, p := open(t, net)
			before := p.Scope().Stats()
			x := input(s)
			for range 3 {
				request := array.NewScope("request")
				for _, y := range []*array.Array{nn.One(nn.Inference(request, p), net, x),
					nn.One(nn.Training(request, p, nil), net, x)} {
					if y.Scope() != request {
						t.Errorf("a result belongs to %v: %v", y.Scope(), request.Err())
					}
				}
				if err := request.Close(); err != nil {
					t.Fatal(err)
				}
			}
			after := p.Scope().Stats()
			if after.Bytes != before.Bytes || len(after.Arrays) != len(before.Arrays) || len(after.Children) != 0 {
				t.Errorf("the parameters' scope holds %v, and held %v", after, before)
			}
		})
	}
	for _, c := range typed {
		check(c.build(), func(s *array.Scope) *array.Array { return ramp(s, c.shape...) })
	}
	check(nn.Embedding(24, 3), func(s *array.Scope) *array.Array {
		return s.Reshape(s.Arange(weir.I32, 0, 24, 1), 2, 3, 4)
	})
}

// TestParametersOutsideLimit: a network runs in a scope whose limit is less than the size of its parameters, because
// they belong to the store's scope.
func TestParametersOutsideLimit(t *testing.T) {
	net := nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
	s, p := open(t, net)
	inner := array.NewScope("limited", array.In(s), array.Limit(3*8*4*2))
	defer inner.Close()
	if _, err := nn.Predict(inner, net, p, s.Ones(weir.F32, 1, 8)); err != nil {
		t.Error(err)
	}
	if p.Bytes() != 2*(64+8)*4 {
		t.Errorf("the parameters take %d bytes", p.Bytes())
	}
}
