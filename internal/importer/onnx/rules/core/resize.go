package core

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// resizing is a Resize: it maps coordinates of the result to coordinates of x, and reads x there. It is separable: the
// axes are resized one after the other.
type resizing struct {
	*convert.Call
	mode, transform, nearest string
	cubic                    float64 // the cubic kernel's coefficient
	exclude, antialias       bool
	extrapolation            float64
}

// resizedAxis is one axis of a Resize. Scalars are f32 values, so that scales that only the run knows need no other
// code; known ones are folded.
type resizedAxis struct {
	axis     int64
	from, to sym.Expr
	scale    *ir.Value // the result's size relative to x's
	length   *ir.Value // the result's extent before it is rounded to an integer
	fixed    float64   // the scale if it is a number, otherwise 0
	sized    bool      // the scale is to / from, or nearly so
	start    *ir.Value // the region of interest; nil means the entire axis
	end      *ir.Value
}

// upsample converts Upsample.
func upsample(c *convert.Call) []*ir.Value {
	r := resizing{Call: c, mode: c.StringAttribute("mode", "nearest"), transform: "asymmetric", nearest: "floor"}
	x := c.Input(0)
	var axes []*resizedAxis
	if c.Version < 9 {
		axes = r.scaled(x, r.allAxes(x), tensor.Of(convert.Narrow(c.Floats("scales"))...), nil)
	} else {
		axes = r.scaled(x, r.allAxes(x), c.Input(1).Const, c.Input(1))
	}
	return convert.One(r.resize(x, axes))
}

// resize converts Resize.
func resize(c *convert.Call) []*ir.Value {
	r := resizing{Call: c, mode: c.StringAttribute("mode", "nearest"),
		transform: c.StringAttribute("coordinate_transformation_mode",
			"half_pixel"), nearest: c.StringAttribute("nearest_mode", "round_prefer_floor"),
		cubic: c.Float("cubic_coeff_a", -0.75), exclude: c.Int("exclude_outside", 0) != 0,
		antialias: c.Int("antialias", 0) != 0, extrapolation: c.Float("extrapolation_value", 0)}
	x := c.Input(0)
	if c.Version < 11 {
		// This version has no settings: it is asymmetric, and rounds down, or up if the result is smaller.
		r.transform, r.nearest = "asymmetric", "simple"
		return convert.One(r.resize(x, r.scaled(x, r.allAxes(x), c.Input(1).Const, c.Input(1))))
	}
	axes := r.allAxes(x)
	if c.Has("axes") {
		axes = c.Ints("axes")
		c.Marked(axes, len(x.Type.Shape))
		for i := range axes {
			axes[i] = c.Axis(axes[i], len(x.Type.Shape))
		}
	}
	present := func(i int) bool {
		v := c.Optional(i)
		return v != nil && !(len(v.Type.Shape) == 1 && v.Type.Shape[0].Equal(sym.Const(0)))
	}
	var list []*resizedAxis
	switch {
	case present(2) && present(3):
		c.Fault("both scales and sizes are given")
	case present(2):
		list = r.scaled(x, axes, c.In[2].Const, c.In[2])
	case present(3):
		list = r.sized(x, axes)
	default:
		c.Fault("neither scales nor sizes are given")
	}
	if r.transform == "tf_crop_and_resize" {
		roi := c.Input(1)
		roi = ops.Cast(c.Builder, roi, dtype.F32)
		at := func(i int) *ir.Value {
			return ops.Reshape(c.Builder, ops.SliceAxis(c.Builder, roi, 0, sym.Const(int64(i)), sym.Const(1)))
		}
		for i, a := range list {
			a.start, a.end = at(i), at(len(list)+i)
		}
	}
	return convert.One(r.resize(x, list))
}

// allAxes returns all axes of x.
func (r *resizing) allAxes(x *ir.Value) []int64 {
	axes := make([]int64, len(x.Type.Shape))
	for i := range axes {
		axes[i] = int64(i)
	}
	return axes
}

// f32 returns a number as an f32 scalar.
func (r *resizing) f32(x float64) *ir.Value { return ops.Scalar(r.Builder, dtype.F32, x) }

// extent returns an extent as a scalar.
func (r *resizing) extent(e sym.Expr) *ir.Value {
	if n, ok := e.Const(); ok {
		return r.f32(float64(n))
	}
	return ops.Cast(r.Builder, ops.Integers(r.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e}), dtype.F32)
}

func (r *resizing) binary(f ops.BinaryFunction, x, y *ir.Value) *ir.Value {
	return ops.Binary(r.Builder, f, x, y)
}

