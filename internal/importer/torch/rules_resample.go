package torch

import (
	"encoding/json"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	for name, axes := range map[string]struct {
		n    int
		kind resampling
	}{
		"upsample_nearest1d": {1, nearest}, "upsample_nearest2d": {2, nearest}, "upsample_nearest3d": {3, nearest},
		"_upsample_nearest_exact1d": {1, nearestExact}, "_upsample_nearest_exact2d": {2, nearestExact},
		"_upsample_nearest_exact3d": {3, nearestExact},
		"upsample_linear1d":         {1, linearly}, "upsample_bilinear2d": {2, linearly},
		"upsample_trilinear3d": {3, linearly},
		"upsample_bicubic2d":   {2, cubically},
	} {
		add(map[string]rule{
			"aten." + name + ".vec": upsample(axes.n, axes.kind), "aten." + name + ".default": upsample(axes.n, axes.kind),
			"aten." + name + "_backward.default": upsampleBackward(axes.n, axes.kind),
		})
	}
	add(map[string]rule{
		"aten.grid_sampler_2d.default": gridSample(2), "aten.grid_sampler_3d.default": gridSample(3),
		"aten.grid_sampler_2d_backward.default": gridSampleBackward(2),
		"aten.grid_sampler_3d_backward.default": gridSampleBackward(3),
		"aten.col2im.default":                   col2im,
	})
}

// resampling is a kind of interpolation.
type resampling int

const (
	nearest resampling = iota
	nearestExact
	linearly
	cubically
)

// scaleNames has the names of the scale arguments for a number of axes.
var scaleNames = map[int][]string{1: {"scales"}, 2: {"scales_h", "scales_w"}, 3: {"scales_d", "scales_h", "scales_w"}}

// scaling says how an axis is resized: its new extent and, if it is given and not 0, the factor.
type scaling struct {
	to     sym.Expr
	factor float64
}

// floatsOf returns an argument that is a list of numbers; nil if it is absent.
func (c *call) floatsOf(name string) []float64 {
	if !c.has(name) {
		return nil
	}
	var items []json.RawMessage
	if err := c.args[name].into(&items); err != nil {
		c.Fail(err)
	}
	list := make([]float64, len(items))
	for i, item := range items {
		var v number
		if err := (&argument{"as_float", item}).into(&v); err != nil {
			c.Fail(err)
		}
		list[i] = float64(v)
	}
	return list
}

// scalings returns the scaling of the last n axes of a shape.
func (c *call) scalings(shape []sym.Expr, n int) []scaling {
	list := make([]scaling, n)
	sizes, factors := c.syms("output_size"), c.floatsOf("scale_factors")
	if factors == nil {
		factors = make([]float64, n)
		for i, name := range scaleNames[n] {
			factors[i] = c.float(name, 0)
		}
	}
	if len(factors) != n || sizes != nil && len(sizes) != n || len(shape) != n+2 {
		c.Fail(diag.Inputf("%d sizes and %d factors, for %d of %d axes", len(sizes), len(factors), n, len(shape)))
	}
	for i := range list {
		if f := factors[i]; f < 0 || f > math.MaxInt32 || math.IsNaN(f) {
			c.Fail(diag.Inputf("an axis is enlarged by %g", f))
		}
		list[i].factor = factors[i]
		if sizes != nil {
			list[i].to = sizes[i]
		} else {
			list[i].to = c.scaledExtent(shape[i+2], factors[i])
		}
		c.require(sym.Cond{A: unit, Rel: sym.LE, B: list[i].to}, "an axis is enlarged to an element at least")
		c.require(sym.Cond{A: unit, Rel: sym.LE, B: shape[i+2]}, "an axis that is enlarged has an element")
	}
	return list
}

// scaledExtent returns extent times factor, rounded down.
func (c *call) scaledExtent(extent sym.Expr, factor float64) sym.Expr {
	if n, ok := extent.Const(); ok {
		to := math.Floor(float64(n) * factor)
		if to > math.MaxInt32 {
			c.Fail(diag.Inputf("an axis of %d elements is enlarged by %g", n, factor))
		}
		return sym.Const(int64(to))
	}
	const denominator = 1 << 10
	if scaled := factor * denominator; scaled == math.Floor(scaled) && scaled < math.MaxInt32 {
		return c.Dims().Simplify(extent.Mul(sym.Const(int64(scaled))).FloorDiv(sym.Const(denominator)))
	}
	c.Fail(diag.Unsupportedf("an axis of %s elements is enlarged by %g", extent, factor))
	return sym.Expr{}
}

// resampler resizes one axis of a value. It computes positions as numbers of the type dt, as torch does.
type resampler struct {
	*call
	dt    dtype.DType
	axis  int64
	from  sym.Expr
	to    scaling
	align bool
}

// number returns a constant of the type of positions.
func (r *resampler) number(x float64) *ir.Value { return ops.Scalar(r.Builder, r.dt, x) }

