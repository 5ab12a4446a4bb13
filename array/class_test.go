package array_test

import (
	"fmt"
	"math/rand"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// TestClasses runs every operation of entries at several shapes of one class, and compares the results with the
// operation compiled for each shape. The later shapes use a form with named extents.
func TestClasses(t *testing.T) {
	array.AssertNoLeaks(t)
	most := 4
	for n, e := range entries {
		r := rand.New(rand.NewSource(int64(n)))
		shape := e.shape
		if shape == nil {
			shape = elementwiseShapes[2]
		}
		dt := typeSets[e.types][0]
		for k := 1; k <= most; k++ {
			var in []*tensor.Tensor
			for i := range operands(e, shape) {
				scaled := append([]int(nil), shape[i]...)
				if len(scaled) > 0 && scaled[0] > 1 {
					scaled[0] *= k
				}
				in = append(in, e.operand(r, dt, i, scaled))
			}
			both(t, fmt.Sprint(e.expr, " of ", dt, " times ", k), e.f, in)
		}
	}
}

// TestRagged: a workload of ragged shapes compiles a few times, whatever the number of shapes.
func TestRagged(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("ragged")
	defer s.Close()
	w := s.Ones(weir.F32, 16, 8)
	turn := func(n int) {
		inner := array.NewScope("turn", array.In(s))
		x := inner.Uniform(array.Key(n), weir.F32, 0, 1, 1, 16)
		y := inner.Softmax(inner.Relu(inner.MatMul(inner.BroadcastTo(x, n, 16), w)), 1)
		v, err := array.Item[float32](inner.Sum(y))
		if err != nil || v < float32(n)*0.999 || v > float32(n)*1.001 {
			t.Fatal(n, v, err, inner.Err())
		}
		fine(t, inner.Close())
	}
	for n := 2; n < 8; n++ {
		turn(n)
	}
	before := array.CacheStats()
	for n := 8; n < 40; n++ {
		turn(n)
	}
	after := array.CacheStats()
	// BroadcastTo gets its extents as settings; shapes in which 8 or 16 equal another extent are classes of their own
	if compiled := after.Misses - before.Misses; compiled > 32+12 {
		t.Errorf("%d programs for 32 shapes", compiled)
	}
	if after.Limit <= 0 || after.Bytes > after.Limit {
		t.Errorf("the cache takes %d bytes of %d", after.Bytes, after.Limit)
	}
}

// BenchmarkRagged measures an addition at a new shape in each iteration.
func BenchmarkRagged(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	x := s.Ones(weir.F32, 5000)
	_ = x
	n := 2
	for b.Loop() {
		n = n%5000 + 2
		y := s.Zeros(weir.F32, n)
		z := s.Add(y, y)
		z.Close()
		y.Close()
	}
	if err := s.Err(); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkClass measures the first run of an operation of a class, which compiles it.
func BenchmarkClass(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	x := s.Ones(weir.F32, 64, 32)
	start := time.Now()
	for b.Loop() {
		array.CacheLimit(array.CacheLimit(0))
		y := s.Elu(x, 1)
		y.Close()
	}
	b.ReportMetric(float64(time.Since(start).Microseconds())/float64(b.N), "µs/class")
}

// BenchmarkProductClass measures the first run of a matrix product with a named number of rows, which compiles it.
func BenchmarkProductClass(b *testing.B) {
	s := array.NewScope("bench")
	defer s.Close()
	w := array.From(s, make([]float32, 32*64), 64, 32)
	n, took := 2, time.Duration(0)
	for b.Loop() {
		n++
		x := array.From(s, make([]float32, n*64), n, 64)
		array.CacheLimit(array.CacheLimit(0))
		begin := time.Now()
		y := s.MatMul(x, w)
		took += time.Since(begin)
		y.Close()
		x.Close()
	}
	b.ReportMetric(float64(took.Microseconds())/float64(b.N), "µs/class")
}