// scaled returns the axes of a resize by scales: constant ones, or a vector that the run computes.
func (r *resizing) scaled(x *ir.Value, axes []int64, scales *tensor.Tensor, computed *ir.Value) []*resizedAxis {
	var list []*resizedAxis
	if scales != nil {
		if scales.Len() != int64(len(axes)) {
			r.Fault("%d scales for %d axes", scales.Len(), len(axes))
		}
		for i, a := range axes {
			scale := scales.Float(int64(i))
			if !(scale > 0) || math.IsInf(scale, 0) {
				r.Fault("a scale of %v", scale)
			}
			from := x.Type.Shape[a]
			list = append(list, &resizedAxis{axis: a, from: from, to: r.times(from, scale), scale: r.f32(scale), fixed: scale,
				length: r.length(from, scale)})
		}
		return list
	}
	b := r.Builder
	if size, ok := convert.Count(computed.Type.Shape).Const(); !ok {
		r.Refuse("scales %s, whose number is not known", computed.Type)
	} else if size != int64(len(axes)) {
		r.Fault("scales %s for %d axes", computed.Type, len(axes))
	}
	from := make([]sym.Expr, len(axes))
	for i, a := range axes {
		from[i] = x.Type.Shape[a]
	}
	sizes := r.binary(ops.Mul, ops.Cast(b, computed, dtype.F32), ops.Cast(b, r.Integers(from...), dtype.F32))
	to := r.Decided(ops.Cast(b, ops.Unary(b, ops.Floor, sizes), dtype.I64), sym.Unlimited)
	for i, a := range axes {
		scale := ops.Reshape(b, ops.SliceAxis(b, ops.Cast(b, computed, dtype.F32), 0, sym.Const(int64(i)), sym.Const(1)))
		list = append(list, &resizedAxis{axis: a, from: from[i], to: to[i], scale: scale,
			length: r.binary(ops.Mul, scale, r.extent(from[i]))})
	}
	return list
}

// length returns extent × scale.
func (r *resizing) length(extent sym.Expr, scale float64) *ir.Value {
	if n, ok := extent.Const(); ok {
		return r.f32(float64(n) * scale)
	}
	return r.binary(ops.Mul, r.extent(extent), r.f32(scale))
}

// times returns ⌊extent × scale⌋, in f32 if the extent is a number, and without rounding if it is symbolic.
func (r *resizing) times(extent sym.Expr, scale float64) sym.Expr {
	if n, ok := extent.Const(); ok {
		size := math.Floor(float64(float32(n) * float32(scale)))
		if size > 1<<40 {
			r.Fault("an extent of %v", size)
		}
		return sym.Const(int64(size))
	}
	fraction, exponent := math.Frexp(scale)
	numerator, shift := int64(fraction*(1<<24)), 24-exponent
	for numerator%2 == 0 && shift > 0 {
		numerator, shift = numerator/2, shift-1
	}
	if shift < 0 {
		numerator, shift = numerator<<min(-shift, 32), 0
	}
	if shift > 40 {
		r.Refuse("a scale of %v for an extent that has a name", scale)
	}
	return r.Dims().Simplify(extent.Mul(sym.Const(numerator)).FloorDiv(sym.Const(1 << shift)))
}

// sized returns the axes of a resize by sizes.
func (r *resizing) sized(x *ir.Value, axes []int64) []*resizedAxis {
	policy := r.StringAttribute("keep_aspect_ratio_policy", "stretch")
	sizes := r.Decided(r.Wide(3), sym.Unlimited)
	if len(sizes) != len(axes) {
		r.Fault("%d sizes for %d axes", len(sizes), len(axes))
	}
	var list []*resizedAxis
	for i, a := range axes {
		list = append(list, &resizedAxis{axis: a, from: x.Type.Shape[a], to: sizes[i], sized: true})
	}
	if policy != "stretch" {
		if policy != "not_larger" && policy != "not_smaller" {
			r.Fault("keep_aspect_ratio_policy %q", policy)
		}
		r.keepAspect(list, policy == "not_larger")
		return list
	}
	for _, axis := range list {
		axis.length, axis.scale = r.extent(axis.to), r.binary(ops.Div, r.extent(axis.to), r.extent(axis.from))
		to, okTo := axis.to.Const()
		from, okFrom := axis.from.Const()
		if okTo && okFrom && from > 0 {
			axis.fixed = float64(float32(to) / float32(from))
		}
	}
	return list
}

