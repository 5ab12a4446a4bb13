package array_test

import (
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// halved is a function that is computed by a Pair, forward and backward separately, and at once.
type halved struct {
	f      array.Func
	shapes [][]any // of the inputs; names stand for extents
	ints   []int   // the inputs that are i64: indices below 3
	seeds  int     // Apart's results
	saves  int64   // the saved bytes with 4 as each named extent; −1: not checked
}

// functions are computed at extents n = 4 and 7; with named extents, by one Pair.
var functions = map[string]halved{
	"layers": {f: func(s scope, in ...arr) []arr {
		h := s.Relu(s.Add(s.MatMul(in[0], in[1]), in[2]))
		return []arr{s.Mean(s.Square(s.MatMul(h, in[3])))}
	}, shapes: [][]any{{"n", 5}, {5, 6}, {6}, {6, 2}}, saves: 4*6*4 + 4*2*4},
	"elementwise": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Mul(s.Tanh(s.Exp(s.Sin(in[0]))), in[1]), s.Square(in[0])}
	}, shapes: [][]any{{"n", 3}, {3}}, saves: 0},
	"results": {f: func(s scope, in ...arr) []arr { // backward reads a result, which is lent to it
		return []arr{s.MatMul(in[0], in[1]), s.Square(s.MatMul(in[0], in[1]))}
	}, shapes: [][]any{{"n", 3}, {3, 3}}, saves: 0},
	"inputs": {f: func(s scope, in ...arr) []arr {
		return []arr{in[0], s.Mul(in[0], in[0]), in[0]}
	}, shapes: [][]any{{"n"}}, saves: 0},
	"unused": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Exp(in[1])}
	}, shapes: [][]any{{"n", 2}, {3}, {"n"}}, saves: 0},
	"constant": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Ones(weir.F32, 2), s.Sum(s.Stop(in[0]))}
	}, shapes: [][]any{{"n"}}, saves: 0},
	"ids": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Square(s.Take(in[1], in[0], 0))}
	}, shapes: [][]any{{"n"}, {3, 5}}, ints: []int{0}, saves: 0},
	"some": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Sum(s.Exp(in[0])), s.MatMul(in[0], in[0])}
	}, shapes: [][]any{{3, 3}}, seeds: 1, saves: 0},
	"stop": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Mul(s.MatMul(in[0], s.Stop(in[1])), s.Stop(s.Exp(in[0])))}
	}, shapes: [][]any{{"n", 3}, {3, 3}}, saves: -1},
	"custom": {f: array.Custom(func(s scope, in ...arr) []arr { return []arr{s.Round(in[0])} },
		func(s scope, in, out, up []arr) []arr {
			return []arr{s.Add(up[0], s.Sub(out[0], in[0]))}
		}), shapes: [][]any{{"n", 3}}, saves: 0},
	"convolution": {f: func(s scope, in ...arr) []arr {
		h := s.MaxPool(s.Relu(s.Conv(in[0], in[1], in[2], array.Window{Padding: [][2]int{{1, 1}, {1, 1}}})), []int{2, 2},
			array.Window{})
		return []arr{s.Square(h)}
	}, shapes: [][]any{{"n", 2, 6, 6}, {3, 2, 3, 3}, {3}}, saves: -1},
	"attention": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Attention(s.LayerNorm(in[0], in[3], nil, 1e-3), in[1], in[2], nil, array.Heads{Causal: true})}
	}, shapes: [][]any{{"n", 2, 3, 4}, {"n", 2, 3, 4}, {"n", 2, 3, 4}, {4}}, saves: -1},
	"softmax": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Mul(s.LogSoftmax(in[0], -1), s.Softmax(in[0], 0))}
	}, shapes: [][]any{{"n", 3}}, saves: -1},
	"lstm": {f: func(s scope, in ...arr) []arr {
		return s.Recurrent(array.Recurrence{Cell: array.LSTMCell, Reverse: []bool{false}}, in[0], in[1], in[2], in[3], nil)
	}, shapes: [][]any{{"n", 2, 1, 12}, {1, 12, 3}, {1, 2, 3}, {1, 2, 3}}, saves: -1},
	"gru": {f: func(s scope, in ...arr) []arr {
		return s.Recurrent(array.Recurrence{Cell: array.GRUCell, Reverse: []bool{false}}, in[0], in[1], in[2], nil, nil)[:1]
	}, shapes: [][]any{{"n", 2, 1, 9}, {1, 9, 3}, {1, 2, 3}}, saves: -1},
	"cond": {f: func(s scope, in ...arr) []arr {
		return s.Cond(s.Greater(s.Sum(in[0]), s.Number(0)), func(s scope, v ...arr) []arr {
			return []arr{s.Exp(s.MatMul(v[0], in[1]))}
		},
			func(s scope, v ...arr) []arr { return []arr{s.Square(s.MatMul(v[0], in[1]))} }, in[0])
	}, shapes: [][]any{{"n", 3}, {3, 3}}, saves: -1},
	"for": {f: func(s scope, in ...arr) []arr {
		return s.For(3, func(s scope, _ arr, v ...arr) []arr { return []arr{s.Sin(s.MatMul(v[0], in[1]))} }, in[0])
	}, shapes: [][]any{{"n", 3}, {3, 3}}, saves: -1},
	"scan": {f: func(s scope, in ...arr) []arr {
		end, ys := s.Scan(func(s scope, state, x []arr) (next, y []arr) {
			sum := s.Tanh(s.Add(state[0], s.Mul(x[0], in[1])))
			return []arr{sum}, []arr{s.Mul(sum, sum)}
		}, []arr{s.Zeros(weir.F32, 3)}, in[:1])
		return append(end, ys...)
	}, shapes: [][]any{{"n", 3}, {3}}, saves: -1},
	"sorted": {f: func(s scope, in ...arr) []arr {
		return []arr{s.Mul(s.Sort(in[0], 0), in[0])}
	}, shapes: [][]any{{"n", 3}}, saves: -1},
	"decided": {f: func(s scope, in ...arr) []arr { // data decide the number of rows
		rows := s.Take(in[0], s.Nonzero(s.Greater(in[1], s.Number(0)))[0], 0)
		return []arr{s.Sum(s.Square(s.MatMul(rows, in[2])))}
	}, shapes: [][]any{{"n", 3}, {"n"}, {3, 2}}, saves: -1},
	"dropout": {f: func(s scope, in ...arr) []arr {
		return []arr{s.MatMul(s.Dropout(array.Key(3), in[0], 0.5), in[1])}
	}, shapes: [][]any{{"n", 3}, {3, 3}}, saves: -1},
	"assigned": {f: func(s scope, in ...arr) []arr {
		h := s.Exp(in[0])
		s.Assign(h, s.Square(in[1]), 0)
		return []arr{s.Mul(h, h)}
	}, shapes: [][]any{{"n", 3}, {3}}, saves: -1},
}

