package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operators quantize and dequantize.
func init() {
	define(&Def{Op: "quantize", apart: apartQuantize, Last: axisLast, Linear: true,
		NoGrad: "rounded; Custom says how to pass a derivative through", Shape: quantizeShape, Mean: quantizeMean,
		Samples: quantizeSamples, Lowerings: []Lowering{{Name: "map", Build: quantizeMap}}})
	define(&Def{Op: "dequantize", apart: apartQuantize,
		Last: axisLast, Linear: true, Grad: dequantizeGrad, Shape: dequantizeShape,
		Mean: dequantizeMean, Samples: dequantizeSamples, Lowerings: []Lowering{{Name: "map", Build: dequantizeMap}}})
}

// Quantization says how elements share scales and zero points. A scale of one element is for the entire tensor. A scale
// of rank 1 has one element for each index of Axis. With Block above 0, the scale has the tensor's rank and one element
// for each Block indices of Axis.
type Quantization struct{ Axis, Block int64 }

// Quantize returns x / scale, rounded to the nearest integer, ties to even, plus zero (nil: 0), clamped to the range of
// the type to. If to is a float type, x / scale is rounded to it; beyond its range the result is its largest value or,
// with wrap, infinity or NaN. The quotient is rounded to precision (Invalid: scale's type).
func Quantize(b *ir.Builder, x, scale, zero *ir.Value, to, precision dtype.DType, q Quantization, wrap bool) *ir.Value {
	return b.Op("quantize", ir.Attrs{"to": to, "precision": precision, "axis": q.Axis, "block": q.Block, "wrap": wrap},
		quantized(b, x, scale, zero)...)
}

// Dequantize returns (x − zero) · scale in type to; zero may be nil for 0.
func Dequantize(b *ir.Builder, x, scale, zero *ir.Value, to dtype.DType, q Quantization) *ir.Value {
	return b.Op("dequantize", ir.Attrs{"to": to, "axis": q.Axis, "block": q.Block}, quantized(b, x, scale, zero)...)
}

// quantized returns the operands of a node. The zero point of a scale of one element is reshaped to the scale's shape.
func quantized(b *ir.Builder, x, scale, zero *ir.Value) []*ir.Value {
	if zero == nil {
		return []*ir.Value{x, scale}
	}
	if len(zero.Type.Shape) != len(scale.Type.Shape) && isOne(product(scale.Type.Shape)) {
		zero = Reshape(b, zero, scale.Type.Shape...)
	}
	return []*ir.Value{x, scale, zero}
}

// quantizedShape checks the shapes of the scale and the zero point.
func quantizedShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, 3); err != nil {
		return err
	}
	x, scale := n.Inputs[0].Type, n.Inputs[1].Type
	if !scale.DType.IsFloat() {
		return fault(n, "a scale of type %s", scale.DType)
	}
	block := n.Attrs.Int("block", 0)
	axis, err := axisOf(n, n.Attrs.Int("axis", 1), max(len(x.Shape), 1))
	single := isOne(product(scale.Shape))
	switch {
	case single && block == 0:
	case err != nil:
		return err
	case block < 0:
		return fault(n, "blocks of %d", block)
	case block > 0:
		if len(scale.Shape) != len(x.Shape) {
			return fault(n, "a scale of rank %d for blocks of a tensor of rank %d", len(scale.Shape), len(x.Shape))
		}
		for i, extent := range x.Shape {
			if i == axis {
				extent = extent.CeilDiv(sym.Const(block))
			}
			if err := c.RequireEqual(n, scale.Shape[i], extent, "one scale for each block"); err != nil {
				return err
			}
		}
	case len(scale.Shape) != 1 || len(x.Shape) == 0:
		return fault(n, "a scale of shape %s", scale)
	default:
		if err := c.RequireEqual(n, scale.Shape[0], x.Shape[axis], "one scale for each index of the axis"); err != nil {
			return err
		}
	}
	if zero := input(n, 2); zero != nil {
		if len(zero.Type.Shape) != len(scale.Shape) {
			return fault(n, "a zero point of shape %s for scales of shape %s", zero.Type, scale)
		}
		for i := range scale.Shape {
			if err := c.RequireEqual(n, zero.Type.Shape[i], scale.Shape[i], "a zero point for each scale"); err != nil {
				return err
			}
		}
	}
	return nil
}

