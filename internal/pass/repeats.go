package pass

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/sym"
)

// Repeats recognises repetitions of elements, which models spell as axes of 1 that are expanded and joined to the axes
// before: they become one node, which the kernel that reads them can absorb. If there are few channels, which are last,
// it also joins them with the axis before them to pad that axis, so that elements fill vectors.
func Repeats(m *ir.Module, costs recipes.Costs) error { return apply(m, repeatsBy(costs)) }

// repeatsBy returns the rules of Repeats.
func repeatsBy(costs recipes.Costs) []rule {
	return []rule{
		{"reshape of reshape", []string{"reshape"}, reshaped},
		{"same shape", []string{"reshape"}, sameShaped},
		{"repeat", []string{"reshape"}, repeat},
		{"repeat of repeat", []string{"repeat"}, repeatOfRepeat},
		{"pad of joined axes", []string{"pad"}, func(_ *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
			return joinedPad(b, n, costs.Lanes())
		}},
	}
}

// repeat matches axes of 1, each after another axis, that are expanded and joined to the axis before.
func repeat(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	e := producer(n.Inputs[0], "expand")
	if e == nil || !r.inside(n.Inputs[0]) {
		return nil
	}
	from, to, out := e.Inputs[0].Type.Shape, e.Outputs[0].Type.Shape, n.Outputs[0].Type.Shape
	if len(from) != len(to) {
		return nil
	}
	var shape []sym.Expr
	var times []int64
	follows := false // the axis before is not expanded
	for i, extent := range from {
		t, fixed := to[i].Const()
		switch {
		case sameShape(r.Dims(), from[i:i+1], to[i:i+1]):
			shape, times, follows = append(shape, extent), append(times, 1), true
		case !isOne(extent) || !fixed || t < 1 || !follows:
			return nil
		default:
			times[len(times)-1], follows = t, false
		}
	}
	if len(shape) == len(from) || len(shape) != len(out) {
		return nil
	}
	for i, extent := range shape {
		if !sameShape(r.Dims(), out[i:i+1], []sym.Expr{extent.Mul(sym.Const(times[i]))}) {
			return nil
		}
	}
	return ops.Repeat(b, ops.Reshape(b, e.Inputs[0], shape...), times)
}

// repeatOfRepeat joins a repetition of a repetition to one.
func repeatOfRepeat(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	inner := producer(n.Inputs[0], "repeat")
	if inner == nil || r.uses[n.Inputs[0]] != 1 {
		return nil
	}
	times := slices.Clone(n.Attrs.Ints("times"))
	for i, t := range inner.Attrs.Ints("times") {
		times[i] *= t
	}
	return ops.Repeat(b, inner.Inputs[0], times)
}

// joinedPad matches a padding by a constant of the axis before the last, if the last axis has fewer elements than there
// are lanes, and no padding.
func joinedPad(b *ir.Builder, n *ir.Node, lanes int64) *ir.Value {
	x, begin, end := n.Inputs[0], n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	last := len(begin) - 1
	none := func(axis int) bool { return begin[axis].Equal(sym.Const(0)) && end[axis].Equal(sym.Const(0)) }
	if last < 1 || n.Attrs.String("mode", "constant") != "constant" || !none(last) || none(last-1) {
		return nil
	}
	count, fixed := x.Type.Shape[last].Const()
	if !fixed || count < 1 || count >= lanes {
		return nil
	}
	joined := func(list []sym.Expr) []sym.Expr {
		return append(slices.Clone(list[:last-1]), list[last-1].Mul(sym.Const(count)))
	}
	inputs := slices.Clone(n.Inputs)
	inputs[0] = ops.Reshape(b, x, joined(x.Type.Shape)...)
	padded := b.Op("pad", with(n, ir.Attrs{"begin": joined(begin), "end": joined(end)}), inputs...)
	return ops.Reshape(b, padded, n.Outputs[0].Type.Shape...)
}