// arrays returns inputs at an extent, or seeds for results.
func (h halved) arrays(s scope, key array.Key, n int) (in []arr) {
	for i, k := range key.Split(len(h.shapes)) {
		var shape []int
		for _, e := range h.shapes[i] {
			if size, fixed := e.(int); fixed {
				shape = append(shape, size)
			} else {
				shape = append(shape, n)
			}
		}
		if len(h.ints) > 0 && h.ints[0] == i {
			in = append(in, s.Cast(s.Uniform(k, weir.F32, 0, 3, shape...), weir.I64))
		} else {
			in = append(in, s.Normal(k, weir.F32, 0, 1, shape...))
		}
	}
	return in
}

// specs returns the specs of the inputs.
func (h halved) specs() (specs []array.Spec) {
	for i, shape := range h.shapes {
		dt := weir.F32
		if len(h.ints) > 0 && h.ints[0] == i {
			dt = weir.I64
		}
		// the names are used for results too
		specs = append(specs, array.SpecOf([]string{"", "y0", "d0", "seed0"}[i], dt, shape...))
	}
	return specs
}

// equal fails t unless arrays are equal up to rounding.
func equal(t *testing.T, what string, got, want []arr) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d arrays, not %d", what, len(got), len(want))
		return
	}
	for i, a := range got {
		if a.DType() != weir.F32 {
			x, err := array.Copy[int64](a)
			for _, e := range x {
				if fine(t, err); e != 0 {
					t.Errorf("%s %d of an integer is %v", what, i, x)
				}
			}
			continue
		}
		x, err := array.Copy[float32](a)
		fine(t, err)
		y, err := array.Copy[float32](want[i])
		fine(t, err)
		if a.String() != want[i].String() {
			t.Errorf("%s %d is %v, not %v", what, i, a, want[i])
			continue
		}
		for k := range x {
			if d := math.Abs(float64(x[k] - y[k])); !(d <= 1e-4*(1+math.Abs(float64(y[k])))) {
				t.Errorf("%s %d, element %d: %v, not %v", what, i, k, x[k], y[k])
				break
			}
		}
	}
}

