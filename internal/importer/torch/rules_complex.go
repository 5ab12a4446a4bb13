package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// complexNumbers is a tensor of complex numbers as two values; im is nil if all numbers are real. In a graph, values
// has the real components by their names, and imaginary the imaginary ones.
type complexNumbers struct{ re, im *ir.Value }

// complexRule builds the only result of a node with complex operands or a complex result.
type complexRule func(c *call) complexNumbers

// component selects which components of complex numbers a rule sees.
type component int

const (
	noComponent component = iota // the rule reads no complex numbers
	realComponent
	imaginaryComponent
)

// componentwise has the operators that do the same with the real and the imaginary components. Real operands have an
// imaginary component of 0.
var componentwise = map[string]bool{}

// complexRules has the other operators on complex numbers. An operator in neither table refuses them.
var complexRules map[string]complexRule

// init fills componentwise and complexRules.
func init() {
	for _, name := range []string{"view", "reshape", "_unsafe_view", "view_copy", "contiguous", "clone", "detach", "alias",
		"lift_fresh_copy",
		"permute", "t", "numpy_T", "unsqueeze", "squeeze", "expand", "expand_as", "repeat", "cat", "stack", "narrow", "flip",
		"roll",
		"index_select", "unfold", "neg", "_neg_view", "sum", "mean", "diagonal", "tril", "triu"} {
		componentwise["aten."+name+".default"] = true
	}
	for _, name := range []string{"transpose.int", "squeeze.dim", "squeeze.dims", "flatten.using_ints", "unflatten.int",
		"slice.Tensor", "select.int",
		"index.Tensor", "add.Tensor", "sub.Tensor", "sum.dim_IntList", "mean.dim"} {
		componentwise["aten."+name] = true
	}
	complexRules = map[string]complexRule{
		"aten._fft_r2c.default": fourierOfReals, "aten._fft_c2c.default": fourierOfComplex,
		"aten._fft_c2r.default":        fourierToReals,
		"aten.view_as_complex.default": viewAsComplex, "aten.view_as_real.default": viewAsReal, "aten.polar.default": polar,
		"aten.complex.default": func(c *call) complexNumbers { return complexNumbers{c.tensor("real"), c.tensor("imag")} },
		"aten.real.default":    func(c *call) complexNumbers { return complexNumbers{re: c.complex("self").re} },
		"aten.imag.default":    func(c *call) complexNumbers { return complexNumbers{re: c.filledComplex("self").im} },
		"aten.abs.default":     magnitude, "aten.angle.default": angle,
		"aten._conj.default": conjugate, "aten.conj_physical.default": conjugate, "aten._conj_physical.default": conjugate,
		"aten.resolve_conj.default": func(c *call) complexNumbers { return c.complex("self") },
		"aten.resolve_neg.default":  func(c *call) complexNumbers { return c.complex("self") },
		"aten.mul.Tensor":           complexProduct, "aten.div.Tensor": complexQuotient,
		"aten.mul.Scalar": scaledComplex(ops.Mul), "aten.div.Scalar": scaledComplex(ops.Div),
		"aten._to_copy.default": complexConvert, "aten.to.dtype": complexConvert,
		"prims.convert_element_type.default": complexConvert,
	}
}

// complexNode builds a node with complex numbers; done is false for other nodes.
func (g *graph) complexNode(n *nodeJSON, c *call, name string) (done bool, err error) {
	reads := c.readsComplex()
	if f := complexRules[name]; f != nil && (reads || rules[name] == nil || c.makesComplex()) {
		result := f(c)
		return true, g.assignComplex(n, []*ir.Value{result.re}, []*ir.Value{result.im})
	}
	if !reads || !componentwise[name] {
		return false, nil
	}
	c.reads = realComponent
	real := rules[name](c)
	c.reads = imaginaryComponent
	return true, g.assignComplex(n, real, rules[name](c))
}

// assignComplex names the results of a node, given as real and imaginary components.
func (g *graph) assignComplex(n *nodeJSON, real, imaginary []*ir.Value) error {
	if err := g.assign(n, real); err != nil {
		return err
	}
	for i, name := range g.outputNames(n) {
		if i < len(imaginary) && imaginary[i] != nil {
			g.imaginary[name] = imaginary[i]
		}
	}
	return nil
}

