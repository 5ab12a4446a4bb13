package ops

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators gather, gather_elements and gather_nd.
func init() {
	define(&Def{Op: "gather", apart: apartGather,
		Light: true, Linear: true, Recompute: InPieces | Backward, Picks: true, Selects: true,
		rows: tableRows, Grad: gatherGrad, Shape: gatherShape, Mean: gatherMean, Samples: gatherSamples,
		Lowerings: []Lowering{{Name: "rows", When: movable, Build: gatherRows}}})
	define(&Def{Op: "gather_elements", apart: apartGatherElements,
		Light: true, Linear: true, Picks: true, Selects: true, Grad: gatherElementsGrad,
		Shape: gatherElementsShape, Mean: gatherElementsMean, Samples: gatherElementsSamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: gatherElementsMap}}})
	define(&Def{Op: "gather_nd", apart: apartGatherND,
		Light: true, Linear: true, Picks: true, Selects: true, Grad: gatherNDGrad,
		Shape: gatherNDShape, Mean: gatherNDMean, Samples: gatherNDSamples,
		Lowerings: []Lowering{{Name: "rows", When: movable, Build: gatherNDRows}}})
}

// Gather takes slices of x along an axis by index; negative indices count from the end. The indices' axes replace the
// axis. Unsigned indices do not count from the end, also not those of 64 bits that are above the greatest i64.
func Gather(b *ir.Builder, x, indices *ir.Value, axis int64) *ir.Value {
	return b.Op("gather", ir.Attrs{"axis": axis}, x, indices)
}

// GatherElements takes one element of x for each index: the element at the index's own position, with the index along
// the axis.
func GatherElements(b *ir.Builder, x, indices *ir.Value, axis int64) *ir.Value {
	return b.Op("gather_elements", ir.Attrs{"axis": axis}, x, indices)
}

// GatherND takes slices of x by tuples of indices along indices' last axis. The first batch axes belong to x and
// indices alike; the tuples address x's axes after them.
func GatherND(b *ir.Builder, x, indices *ir.Value, batch int64) *ir.Value {
	return b.Op("gather_nd", ir.Attrs{"batch": batch}, x, indices)
}

// outside names an index that is out of range in a run's error.
const outside = "an index"

// position checks one index against an extent and returns it, counted from the end if negative.
func (k *Nest) position(index loop.Expr, extent sym.Expr) sym.Expr {
	wide := loop.Convert(dtype.I64, index)
	if index.DType().IsSigned() {
		wide = k.Let("j", wide)
		wide = loop.Choose(loop.Apply2(loop.Lt, wide, loop.Integer(dtype.I64, 0)),
			loop.Apply2(loop.Add, wide, loop.At(extent)), wide)
	}
	return k.Check("p", wide, sym.Const(0), extent.Sub(one), outside)
}

// positionOf is position in the reference, for element i of the indices: it returns an error if the index is out of
// range.
func positionOf(n *ir.Node, indices *tensor.Tensor, i, extent int64) (int64, error) {
	index := indices.Int(i)
	if index < -extent || index >= extent || index < 0 && !indices.DType().IsSigned() {
		return 0, diag.Inputf("index %d for an extent of %d", index, extent).AtNode(n.Source, n.Op.Name())
	}
	if index < 0 {
		index += extent
	}
	return index, nil
}

// indexed checks the operands that gathers and scatters share: x has an axis, and the indices are integers.
func indexed(n *ir.Node) error {
	if !integers(n.Inputs[1].Type.DType) {
		return fault(n, "indices of type %s", n.Inputs[1].Type.DType)
	}
	return nil
}

