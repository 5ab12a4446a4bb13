package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	define(&Def{Op: "concat", Grad: concatGrad, Shape: concatShape, Mean: concatMean, Samples: concatSamples,
		View: func(n *ir.Node, _ *sym.Dims) *View {
			if len(n.Inputs) == 1 {
				return &View{}
			}
			return nil
		},
		Lowerings: []Lowering{{Name: "pieces", When: movable, Build: concatPieces}}})
}

// Concat puts tensors of one rank one after the other along an axis.
func Concat(b *ir.Builder, axis int64, xs ...*ir.Value) *ir.Value {
	return b.Op("concat", ir.Attrs{"axis": axis}, xs...)
}

func concatShape(c *ir.Inference, n *ir.Node) error {
	if len(n.Inputs) == 0 {
		return fault(n, "nothing to put together")
	}
	if err := arity(n, len(n.Inputs), len(n.Inputs)); err != nil {
		return err
	}
	first := n.Inputs[0].Type
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(first.Shape))
	if err != nil {
		return err
	}
	shape := append([]sym.Expr{}, first.Shape...)
	for i, x := range n.Inputs[1:] {
		if x.Type.DType != first.DType || len(x.Type.Shape) != len(shape) {
			return fault(n, "input 0 is %s and input %d is %s", first, i+1, x.Type)
		}
		for a := range shape {
			if a == axis {
				shape[a] = shape[a].Add(x.Type.Shape[a])
			} else if err := c.RequireEqual(n, shape[a], x.Type.Shape[a], "an axis along which tensors are not put together"); err != nil {
				return err
			} else if _, known := x.Type.Shape[a].Const(); known {
				shape[a] = x.Type.Shape[a]
			}
		}
	}
	shape[axis] = c.Dims().Simplify(shape[axis])
	v := n.Result(0, ir.Type{DType: first.DType, Shape: shape})
	if len(shape) != 1 {
		return nil
	}
	known := []sym.Expr{}
	for _, x := range n.Inputs {
		if x.Known == nil || len(known)+len(x.Known) > ir.MaxKnown {
			return nil
		}
		known = append(known, x.Known...)
	}
	v.Known = known
	return nil
}

func concatMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), out.Rank())
	if err != nil {
		return nil, err
	}
	strides, begin := tensor.Strides(out.Shape()), int64(0)
	for _, x := range in {
		flat := int64(0)
		tensor.Each(x.Shape(), func(at []int64) {
			moveElement(out, tensor.Offset(strides, at)+begin*strides[axis], x, flat)
			flat++
		})
		begin += x.Shape()[axis]
	}
	return []*tensor.Tensor{out}, nil
}

func concatPieces(k *Nest, n *ir.Node) {
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(k.Out[0].Shape))
	begin := sym.Expr{}
	for _, x := range k.In {
		k.Nest(loop.Each, "i", x.Shape, func(at []sym.Expr) {
			to := append([]sym.Expr{}, at...)
			to[axis] = to[axis].Add(begin)
			k.Store(k.Out[0], to, x.Load(at...))
		})
		begin = begin.Add(x.Shape[axis])
	}
}