// extent returns an extent as a number of the type of positions.
func (r *resampler) extent(e sym.Expr) *ir.Value {
	return ops.Cast(r.Builder, ops.Integers(r.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e}), r.dt)
}

// step returns the distance in the axis between the positions of neighbouring elements of the result.
func (r *resampler) step() *ir.Value {
	switch {
	case r.align:
		most := r.to.to.Sub(unit).Max(unit)
		step := r.binary(ops.Div, r.extent(r.from.Sub(unit)), r.extent(most))
		if r.Dims().LT(unit, r.to.to) == sym.Yes {
			return step
		}
		return ops.Where(r.Builder, r.binary(ops.Gt, r.extent(r.to.to), r.number(1)), step, r.number(0))
	case r.to.factor != 0:
		return r.number(1 / r.to.factor)
	}
	return r.binary(ops.Div, r.extent(r.from), r.extent(r.to.to))
}

// positions returns for each element of the result its position in the axis, relative to the center of the first
// element.
func (r *resampler) positions() *ir.Value {
	at := ops.Counting(r.Builder, r.dt, r.to.to)
	if r.align {
		return r.binary(ops.Mul, at, r.step())
	}
	return r.binary(ops.Sub, r.binary(ops.Mul, r.binary(ops.Add, at, r.number(0.5)), r.step()), r.number(0.5))
}

// nearest takes the nearest elements; exact selects the formula of torch's nearest-exact.
func (r *resampler) nearest(x *ir.Value, exact bool) *ir.Value {
	half := 0.0
	if exact {
		half = 0.5
	}
	if times := r.times(); times > 0 && half == 0 {
		list := make([]int64, len(x.Type.Shape))
		for i := range list {
			list[i] = 1
		}
		list[r.axis] = times
		return ops.Repeat(r.Builder, x, list)
	}
	at := r.binary(ops.Add, ops.Counting(r.Builder, r.dt, r.to.to), r.number(half))
	at = ops.Cast(r.Builder, r.unary(ops.Floor, r.binary(ops.Mul, at, r.step())), dtype.I64)
	last := ops.Integers(r.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{r.from.Sub(unit)})
	return ops.Gather(r.Builder, x, r.binary(ops.Min, at, last), r.axis)
}

// times returns the number of copies of each element, a power of 2, if the result only repeats elements; otherwise 0.
func (r *resampler) times() int64 {
	for times := int64(1); times <= 64; times *= 2 {
		if (r.to.factor == 0 || r.to.factor == float64(times)) &&
			r.Dims().EQ(r.to.to, r.from.Mul(sym.Const(times))) == sym.Yes {
			return times
		}
	}
	return 0
}

// interpolate returns weighted sums of the elements around each position; beyond the ends it repeats the last element.
func (r *resampler) interpolate(x *ir.Value, kind resampling) *ir.Value {
	at := r.positions()
	if kind == linearly && !r.align {
		at = r.binary(ops.Max, at, r.number(0))
	}
	at = ops.Reshape(r.Builder, at, r.to.to, unit)
	base := r.unary(ops.Floor, at)
	t := r.binary(ops.Sub, at, base)
	first, taps, weights := int64(0), int64(2), []*ir.Value{r.binary(ops.Sub, r.number(1), t), t}
	if kind == cubically {
		first, taps, weights = -1, 4, r.cubic(t)
	}
	offsets := ops.Range(r.Builder, ops.Scalar(r.Builder, dtype.I64, float64(first)), ops.Scalar(r.Builder, dtype.I64, 1),
		sym.Const(taps))
	indices := r.binary(ops.Add, ops.Cast(r.Builder, base, dtype.I64), offsets)
	last := ops.Integers(r.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{r.from.Sub(unit)})
	indices = r.binary(ops.Min, r.binary(ops.Max, indices, ops.Scalar(r.Builder, dtype.I64, 0)), last)
	return ops.Resample(r.Builder, x, indices, ops.Concat(r.Builder, 1, weights...), r.axis)
}

// cubic returns the weights of the four elements around each position, which is t after the second: Keys' kernel with
// torch's slope.
func (r *resampler) cubic(t *ir.Value) []*ir.Value {
	const slope = -0.75
	// near is (a + 2)·t³ − (a + 3)·t² + 1; far is a·t³ − 5a·t² + 8a·t − 4a.
	near := func(t *ir.Value) *ir.Value { return r.polynomial(t, slope+2, -(slope + 3), 0, 1) }
	far := func(t *ir.Value) *ir.Value { return r.polynomial(t, slope, -5*slope, 8*slope, -4*slope) }
	rest := r.binary(ops.Sub, r.number(1), t)
	one := r.number(1)
	return []*ir.Value{far(r.binary(ops.Add, t, one)), near(t), near(rest), far(r.binary(ops.Add, rest, one))}
}