// gatherShape infers x's shape with the axis replaced by the indices' shape; elements at known indices stay known.
func gatherShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	if err := indexed(n); err != nil {
		return err
	}
	x, indices := n.Inputs[0], n.Inputs[1]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Type.Shape))
	if err != nil {
		return err
	}
	shape := append(append(append([]sym.Expr{}, x.Type.Shape[:axis]...), indices.Type.Shape...), x.Type.Shape[axis+1:]...)
	v := n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	elements, certain := c.Knows(indices)
	if sizes, static := constants(indices.Type.Shape); static && elements != nil {
		knownPick(c, v, x, certain, func(at []int64) []sym.Expr {
			index := elements[broadcastFlat(at[axis:axis+len(sizes)], sizes)]
			if c.Dims().LT(index, sym.Const(0)) == sym.Yes {
				index = index.Add(x.Type.Shape[axis])
			}
			return gathered(ir.Constants(at), axis, len(sizes), index)
		})
	}
	return nil
}

// gathered returns the operand's index for an index of the result, with position in place of the indices' axes.
func gathered[T any](at []T, axis, rank int, position T) []T {
	return append(append(append([]T{}, at[:axis]...), position), at[axis+rank:]...)
}

// gatherMean is the reference: it copies the element that each index selects.
func gatherMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, indices := in[0], in[1]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), x.Rank())
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		p, wrong := positionOf(n, indices, broadcastFlat(at[axis:axis+indices.Rank()], indices.Shape()), x.Shape()[axis])
		if wrong != nil {
			err = wrong
			return
		}
		moveElement(out, flat, x, tensor.Offset(strides, gathered(at, axis, indices.Rank(), p)))
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// gatherRows lowers gather: each iteration checks one index and copies the slice that it selects.
func gatherRows(k *Nest, n *ir.Node) {
	x, indices, out := k.In[0], k.In[1], k.Out[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	outer := axis + len(indices.Shape)
	k.Nest(loop.Each, "i", out.Shape[:outer], func(at []sym.Expr) {
		p := k.position(indices.Load(at[axis:]...), x.Shape[axis])
		k.Nest(loop.Each, "j", out.Shape[outer:], func(rest []sym.Expr) {
			to := append(append([]sym.Expr{}, at...), rest...)
			k.Store(out, to, x.Load(gathered(to, axis, len(indices.Shape), p)...))
		})
	})
}

// gatherElementsShape checks that the indices fit x along the other axes and infers the indices' shape.
func gatherElementsShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	if err := indexed(n); err != nil {
		return err
	}
	x, indices := n.Inputs[0].Type, n.Inputs[1].Type
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	if err != nil {
		return err
	}
	if err := withinExcept(c, n, axis, indices.Shape, x.Shape); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: indices.Shape})
	return nil
}

// withinExcept requires that a shape is at most another, of the same rank, along every axis but one.
func withinExcept(c *ir.Inference, n *ir.Node, axis int, small, large []sym.Expr) error {
	if len(small) != len(large) {
		return fault(n, "indices of rank %d for a tensor of rank %d", len(small), len(large))
	}
	for i := range small {
		if i == axis {
			continue
		}
		if err := c.Require(n, sym.Cond{A: small[i], Rel: sym.LE, B: large[i]}, "indices lie within the tensor"); err != nil {
			return err
		}
	}
	return nil
}

// gatherElementsMean is the reference: it copies the element that each index selects.
func gatherElementsMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, indices := in[0], in[1]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), x.Rank())
	if err != nil {
		return nil, err
	}
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		p, wrong := positionOf(n, indices, flat, x.Shape()[axis])
		if wrong != nil {
			err = wrong
			return
		}
		moveElement(out, flat, x, tensor.Offset(strides, at)+(p-at[axis])*strides[axis])
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// gatherElementsMap lowers gather_elements: each iteration checks one index and copies its element.
func gatherElementsMap(k *Nest, n *ir.Node) {
	x, indices := k.In[0], k.In[1]
	axis, _ := axisOf(n, n.Attrs.Int("axis", 0), len(x.Shape))
	k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
		p := k.position(indices.Load(at...), x.Shape[axis])
		k.Store(k.Out[0], at, x.Load(gathered(at, axis, 1, p)...))
	})
}

