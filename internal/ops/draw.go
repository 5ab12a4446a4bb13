package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators that draw from the generator MT19937 as NumPy's RandomState seeds it: the same seed gives
// the same numbers in every run, and those that NumPy gives.
func init() {
	for op, d := range map[string]struct {
		shape   func(*ir.Inference, *ir.Node) error
		samples func(*rand.Rand) []Sample
	}{
		"draw_uniform":   {drawShape, drawSamples},
		"draw_normal":    {drawShape, drawSamples},
		"draw_bernoulli": {drawBernoulliShape, drawBernoulliSamples},
		"draw_kept":      {drawKeptShape, drawKeptSamples},
		"draw_classes":   {drawClassesShape, drawClassesSamples},
	} {
		define(&Def{Op: op, NoGrad: random, Shape: d.shape, Mean: hostMean(op), Host: op, Samples: d.samples})
	}
}

// DrawUniform returns uniform random numbers from [low, high), rounded to dt.
func DrawUniform(b *ir.Builder, seed uint32, dt dtype.DType, low, high float64, shape ...sym.Expr) *ir.Value {
	return b.Op("draw_uniform", ir.Attrs{"seed": int64(seed), "dtype": dt, "shape": shape, "factor": high - low,
		"offset": low})
}

// DrawNormal returns normal random numbers with the given mean and the standard deviation scale.
func DrawNormal(b *ir.Builder, seed uint32, dt dtype.DType, mean, scale float64, shape ...sym.Expr) *ir.Value {
	return b.Op("draw_normal", ir.Attrs{"seed": int64(seed), "dtype": dt, "shape": shape, "factor": scale, "offset": mean})
}

// DrawBernoulli returns, for each element of p, 1 with this probability and else 0. A probability outside [0, 1] is an
// error.
func DrawBernoulli(b *ir.Builder, seed uint32, dt dtype.DType, p *ir.Value) *ir.Value {
	return b.Op("draw_bernoulli", ir.Attrs{"seed": int64(seed), "dtype": dt}, p)
}

// DrawKept returns bools that are true with probability 1 − ratio, a scalar: the elements that a dropout keeps.
func DrawKept(b *ir.Builder, seed uint32, ratio *ir.Value, shape ...sym.Expr) *ir.Value {
	return b.Op("draw_kept", ir.Attrs{"seed": int64(seed), "shape": shape}, ratio)
}

// DrawClasses draws count positions, integers of type dt, in each row of logs[rows, classes]: the logarithms of their
// probabilities up to a constant.
func DrawClasses(b *ir.Builder, seed uint32, dt dtype.DType, logs *ir.Value, count int64) *ir.Value {
	return b.Node("draw_classes", ir.Attrs{"seed": int64(seed), "dtype": dt, "count": count}, logs).Outputs[0]
}

// drawn returns the shape attribute; it requires that no extent is negative.
func drawn(c *ir.Inference, n *ir.Node) ([]sym.Expr, error) {
	shape := n.Attrs.Exprs("shape")
	for _, extent := range shape {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
			return nil, err
		}
	}
	return shape, nil
}

// drawShape checks the float type and infers the shape attribute.
func drawShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 0, 0); err != nil {
		return err
	}
	shape, err := drawn(c, n)
	if err != nil {
		return err
	}
	dt := n.Attrs.DType("dtype")
	if dt != dtype.F16 && dt != dtype.BF16 && dt != dtype.F32 && dt != dtype.F64 {
		return fault(n, "random numbers of type %s", dt)
	}
	n.Result(0, ir.Type{DType: dt, Shape: shape})
	return nil
}

// drawBernoulliShape checks the types and infers the probabilities' shape.
func drawBernoulliShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	p, dt := n.Inputs[0].Type, n.Attrs.DType("dtype")
	if !p.DType.IsFloat() || !numbers(dt) && dt != dtype.Bool {
		return fault(n, "outcomes of type %s from probabilities of type %s", dt, p.DType)
	}
	n.Result(0, ir.Type{DType: dt, Shape: p.Shape})
	return nil
}

// drawKeptShape checks that the ratio is a scalar and infers bools of the shape attribute.
func drawKeptShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	ratio := n.Inputs[0].Type
	if !ratio.DType.IsFloat() || len(ratio.Shape) > 0 {
		return fault(n, "a ratio %s, it must be a scalar", ratio)
	}
	shape, err := drawn(c, n)
	n.Result(0, ir.Type{DType: dtype.Bool, Shape: shape})
	return err
}

// drawClassesShape checks the types and infers [rows, count] and a workspace.
func drawClassesShape(_ *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	logs, dt, count := n.Inputs[0].Type, n.Attrs.DType("dtype"), n.Attrs.Int("count", 0)
	if !logs.DType.IsFloat() || len(logs.Shape) != 2 || dt != dtype.I32 && dt != dtype.I64 || count < 0 {
		return fault(n, "%d positions of type %s from logarithms %s", count, dt, logs)
	}
	n.Result(0, ir.Type{DType: dt, Shape: []sym.Expr{logs.Shape[0], sym.Const(count)}})
	n.Result(1, ir.Type{DType: dtype.F64, Shape: logs.Shape[1:]}) // scratch memory
	return nil
}

// drawSamples returns several shapes of each float type.
func drawSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range floatTypes {
		for _, shape := range [][]int64{{}, {3, 5}, {0}} {
			out = append(out, Sample{Attrs: ir.Attrs{"seed": int64(r.Uint32()), "dtype": dt, "shape": ir.Constants(shape),
				"factor": 3.0, "offset": -2.0}})
		}
	}
	return out
}

// sampleShares returns random floats in [0, 1].
func sampleShares(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := range t.Len() {
		t.SetFloat(i, []float64{0, 1, r.Float64(), r.Float64()}[r.Intn(4)])
	}
	return t
}

// drawBernoulliSamples returns probabilities for each result type.
func drawBernoulliSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range append([]dtype.DType{dtype.Bool}, append(integerTypes, floatTypes...)...) {
		p := sampleShares(r, floatTypes[i%len(floatTypes)], [][]int64{{}, {3, 5}, {0}}[i%3]...)
		out = append(out, Sample{Attrs: ir.Attrs{"seed": int64(r.Uint32()), "dtype": dt}, Inputs: []*tensor.Tensor{p}})
	}
	return out
}

// drawKeptSamples returns ratios for several shapes.
func drawKeptSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range floatTypes {
		for _, shape := range [][]int64{{}, {3, 5}, {0}} {
			out = append(out, Sample{Attrs: ir.Attrs{"seed": int64(r.Uint32()), "shape": ir.Constants(shape)},
				Inputs: []*tensor.Tensor{sampleShares(r, dt)}})
		}
	}
	return out
}

// drawClassesSamples returns logarithms for several shapes.
func drawClassesSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range floatTypes {
		for _, shape := range [][]int64{{3, 5}, {1, 1}, {0, 4}, {2, 700}} {
			to := []dtype.DType{dtype.I32, dtype.I64}[i%2]
			out = append(out, Sample{Attrs: ir.Attrs{"seed": int64(r.Uint32()), "dtype": to, "count": int64(i * 3)},
				Inputs: []*tensor.Tensor{sampleNormal(r, dt, shape...)}})
		}
	}
	return out
}
