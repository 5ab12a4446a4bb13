package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator random_uniform.
func init() {
	define(&Def{Op: "random_uniform", NoGrad: random, Shape: randomShape, Mean: hostMean("random_uniform"),
		Host: "random_uniform", Samples: randomSamples})
}

// RandomUniform draws numbers from [low, high) with a key, u64[2]: a seed and the number of the draw. It also returns
// the key of the next draw. Randomness is a value like any other: the same key gives the same numbers.
func RandomUniform(b *ir.Builder, key *ir.Value, dt dtype.DType, low, high float64, shape ...sym.Expr) (numbers,
	next *ir.Value) {
	out := b.Node("random_uniform", ir.Attrs{"dtype": dt, "shape": shape, "low": low, "high": high}, key).Outputs
	return out[0], out[1]
}

// RandomUniformBetween is RandomUniform with bounds that are scalars of f64; it returns no next key.
func RandomUniformBetween(b *ir.Builder, key, low, high *ir.Value, dt dtype.DType, shape ...sym.Expr) *ir.Value {
	return b.Node("random_uniform", ir.Attrs{"dtype": dt, "shape": shape}, key, low, high).Outputs[0]
}

// randomShape requires a key, u64[2], and either no bound or two scalars of f64; results are floats of 16 bits or more.
func randomShape(c *ir.Inference, n *ir.Node) error {
	if len(n.Inputs) == 2 {
		return fault(n, "one bound; there are both or none")
	}
	if err := arity(n, 1, 3); err != nil {
		return err
	}
	for _, bound := range n.Inputs[1:] {
		if bound == nil || bound.Type.DType != dtype.F64 || len(bound.Type.Shape) > 0 {
			return fault(n, "a bound that is no scalar of f64")
		}
	}
	key, dt := n.Inputs[0].Type, n.Attrs.DType("dtype")
	if key.DType != dtype.U64 || len(key.Shape) != 1 {
		return fault(n, "a key of type %s, it is u64[2]", key)
	}
	if err := c.RequireEqual(n, key.Shape[0], sym.Const(2), "a key has two words"); err != nil {
		return err
	}
	if dt != dtype.F16 && dt != dtype.BF16 && dt != dtype.F32 && dt != dtype.F64 {
		return fault(n, "random numbers of type %s", dt)
	}
	n.Result(0, ir.Type{DType: dt, Shape: n.Attrs.Exprs("shape")})
	n.Result(1, key)
	return nil
}

// randomSamples covers each float type with bounds as attributes and as inputs, and a result without elements.
func randomSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range floatTypes {
		for _, shape := range [][]int64{{}, {3, 5}, {0}} {
			key := tensor.Must(tensor.FromSlice([]uint64{r.Uint64(), r.Uint64()}, 2))
			out = append(out, Sample{Attrs: ir.Attrs{"dtype": dt, "shape": ir.Constants(shape), "low": -2.0, "high": 5.0},
				Inputs: []*tensor.Tensor{key}})
			low, high := tensor.Must(tensor.FromSlice([]float64{-0.3})), tensor.Must(tensor.FromSlice([]float64{7.1}))
			out = append(out, Sample{Attrs: ir.Attrs{"dtype": dt, "shape": ir.Constants(shape)},
				Inputs: []*tensor.Tensor{key, low, high}})
		}
	}
	return out
}