// outputNames returns the names of a node's results that are tensors.
func (g *graph) outputNames(n *nodeJSON) (names []string) {
	for _, out := range n.Outputs {
		var list []named
		var one named
		switch {
		case out.kind == "as_tensors" && out.into(&list) == nil:
			for _, t := range list {
				names = append(names, t.Name)
			}
		case out.kind == "as_tensor" && out.into(&one) == nil:
			names = append(names, one.Name)
		}
	}
	return names
}

// readsComplex reports whether an argument is a tensor of complex numbers.
func (c *call) readsComplex() bool {
	if len(c.imaginary) == 0 {
		return false
	}
	for _, a := range c.args {
		var list []named
		var one named
		switch {
		case a.kind == "as_tensors" && a.into(&list) == nil:
			for _, t := range list {
				if c.imaginary[t.Name] != nil {
					return true
				}
			}
		case a.kind == "as_tensor" && a.into(&one) == nil && c.imaginary[one.Name] != nil:
			return true
		}
	}
	return false
}

// makesComplex reports whether the argument dtype is a type of complex numbers.
func (c *call) makesComplex() bool {
	a := c.args["dtype"]
	return a != nil && a.kind == "as_scalar_type" && c.dtype("dtype", dtype.F32).IsComplex()
}

// componentOf returns the component of a tensor that a rule sees; nil if there is no such tensor.
func (c *call) componentOf(name string) *ir.Value {
	if c.base != nil && name == c.baseName {
		return c.base
	}
	c.used[name] = true
	v, im := c.values[name], c.imaginary[name]
	if op := c.gone[name]; op != "" {
		c.Fail(diag.Unsupportedf("%s by its name before %s_ gave it another shape", name, op).AtTensor(name))
	}
	if a := c.aliases[name]; a != nil {
		v = c.read(a)
	}
	switch {
	case v == nil || c.reads == realComponent:
		return v
	case im != nil && c.reads == imaginaryComponent:
		return im
	case im != nil:
		c.Fail(diag.Unsupportedf("complex numbers of the tensor %s", name).AtTensor(name))
	case c.reads == imaginaryComponent && v.Type.DType.IsFloat():
		return ops.Expand(c.Builder, c.like(v, 0), v.Type.Shape...)
	}
	return v
}

// complex returns a tensor of complex or real numbers.
func (c *call) complex(name string) complexNumbers {
	if a := c.args[name]; a != nil && a.kind == "as_complex" {
		var z struct {
			Re number `json:"real"`
			Im number `json:"imag"`
		}
		if err := a.into(&z); err != nil {
			c.Fail(err)
		}
		return complexNumbers{ops.Scalar(c.Builder, dtype.F32, float64(z.Re)),
			ops.Scalar(c.Builder, dtype.F32, float64(z.Im))}
	}
	c.reads = realComponent
	defer func() { c.reads = noComponent }()
	v := c.tensor(name)
	if v.Type.DType.IsComplex() {
		c.Fail(diag.Unsupportedf("an input of complex numbers"))
	}
	var n named
	if a := c.args[name]; a.kind == "as_tensor" && a.into(&n) == nil {
		return complexNumbers{v, c.imaginary[n.Name]}
	}
	return complexNumbers{re: v}
}

// filledComplex is complex with an imaginary component of 0 for real numbers, and f32 for integers.
func (c *call) filledComplex(name string) complexNumbers {
	x := c.complex(name)
	if kind(x.re.Type.DType) < 2 {
		x.re = ops.Cast(c.Builder, x.re, dtype.F32)
	}
	if x.im == nil {
		x.im = ops.Expand(c.Builder, c.like(x.re, 0), x.re.Type.Shape...)
	}
	return x
}

// complexConstant returns a constant of complex numbers.
func (g *graph) complexConstant(name string, t *tensor.Tensor) (z complexNumbers, err error) {
	each := dtype.F32
	if t.DType() == dtype.C128 {
		each = dtype.F64
	}
	components, err := t.BitCast(each, append(append([]int64{}, t.Shape()...), 2)...)
	if err != nil {
		return z, err
	}
	return g.split(g.Builder.Constant(name, components)), nil
}

// split returns a tensor of pairs along the last axis as complex numbers.
func (g *graph) split(x *ir.Value) complexNumbers {
	axis := len(x.Type.Shape) - 1
	take := func(at int64) *ir.Value {
		return ops.Reshape(g.Builder, ops.SliceAxis(g.Builder, x, axis, sym.Const(at), unit), x.Type.Shape[:axis]...)
	}
	return complexNumbers{take(0), take(1)}
}

