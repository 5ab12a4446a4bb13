package ops

import (
	"maps"
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// reduction is a way to combine the elements along axes: before maps each element, combine folds the results from begin
// on, and after makes the result from the total and the number of elements. Elements narrower than f32 are combined in
// f32.
type reduction struct {
	name    string
	combine loop.BinaryOp
	begin   func(dt dtype.DType) *loop.Const
	accepts accepts
	before  func(x loop.Expr) loop.Expr                     // nil: the element itself
	after   func(total loop.Expr, count sym.Expr) loop.Expr // nil: the total itself
	// map1 and finish are before and after for the reference: they take and return the bits of an element of type dt.
	map1   func(dt dtype.DType, x uint64) uint64
	finish func(dt dtype.DType, total uint64, count int64) uint64
	own    Def // the operator's own properties
	// the derivative by the elements; the derivative by the result, and the result, are repeated along the axes
	slope slope
}

func zero(dt dtype.DType) *loop.Const  { return loop.Number(dt, 0) }
func unity(dt dtype.DType) *loop.Const { return loop.Number(dt, 1) }

func ordered(dt dtype.DType) bool { return numbers(dt) || truths(dt) }

// reductions are the primitive reductions; those in two passes are operators of their own (see reduce_log_sum_exp.go).
var reductions = []reduction{
	{name: "reduce_sum", own: Def{Merge: Merging{By: "add", Integers: true}, NotNegative: firstNotNegative},
		combine: loop.Add, begin: zero, accepts: numbers, slope: func(_ *Gradients, up, _, _ *ir.Value) *ir.Value {
			return up
		}},
	{name: "reduce_prod", combine: loop.Mul, begin: unity, accepts: numbers},
	{name: "reduce_min", own: Def{Merge: Merging{By: "min"}, Picks: true}, combine: loop.Min, begin: loop.Highest,
		accepts: ordered},
	{name: "reduce_max", own: Def{Merge: Merging{By: "max"}, Picks: true, NotNegative: greatestNotNegative},
		combine: loop.Max, begin: loop.Lowest, accepts: ordered},
	{name: "reduce_mean", own: Def{Merge: Merging{By: "add", Piece: "reduce_sum"}, NotNegative: firstNotNegative},
		combine: loop.Add, begin: zero, accepts: numbers, after: meanOf,
		finish: func(dt dtype.DType, total uint64, count int64) uint64 {
			return loop.EvalBinary(loop.Div, dt, total, loop.EvalCast(dt, dtype.I64, false, uint64(count)))
		}},
	{name: "reduce_l1", own: Def{Merge: Merging{By: "add"}}, combine: loop.Add, begin: zero, accepts: numbers,
		before: absolute, map1: bitsAbsolute, slope: func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
			return g.mul(up, g.f(loop.Sign, x))
		}},
	{name: "reduce_l2", combine: loop.Add, begin: zero, accepts: numbers, before: square, map1: bitsSquare,
		after: func(total loop.Expr, _ sym.Expr) loop.Expr {
			return throughFloat(loop.Sqrt, total)
		}, finish: bitsThrough(math.Sqrt), slope: func(g *Gradients, up, x, y *ir.Value) *ir.Value {
			return g.mul(x, g.choose(g.op(loop.Eq, y, g.number(y, 0)), nil, g.div(up, y)))
		}},
	{name: "reduce_sum_square", own: Def{Merge: Merging{By: "add"}}, combine: loop.Add, begin: zero, accepts: numbers,
		before: square, map1: bitsSquare, slope: func(g *Gradients, up, x, _ *ir.Value) *ir.Value {
			return g.mul(g.times(up, 2), x)
		}},
	{name: "reduce_log_sum", combine: loop.Add, begin: zero, accepts: numbers,
		after: func(total loop.Expr, _ sym.Expr) loop.Expr {
			return throughFloat(loop.Log, total)
		}, finish: bitsThrough(loop.Logarithm), slope: func(g *Gradients, up, _, y *ir.Value) *ir.Value {
			return g.mul(up, g.f(loop.Exp, g.neg(y)))
		}},
}

// init defines the operators of reductions.
func init() {
	for _, r := range reductions {
		define(r.define())
	}
}

func square(x loop.Expr) loop.Expr { return times(x, x) }

// absolute returns |x|, which is x if its type is unsigned.
func absolute(x loop.Expr) loop.Expr {
	if x.DType().IsUnsigned() {
		return x
	}
	return loop.Apply(loop.Abs, x)
}