// keepAspect gives all axes one scale: the smallest of those that the sizes ask for, or the largest. Extents are
// rounded to the nearest integer, halves up. Symbolic ones are rounded before the choice, which gives the same, because
// rounding keeps their order.
func (r *resizing) keepAspect(list []*resizedAxis, least bool) {
	common, fixed := (*ir.Value)(nil), 0.0
	choose, pick := ops.Max, sym.MaxOf
	if least {
		choose, pick = ops.Min, sym.MinOf
	}
	known := true
	var wanted []sym.Expr
	for i, a := range list {
		scale := r.binary(ops.Div, r.extent(a.to), r.extent(a.from))
		if i == 0 {
			common = scale
		} else {
			common = r.binary(choose, common, scale)
		}
		to, okTo := a.to.Const()
		from, okFrom := a.from.Const()
		known = known && okTo && okFrom && from > 0
		if ratio := float64(float32(to) / float32(max(from, 1))); i == 0 || least == (ratio < fixed) {
			fixed = ratio
		}
	}
	two := sym.Const(2)
	for _, a := range list {
		var candidates []sym.Expr
		for _, b := range list {
			candidates = append(candidates, two.Mul(a.from).Mul(b.to).Add(b.from).FloorDiv(two.Mul(b.from).Max(sym.Const(1))))
		}
		wanted = append(wanted, pick(candidates...))
	}
	wanted = r.AsDims(0, wanted...)
	for i, a := range list {
		if known {
			from, _ := a.from.Const()
			a.to, a.fixed, a.scale = sym.Const(int64(math.Floor(fixed*float64(from)+0.5))), fixed, r.f32(fixed)
			a.length = r.length(a.from, fixed)
			continue
		}
		a.to, a.scale, a.length = wanted[i], common, r.binary(ops.Mul, common, r.extent(a.from))
	}
}

// resize resizes the axes one after the other.
func (r *resizing) resize(x *ir.Value, axes []*resizedAxis) *ir.Value {
	b, dt := r.Builder, x.Type.DType
	if r.mode != "nearest" && r.mode != "linear" && r.mode != "cubic" && r.mode != "bilinear" {
		r.Refuse("mode %q", r.mode)
	}
	wide := dt
	if r.mode != "nearest" && dt != dtype.F32 && dt != dtype.F64 {
		wide = dtype.F32
	}
	x = ops.Cast(b, x, wide)
	for _, a := range axes {
		if r.Dims().EQ(a.from, a.to) == sym.Yes && a.start == nil && r.transform != "tf_half_pixel_for_nn" {
			continue
		}
		x = r.resizeAxis(x, a)
	}
	return ops.Cast(b, x, dt)
}

// resizeAxis resizes one axis.
func (r *resizing) resizeAxis(x *ir.Value, a *resizedAxis) *ir.Value {
	b := r.Builder
	if repeated := r.repeatElements(x, a); repeated != nil {
		return repeated
	}
	at := r.coordinates(a)
	last := r.binary(ops.Sub, r.extent(a.from), r.f32(1))
	var y *ir.Value
	if r.mode == "nearest" {
		index := r.binary(ops.Min, r.binary(ops.Max, r.round(at, a), r.f32(0)), last)
		y = ops.Gather(b, x, ops.Cast(b, index, dtype.I64), a.axis)
	} else {
		y = r.interpolate(x, at, last, a)
	}
	if r.transform == "tf_crop_and_resize" {
		outside := r.binary(ops.Or, r.binary(ops.Lt, at, r.f32(0)), r.binary(ops.Gt, at, last))
		outside = ops.Reshape(b, outside, onAxis(r.Call, a.to, a.axis, len(x.Type.Shape))...)
		y = ops.Where(b, outside, ops.Scalar(b, x.Type.DType, r.extrapolation), y)
	}
	return y
}

// repeatElements resizes an axis by an integer factor by repeating each element, which needs no indices. It returns nil
// if the result is another one.
func (r *resizing) repeatElements(x *ir.Value, a *resizedAxis) *ir.Value {
	times := int64(a.fixed)
	repeats := r.transform == "asymmetric" && (r.nearest == "floor" || r.nearest == "simple") ||
		r.transform == "half_pixel" && (r.nearest == "round_prefer_floor" || r.nearest == "round_prefer_ceil") &&
			times < 1<<10
	if r.mode != "nearest" || !repeats || float64(times) != a.fixed || times < 1 ||
		r.Dims().EQ(a.to, a.from.Mul(sym.Const(times))) != sym.Yes {
		return nil
	}
	b, s := r.Builder, x.Type.Shape
	split := func(n sym.Expr) []sym.Expr {
		return append(append(append([]sym.Expr{}, s[:a.axis+1]...), n), s[a.axis+1:]...)
	}
	shape := append([]sym.Expr{}, s...)
	shape[a.axis] = a.to
	return ops.Reshape(b, ops.Expand(b, ops.Reshape(b, x, split(sym.Const(1))...), split(sym.Const(times))...), shape...)
}

