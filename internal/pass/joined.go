package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Joined moves reshapes that join or split leading axes down through products, normalisation and functions of single
// elements, until they meet a reshape that undoes them: models join the axes of rows for a product and split them again
// after it, and then the nodes before and after cannot be computed in one loop.
func Joined(m *ir.Module) error { return apply(m, joined) }

var joined = []rule{
	{"reshape of reshape", []string{"reshape"}, reshaped},
	{"same shape", []string{"reshape"}, sameShaped},
	{"rows of a product", []string{"matmul"}, rowsOfProduct},
	{"rows split behind a product", []string{"reshape"}, rowsSplitAfter},
	{"axis split behind a slice", []string{"reshape"}, splitAfterSlice},
	{"rows of normalisation", []string{"normalize"}, rowsOfNormalisation},
	{"rows of a function", ops.ElementwiseNames(), rowsOfFunction},
}

// rowsOf returns the value that v reshapes if the last axis stays; nil otherwise, or if that value is also read in its
// own shape.
func (r *rewriting) rowsOf(v *ir.Value) *ir.Value {
	n := producer(v, "reshape")
	if n == nil || v.Const != nil || r.owner[n] != r.block || r.uses[v] != 1 {
		return nil
	}
	from, to := n.Inputs[0].Type.Shape, v.Type.Shape
	if len(from) < 2 || len(to) < 2 || n.Inputs[0].Known != nil ||
		r.Dims().EQ(from[len(from)-1], to[len(to)-1]) != sym.Yes {
		return nil
	}
	return n.Inputs[0]
}

// rowsOfProduct moves a reshape of rows after a product: the right operand is one matrix, so the rows of the left
// operand may have any shape.
func rowsOfProduct(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x := r.rowsOf(n.Inputs[0])
	if x == nil || n.Attrs.Bool("transpose_a") || len(n.Inputs[1].Type.Shape) != 2 {
		return nil
	}
	return ops.Reshape(b, b.Op("matmul", n.Attrs, x, n.Inputs[1]), n.Outputs[0].Type.Shape...)
}

// rowsSplitAfter moves a reshape that splits a product's rows before the product, if its operand is a reshape anyway.
func rowsSplitAfter(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	product := producer(n.Inputs[0], "matmul")
	if product == nil || r.owner[product] != r.block || r.uses[n.Inputs[0]] != 1 || product.Attrs.Bool("transpose_a") ||
		len(product.Inputs[1].Type.Shape) != 2 {
		return nil
	}
	x, out := producer(product.Inputs[0], "reshape"), n.Outputs[0].Type.Shape
	from, last := product.Outputs[0].Type.Shape, len(out)-1
	if x == nil || r.uses[product.Inputs[0]] != 1 || len(out) < 3 || len(out) < len(from) ||
		r.Dims().EQ(out[last], from[len(from)-1]) != sym.Yes {
		return nil
	}
	shape := product.Inputs[0].Type.Shape
	rows := ops.Reshape(b, x.Inputs[0], append(slices.Clone(out[:last]), shape[len(shape)-1])...)
	return b.Op("matmul", product.Attrs, rows, product.Inputs[1])
}

// splitAfterSlice moves a reshape that splits the axis of a slice before the slice, if the slice takes entire pieces of
// the split axis: models cut heads out of joined heads so.
func splitAfterSlice(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	cut := producer(n.Inputs[0], "slice")
	if cut == nil || r.owner[cut] != r.block || r.uses[n.Inputs[0]] != 1 || !steps(cut) {
		return nil
	}
	x, sliced, out := cut.Inputs[0].Type.Shape, cut.Outputs[0].Type.Shape, n.Outputs[0].Type.Shape
	axis := -1
	for i := range x {
		if r.Dims().EQ(x[i], sliced[i]) == sym.Yes {
			continue
		}
		if axis >= 0 {
			return nil
		}
		axis = i
	}
	if axis < 0 {
		return nil
	}
	before, inside := elementsOf(x[:axis]), elementsOf(x[axis+1:])
	for at := range len(out) - 1 { // the axis of the pieces, of which the slice takes some
		piece := elementsOf(out[at+1:])
		if size, ok := piece.Const(); !ok || size < 2 || isOne(out[at]) ||
			r.Dims().EQ(elementsOf(out[:at]), before) != sym.Yes {
			continue
		}
		all, first := x[axis].Mul(inside), cut.Attrs.Exprs("begin")[axis].Mul(inside)
		if r.Dims().EQ(out[at].Mul(piece), sliced[axis].Mul(inside)) != sym.Yes ||
			r.Dims().EQ(all.Mod(piece), sym.Const(0)) != sym.Yes ||
			r.Dims().EQ(first.Mod(piece), sym.Const(0)) != sym.Yes {
			continue
		}
		shape, begin := slices.Clone(out), slices.Repeat([]sym.Expr{sym.Const(0)}, len(out))
		shape[at], begin[at] = r.Dims().Simplify(all.FloorDiv(piece)), r.Dims().Simplify(first.FloorDiv(piece))
		return ops.Slice(b, ops.Reshape(b, cut.Inputs[0], shape...), begin, out, slices.Repeat([]int64{1}, len(out)))
	}
	return nil
}

// elementsOf returns the number of elements of a shape.
func elementsOf(shape []sym.Expr) sym.Expr {
	n := sym.Const(1)
	for _, x := range shape {
		n = n.Mul(x)
	}
	return n
}

// rowsOfNormalisation moves a reshape of rows after a normalisation along the last axis alone.
func rowsOfNormalisation(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x, axes := r.rowsOf(n.Inputs[0]), n.Attrs.Ints("axes")
	if x == nil || len(axes) != 1 || axes[0] != -1 && axes[0] != int64(len(n.Outputs[0].Type.Shape)-1) {
		return nil
	}
	y := b.Op("normalize", with(n, ir.Attrs{"axes": []int64{int64(len(x.Type.Shape) - 1)}}), x)
	return ops.Reshape(b, y, n.Outputs[0].Type.Shape...)
}

// rowsOfFunction moves a reshape of rows after a function of single elements. Each operand is either a reshape of rows
// of one common shape, or has extent 1 along all axes but the last.
func rowsOfFunction(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	var shape []sym.Expr
	inputs := slices.Clone(n.Inputs)
	for i, v := range inputs {
		if x := r.rowsOf(v); x != nil && sameShape(r.Dims(), v.Type.Shape, n.Outputs[0].Type.Shape) {
			if shape != nil && !sameShape(r.Dims(), shape, x.Type.Shape) {
				return nil
			}
			shape, inputs[i] = x.Type.Shape, x
		}
	}
	if shape == nil {
		return nil
	}
	for i, v := range inputs {
		if v != n.Inputs[i] {
			continue
		}
		for axis := range len(v.Type.Shape) - 1 {
			if !isOne(v.Type.Shape[axis]) {
				return nil
			}
		}
		if len(v.Type.Shape) > 1 {
			inputs[i] = ops.Reshape(b, v, v.Type.Shape[len(v.Type.Shape)-1])
		}
	}
	return ops.Reshape(b, b.Op(n.Op.Name(), n.Attrs, inputs...), n.Outputs[0].Type.Shape...)
}
