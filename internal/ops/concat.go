package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator concat.
func init() {
	define(&Def{Op: "concat", apart: apartConcat, Last: concatLast, Narrow: concatNarrow, Light: true, Linear: true,
		Recompute: InPieces | Backward, Holds: true, NotNegative: allNotNegative, Defer: concatDeferred,
		rows: rowRule{axes: concatRows}, Grad: concatGrad, Shape: concatShape, Mean: concatMean, Samples: concatSamples,
		View: func(n *ir.Node, _ *sym.Dims) *View {
			if len(n.Inputs) == 1 {
				return &View{}
			}
			return nil
		},
		Lowerings: []Lowering{{Name: "interleaved", When: concatInterleaves, Build: concatInterleaved},
			{Name: "pieces", When: movable, Build: concatPieces}}})
}

// mostInterleaved is the most elements of a row of an interleaved result, and fewInterleaved the most elements of each
// piece in it.
const mostInterleaved, fewInterleaved = 64, 2

// concatInterleaves reports whether pieces of one shape alternate in the result after an element or two: one loop per
// piece would write each cache line of the result once per piece.
func concatInterleaves(n *ir.Node, d *sym.Dims) bool {
	if !movable(n, d) {
		return false
	}
	first := n.Inputs[0].Type.Shape
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(first))
	if err != nil || axis == 0 {
		return false
	}
	few, fixed := product(first[axis:]).Const()
	if !fixed || few < 1 || few > fewInterleaved || few*int64(len(n.Inputs)) > mostInterleaved {
		return false
	}
	for _, x := range n.Inputs[1:] {
		if d.EQ(x.Type.Shape[axis], first[axis]) != sym.Yes {
			return false
		}
	}
	return true
}

// concatInterleaved lowers concat: each iteration copies the element at one index from every piece.
func concatInterleaved(k *Nest, n *ir.Node) {
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(k.Out[0].Shape))
	k.Nest(loop.Each, "i", k.In[0].Shape, func(at []sym.Expr) {
		for i, x := range k.In {
			to := append([]sym.Expr{}, at...)
			to[axis] = to[axis].Add(x.Shape[axis].Mul(sym.Const(int64(i))))
			k.Store(k.Out[0], to, x.Load(at...))
		}
	})
}

// Concat joins tensors of one rank along an axis.
func Concat(b *ir.Builder, axis int64, xs ...*ir.Value) *ir.Value {
	return b.Op("concat", ir.Attrs{"axis": axis}, xs...)
}

// otherAxes is the reason for a condition of concat.
const otherAxes = "concatenated tensors differ along one axis only"

// concatShape checks that the other axes are equal, adds up the extents along the axis and, for vectors, joins known
// elements.
func concatShape(c *ir.Inference, n *ir.Node) error {
	if len(n.Inputs) == 0 {
		return fault(n, "no tensors to concatenate")
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
			} else if err := c.RequireEqual(n, shape[a], x.Type.Shape[a], otherAxes); err != nil {
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
	known, certain := []sym.Expr{}, true
	for _, x := range n.Inputs {
		elements, sure := c.Knows(x)
		if elements == nil || len(known)+len(elements) > ir.MaxKnown {
			return nil
		}
		known, certain = append(known, elements...), certain && sure
	}
	c.Keep(v, known, certain)
	return nil
}

// concatMean is the reference: it copies each input after the previous one.
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

// concatPieces lowers concat: one loop nest for each input copies its elements to its range of the result.
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

// concatRows reports whether rows along an axis are independent: along each axis but the one of the concatenation.
func concatRows(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	for i := range in {
		in[i] = axis
	}
	return int64(axis) != n.Attrs.Int("axis", -1) && n.Attrs.Int("axis", -1) >= 0
}

// concatDeferred returns the inputs joined as one tensor that copies nothing; nil if that is not possible.
func concatDeferred(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor {
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), in[0].Rank())
	if err != nil {
		return nil
	}
	t, _ := tensor.Joined(axis, in...)
	return t
}

// concatNarrow returns the sections of the inputs that a section of the result needs; along the axis of the
// concatenation the result is computed entirely.
func concatNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	axis := int(n.Attrs.Int("axis", 0))
	want[(axis+len(want))%len(want)] = AxisSection{}
	return Reading{Made: want, In: slices.Repeat([]Section{want}, len(n.Inputs))}, true
}

// concatLast is the last form of concat: all operands have channels.
func concatLast(d *sym.Dims, n *ir.Node) *LastForm {
	f := axisLast(d, n)
	if f != nil {
		f.Images = slices.Repeat([]bool{true}, len(n.Inputs))
	}
	return f
}