// coordinateRules has the position in x of element o of the result, for each coordinate transformation: in f32, as
// onnxruntime computes it, because rounding decides which element is the nearest.
var coordinateRules = map[string]func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value{
	"asymmetric": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value { return r.binary(ops.Div, o, a.scale) },
	"half_pixel": (*resizing).halfPixel,
	"tf_half_pixel_for_nn": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value {
		return r.binary(ops.Div, r.binary(ops.Add, o, r.f32(0.5)), a.scale)
	},
	"pytorch_half_pixel": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value {
		return r.unlessSingle(a, r.halfPixel(o, a), r.f32(0))
	},
	"half_pixel_symmetric": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value {
		adjustment := r.binary(ops.Div, r.extent(a.to), a.length)
		offset := r.binary(ops.Mul, r.binary(ops.Mul, r.extent(a.from), r.f32(0.5)), r.binary(ops.Sub, r.f32(1), adjustment))
		return r.binary(ops.Add, offset, r.halfPixel(o, a))
	},
	"align_corners": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value {
		return r.unlessSingle(a, r.binary(ops.Div, r.binary(ops.Mul, o, r.lessOne(a.from)), r.lessOne(a.to)), r.f32(0))
	},
	"tf_crop_and_resize": func(r *resizing, o *ir.Value, a *resizedAxis) *ir.Value {
		step := r.binary(ops.Div, r.binary(ops.Mul, r.binary(ops.Sub, a.end, a.start), r.lessOne(a.from)), r.lessOne(a.to))
		many := r.binary(ops.Add, r.binary(ops.Mul, a.start, r.lessOne(a.from)), r.binary(ops.Mul, o, step))
		middle := r.binary(ops.Mul, r.binary(ops.Mul, r.f32(0.5), r.binary(ops.Add, a.start, a.end)), r.lessOne(a.from))
		return r.unlessSingle(a, many, middle)
	},
}

// coordinates returns the coordinates in x of the result's elements along an axis.
func (r *resizing) coordinates(a *resizedAxis) *ir.Value {
	rule := coordinateRules[r.transform]
	if rule == nil {
		r.Refuse("coordinate_transformation_mode %q", r.transform)
	}
	return rule(r, ops.Counting(r.Builder, dtype.F32, a.to), a)
}

func (r *resizing) halfPixel(o *ir.Value, a *resizedAxis) *ir.Value {
	return r.binary(ops.Sub, r.binary(ops.Div, r.binary(ops.Add, o, r.f32(0.5)), a.scale), r.f32(0.5))
}

// lessOne returns an extent minus 1, as a scalar.
func (r *resizing) lessOne(e sym.Expr) *ir.Value { return r.extent(e.Sub(sym.Const(1))) }

// unlessSingle returns many if the result has more than one element along the axis, otherwise single.
func (r *resizing) unlessSingle(a *resizedAxis, many, single *ir.Value) *ir.Value {
	b := r.Builder
	single = ops.Expand(b, single, a.to)
	switch r.Dims().EQ(a.to, sym.Const(1)) {
	case sym.Yes:
		return single
	case sym.No:
		return many
	}
	return ops.Where(b, r.binary(ops.Gt, r.extent(a.to), r.f32(1)), many, single)
}

// round rounds coordinates to positions, by the attribute nearest_mode.
func (r *resizing) round(at *ir.Value, a *resizedAxis) *ir.Value {
	b := r.Builder
	switch r.nearest {
	case "round_prefer_floor":
		return ops.Unary(b, ops.Ceil, r.binary(ops.Sub, at, r.f32(0.5)))
	case "round_prefer_ceil":
		return ops.Unary(b, ops.Floor, r.binary(ops.Add, at, r.f32(0.5)))
	case "floor":
		return ops.Unary(b, ops.Floor, at)
	case "ceil":
		return ops.Unary(b, ops.Ceil, at)
	case "simple":
		return ops.Where(b, r.binary(ops.Lt, a.scale, r.f32(1)), ops.Unary(b, ops.Ceil, at), ops.Unary(b, ops.Floor, at))
	}
	r.Refuse("nearest_mode %q", r.nearest)
	return nil
}