// quantizeShape requires numbers, a result of floats or of integers of at most 16 bits, and a zero point of the
// result's type.
func quantizeShape(c *ir.Inference, n *ir.Node) error {
	if err := quantizedShape(c, n); err != nil {
		return err
	}
	x, to := n.Inputs[0].Type, n.Attrs.DType("to")
	if !numbers(x.DType) || !to.IsFloat() && (!to.IsInt() || to.Bits() > 16) {
		return fault(n, "%s quantised to %s", x.DType, to)
	}
	if zero := input(n, 2); zero != nil && zero.Type.DType != to {
		return fault(n, "a zero point of type %s for %s", zero.Type.DType, to)
	}
	n.Result(0, ir.Type{DType: to, Shape: x.Shape})
	return nil
}

// dequantizeShape requires numbers, a result of floats, and a zero point of the input's type.
func dequantizeShape(c *ir.Inference, n *ir.Node) error {
	if err := quantizedShape(c, n); err != nil {
		return err
	}
	x, to := n.Inputs[0].Type, n.Attrs.DType("to")
	if !numbers(x.DType) || !to.IsFloat() {
		return fault(n, "%s made %s", x.DType, to)
	}
	if zero := input(n, 2); zero != nil && zero.Type.DType != x.DType {
		return fault(n, "a zero point of type %s for %s", zero.Type.DType, x.DType)
	}
	n.Result(0, ir.Type{DType: to, Shape: x.Shape})
	return nil
}

// scaleAt returns the index in the scale for the element at index at; divide divides an index by the block.
func scaleAt[T any](n *ir.Node, rank, scaleRank int, single bool, at []T, divide func(index T) T) []T {
	if single {
		return make([]T, scaleRank)
	}
	axis, _ := axisOf(n, n.Attrs.Int("axis", 1), rank)
	if n.Attrs.Int("block", 0) == 0 {
		return []T{at[axis]}
	}
	index := append([]T{}, at...)
	index[axis] = divide(at[axis])
	return index
}

// precisionOf returns the type in which the quotient is computed: the attribute, the scale's type or, if that has fewer
// than 16 bits, f32.
func precisionOf(n *ir.Node) dtype.DType {
	if dt := n.Attrs.DType("precision"); dt != dtype.Invalid {
		return dt
	}
	if dt := n.Inputs[1].Type.DType; dt.Bits() >= 16 {
		return dt
	}
	return dtype.F32
}

// eachScaled calls visit for each element of x in order, with its flat index and that of its scale.
func eachScaled(n *ir.Node, x, scale *tensor.Tensor, visit func(i, s int64)) {
	flat, strides := int64(0), tensor.Strides(scale.Shape())
	tensor.Each(x.Shape(), func(at []int64) {
		index := scaleAt(n, x.Rank(), scale.Rank(), scale.Len() == 1 && n.Attrs.Int("block", 0) == 0, at,
			func(i int64) int64 {
				return i / n.Attrs.Int("block", 1)
			})
		visit(flat, tensor.Offset(strides, index))
		flat++
	})
}

// quantizeMean divides and rounds in the node's precision; NaN becomes the least integer.
func quantizeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, scale, zero := in[0], in[1], present(in, 2)
	dt, to := precisionOf(n), out.DType()
	eachScaled(n, x, scale, func(i, s int64) {
		quotient := loop.EvalBinary(loop.Div, dt, loop.EvalCast(dt, x.DType(), false, bitsOf(x, i)),
			loop.EvalCast(dt, scale.DType(), false, bitsOf(scale, s)))
		if to.IsFloat() {
			setBits(out, i, loop.EvalCast(to, dt, n.Attrs.Bool("wrap"), quotient))
			return
		}
		y := loop.ToFloat(dt, loop.EvalUnary(loop.Round, dt, quotient))
		if zero != nil {
			y += float64(zero.Int(s))
		}
		if y != y {
			y = float64(to.MinInt())
		}
		out.SetInt(i, int64(max(float64(to.MinInt()), min(float64(to.MaxInt()), y))))
	})
	return []*tensor.Tensor{out}, nil
}

// loadScaled loads a scale or a zero point, the node's input of that index, for the element at index at. A single known
// number becomes a constant.
func loadScaled(k *Nest, n *ir.Node, input int, at []sym.Expr) loop.Expr {
	m := k.In[input]
	block := sym.Const(n.Attrs.Int("block", 1))
	single := isOne(product(m.Shape)) && n.Attrs.Int("block", 0) == 0
	if c := n.Inputs[input].Const; single && c != nil && c.Len() == 1 && !c.Pending() {
		if m.DType.IsFloat() {
			return loop.Number(m.DType, c.Float(0))
		}
		return loop.Integer(m.DType, c.Int(0))
	}
	return m.Load(scaleAt(n, len(k.In[0].Shape), len(m.Shape), single, at, func(i sym.Expr) sym.Expr {
		return i.FloorDiv(block)
	})...)
}

