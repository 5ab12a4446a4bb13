package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator grid_sample.
func init() {
	define(&Def{Op: "grid_sample", apart: apartGrids,
		Grad: gridSampleGrad, Shape: gridSampleShape, Mean: gridSampleMean,
		Samples:   gridSampleSamples,
		Lowerings: []Lowering{{Name: "taps", When: movable, Build: gridSampleTaps}}})
}

// GridSample reads x[N, C, d…] at the positions grid[N, o…, axes], giving [N, C, o…]. A position has a coordinate for
// each spatial axis, the last axis first, from -1 to 1: with align at the center of the first and of the last element,
// else at their outer edges. Between elements it is interpolated: mode "nearest" (ties to even), "linear" or "cubic".
// Beyond the edges, padding is "zeros", "border" (the edge repeated: with the cubic kernel a position keeps its
// distance from the elements, as in PyTorch and onnxruntime) or "reflection". Integers are interpolated as floats, and
// truncated.
func GridSample(b *ir.Builder, x, grid *ir.Value, mode, padding string, align bool) *ir.Value {
	return b.Op("grid_sample", ir.Attrs{"mode": mode, "padding": padding, "align": align}, x, grid)
}

// tapsOfMode is the number of elements along an axis that each mode reads.
var tapsOfMode = map[string]int64{"nearest": 1, "linear": 2, "cubic": 4}

// mostTaps is the largest number of elements that one sample may read.
const mostTaps = 256

// gridSampleShape checks the modes, ranks and types and infers [N, C, o…].
func gridSampleShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 2); err != nil {
		return err
	}
	x, grid := n.Inputs[0].Type, n.Inputs[1].Type
	axes := len(x.Shape) - 2
	taps := tapsOfMode[n.Attrs.String("mode", "")]
	if padding := n.Attrs.String("padding", ""); taps == 0 || padding != "zeros" && padding != "border" &&
		padding != "reflection" {
		return fault(n, "mode %q, padding %q", n.Attrs.String("mode", ""), padding)
	}
	if axes < 1 || len(grid.Shape) != len(x.Shape) || !floats(grid.DType) {
		return fault(n, "%s at the positions %s; both need the same rank, at least 3, and positions must be floats", x, grid)
	}
	if taps > 1 && !numbers(x.DType) {
		return fault(n, "elements of type %s, which cannot be interpolated", x.DType)
	}
	if math.Pow(float64(taps), float64(axes)) > mostTaps {
		return diag.Unsupportedf("%d taps along each of %d axes", taps, axes).AtNode(n.Source, n.Op.Name())
	}
	if err := c.RequireEqual(n, x.Shape[0], grid.Shape[0], "a grid for each image"); err != nil {
		return err
	}
	if err := c.RequireEqual(n, grid.Shape[1+axes], sym.Const(int64(axes)), "a coordinate for each axis"); err != nil {
		return err
	}
	for i := range axes {
		if err := c.Require(n, sym.Cond{A: one, Rel: sym.LE, B: x.Shape[2+i]}, "there is something to sample"); err != nil {
			return err
		}
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: append(append([]sym.Expr{}, x.Shape[:2]...), grid.Shape[1:1+axes]...)})
	return nil
}

// interpolating returns the type in which elements are weighted.
func interpolating(dt dtype.DType) dtype.DType {
	if !dt.IsFloat() {
		return dtype.F64
	}
	return computing(dt)
}