func bitsSquare(dt dtype.DType, x uint64) uint64 { return loop.EvalBinary(loop.Mul, dt, x, x) }

// bitsAbsolute is absolute for the reference.
func bitsAbsolute(dt dtype.DType, x uint64) uint64 {
	if dt.IsUnsigned() {
		return x
	}
	return loop.EvalUnary(loop.Abs, dt, x)
}

// meanOf divides a total by a count; the mean of integers is truncated toward zero.
func meanOf(total loop.Expr, count sym.Expr) loop.Expr {
	return loop.Apply2(loop.Div, total, loop.Convert(total.DType(), loop.At(count)))
}

// throughFloat applies a function of floats to a number of any type.
func throughFloat(f loop.UnaryOp, x loop.Expr) loop.Expr {
	if x.DType().IsFloat() {
		return loop.Apply(f, x)
	}
	return loop.Convert(x.DType(), loop.Apply(f, loop.Convert(dtype.F64, x)))
}

// bitsThrough returns reduction.finish that applies f to the total as a number of f64.
func bitsThrough(f func(float64) float64) func(dt dtype.DType, x uint64, _ int64) uint64 {
	return func(dt dtype.DType, x uint64, _ int64) uint64 {
		y := f(math.Float64frombits(loop.EvalCast(dtype.F64, dt, false, x)))
		return loop.EvalCast(dt, dtype.F64, false, math.Float64bits(y))
	}
}

// Reduce combines the elements along axes by the reduction of that name in the table reductions; with keep, the axes
// stay, with an extent of 1. Without elements, a sum is 0, a product 1, the minimum the type's greatest number, the
// maximum its least, and a mean NaN (0 for integers).
func Reduce(b *ir.Builder, name string, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, name, x, keep, axes)
}

// ReduceSum returns the sum along axes, which stay with an extent of 1 if keep is true.
func ReduceSum(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_sum", x, keep, axes)
}

// ReduceMax returns the largest element along axes; NaN if some element is NaN.
func ReduceMax(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_max", x, keep, axes)
}

// ReduceMean returns the mean along axes.
func ReduceMean(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_mean", x, keep, axes)
}

// ReduceBy is Reduce along axes that may be known only in a run: for each axis of x, either the extent in outer (the
// result's) or the one in inner (of the elements that are combined) is x's, and the other is 1.
func ReduceBy(b *ir.Builder, name string, x *ir.Value, outer, inner []sym.Expr) *ir.Value {
	return b.Op(name, ir.Attrs{"outer": outer, "inner": inner}, x)
}

// reduce builds a node of the reduction op; absent axes mean none, not all.
func reduce(b *ir.Builder, op string, x *ir.Value, keep bool, axes []int64) *ir.Value {
	if axes == nil {
		axes = []int64{}
	}
	return b.Op(op, ir.Attrs{"axes": axes, "keep": keep}, x)
}

// ReducedAxes returns the axes that a reduction combines; nil if they may be known only in a run.
func ReducedAxes(n *ir.Node) []int {
	if n.Attrs["outer"] != nil {
		return nil
	}
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
	if err != nil {
		return nil
	}
	return axes
}

// reducedMergeAxes has a way for each axis that a reduction combines.
func reducedMergeAxes(n *ir.Node) (ways [][]int) {
	for _, axis := range ReducedAxes(n) {
		ways = append(ways, []int{axis})
	}
	return ways
}

// reducedShape returns a shape with the node's axes reduced, and the axes.
func reducedShape(n *ir.Node, shape []sym.Expr) ([]sym.Expr, []int, error) {
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(shape))
	if err != nil {
		return nil, nil, err
	}
	gone := make([]bool, len(shape))
	for _, a := range axes {
		gone[a] = true
	}
	out := []sym.Expr{}
	for i, extent := range shape {
		if !gone[i] {
			out = append(out, extent)
		} else if n.Attrs.Bool("keep") {
			out = append(out, one)
		}
	}
	return out, axes, nil
}

// reducedIndex returns the operand's index for the result's index and the reduced axes' index.
func reducedIndex[T any](rank int, axes []int, keep bool, at, inner []T) []T {
	full := make([]T, rank)
	next, reduced := 0, 0
	for i := range full {
		if reduced < len(axes) && axes[reduced] == i {
			full[i] = inner[reduced]
			reduced++
			if keep {
				next++
			}
			continue
		}
		full[i] = at[next]
		next++
	}
	return full
}