// inType converts a number to another type; a constant stays a constant.
func inType(dt dtype.DType, x loop.Expr) loop.Expr {
	if c, ok := x.(*loop.Const); ok && c.Type != dt {
		return &loop.Const{Type: dt, Bits: loop.EvalCast(dt, c.Type, false, c.Bits)}
	}
	return loop.Convert(dt, x)
}

// fromLeast returns a zero point, in float type dt, as its distance from the least number of type to.
func fromLeast(dt, to dtype.DType, zero loop.Expr) loop.Expr {
	if c, ok := zero.(*loop.Const); ok {
		return loop.Number(dt, float64(loop.ToInt(to, c.Bits)-to.MinInt()))
	}
	zero = loop.Convert(dt, zero)
	if to.IsSigned() {
		zero = plus(zero, loop.Number(dt, -float64(to.MinInt())))
	}
	return zero
}

// quantizeMap clamps in floats and converts once at the end.
func quantizeMap(k *Nest, n *ir.Node) {
	x, zero, out := k.In[0], present(k.In, 2), k.Out[0]
	dt, to := precisionOf(n), out.DType
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		y := loop.Apply2(loop.Div, loop.Convert(dt, x.Load(at...)), inType(dt, loadScaled(k, n, 1, at)))
		if to.IsFloat() {
			k.Store(out, at, &loop.Cast{Type: to, X: y, Wrap: n.Attrs.Bool("wrap")})
			return
		}
		wide := dtype.F32
		if dt == dtype.F64 {
			wide = dt
		}
		// Signed numbers are counted from the least one, so that NaN, which clamps to 0, becomes the least.
		y = loop.Convert(wide, loop.Apply(loop.Round, y))
		switch {
		case zero != nil:
			y = plus(y, fromLeast(wide, to, loadScaled(k, n, 2, at)))
		case to.IsSigned():
			y = plus(y, loop.Number(wide, -float64(to.MinInt())))
		}
		y = loop.Apply2(loop.Max, loop.Number(wide, 0),
			loop.Apply2(loop.Min, loop.Number(wide, float64(int64(to.MaxInt())-to.MinInt())), y))
		if to.IsSigned() {
			y = loop.Apply2(loop.Add, loop.Convert(dtype.I32, y), loop.Integer(dtype.I32, to.MinInt()))
		}
		k.Store(out, at, loop.Convert(to, y))
	})
}

// dequantizeMean computes in f64 and rounds once.
func dequantizeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x, scale, zero := in[0], in[1], present(in, 2)
	eachScaled(n, x, scale, func(i, s int64) {
		v := x.Float(i)
		if zero != nil {
			v -= zero.Float(s)
		}
		out.SetFloat(i, v*scale.Float(s))
	})
	return []*tensor.Tensor{out}, nil
}

// dequantizeMap subtracts the zero point in integers wide enough for the input, then multiplies in floats.
func dequantizeMap(k *Nest, n *ir.Node) {
	x, zero, out := k.In[0], present(k.In, 2), k.Out[0]
	dt, wide := computing(out.DType), dtype.I32
	if x.DType.Bits() >= 32 {
		wide = dtype.I64
	}
	if x.DType.IsFloat() {
		wide = dt
	}
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		v := loop.Convert(wide, x.Load(at...))
		if zero != nil {
			v = minus(v, inType(wide, loadScaled(k, n, 2, at)))
		}
		y := times(loop.Convert(dt, v), inType(dt, loadScaled(k, n, 1, at)))
		k.Store(out, at, loop.Convert(out.DType, y))
	})
}

// quantizationSamples makes a case with and without a zero point for each way to share scales; x and zero make the
// operands of a shape.
func quantizationSamples(r *rand.Rand, from, to, real dtype.DType, attrs ir.Attrs,
	x func(shape ...int64) *tensor.Tensor, zero func(shape ...int64) *tensor.Tensor) []Sample {
	scales := func(shape ...int64) *tensor.Tensor {
		t := tensor.Must(tensor.New(real, shape...))
		for i := int64(0); i < t.Len(); i++ {
			t.SetFloat(i, 0.05+r.Float64())
		}
		return t
	}
	var out []Sample
	for _, form := range []struct {
		axis, block int64
		shape       []int64
	}{{1, 0, nil}, {1, 0, []int64{1}}, {1, 0, []int64{4}}, {-1, 0, []int64{6}}, {1, 2, []int64{3, 2, 6}},
		{2, 4, []int64{3, 4, 2}}} {
		a := ir.Attrs{"axis": form.axis, "block": form.block}
		for name, v := range attrs {
			a[name] = v
		}
		in := []*tensor.Tensor{x(3, 4, 6), scales(form.shape...)}
		out = append(out, Sample{Attrs: a, Inputs: append(in, zero(form.shape...))}, Sample{Attrs: a, Inputs: in[:2:2]})
	}
	return out
}

