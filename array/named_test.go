package array_test

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/tensor"
)

// unnamed are operations that refuse a named extent, because one of their numbers depends on it.
var unnamed = map[string]bool{}

// TestNamed compiles every operation of entries with a name for the first extent of its operands, and compares two
// calls at other sizes with the eager operation.
func TestNamed(t *testing.T) {
	array.AssertNoLeaks(t)
	for n, e := range entries {
		r := rand.New(rand.NewSource(int64(n)))
		shape := e.shape
		if shape == nil {
			shape = elementwiseShapes[2]
		}
		dt := typeSets[e.types][0]
		count := operands(e, shape)
		specs := make([]array.Spec, count)
		for i := range count {
			extents := make([]any, len(shape[i]))
			for k, extent := range shape[i] {
				extents[k] = extent
				if k == 0 && extent > 1 {
					extents[k] = fmt.Sprint("n", extent)
				}
			}
			specs[i] = array.SpecOf("", e.operand(r, dt, i, []int{}).DType(), extents...)
		}
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{e.f(s, in...)} },
			array.Options{Name: "named", Inputs: specs})
		if err != nil {
			if !unnamed[e.expr] {
				t.Errorf("%s: %v", e.expr, err)
			}
			continue
		}
		for k := 1; k <= 2; k++ {
			s := array.NewScope("case")
			var in []*tensor.Tensor
			for i := range count {
				scaled := append([]int(nil), shape[i]...)
				if len(scaled) > 0 && scaled[0] > 1 {
					scaled[0] *= k
				}
				in = append(in, e.operand(r, dt, i, scaled))
			}
			args := arraysOf(s, in)
			inner := array.NewScope("named")
			z := c.Call(inner, args...)
			y := e.f(s, args...)
			switch {
			case s.Err() != nil && inner.Err() != nil:
			case s.Err() != nil || inner.Err() != nil:
				t.Errorf("%s times %d: at once: %v; named: %v", e.expr, k, s.Err(), inner.Err())
			case y.String() != z[0].String():
				t.Errorf("%s times %d: %v at once, %v named", e.expr, k, y, z[0])
			default:
				if d := differ(y.Tensor(), z[0].Tensor(), weir.Best); d != "" {
					t.Errorf("%s of %v times %d: at once and named differ: %s", e.expr, weir.F32, k, d)
				}
			}
			inner.Close()
			s.Close()
		}
		c.Close()
	}
}