// pairs returns complex numbers as pairs along a new last axis.
func (c *call) pairs(z complexNumbers) *ir.Value {
	shape := append(append([]sym.Expr{}, z.re.Type.Shape...), unit)
	return ops.Concat(c.Builder, int64(len(shape)-1), ops.Reshape(c.Builder, z.re, shape...),
		ops.Reshape(c.Builder, z.im, shape...))
}

// viewAsReal is a rule for complex numbers as pairs along a new last axis.
func viewAsReal(c *call) complexNumbers { return complexNumbers{re: c.pairs(c.filledComplex("self"))} }

// viewAsComplex is a rule for pairs along the last axis as complex numbers.
func viewAsComplex(c *call) complexNumbers {
	x := c.tensor("self")
	if n := len(x.Type.Shape); n == 0 || c.Dims().EQ(x.Type.Shape[n-1], sym.Const(2)) != sym.Yes {
		c.Fail(diag.Inputf("%s as complex numbers: its last axis has no 2 elements", x.Type))
	}
	return c.split(x)
}

// polar is a rule for complex numbers from magnitudes and angles.
func polar(c *call) complexNumbers {
	size, angle := c.tensor("abs"), c.tensor("angle")
	return complexNumbers{c.binary(ops.Mul, size, c.unary(ops.Cos, angle)),
		c.binary(ops.Mul, size, c.unary(ops.Sin, angle))}
}

// magnitude is a rule for the magnitudes of complex numbers.
func magnitude(c *call) complexNumbers {
	z := c.filledComplex("self")
	squares := c.binary(ops.Add, c.binary(ops.Mul, z.re, z.re), c.binary(ops.Mul, z.im, z.im))
	return complexNumbers{re: c.unary(ops.Sqrt, squares)}
}

// angle is a rule for the angles of complex numbers.
func angle(c *call) complexNumbers {
	z := c.filledComplex("self")
	return complexNumbers{re: c.binary(ops.Atan2, z.im, z.re)}
}

// conjugate is a rule for the conjugates of complex numbers.
func conjugate(c *call) complexNumbers {
	z := c.filledComplex("self")
	return complexNumbers{z.re, c.unary(ops.Neg, z.im)}
}

// likeTypes converts the components of two tensors to one type.
func (c *call) likeTypes(x, y complexNumbers) (complexNumbers, complexNumbers) {
	dt := commonType(x.re.Type.DType, y.re.Type.DType)
	as := func(v *ir.Value) *ir.Value {
		if v == nil {
			return nil
		}
		return ops.Cast(c.Builder, v, dt)
	}
	return complexNumbers{as(x.re), as(x.im)}, complexNumbers{as(y.re), as(y.im)}
}

// complexProduct is a rule for the product of complex numbers.
func complexProduct(c *call) complexNumbers {
	if a := c.args["other"]; a != nil && a.kind != "as_tensor" && a.kind != "as_complex" {
		return scaledComplex(ops.Mul)(c)
	}
	x, y := c.likeTypes(c.complex("self"), c.complex("other"))
	if x.im == nil {
		x, y = y, x
	}
	if y.im == nil {
		return complexNumbers{c.binary(ops.Mul, x.re, y.re), c.binary(ops.Mul, x.im, y.re)}
	}
	return complexNumbers{
		c.binary(ops.Sub, c.binary(ops.Mul, x.re, y.re), c.binary(ops.Mul, x.im, y.im)),
		c.binary(ops.Add, c.binary(ops.Mul, x.re, y.im), c.binary(ops.Mul, x.im, y.re)),
	}
}

// complexQuotient is a rule for complex numbers divided by real ones.
func complexQuotient(c *call) complexNumbers {
	if a := c.args["other"]; a != nil && a.kind != "as_tensor" {
		return scaledComplex(ops.Div)(c)
	}
	x, y := c.likeTypes(c.complex("self"), c.complex("other"))
	if y.im != nil {
		c.Fail(diag.Unsupportedf("a quotient by complex numbers"))
	}
	return complexNumbers{c.binary(ops.Div, x.re, y.re), c.binary(ops.Div, x.im, y.re)}
}

// scaledComplex returns a rule for complex numbers times or divided by a real number.
func scaledComplex(op ops.BinaryFunction) complexRule {
	return func(c *call) complexNumbers {
		z := c.filledComplex("self")
		by := c.number("other", z.re.Type.DType)
		return complexNumbers{c.binary(op, z.re, by), c.binary(op, z.im, by)}
	}
}

