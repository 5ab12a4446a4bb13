package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator slice.
func init() {
	define(&Def{Op: "slice", Last: listsLast("begin", "extent", "step"), Cut: sliceSection, Light: true, Linear: true,
		Recompute: InPieces | Backward, Picks: true, Selects: true, NotNegative: firstNotNegative, Defer: sliceDeferred,
		rows: rowRule{axes: sliceAxes, seen: sliceSeen, cut: sliceCut}, Grad: sliceGrad, Shape: sliceShape, Mean: sliceMean,
		View: sliceView, Samples: sliceSamples,
		Lowerings: []Lowering{{Name: "map", When: movable, Build: func(k *Nest, n *ir.Node) {
			k.Nest(loop.Each, "i", k.Out[0].Shape, func(at []sym.Expr) { k.Store(k.Out[0], at, k.In[0].Load(sliced(n, at)...)) })
		}}}})
}

// Slice takes extent[i] elements along each axis i, from begin[i] on in steps of step[i], which may be negative but not
// 0. The caller ensures that every element lies in x.
func Slice(b *ir.Builder, x *ir.Value, begin, extent []sym.Expr, step []int64) *ir.Value {
	return b.Op("slice", ir.Attrs{"begin": begin, "extent": extent, "step": step}, x)
}

// SliceAxis takes extent elements along one axis, from begin on.
func SliceAxis(b *ir.Builder, x *ir.Value, axis int, begin, extent sym.Expr) *ir.Value {
	shape := append([]sym.Expr{}, x.Type.Shape...)
	if axis >= len(shape) {
		b.Failf("axis %d of %s, of rank %d", axis, x.Name, len(shape))
	}
	shape[axis] = extent
	step := make([]int64, len(shape))
	for i := range step {
		step[i] = 1
	}
	return Slice(b, x, unit(len(shape), axis, begin), shape, step)
}

// Split slices x along an axis into pieces of the given extents, whose sum is x's extent.
func Split(b *ir.Builder, x *ir.Value, axis int, extents []sym.Expr) []*ir.Value {
	whole := sym.Cond{A: x.Type.Shape[axis], Rel: sym.EQ, B: sym.Sum(extents...)}
	if err := b.RequireOf(b.Source, "split", 0, whole, "the pieces are the whole axis"); err != nil {
		b.Fail(err)
	}
	begin, pieces := sym.Expr{}, make([]*ir.Value, len(extents))
	for i, extent := range extents {
		pieces[i] = SliceAxis(b, x, axis, begin, extent)
		begin = begin.Add(extent)
	}
	return pieces
}

// movable reports whether a kernel can move elements of the node's first input's type.
func movable(n *ir.Node, _ *sym.Dims) bool { return loop.Scalar(n.Inputs[0].Type.DType) }

// sliced returns the operand's index for the result's index at.
func sliced(n *ir.Node, at []sym.Expr) []sym.Expr {
	from, begin, step := make([]sym.Expr, len(at)), n.Attrs.Exprs("begin"), n.Attrs.Ints("step")
	for i := range at {
		from[i] = begin[i].Add(at[i].Mul(sym.Const(step[i])))
	}
	return from
}

// sliceShape requires extents that are not negative and steps other than 0; in a text, also ends inside the operand.
// Known elements stay known.
func sliceShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, extent, step := n.Inputs[0], n.Attrs.Exprs("extent"), n.Attrs.Ints("step")
	rank := len(x.Type.Shape)
	if len(extent) != rank || len(n.Attrs.Exprs("begin")) != rank || len(step) != rank {
		return fault(n, "a slice of %d axes for rank %d", len(extent), rank)
	}
	shape := make([]sym.Expr, rank)
	for i := range shape {
		shape[i] = c.Dims().Simplify(extent[i])
		if step[i] == 0 {
			return fault(n, "a step of 0 along axis %d", i)
		}
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[i]}, "an extent is not negative"); err != nil {
			return err
		}
		if n.Line == 0 {
			continue // not from a text: importers have moved its ends into the operand
		}
		first := n.Attrs.Exprs("begin")[i]
		last := first.Add(shape[i].Max(sym.Const(1)).Sub(sym.Const(1)).Mul(sym.Const(step[i])))
		if step[i] == 1 {
			last = first.Add(shape[i]).Sub(sym.Const(1)) // of an empty slice, the position before the first
		}
		for _, in := range []sym.Cond{{A: sym.Const(0), B: first}, {A: last, Rel: sym.LT, B: x.Type.Shape[i]}} {
			if err := c.Require(n, in, "a slice begins and ends within its operand"); err != nil {
				return err
			}
		}
		if step[i] < 0 {
			for _, in := range []sym.Cond{{A: sym.Const(0), B: last}, {A: first, Rel: sym.LT, B: x.Type.Shape[i]}} {
				if err := c.Require(n, in, "a slice begins and ends within its operand"); err != nil {
					return err
				}
			}
		}
	}
	v := n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape})
	knownPick(c, v, x, true, func(at []int64) []sym.Expr { return sliced(n, ir.Constants(at)) })
	return nil
}