// interpolate returns, for each coordinate, the weighted sum of the elements around it. Positions beyond x's ends take
// the element at the end, or are excluded.
func (r *resizing) interpolate(x, at, last *ir.Value, a *resizedAxis) *ir.Value {
	b := r.Builder
	reach := int64(1) // the distance that the kernel covers on each side, in elements of x after shrinking
	if r.mode == "cubic" {
		reach = 2
	}
	shrink, first, taps := r.f32(1), r.f32(float64(1-reach)), sym.Const(2*reach)
	if r.antialias {
		shrink, first, taps = r.antialiased(a, reach)
	}
	column := []sym.Expr{a.to, sym.Const(1)}
	at = ops.Reshape(b, at, column...)
	base := ops.Unary(b, ops.Floor, at)
	if r.antialias {
		// Of two elements at the same distance, the left one is taken.
		base = r.binary(ops.Sub, ops.Unary(b, ops.Ceil, at), r.f32(1))
	}
	offsets := ops.Range(b, first, r.f32(1), taps)
	position := r.binary(ops.Add, base, offsets)
	weights := r.kernel(ops.Unary(b, ops.Abs, r.binary(ops.Mul, r.binary(ops.Sub, position, at), shrink)))
	if r.exclude {
		inside := r.binary(ops.And, r.binary(ops.Ge, position, r.f32(0)), r.binary(ops.Le, position, last))
		weights = ops.Where(b, inside, weights, r.f32(0))
	}
	if r.exclude || r.antialias {
		weights = r.binary(ops.Div, weights, ops.ReduceSum(b, weights, true, 1))
	}
	index := r.binary(ops.Min, r.binary(ops.Max, position, r.f32(0)), last)
	return ops.Resample(b, x, ops.Cast(b, index, dtype.I64), ops.Cast(b, weights, x.Type.DType), a.axis)
}

// antialiased returns how antialiasing widens the kernel, if the result is smaller than x: the factor by which
// distances are multiplied, the offset of the first element that the kernel covers, and the number of elements, which
// grows as distances shrink. Elements that the kernel does not reach have weight 0.
func (r *resizing) antialiased(a *resizedAxis, reach int64) (shrink, first *ir.Value, taps sym.Expr) {
	b := r.Builder
	switch {
	case a.fixed != 0:
		scale := min(a.fixed, 1)
		start := math.Floor(-float64(reach)/scale) + 1
		if start < -(1 << 20) {
			r.Refuse("antialiasing over %v elements", 2-2*start)
		}
		return r.f32(scale), r.f32(start), sym.Const(2 - 2*int64(start))
	case a.sized:
		each := r.AsDims(0, sym.Const(reach).Mul(a.from).CeilDiv(a.to.Min(a.from).Max(sym.Const(1))).Add(sym.Const(1)))[0]
		return r.binary(ops.Min, a.scale, r.f32(1)), r.extent(sym.Const(1).Sub(each)), each.Add(each)
	}
	shrink = r.binary(ops.Min, a.scale, r.f32(1))
	each := r.binary(ops.Sub, r.f32(0), ops.Unary(b, ops.Floor, r.binary(ops.Div, r.f32(-float64(reach)), shrink)))
	side := r.Decided(ops.Reshape(b, ops.Cast(b, each, dtype.I64), sym.Const(1)), sym.Unlimited)[0]
	return shrink, r.binary(ops.Sub, r.f32(1), each), side.Add(side)
}

// kernel returns the weight at a distance: a triangle, or the cubic convolution of Keys (Cubic Convolution
// Interpolation for Digital Image Processing, 1981).
func (r *resizing) kernel(d *ir.Value) *ir.Value {
	b := r.Builder
	if r.mode != "cubic" {
		return r.binary(ops.Max, r.binary(ops.Sub, r.f32(1), d), r.f32(0))
	}
	polynomial := func(coefficients ...float64) *ir.Value {
		y := r.f32(coefficients[0])
		for _, c := range coefficients[1:] {
			y = r.binary(ops.Add, r.binary(ops.Mul, y, d), r.f32(c))
		}
		return y
	}
	k := r.cubic
	near, far := polynomial(k+2, -(k+3), 0, 1), polynomial(k, -5*k, 8*k, -4*k)
	return ops.Where(b, r.binary(ops.Le, d, r.f32(1)), near, ops.Where(b, r.binary(ops.Lt, d, r.f32(2)), far, r.f32(0)))
}
