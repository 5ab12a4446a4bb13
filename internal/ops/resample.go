package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator resample.
func init() {
	define(&Def{Op: "resample", apart: apartBeside(0),
		Last: axisLast, rows: tableRows, Grad: resampleGrad, Shape: resampleShape,
		Mean: resampleMean, Samples: resampleSamples,
		Lowerings: []Lowering{{Name: "taps", Build: resampleTaps}}})
}

// Resample computes each position along an axis as a weighted sum of a few others: y[o] = Σ weights[o, t] ·
// x[indices[o, t]]. Interpolation with any kernel and coordinates is a Resample along each axis in turn.
func Resample(b *ir.Builder, x, indices, weights *ir.Value, axis int64) *ir.Value {
	return b.Op("resample", ir.Attrs{"axis": axis}, x, indices, weights)
}

// resampleShape requires indices and weights of one shape, [positions, taps], and floats of one type.
func resampleShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	if err := indexed(n); err != nil {
		return err
	}
	x, indices, weights := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	if !floats(x.DType) || weights.DType != x.DType || len(indices.Shape) != 2 || len(weights.Shape) != 2 {
		return fault(n, "%s by indices %s and weights %s", x, indices, weights)
	}
	for i := range indices.Shape {
		if err := c.RequireEqual(n, indices.Shape[i], weights.Shape[i], "a weight for each index"); err != nil {
			return err
		}
	}
	shape := append([]sym.Expr{}, x.Shape...)
	shape[axis] = indices.Shape[0]
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

// resampleMean sums the taps in f64.
func resampleMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, indices, weights := in[0], in[1], in[2]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), x.Rank())
	if err != nil {
		return nil, err
	}
	taps := indices.Shape()[1]
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		sum := 0.0
		for t := range taps {
			row := at[axis]*taps + t
			p, wrong := positionOf(n, indices, row, x.Shape()[axis])
			if wrong != nil {
				err = wrong
				return
			}
			sum += weights.Float(row) * x.Float(tensor.Offset(strides, at)+(p-at[axis])*strides[axis])
		}
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// unrolled is the largest number of taps that are written out.
const unrolled = 4

// resampleTaps loads the indices and weights of a position once for all elements that share it, if the taps are few.
func resampleTaps(k *Nest, n *ir.Node) {
	x, indices, weights, out := k.In[0], k.In[1], k.In[2], k.Out[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	taps, fixed := indices.Shape[1].Const()
	if !fixed {
		taps = unrolled + 1 // not written out
	}
	dt := computing(x.DType)
	tap := func(o, t sym.Expr) (sym.Expr, loop.Expr) {
		return k.position(indices.Load(o, t), x.Shape[axis]), loop.Convert(dt, weights.Load(o, t))
	}
	product := func(at []sym.Expr, p sym.Expr, weight loop.Expr) loop.Expr {
		return loop.Apply2(loop.Mul, weight, loop.Convert(dt, x.Load(gathered(at, axis, 1, p)...)))
	}
	// Positions are loaded once for all elements that share them; along the last axis these lie in other rows.
	last := axis == len(x.Shape)-1
	outer, inner := out.Shape[:axis+1], out.Shape[axis+1:]
	if last {
		outer, inner = out.Shape[axis:], out.Shape[:axis]
	}
	k.Nest(loop.Each, "i", outer, func(at []sym.Expr) {
		here := at[len(at)-1]
		positions, factors := make([]sym.Expr, 0, unrolled), make([]loop.Expr, 0, unrolled)
		for t := range taps {
			if taps > unrolled {
				break
			}
			p, w := tap(here, sym.Const(t))
			positions, factors = append(positions, p), append(factors, w)
		}
		k.Nest(loop.Each, "j", inner, func(rest []sym.Expr) {
			to := slices.Concat(at, rest)
			if last {
				to = slices.Concat(rest, at)
			}
			if taps > unrolled {
				sum := k.Var("sum", loop.Number(dt, 0))
				k.Serial("t", indices.Shape[1], func(t sym.Expr) {
					p, w := tap(here, t)
					k.Reduce(sum, loop.Add, product(to, p, w))
				})
				k.Store(out, to, loop.Convert(out.DType, sum))
				return
			}
			var sum loop.Expr = loop.Number(dt, 0)
			for t := range positions {
				if next := product(to, positions[t], factors[t]); t == 0 {
					sum = next
				} else {
					sum = loop.Apply2(loop.Add, sum, next)
				}
			}
			k.Store(out, to, loop.Convert(out.DType, sum))
		})
	})
}