// TestApart computes functions by Pairs, for the shapes of each call and for named extents, and compares results and
// derivatives with those of VJP.
func TestApart(t *testing.T) {
	for name, h := range functions {
		t.Run(name, func(t *testing.T) {
			array.AssertNoLeaks(t)
			for _, specs := range [][]array.Spec{nil, h.specs()} {
				p, err := array.Apart(h.f, h.seeds, array.Options{Name: name, Inputs: specs})
				fine(t, err)
				for _, n := range []int{4, 7, 4} {
					h.check(t, p, n)
				}
				if h.saves >= 0 {
					_, bytes := p.Saves()
					if got, err := bytes.At(weir.Dims{"n": 4}); err != nil || got != h.saves {
						t.Errorf("%v bytes are saved (%v), not %d: %v", got, bytes, h.saves, err)
					}
				}
				fine(t, p.Close())
			}
		})
	}
}

// check compares one call of both halves with the function's own results and derivatives.
func (h halved) check(t *testing.T, p *array.Pair, n int) {
	t.Helper()
	s := array.NewScope("check")
	in := h.arrays(s, array.Key(uint64(n)), n)
	want := h.f(s, in...)
	out, saved := p.Forward(s, in...)
	fine(t, s.Err())
	equal(t, "result", out, want)
	var seeds, all []arr
	for i, y := range want {
		seed := s.Normal(array.Key(uint64(100+i)), weir.F32, 0, 1, y.Shape()...)
		if h.seeds == 0 || i < h.seeds {
			seeds, all = append(seeds, seed), append(all, seed)
		} else {
			all = append(all, s.ZerosLike(y))
		}
	}
	got := saved.Backward(s, seeds...)
	fine(t, s.Err())
	if saved.Bytes() != 0 {
		t.Errorf("%d bytes are left of what was saved", saved.Bytes())
	}
	equal(t, "derivative", got, array.VJP(h.f, len(in))(s, append(in, all...)...))
	fine(t, s.Close())
}

// layers returns a network of three layers of 64, with captured weights if there are any.
func layers(weights []arr) array.Func {
	return func(s scope, in ...arr) []arr {
		h := in[0]
		for i := range 3 {
			w := append(in[1:len(in):len(in)], weights...)[i]
			h = s.Tanh(s.MatMul(h, w))
		}
		return []arr{s.Sum(s.Square(h))}
	}
}

// pairs makes n calls of Forward. Every second is followed by Backward; of the others, half are closed and half are
// left to their scope.
func pairs(t *testing.T, p *array.Pair, n int) {
	root := array.NewScope("pairs")
	x, w := root.Normal(array.Key(1), weir.F32, 0, 1, 8, 16), root.Normal(array.Key(2), weir.F32, 0, 0.1, 16, 16)
	for i := range n {
		s := array.NewScope("pair", array.In(root))
		_, saved := p.Forward(s, x, w, w, w)
		if s.Err() == nil && saved.Bytes() == 0 {
			t.Error("nothing is saved")
		}
		switch i % 4 {
		case 0, 2:
			saved.Backward(s)
		case 1:
			fine(t, saved.Close())
		}
		if err := s.Close(); err != nil {
			t.Error(err)
			break
		}
	}
	fine(t, root.Close())
}

// TestApartGrows: 10⁴ calls from four goroutines, half of them without Backward, leave nothing.
func TestApartGrows(t *testing.T) {
	array.AssertNoLeaks(t)
	p, err := array.Apart(layers(nil), 0, array.Options{Name: "net", Compile: weir.Options{Threads: 1}})
	fine(t, err)
	flat(t, func(n int) {
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { pairs(t, p, n/4) })
		}
		all.Wait()
	}, times(10_000))
	fine(t, p.Close())
}

