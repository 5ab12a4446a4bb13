package ops

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// zeros returns a tensor of zeros of the shape.
func (g *Gradients) zeros(dt dtype.DType, shape ...sym.Expr) *ir.Value {
	return Expand(g.Builder, Scalar(g.Builder, dt, 0), shape...)
}

// integer returns an extent, or another symbolic integer, as a scalar of i64.
func (g *Gradients) integer(e sym.Expr) *ir.Value {
	return Integers(g.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e})
}

// ungather returns the gradient of Gather: a tensor of the shape to which each slice of d along the axis, or along as
// many axes as the indices have, is added at its index.
func (g *Gradients) ungather(d, indices *ir.Value, axis int, shape []sym.Expr) *ir.Value {
	rank := len(indices.Type.Shape)
	front := make([]int64, 0, len(d.Type.Shape))
	for i := range rank {
		front = append(front, int64(axis+i))
	}
	for i := range d.Type.Shape {
		if i < axis || i >= axis+rank {
			front = append(front, int64(i))
		}
	}
	tuples := Reshape(g.Builder, indices, append(slices.Clone(indices.Type.Shape), one)...)
	into := append([]sym.Expr{shape[axis]}, append(slices.Clone(shape[:axis]), shape[axis+1:]...)...)
	sums := ScatterND(g.Builder, g.zeros(d.Type.DType, into...), tuples, g.moved(d, front), "add")
	back := make([]int64, 0, len(shape))
	for i := range shape {
		switch {
		case i < axis:
			back = append(back, int64(i+1))
		case i == axis:
			back = append(back, 0)
		default:
			back = append(back, int64(i))
		}
	}
	return g.moved(sums, back)
}

// moved is Transpose; x itself if the permutation is the identity.
func (g *Gradients) moved(x *ir.Value, perm []int64) *ir.Value {
	if slices.IsSorted(perm) {
		return x
	}
	return Transpose(g.Builder, x, perm...)
}

// unsliced returns the gradient of Slice: zeros of the shape with d's elements at the sliced positions.
func (g *Gradients) unsliced(d *ir.Value, begin []sym.Expr, step []int64, shape []sym.Expr) *ir.Value {
	rank := len(shape)
	begin, end := slices.Clone(begin), make([]sym.Expr, rank)
	for i := range shape {
		extent := d.Type.Shape[i]
		if size, fixed := extent.Const(); fixed && size == 0 {
			return g.zeros(d.Type.DType, shape...)
		}
		if step[i] < 0 {
			d = g.turned(d, i)
			begin[i] = begin[i].Add(extent.Sub(one).Mul(sym.Const(step[i])))
		}
		distance := max(step[i], -step[i])
		d = g.dilated(d, i, distance)
		end[i] = shape[i].Sub(begin[i]).Sub(extent.Mul(sym.Const(distance)))
	}
	return Pad(g.Builder, d, nil, "constant", begin, end)
}

// turned reverses x along an axis.
func (g *Gradients) turned(x *ir.Value, axis int) *ir.Value {
	step := slices.Repeat([]int64{1}, len(x.Type.Shape))
	step[axis] = -1
	return Slice(g.Builder, x, unit(len(step), axis, x.Type.Shape[axis].Sub(one)), x.Type.Shape, step)
}

// dilated inserts step − 1 zeros after each element along an axis.
func (g *Gradients) dilated(x *ir.Value, axis int, step int64) *ir.Value {
	if step == 1 {
		return x
	}
	shape := slices.Insert(slices.Clone(x.Type.Shape), axis+1, one)
	wide := Pad(g.Builder, Reshape(g.Builder, x, shape...), nil, "constant", zeros(len(shape)),
		unit(len(shape), axis+1, sym.Const(step-1)))
	full := slices.Clone(x.Type.Shape)
	full[axis] = full[axis].Mul(sym.Const(step))
	return Reshape(g.Builder, wide, full...)
}

