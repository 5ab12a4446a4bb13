package ops

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// recurrentGrad uses recurrent_back if it supports the cell and no derivative by kept values is needed; otherwise it
// differentiates a scan over the steps in each direction. Both leave out the weights: their derivative is one product
// over all steps, of the derivatives by the state's products with the states.
func recurrentGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	if n.Inputs[recurrentWeights].Type.DType != n.Inputs[recurrentProjected].Type.DType {
		return widenedGrad(g, n, up)
	}
	last := 1 + carried(n)
	if hasRecurrentBack(n) && !slices.ContainsFunc(up[last:], func(v *ir.Value) bool { return v != nil }) {
		return keptGrad(g, n, up[:last])
	}
	derivatives := make([][]*ir.Value, len(n.Inputs)) // by operand and direction
	for d, back := range n.Attrs.Ints("reverse") {
		r := &recurrentScan{Gradients: g, n: n, d: d}
		for i, by := range r.derivatives(back != 0, up) {
			derivatives[i] = append(derivatives[i], by)
		}
	}
	out := make([]*ir.Value, len(n.Inputs))
	for i, x := range n.Inputs {
		if i != recurrentLengths && g.Wants(x) {
			out[i] = Concat(g.Builder, int64(recurrentAxis(i)), derivatives[i]...)
		}
	}
	return out
}

// widenedGrad differentiates a layer with weights of a narrower type as the layer with the numbers that they stand for.
func widenedGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	b, in := g.Builder, slices.Clone(n.Inputs[:min(len(n.Inputs), recurrentOperands)])
	w := Cast(b, in[recurrentWeights], in[recurrentProjected].Type.DType)
	if scales := input(n, RecurrentScales); scales != nil {
		w = Binary(b, Mul, w, Reshape(b, scales, append(slices.Clone(scales.Type.Shape), one)...))
	}
	in[recurrentWeights] = w
	ys, ups := reached(b.Node("recurrent", n.Attrs, in...).Outputs, up)
	out := make([]*ir.Value, len(n.Inputs))
	var xs []*ir.Value
	var at []int
	for i, x := range n.Inputs {
		if g.Wants(x) {
			xs, at = append(xs, x), append(at, i)
		}
	}
	for i, by := range VJP(b, ys, ups, xs) {
		out[at[i]] = by
	}
	return out
}

// recurrentAxis returns the axis of the directions of an operand.
func recurrentAxis(operand int) int {
	if operand == recurrentProjected {
		return 2
	}
	return 0
}

// recurrentScan builds one direction of a recurrent layer as a scan.
type recurrentScan struct {
	*Gradients
	n  *ir.Node
	d  int
	in *Gradients // builds the body
}

// operand returns operand i for the direction, without the axis of directions; nil if it is absent.
func (r *recurrentScan) operand(i int) *ir.Value {
	v := input(r.n, i)
	if v == nil {
		return nil
	}
	return r.along1(v, recurrentAxis(i))
}

// along1 returns a value for the direction, without its axis of directions; nil if the value is nil.
func (r *recurrentScan) along1(v *ir.Value, axis int) *ir.Value {
	if v == nil {
		return nil
	}
	cut := SliceAxis(r.Builder, v, axis, sym.Const(int64(r.d)), one)
	return Reshape(r.Builder, cut, slices.Delete(slices.Clone(cut.Type.Shape), axis, axis+1)...)
}

