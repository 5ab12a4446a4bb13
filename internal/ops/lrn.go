package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator lrn.
func init() {
	define(&Def{Op: "lrn", apart: apartFirst, Grad: lrnGrad, Shape: lrnShape, Mean: lrnMean, Samples: lrnSamples,
		Lowerings: []Lowering{{Name: "window", Build: lrnWindow}}})
}

// widestExtent is twice as wide as any tensor with elements.
const widestExtent = 1 << 50

// LRN is local response normalisation over axis 1 (Krizhevsky et al., 2012): x / (bias + alpha/size · Σ x²)^beta, with
// the sum over size channels around each, one more above than below if size is even.
func LRN(b *ir.Builder, x *ir.Value, size int64, alpha, beta, bias float64) *ir.Value {
	return b.Op("lrn", ir.Attrs{"size": size, "alpha": alpha, "beta": beta, "bias": bias}, x)
}

// widestWindow is the widest window that a kernel visits channel by channel; for a wider one it visits all channels and
// tests each.
const widestWindow = 64

// lrnShape checks the window and infers x's type.
func lrnShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !x.DType.IsFloat() || len(x.Shape) < 2 {
		return fault(n, "an input of type %s; floats of rank 2 or more are needed", x)
	}
	if n.Attrs.Int("size", 0) < 1 {
		return fault(n, "a window of %d channels", n.Attrs.Int("size", 0))
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: x.Shape})
	return nil
}

// lrnMean is the reference: it sums the squares of the channels around each element.
func lrnMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, size := in[0], n.Attrs.Int("size", 1)
	channels, step := x.Shape()[1], tensor.Strides(x.Shape())[1]
	flat := int64(0)
	tensor.Each(x.Shape(), func(at []int64) {
		total := 0.0
		for c := max(0, at[1]-(size-1)/2); c < min(channels, at[1]-(size-1)/2+size); c++ {
			v := x.Float(flat + (c-at[1])*step)
			total += v * v
		}
		base := n.Attrs.Float("bias", 1) + n.Attrs.Float("alpha", 1e-4)/float64(size)*total
		out.SetFloat(flat, x.Float(flat)/math.Pow(base, n.Attrs.Float("beta", 0.75)))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// lrnWindow lowers LRN: each iteration sums the squares of the channels around one element and divides the element by
// the power of the sum.
func lrnWindow(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	dt, size, beta := computing(x.DType), n.Attrs.Int("size", 1), n.Attrs.Float("beta", 0.75)
	k.Nest(loop.Each, "i", x.Shape, func(at []sym.Expr) {
		total := k.Var("total", loop.Number(dt, 0))
		add := func(channel sym.Expr, when loop.Expr) {
			from := append([]sym.Expr{}, at...)
			from[1] = channel
			k.Reduce(total, loop.Add, square(loop.Convert(dt, x.LoadIf(when, loop.Number(x.DType, 0), from...))))
		}
		size := min(size, widestExtent) // a wider window holds every channel too
		first := at[1].Sub(sym.Const((size - 1) / 2))
		if size <= widestWindow {
			k.Serial("k", sym.Const(size), func(j sym.Expr) {
				add(first.Add(j), loop.Inside(first.Add(j), sym.Const(0), x.Shape[1]))
			})
		} else { // the window may be longer than any number of channels
			k.Serial("k", x.Shape[1], func(c sym.Expr) { add(c, loop.Inside(c, first, first.Add(sym.Const(size)))) })
		}
		base := plus(loop.Number(dt, n.Attrs.Float("bias", 1)),
			times(loop.Number(dt, n.Attrs.Float("alpha", 1e-4)/float64(size)), total))
		var power loop.Expr
		if beta == 0.75 {
			root := k.Let("root", loop.Apply(loop.Sqrt, base))
			power = times(root, loop.Apply(loop.Sqrt, root))
		} else {
			power = loop.Apply2(loop.Pow, base, loop.Number(dt, beta))
		}
		k.Store(out, at, loop.Convert(out.DType, loop.Apply2(loop.Div, loop.Convert(dt, x.Load(at...)), power)))
	})
}

// lrnSamples returns inputs for several windows and exponents.
func lrnSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range floatTypes {
		out = append(out, Sample{Attrs: ir.Attrs{"size": int64(3 + i), "alpha": 0.5, "beta": []float64{0.75, 0.6}[i%2],
			"bias": 1.5},
			Inputs: []*tensor.Tensor{sampleNormal(r, dt, 2, 5, 2, 3)}})
	}
	out = append(out, Sample{Attrs: ir.Attrs{"size": int64(math.MaxInt64), "alpha": 0.5, "beta": 0.75, "bias": 1.5},
		Inputs: []*tensor.Tensor{sampleNormal(r, floatTypes[0], 2, 5, 2)}},
		Sample{Attrs: ir.Attrs{"size": int64(70), "alpha": 0.5, "beta": 0.75, "bias": 1.5},
			Inputs: []*tensor.Tensor{sampleNormal(r, floatTypes[0], 1, 80, 2)}})
	return append(out, Sample{Attrs: ir.Attrs{"size": int64(9), "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
		Inputs: []*tensor.Tensor{sampleNormal(r, floatTypes[0], 2, 0, 3)}},
		Sample{Attrs: ir.Attrs{"size": int64(9), "alpha": 1e-4, "beta": 0.75, "bias": 1.0},
			Inputs: []*tensor.Tensor{sampleNormal(r, floatTypes[0], 1, 4)}})
}
