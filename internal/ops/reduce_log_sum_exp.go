package ops

import (
	"math"
	"math/rand"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator reduce_log_sum_exp.
func init() {
	shape := reduction{accepts: floats, before: square}.shape // with before, elements are never known
	define(&Def{Op: "reduce_log_sum_exp", Last: reducedLast, Narrow: reducedNarrow, Linear: true, rows: reducedRows,
		Shape: shape, Mean: logSumExpMean, Samples: logSumExpSamples, Grad: logSumExpGrad,
		Lowerings: []Lowering{{Name: "rows", Build: logSumExpRows}}})
}

// ReduceLogSumExp returns log Σ exp(x) along axes. It subtracts the greatest element first, so that nothing overflows.
// Without elements the result is −∞.
func ReduceLogSumExp(b *ir.Builder, x *ir.Value, keep bool, axes ...int64) *ir.Value {
	return reduce(b, "reduce_log_sum_exp", x, keep, axes)
}

// logSumExpMean computes in f64.
func logSumExpMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out, err := result(e, n, 0)
	if err != nil {
		return nil, err
	}
	x := in[0]
	axes, keep, err := reducedAxes(e, n, x.Shape())
	if err != nil {
		return nil, err
	}
	inner := make([]int64, len(axes))
	for i, a := range axes {
		inner[i] = x.Shape()[a]
	}
	strides, flat := tensor.Strides(x.Shape()), int64(0)
	tensor.Each(out.Shape(), func(at []int64) {
		each := func(visit func(v float64)) {
			tensor.Each(inner, func(k []int64) {
				visit(x.Float(tensor.Offset(strides, reducedIndex(x.Rank(), axes, keep, at, k))))
			})
		}
		top, total := math.Inf(-1), 0.0
		each(func(v float64) { top = max(top, v) })
		if math.IsInf(top, 0) {
			top = 0 // an infinity cannot be subtracted
		}
		each(func(v float64) { total += math.Exp(v - top) })
		out.SetFloat(flat, loop.Logarithm(total)+top)
		flat++
	})
	return []*tensor.Tensor{out}, nil
}

// logSumExpRows makes two passes over each row: the maximum, and the sum of exponentials.
func logSumExpRows(k *Nest, n *ir.Node) {
	x, out := k.In[0], k.Out[0]
	inner, index := reducedLoops(n, x.Shape)
	dt := computing(x.DType)
	k.Nest(loop.Each, "i", out.Shape, func(at []sym.Expr) {
		load := func(inside []sym.Expr) loop.Expr { return loop.Convert(dt, x.Load(index(at, inside)...)) }
		greatest := k.Var("greatest", loop.Lowest(dt))
		k.Nest(loop.Serial, "k", inner, func(inside []sym.Expr) { k.Reduce(greatest, loop.Max, load(inside)) })
		top := k.Let("top", loop.Choose(loop.Apply(loop.IsInf, greatest), loop.Number(dt, 0), greatest))
		total := k.Var("total", loop.Number(dt, 0))
		k.Nest(loop.Serial, "k", inner, func(inside []sym.Expr) {
			k.Reduce(total, loop.Add, loop.Share(minus(load(inside), top)))
		})
		k.Store(out, at, loop.Convert(out.DType, plus(loop.Apply(loop.Log, total), top)))
	})
}

// logSumExpSamples are the samples of reductions on floats, and one with infinities and NaN.
func logSumExpSamples(r *rand.Rand) []Sample {
	out := reduction{accepts: floats}.samples(r)
	kept := out[:0]
	for _, s := range out {
		if s.Inputs[0].DType().IsFloat() {
			kept = append(kept, s)
		}
	}
	return append(kept, Sample{Attrs: ir.Attrs{"axes": []int64{0}},
		Inputs: []*tensor.Tensor{sampleFloats(r, floatTypes[0], 4, 9)}})
}

// logSumExpGrad weights the derivative by exp(x − y), the elements' shares in the sum.
func logSumExpGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	share := g.f(loop.Exp, g.sub(n.Inputs[0], g.repeated(n, n.Outputs[0])))
	return []*ir.Value{g.mul(share, g.repeated(n, up[0]))}
}