// TestApartBeside: goroutines compute derivatives of one Pair at different sizes at the same time, and each gets its
// own.
func TestApartBeside(t *testing.T) {
	array.AssertNoLeaks(t)
	h := functions["attention"]
	for _, o := range []array.Options{{Inputs: h.specs()}, {}} {
		o.Compile.Calls = 2
		p, err := array.Apart(h.f, 0, o)
		fine(t, err)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 4 {
					h.check(t, p, 2+(g+i)%3)
				}
			})
		}
		all.Wait()
		fine(t, p.Close())
	}
}

// TestApartOnce: a Saved is used once. The error of a second use names both lines, and so does that of a use after the
// Saved, or its scope, was closed.
func TestApartOnce(t *testing.T) {
	array.AssertNoLeaks(t)
	p, err := array.Apart(layers(nil), 0, array.Options{Name: "net"})
	fine(t, err)
	for how, end := range map[string]func(s scope, saved *array.Saved){
		"used":   func(s scope, saved *array.Saved) { saved.Backward(s) },
		"closed": func(_ scope, saved *array.Saved) { fine(t, saved.Close()) },
	} {
		s := array.NewScope("once")
		w := s.Ones(weir.F32, 4, 4)
		_, saved := p.Forward(s, s.Ones(weir.F32, 2, 4), w, w, w)
		end(s, saved)
		fine(t, s.Err())
		fine(t, saved.Close())
		out := saved.Backward(s)
		if err := s.Err(); !errors.Is(err, weir.ErrClosed) || strings.Count(err.Error(), "apart_test.go:") != 3 ||
			!strings.Contains(err.Error(), how) || len(out) != 4 {
			t.Errorf("%v, %d results", err, len(out))
		}
		s.Close()
	}
	s, other := array.NewScope("first"), array.NewScope("second")
	w := other.Ones(weir.F32, 4, 4)
	_, saved := p.Forward(s, w, w, w, w)
	fine(t, s.Close())
	saved.Backward(other)
	if err := other.Err(); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("%v", err)
	}
	other.Close()
	fine(t, p.Close())
}

// TestApartHolds: a dump shows saved arrays and loans. Lent arrays cannot be closed, moved or changed until Backward.
// Calls that are refused use nothing up.
func TestApartHolds(t *testing.T) {
	array.AssertNoLeaks(t)
	outer := array.NewScope("outer")
	weights := array.From(outer, make([]float32, 16), 4, 4)
	p, err := array.Apart(layers([]arr{weights, weights, weights}), 0, array.Options{Name: "net"})
	fine(t, err)
	s := array.NewScope("s", array.In(outer))
	x := s.Ones(weir.F32, 2, 4)
	_, saved := p.Forward(s, x)
	var text strings.Builder
	fine(t, s.Dump(&text))
	for _, want := range []string{"saved by net: 96 bytes, 3 arrays, ", "on loan: f32[4,4]"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if err := weights.Close(); err == nil || !strings.Contains(err.Error(), "saved by net") {
		t.Errorf("closed while it is needed: %v", err)
	}
	for want, wrong := range map[string]func(s scope) []arr{
		"2 seeds for 1":  func(s scope) []arr { return []arr{s.Ones(weir.F32), s.Ones(weir.F32)} },
		"is to be like":  func(s scope) []arr { return []arr{s.Ones(weir.F32, 2)} },
		"was closed at":  func(s scope) []arr { a := s.Ones(weir.F32); a.Close(); return []arr{a} },
		"was changed at": func(s scope) []arr { s.Assign(weights, s.Number(2), 0); return nil },
	} {
		wrongs := array.NewScope("wrong", array.In(outer))
		saved.Backward(wrongs, wrong(wrongs)...)
		if err := wrongs.Close(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if saved.Bytes() != 96 {
		t.Errorf("%d bytes are left", saved.Bytes())
	}
	fine(t, s.Close())
	_, saved = p.Forward(outer, outer.Ones(weir.F32, 2, 4))
	fine(t, p.Close())
	saved.Backward(outer)
	if err := outer.Err(); !errors.Is(err, weir.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	outer.Close()
}

// TestApartMisuse: invalid functions and calls are errors.
func TestApartMisuse(t *testing.T) {
	array.AssertNoLeaks(t)
	x := []array.Spec{array.SpecOf("x", weir.F32, 3)}
	same := func(s scope, in ...arr) []arr { return in }
	for want, o := range map[string]struct {
		f       array.Func
		seeds   int
		options array.Options
	}{
		"has states":   {same, 0, array.Options{Inputs: x, States: map[int]int{0: 0}}},
		"2 results of": {same, 2, array.Options{Inputs: x}},
		"no result": {func(s scope, in ...arr) []arr {
			return []arr{s.Cast(in[0], weir.I64)}
		}, 0, array.Options{Inputs: x}},
		"exp": {func(s scope, in ...arr) []arr { return []arr{s.Exp(nil)} }, 0, array.Options{Inputs: x}},
		"bytes": {func(s scope, in ...arr) []arr {
			return []arr{s.Softmax(s.MatMul(in[0], in[0]), 0)}
		}, 0, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 99, 99)}, Compile: weir.Options{Budget: 1}}},
	} {
		p, err := array.Apart(o.f, o.seeds, o.options)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			p.Close()
		}
	}
	p, err := array.Apart(same, 0, array.Options{Inputs: x})
	fine(t, err)
	s := array.NewScope("s")
	out, saved := p.Forward(s)
	if s.Err() == nil || len(out) != 1 || len(saved.Backward(s)) != 1 || saved.Bytes() != 0 {
		t.Errorf("no input: %v", s.Err())
	}
	s.Close()
	fine(t, p.Close())
}