// derivatives returns the derivatives by each operand for the direction, with an axis of directions of 1.
func (r *recurrentScan) derivatives(back bool, up []*ir.Value) []*ir.Value {
	b, n := r.Builder, r.n
	x, w, state, memory := r.operand(0), r.operand(1), r.operand(3), r.operand(4)
	t := ir.Type{DType: x.Type.DType, Shape: []sym.Expr{x.Type.Shape[1], w.Type.Shape[1]}}
	if state == nil {
		state = r.zeros(t.DType, t.Shape...)
	}
	states := []*ir.Value{state}
	if n.Attrs.String("cell", "") == "lstm" {
		if memory == nil {
			memory = r.zeros(t.DType, t.Shape...)
		}
		states = append(states, memory)
	}
	scanned := []*ir.Value{x, r.zeros(x.Type.DType, x.Type.Shape...)}
	if lengths := input(n, 2); lengths != nil {
		alive := r.op(loop.Lt, r.counted(dtype.I64, []sym.Expr{x.Type.Shape[0], x.Type.Shape[1]}, 0),
			Cast(b, lengths, dtype.I64))
		scanned = append(scanned, Reshape(b, alive, append(slices.Clone(alive.Type.Shape), one)...))
	}
	peephole, bias := r.operand(5), r.operand(6)
	body := r.body(states, scanned, w, peephole, bias)
	back1 := slices.Repeat([]int64{oneIf(back)}, 8)
	y := Scan(b, body, ScanOver{InputReversed: back1[:len(scanned)], OutputReverse: back1[:len(body.Results)-len(states)]},
		states, scanned)
	ends, outs := y[:len(states)], y[len(states):]
	of, kept := outs[1:], []*ir.Value(nil)
	if n.Attrs.Bool("keep") {
		of, kept = of[:len(of)-1-len(states)], of[len(of)-1-len(states):]
	}
	by0 := slices.Concat([]*ir.Value{r.along1(up[0], 1)}, r.each1(up[1:1+len(states)], 0), r.each1(up[1+len(states):], 2))
	ys, ups := reached(slices.Concat(outs[:1], ends, kept), by0)
	xs := append(slices.Clone(scanned[:2]), states...)
	more := slices.DeleteFunc([]*ir.Value{peephole, bias}, func(v *ir.Value) bool { return v == nil })
	d := VJP(b, ys, ups, append(xs, more...))
	by := make([]*ir.Value, RecurrentScales+1)
	by[0], by[1], by[3] = d[0], r.byWeights(d[1], of), d[2]
	if len(states) > 1 {
		by[4] = d[3]
	}
	rest := d[len(xs):]
	for i, v := range []*ir.Value{peephole, bias} {
		if v != nil {
			by[5+i], rest = rest[0], rest[1:]
		}
	}
	return r.withDirection(by)
}

// withDirection inserts an axis of directions of 1 into derivatives by the operands.
func (r *recurrentScan) withDirection(by []*ir.Value) []*ir.Value {
	by = by[:len(r.n.Inputs)]
	for i, v := range by {
		if v != nil {
			by[i] = Reshape(r.Builder, v, slices.Insert(slices.Clone(v.Type.Shape), recurrentAxis(i), one)...)
		}
	}
	return by
}

// each1 returns along1 of each value of a list.
func (r *recurrentScan) each1(list []*ir.Value, axis int) []*ir.Value {
	out := make([]*ir.Value, len(list))
	for i, v := range list {
		out[i] = r.along1(v, axis)
	}
	return out
}

// byWeights returns the derivative by the weights: the transposed derivative d by the state's products, times the
// states before each step, or, for a gru's candidate, times the reset gate's products with them.
func (r *recurrentScan) byWeights(d *ir.Value, before []*ir.Value) *ir.Value {
	b := r.Builder
	if len(before) == 1 {
		return MatMul(b, rowsTogether(b, d), rowsTogether(b, before[0]), true, false)
	}
	units := before[0].Type.Shape[2]
	two := units.Mul(sym.Const(2))
	first, last := SliceAxis(b, d, 2, sym.Const(0), two), SliceAxis(b, d, 2, two, units)
	return Concat(b, 0, MatMul(b, rowsTogether(b, first), rowsTogether(b, before[0]), true, false),
		MatMul(b, rowsTogether(b, last), rowsTogether(b, before[1]), true, false))
}

// body builds a step. It takes the states, the projected input, the summand of the state's products, and whether
// sequences have the step; it yields the states, the output, and the values that the weights multiply.
func (r *recurrentScan) body(states, scanned []*ir.Value, w, peephole, bias *ir.Value) *ir.Block {
	block := &ir.Block{}
	r.in = &Gradients{Builder: r.In(block)}
	for _, v := range states {
		r.in.Param("state", v.Type)
	}
	for _, v := range scanned {
		r.in.Param("step", ir.Type{DType: v.Type.DType, Shape: v.Type.Shape[1:]})
	}
	p := block.Params
	h, x, more := p[0], p[len(states)], p[len(states)+1]
	var gates *ir.Value
	var next, of []*ir.Value
	switch r.n.Attrs.String("cell", "") {
	case "lstm":
		gates = r.in.plus(x, r.product(h, w, more))
		next, of = r.lstm(h, p[1], gates, peephole), []*ir.Value{h}
	case "gru":
		next, of, gates = r.gru(h, x, w, more, bias)
	default:
		gates = r.in.plus(x, r.product(h, w, more))
		next, of = []*ir.Value{r.apply(0, gates)}, []*ir.Value{h}
	}
	kept := append([]*ir.Value{gates}, p[:len(states)]...)
	y := next[0]
	if len(scanned) > 2 {
		alive := p[len(p)-1]
		y = r.in.choose(alive, next[0], nil)
		for i := range next {
			next[i] = r.in.choose(alive, next[i], p[i])
		}
		for i := range kept {
			kept[i] = r.in.choose(alive, kept[i], nil)
		}
	}
	block.Results = slices.Concat(next, []*ir.Value{y}, of)
	if r.n.Attrs.Bool("keep") {
		block.Results = append(block.Results, kept...)
	}
	return block
}