// sliceGrad puts the derivative back at the sliced positions of zeros.
func sliceGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{g.unsliced(up[0], n.Attrs.Exprs("begin"), n.Attrs.Ints("step"), n.Inputs[0].Type.Shape)}
}

// sliceByGrad puts slices back at their positions, one axis after the other.
func sliceByGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	d := up[0]
	for axis, extent := range n.Inputs[0].Type.Shape {
		begin, step := n.Attrs.Exprs("begin")[axis], n.Attrs.Exprs("step")[axis]
		at := Range(g.Builder, g.integer(begin), g.integer(step), d.Type.Shape[axis])
		shape := slices.Clone(d.Type.Shape)
		shape[axis] = extent
		d = g.ungather(d, at, axis, shape)
	}
	return []*ir.Value{d}
}

// padGrad takes the derivative without the padding; an element that padding repeats has the sum of the derivatives by
// its copies.
func padGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, mode := n.Inputs[0], n.Attrs.String("mode", "constant")
	begin, end := n.Attrs.Exprs("begin"), n.Attrs.Exprs("end")
	if mode != "constant" {
		return []*ir.Value{g.unfolded(n, up[0], padFolds[mode])}
	}
	less, more := make([]sym.Expr, len(begin)), make([]sym.Expr, len(end))
	for i := range begin {
		less[i], more[i] = begin[i].Neg(), end[i].Neg()
	}
	out := []*ir.Value{Pad(g.Builder, up[0], nil, "constant", less, more), nil}[:len(n.Inputs)]
	if value := input(n, 1); g.Wants(value) {
		kept := Pad(g.Builder, g.fill(x, 1), nil, "constant", begin, end)
		filling := g.choose(g.positive(kept), nil, up[0])
		out[1] = Reshape(g.Builder, ReduceSum(g.Builder, filling, false, allAxes(filling)...), value.Type.Shape...)
	}
	return out
}

// allAxes returns a value's axes.
func allAxes(x *ir.Value) []int64 {
	axes := make([]int64, len(x.Type.Shape))
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}

// unfolded returns the gradient of padding that repeats elements, one axis after the other.
func (g *Gradients) unfolded(n *ir.Node, d *ir.Value, fold func(position, extent sym.Expr) sym.Expr) *ir.Value {
	b := g.Builder
	for axis, extent := range n.Inputs[0].Type.Shape {
		begin, end := n.Attrs.Exprs("begin")[axis], n.Attrs.Exprs("end")[axis]
		if isZero(begin) && isZero(end) {
			continue
		}
		shift, cut, left := padSource(sym.Expr{}, begin, end, extent)
		at := Binary(b, loop.Add, Counting(b, dtype.I64, d.Type.Shape[axis]), g.integer(shift))
		at = Binary(b, loop.Add, g.folded(n.Attrs.String("mode", ""), at, left), g.integer(cut))
		shape := slices.Clone(d.Type.Shape)
		shape[axis] = extent
		d = g.ungather(d, at, axis, shape)
	}
	return d
}

// folded is padFolds for positions that are elements of a tensor.
func (g *Gradients) folded(mode string, at *ir.Value, extent sym.Expr) *ir.Value {
	b := g.Builder
	switch mode {
	case "edge":
		return Binary(b, loop.Min, Binary(b, loop.Max, at, g.integer(sym.Const(0))), g.integer(extent.Sub(one)))
	case "reflect":
		period := extent.Sub(one).Mul(sym.Const(2))
		at = Binary(b, loop.FloorMod, at, g.integer(period.Max(one)))
		return Binary(b, loop.Min, at, Binary(b, loop.Sub, g.integer(period), at))
	}
	return Binary(b, loop.FloorMod, at, g.integer(extent))
}

