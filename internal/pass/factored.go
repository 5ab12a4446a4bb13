package pass

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Factored moves factors that are constant along the axes of a sum out of the sum, if the sum without them is computed
// already: derivatives of normalised values by their scales and by themselves are sums of the same products. The
// results differ by rounding.
func Factored(m *ir.Module) error { return apply(m, factored) }

var factored = []rule{
	{"factors of a sum that is there", []string{"reduce_sum", "reduce_mean"}, factorsOfSum},
}

// factorsOfSum builds a sum from another sum of the same products and the factors that only n has.
func factorsOfSum(r *rewriting, b *ir.Builder, n *ir.Node) *ir.Value {
	x := n.Inputs[0]
	if x.Type.DType != dtype.F32 && x.Type.DType != dtype.F64 || !n.Attrs.Bool("keep") {
		return nil
	}
	axes := axesFrom(n)
	var within, along []*ir.Value
	for _, v := range r.factorsOf(x) {
		if alongAxes(v, x, axes) {
			along = append(along, v)
		} else {
			within = append(within, v)
		}
	}
	if len(along) == 0 || len(within) == 0 {
		return nil
	}
	for _, other := range r.block.Nodes {
		if r.rules[other.Op.Name()] == nil || other == n || !other.Attrs.Bool("keep") {
			continue
		}
		y := other.Inputs[0]
		if !sameType(r.Dims(), x.Type, y.Type) || !slices.Equal(axesFrom(other), axes) ||
			!sameValues(r.factorsOf(y), within) {
			continue
		}
		sum := other.Outputs[0]
		if from, to := other.Op.Name(), n.Op.Name(); from != to {
			count := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{countAlong(x, axes)})
			elements := ops.Cast(b, count, x.Type.DType)
			if to == "reduce_mean" {
				sum = b.Op("div", nil, sum, elements)
			} else {
				sum = b.Op("mul", nil, sum, elements)
			}
		}
		for _, v := range along {
			sum = b.Op("mul", nil, sum, v)
		}
		return sum
	}
	return nil
}

// axesFrom returns a reduction's axes, from 0 on and ascending.
func axesFrom(n *ir.Node) []int64 {
	axes := slices.Clone(n.Attrs.Ints("axes"))
	for i, a := range axes {
		if a < 0 {
			axes[i] += int64(len(n.Inputs[0].Type.Shape))
		}
	}
	slices.Sort(axes)
	return axes
}

// productsDeepest is the greatest depth of nested products that are flattened.
const productsDeepest = 4

// factorsOf returns the factors of nested products in the block, or the value itself.
func (r *rewriting) factorsOf(v *ir.Value) []*ir.Value { return r.factorsWithin(v, productsDeepest) }

// factorsWithin is factorsOf for products nested at most deep.
func (r *rewriting) factorsWithin(v *ir.Value, deep int) []*ir.Value {
	v = r.current(v)
	if n := producer(v, "mul"); n != nil && r.owner[n] == r.block && deep > 0 {
		return append(r.factorsWithin(n.Inputs[0], deep-1), r.factorsWithin(n.Inputs[1], deep-1)...)
	}
	return []*ir.Value{v}
}

// alongAxes reports whether a factor v of x is constant along each of the axes.
func alongAxes(v, x *ir.Value, axes []int64) bool {
	return !slices.ContainsFunc(axes, func(axis int64) bool {
		at := int(axis) - len(x.Type.Shape) + len(v.Type.Shape)
		return at >= 0 && !isOne(v.Type.Shape[at])
	})
}

// countAlong returns the number of elements of x in each sum along axes.
func countAlong(x *ir.Value, axes []int64) sym.Expr {
	var extents []sym.Expr
	for _, axis := range axes {
		extents = append(extents, x.Type.Shape[axis])
	}
	return sym.Product(extents...)
}

// sameValues reports whether two lists hold the same values, in any order.
func sameValues(a, b []*ir.Value) bool {
	rest := slices.Clone(b)
	for _, v := range a {
		i := slices.Index(rest, v)
		if i < 0 {
			return false
		}
		rest = slices.Delete(rest, i, i+1)
	}
	return len(rest) == 0
}