var quantizedTypes = []dtype.DType{dtype.U8, dtype.I8, dtype.U16, dtype.I16, dtype.U4, dtype.I4, dtype.U2, dtype.I2}

// quantizeSamples covers each integer type of at most 16 bits, values far outside its range among them, three small
// float types with and without wrap, and i32 divided in f16.
func quantizeSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, to := range quantizedTypes {
		dt := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16}[i%3]
		out = append(out, quantizationSamples(r, dt, to, dt, ir.Attrs{"to": to},
			func(shape ...int64) *tensor.Tensor {
				t := sampleNormal(r, dt, shape...)
				for i := int64(0); i < t.Len(); i += 2 {
					t.SetFloat(i, 40*t.Float(i))
				}
				return t
			},
			func(shape ...int64) *tensor.Tensor { return smallZeros(r, to, shape...) })...)
	}
	for _, to := range []dtype.DType{dtype.F8E4M3FN, dtype.F8E5M2, dtype.F4E2M1} {
		for _, wrap := range []bool{false, true} {
			out = append(out, Sample{Attrs: ir.Attrs{"to": to, "axis": int64(1), "wrap": wrap && to != dtype.F4E2M1},
				Inputs: []*tensor.Tensor{sampleFloats(r, dtype.F32, 2, 3, 4), tensor.Of[float32](0.5, 2, 0.001)}})
		}
	}
	return append(out, Sample{Attrs: ir.Attrs{"to": dtype.I8, "axis": int64(1), "precision": dtype.F16},
		Inputs: []*tensor.Tensor{sampleOf(r, dtype.I32, 5), tensor.Scalar[float32](0.7)}})
}

// smallZeros returns zero points of 0 and 1, which every integer type has.
func smallZeros(r *rand.Rand, dt dtype.DType, shape ...int64) *tensor.Tensor {
	t := tensor.Must(tensor.New(dt, shape...))
	for i := int64(0); i < t.Len(); i++ {
		t.SetInt(i, int64(r.Intn(2)))
	}
	return t
}

// dequantizeSamples covers i32, each integer type of at most 16 bits and three small float types.
func dequantizeSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, from := range append([]dtype.DType{dtype.I32}, quantizedTypes...) {
		to := []dtype.DType{dtype.F32, dtype.F16, dtype.BF16, dtype.F64}[i%4]
		out = append(out, quantizationSamples(r, from, to, to, ir.Attrs{"to": to},
			func(shape ...int64) *tensor.Tensor { return sampleIntegers(r, from, shape...) },
			func(shape ...int64) *tensor.Tensor { return smallZeros(r, from, shape...) })...)
	}
	for _, from := range []dtype.DType{dtype.F8E4M3FN, dtype.F8E5M2FNUZ, dtype.F4E2M1} {
		out = append(out, Sample{Attrs: ir.Attrs{"to": dtype.F32, "axis": int64(1)},
			Inputs: []*tensor.Tensor{sampleNormal(r, from, 2, 3, 4), tensor.Of[float32](0.5, 2, 3)}})
	}
	return out
}

// dequantizeGrad returns, by the scale, the elements' distance from the zero point times the derivative, summed over
// the elements that share a scale; by elements that are floats themselves, the scale times the derivative.
func dequantizeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b, x, scale, to := g.Builder, n.Inputs[0], n.Inputs[1], n.Attrs.DType("to")
	g.through(up, func() []*ir.Value {
		y := Cast(b, x, to)
		if zero := input(n, 2); zero != nil {
			y = Binary(b, loop.Sub, y, g.shared(n, Cast(b, zero, to)))
		}
		return []*ir.Value{g.mul(y, g.shared(n, Cast(b, scale, to)))}
	})
	return make([]*ir.Value, len(n.Inputs))
}

// shared reshapes scales or zero points, or gathers them, so that they broadcast to the elements.
func (g *Gradients) shared(n *ir.Node, v *ir.Value) *ir.Value {
	shape := n.Inputs[0].Type.Shape
	axis, err := axisOf(n, n.Attrs.Int("axis", 1), max(len(shape), 1))
	block := n.Attrs.Int("block", 0)
	switch {
	case isOne(product(v.Type.Shape)):
		return Reshape(g.Builder, v)
	case err != nil:
		g.Fail(err)
	case block > 0:
		at := Binary(g.Builder, loop.Div, Counting(g.Builder, dtype.I64, shape[axis]), g.integer(sym.Const(block)))
		return Gather(g.Builder, v, at, int64(axis))
	}
	return AlongAxis(g.Builder, v, axis, len(shape))
}