// complexConvert is a rule for conversions: from real to complex numbers, or to another precision.
func complexConvert(c *call) complexNumbers {
	name := "self"
	if c.args[name] == nil {
		name = "a"
	}
	z := c.filledComplex(name)
	to := c.dtype("dtype", dtype.C64)
	each, ok := map[dtype.DType]dtype.DType{dtype.C64: dtype.F32, dtype.C128: dtype.F64}[to]
	switch {
	case !c.has("dtype"):
		each = z.re.Type.DType
	case !ok:
		return complexNumbers{re: ops.Cast(c.Builder, z.re, to)}
	}
	return complexNumbers{ops.Cast(c.Builder, z.re, each), ops.Cast(c.Builder, z.im, each)}
}

// transform returns the Fourier transform of x, [..., components], along axes, not normalized.
func (c *call) transform(x *ir.Value, axes []int, inverse bool) *ir.Value {
	for _, axis := range axes {
		length := x.Type.Shape[axis]
		x = ops.Fourier(c.Builder, x, int64(axis), length, inverse, false)
		if inverse { // the inverse divides by the length
			x = c.binary(ops.Mul, x, c.lengthOf(x, length))
		}
	}
	return x
}

// lengthOf returns a product of extents as a number of the type of x.
func (c *call) lengthOf(x *ir.Value, extents ...sym.Expr) *ir.Value {
	n := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{product(extents)})
	return ops.Cast(c.Builder, n, x.Type.DType)
}

// normalized divides a transform of the given lengths as the argument normalization says.
func (c *call) normalized(x *ir.Value, lengths []sym.Expr) *ir.Value {
	switch c.int("normalization", 0) {
	case 0:
		return x
	case 1:
		return c.binary(ops.Div, x, c.unary(ops.Sqrt, c.lengthOf(x, lengths...)))
	case 2:
		return c.binary(ops.Div, x, c.lengthOf(x, lengths...))
	}
	c.Fail(diag.Inputf("a normalization %d", c.int("normalization", 0)))
	return nil
}

// transformed returns the axes of a transform and their lengths; the last one is the one-sided axis.
func (c *call) transformed(x *ir.Value) (axes []int, lengths []sym.Expr) {
	seen := map[int]bool{}
	for _, d := range c.listOf("dim") {
		axis := c.axisOf(d, len(x.Type.Shape))
		if axis >= len(x.Type.Shape) || seen[axis] {
			c.Fail(diag.Inputf("a transform of %s along axis %d", x.Type, d))
		}
		seen[axis] = true
		axes, lengths = append(axes, axis), append(lengths, x.Type.Shape[axis])
	}
	if len(axes) == 0 {
		c.Fail(diag.Inputf("a transform along no axis"))
	}
	return axes, lengths
}

// fourierOfReals is a rule for the transform of real numbers.
func fourierOfReals(c *call) complexNumbers {
	x := c.floats("self")
	axes, lengths := c.transformed(x)
	last := len(axes) - 1
	y := ops.Reshape(c.Builder, x, append(append([]sym.Expr{}, x.Type.Shape...), unit)...)
	y = ops.Fourier(c.Builder, y, int64(axes[last]), lengths[last], false, c.bool("onesided", true))
	return c.split(c.normalized(c.transform(y, axes[:last], false), lengths))
}

// fourierOfComplex is a rule for the transform of complex numbers.
func fourierOfComplex(c *call) complexNumbers {
	z := c.filledComplex("self")
	axes, lengths := c.transformed(z.re)
	return c.split(c.normalized(c.transform(c.pairs(z), axes, !c.bool("forward", true)), lengths))
}

// fourierToReals is a rule for the inverse transform with real results.
func fourierToReals(c *call) complexNumbers {
	z := c.filledComplex("self")
	axes, lengths := c.transformed(z.re)
	last, length := len(axes)-1, c.sym("last_dim_size")
	lengths[last] = length
	y := c.transform(c.pairs(z), axes[:last], true)
	y = ops.Fourier(c.Builder, y, int64(axes[last]), length, true, true)
	y = c.normalized(c.binary(ops.Mul, y, c.lengthOf(y, length)), lengths)
	return complexNumbers{re: ops.Reshape(c.Builder, y, y.Type.Shape[:len(y.Type.Shape)-1]...)}
}
