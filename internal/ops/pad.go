package ops

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator pad.
func init() {
	define(&Def{Op: "pad", Last: listsLast("begin", "end"), Light: true, Linear: true, Recompute: InPieces | Backward,
		NotNegative: padNotNegative, rows: rowRule{axes: padAxes, seen: padSeen, loose: padLoose, cut: padCut}, Grad: padGrad,
		Shape: padShape, Mean: padMean, Expand: padExpand, Samples: padSamples,
		View:      func(n *ir.Node, d *sym.Dims) *View { return padView(n) },
		Lowerings: []Lowering{{Name: "map", When: padIsMap, Build: padMap}}})
}

// padFolds maps a position outside [0, extent) to the position whose element continues the tensor there, by mode. The
// mode constant is not among them, since it reads no element.
var padFolds = map[string]func(position, extent sym.Expr) sym.Expr{
	"edge": func(p, extent sym.Expr) sym.Expr { return p.Max(sym.Const(0)).Min(extent.Sub(one)) },
	// The edge is not repeated: the period is 2·(extent − 1). A single element is its own reflection.
	"reflect": func(p, extent sym.Expr) sym.Expr {
		period := extent.Sub(one).Mul(sym.Const(2))
		at := p.Mod(period.Max(one))
		return at.Min(period.Sub(at))
	},
	"wrap": func(p, extent sym.Expr) sym.Expr { return p.Mod(extent) },
}

// Pad adds begin[i] elements before axis i and end[i] after it; negative numbers remove elements, before any are added.
// Mode is constant, edge, reflect or wrap; value, of one element, is added in mode constant (nil: 0).
func Pad(b *ir.Builder, x, value *ir.Value, mode string, begin, end []sym.Expr) *ir.Value {
	inputs := []*ir.Value{x}
	if mode == "constant" && value != nil {
		inputs = append(inputs, value)
	}
	return b.Op("pad", ir.Attrs{"mode": mode, "begin": begin, "end": end}, inputs...)
}

// padShape requires an amount for each axis before and after, and extents that stay not negative. Modes other than
// constant need an element to continue.
func padShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 2); err != nil {
		return err
	}
	x, begin, end, mode := n.Inputs[0].Type, n.Attrs.Exprs("begin"), n.Attrs.Exprs("end"),
		n.Attrs.String("mode", "constant")
	if len(begin) != len(x.Shape) || len(end) != len(x.Shape) {
		return fault(n, "padding for %d and %d axes, rank %d", len(begin), len(end), len(x.Shape))
	}
	if mode != "constant" && padFolds[mode] == nil {
		return fault(n, "mode %q", mode)
	}
	if value := input(n, 1); value != nil {
		if count, ok := product(value.Type.Shape).Const(); !ok || count != 1 || value.Type.DType != x.DType {
			return fault(n, "%s for the value that %s is padded with", value.Type, x)
		}
	}
	shape := make([]sym.Expr, len(x.Shape))
	for i := range shape {
		shape[i] = c.Dims().Simplify(sym.Sum(x.Shape[i], begin[i], end[i]))
		if err := c.Require(n, sym.Cond{A: sym.Const(0), Rel: sym.LE, B: shape[i]}, "an extent is not negative"); err != nil {
			return err
		}
		if mode != "constant" && !(isZero(begin[i]) && isZero(end[i])) {
			left := x.Shape[i].Add(begin[i].Min(sym.Const(0))).Add(end[i].Min(sym.Const(0)))
			if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: left},
				"padding by "+mode+" needs an element to begin with"); err != nil {
				return err
			}
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	return nil
}

func isZero(e sym.Expr) bool { return e.Equal(sym.Expr{}) }

// padSource returns the position along an axis from which an element comes, counted within the elements that negative
// padding leaves: those begin at cut, and there are left of them.
func padSource(at, begin, end, extent sym.Expr) (position, cut, left sym.Expr) {
	lost := begin.Min(sym.Const(0)).Neg()
	return at.Sub(begin.Max(sym.Const(0))), lost, extent.Sub(lost).Add(end.Min(sym.Const(0)))
}

