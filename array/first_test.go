package array_test

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// BenchmarkFirstCalls measures what the first call of an operation takes longer than the second: the time of compiling
// a class. It walks through all entries, and drops the compiled operations before each. The metrics are the median, the
// largest time, and the number of classes over 500 µs and over 2 ms, each of the shortest time of a class over all
// walks but the first; -test.v lists all of them. An entry that compiles several operations counts as one class of
// their mean.
func BenchmarkFirstCalls(b *testing.B) {
	b.Run("fixed", func(b *testing.B) { walks(b, firstType, 1) }) // compiled for the shapes of the operands
	b.Run("named", func(b *testing.B) { walks(b, firstType, 3) }) // from the third shape on, extents have names
	b.Run("types", func(b *testing.B) { walks(b, otherTypes, 1) })
}

// firstType returns the first type of an entry.
func firstType(e entry) []weir.DType { return typeSets[e.types][:1] }

// otherTypes returns the other types.
func otherTypes(e entry) []weir.DType { return typeSets[e.types][1:] }

// firstCall is a class and the time that its compilation takes.
type firstCall struct {
	name string
	took time.Duration
}

// walks reports the times of the classes of all entries, at the given number of shapes.
func walks(b *testing.B, types func(e entry) []weir.DType, shapes int) {
	var calls []firstCall
	at := 0
	walk := func() {
		at = 0
		for n, e := range entries {
			for _, dt := range types(e) {
				took := compiling(n, e, dt, shapes)
				if at == len(calls) {
					calls = append(calls, firstCall{fmt.Sprint(e.expr, " of ", dt), took})
				}
				calls[at].took = min(calls[at].took, took)
				at++
			}
		}
	}
	walk()
	calls = nil // this walk was the warm-up
	for b.Loop() {
		walk()
	}
	slices.SortFunc(calls, func(x, y firstCall) int { return int(y.took - x.took) })
	for _, c := range calls {
		b.Log(c.took, c.name)
	}
	over := func(most time.Duration) (n float64) {
		for _, c := range calls {
			if c.took > most {
				n++
			}
		}
		return n
	}
	b.ReportMetric(float64(calls[len(calls)/2].took.Microseconds()), "µs/median")
	b.ReportMetric(float64(calls[0].took.Microseconds()), "µs/largest")
	b.ReportMetric(over(500*time.Microsecond), "over500µs")
	b.ReportMetric(over(2*time.Millisecond), "over2ms")
	b.ReportMetric(float64(len(calls)), "classes")
	b.ReportMetric(0, "ns/op")
}

// compiling returns the time that an entry's operations take longer at the last of several shapes, the first time than
// the second time, divided by the number of operations that are compiled.
func compiling(n int, e entry, dt weir.DType, shapes int) time.Duration {
	r := rand.New(rand.NewSource(int64(n)))
	shape := e.shape
	if shape == nil {
		shape = elementwiseShapes[2]
	}
	s := array.NewScope("walk")
	defer s.Close()
	var first, second time.Duration
	var compiled int64
	for k := 1; k <= shapes; k++ {
		var in []*tensor.Tensor
		for i := range operands(e, shape) {
			scaled := append([]int(nil), shape[i]...)
			if shapes > 1 && len(scaled) > 0 && scaled[0] > 1 {
				scaled[0] *= k
			}
			in = append(in, e.operand(r, dt, i, scaled))
		}
		args := arraysOf(s, in)
		if k == shapes {
			array.CacheLimit(array.CacheLimit(0))
		}
		before := array.CacheStats().Misses
		begin := time.Now()
		e.f(s, args...)
		first = time.Since(begin)
		compiled = array.CacheStats().Misses - before
		begin = time.Now()
		e.f(s, args...)
		second = time.Since(begin)
	}
	return (first - second) / time.Duration(max(compiled, 1))
}
