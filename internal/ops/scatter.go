package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators scatter_elements and scatter_nd.
func init() {
	define(&Def{Op: "scatter_elements", apart: apartScatterElements,
		Linear: true, Scatter: true, KeepsVectors: scatterElementsKeepsVectors,
		Grad: scatterElementsGrad, Shape: scatterElementsShape, Mean: scatterElementsMean, Samples: scatterElementsSamples,
		Lowerings: []Lowering{{Name: "serial", When: movable, Onto: true, Build: scatterElementsSerial}}})
	define(&Def{Op: "scatter_nd", Linear: true, Scatter: true, KeepsVectors: scatterNDKeepsVectors, Grad: scatterNDGrad,
		Shape: scatterNDShape, Mean: scatterNDMean, Samples: scatterNDSamples,
		Lowerings: []Lowering{{Name: "serial", When: movable, Onto: true, Build: scatterNDSerial}}})
}

// scatterFunctions combine an element and an update, by reduction. "none", which replaces the element, is not among
// them.
var scatterFunctions = map[string]loop.BinaryOp{"add": loop.Add, "mul": loop.Mul, "min": loop.Min, "max": loop.Max}

// ScatterElements returns x with updates written into it: each at its own index, except that indices gives its index
// along the axis. Reduction is none, add, mul, min or max. Of several updates of one element without a reduction, the
// last one remains.
func ScatterElements(b *ir.Builder, x, indices, updates *ir.Value, axis int64, reduction string) *ir.Value {
	return b.Op("scatter_elements", ir.Attrs{"axis": axis, "reduction": reduction}, x, indices, updates)
}

// ScatterND returns x with slices replaced by updates, or combined with them: each tuple along indices' last axis
// selects one slice.
func ScatterND(b *ir.Builder, x, indices, updates *ir.Value, reduction string) *ir.Value {
	return b.Op("scatter_nd", ir.Attrs{"reduction": reduction}, x, indices, updates)
}

// scattered checks the types of the operands and the reduction.
func scattered(n *ir.Node) error {
	if err := arity(n, 3, 3); err != nil {
		return err
	}
	if err := indexed(n); err != nil {
		return err
	}
	x, updates, reduction := n.Inputs[0].Type, n.Inputs[2].Type, n.Attrs.String("reduction", "none")
	if x.DType != updates.DType {
		return fault(n, "updates of type %s for %s", updates.DType, x.DType)
	}
	if f, ok := scatterFunctions[reduction]; reduction != "none" && (!ok || !f.Accepts(x.DType)) {
		return fault(n, "reduction %q of elements of type %s", reduction, x.DType)
	}
	return nil
}

// update returns the element after an update.
func update(n *ir.Node, old, new loop.Expr) loop.Expr {
	if f, ok := scatterFunctions[n.Attrs.String("reduction", "none")]; ok {
		return loop.Apply2(f, old, new)
	}
	return new
}

// updateElement is update for the reference.
func updateElement(n *ir.Node, to *tensor.Tensor, i int64, from *tensor.Tensor, j int64) {
	if f, ok := scatterFunctions[n.Attrs.String("reduction", "none")]; ok {
		setBits(to, i, loop.EvalBinary(f, to.DType(), bitsOf(to, i), bitsOf(from, j)))
		return
	}
	moveElement(to, i, from, j)
}

// scatterElementsShape requires an update for each index, and indices that fit x along the other axes.
func scatterElementsShape(c *ir.Inference, n *ir.Node) error {
	if err := scattered(n); err != nil {
		return err
	}
	x, indices, updates := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	if err := withinExcept(c, n, axis, indices.Shape, x.Shape); err != nil {
		return err
	}
	if len(updates.Shape) != len(indices.Shape) {
		return fault(n, "updates %s for indices %s", updates, indices)
	}
	for i := range updates.Shape {
		if err := c.RequireEqual(n, updates.Shape[i], indices.Shape[i], "one update for each index"); err != nil {
			return err
		}
	}
	n.Result(0, x)
	return nil
}

