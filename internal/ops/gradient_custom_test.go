package ops

import (
	"errors"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
)

// TestStop shows that no derivative passes a stop, and that derivatives by other paths remain.
func TestStop(t *testing.T) {
	x := tensor.Of(2.0, 3.0)
	got := composed(t, []*tensor.Tensor{x}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return Gradient(b, Binary(b, loop.Mul, v[0], Stop(b, v[0])), v)[0]
	})
	if err := compareSample(got, x, 0); err != nil {
		t.Error(err)
	}
}

// TestCustom differentiates, twice, results with a custom derivative that reads values around it; one of the results
// has no derivative.
func TestCustom(t *testing.T) {
	x, y := tensor.Of(2.0, 3.0), tensor.Of(5.0, -1.0)
	build := func(b *ir.Builder, v []*ir.Value) []*ir.Value {
		product, sum := Binary(b, loop.Mul, v[0], v[1]), Binary(b, loop.Add, v[0], v[1])
		return Custom(b, []*ir.Value{product, sum}, v, func(b *ir.Builder, up []*ir.Value) []*ir.Value {
			cubed := Binary(b, loop.Mul, v[0], Binary(b, loop.Mul, v[0], product))
			return []*ir.Value{Binary(b, loop.Mul, up[0], cubed), Binary(b, loop.Add, up[0], up[1])}
		})
	}
	first := composed(t, []*tensor.Tensor{x, y}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return Gradient(b, build(b, v)[0], v)[0]
	})
	if want := tensor.Of(40.0, -27.0); compareSample(first, want, 0) != nil {
		t.Errorf("x³y is %v, not %v", first, want)
	}
	second := composed(t, []*tensor.Tensor{x, y}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		return Gradient(b, Gradient(b, build(b, v)[0], v)[0], v)[0]
	})
	if want := tensor.Of(60.0, -27.0); compareSample(second, want, 0) != nil {
		t.Errorf("3x²y is %v, not %v", second, want)
	}
}

// TestSeeds differentiates several results with seeds: one seed is missing, and one result is an input itself.
func TestSeeds(t *testing.T) {
	x, y := tensor.Of(2.0, 3.0), tensor.Of(5.0, -1.0)
	got := composed(t, []*tensor.Tensor{x, y}, func(b *ir.Builder, v []*ir.Value) *ir.Value {
		ys := []*ir.Value{Binary(b, loop.Mul, v[0], v[1]), v[0], Binary(b, loop.Sub, v[0], v[1])}
		return VJP(b, ys, []*ir.Value{v[1], v[0]}, v)[0] // y·y + x + 1
	})
	if want := tensor.Of(28.0, 5.0); compareSample(got, want, 0) != nil {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestForward shows that derivatives along a direction are the derivative of VJP, which is linear, by its seed.
func TestForward(t *testing.T) {
	x, v := tensor.Of(2.0, 3.0), tensor.Of(5.0, -1.0)
	got := composed(t, []*tensor.Tensor{x, v}, func(b *ir.Builder, in []*ir.Value) *ir.Value {
		y := Unary(b, loop.Tanh, Binary(b, loop.Mul, in[0], in[0]))
		seed := Binary(b, loop.Mul, y, Scalar(b, y.Type.DType, 0))
		back := VJP(b, []*ir.Value{y}, []*ir.Value{seed}, in[:1])
		return VJP(b, back, in[1:], []*ir.Value{seed})[0]
	})
	want := composed(t, []*tensor.Tensor{x, v}, func(b *ir.Builder, in []*ir.Value) *ir.Value {
		y := Unary(b, loop.Tanh, Binary(b, loop.Mul, in[0], in[0]))
		return Binary(b, loop.Mul, in[1], Gradient(b, y, in[:1])[0])
	})
	if err := compareSample(got, want, 0); err != nil {
		t.Error(err)
	}
}

// TestSeedsRefused shows that VJP fails for a seed of another type than its result, and for derivatives of and by
// integers.
func TestSeedsRefused(t *testing.T) {
	x := newSampled(Sample{Inputs: []*tensor.Tensor{tensor.Of(1.0, 2.0), tensor.Of[int64](1, 2), tensor.Of(1.0)}}, false)
	for name, f := range map[string]func(){
		"of integers":  func() { VJP(x.build, x.inputs[1:2], nil, x.inputs[:1]) },
		"by integers":  func() { VJP(x.build, x.inputs[:1], nil, x.inputs[1:2]) },
		"a short seed": func() { VJP(x.build, x.inputs[:1], x.inputs[2:], x.inputs[:1]) },
	} {
		err := func() (err error) {
			defer ir.Catch(&err)
			f()
			return nil
		}()
		if !errors.Is(err, diag.ErrInput) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
