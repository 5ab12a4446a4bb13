package nn

import (
	"fmt"
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestBatchStatistics: the derivatives of batchStatistics, of the result, the mean and the variance together, equal
// those of the same formula written as operations, with and without scale and shift: for several ranks, for one
// channel, for a batch without elements, and compiled with a named extent. So do second derivatives of some of the
// cases.
func TestBatchStatistics(t *testing.T) {
	array.AssertNoLeaks(t)
	for i, shape := range [][]int{{4, 3}, {5, 2, 3}, {2, 3, 4, 5}, {33, 1, 7}, {2, 1}, {0, 3, 2}} {
		for affine := range 4 {
			n := &batchStatistics{epsilon: 1e-3, scaled: affine&1 != 0, shifted: affine&2 != 0, axes: []int{0}}
			for axis := 2; axis < len(shape); axis++ {
				n.axes = append(n.axes, axis)
			}
			for _, second := range []bool{false, true} {
				if second && (affine%3 != i%2 || shape[0] == 0) {
					continue // the statistics of no elements are NaN
				}
				t.Run(fmt.Sprintf("%v %d %v", shape, affine, second), func(t *testing.T) {
					own, plain := n.slopes(array.Custom(n.apply, n.back), second), n.slopes(n.spelled, second)
					s := array.NewScope("s")
					defer s.Close()
					in := []*array.Array{numbers(s, shape...)}
					for k := range affine&1 + affine>>1 {
						in = append(in, s.Add(numbers(s, shape[1]), s.Number(float64(k))))
					}
					got, want := own(s, in...), plain(s, in...)
					if i%2 == 1 {
						got = compiledFor(t, s, own, in)
					}
					for k := range want {
						nearly(t, got[k], want[k])
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// spelled computes apply's results by operations that have derivatives of their own, without back.
func (n *batchStatistics) spelled(s *array.Scope, in ...*array.Array) []*array.Array {
	scale, shift := n.affine(in)
	mean, variance := s.Mean(in[0], n.axes...), s.Var(in[0], n.axes...)
	return []*array.Array{s.BatchNorm(in[0], scale, shift, mean, variance, n.epsilon), mean, variance}
}

// slopes returns the function of the derivatives of a sum over all results of f; if second is true, of the derivatives
// of the sum of these derivatives' squares.
func (n *batchStatistics) slopes(f array.Func, second bool) array.Func {
	first := array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		total := s.Number(0)
		for _, y := range f(s, in...) {
			total = s.Add(total, s.Sum(s.Sin(s.Mul(y, s.Number(1.5)))))
		}
		return []*array.Array{total}
	})
	if !second {
		return first
	}
	return array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		total := s.Number(0)
		for _, g := range first(s, in...) {
			total = s.Add(total, s.Sum(s.Square(g)))
		}
		return []*array.Array{total}
	})
}

// compiledFor returns f's results for in, compiled with a named extent for the first axis of the first input.
func compiledFor(t *testing.T, s *array.Scope, f array.Func, in []*array.Array) []*array.Array {
	t.Helper()
	specs := make([]array.Spec, len(in))
	for i, a := range in {
		shape := make([]any, a.Rank())
		for axis := range shape {
			shape[axis] = a.Dim(axis)
		}
		if i == 0 {
			shape[0] = "batch"
		}
		specs[i] = array.SpecOf(fmt.Sprint("x", i), weir.F32, shape...)
	}
	c, err := array.Jit(f, array.Options{Inputs: specs})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	return c.Call(s, in...)
}

// numbers returns an array of a shape with the elements sin(1.7·i + 0.3).
func numbers(s *array.Scope, shape ...int) *array.Array {
	count := 1
	for _, e := range shape {
		count *= e
	}
	data := make([]float32, count)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)*1.7 + 0.3))
	}
	return array.From(s, data, shape...)
}

// nearly fails the test if two arrays differ by more than 2e-4 of the greatest magnitude, at least 1, or if only one of
// two elements is NaN.
func nearly(t *testing.T, got, want *array.Array) {
	t.Helper()
	a, err := array.Copy[float32](got)
	if err != nil {
		t.Fatal(err)
	}
	b, err := array.Copy[float32](want)
	if err != nil {
		t.Fatal(err)
	}
	largest := 1.0
	for _, x := range b {
		largest = max(largest, math.Abs(float64(x)))
	}
	for i := range b {
		x, y := float64(a[i]), float64(b[i])
		if math.IsNaN(x) != math.IsNaN(y) || math.Abs(x-y) > 2e-4*largest {
			t.Fatalf("element %d is %g, not %g", i, x, y)
		}
	}
}