// define returns the operator's definition.
func (r reduction) define() *Def {
	merge := r.own.Merge
	if merge.By != "" {
		merge.Axes = reducedMergeAxes
	}
	return &Def{Op: r.name, Linear: true, Narrow: reducedNarrow, Last: reducedLast, Merge: merge, Picks: r.own.Picks,
		NotNegative: r.own.NotNegative, rows: reducedRows, Shape: r.shape, Mean: r.mean, Grad: r.grad,
		Lowerings: []Lowering{{Name: "nest", Build: r.nest}}, Samples: r.samples}
}

// shape is the shape rule. The result is known if all elements are known and combined without before and after.
func (r reduction) shape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !r.accepts(x.DType) {
		return fault(n, "elements of type %s", x.DType)
	}
	if outer, inner := n.Attrs.Exprs("outer"), n.Attrs.Exprs("inner"); outer != nil {
		if len(outer) != len(x.Shape) || len(inner) != len(x.Shape) {
			return fault(n, "%d and %d extents for rank %d", len(outer), len(inner), len(x.Shape))
		}
		for i, extent := range x.Shape {
			if err := c.RequireEqual(n, outer[i].Add(inner[i]), extent.Add(one),
				"one of an axis's two extents is 1"); err != nil {
				return err
			}
		}
		n.Result(0, ir.Type{DType: x.DType, Shape: outer})
		return nil
	}
	shape, axes, err := reducedShape(n, x.Shape)
	if err != nil {
		return err
	}
	v := n.Result(0, ir.Type{DType: x.DType, Shape: shape})
	if known, certain := c.Knows(n.Inputs[0]); len(axes) == len(x.Shape) && len(known) > 0 && r.before == nil &&
		r.after == nil {
		total := known[0]
		for _, e := range known[1:] {
			next, ok := combine(c, r.combine, x.DType, x.DType, total, e)
			if !ok {
				return nil
			}
			total = next
		}
		c.Learn(v, []sym.Expr{total}, certain)
	}
	return nil
}

// reducedAxes returns the axes that a node reduces in a run, and whether they stay as extents of 1.
func reducedAxes(e *ir.Evaluation, n *ir.Node, shape []int64) (axes []int, keep bool, err error) {
	if n.Attrs.Exprs("inner") == nil {
		axes, err = axesOf(n, n.Attrs.Ints("axes"), len(shape))
		return axes, n.Attrs.Bool("keep"), err
	}
	inner, err := e.Ints(n.Attrs.Exprs("inner"))
	for i, extent := range inner {
		if extent == shape[i] {
			axes = append(axes, i)
		}
	}
	return axes, true, err
}

// mean is the reference: it combines floats in f64, and integers in their own type.
func (r reduction) mean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axes, keep, err := reducedAxes(e, n, x.Shape())
	if err != nil {
		return nil, err
	}
	inner, count := make([]int64, len(axes)), int64(1)
	for i, a := range axes {
		inner[i] = x.Shape()[a]
		count *= inner[i]
	}
	wide := wider(x.DType())
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		total := r.begin(wide).Bits
		tensor.Each(inner, func(k []int64) {
			from := reducedIndex(x.Rank(), axes, keep, at, k)
			element := loop.EvalCast(wide, x.DType(), false, bitsOf(x, tensor.Offset(strides, from)))
			if r.map1 != nil {
				element = r.map1(wide, element)
			}
			total = loop.EvalBinary(r.combine, wide, total, element)
		})
		if r.finish != nil {
			total = r.finish(wide, total, count)
		}
		setBits(out, flat, loop.EvalCast(x.DType(), wide, false, total))
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// wider returns the type in which the reference combines elements of dt.
func wider(dt dtype.DType) dtype.DType {
	if dt.IsFloat() {
		return dtype.F64
	}
	return dt
}

// nest writes one serial fold for each element of the result, in the computing type.
func (r reduction) nest(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	inner, index := reducedLoops(n, x.Shape)
	dt := computing(x.DType)
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		total := k.Var("total", r.begin(dt))
		k.Nest(loop.Serial, "k", inner, func(inside []sym.Expr) {
			element := loop.Convert(dt, x.Load(index(at, inside)...))
			if r.before != nil {
				element = r.before(element)
			}
			k.Reduce(total, r.combine, element)
		})
		y := loop.Expr(total)
		if r.after != nil {
			y = r.after(total, product(inner))
		}
		k.Store(out, at, loop.Convert(out.DType, y))
	})
}

