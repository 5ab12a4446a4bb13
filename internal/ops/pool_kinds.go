package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// poolIndicesShape gives the indices the shape of the pooled result, in i64.
func poolIndicesShape(c *ir.Inference, n *ir.Node) error {
	if err := poolShape(c, n); err != nil {
		return err
	}
	n.Result(1, ir.Type{DType: dtype.I64, Shape: n.Outputs[0].Type.Shape})
	return nil
}

// poolStrides returns the step by which max_pool_indices counts along each axis, in elements.
func poolStrides(shape []sym.Expr, columns bool) []sym.Expr {
	strides := make([]sym.Expr, len(shape))
	step := one
	for i := len(shape) - 1; i >= 2; i-- {
		strides[i] = step
		step = step.Mul(shape[i])
	}
	strides[1], strides[0] = step, step.Mul(shape[1])
	if columns {
		step = one
		for i := 2; i < len(shape); i++ {
			strides[i] = step
			step = step.Mul(shape[i])
		}
	}
	return strides
}

// poolIndicesMean keeps the first largest element of each window, or the first NaN; a window without elements has index
// −1.
func poolIndicesMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	x := in[0]
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	indices, err := result(e, n, 1)
	if err != nil {
		return nil, err
	}
	steps, _ := constants(poolStrides(ir.Constants(x.Shape()), n.Attrs.Bool("columns")))
	best, where := math.NaN(), int64(-1)
	at := make([]int64, x.Rank())
	err = poolEach(e, n, x, out, func() { where = -1 },
		func(i int64) {
			if v := x.Float(i); where < 0 || v > best || v != v && best == best {
				best, where = v, i
			}
		},
		func(to, _ int64) {
			if where < 0 {
				setBits(out, to, loop.Lowest(out.DType()).Bits)
				indices.SetInt(to, -1)
				return
			}
			moveElement(out, to, x, where)
			tensor.Unravel(where, x.Shape(), at)
			indices.SetInt(to, tensor.Offset(steps, at))
		})
	return []*tensor.Tensor{out, indices}, err
}

// poolIndicesWindow keeps the best element and its index in two variables as it scans the window.
func poolIndicesWindow(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	w, _ := windowOf(n, len(x.Shape)-2)
	steps := poolStrides(x.Shape, n.Attrs.Bool("columns"))
	k.Nest(loop.Each, "o", out.Shape, func(o []sym.Expr) {
		best, where := k.Var("best", loop.Lowest(x.DType)), k.Var("where", loop.Integer(dtype.I64, -1))
		k.Nest(loop.Serial, "k", ir.Constants(w.Kernel), func(at []sym.Expr) {
			from := append([]sym.Expr{}, o[:2]...)
			index := o[0].Mul(steps[0]).Add(o[1].Mul(steps[1]))
			var mask loop.Expr
			for i := range at {
				p := w.Source(i, o[2+i], at[i])
				from, index = append(from, p), index.Add(p.Mul(steps[2+i]))
				mask = loop.Both(mask, loop.Inside(p, sym.Const(0), x.Shape[2+i]))
			}
			value := k.Let("value", x.LoadIf(mask, loop.Lowest(x.DType), from...))
			better := loop.Apply2(loop.Or, less(best, value), less(where, loop.Integer(dtype.I64, 0)))
			if x.DType.IsFloat() {
				better = loop.Apply2(loop.Or, better, loop.Apply2(loop.And, loop.Apply2(loop.Ne, value, value),
					loop.Apply2(loop.Eq, best, best)))
			}
			better = k.Let("better", loop.Apply2(loop.And, mask, better))
			k.Set(best, loop.Choose(better, value, best))
			k.Set(where, loop.Choose(better, loop.At(index), where))
		})
		k.Store(out, o, best)
		k.Store(k.Out[1], o, where)
	})
}

// lpPoolMean sums the powers in f64.
func lpPoolMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	p, total := float64(n.Attrs.Int("p", 2)), 0.0
	err = poolEach(e, n, in[0], out, func() { total = 0 },
		func(at int64) { total += math.Pow(math.Abs(in[0].Float(at)), p) },
		func(to, _ int64) { out.SetFloat(to, math.Pow(total, 1/p)) })
	return []*tensor.Tensor{out}, err
}

// lpPoolWindow sums |x|ᵖ over each window and stores the p-th root.
func lpPoolWindow(k *Nest, n *ir.Node) {
	var total *loop.Ref
	x, p := k.In[0], n.Attrs.Int("p", 2)
	dt := computing(x.DType)
	poolNest(k, n, loop.Number(x.DType, 0), func([]sym.Expr) { total = k.Var("total", loop.Number(dt, 0)) },
		func(value loop.Expr) { k.Reduce(total, loop.Add, powerOf(loop.Convert(dt, value), p)) },
		func(o []sym.Expr) { k.Store(k.Out[0], o, loop.Convert(x.DType, rootOf(total, p))) })
}

// powerOf returns |x|ᵖ, without a power function for p = 1 and 2.
func powerOf(x loop.Expr, p int64) loop.Expr {
	switch p {
	case 1:
		return absolute(x)
	case 2:
		return square(x)
	}
	return loop.Apply2(loop.Pow, absolute(x), like(x, float64(p)))
}