// TestApartTraced: in a compiled function both halves become parts of its program.
func TestApartTraced(t *testing.T) {
	array.AssertNoLeaks(t)
	p, err := array.Apart(curves, 0, array.Options{Name: "curves"})
	fine(t, err)
	f := func(s scope, in ...arr) []arr {
		_, saved := p.Forward(s, in[:2]...)
		first := saved.Backward(s, in[2], nil)
		if len(in) > 4 {
			saved.Backward(s, in[2], nil)
		}
		return first
	}
	s := array.NewScope("s")
	x := func(k array.Key) arr { return s.Normal(k, weir.F64, 0, 1, 3) }
	in := []arr{x(1), x(2), x(3), s.Zeros(weir.F64, 3)}
	c, err := array.Jit(f, array.Options{})
	fine(t, err)
	got, want := c.Call(s, in...), array.VJP(curves, 2)(s, in...)
	for i := range got {
		a, err := array.Copy[float64](got[i])
		fine(t, err)
		b, err := array.Copy[float64](want[i])
		fine(t, err)
		for k := range a {
			if math.Abs(a[k]-b[k]) > 1e-12 {
				t.Errorf("derivative %d: %v, not %v", i, a, b)
			}
		}
	}
	fine(t, s.Err())
	if c.Call(s, append(in, in[0])...); !errors.Is(s.Err(), weir.ErrClosed) {
		t.Errorf("twice: %v", s.Err())
	}
	s.Close()
	fine(t, errors.Join(c.Close(), p.Close()))
}

// TestApartCertified: both halves take the bytes of their certificates, for every extent, and the saved bytes are a
// formula.
func TestApartCertified(t *testing.T) {
	array.AssertNoLeaks(t)
	inputs := []array.Spec{array.SpecOf("x", weir.F32, "batch", 16), array.SpecOf("a", weir.F32, 16, 16),
		array.SpecOf("b", weir.F32, 16, 16), array.SpecOf("c", weir.F32, 16, 16)}
	p, err := array.Apart(layers(nil), 0, array.Options{Name: "net", Inputs: inputs})
	fine(t, err)
	names, bytes := p.Saves()
	if len(names) != 3 || bytes.String() != "192*batch" {
		t.Errorf("%v save %v", names, bytes)
	}
	forward, backward := p.Programs()
	exact := func(program *weir.Program, batch int64) {
		d, in := weir.Dims{"batch": batch}, weir.Inputs{}
		for _, info := range program.Inputs() {
			var shape []int
			for _, e := range info.Shape {
				if shape = append(shape, int(e.Size)); e.Dim != "" {
					shape[len(shape)-1] = int(d[e.Dim])
				}
			}
			x, err := weir.New(info.DType, shape...)
			fine(t, err)
			defer x.Close()
			in[info.Name] = x
		}
		seen, err := program.Measure(t.Context(), in)
		fine(t, err)
		want, err := program.Memory().Peak(1, d)
		fine(t, err)
		if seen.Peak(1) != want {
			t.Errorf("batch %d: %d bytes measured, %d predicted", batch, seen.Peak(1), want)
		}
	}
	for _, batch := range []int64{1, 8, 33} {
		exact(forward, batch)
		exact(backward, batch)
	}
	fine(t, p.Close())
}