// reducedLoops returns the extents to combine over, and the function that gives the operand's index for the result's
// index and an index inside these extents.
func reducedLoops(n *ir.Node, shape []sym.Expr) (inner []sym.Expr, index func(at, inside []sym.Expr) []sym.Expr) {
	inner = n.Attrs.Exprs("inner")
	if inner == nil {
		axes, _ := axesOf(n, n.Attrs.Ints("axes"), len(shape))
		return extentsOf(shape, axes), func(at, inside []sym.Expr) []sym.Expr {
			return reducedIndex(len(shape), axes, n.Attrs.Bool("keep"), at, inside)
		}
	}
	// One of an axis's two loops has a single iteration.
	return inner, func(at, inside []sym.Expr) []sym.Expr {
		both := make([]sym.Expr, len(at))
		for i := range at {
			both[i] = at[i].Add(inside[i])
		}
		return both
	}
}

// extentsOf returns a shape's extents along some axes.
func extentsOf(shape []sym.Expr, axes []int) []sym.Expr {
	out := make([]sym.Expr, len(axes))
	for i, a := range axes {
		out[i] = shape[a]
	}
	return out
}

// samples covers all numeric types, one axis to all axes and none, ReduceBy with each choice of axes, and extents of 0
// and 1.
func (r reduction) samples(rnd *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range append(append([]dtype.DType{}, floatTypes...), integerTypes...) {
		for _, axes := range [][]int64{{1}, {-1, 0}, {0, 1, 2}, {}} {
			out = append(out, Sample{Attrs: ir.Attrs{"axes": axes, "keep": i%2 == 0},
				Inputs: []*tensor.Tensor{sampleOf(rnd, dt, 2, 3, 4)}})
		}
	}
	if r.accepts(dtype.Bool) {
		out = append(out, Sample{Attrs: ir.Attrs{"axes": []int64{1}},
			Inputs: []*tensor.Tensor{sampleOf(rnd, dtype.Bool, 3, 2)}})
	}
	for _, outer := range [][]int64{{2, 1, 4}, {1, 1, 4}, {2, 3, 4}, {1, 1, 1}} {
		inner := []int64{2 / outer[0], 3 / outer[1], 4 / outer[2]}
		out = append(out, Sample{Attrs: ir.Attrs{"outer": ir.Constants(outer), "inner": ir.Constants(inner)},
			Inputs: []*tensor.Tensor{sampleOf(rnd, dtype.F32, 2, 3, 4)}})
	}
	for _, shape := range [][]int64{{2, 0, 3}, {0, 2}, {5, 1}} {
		out = append(out, Sample{Attrs: ir.Attrs{"axes": []int64{1}, "keep": true},
			Inputs: []*tensor.Tensor{sampleFloats(rnd, dtype.F32, shape...)}})
	}
	return out
}

// grad repeats the derivative by the result, and the result, along the reduced axes.
func (r reduction) grad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	switch r.name {
	case "reduce_mean":
		inner, _ := reducedLoops(n, x.Type.Shape)
		return []*ir.Value{g.repeated(n, g.div(up[0], g.count(x, inner...)))}
	case "reduce_prod":
		return productGrad(g, n, up)
	case "reduce_min", "reduce_max":
		return sharedGrad(g, n, up)
	}
	return []*ir.Value{r.slope(g, g.repeated(n, up[0]), x, g.repeated(n, n.Outputs[0]))}
}

// repeated reshapes a value of the result's shape so that it broadcasts to the operand's shape.
func (g *Gradients) repeated(n *ir.Node, v *ir.Value) *ir.Value {
	shape := n.Inputs[0].Type.Shape
	if inner := n.Attrs.Exprs("inner"); inner != nil {
		return g.broadcastTo(v, shape)
	}
	if n.Attrs.Bool("keep") {
		return v
	}
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(shape))
	if err != nil {
		g.Fail(err)
	}
	single := slices.Clone(shape)
	for _, axis := range axes {
		single[axis] = one
	}
	return Reshape(g.Builder, v, single...)
}

// broadcastTo repeats v along the axes whose extent differs from the shape's and is 1, which may be known only in a
// run.
func (g *Gradients) broadcastTo(v *ir.Value, shape []sym.Expr) *ir.Value {
	for axis, extent := range shape {
		if from := v.Type.Shape[axis]; g.Dims().EQ(from, extent) != sym.Yes {
			last := Integers(g.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{from.Sub(one)})
			at := Binary(g.Builder, loop.Min, Counting(g.Builder, dtype.I64, extent), last)
			v = Gather(g.Builder, v, at, int64(axis))
		}
	}
	return v
}