// concatGrad slices the derivative into those by the inputs.
func concatGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(up[0].Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	out, begin := make([]*ir.Value, len(n.Inputs)), sym.Expr{}
	for i, x := range n.Inputs {
		extent := x.Type.Shape[axis]
		if g.Wants(x) {
			out[i] = SliceAxis(g.Builder, up[0], axis, begin, extent)
		}
		begin = begin.Add(extent)
	}
	return out
}

// gatherGrad adds each slice of the derivative at its index.
func gatherGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	return []*ir.Value{g.ungather(up[0], n.Inputs[1], axis, x.Type.Shape), nil}
}

// gatherElementsGrad adds each element of the derivative at its index.
func gatherElementsGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	return []*ir.Value{ScatterElements(g.Builder, g.zeros(x.Type.DType, x.Type.Shape...), n.Inputs[1], up[0],
		n.Attrs.Int("axis", 0), "add"), nil}
}

// gatherNDGrad adds each slice at its tuple of indices, extended by the indices of the batch axes.
func gatherNDGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b, x, indices := g.Builder, n.Inputs[0], Cast(g.Builder, n.Inputs[1], dtype.I64)
	lead := indices.Type.Shape[:len(indices.Type.Shape)-1]
	var tuples []*ir.Value
	for axis := range int(n.Attrs.Int("batch", 0)) {
		tuples = append(tuples, g.counted(dtype.I64, append(slices.Clone(lead), one), axis))
	}
	if tuples = append(tuples, indices); len(tuples) > 1 {
		indices = Concat(b, -1, tuples...)
	}
	return []*ir.Value{ScatterND(b, g.zeros(x.Type.DType, x.Type.Shape...), indices, up[0], "add"), nil}
}

// counted returns a tensor of the shape whose elements are their index along an axis.
func (g *Gradients) counted(dt dtype.DType, shape []sym.Expr, axis int) *ir.Value {
	line := slices.Repeat([]sym.Expr{one}, len(shape))
	line[axis] = shape[axis]
	return Expand(g.Builder, Reshape(g.Builder, Counting(g.Builder, dt, shape[axis]), line...), shape...)
}

// scattering is the gradient shared by the two scatters: put scatters as the node does, take gathers at the same
// indices.
type scattering struct {
	*Gradients
	put  func(into, updates *ir.Value, reduction string) *ir.Value
	take func(from *ir.Value) *ir.Value
	// last returns, for each update, whether no later update has the same position.
	last func() *ir.Value
}

// scatterElementsGrad is the gradient of scatter_elements, by s.grad.
func scatterElementsGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	axis := n.Attrs.Int("axis", 0)
	s := scattering{Gradients: g,
		put: func(into, updates *ir.Value, reduction string) *ir.Value {
			return ScatterElements(g.Builder, into, n.Inputs[1], updates, axis, reduction)
		},
		take: func(from *ir.Value) *ir.Value { return GatherElements(g.Builder, from, n.Inputs[1], axis) }}
	s.last = func() *ir.Value {
		shape := n.Inputs[1].Type.Shape
		turns := Reshape(g.Builder, Counting(g.Builder, dtype.I64, product(shape)), shape...)
		return g.op(loop.Eq, turns, s.take(s.put(g.zeros(dtype.I64, n.Inputs[0].Type.Shape...), turns, "none")))
	}
	return s.grad(n, up[0])
}

// scatterNDGrad is the gradient of scatter_nd, by s.grad.
func scatterNDGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	indices := n.Inputs[1]
	s := scattering{Gradients: g,
		put: func(into, updates *ir.Value, reduction string) *ir.Value {
			return ScatterND(g.Builder, into, indices, updates, reduction)
		},
		take: func(from *ir.Value) *ir.Value { return GatherND(g.Builder, from, indices, 0) }}
	s.last = func() *ir.Value {
		lead, x := indices.Type.Shape[:len(indices.Type.Shape)-1], n.Inputs[0].Type.Shape
		rest := len(n.Inputs[2].Type.Shape) - len(lead)
		turns := Reshape(g.Builder, Counting(g.Builder, dtype.I64, product(lead)), lead...)
		left := s.take(s.put(g.zeros(dtype.I64, x[:len(x)-rest]...), turns, "none"))
		return Reshape(g.Builder, g.op(loop.Eq, turns, left),
			append(slices.Clone(lead), slices.Repeat([]sym.Expr{one}, rest)...)...)
	}
	return s.grad(n, up[0])
}