// scatterElementsMean updates a copy of x in the order of the indices; an index outside its range fails.
func scatterElementsMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, indices := in[0].Clone(), in[1]
	if out.Len() == 0 {
		return []*tensor.Tensor{out}, nil // a launch that writes no element does not run, so no index is checked
	}
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), out.Rank())
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(out.Shape()), int64(0)
	tensor.Each(indices.Shape(), func(at []int64) {
		p, wrong := positionOf(n, indices, flat, out.Shape()[axis])
		if wrong != nil {
			err = wrong
			return
		}
		updateElement(n, out, tensor.Offset(strides, at)+(p-at[axis])*strides[axis], in[2], flat)
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// scatterElementsSerial processes the updates along the axis in order; the other axes are independent.
func scatterElementsSerial(k *Nest, n *ir.Node) {
	indices, updates, out := k.In[1], k.In[2], k.Out[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(out.Shape))
	others := append(append([]sym.Expr{}, indices.Shape[:axis]...), indices.Shape[axis+1:]...)
	k.Nest(loop.Each, "i", others, func(row []sym.Expr) {
		k.Serial("s", indices.Shape[axis], func(s sym.Expr) {
			at := append(append(append([]sym.Expr{}, row[:axis]...), s), row[axis:]...)
			to := gathered(at, axis, 1, k.position(indices.Load(at...), out.Shape[axis]))
			k.Store(out, to, update(n, out.Load(to...), updates.Load(at...)))
		})
	})
}

// scatterNDShape requires an update of a slice's shape for each tuple of indices.
func scatterNDShape(c *ir.Inference, n *ir.Node) error {
	if err := scattered(n); err != nil {
		return err
	}
	x, indices, updates := n.Inputs[0].Type, n.Inputs[1].Type, n.Inputs[2].Type
	depth, err := tuple(n, indices, int64(len(x.Shape)), 0)
	if err != nil {
		return err
	}
	want := append(append([]sym.Expr{}, indices.Shape[:len(indices.Shape)-1]...), x.Shape[depth:]...)
	if len(updates.Shape) != len(want) {
		return fault(n, "updates %s for indices %s of %s", updates, indices, x)
	}
	for i := range want {
		if err := c.RequireEqual(n, updates.Shape[i], want[i], "one update for each index"); err != nil {
			return err
		}
	}
	n.Result(0, x)
	return nil
}

// scatterNDMean updates a copy of x in the order of the updates; an index outside its range fails.
func scatterNDMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, indices, updates := in[0].Clone(), in[1], in[2]
	if out.Len() == 0 {
		return []*tensor.Tensor{out}, nil
	}
	lead := indices.Shape()[:indices.Rank()-1]
	depth := int(indices.Shape()[len(lead)])
	strides, flat := tensor.Strides(out.Shape()), int64(0)
	var err error
	tensor.Each(updates.Shape(), func(at []int64) {
		row := tensor.Offset(tensor.Strides(lead), at[:len(lead)]) * int64(depth)
		var to []int64
		for i := range depth {
			p, wrong := positionOf(n, indices, row+int64(i), out.Shape()[i])
			if wrong != nil {
				err = wrong
				return
			}
			to = append(to, p)
		}
		updateElement(n, out, tensor.Offset(strides, append(to, at[len(lead):]...)), updates, flat)
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// scatterNDSerial processes the tuples of indices in order; the elements of a slice are independent.
func scatterNDSerial(k *Nest, n *ir.Node) {
	indices, updates, out := k.In[1], k.In[2], k.Out[0]
	lead := len(indices.Shape) - 1
	k.Nest(loop.Serial, "s", updates.Shape[:lead], func(at []sym.Expr) {
		to := k.positions(indices, at, out.Shape)
		k.Nest(loop.Each, "j", updates.Shape[lead:], func(rest []sym.Expr) {
			into := append(append([]sym.Expr{}, to...), rest...)
			k.Store(out, into, update(n, out.Load(into...), updates.Load(append(append([]sym.Expr{}, at...), rest...)...)))
		})
	})
}

// scatterNDKeepsVectors reports whether tuples of indices select slices that contain the full last axis.
func scatterNDKeepsVectors(_ *sym.Dims, n *ir.Node) bool {
	at := n.Inputs[1].Type.Shape
	depth, known := at[len(at)-1].Const()
	return known && depth < int64(len(n.Inputs[0].Type.Shape))
}

// scatterElementsKeepsVectors reports whether the indices are the same for all elements of a vector, and cover the full
// last axis.
func scatterElementsKeepsVectors(d *sym.Dims, n *ir.Node) bool {
	x, at, axis := n.Inputs[0].Type.Shape, n.Inputs[1], n.Attrs.Int("axis", 0)
	last := len(x) - 1
	return axis != -1 && axis != int64(last) && sameAlongLast(at) && d.EQ(at.Type.Shape[last], x[last]) == sym.Yes
}

// sameAlongLast reports whether the elements along a value's last axis are known to be equal.
func sameAlongLast(v *ir.Value) bool {
	last := len(v.Type.Shape) - 1
	if v.Const == nil && v.Node != nil && v.Node.Op.Name() == "expand" {
		from := v.Node.Inputs[0].Type.Shape
		return len(from) == 0 || isOne(from[len(from)-1])
	}
	if v.Const == nil {
		return isOne(v.Type.Shape[last])
	}
	length := v.Const.Shape()[last]
	for i := range v.Const.Len() {
		if v.Const.Int(i) != v.Const.Int(i-i%length) {
			return false
		}
	}
	return true
}
