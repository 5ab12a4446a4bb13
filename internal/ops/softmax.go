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

func init() {
	define(&Def{Op: "softmax", Last: axisLast, Narrow: alongParts("axis"), Linear: true, Recompute: InPieces,
		NotNegative: neverNegative, rows: rowRule{axes: softmaxAxes}, Shape: softmaxShape, Grad: softmaxGrad,
		Samples: softmaxSamples, Mean: softmaxMean(func(dt dtype.DType, x, total float64) float64 {
			return shareOf(dt, x) / total
		}),
		Lowerings: []Lowering{{Name: "rows", Build: softmaxRows}}})
	define(&Def{Op: "log_softmax", Last: axisLast, Narrow: alongParts("axis"), Linear: true, Recompute: InPieces,
		rows: rowRule{axes: softmaxAxes}, Shape: softmaxShape, Grad: logSoftmaxGrad, Samples: softmaxSamples,
		Mean: softmaxMean(func(_ dtype.DType, x, total float64) float64 {
			return x - loop.Logarithm(total)
		}),
		Lowerings: []Lowering{{Name: "rows", Build: logSoftmaxRows}}})
}

// Softmax makes the elements along an axis positive with sum 1: exp(x − max) / Σ exp(x − max). An exponential that is
// no normal number counts as 0.
func Softmax(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return b.Op("softmax", ir.Attrs{"axis": axis}, x)
}

// LogSoftmax is the logarithm of Softmax.
func LogSoftmax(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return b.Op("log_softmax", ir.Attrs{"axis": axis}, x)
}

func softmaxShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 1, 1); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	if !x.DType.IsFloat() {
		return fault(n, "elements of type %s", x.DType)
	}
	if _, err := axisOf(n, n.Attrs.Int("axis", -1), len(x.Shape)); err != nil {
		return err
	}
	n.Result(0, x)
	return nil
}

func softmaxMean(last func(dt dtype.DType, x, total float64) float64) func(*ir.Evaluation, *ir.Node,
	[]*tensor.Tensor) ([]*tensor.Tensor, error) {
	return func(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		out, err := result(e, n, 0)
		if err != nil {
			return nil, err
		}
		x, dt := in[0], computing(in[0].DType())
		axis, _ := axisOf(n, n.Attrs.Int("axis", -1), x.Rank())
		extent, step := x.Shape()[axis], tensor.Strides(x.Shape())[axis]
		rows := append([]int64{}, x.Shape()...)
		rows[axis] = min(extent, 1)
		tensor.Each(rows, func(at []int64) {
			begin, top, total := tensor.Offset(tensor.Strides(x.Shape()), at), math.Inf(-1), 0.0
			for k := int64(0); k < extent; k++ {
				top = max(top, x.Float(begin+k*step))
			}
			for k := int64(0); k < extent; k++ {
				total += shareOf(dt, x.Float(begin+k*step)-top)
			}
			for k := int64(0); k < extent; k++ {
				out.SetFloat(begin+k*step, last(dt, x.Float(begin+k*step)-top, total))
			}
		})
		return []*tensor.Tensor{out}, nil
	}
}

// softmaxRow is a row of a softmax's operand, less its greatest element, as it is computed.
type softmaxRow struct {
	at     func(j sym.Expr) []sym.Expr
	value  func(j sym.Expr) loop.Expr
	extent sym.Expr
}

// softmaxEach writes the loops over rows; write writes what is made of each.
func softmaxEach(k *Nest, n *ir.Node, write func(r softmaxRow, dt dtype.DType)) {
	x := k.In[0]
	axis, _ := axisOf(n, n.Attrs.Int("axis", -1), len(x.Shape))
	extent := x.Shape[axis]
	rows := append(append([]sym.Expr{}, x.Shape[:axis]...), x.Shape[axis+1:]...)
	dt := computing(x.DType)
	k.Nest(loop.Each, "i", rows, func(row []sym.Expr) {
		at := func(j sym.Expr) []sym.Expr {
			return append(append(append([]sym.Expr{}, row[:axis]...), j), row[axis:]...)
		}
		load := func(j sym.Expr) loop.Expr { return loop.Convert(dt, x.Load(at(j)...)) }
		top := k.Var("top", loop.Lowest(dt))
		k.Serial("k", extent, func(j sym.Expr) { k.Reduce(top, loop.Max, load(j)) })
		write(softmaxRow{at, func(j sym.Expr) loop.Expr { return loop.Apply2(loop.Sub, load(j), top) }, extent}, dt)
	})
}