// grad returns the derivatives by the tensor that is scattered into and by the updates.
func (s scattering) grad(n *ir.Node, up *ir.Value) []*ir.Value {
	x, updates, y := n.Inputs[0], n.Inputs[2], n.Outputs[0]
	out := make([]*ir.Value, 3)
	byX, byUpdates := s.Wants(x), s.Wants(updates)
	switch n.Attrs.String("reduction", "none") {
	case "none":
		if byX {
			out[0] = s.put(up, s.zeros(up.Type.DType, updates.Type.Shape...), "none")
		}
		if byUpdates {
			out[2] = s.choose(s.last(), s.take(up), nil)
		}
	case "add":
		if out[0] = up; byUpdates {
			out[2] = s.take(up)
		}
	case "mul":
		s.factors(n, up, out)
	default:
		// Equal shares for all elements that are the smallest or largest.
		kept := Cast(s.Builder, s.op(loop.Eq, x, y), up.Type.DType)
		won := Cast(s.Builder, s.op(loop.Eq, updates, s.take(y)), up.Type.DType)
		share := s.div(up, s.put(kept, won, "add"))
		if out[0] = s.mul(share, kept); byUpdates {
			out[2] = s.mul(s.take(share), won)
		}
	}
	return out
}

// factors sets the derivatives if the reduction multiplies: for each update the product of all others; zeros among them
// are counted.
func (s scattering) factors(n *ir.Node, up *ir.Value, out []*ir.Value) {
	x, updates, dt := n.Inputs[0], n.Inputs[2], up.Type.DType
	if s.Wants(x) {
		out[0] = s.mul(up, s.put(s.fill(x, 1), updates, "mul"))
	}
	if !s.Wants(updates) {
		return
	}
	zero := s.op(loop.Eq, updates, s.number(updates, 0))
	others := s.take(s.put(x, s.choose(zero, s.number(updates, 1), updates), "mul"))
	count := s.take(s.put(s.zeros(dt, x.Type.Shape...), Cast(s.Builder, zero, dt), "add"))
	none, single := s.op(loop.Eq, count, s.number(count, 0)), s.op(loop.Eq, count, s.number(count, 1))
	rest := s.choose(s.op(loop.And, zero, single), others,
		s.choose(none, s.div(others, s.choose(zero, s.number(updates, 1), updates)), nil))
	out[2] = s.mul(s.take(up), rest)
}

// reverseSequenceGrad reverses the derivative in the same way.
func reverseSequenceGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{ReverseSequence(g.Builder, up[0], n.Inputs[1], n.Attrs.Int("batch", 1), n.Attrs.Int("time", 0)),
		nil}
}

// triangleGrad takes the same triangle of the derivative.
func triangleGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	k, _ := n.Attrs["k"].(sym.Expr)
	return []*ir.Value{Triangle(g.Builder, up[0], n.Attrs.Bool("upper"), k)}
}

// diagonalGrad puts the derivative on the diagonal of zeros.
func diagonalGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	shape, first, second := n.Inputs[0].Type.Shape, int(n.Attrs.Int("first", 0)), int(n.Attrs.Int("second", 1))
	at := g.op(loop.Eq, g.counted(dtype.I64, shape, first), g.counted(dtype.I64, shape, second))
	single := slices.Clone(shape)
	single[second] = one
	return []*ir.Value{g.choose(at, Reshape(g.Builder, up[0], single...), nil)}
}