// gridSampleMean is the reference: each element is the weighted sum of the elements around its position.
func gridSampleMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, grid := in[0], in[1]
	axes := x.Rank() - 2
	g := gridAxis{mode: n.Attrs.String("mode", ""), padding: n.Attrs.String("padding", ""), align: n.Attrs.Bool("align"),
		round: rounding(grid.DType())}
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	taps := make([][]tapOf, axes)
	tensor.Each(out.Shape(), func(o []int64) {
		row := tensor.Offset(tensor.Strides(grid.Shape()), append(append([]int64{o[0]}, o[2:]...), 0))
		for i := range taps {
			taps[i] = g.taps(grid.Float(row+int64(axes-1-i)), x.Shape()[2+i])
		}
		from := o[0]*strides[0] + o[1]*strides[1]
		if g.mode == "nearest" {
			inside := true
			for i, t := range taps {
				from += t[0].at * strides[2+i]
				inside = inside && t[0].inside
			}
			if inside {
				moveElement(out, flat, x, from)
			}
		} else if v := weighedOf(x, strides[2:], from, taps); x.DType().IsFloat() {
			out.SetFloat(flat, v)
		} else {
			setBits(out, flat, loop.EvalCast(out.DType(), dtype.F64, false, math.Float64bits(v)))
		}
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// gridAxis finds the taps of one axis for the reference. Each step is rounded to the grid's element type, since
// rounding decides which element is the nearest.
type gridAxis struct {
	mode, padding string
	align         bool
	round         func(float64) float64
}

// taps returns the elements, with their weights, that a coordinate of the grid reads along an axis of the given extent.
func (g gridAxis) taps(coordinate float64, extent int64) []tapOf {
	d, round := float64(extent), g.round
	low, high := -0.5, round(d-0.5)
	at := round(round(round(round(coordinate+1)*d)-1) / 2)
	if g.align {
		low, high = 0, d-1
		at = round(round(round(coordinate+1)/2) * (d - 1))
	}
	if g.mode == "nearest" {
		at = math.RoundToEven(at)
	}
	if at < low || at > high {
		switch {
		case g.padding == "border" && g.mode != "cubic":
			at = min(max(at, 0), d-1)
		case g.padding == "reflection":
			at = g.reflect(at, low, high)
		}
	}
	switch g.mode {
	case "nearest":
		return []tapOf{g.tap(boundedIntegerOf(at, extent, 3), extent, 1)}
	case "linear":
		floor := math.Floor(at)
		t, base := round(at-floor), boundedIntegerOf(floor, extent, 3)
		return []tapOf{g.tap(base, extent, round(1-t)), g.tap(base+1, extent, t)}
	}
	floor := math.Floor(at)
	t, base := round(at-floor), boundedIntegerOf(floor, extent, 3)
	out := make([]tapOf, 4)
	for i := range out {
		out[i] = g.tap(base-1+int64(i), extent, g.cubic(math.Abs(round(t+1-float64(i)))))
	}
	return out
}

// reflect mirrors a coordinate at low and high until it lies between them.
func (g gridAxis) reflect(at, low, high float64) float64 {
	width := high - low
	if width == 0 {
		return low
	}
	past := g.round(low - at)
	if at > high {
		past = g.round(at - high)
	}
	times := math.Trunc(g.round(past / width))
	rest := g.round(past - g.round(times*width))
	if (math.Mod(times, 2) == 0) == (at < low) {
		return g.round(low + rest)
	}
	return g.round(high - rest)
}

// tap returns an element with its weight, or the element that the padding puts in its place.
func (g gridAxis) tap(at, extent int64, weight float64) tapOf {
	t := tapOfAt(at, extent, weight)
	switch g.padding {
	case "border":
		t.inside = true
	case "reflection":
		t.inside = true
		edge := int64(1)
		if g.align {
			edge = 0
		}
		t.at = mirroredOf(at, extent, edge)
	}
	return t
}

// mirroredOf mirrors a position at both ends until it lies inside; with edge 1 the first and last elements are
// repeated, with 0 they are not.
func mirroredOf(at, extent, edge int64) int64 {
	period := 2 * (extent - 1 + edge)
	if period == 0 {
		return 0
	}
	at = ((at % period) + period) % period
	if at >= extent {
		at = period - edge - at
	}
	return at
}

// The cubic convolution kernel of Keys (Cubic Convolution Interpolation for Digital Image Processing, 1981) with a =
// -0.75: polynomials of the distance, up to 1 and up to 2, the highest power first.
var (
	cubicNear = []float64{1.25, -2.25, 0, 1}
	cubicFar  = []float64{-0.75, 3.75, -6, 3}
)

// cubic returns the cubic kernel at a distance.
func (g gridAxis) cubic(d float64) float64 {
	coefficients := cubicFar
	if d <= 1 {
		coefficients = cubicNear
	}
	y := coefficients[0]
	for _, c := range coefficients[1:] {
		y = g.round(g.round(y*d) + c)
	}
	return y
}

// gridSampleTaps lowers grid_sample: each iteration computes the taps of one position and interpolates all channels
// there.
func gridSampleTaps(k *Nest, n *ir.Node) {
	x, grid, out := k.In[0], k.In[1], k.Out[0]
	axes, mode := len(x.Shape)-2, n.Attrs.String("mode", "")
	positions := append([]sym.Expr{out.Shape[0]}, out.Shape[2:]...)
	k.Nest(loop.Each, "o", positions, func(o []sym.Expr) {
		taps := make([][]tap, axes)
		for i := range taps {
			coordinate := loop.Convert(computing(grid.DType),
				grid.Load(append(append([]sym.Expr{}, o...), sym.Const(int64(axes-1-i)))...))
			taps[i] = k.gridTaps(n, coordinate, x.Shape[2+i])
		}
		dt := x.DType
		if mode != "nearest" {
			dt = interpolating(x.DType)
		}
		corners := k.corners(dt, taps)
		k.Each("c", out.Shape[1], func(channel sym.Expr) {
			value := weighed(x, dt, o[0], channel, 1, corners)
			k.Store(out, append([]sym.Expr{o[0], channel}, o[1:]...), loop.Convert(x.DType, value))
		})
	})
}

// gridTaps writes gridAxis.taps for one axis.
func (k *Nest) gridTaps(n *ir.Node, coordinate loop.Expr, extent sym.Expr) []tap {
	mode, padding, align := n.Attrs.String("mode", ""), n.Attrs.String("padding", ""), n.Attrs.Bool("align")
	dt := coordinate.DType()
	number := func(x float64) loop.Expr { return loop.Number(dt, x) }
	d := k.Let("d", extentAs(dt, extent))
	low, last := number(-0.5), minus(d, number(1))
	high := minus(d, number(0.5))
	at := loop.Apply2(loop.Div, minus(times(plus(coordinate, number(1)), d), number(1)), number(2))
	if align {
		low, high = number(0), last
		at = times(loop.Apply2(loop.Div, plus(coordinate, number(1)), number(2)), last)
	}
	if mode == "nearest" {
		at = loop.Apply(loop.Round, at)
	}
	at = k.Let("at", at)
	outside := loop.Apply2(loop.Or, less(at, low), less(high, at))
	switch {
	case padding == "border" && mode != "cubic":
		at = k.Let("at", loop.Choose(outside, loop.Apply2(loop.Min, loop.Apply2(loop.Max, at, number(0)), last), at))
	case padding == "reflection":
		at = k.Let("at", loop.Choose(outside, k.reflected(at, low, high), at))
	}
	padded := func(at loop.Expr, weight loop.Expr) tap {
		t := tap{weight: weight}
		switch padding {
		case "zeros":
			t.inside = k.Let("inside", insideOf(at, extent))
		case "reflection":
			at = k.mirrored(at, extent, align)
		}
		t.at = k.clamped(at, extent)
		return t
	}
	if mode == "nearest" {
		return []tap{padded(k.boundedInteger(at, extent, 3), nil)}
	}
	floor := k.Let("floor", loop.Apply(loop.Floor, at))
	t, base := k.Let("t", minus(at, floor)), k.boundedInteger(floor, extent, 3)
	if mode == "linear" {
		return []tap{padded(base, k.Let("w", minus(number(1), t))), padded(plus(base, loop.Integer(dtype.I64, 1)), t)}
	}
	polynomial := func(d loop.Expr, coefficients []float64) loop.Expr {
		y := number(coefficients[0])
		for _, c := range coefficients[1:] {
			y = plus(times(y, d), number(c))
		}
		return k.Let("w", y)
	}
	return []tap{
		padded(minus(base, loop.Integer(dtype.I64, 1)), polynomial(plus(t, number(1)), cubicFar)),
		padded(base, polynomial(t, cubicNear)),
		padded(plus(base, loop.Integer(dtype.I64, 1)), polynomial(minus(number(1), t), cubicNear)),
		padded(plus(base, loop.Integer(dtype.I64, 2)), polynomial(minus(number(2), t), cubicFar)),
	}
}

// reflected returns a coordinate outside [low, high] mirrored at both ends until it lies between them.
func (k *Nest) reflected(at, low, high loop.Expr) loop.Expr {
	number := func(x float64) loop.Expr { return like(at, x) }
	width := k.Let("width", minus(high, low))
	below := less(at, low)
	past := k.Let("past", loop.Choose(below, minus(low, at), minus(at, high)))
	turns := k.Let("turns", loop.Apply(loop.Trunc, loop.Apply2(loop.Div, past, width)))
	rest := k.Let("rest", minus(past, times(turns, width)))
	odd := loop.Apply2(loop.Ne, minus(turns, times(number(2), loop.Apply(loop.Floor, times(turns, number(0.5))))),
		number(0))
	value := loop.Choose(loop.Apply2(loop.Xor, below, odd), plus(low, rest), minus(high, rest))
	return loop.Choose(loop.Apply2(loop.Eq, width, number(0)), low, value)
}

// mirrored is mirroredOf for an i64 value; at the centers of the outer elements with align, at their edges without.
func (k *Nest) mirrored(at loop.Expr, extent sym.Expr, align bool) loop.Expr {
	edge := int64(1)
	if align {
		edge = 0
	}
	period := loop.At(extent.Sub(sym.Const(1 - edge)).Mul(sym.Const(2)))
	turned := k.Let("turned", loop.Apply2(loop.FloorMod, at, period))
	return loop.Choose(less(turned, loop.At(extent)), turned, minus(minus(period, loop.Integer(dtype.I64, edge)), turned))
}

// gridSampleSamples returns images and grids for each mode, padding and alignment.
func gridSampleSamples(r *rand.Rand) (out []Sample) {
	for _, mode := range []string{"nearest", "linear", "cubic"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for _, align := range []bool{false, true} {
				attrs := ir.Attrs{"mode": mode, "padding": padding, "align": align}
				for i, shape := range [][]int64{{2, 3, 4, 5}, {1, 1, 1, 2}, {2, 1, 7}, {1, 2, 2, 3, 4}, {0, 2, 3, 3}} {
					grid := []int64{shape[0], 3, 2, 4}[:len(shape)-1]
					positions := sampleNormal(r, floatTypes[(i+1)%2], append(grid, int64(len(shape)-2))...)
					for j := range positions.Len() {
						positions.SetFloat(j, positions.Float(j)*1.7)
					}
					for _, dt := range []dtype.DType{dtype.F32, dtype.F64, dtype.U8, dtype.I32} {
						out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleOf(r, dt, shape...), positions},
							Constant: []int{1}})
					}
				}
				odd := sampleFloats(r, dtype.F32, 1, 3, 3, 2)
				out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{sampleNormal(r, dtype.BF16, 1, 2, 3, 3), odd}})
			}
		}
	}
	return out
}
