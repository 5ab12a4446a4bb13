package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator find.
func init() {
	define(&Def{Op: "find", Shape: findShape, Mean: hostMean("find"), Host: "find", Samples: findSamples})
}

// Find returns, for each element of x, its index (i64) in keys, a sorted vector of the same type with NaN at its end;
// or the number of keys if it is not among them.
func Find(b *ir.Builder, x, keys *ir.Value) *ir.Value { return b.Op("find", nil, x, keys) }

// findShape checks the types and infers indices of x's shape.
func findShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, keys := n.Inputs[0].Type, n.Inputs[1].Type
	if !numbers(x.DType) || keys.DType != x.DType || len(keys.Shape) != 1 {
		return fault(n, "elements of %s among keys %s", x, keys)
	}
	n.Result(0, ir.Type{DType: dtype.I64, Shape: x.Shape})
	return nil
}

// findSamples returns elements and keys of each type.
func findSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range append(slices.Clone(integerTypes), floatTypes...) {
		x := sampleOf(r, dt, [][]int64{{}, {4, 5}, {0}, {30}}[i%4]...)
		var keys []float64
		for k := range 2 * i {
			keys = append(keys, float64(3*k))
		}
		if dt.IsFloat() {
			for k := range x.Len() {
				x.SetFloat(k, []float64{math.NaN(), 0, math.Copysign(0, -1), 3, 4, 6}[r.Intn(6)])
			}
			keys = append(keys, math.NaN())
		}
		t := tensor.Must(tensor.New(dt, int64(len(keys))))
		for k, key := range keys {
			if dt.IsFloat() {
				t.SetFloat(int64(k), key)
			} else {
				t.SetInt(int64(k), int64(key))
			}
		}
		out = append(out, Sample{Inputs: []*tensor.Tensor{x, t}})
	}
	return out
}