// polynomial evaluates a polynomial of t; the coefficients begin with that of the highest power.
func (r *resampler) polynomial(t *ir.Value, coefficients ...float64) *ir.Value {
	y := ops.Expand(r.Builder, r.number(coefficients[0]), t.Type.Shape...)
	for _, k := range coefficients[1:] {
		y = r.binary(ops.Add, r.binary(ops.Mul, y, t), r.number(k))
	}
	return y
}

// resample resizes the last n axes of x.
func (c *call) resample(x *ir.Value, n int, kind resampling) *ir.Value {
	own, dt := x.Type.DType, dtype.F32
	if own == dtype.F64 {
		dt = dtype.F64
	}
	weighs := kind == linearly || kind == cubically
	if weighs {
		if !own.IsFloat() {
			c.Fail(diag.Unsupportedf("elements between those of %s", x.Type))
		}
		x = ops.Cast(c.Builder, x, dt)
	} else {
		dt = dtype.F32
	}
	list, align := c.scalings(x.Type.Shape, n), c.bool("align_corners", false)
	for i, to := range list {
		r := &resampler{call: c, dt: dt, axis: int64(i + 2), from: x.Type.Shape[i+2], to: to, align: align}
		switch {
		case c.Dims().EQ(r.from, to.to) == sym.Yes && (to.factor == 0 || to.factor == 1 || align):
		case weighs:
			x = r.interpolate(x, kind)
		default:
			x = r.nearest(x, kind == nearestExact)
		}
	}
	return ops.Cast(c.Builder, x, own)
}

// upsample returns a rule that resizes the last n axes.
func upsample(n int, kind resampling) rule {
	return func(c *call) []*ir.Value {
		name := "self"
		if c.args[name] == nil {
			name = "input"
		}
		return one(c.resample(c.tensor(name), n, kind))
	}
}

// upsampleBackward returns a rule for the derivative of upsample, which is linear and does not depend on the input.
func upsampleBackward(n int, kind resampling) rule {
	return func(c *call) []*ir.Value {
		g := c.tensor("grad_output")
		x := ops.Expand(c.Builder, c.like(g, 0), c.syms("input_size")...)
		return c.derivatives([]*ir.Value{c.resample(x, n, kind)}, []*ir.Value{g}, []*ir.Value{x})
	}
}

// gridModes and gridPaddings are the ways to interpolate, and to read beyond the edges, by PyTorch's numbers.
var (
	gridModes    = []string{"linear", "nearest", "cubic"}
	gridPaddings = []string{"zeros", "border", "reflection"}
)

// word returns the word of a list that a number selects.
func (c *call) word(name string, words []string) string {
	at := c.int(name, 0)
	if at < 0 || at >= int64(len(words)) {
		c.Fail(diag.Inputf("%s is %d", name, at))
	}
	return words[at]
}

// sampleGrid samples x at the positions of a grid over n axes.
func (c *call) sampleGrid(x, grid *ir.Value, n int) *ir.Value {
	if len(x.Type.Shape) != n+2 {
		c.Fail(diag.Inputf("positions of %d axes in %s", n, x.Type))
	}
	mode, padding := c.word("interpolation_mode", gridModes), c.word("padding_mode", gridPaddings)
	return ops.GridSample(c.Builder, x, grid, mode, padding, c.bool("align_corners", false))
}

// gridSample returns a rule for sampling at the positions of a grid.
func gridSample(n int) rule {
	return func(c *call) []*ir.Value { return one(c.sampleGrid(c.tensor("input"), c.tensor("grid"), n)) }
}

// gridSampleBackward returns a rule for the derivatives of gridSample with respect to the input and the grid.
func gridSampleBackward(n int) rule {
	return func(c *call) []*ir.Value {
		x, grid := c.tensor("input"), c.tensor("grid")
		y := c.sampleGrid(x, grid, n)
		return c.backward([]*ir.Value{y}, []*ir.Value{c.tensor("grad_output")}, []*ir.Value{x, grid}, c.mask(2))
	}
}

// col2im is a rule that adds up overlapping blocks.
func col2im(c *call) []*ir.Value {
	win := ops.Window{Kernel: c.pairOf("kernel_size", 2, 1), Strides: c.pairOf("stride", 2, 1),
		Dilations: c.pairOf("dilation", 2, 1)}
	for _, p := range c.pairOf("padding", 2, 0) {
		win.Begin, win.End = append(win.Begin, sym.Const(p)), append(win.End, sym.Const(p))
	}
	shape := c.syms("output_size")
	for _, k := range win.Kernel {
		if k < 1 {
			c.Fail(diag.Inputf("blocks of %d", win.Kernel))
		}
	}
	return c.batched(c.tensor("self"), 3, func(x *ir.Value) *ir.Value {
		return ops.Col2Im(c.Builder, x, shape, ir.Constants(win.Kernel), win)
	})
}
