package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator expand.
func init() {
	define(&Def{Op: "expand", Last: expandLast, Narrow: expandNarrow, Light: true, Linear: true,
		Recompute: Late | InPieces | Backward, Picks: true, NotNegative: firstNotNegative,
		rows: rowRule{axes: expandRows, cut: shapeCut}, Shape: expandShape, Mean: expandMean, View: expandView,
		Samples: expandSamples, Grad: expandGrad,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) {
				k.Store(k.Out[0], at, k.In[0].Load(broadcastIndex(at, k.In[0].Shape)...))
			})
		}}}})
}

// Expand broadcasts x and the given shape: it repeats x along its axes of extent 1 and along new leading axes.
func Expand(b *ir.Builder, x *ir.Value, shape ...sym.Expr) *ir.Value {
	return b.Op("expand", ir.Attrs{"shape": shape}, x)
}

// Fill returns a tensor of the given shape whose elements all equal the single element of t.
func Fill(b *ir.Builder, t *tensor.Tensor, shape ...sym.Expr) *ir.Value {
	return Expand(b, Reshape(b, b.Constant("c", t)), shape...)
}

// Tile repeats x repeats[i] times along each axis i.
func Tile(b *ir.Builder, x *ir.Value, repeats []sym.Expr) *ir.Value {
	var single, many, full []sym.Expr
	repeated := false
	for axis, r := range repeats {
		extent := x.Type.Shape[axis]
		if !isOne(r) {
			repeated = true
			single, many = append(single, one), append(many, r)
		}
		single, many, full = append(single, extent), append(many, extent), append(full, extent.Mul(r))
	}
	if !repeated {
		return x
	}
	return Reshape(b, Expand(b, Reshape(b, x, single...), many...), full...)
}

// expandShape checks that x's shape broadcasts with the attribute and infers the common shape; known elements stay
// known.
func expandShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, to := n.Inputs[0], n.Attrs.Exprs("shape")
	for _, extent := range to {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
			return err
		}
	}
	shape, err := broadcast(c, n, x.Type.Shape, to)
	if err != nil {
		return err
	}
	v := n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	knownPick(c, v, x, true, func(at []int64) []sym.Expr {
		return broadcastIndex(ir.Constants(at), Settled(c.Dims(), x.Type.Shape))
	})
	return nil
}

// expandMean is the reference: it copies each element from its position in x.
func expandMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	flat := int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		moveElement(out, flat, in[0], broadcastFlat(at, in[0].Shape()))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// expandView returns x itself as the result if no axis is repeated, else nil.
func expandView(n *ir.Node, d *sym.Dims) *View {
	x, out := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	for axis, extent := range out {
		from := one
		if at := axis - len(out) + len(x); at >= 0 {
			from = x[at]
		}
		if d.EQ(from, extent) != sym.Yes {
			return nil
		}
	}
	return &View{}
}

// expandGrad passes the derivative on; Gradients.add sums it over the repeated axes.
func expandGrad(_ *Gradients, _ *ir.Node, up []*ir.Value) []*ir.Value { return up }

// expandRows reports that the result can be computed slice by slice along each axis, with the aligned axis of x.
func expandRows(n *ir.Node, _ int, in []int, aligned func(*ir.Value, int) int) bool {
	in[0] = aligned(n.Inputs[0], len(n.Outputs[0].Type.Shape))
	return true
}

// expandNarrow returns the slice of x that a slice of the result needs; repeated axes are read entirely.
func expandNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	return Reading{Made: want, In: []Section{broadcastSection(n.Inputs[0], want)},
		Attrs: ir.Attrs{"shape": want.Shape(n.Outputs[0].Type.Shape)}}, true
}

// expandLast is the last form of an expansion that adds no axes; else nil.
func expandLast(d *sym.Dims, n *ir.Node) *LastForm {
	if len(n.Attrs.Exprs("shape")) != len(n.Inputs[0].Type.Shape) {
		return nil
	}
	return listsLast("shape")(d, n)
}
