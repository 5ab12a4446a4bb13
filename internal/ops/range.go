package ops

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator range.
func init() {
	define(&Def{Op: "range", Linear: true, Recompute: Backward, Grad: rangeGrad, Shape: rangeShape, Mean: rangeMean,
		Lowerings: []Lowering{{Name: "map", Build: rangeMap}}, Samples: rangeSamples})
}

// RangeLimit is the largest number of elements of a range whose size depends on data.
const RangeLimit = 1 << 20

// Range returns start, start + delta, … of the given extent; start and delta are scalars of one type.
func Range(b *ir.Builder, start, delta *ir.Value, extent sym.Expr) *ir.Value {
	return b.Op("range", ir.Attrs{"extent": extent}, start, delta)
}

// Counting returns 0, 1, …, extent − 1.
func Counting(b *ir.Builder, dt dtype.DType, extent sym.Expr) *ir.Value {
	return Range(b, Scalar(b, dt, 0), Scalar(b, dt, 1), extent)
}

// rangeShape requires two scalars of one type of numbers. If they are known and the extent is a small number, the
// elements are known.
func rangeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	start, delta := n.Inputs[0], n.Inputs[1]
	if !numbers(start.Type.DType) || start.Type.DType != delta.Type.DType ||
		len(start.Type.Shape)+len(delta.Type.Shape) > 0 {
		return fault(n, "a range from %s in steps of %s", start.Type, delta.Type)
	}
	extent, _ := n.Attrs["extent"].(sym.Expr)
	extent = c.Dims().Simplify(extent)
	if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
		return err
	}
	v := n.Result(0, ir.Type{DType: start.Type.DType, Shape: []sym.Expr{extent}})
	count, ok := extent.Const()
	from, certainFrom := c.Knows(start)
	by, certainBy := c.Knows(delta)
	if !ok || count > ir.MaxKnown || from == nil || by == nil {
		return nil
	}
	known, dt := make([]sym.Expr, count), v.Type.DType
	for i := range known {
		step, fine := combine(c, loop.Mul, dt, dt, by[0], element(dt, loop.FromInt(dt, int64(i))))
		at, fits := combine(c, loop.Add, dt, dt, from[0], step)
		if !fine || !fits {
			return nil
		}
		known[i] = at
	}
	c.Learn(v, known, certainFrom && certainBy)
	return nil
}

// rangeMean multiplies the index by delta, rather than adding delta again and again.
func rangeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	for i := range out.Len() {
		if out.DType().IsInt() {
			out.SetInt(i, in[0].Int(0)+i*in[1].Int(0))
		} else {
			out.SetFloat(i, in[0].Float(0)+float64(i)*in[1].Float(0))
		}
	}
	return []*tensor.Tensor{out}, nil
}

// rangeMap computes each element independently, in the computing type.
func rangeMap(k *Nest, n *ir.Node) {
	out := k.Out[0]
	dt := computing(out.DType)
	k.Each("i", out.Shape[0], func(i sym.Expr) {
		step := loop.Apply2(loop.Mul, loop.Convert(dt, loop.At(i)), loop.Convert(dt, k.In[1].Load()))
		k.Store(out, []sym.Expr{i}, loop.Convert(out.DType, loop.Apply2(loop.Add, loop.Convert(dt, k.In[0].Load()), step)))
	})
}