// tuple returns the number of axes that a tuple of indices addresses, or an error if x does not have them.
func tuple(n *ir.Node, indices ir.Type, rank, batch int64) (int64, error) {
	if len(indices.Shape) == 0 {
		return 0, fault(n, "indices of rank 0")
	}
	depth, ok := indices.Shape[len(indices.Shape)-1].Const()
	if !ok {
		return 0, diag.Unsupportedf("tuples of %s indices, which is not a number", indices.Shape[len(indices.Shape)-1]).
			AtNode(n.Source, n.Op.Name())
	}
	if depth < 0 || depth > rank-batch {
		return 0, fault(n, "tuples of %s indices for rank %d after %d batch axes", indices.Shape[len(indices.Shape)-1], rank,
			batch)
	}
	return depth, nil
}

// gatherNDShape checks the batch axes and infers the indices' leading axes, then the axes of x that the tuples do not
// address.
func gatherNDShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	if err := indexed(n); err != nil {
		return err
	}
	x, indices, batch := n.Inputs[0], n.Inputs[1], n.Attrs.Int("batch", 0)
	rank := int64(len(x.Type.Shape))
	if batch < 0 || batch > rank || batch >= int64(len(indices.Type.Shape)) {
		return fault(n, "%d batch axes in tensors of ranks %d and %d", batch, rank, len(indices.Type.Shape))
	}
	depth, err := tuple(n, indices.Type, rank, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		if err := c.RequireEqual(n, x.Type.Shape[i], indices.Type.Shape[i], "a batch axis"); err != nil {
			return err
		}
	}
	lead := indices.Type.Shape[:len(indices.Type.Shape)-1]
	n.Result(0, ir.Type{DType: x.Type.DType, Shape: append(append([]sym.Expr{}, lead...), x.Type.Shape[batch+depth:]...)})
	return nil
}

// gatherNDMean is the reference: it copies the slice that each tuple selects.
func gatherNDMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, indices, batch := in[0], in[1], int(n.Attrs.Int("batch", 0))
	lead := indices.Shape()[:indices.Rank()-1]
	depth := int(indices.Shape()[len(lead)])
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		from := append([]int64{}, at[:batch]...)
		row := tensor.Offset(tensor.Strides(lead), at[:len(lead)]) * int64(depth)
		for i := range depth {
			p, wrong := positionOf(n, indices, row+int64(i), x.Shape()[batch+i])
			if wrong != nil {
				err = wrong
				return
			}
			from = append(from, p)
		}
		moveElement(out, flat, x, tensor.Offset(strides, append(from, at[len(lead):]...)))
		flat++
	})
	return []*tensor.Tensor{out}, err
}

// gatherNDRows lowers gather_nd: each iteration checks one tuple and copies the slice that it selects.
func gatherNDRows(k *Nest, n *ir.Node) {
	x, indices, out := k.In[0], k.In[1], k.Out[0]
	batch, lead := n.Attrs.Int("batch", 0), len(indices.Shape)-1
	k.Nest(loop.Each, "i", out.Shape[:lead], func(at []sym.Expr) {
		from := append(append([]sym.Expr{}, at[:batch]...), k.positions(indices, at, x.Shape[batch:])...)
		k.Nest(loop.Each, "j", out.Shape[lead:], func(rest []sym.Expr) {
			k.Store(out, append(append([]sym.Expr{}, at...), rest...), x.Load(append(append([]sym.Expr{}, from...), rest...)...))
		})
	})
}

// positions checks the tuple of indices at the index at against the extents that it addresses, and returns it.
func (k *Nest) positions(indices *loop.Memory, at, extents []sym.Expr) []sym.Expr {
	depth, _ := indices.Shape[len(indices.Shape)-1].Const()
	found := make([]sym.Expr, depth)
	for i := range found {
		found[i] = k.position(indices.Load(append(append([]sym.Expr{}, at...), sym.Const(int64(i)))...), extents[i])
	}
	return found
}