// softmaxRows keeps the exponentials where the result goes, if that holds them as they are computed: each is computed
// once then.
func softmaxRows(k *Nest, n *ir.Node) {
	out := k.Out[0]
	softmaxEach(k, n, func(r softmaxRow, dt dtype.DType) {
		kept := out.DType == dt
		part := func(j sym.Expr) loop.Expr { return share(r.value(j)) }
		if kept {
			k.Each("k", r.extent, func(j sym.Expr) { k.Store(out, r.at(j), share(r.value(j))) })
			part = func(j sym.Expr) loop.Expr { return out.Load(r.at(j)...) }
		}
		total := k.Var("total", loop.Number(dt, 0))
		k.Serial("k", r.extent, func(j sym.Expr) { k.Reduce(total, loop.Add, part(j)) })
		factor := k.Let("factor", loop.Apply(loop.Reciprocal, total))
		k.Each("k", r.extent, func(j sym.Expr) {
			k.Store(out, r.at(j), loop.Convert(out.DType, times(part(j), factor)))
		})
	})
}

func logSoftmaxRows(k *Nest, n *ir.Node) {
	out := k.Out[0]
	softmaxEach(k, n, func(r softmaxRow, dt dtype.DType) {
		total := k.Var("total", loop.Number(dt, 0))
		k.Serial("k", r.extent, func(j sym.Expr) { k.Reduce(total, loop.Add, share(r.value(j))) })
		log := k.Let("log", loop.Apply(loop.Log, total))
		k.Each("k", r.extent, func(j sym.Expr) {
			k.Store(out, r.at(j), loop.Convert(out.DType, loop.Apply2(loop.Sub, r.value(j), log)))
		})
	})
}

// share is exp(x) of a difference from the greatest, x ≤ 0, or 0 if that is no normal number: it would add nothing to a
// sum of at least 1, and processors take a hundred times as long for products with it. Masks of −100 make many.
func share(x loop.Expr) loop.Expr {
	dt := x.DType()
	return loop.Choose(loop.Apply2(loop.Lt, x, loop.Number(dt, leastShare(dt))), loop.Number(dt, 0),
		loop.Apply(loop.Exp, x))
}

// shareOf is share of a number.
func shareOf(dt dtype.DType, x float64) float64 {
	if x < leastShare(dt) {
		return 0
	}
	return math.Exp(x)
}

// leastShare is the least number whose exponential is taken for a share that is computed in a type.
func leastShare(dt dtype.DType) float64 {
	if dt == dtype.F64 {
		return -708.39 // exp of it is just above 2⁻¹⁰²²
	}
	return float64(float32(-87.33)) // 2⁻¹²⁶
}

// computing is the type in which a lowering computes on floats of type dt: f32 for narrower ones.
func computing(dt dtype.DType) dtype.DType {
	if dt.IsFloat() && dt.Bits() < 32 {
		return dtype.F32
	}
	return dt
}

func softmaxSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, dt := range floatTypes {
		for _, axis := range []int64{-1, 0, 1} {
			out = append(out, Sample{Attrs: ir.Attrs{"axis": axis}, Inputs: []*tensor.Tensor{sampleNormal(r, dt, 3, 4, 5)}})
		}
	}
	for _, shape := range [][]int64{{2, 0}, {0, 3}, {4, 1}, {7}} {
		out = append(out, Sample{Attrs: ir.Attrs{"axis": int64(-1)},
			Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F32, shape...)}})
	}
	masked := sampleNormal(r, dtype.F32, 4, 6)
	for i := int64(0); i < 20; i += 3 {
		masked.SetFloat(i, math.Inf(-1))
	}
	far := sampleNormal(r, dtype.F32, 3, 40) // shares around the least normal number
	for i := int64(1); i < far.Len(); i += 2 {
		far.SetFloat(i, far.Float(i)-80-float64(i%30))
	}
	return append(out, Sample{Attrs: ir.Attrs{"axis": int64(1)}, Inputs: []*tensor.Tensor{masked}},
		Sample{Attrs: ir.Attrs{"axis": int64(1)}, Inputs: []*tensor.Tensor{far}})
}

func softmaxGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	y := n.Outputs[0]
	weighted := g.mul(up[0], y)
	return []*ir.Value{g.sub(weighted, g.mul(y, g.sum(weighted, n.Attrs.Int("axis", -1))))}
}

func logSoftmaxGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	share := g.f(loop.Exp, n.Outputs[0])
	return []*ir.Value{g.sub(up[0], g.mul(share, g.sum(up[0], n.Attrs.Int("axis", -1))))}
}

// softmaxAxes: rows along another axis than its own.
func softmaxAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	along := n.Attrs.Int("axis", -1)
	if along < 0 {
		along += int64(len(n.Outputs[0].Type.Shape))
	}
	in[0] = axis
	return len(n.Inputs) == 1 && int64(axis) != along
}
