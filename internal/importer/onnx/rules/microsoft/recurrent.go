package microsoft

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// The inputs of DynamicQuantizeLSTM. Weights are [directions, inputs, 4 × units], with the gates in the order input,
// output, forget, candidate.
const (
	lstmX, lstmW, lstmR, lstmBias, lstmLengths, lstmState, lstmMemory, lstmPeephole = 0, 1, 2, 3, 4, 5, 6, 7
	lstmWScale, lstmRScale                                                          = 8, 10 // each before its zero point
)

// dynamicLSTM converts DynamicQuantizeLSTM, an LSTM whose weights are integers of 8 bits. As in onnxruntime, the inputs
// of all steps are quantised together by their range, and the state of all sequences before each step.
func dynamicLSTM(c *convert.Call) []*ir.Value {
	b, x, r := c.Builder, c.Input(lstmX), c.Input(lstmR)
	cell := core.CellOf(c, "lstm", []string{"Sigmoid", "Tanh", "Tanh"})
	if len(x.Type.Shape) != 3 || len(c.Input(lstmW).Type.Shape) != 3 || len(r.Type.Shape) != 3 {
		c.Fault("an input %s with weights %s and %s, all of which must have rank 3", x.Type, c.Input(lstmW).Type, r.Type)
	}
	l := &lstm{Call: c, cell: cell, steps: x.Type.Shape[0], batch: x.Type.Shape[1], units: r.Type.Shape[1],
		lengths: c.Optional(lstmLengths)}
	if l.lengths != nil { // what no sequence has does not count for the range
		l.lengths = ops.Cast(b, l.lengths, dtype.I64)
		longest := ops.Reshape(b, ops.ReduceMax(b, l.lengths, false, 0))
		within := ops.Binary(b, ops.Lt, ops.Counting(b, dtype.I64, l.steps), longest)
		x = ops.Where(b, ops.Reshape(b, within, l.steps, sym.Const(1), sym.Const(1)), x, ops.Scalar(b, dtype.F32, 0))
	}
	l.x = ops.Reshape(b, x, l.steps.Mul(l.batch), x.Type.Shape[2])
	var out [3][]*ir.Value
	for d := range cell.Reverse {
		for i, v := range l.direction(d) {
			shape := append([]sym.Expr{}, v.Type.Shape...)
			at := len(shape) - 2
			out[i] = append(out[i], ops.Reshape(b, v, append(append(shape[:at:at], sym.Const(1)), shape[at:]...)...))
		}
	}
	return []*ir.Value{ops.Concat(b, 1, out[0]...), ops.Concat(b, 0, out[1]...), ops.Concat(b, 0, out[2]...)}
}

// lstm is a DynamicQuantizeLSTM under conversion.
type lstm struct {
	*convert.Call
	cell                ops.Recurrence
	x                   *ir.Value // [steps × batch, inputs]
	lengths             *ir.Value // i64 [batch]; nil: all sequences have all steps
	steps, batch, units sym.Expr
}

// of returns the part of the i-th input, if it is given, that belongs to direction d, without its first axis.
func (l *lstm) of(i, d int) *ir.Value {
	v := l.Optional(i)
	if v == nil {
		return nil
	}
	return ops.Reshape(l.Builder, ops.SliceAxis(l.Builder, v, 0, sym.Const(int64(d)), sym.Const(1)), v.Type.Shape[1:]...)
}

// state returns the i-th input's state of direction d, or zeros.
func (l *lstm) state(i, d int) *ir.Value {
	if v := l.of(i, d); v != nil {
		return v
	}
	return ops.Expand(l.Builder, ops.Scalar(l.Builder, dtype.F32, 0), l.batch, l.units)
}

// product quantises x [rows, n] and multiplies it by the weights of direction d in input w, whose scale is input scale.
func (l *lstm) product(b *ir.Builder, x *ir.Value, w, scale, d int) *ir.Value {
	inner := *l.Call
	inner.Builder = b
	weights, scales, zero := l.of(w, d), l.of(scale, d), l.of(scale+1, d)
	bytes, by, offset := ops.DynamicQuantize(b, x)
	return integerProduct(&inner, bytes, weights, by, scales, offset, zero)
}