// rootOf returns the p-th root of x, without a power function for p = 1 and 2.
func rootOf(x loop.Expr, p int64) loop.Expr {
	switch p {
	case 1:
		return x
	case 2:
		return throughFloat(loop.Sqrt, x)
	}
	return loop.Apply2(loop.Pow, x, like(x, 1/float64(p)))
}

// sampleWindows are windows over two axes: without padding, padded, dilated, with strides, and with a last window that
// extends beyond the end.
var sampleWindows = []Window{
	{Kernel: []int64{2, 3}, Strides: []int64{1, 1}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{0, 0}),
		End: ir.Constants([]int64{0, 0})},
	{Kernel: []int64{3, 3}, Strides: []int64{2, 2}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{1, 1}),
		End: ir.Constants([]int64{1, 1})},
	{Kernel: []int64{2, 2}, Strides: []int64{1, 3}, Dilations: []int64{2, 3}, Begin: ir.Constants([]int64{0, 2}),
		End: ir.Constants([]int64{1, 0})},
	{Kernel: []int64{3, 2}, Strides: []int64{2, 2}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{1, 0}),
		End: ir.Constants([]int64{2, 0})},
	{Kernel: []int64{2, 3}, Strides: []int64{2, 3}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{0, 0}),
		End: ir.Constants([]int64{0, 0})},
	{Kernel: []int64{1, 1}, Strides: []int64{1, 1}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{0, 0}),
		End: ir.Constants([]int64{0, 0})},
	{Kernel: []int64{1, 1}, Strides: []int64{2, 2}, Dilations: []int64{1, 1}, Begin: ir.Constants([]int64{0, 0}),
		End: ir.Constants([]int64{0, 0})},
}

// windowSamples applies every sample window, with and without ceil, to inputs of some types, and one window each over
// one axis and over three. make1 makes an input; more are attributes for all.
func windowSamples(types []dtype.DType, make1 func(dt dtype.DType, shape ...int64) *tensor.Tensor,
	more ir.Attrs) []Sample {
	var out []Sample
	for i, w := range sampleWindows {
		for _, ceil := range []bool{false, true} {
			attrs := w.Attrs()
			attrs["ceil"] = ceil
			for name, value := range more {
				attrs[name] = value
			}
			for j, dt := range types {
				if i > 1 && j > 0 {
					continue
				}
				out = append(out, Sample{Attrs: attrs, Inputs: []*tensor.Tensor{make1(dt, 2, 2, 7, 6)}})
			}
		}
	}
	line := Window{Kernel: []int64{3}, Strides: []int64{2}, Dilations: []int64{1}, Begin: ir.Constants([]int64{1}),
		End: ir.Constants([]int64{0})}.Attrs()
	cube := Window{Kernel: []int64{2, 1, 3}, Strides: []int64{1, 2, 1}, Dilations: []int64{1, 1, 1},
		Begin: ir.Constants([]int64{1, 0, 1}), End: ir.Constants([]int64{0, 0, 1})}.Attrs()
	for name, value := range more {
		line[name], cube[name] = value, value
	}
	return append(out, Sample{Attrs: line, Inputs: []*tensor.Tensor{make1(types[0], 1, 3, 8)}},
		Sample{Attrs: line, Inputs: []*tensor.Tensor{make1(types[0], 0, 3, 8)}},
		Sample{Attrs: line, Inputs: []*tensor.Tensor{make1(types[0], 2, 3, 1)}}, // the window fits nowhere
		Sample{Attrs: cube, Inputs: []*tensor.Tensor{make1(types[0], 1, 2, 4, 3, 5)}})
}

// poolSamples covers bytes and floats, and floats with infinities and NaN, with channels first and last.
func poolSamples(r *rand.Rand) []Sample {
	return withLast(append(windowSamples(append([]dtype.DType{dtype.U8, dtype.I8}, floatTypes...),
		func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			return sampleOf(r, dt, shape...)
		}, nil),
		windowSamples(floatTypes[:1], func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			return sampleFloats(r, dt, shape...)
		}, nil)...), false)
}

// poolIndicesSamples covers three types, with the indices counted along rows and along columns.
func poolIndicesSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, columns := range []bool{false, true} {
		out = append(out, windowSamples([]dtype.DType{dtype.F32, dtype.U8, dtype.F16},
			func(dt dtype.DType, shape ...int64) *tensor.Tensor {
				if dt.IsFloat() {
					return sampleFloats(r, dt, shape...)
				}
				return sampleOf(r, dt, shape...)
			}, ir.Attrs{"columns": columns})...)
	}
	return out
}

// averagePoolSamples covers the float types, with padding counted and not, channels first and last.
func averagePoolSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, padded := range []bool{false, true} {
		out = append(out, windowSamples(floatTypes, func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			return sampleNormal(r, dt, shape...)
		}, ir.Attrs{"padded": padded})...)
	}
	return withLast(out, false)
}

// lpPoolSamples covers p = 1, 2 and 3.
func lpPoolSamples(r *rand.Rand) []Sample {
	var out []Sample
	for p := int64(1); p < 4; p++ {
		out = append(out, windowSamples(floatTypes, func(dt dtype.DType, shape ...int64) *tensor.Tensor {
			return sampleNormal(r, dt, shape...)
		}, ir.Attrs{"p": p})...)
	}
	return withLast(out, false)
}