// padMean moves each element from its position in the input, or fills it with the value.
func padMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	begin, err := e.Ints(n.Attrs.Exprs("begin"))
	if err != nil {
		return nil, err
	}
	end, err := e.Ints(n.Attrs.Exprs("end"))
	if err != nil {
		return nil, err
	}
	x, value, fold := in[0], present(in, 1), padFolds[n.Attrs.String("mode", "constant")]
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		from, within := int64(0), true
		for i := range at {
			position, cut, left := padSource(sym.Const(at[i]), sym.Const(begin[i]), sym.Const(end[i]), sym.Const(x.Shape()[i]))
			if fold != nil && (begin[i] != 0 || end[i] != 0) {
				position = fold(position, left)
			}
			p, _ := position.Const()
			first, _ := cut.Const()
			extent, _ := left.Const()
			within = within && p >= 0 && p < extent
			from += (first + p) * strides[i]
		}
		switch {
		case within:
			moveElement(out, flat, x, from)
		case value != nil:
			moveElement(out, flat, value, 0)
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// padView returns the entire input if no axis is padded, and nil otherwise.
func padView(n *ir.Node) *View {
	begin, end := n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	for i := range begin {
		if !isZero(begin[i]) || !isZero(end[i]) {
			return nil
		}
	}
	return &View{}
}

// padIsMap reports whether padMap may build the node: with a fold, no amount may be negative, since removing elements
// moves the edges.
func padIsMap(n *ir.Node, d *sym.Dims) bool {
	if !movable(n, d) {
		return false
	}
	if n.Attrs.String("mode", "constant") == "constant" {
		return true
	}
	return !padCuts(n, d)
}

// padCuts reports whether an amount may be negative.
func padCuts(n *ir.Node, d *sym.Dims) bool {
	for _, e := range append(append([]sym.Expr{}, n.Attrs.Exprs("begin")...), n.Attrs.Exprs("end")...) {
		if d.LE(sym.Const(0), e) != sym.Yes {
			return true
		}
	}
	return false
}

// padExpand removes elements with a slice and then pads by the positive amounts; nil if no amount is negative.
func padExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	if !padCuts(n, b.Dims()) {
		return nil
	}
	x, begin, end := n.Inputs[0], n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	rank := len(begin)
	first, left, before, after, step := make([]sym.Expr, rank), make([]sym.Expr, rank), make([]sym.Expr, rank),
		make([]sym.Expr, rank), make([]int64, rank)
	for i := range begin {
		_, first[i], left[i] = padSource(sym.Expr{}, begin[i], end[i], x.Type.Shape[i])
		before[i], after[i], step[i] = begin[i].Max(sym.Const(0)), end[i].Max(sym.Const(0)), 1
	}
	return []*ir.Value{Pad(b, Slice(b, x, first, left, step), input(n, 1), n.Attrs.String("mode", "constant"), before,
		after)}
}

// padMap loads each element through the mode's fold or, in mode constant, under a mask.
func padMap(k *Nest, n *ir.Node) {
	x, value, out := k.In[0], present(k.In, 1), k.Out[0]
	begin, fold := n.Attrs.Exprs("begin"), padFolds[n.Attrs.String("mode", "constant")]
	var fill loop.Expr = &loop.Const{Type: x.DType}
	if value != nil {
		fill = value.Load(zeros(len(value.Shape))...)
	}
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		var mask loop.Expr
		from := append([]sym.Expr{}, at...)
		for i := range at {
			if isZero(begin[i]) && isZero(n.Attrs.Exprs("end")[i]) {
				continue
			}
			from[i] = at[i].Sub(begin[i])
			if fold != nil {
				from[i] = fold(from[i], x.Shape[i])
			} else {
				mask = loop.Both(mask, loop.Inside(from[i], sym.Const(0), x.Shape[i]))
			}
		}
		if mask == nil {
			k.Store(out, at, x.Load(from...))
		} else {
			k.Store(out, at, x.LoadIf(mask, fill, from...))
		}
	})
}

// pads reports whether a node adds or removes rows along an axis.
func pads(n *ir.Node, axis int) bool {
	return !isZero(n.Attrs.Exprs("begin")[axis]) || !isZero(n.Attrs.Exprs("end")[axis])
}

// padAxes allows pieces of an axis that is not padded, and of one that is padded with a constant if the amount before
// is a number.
func padAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	in[0] = axis
	_, number := n.Attrs.Exprs("begin")[axis].Const()
	return !pads(n, axis) || number && n.Attrs.String("mode", "constant") == "constant"
}

// padSeen shifts rows by the amount that is added before them.
func padSeen(n *ir.Node, axis, _ int, rows RowRange) RowRange {
	begin, _ := n.Attrs.Exprs("begin")[axis].Const()
	return RowRange{rows.From - begin, rows.To - begin}
}

// padCut sets the amounts of a piece: it begins at other rows, and has as many rows as the piece of the result.
func padCut(b *ir.Builder, n *ir.Node, attrs ir.Attrs, _ []*ir.Value, axis int, c RowCut) {
	if !pads(n, axis) {
		return
	}
	begin := n.Attrs.Exprs("begin")[axis].Add(c.offset(b, 0, 1))
	setExpr(attrs, "begin", axis, begin)
	setExpr(attrs, "end", axis, sym.Const(c.Out.Rows-c.In[0].Rows).Sub(begin))
}

func padLoose(n *ir.Node, axis, _ int) bool { return pads(n, axis) }

// padNotNegative requires that the input is not negative and that the value that is added is absent (0) or a constant
// that is not negative.
func padNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	value := input(n, 1)
	return is(n.Inputs[0]) && (value == nil || value.Const != nil && is(value))
}
