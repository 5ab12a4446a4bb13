package array_test

import (
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestFirst runs three operations, and closes the scope.
func TestFirst(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("batch")
	x := array.From(s, []float32{1, 2, 3, 4}, 2, 2)
	y := s.Relu(s.Add(s.MatMul(x, x), s.Number(-8)))
	list, err := array.Copy[float32](y)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(list)
	s.Dump(testWriter{t})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) { w.t.Log(string(p)); return len(p), nil }

// TestStep trains a small network by compiled steps: the loss falls, and nothing leaks.
func TestStep(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("model")
	defer s.Close()
	r := rand.New(rand.NewSource(1))
	random := func(scale float32, shape ...int) *array.Array {
		n := 1
		for _, e := range shape {
			n *= e
		}
		data := make([]float32, n)
		for i := range data {
			data[i] = float32(r.NormFloat64()) * scale
		}
		return array.From(s, data, shape...)
	}
	w1, b1, w2, b2 := random(.3, 8, 16), s.Zeros(weir.F32, 16), random(.3, 16, 4), s.Zeros(weir.F32, 4)
	loss := func(s *array.Scope, in ...*array.Array) []*array.Array {
		w1, b1, w2, b2, x, y := in[0], in[1], in[2], in[3], in[4], in[5]
		h := s.Relu(s.Add(s.MatMul(x, w1), b1))
		logs := s.LogSoftmax(s.Add(s.MatMul(h, w2), b2), -1)
		return []*array.Array{s.Neg(s.Mean(s.Sum(s.Mul(logs, y), -1)))}
	}
	step := func(s *array.Scope, in ...*array.Array) []*array.Array {
		out := array.ValueAndGrad(loss)(s, in...)
		results := []*array.Array{out[0]}
		for i := range 4 {
			results = append(results, s.Sub(in[i], s.Mul(s.Number(0.5), out[1+i])))
		}
		return results
	}
	c, err := array.Jit(step, array.Options{Name: "step", States: map[int]int{0: 1, 1: 2, 2: 3, 3: 4},
		Inputs: []array.Spec{
			array.SpecOf("w1", weir.F32, 8, 16), array.SpecOf("b1", weir.F32, 16), array.SpecOf("w2", weir.F32, 16, 4),
			array.SpecOf("b2", weir.F32, 4),
			array.SpecOf("x", weir.F32, "batch", 8), array.SpecOf("y", weir.F32, "batch", 4)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	t.Log(c.Memory())
	x := random(1, 64, 8)
	labels := make([]float32, 64*4)
	data, _ := array.View[float32](x)
	for i := range 64 {
		best := 0
		for k := range 4 {
			if data[i*8+k] > data[i*8+best] {
				best = k
			}
		}
		labels[i*4+best] = 1
	}
	y := array.From(s, labels, 64, 4)
	var last float32
	for range 201 {
		inner := array.NewScope("step", array.In(s))
		out := c.Call(inner, w1, b1, w2, b2, x, y)
		var err error
		if last, err = array.Item[float32](out[0]); err != nil {
			t.Fatal(err, inner.Err())
		}
		if err := inner.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if last > 0.2 {
		t.Errorf("the loss is %v after 201 steps", last)
	}
}

// BenchmarkEager measures an eager addition.
func BenchmarkEager(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	x := s.Ones(weir.F32, 64)
	b.ReportAllocs()
	for b.Loop() {
		y := s.Add(x, x)
		y.Close()
	}
	if err := s.Err(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkScope measures the opening and closing of a scope.
func BenchmarkScope(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		s := array.NewScope("bench")
		s.Close()
	}
}

// TestSteadyAllocations: a compiled operation allocates only its array, and its entry in the ledger.
func TestSteadyAllocations(t *testing.T) {
	s := array.NewScope("steady")
	defer s.Close()
	x := s.Ones(weir.F32, 64)
	for name, f := range map[string]func() *array.Array{
		"add":  func() *array.Array { return s.Add(x, x) },
		"relu": func() *array.Array { return s.Relu(x) },
		"exp":  func() *array.Array { return s.Exp(x) },
		"mul":  func() *array.Array { return s.Mul(x, s.Number(2)) },
	} {
		fine(t, f().Close())
		if n := testing.AllocsPerRun(200, func() { f().Close() }); n > 4 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
	fine(t, s.Err())
}

// BenchmarkNumber measures a product with a number.
func BenchmarkNumber(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	x := s.Ones(weir.F32, 64)
	b.ReportAllocs()
	for b.Loop() {
		y := s.Mul(x, s.Number(2))
		y.Close()
	}
	if err := s.Err(); err != nil {
		b.Fatal(err)
	}
}