// product returns a state times weights, plus more.
func (r *recurrentScan) product(h, w, more *ir.Value) *ir.Value {
	return r.in.plus(MatMul(r.in.Builder, h, w, false, true), more)
}

// gate returns the slice of the last axis for gate i.
func (r *recurrentScan) gate(v *ir.Value, i int64) *ir.Value {
	units := r.n.Inputs[1].Type.Shape[2]
	return SliceAxis(r.in.Builder, v, len(v.Type.Shape)-1, units.Mul(sym.Const(i)), units)
}

// apply returns the i-th function of x, which is clipped before.
func (r *recurrentScan) apply(i int64, x *ir.Value) *ir.Value {
	if clip := r.n.Attrs.Float("clip", 0); clip > 0 {
		x = r.in.op(loop.Max, r.in.op(loop.Min, x, r.in.number(x, clip)), r.in.number(x, -clip))
	}
	return r.function(i, x)
}

// function returns the i-th function of x without clipping.
func (r *recurrentScan) function(i int64, x *ir.Value) *ir.Value {
	f, alpha, beta := function(r.n, r.d, i)
	switch f.name {
	case "sigmoid":
		return r.in.f(loop.Sigmoid, x)
	case "tanh":
		return r.in.f(loop.Tanh, x)
	}
	return ActivationWith(r.in.Builder, f.name, x, alpha, beta)
}

// lstm returns the new state and memory for the gates' arguments.
func (r *recurrentScan) lstm(h, memory, gates, peephole *ir.Value) []*ir.Value {
	in := r.in
	gate := func(i, p int64, c *ir.Value) *ir.Value {
		v := r.gate(gates, i)
		if peephole != nil {
			v = in.plus(v, in.mul(r.gate(peephole, p), c))
		}
		return r.apply(0, v)
	}
	enter := gate(0, 0, memory)
	var forget *ir.Value
	if r.n.Attrs.Bool("coupled") {
		forget = in.from(1, enter)
	} else {
		forget = gate(2, 2, memory)
	}
	c := in.plus(in.mul(forget, memory), in.mul(enter, r.apply(1, r.gate(gates, 3))))
	return []*ir.Value{in.mul(gate(1, 1, c), r.function(2, c)), c}
}

// gru returns the new state, the values that the weights multiply (the state, and for the candidate the reset gate's
// product with it), and the kept values.
func (r *recurrentScan) gru(h, x, w, more, bias *ir.Value) (next, of []*ir.Value, kept *ir.Value) {
	in, b := r.in, r.in.Builder
	units := r.n.Inputs[1].Type.Shape[2]
	two := units.Mul(sym.Const(2))
	if r.n.Attrs.Bool("reset_after") {
		products := r.product(h, w, more)
		if bias != nil {
			products = in.plus(products, bias)
		}
		return r.gruAfter(h, x, products), []*ir.Value{h}, products
	}
	first := r.product(h, SliceAxis(b, w, 0, sym.Const(0), two), SliceAxis(b, more, 1, sym.Const(0), two))
	first = in.plus(SliceAxis(b, x, 1, sym.Const(0), two), first)
	held := in.mul(r.apply(0, r.gate(first, 1)), h)
	last := in.plus(r.gate(x, 2), r.product(held, SliceAxis(b, w, 0, two, units), r.gate(more, 2)))
	return r.blended(h, r.apply(0, r.gate(first, 0)), r.apply(1, last)), []*ir.Value{h, held},
		Reshape(b, Concat(b, 1, first, last), x.Type.Shape...)
}

// gruAfter returns the new state of a gru whose reset gate multiplies the state's product.
func (r *recurrentScan) gruAfter(h, x, products *ir.Value) []*ir.Value {
	in := r.in
	update := r.apply(0, in.plus(r.gate(x, 0), r.gate(products, 0)))
	reset := r.apply(0, in.plus(r.gate(x, 1), r.gate(products, 1)))
	return r.blended(h, update, r.apply(1, in.plus(r.gate(x, 2), in.mul(reset, r.gate(products, 2)))))
}

// blended returns a gru's new state: the old one and the candidate, weighted by the update gate.
func (r *recurrentScan) blended(h, update, candidate *ir.Value) []*ir.Value {
	return []*ir.Value{r.in.plus(r.in.mul(r.in.from(1, update), candidate), r.in.mul(update, h))}
}