// knownPick sets v's known elements from those of x: from returns the index in x of the element at index at of v, and
// certain whether the indices are certain.
func knownPick(c *ir.Inference, v, x *ir.Value, certain bool, from func(at []int64) []sym.Expr) {
	sizes, static := constants(v.Type.Shape)
	source, staticX := constants(x.Type.Shape)
	elements, sure := c.Knows(x)
	if elements == nil || !static || !staticX {
		return
	}
	if count, err := tensor.Count(sizes); err != nil || count > ir.MaxKnown {
		return
	}
	strides := tensor.Strides(source)
	known, ok := []sym.Expr{}, true
	tensor.Each(sizes, func(at []int64) {
		flat := int64(0)
		for axis, e := range from(at) {
			i, isConst := c.Dims().Simplify(e).Const()
			ok = ok && isConst && i >= 0 && i < source[axis]
			flat += i * strides[axis]
		}
		if ok {
			known = append(known, elements[flat])
		}
	})
	if ok {
		c.Keep(v, known, certain && sure)
	}
}

// sliceMean moves each element from its index in the operand.
func sliceMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	begin, err := e.Ints(n.Attrs.Exprs("begin"))
	if err != nil {
		return nil, err
	}
	cut(out, in[0], begin, n.Attrs.Ints("step"))
	return []*tensor.Tensor{out}, nil
}

// cut fills out with the elements of x from begin on, in steps along each axis.
func cut(out, x *tensor.Tensor, begin, step []int64) {
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		from := int64(0)
		for i := range at {
			from += (begin[i] + at[i]*step[i]) * strides[i]
		}
		moveElement(out, flat, x, from)
		flat++
	})
}

// sliceView returns a view if the elements are contiguous: each axis before the one that is cut has one element left,
// and each axis after it is full.
func sliceView(n *ir.Node, d *sym.Dims) *View {
	x, out, begin, step := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape, n.Attrs.Exprs("begin"), n.Attrs.Ints("step")
	offset, inner, full := sym.Expr{}, one, true
	for axis := len(x) - 1; axis >= 0; axis-- {
		switch {
		case full && step[axis] == 1 && d.EQ(out[axis], x[axis]) == sym.Yes:
		case full && (step[axis] == 1 || isOne(out[axis])), isOne(out[axis]):
			offset = offset.Add(begin[axis].Mul(inner))
			full = false
		default:
			return nil
		}
		inner = inner.Mul(x[axis])
	}
	if !offset.Equal(sym.Expr{}) && n.Inputs[0].Type.DType.IsSubByte() {
		return nil
	}
	return &View{Offset: d.Simplify(offset)}
}

// sliceAxes allows pieces of an axis that is sliced from a number on, in steps of 1.
func sliceAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	_, number := n.Attrs.Exprs("begin")[axis].Const()
	return number && n.Attrs.Ints("step")[axis] == 1
}

// sliceSeen shifts rows by the first row of the slice.
func sliceSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	begin, _ := n.Attrs.Exprs("begin")[axis].Const()
	return RowRange{rows.From + begin, rows.To + begin}
}

// sliceCut takes all rows of the operand's piece.
func sliceCut(_ *ir.Builder, _ *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	setExpr(attrs, "begin", axis, sym.Const(0))
	setExpr(attrs, "extent", axis, sym.Const(c.Out.Rows))
}

// sliceDeferred defers slices whose begin and extent are numbers.
func sliceDeferred(n *ir.Node, in []*tensor.Tensor) *tensor.Tensor {
	begin, begins := constants(n.Attrs.Exprs("begin"))
	extent, ends := constants(n.Outputs[0].Type.Shape)
	if !begins || !ends {
		return nil
	}
	t, _ := tensor.Sliced(in[0], begin, extent, n.Attrs.Ints("step"))
	return t
}

// sliceSection composes the slice and the section into a section of the operand. It returns no attributes, because its
// caller builds the slices.
func sliceSection(p NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	x, extent, step := n.Inputs[0], n.Attrs.Exprs("extent"), n.Attrs.Ints("step")
	in := make(Section, len(want))
	for i, begin := range n.Attrs.Exprs("begin") {
		in[i] = AxisSection{begin, extent[i], step[i]}
		if c := want[i]; !c.Full() {
			in[i] = AxisSection{p.Dims.Simplify(begin.Add(c.Begin.Mul(sym.Const(step[i])))), c.Extent, step[i] * c.Step}
		}
		if at, ok := in[i].Begin.Const(); ok && at == 0 && in[i].Step == 1 &&
			p.Dims.EQ(in[i].Extent, x.Type.Shape[i]) == sym.Yes || isOne(x.Type.Shape[i]) && isOne(in[i].Extent) {
			in[i] = AxisSection{}
		}
		if in[i].Step > 1<<31 || in[i].Step < -1<<31 {
			return Reading{}, false
		}
	}
	return Reading{Made: want, In: []Section{in}}, true
}
