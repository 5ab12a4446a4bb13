package ops

import (
	"math"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator normalize.
func init() {
	define(&Def{Op: "normalize", Last: normalizeLast, Narrow: alongNarrow("axes"), Linear: true,
		Recompute: InPieces | Backward, rows: rowRule{axes: normalizeAxes}, Shape: normalizeShape, Mean: normalizeMean,
		Samples: normalizeSamples, Grad: normalizeGrad,
		Lowerings: []Lowering{{Name: "rows", Build: normalizeRows}}})
}

// Normalize scales the elements along axes, together, to mean 0 and variance 1: (x − mean) / √(variance + epsilon).
// Without centered the mean is taken to be 0: x / √(mean of x² + epsilon). Layer, group, instance and root-mean-square
// normalisation are this and a scale and shift.
func Normalize(b *ir.Builder, x *ir.Value, epsilon float64, centered bool, axes ...int64) *ir.Value {
	return b.Op("normalize", ir.Attrs{"axes": axes, "epsilon": epsilon, "centered": centered}, x)
}

// NormalizeGroups is Normalize of x, [N, d…, C], over all positions and groups of each channels. Sums are taken for
// each channel first.
func NormalizeGroups(b *ir.Builder, x *ir.Value, groups, each int64, epsilon float64, centered bool) *ir.Value {
	rank := len(x.Type.Shape)
	var spatial []int64
	for i := 1; i < rank-1; i++ {
		spatial = append(spatial, int64(i))
	}
	split := []sym.Expr{x.Type.Shape[0], sym.Const(groups), sym.Const(each)}
	wide := slices.Repeat([]sym.Expr{one}, rank)
	wide[0], wide[rank-1] = x.Type.Shape[0], x.Type.Shape[rank-1]
	mean := func(v *ir.Value) *ir.Value {
		return ReduceMean(b, Reshape(b, ReduceMean(b, v, true, spatial...), split...), true, 2)
	}
	channelwise := func(v *ir.Value) *ir.Value { return Reshape(b, Expand(b, v, split...), wide...) }
	if centered {
		x = Binary(b, loop.Sub, x, channelwise(mean(x)))
	}
	variance := Binary(b, loop.Add, mean(Binary(b, loop.Mul, x, x)), Scalar(b, x.Type.DType, epsilon))
	return Binary(b, loop.Mul, x, channelwise(Unary(b, loop.Reciprocal, Unary(b, loop.Sqrt, variance))))
}

// normalizeShape requires one input of floats, whose type the result has.
func normalizeShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !x.DType.IsFloat() {
		return fault(n, "elements of type %s", x.DType)
	}
	if _, err := axesOf(n, n.Attrs.Ints("axes"), len(x.Shape)); err != nil {
		return err
	}
	n.Result(0, ir.Type{DType: x.DType, Shape: x.Shape})
	return nil
}

// normalizeMean takes mean and variance in f64, in two passes over each group of elements.
func normalizeMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axes, err := axesOf(n, n.Attrs.Ints("axes"), x.Rank())
	if err != nil {
		return nil, err
	}
	outer, inner, count := append([]int64{}, x.Shape()...), make([]int64, len(axes)), int64(1)
	for i, a := range axes {
		inner[i], outer[a] = outer[a], 1
		count *= inner[i]
	}
	if count == 0 {
		return []*tensor.Tensor{out}, nil
	}
	strides := tensor.Strides(x.Shape())
	tensor.Each(outer, func(at []int64) {
		begin := tensor.Offset(strides, at)
		each := func(visit func(i int64)) {
			tensor.Each(inner, func(k []int64) {
				i := begin
				for j, a := range axes {
					i += k[j] * strides[a]
				}
				visit(i)
			})
		}
		mean, variance := 0.0, 0.0
		if n.Attrs.Bool("centered") {
			each(func(i int64) { mean += x.Float(i) })
			mean /= float64(count)
		}
		each(func(i int64) { variance += (x.Float(i) - mean) * (x.Float(i) - mean) })
		scale := math.Sqrt(variance/float64(count) + n.Attrs.Float("epsilon", 0))
		each(func(i int64) { out.SetFloat(i, (x.Float(i)-mean)/scale) })
	})
	return []*tensor.Tensor{out}, nil
}

// normalizeRows makes three passes over each group of elements: the sum, if the node centres, the sum of squares, and
// the results.
func normalizeRows(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	axes, _ := axesOf(n, n.Attrs.Ints("axes"), len(x.Shape))
	inner := extentsOf(x.Shape, axes)
	kept := []sym.Expr{}
	for i, next := 0, 0; i < len(x.Shape); i++ {
		if next < len(axes) && axes[next] == i {
			next++
			continue
		}
		kept = append(kept, x.Shape[i])
	}
	dt := computing(x.DType)
	k.Nest(loop.Each, "i", kept, func(row []sym.Expr) {
		index := func(at []sym.Expr) []sym.Expr { return reducedIndex(len(x.Shape), axes, false, row, at) }
		load := func(at []sym.Expr) loop.Expr { return loop.Convert(dt, x.Load(index(at)...)) }
		centre := load
		if n.Attrs.Bool("centered") {
			total := k.Var("total", loop.Number(dt, 0))
			k.Nest(loop.Serial, "k", inner, func(at []sym.Expr) { k.Reduce(total, loop.Add, load(at)) })
			mean := k.Let("mean", meanOf(total, product(inner)))
			centre = func(at []sym.Expr) loop.Expr { return minus(load(at), mean) }
		}
		squares := k.Var("squares", loop.Number(dt, 0))
		k.Nest(loop.Serial, "k", inner, func(at []sym.Expr) { k.Reduce(squares, loop.Add, square(centre(at))) })
		variance := plus(meanOf(squares, product(inner)), loop.Number(dt, n.Attrs.Float("epsilon", 0)))
		scale := k.Let("scale", loop.Apply(loop.Reciprocal, loop.Apply(loop.Sqrt, variance)))
		k.Nest(loop.Each, "k", inner, func(at []sym.Expr) {
			k.Store(out, index(at), loop.Convert(out.DType, times(centre(at), scale)))
		})
	})
}