// repeatGrad sums the derivatives of the repeated slices.
func repeatGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	var shape []sym.Expr
	var axes []int64
	for axis, times := range n.Attrs.Ints("times") {
		shape = append(shape, n.Inputs[0].Type.Shape[axis], sym.Const(times))
		axes = append(axes, int64(2*axis+1))
	}
	return []*ir.Value{ReduceSum(g.Builder, Reshape(g.Builder, up[0], shape...), false, axes...)}
}

// resampleGrad differentiates the resampling as a gather and a sum over the taps.
func resampleGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, indices, weights := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	axis, err := axisOf(n, n.Attrs.Int("axis", 0), len(x.Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	shape := slices.Clone(weights.Type.Shape)
	for range len(x.Type.Shape) - axis - 1 {
		shape = append(shape, one)
	}
	g.through(up, func() []*ir.Value {
		taps := g.mul(Gather(g.Builder, x, indices, int64(axis)), Reshape(g.Builder, weights, shape...))
		return []*ir.Value{ReduceSum(g.Builder, taps, false, int64(axis+1))}
	})
	return []*ir.Value{nil, nil, nil}
}

// topkGrad adds the derivatives by the values at their indices.
func topkGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x := n.Inputs[0]
	if up[0] == nil {
		return []*ir.Value{nil}
	}
	return []*ir.Value{ScatterElements(g.Builder, g.zeros(x.Type.DType, x.Type.Shape...), n.Outputs[1], up[0],
		n.Attrs.Int("axis", -1), "add")}
}

// uniqueGrad adds the derivative by each slice at its first occurrence.
func uniqueGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	if up[0] == nil {
		return []*ir.Value{nil}
	}
	return []*ir.Value{g.ungather(up[0], n.Outputs[1], int(n.Attrs.Int("axis", 0)), n.Inputs[0].Type.Shape)}
}

// rangeGrad sums the derivative for the start, and the derivative times each element's index for the step.
func rangeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	steps := Counting(g.Builder, up[0].Type.DType, up[0].Type.Shape[0])
	return []*ir.Value{ReduceSum(g.Builder, up[0], false, 0), ReduceSum(g.Builder, g.mul(up[0], steps), false, 0)}
}

// cumsumGrad is the cumulative sum of the derivative in the other direction.
func cumsumGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	return []*ir.Value{CumSum(g.Builder, up[0], n.Attrs.Int("axis", 0), n.Attrs.Bool("exclusive"),
		!n.Attrs.Bool("reverse"))}
}

// cumprodGrad is, for each element, the product of the elements before it times a sum over the products after it, each
// times the derivative by its result. A scan from the end computes each of these sums from the next one.
func cumprodGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b, x, axis, reverse := g.Builder, n.Inputs[0], n.Attrs.Int("axis", 0), n.Attrs.Bool("reverse")
	at, err := axisOf(n, axis, len(x.Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	t := ir.Type{DType: x.Type.DType, Shape: slices.Delete(slices.Clone(x.Type.Shape), at, at+1)}
	body := &ir.Block{}
	in := b.In(body)
	later, d, factor := in.Param("later", t), in.Param("up", t), in.Param("factor", t)
	sum := Binary(in, loop.Add, d, Binary(in, loop.Mul, factor, later))
	with := Binary(in, loop.Add, d, later)
	if body.Results = []*ir.Value{Binary(in, loop.Mul, factor, with), with}; n.Attrs.Bool("exclusive") {
		body.Results = []*ir.Value{sum, later}
	}
	backwards := int64(1)
	if reverse {
		backwards = 0
	}
	over := ScanOver{InputAxes: []int64{int64(at), int64(at)}, OutputAxes: []int64{int64(at)},
		InputReversed: []int64{backwards, backwards}, OutputReverse: []int64{backwards}}
	sums := Scan(b, body, over, []*ir.Value{g.zeros(t.DType, t.Shape...)}, []*ir.Value{up[0], x})[1]
	return []*ir.Value{g.mul(CumProd(b, x, axis, true, reverse), sums)}
}