// direction returns the results of one direction: the states after all steps [steps, batch, units], the last state and
// the last memory.
func (l *lstm) direction(d int) []*ir.Value {
	b, gates := l.Builder, l.units.Mul(sym.Const(4))
	projected := ops.Reshape(b, l.product(b, l.x, lstmW, lstmWScale, d), l.steps, l.batch, gates)
	if l.cell.Reverse[d] {
		projected = l.reversed(projected)
	}
	begin := []*ir.Value{l.state(lstmState, d), l.state(lstmMemory, d)}
	body, in := ops.LoopBody(b, "step", l.steps, begin)
	at, state, memory := body.Params[0], body.Params[2], body.Params[3]
	before := state
	var alive *ir.Value
	if l.lengths != nil {
		alive = ops.Reshape(in, ops.Binary(in, ops.Lt, at, l.lengths), l.batch, sym.Const(1))
		// The rows of ended sequences are 0 if there is a result for each step; else they stay.
		if len(l.Node.Output) > 0 && l.Node.Output[0] != "" {
			was := ops.Binary(in, ops.Le, at, l.lengths)
			before = ops.Where(in, ops.Reshape(in, was, l.batch, sym.Const(1)), state, ops.Scalar(in, dtype.F32, 0))
		}
	}
	sum := ops.Binary(in, ops.Add, ops.Gather(in, projected, at, 0), l.product(in, before, lstmR, lstmRScale, d))
	next := l.cellStep(in, sum, memory, d)
	each := next[0]
	if alive != nil {
		each = ops.Where(in, alive, next[0], ops.Scalar(in, dtype.F32, 0))
		next = []*ir.Value{ops.Where(in, alive, next[0], state), ops.Where(in, alive, next[1], memory)}
	}
	on := tensor.Must(tensor.New(dtype.Bool))
	on.SetInt(0, 1)
	body.Results = []*ir.Value{in.Constant("on", on), next[0], next[1], each}
	trip := ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{l.steps})
	out := slices.Clone(ops.Loop(b, body, trip, nil, begin...))
	all := out[2]
	if l.cell.Reverse[d] {
		all = l.reversed(all)
	}
	if l.lengths != nil { // as in onnxruntime, a sequence without steps has no state either
		some := ops.Binary(b, ops.Gt, l.lengths, ops.Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{sym.Const(0)}))
		some = ops.Reshape(b, some, l.batch, sym.Const(1))
		for i := range 2 {
			out[i] = ops.Where(b, some, out[i], ops.Scalar(b, dtype.F32, 0))
		}
	}
	return []*ir.Value{all, out[0], out[1]}
}

// reversed reverses the steps of each sequence of v [steps, batch, …].
func (l *lstm) reversed(v *ir.Value) *ir.Value {
	if l.lengths != nil {
		return ops.ReverseSequence(l.Builder, v, l.lengths, 1, 0)
	}
	begin, step := make([]sym.Expr, len(v.Type.Shape)), []int64{-1}
	begin[0] = l.steps.Sub(sym.Const(1))
	for range begin[1:] {
		step = append(step, 1)
	}
	return ops.Slice(l.Builder, v, begin, v.Type.Shape, step)
}

// cellStep returns the next state and memory, for the sums of the gates without their biases, [batch, 4 × units].
func (l *lstm) cellStep(b *ir.Builder, sum, memory *ir.Value, d int) []*ir.Value {
	bias, peephole := l.of(lstmBias, d), l.of(lstmPeephole, d)
	part := func(v *ir.Value, axis int, i int64) *ir.Value {
		return ops.SliceAxis(b, v, axis, l.units.Mul(sym.Const(i)), l.units)
	}
	apply := func(i int, v *ir.Value) *ir.Value {
		if limit := l.cell.Clip; limit > 0 && i < 2 {
			v = ops.Binary(b, ops.Max, ops.Scalar(b, dtype.F32, -limit), ops.Binary(b, ops.Min, ops.Scalar(b, dtype.F32, limit),
				v))
		}
		at := 3*d + i
		if name := l.cell.Functions[at]; name == "sigmoid" || name == "tanh" {
			return b.Op(name, nil, v)
		}
		return ops.ActivationWith(b, l.cell.Functions[at], v, l.cell.Alpha[at], l.cell.Beta[at])
	}
	gate := func(i, p int64, memory *ir.Value) *ir.Value {
		v := part(sum, 1, i)
		if peephole != nil && memory != nil {
			v = ops.Binary(b, ops.Add, v, ops.Binary(b, ops.Mul, part(peephole, 0, p), memory))
		}
		if bias != nil {
			v = ops.Binary(b, ops.Add, v, ops.Binary(b, ops.Add, part(bias, 0, i), part(bias, 0, 4+i)))
		}
		return v
	}
	input := apply(0, gate(0, 0, memory))
	forget := (*ir.Value)(nil)
	if l.cell.Coupled {
		forget = ops.Binary(b, ops.Sub, ops.Scalar(b, dtype.F32, 1), input)
	} else {
		forget = apply(0, gate(2, 2, memory))
	}
	next := ops.Binary(b, ops.Add, ops.Binary(b, ops.Mul, forget, memory), ops.Binary(b, ops.Mul, input,
		apply(1, gate(3, 0, nil))))
	return []*ir.Value{ops.Binary(b, ops.Mul, apply(0, gate(1, 1, next)), apply(2, next)), next}
}
