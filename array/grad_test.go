package array_test

import (
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// curves is a function of two inputs with two results: sin(x)·w, and x² + w³.
func curves(s *array.Scope, in ...*array.Array) []*array.Array {
	x, w := in[0], in[1]
	return []*array.Array{s.Mul(s.Sin(x), w), s.Add(s.Square(x), s.Mul(w, s.Square(w)))}
}

// TestVJPAndJVP checks both products with the Jacobian of two results by two inputs, element by element.
func TestVJPAndJVP(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s")
	xs, ws := []float64{0.5, -1, 2}, []float64{1.5, 2, -0.5}
	us, vs := []float64{1, 2, 3}, []float64{-1, 0.5, 4}
	of := func(data []float64) *array.Array { return array.From(s, data) }
	back := array.VJP(curves, 2)(s, of(xs), of(ws), of(us), of(vs))
	forth := array.JVP(curves, 2)(s, of(xs), of(ws), of(us), of(vs))
	fine(t, s.Err())
	got := func(a *array.Array) []float64 {
		list, err := array.Copy[float64](a)
		fine(t, err)
		return list
	}
	near := func(what string, i int, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s %d is %v, want %v", what, i, got, want)
		}
	}
	if len(back) != 2 || len(forth) != 2 {
		t.Fatalf("%d and %d results", len(back), len(forth))
	}
	for i, x := range xs {
		w, u, v := ws[i], us[i], vs[i]
		near("vjp by x", i, got(back[0])[i], u*math.Cos(x)*w+v*2*x)
		near("vjp by w", i, got(back[1])[i], u*math.Sin(x)+v*3*w*w)
		near("jvp of the first", i, got(forth[0])[i], math.Cos(x)*w*u+math.Sin(x)*v)
		near("jvp of the second", i, got(forth[1])[i], 2*x*u+3*w*w*v)
	}
	fine(t, s.Close())
}

// TestHessian checks a Hessian–vector product, the JVP of a gradient, in a compiled function of a named extent.
func TestHessian(t *testing.T) {
	array.AssertNoLeaks(t)
	f := func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Exp(s.Mul(in[0], s.Sum(in[0]))))}
	}
	c, err := array.Jit(array.JVP(array.Grad(f), 1),
		array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F64, "n"), array.SpecOf("v", weir.F64, "n")}})
	fine(t, err)
	s := array.NewScope("s")
	x, v := []float64{0.1, -0.2, 0.3}, []float64{1, 0.5, -2}
	got, err := array.Copy[float64](c.Call(s, array.From(s, x), array.From(s, v))[0])
	fine(t, err)
	slope := func(x []float64) []float64 {
		g, err := array.Copy[float64](array.Grad(f)(s, array.From(s, x))[0])
		fine(t, err)
		return g
	}
	const h = 1e-5
	up, down := make([]float64, 3), make([]float64, 3)
	for i := range x {
		up[i], down[i] = x[i]+h*v[i], x[i]-h*v[i]
	}
	a, b := slope(up), slope(down)
	for i := range x {
		if want := (a[i] - b[i]) / (2 * h); math.Abs(got[i]-want) > 1e-6 {
			t.Errorf("element %d is %v, differences give %v", i, got[i], want)
		}
	}
	fine(t, s.Close())
	fine(t, c.Close())
}

// TestStopAndCustom: no derivative passes Stop; Custom's derivative is the result of its second function, eager and
// compiled.
func TestStopAndCustom(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("s")
	x := array.From(s, []float32{2, 3})
	stopped := array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(s.Mul(in[0], s.Stop(in[0])))}
	})(s, x)[0]
	scale := array.From(s, []float32{10})
	rounded := array.Custom(
		func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Round(in[0])} },
		func(s *array.Scope, in, out, up []*array.Array) []*array.Array {
			return []*array.Array{s.Add(s.Mul(up[0], scale), s.Sub(out[0], in[0]))}
		})
	own := array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.Sum(rounded(s, in...)[0])}
	})(s, array.From(s, []float32{1.25, 3}))[0]
	plain := rounded(s, array.From(s, []float32{1.25, 3}))[0]
	for _, c := range []struct {
		a    *array.Array
		want [2]float32
	}{{stopped, [2]float32{2, 3}}, {own, [2]float32{9.75, 10}}, {plain, [2]float32{1, 3}}} {
		if list, err := array.Copy[float32](c.a); err != nil || [2]float32(list) != c.want {
			t.Errorf("%v, want %v: %v, %v", list, c.want, err, s.Err())
		}
	}
	fine(t, s.Close())
}

// TestMisuseOfVJP: seeds and tangents that do not fit, and explicit derivatives that do not, are errors.
func TestMisuseOfVJP(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, wrong := range map[string]func(s *array.Scope, x *array.Array){
		"few":     func(s *array.Scope, x *array.Array) { array.VJP(curves, 2)(s, x) },
		"seeds":   func(s *array.Scope, x *array.Array) { array.VJP(curves, 2)(s, x, x, x) },
		"shape":   func(s *array.Scope, x *array.Array) { array.VJP(curves, 2)(s, x, x, x, s.Ones(weir.F32, 7)) },
		"type":    func(s *array.Scope, x *array.Array) { array.JVP(curves, 2)(s, x, x, x, s.Ones(weir.F64, 2)) },
		"nothing": func(s *array.Scope, x *array.Array) { array.JVP(curves, 2)(s, x) },
		"custom": func(s *array.Scope, x *array.Array) {
			array.Grad(array.Custom(
				func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(in[0])} },
				func(_ *array.Scope, _, out, _ []*array.Array) []*array.Array { return out }))(s, x)
		},
	} {
		s := array.NewScope(name)
		wrong(s, s.Ones(weir.F32, 2))
		wants(t, s.Close(), weir.ErrInput, "grad_test.go:")
	}
}
