package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator affine_grid.
func init() {
	define(&Def{Op: "affine_grid", Shape: affineGridShape, Mean: affineGridMean, Samples: affineGridSamples,
		Lowerings: []Lowering{{Name: "map", Build: affineGridMap}}})
}

// AffineGrid returns the positions, in GridSample's coordinates, of an image of the given spatial shape under affine
// maps theta[N, axes, axes+1]: [N, shape…, axes]. The mapped coordinates are spaced evenly from -1 to 1: with align
// these are the centres of the first and last element, else the outer edges.
func AffineGrid(b *ir.Builder, theta *ir.Value, shape []sym.Expr, align bool) *ir.Value {
	return b.Op("affine_grid", ir.Attrs{"shape": shape, "align": align}, theta)
}

// affineGridShape checks that each map has a row for each axis and a column more than rows, and infers [N, shape…,
// axes].
func affineGridShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	theta, shape := n.Inputs[0].Type, n.Attrs.Exprs("shape")
	if !floats(theta.DType) || len(theta.Shape) != 3 || len(shape) == 0 {
		return fault(n, "maps %s for %d axes", theta, len(shape))
	}
	axes := sym.Const(int64(len(shape)))
	for i, want := range []sym.Expr{axes, axes.Add(one)} {
		if err := c.RequireEqual(n, theta.Shape[1+i], want,
			"a map has a row for each axis and a column for its end"); err != nil {
			return err
		}
	}
	for _, extent := range shape {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: theta.DType, Shape: append(append([]sym.Expr{theta.Shape[0]}, shape...), axes)})
	return nil
}

// affineGridMean is the reference: each coordinate is a row of theta times the position's coordinates, plus the row's
// last element.
func affineGridMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	theta, align, axes := in[0], n.Attrs.Bool("align"), int64(out.Rank()-2)
	flat := int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		row := (at[0]*axes + at[axes+1]) * (axes + 1)
		sum := theta.Float(row + axes)
		for j := range axes {
			i, d := float64(at[axes-j]), float64(out.Shape()[axes-j])
			position := (2*i+1)/d - 1
			if align && d > 1 {
				position = 2*i/(d-1) - 1
			} else if align {
				position = 0
			}
			sum += theta.Float(row+j) * position
		}
		out.SetFloat(flat, sum)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// affineGridMap lowers affine_grid: each iteration computes one coordinate of one position from a row of theta.
func affineGridMap(k *Nest, n *ir.Node) {
	theta, out := k.In[0], k.Out[0]
	align, axes, dt := n.Attrs.Bool("align"), len(out.Shape)-2, computing(k.In[0].DType)
	k.Nest(loop.Each, "o", out.Shape, func(o []sym.Expr) {
		load := func(j int) loop.Expr { return loop.Convert(dt, theta.Load(o[0], o[axes+1], sym.Const(int64(j)))) }
		sum := load(axes)
		for j := range axes {
			i, d := o[axes-j], out.Shape[axes-j]
			var position loop.Expr
			if align {
				// A single element lies in the middle: 0/1.
				position = loop.Apply2(loop.Div, extentAs(dt, i.Mul(sym.Const(2)).Sub(d).Add(one)),
					extentAs(dt, d.Sub(one).Max(one)))
			} else {
				position = loop.Apply2(loop.Div, extentAs(dt, i.Mul(sym.Const(2)).Add(one).Sub(d)), extentAs(dt, d))
			}
			sum = plus(sum, times(load(j), position))
		}
		k.Store(out, o, loop.Convert(out.DType, sum))
	})
}

// affineGridSamples returns maps for grids of one to three axes, with and without align.
func affineGridSamples(r *rand.Rand) (out []Sample) {
	for _, dt := range floatTypes {
		for _, shape := range [][]int64{{3}, {2, 5}, {1, 4}, {3, 1, 4}, {0, 2}} {
			for _, align := range []bool{false, true} {
				axes := int64(len(shape))
				out = append(out, Sample{Attrs: ir.Attrs{"shape": ir.Constants(shape), "align": align}, Constant: []int{0},
					Inputs: []*tensor.Tensor{sampleNormal(r, dt, 2, axes, axes+1)}})
			}
		}
	}
	return out
}