// sharedGrad passes the derivative to the smallest or largest element, in equal shares if several are equal.
func sharedGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	chosen := Cast(g.Builder, g.op(loop.Eq, x, g.repeated(n, n.Outputs[0])), x.Type.DType)
	count := g.again(n, "reduce_sum", chosen)
	return []*ir.Value{g.mul(chosen, g.repeated(n, g.div(up[0], count)))}
}

// again reduces x by another reduction along the axes of n.
func (g *Gradients) again(n *ir.Node, op string, x *ir.Value) *ir.Value {
	return g.Op(op, maps.Clone(n.Attrs), x)
}

// productGrad multiplies the derivative, for each axis in turn, by the product of the elements before and of those
// after.
func productGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	if n.Attrs.Exprs("inner") != nil {
		return g.withoutZeros(n, up[0])
	}
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(x.Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	factors := make([]*ir.Value, len(axes))
	for i, axis := range axes {
		before, after := CumProd(g.Builder, x, int64(axis), true, false), CumProd(g.Builder, x, int64(axis), true, true)
		factors[i] = g.mul(before, after)
		x = Reduce(g.Builder, "reduce_prod", x, true, int64(axis))
	}
	d := g.repeated(n, up[0])
	for i := len(axes) - 1; i >= 0; i-- {
		d = g.mul(d, factors[i])
	}
	return []*ir.Value{d}
}

// withoutZeros is productGrad for axes known only in a run: it divides the product of the elements other than 0, and
// counts zeros.
func (g *Gradients) withoutZeros(n *ir.Node, up *ir.Value) []*ir.Value {
	x := n.Inputs[0]
	zero := g.op(loop.Eq, x, g.number(x, 0))
	filled := g.choose(zero, g.number(x, 1), x)
	rest := g.repeated(n, g.again(n, "reduce_prod", filled))
	count := g.repeated(n, g.again(n, "reduce_sum", Cast(g.Builder, zero, x.Type.DType)))
	single, none := g.op(loop.Eq, count, g.number(x, 1)), g.op(loop.Eq, count, g.number(x, 0))
	others := g.choose(g.op(loop.And, zero, single), rest, g.choose(none, g.div(rest, filled), nil))
	return []*ir.Value{g.mul(g.repeated(n, up), others)}
}

// reducedRows allows pieces of each axis that is not reduced.
var reducedRows = rowRule{axes: func(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
	if err != nil || n.Attrs["outer"] != nil { // the extents of a run decide which axes are reduced
		return false
	}
	at := axis
	if !n.Attrs.Bool("keep") {
		for from := range n.Inputs[0].Type.Shape {
			if slices.Contains(axes, from) && from <= at {
				at++
			}
		}
	}
	in[0] = at
	return !slices.Contains(axes, at)
}}

// reducedNarrow reads sections of the axes that stay, and the reduced axes in full.
func reducedNarrow(_ NarrowContext, n *ir.Node, want Section) (Reading, bool) {
	x := n.Inputs[0].Type.Shape
	axes, listed := n.Attrs["axes"].([]int64)
	if !listed || len(n.Inputs) != 1 {
		return Reading{}, false
	}
	in, next := make(Section, len(x)), 0
	for i := range x {
		gone := slices.Contains(axes, int64(i)) || slices.Contains(axes, int64(i-len(x)))
		if !gone {
			in[i] = want[next]
		}
		if !gone || n.Attrs.Bool("keep") {
			next++
		}
	}
	return Reading{Made: want, In: []Section{in}}, true
}

// reducedLast accepts reductions that keep their axes, or that do not reduce images and channels.
func reducedLast(_ *sym.Dims, n *ir.Node) *LastForm {
	rank := imageRank(n)
	if _, named := n.Attrs["axes"].([]int64); !named || n.Attrs["outer"] != nil || rank == 0 {
		return nil
	}
	axes := AxesLast(n)
	f := imageFirst(n, ir.Attrs{"axes": axes})
	if !n.Attrs.Bool("keep") {
		f.DropsChannels = true
		for i := 1; i < rank-1; i++ {
			if !slices.Contains(axes, int64(i)) {
				return nil
			}
		}
	}
	return f
}

// greatestNotNegative is firstNotNegative unless there are no elements: their maximum is −∞.
func greatestNotNegative(n *ir.Node, is func(*ir.Value) bool) bool {
	count, known := product(n.Inputs[0].Type.Shape).Const()
	return is(n.Inputs[0]) && !(known && count == 0)
}
