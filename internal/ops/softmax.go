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

// init defines the operators softmax and log_softmax.
func init() {
	define(&Def{Op: "softmax", Last: axisLast, Narrow: alongNarrow("axis"), Linear: true, Recompute: InPieces,
		NotNegative: neverNegative, rows: rowRule{axes: softmaxAxes}, Shape: softmaxShape, Grad: softmaxGrad,
		Samples: softmaxSamples, Mean: softmaxMean(func(dt dtype.DType, x, total float64) float64 {
			return shareOf(dt, x) / total
		}),
		Lowerings: []Lowering{{Name: "rows", Build: softmaxRows}}})
	define(&Def{Op: "log_softmax", Last: axisLast, Narrow: alongNarrow("axis"), Linear: true, Recompute: InPieces,
		rows: rowRule{axes: softmaxAxes}, Shape: softmaxShape, Grad: logSoftmaxGrad, Samples: softmaxSamples,
		Mean: softmaxMean(func(_ dtype.DType, x, total float64) float64 {
			return x - loop.Logarithm(total)
		}),
		Lowerings: []Lowering{{Name: "rows", Build: logSoftmaxRows}}})
}

// Softmax returns exp(x − max) / Σ exp(x − max) along an axis: positive elements with sum 1. An exponential below the
// least normal number counts as 0.
func Softmax(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return b.Op("softmax", ir.Attrs{"axis": axis}, x)
}

// LogSoftmax returns the logarithm of Softmax.
func LogSoftmax(b *ir.Builder, x *ir.Value, axis int64) *ir.Value {
	return b.Op("log_softmax", ir.Attrs{"axis": axis}, x)
}

// softmaxShape requires one input of floats and an axis of it.
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

// softmaxMean returns a reference that passes each element less the row's maximum, and the sum of the row's
// exponentials, to last.
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

// softmaxRow is a row of a softmax's operand. value returns element j less the row's maximum, at its index in the
// tensor.
type softmaxRow struct {
	at     func(j sym.Expr) []sym.Expr
	value  func(j sym.Expr) loop.Expr
	extent sym.Expr
}

// softmaxEach writes the loops over rows and finds each row's maximum; write writes the rest of a row.
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

// softmaxRows stores the exponentials in the result, if its type is the one computed in; each is then computed only
// once.
func softmaxRows(k *Nest, n *ir.Node) {
	out := k.Out[0]
	softmaxEach(k, n, func(r softmaxRow, dt dtype.DType) {
		kept := out.DType == dt
		exponential := func(j sym.Expr) loop.Expr { return loop.Share(r.value(j)) }
		if kept {
			k.Each("k", r.extent, func(j sym.Expr) { k.Store(out, r.at(j), loop.Share(r.value(j))) })
			exponential = func(j sym.Expr) loop.Expr { return out.Load(r.at(j)...) }
		}
		total := k.Var("total", loop.Number(dt, 0))
		k.Serial("k", r.extent, func(j sym.Expr) { k.Reduce(total, loop.Add, exponential(j)) })
		factor := k.Let("factor", loop.Apply(loop.Reciprocal, total))
		k.Each("k", r.extent, func(j sym.Expr) {
			k.Store(out, r.at(j), loop.Convert(out.DType, times(exponential(j), factor)))
		})
	})
}

// logSoftmaxRows subtracts the logarithm of the sum of exponentials from each element.
func logSoftmaxRows(k *Nest, n *ir.Node) {
	out := k.Out[0]
	softmaxEach(k, n, func(r softmaxRow, dt dtype.DType) {
		total := k.Var("total", loop.Number(dt, 0))
		k.Serial("k", r.extent, func(j sym.Expr) { k.Reduce(total, loop.Add, loop.Share(r.value(j))) })
		log := k.Let("log", loop.Apply(loop.Log, total))
		k.Each("k", r.extent, func(j sym.Expr) {
			k.Store(out, r.at(j), loop.Convert(out.DType, loop.Apply2(loop.Sub, r.value(j), log)))
		})
	})
}

// shareOf is loop.Share for the reference.
func shareOf(dt dtype.DType, x float64) float64 {
	if x < loop.LeastShare(dt) {
		return 0
	}
	return math.Exp(x)
}

// computing returns the type in which a lowering computes on elements of type dt: f32 for narrower floats, dt
// otherwise.
func computing(dt dtype.DType) dtype.DType {
	if dt.IsFloat() && dt.Bits() < 32 {
		return dtype.F32
	}
	return dt
}

// softmaxSamples covers each axis, rows of 0 and 1 elements, rows with −∞, and exponentials around the least normal
// number.
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
	far := sampleNormal(r, dtype.F32, 3, 40) // exponentials around the least normal number
	for i := int64(1); i < far.Len(); i += 2 {
		far.SetFloat(i, far.Float(i)-80-float64(i%30))
	}
	return append(out, Sample{Attrs: ir.Attrs{"axis": int64(1)}, Inputs: []*tensor.Tensor{masked}},
		Sample{Attrs: ir.Attrs{"axis": int64(1)}, Inputs: []*tensor.Tensor{far}})
}

// softmaxGrad returns u·y − y·Σ u·y along the axis.
func softmaxGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	y := n.Outputs[0]
	weighted := g.mul(up[0], y)
	return []*ir.Value{g.sub(weighted, g.mul(y, g.sum(weighted, n.Attrs.Int("axis", -1))))}
}

// logSoftmaxGrad returns u − exp(y)·Σ u along the axis.
func logSoftmaxGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	share := g.f(loop.Exp, n.Outputs[0])
	return []*ir.Value{g.sub(up[0], g.mul(share, g.sum(up[0], n.Attrs.Int("axis", -1))))}
}

// softmaxAxes allows pieces of each axis but the node's own.
func softmaxAxes(n *ir.Node, axis int, in []int, _ func(*ir.Value, int) int) bool {
	along := n.Attrs.Int("axis", -1)
	if along < 0 {
		along += int64(len(n.Outputs[0].Type.Shape))
	}
	in[0] = axis
	return len(n.Inputs) == 1 && int64(axis) != along
}
