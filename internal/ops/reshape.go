package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator reshape.
func init() {
	define(&Def{Op: "reshape", Last: reshapeLast, Narrow: reshapeNarrow, Light: true, Linear: true,
		Recompute: Late | InPieces | Backward, Picks: true, Rearranges: true, Alias: true, NotNegative: firstNotNegative,
		KeepsVectors: reshapeKeepsVectors, rows: rowRule{axes: reshapeAxes, seen: reshapeSeen, granule: reshapeGranule,
			cut: shapeCut}, Shape: reshapeShape, Mean: reshapeMean, Samples: reshapeSamples, Grad: reshapeGrad,
		View: func(n *ir.Node, d *sym.Dims) *View { return &View{Full: true} }})
}

// Reshape returns x's elements, in order, under another shape with as many elements.
func Reshape(b *ir.Builder, x *ir.Value, shape ...sym.Expr) *ir.Value {
	return b.Op("reshape", ir.Attrs{"shape": shape}, x)
}

// reshapeShape requires extents that are not negative and as many elements as before; known elements stay known.
func reshapeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x, shape := n.Inputs[0], n.Attrs.Exprs("shape")
	for _, extent := range shape {
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: extent}, "an extent is not negative"); err != nil {
			return err
		}
	}
	if err := c.RequireEqual(n, product(x.Type.Shape), product(shape),
		"a reshape keeps the number of elements"); err != nil {
		return err
	}
	known, certain := c.Knows(x)
	c.Keep(n.Result(0, ir.Type{DType: x.Type.DType, Shape: shape}), known, certain)
	return nil
}

// reshapeMean returns a view of the operand.
func reshapeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	shape, err := e.Ints(n.Attrs.Exprs("shape"))
	if err != nil {
		return nil, err
	}
	out, err := in[0].Reshape(shape...)
	return []*tensor.Tensor{out}, err
}

func reshapeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{Reshape(g.Builder, up[0], n.Inputs[0].Type.Shape...)}
}

// reshapeAxes finds the operand's axis for which the product of the extents before it is that of the result's axis, if
// a row of one consists of full rows of the other.
func reshapeAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	out, from := n.Outputs[0].Type.Shape, n.Inputs[0].Type.Shape
	before := sym.Product(out[:axis]...)
	for at := range from {
		if !sym.Product(from[:at]...).Equal(before) || isOne(from[at]) || isOne(out[axis]) {
			continue
		}
		_, more := out[axis].Multiple(from[at])
		if _, fewer := from[at].Multiple(out[axis]); more || fewer {
			in[0] = at
			return true
		}
	}
	return false
}

// reshapeRatio returns how many rows of the result a row of the operand makes, and the other way round; one of the two
// is 1.
func reshapeRatio(n *ir.Node, axis int) (up, down int64) {
	in := []int{-1}
	if !reshapeAxes(n, axis, in, nil) {
		return 1, 1
	}
	to, from := n.Outputs[0].Type.Shape[axis], n.Inputs[0].Type.Shape[in[0]]
	if k, more := to.Multiple(from); more {
		return k, 1
	}
	k, _ := from.Multiple(to)
	return 1, k
}

// reshapeSeen converts rows of the result into rows of the operand.
func reshapeSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	up, down := reshapeRatio(n, axis)
	return RowRange{rows.From / up * down, (rows.To + up - 1) / up * down}
}

// reshapeGranule returns the number of the result's rows in one row of the operand.
func reshapeGranule(n *ir.Node, axis int) int64 {
	up, _ := reshapeRatio(n, axis)
	return up
}

// reshapeKeepsVectors reports whether the last axis keeps its extent.
func reshapeKeepsVectors(d *sym.Dims, n *ir.Node) bool {
	from, to := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	return d.EQ(from[len(from)-1], to[len(to)-1]) == sym.Yes
}

// reshapeNarrow keeps sections of axes that the reshape leaves as they are: equal extents counted from either end,
// without extents of 1.
func reshapeNarrow(p NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	from, to := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	in, kept := make(Section, len(from)), make(Section, len(to))
	several := func(shape []sym.Expr) (axes []int) {
		for i, e := range shape {
			if !isOne(e) {
				axes = append(axes, i)
			}
		}
		return axes
	}
	a, b := several(from), several(to)
	same := func(i, j int) bool { return from[i].Equal(to[j]) || p.Dims.EQ(from[i], to[j]) == sym.Yes }
	keep := func(i, j int) { in[i], kept[j] = want[j], want[j] }
	for len(a) > 0 && len(b) > 0 && same(a[0], b[0]) {
		keep(a[0], b[0])
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && same(a[len(a)-1], b[len(b)-1]) {
		keep(a[len(a)-1], b[len(b)-1])
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return Reading{Made: kept, In: []Section{in}, Attrs: ir.Attrs{"shape": kept.Shape(to)}}, true
}

// reshapeLast accepts reshapes that change only the spatial axes.
func reshapeLast(d *sym.Dims, n *ir.Node) *LastForm {
	from, to := n.Inputs[0].Type.Shape, n.Outputs[0].Type.Shape
	if len(from) < 3 || len(to) < 2 {
		return nil
	}
	for i, extent := range to[:2] {
		if !from[i].Equal(extent) && d.EQ(from[i], extent) != sym.Yes {
			return nil
		}
	}
	if len(to) == 2 {
		f := imageFirst(n, nil)
		f.DropsChannels = true
		return f
	}
	return imageFirst(n, ir.Attrs{"shape": permuted(to, ChannelsLast(len(to)))})
}