// normalizeSamples covers one axis, two, a negative one and none, each float type, centred or not, and shapes with
// extents of 0 and 1.
func normalizeSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, dt := range floatTypes {
		for _, axes := range [][]int64{{2}, {-1, 1}, {0}, {}} {
			out = append(out, Sample{Attrs: ir.Attrs{"axes": axes, "epsilon": 1e-3, "centered": i%2 == 0},
				Inputs: []*tensor.Tensor{sampleNormal(r, dt, 2, 3, 5)}})
		}
	}
	for _, shape := range [][]int64{{2, 0}, {0, 3}, {4, 1}} {
		out = append(out, Sample{Attrs: ir.Attrs{"axes": []int64{1}, "epsilon": 1e-5, "centered": true},
			Inputs: []*tensor.Tensor{sampleNormal(r, floatTypes[0], shape...)}})
	}
	return out
}

// BatchNorm scales and shifts x for each channel (axis 1) by the given statistics: (x − mean) / √(variance + epsilon) ·
// scale + shift. If these are constants, they fold into one factor and one summand for each channel.
func BatchNorm(b *ir.Builder, x, scale, shift, mean, variance *ir.Value, epsilon float64) *ir.Value {
	dt := scale.Type.DType
	factor := Binary(b, loop.Div, scale, Unary(b, loop.Sqrt,
		Binary(b, loop.Add, Cast(b, variance, dt), Scalar(b, dt, epsilon))))
	summand := Binary(b, loop.Sub, shift, Binary(b, loop.Mul, Cast(b, mean, dt), factor))
	return ScaleShift(b, x, 1, Cast(b, factor, x.Type.DType), Cast(b, summand, x.Type.DType))
}

// ScaleShift returns x · scale + shift (nil: no shift). Axis 0 of scale and shift meets the given axis of x; axes that
// they lack at the end are broadcast.
func ScaleShift(b *ir.Builder, x *ir.Value, axis int, scale, shift *ir.Value) *ir.Value {
	along := func(v *ir.Value) *ir.Value {
		return BroadcastTo(b, AlongAxis(b, v, axis, len(x.Type.Shape)), x.Type.Shape...)
	}
	y := Binary(b, loop.Mul, x, along(scale))
	if shift != nil {
		y = Binary(b, loop.Add, y, along(shift))
	}
	return y
}

// AlongAxis reshapes v so that its first axis meets the given axis of a tensor of that rank in a broadcast.
func AlongAxis(b *ir.Builder, v *ir.Value, axis, rank int) *ir.Value {
	shape := append([]sym.Expr{}, v.Type.Shape...)
	for len(shape)+axis < rank {
		shape = append(shape, one)
	}
	if len(shape) == len(v.Type.Shape) {
		return v
	}
	return Reshape(b, v, shape...)
}

// normalizeGrad returns s·(u − mean of u − y·mean of u·y) for y = (x − mean)·s and the derivative u by y.
func normalizeGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	x, y, u := n.Inputs[0], n.Outputs[0], up[0]
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(x.Type.Shape))
	if err != nil {
		g.Fail(err)
	}
	along := make([]int64, len(axes))
	for i, axis := range axes {
		along[i] = int64(axis)
	}
	mean := func(v *ir.Value) *ir.Value { return ReduceMean(g.Builder, v, true, along...) }
	d := g.sub(u, g.mul(y, mean(g.mul(u, y))))
	if n.Attrs.Bool("centered") {
		d, x = g.sub(d, mean(u)), g.sub(x, mean(x))
	}
	variance := g.above(mean(g.mul(x, x)), n.Attrs.Float("epsilon", 0))
	return []*ir.Value{g.mul(d, g.f(loop.Reciprocal, g.f(loop.Sqrt, variance)))}
}

// normalizeAxes allows pieces of each axis that is not normalised.
func normalizeAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	axes, err := axesOf(n, n.Attrs.Ints("axes"), len(n.Inputs[0].Type.Shape))
	in[0] = axis
	return err == nil && len(n.Inputs) == 1 && !slices.Contains(axes, axis)
}

// normalizeLast renumbers the axes for images with their channels last.
func normalizeLast(_ *sym.Dims, n *ir.Node) *LastForm {
	if imageRank(n) == 0 {
		return nil
	}
	return imageFirst(n, ir.Attrs{"axes": AxesLast(n)})
}
