package ops

import (
	"maps"
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator recurrent_back.
func init() {
	define(&Def{Op: "recurrent_back", Shape: recurrentBackShape, Mean: recurrentBackMean, Expand: recurrentBackExpand,
		Samples:   recurrentBackSamples,
		Lowerings: []Lowering{{Name: "sequences", Meant: true, Build: recurrentBackLoops}}})
}

// The operator recurrent_back computes the derivatives of a recurrent layer by its projected input, by the state and
// memory that it begins with, and by the products of its state. Its operands are the layer's weights and lengths, the
// values that the layer keeps of each step (see recurrentResults), and the derivatives by its results; of a gru with
// reset_after also the projected input. The layer's other operands are absent.

// The indices of recurrent_back's operands after those of the layer.
const (
	backGates  = recurrentOperands + iota // kept: [S, B, D, G·H]
	backState                             // [S, B, D, H]
	backMemory                            // [S, B, D, H]; lstm only
	backByY                               // the derivatives: by the states, [S, D, B, H]; optional
	backByLast                            // by the last state, [D, B, H]; optional
	backByEnd                             // by the last memory, [D, B, H]; optional
)

// slopes has the derivatives of the functions that recurrent_back supports, as functions of their results.
var slopes = map[string]struct {
	mean func(y float64) float64
	body func(y loop.Expr) loop.Expr
}{
	"sigmoid": {func(y float64) float64 {
		return y * (1 - y)
	}, func(y loop.Expr) loop.Expr { return times(y, minus(like(y, 1), y)) }},
	"tanh": {func(y float64) float64 {
		return 1 - y*y
	}, func(y loop.Expr) loop.Expr { return minus(like(y, 1), times(y, y)) }},
	"relu": {func(y float64) float64 { return choose(y > 0, 1.0, 0) },
		func(y loop.Expr) loop.Expr { return loop.Choose(less(like(y, 0), y), like(y, 1), like(y, 0)) }},
}

// hasRecurrentBack reports whether recurrent_back supports a layer: common functions, f32 or f64, weights among it, no
// clipping, no coupled gates and no peepholes.
func hasRecurrentBack(n *ir.Node) bool {
	dt := n.Inputs[0].Type.DType
	functions, _ := n.Attrs["functions"].([]string)
	unknown := slices.ContainsFunc(functions, func(f string) bool { return slopes[f].mean == nil })
	return (dt == dtype.F32 || dt == dtype.F64) && n.Inputs[recurrentWeights].Type.DType == dt &&
		!unknown && n.Attrs.Float("clip", 0) <= 0 && !n.Attrs.Bool("coupled") && input(n, recurrentPeephole) == nil
}

// keptGrad has the layer keep the values of its steps and differentiates it by a recurrent_back of them.
func keptGrad(g *Gradients, n *ir.Node, up []*ir.Value) []*ir.Value {
	kept := g.kept(n)
	in := make([]*ir.Value, backByEnd+1)
	in[recurrentWeights], in[recurrentLengths] = n.Inputs[recurrentWeights], input(n, recurrentLengths)
	if n.Attrs.Bool("reset_after") {
		in[recurrentProjected] = n.Inputs[recurrentProjected]
	}
	copy(in[backGates:], kept)
	copy(in[backByY:], up)
	attrs := maps.Clone(n.Attrs)
	delete(attrs, "keep")
	by := g.Node("recurrent_back", attrs, in...).Outputs
	out := make([]*ir.Value, len(n.Inputs))
	for i, d := range map[int]*ir.Value{recurrentProjected: by[0], recurrentState: by[1],
		recurrentMemory: present(by[:1+carried(n)], 2)} {
		if g.Wants(input(n, i)) {
			out[i] = d
		}
	}
	products := by[0]
	if n.Attrs.Bool("reset_after") {
		products = by[2]
	}
	if g.Wants(n.Inputs[recurrentWeights]) {
		out[recurrentWeights] = g.recurrentWeights(n, products, kept)
	}
	if g.Wants(input(n, recurrentBias)) {
		out[recurrentBias] = Reshape(g.Builder, g.sum(products, 0, 1), n.Inputs[recurrentBias].Type.Shape...)
	}
	return out
}

// kept returns a layer's results that keep the values of its steps; it adds them if the layer does not have them.
func (g *Gradients) kept(n *ir.Node) []*ir.Value {
	last := 1 + carried(n)
	if !n.Attrs.Bool("keep") {
		n.Attrs = maps.Clone(n.Attrs)
		n.Attrs["keep"] = true
		if err := Of(n).Infer(g.Inference, n); err != nil {
			g.Fail(err)
		}
		for i, v := range n.Outputs[last:] {
			v.Node, v.Index, v.Name = n, last+i, g.Name("kept")
		}
	}
	return n.Outputs[last:]
}

// recurrentWeights returns the derivative by the weights of each direction: the transposed derivative by the state's
// products, times the states before each step, or, for a gru's candidate, times the reset gate's products with them.
func (g *Gradients) recurrentWeights(n *ir.Node, products *ir.Value, kept []*ir.Value) *ir.Value {
	var list []*ir.Value
	for d := range n.Attrs.Ints("reverse") {
		r := &recurrentScan{Gradients: g, n: n, d: d, in: g}
		of := []*ir.Value{r.along1(kept[1], 2)}
		if n.Attrs.String("cell", "") == "gru" && !n.Attrs.Bool("reset_after") {
			of = append(of, g.mul(r.apply(0, r.gate(r.along1(kept[0], 2), 1)), of[0]))
		}
		by := r.byWeights(r.along1(products, 2), of)
		list = append(list, Reshape(g.Builder, by, append([]sym.Expr{one}, by.Type.Shape...)...))
	}
	return Concat(g.Builder, 0, list...)
}

// recurrentBackShape checks the operands against the layer that they belong to; the results are the derivatives by the
// projected input, by the carried values and, of a gru with reset_after, by the state's products.
func recurrentBackShape(c *ir.Inference, n *ir.Node) error {
	if len(n.Inputs) <= backState || len(n.Inputs) > backByEnd+1 || input(n, backGates) == nil ||
		input(n, recurrentWeights) == nil {
		return fault(n, "its operands are %v", n.Inputs)
	}
	if (input(n, recurrentProjected) != nil) != n.Attrs.Bool("reset_after") {
		return fault(n, "what the layer is given is an operand of a gru with reset_after alone")
	}
	layer := layerOf(n)
	if err := recurrentOperandTypes(c, layer); err != nil {
		return err
	}
	if !hasRecurrentBack(layer) {
		return fault(n, "there is none of this cell")
	}
	x, shapes := n.Inputs[backGates].Type, recurrentResults(layer)
	last := 1 + carried(n)
	wants := map[int][]sym.Expr{recurrentProjected: x.Shape}
	for i, want := range shapes {
		if i < last {
			wants[backByY+i] = want
		} else {
			wants[backGates+i-last] = want
		}
	}
	for at := range backByEnd + 1 {
		v, want := input(n, at), wants[at]
		if at < recurrentOperands && want == nil { // the layer's, which are checked
			continue
		}
		if v == nil && at != backGates && at != backState && (at != backMemory || want == nil) {
			continue
		}
		if v == nil || want == nil || v.Type.DType != x.DType || len(v.Type.Shape) != len(want) {
			return fault(n, "input %d is %v", at, v)
		}
		for axis, extent := range want {
			if err := c.RequireEqual(n, v.Type.Shape[axis], extent, "the extents of a recurrent layer's results"); err != nil {
				return err
			}
		}
	}
	n.Result(0, x)
	for i := range carried(n) {
		n.Result(1+i, ir.Type{DType: x.DType, Shape: shapes[1+i]})
	}
	if n.Attrs.Bool("reset_after") {
		n.Result(2, x)
	}
	return nil
}

// layerOf returns a layer, with keep, whose operands have the types of those of the layer that n differentiates.
func layerOf(n *ir.Node) *ir.Node {
	attrs, in := maps.Clone(n.Attrs), slices.Clone(n.Inputs[:recurrentOperands])
	attrs["keep"], in[recurrentProjected] = true, n.Inputs[backGates]
	return &ir.Node{Op: n.Op, Source: n.Source, Attrs: attrs, Inputs: in}
}

// recurrentBackExpand builds a scan over the steps in the opposite order for each direction.
func recurrentBackExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	results := make([][]*ir.Value, len(n.Outputs)) // by result and direction
	for d, back := range n.Attrs.Ints("reverse") {
		r := &recurrentScan{Gradients: newGradients(b, nil), n: n, d: d}
		for i, v := range r.backward(back != 0) {
			results[i] = append(results[i], v)
		}
	}
	out := make([]*ir.Value, len(results))
	for i, list := range results {
		axis := 0
		if i == 0 || i > carried(n) {
			axis = 2
		}
		for k, v := range list {
			list[k] = Reshape(b, v, slices.Insert(slices.Clone(v.Type.Shape), axis, one)...)
		}
		out[i] = Concat(b, int64(axis), list...)
	}
	return out
}

// backward returns recurrent_back's results for one direction.
func (r *recurrentScan) backward(back bool) []*ir.Value {
	b, n := r.Builder, r.n
	gates := r.along1(n.Inputs[backGates], 2)
	state := ir.Type{DType: gates.Type.DType, Shape: []sym.Expr{gates.Type.Shape[1],
		n.Inputs[recurrentWeights].Type.Shape[2]}}
	var begins []*ir.Value
	for i := range carried(n) {
		begin := r.along1(input(n, backByLast+i), 0)
		if begin == nil {
			begin = r.zeros(state.DType, state.Shape...)
		}
		begins = append(begins, begin)
	}
	s := &recurrentBackScan{recurrentScan: r, block: &ir.Block{}, w: r.operand(recurrentWeights)}
	r.in = &Gradients{Builder: r.In(s.block)}
	for _, v := range begins {
		s.ups = append(s.ups, r.in.Param("by", v.Type))
	}
	s.gates, s.h = s.step(gates), s.step(r.along1(n.Inputs[backState], 2))
	s.c, s.x = s.step(r.along1(input(n, backMemory), 2)), s.step(r.operand(recurrentProjected))
	s.byY = s.step(r.along1(input(n, backByY), 1))
	if lengths := input(n, recurrentLengths); lengths != nil {
		alive := r.op(loop.Lt, r.counted(dtype.I64, gates.Type.Shape[:2], 0), Cast(b, lengths, dtype.I64))
		s.alive = s.step(Reshape(b, alive, append(slices.Clone(alive.Type.Shape), one)...))
	}
	s.block.Results = s.results()
	walks := slices.Repeat([]int64{oneIf(!back)}, len(s.scanned)+2)
	y := Scan(b, s.block, ScanOver{InputReversed: walks[:len(s.scanned)],
		OutputReverse: walks[:len(s.block.Results)-len(begins)]}, begins, s.scanned)
	return slices.Concat(y[len(begins):len(begins)+1], y[:len(begins)], y[len(begins)+1:])
}

// recurrentBackScan is the body of a scan over the steps of recurrent_back.
type recurrentBackScan struct {
	*recurrentScan
	block   *ir.Block
	scanned []*ir.Value
	ups     []*ir.Value // the derivatives by the values carried after the step

	w, gates, h, c, x, byY, alive *ir.Value // of the step; nil if absent
}

// step adds v to the scanned values and returns the body's parameter for its slices; nil if v is nil.
func (s *recurrentBackScan) step(v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	s.scanned = append(s.scanned, v)
	return s.in.Param("step", ir.Type{DType: v.Type.DType, Shape: v.Type.Shape[1:]})
}

// results returns the derivatives by the values carried before the step, by the projected input, and by the state's
// products if these differ from it.
func (s *recurrentBackScan) results() []*ir.Value {
	in, ups := s.in, slices.Clone(s.ups)
	if s.byY != nil {
		ups[0] = in.plus(ups[0], s.byY)
	}
	xs := slices.DeleteFunc([]*ir.Value{s.gates, s.h, s.c, s.x}, func(v *ir.Value) bool { return v == nil })
	next, held := s.next()
	d := VJP(in.Builder, next, ups, xs)
	products, w := d[0], s.w
	if held != nil {
		units := s.h.Type.Shape[1]
		two := units.Mul(sym.Const(2))
		by := MatMul(in.Builder, s.gate(d[0], 2), SliceAxis(in.Builder, w, 0, two, units), false, false)
		more := VJP(in.Builder, []*ir.Value{held}, []*ir.Value{by}, xs)
		d[0], d[1] = in.plus(d[0], more[0]), in.plus(d[1], more[1])
		products, w = SliceAxis(in.Builder, d[0], 1, sym.Const(0), two), SliceAxis(in.Builder, w, 0, sym.Const(0), two)
	}
	d[1] = in.plus(d[1], MatMul(in.Builder, products, w, false, false))
	out := slices.Concat(d[1:1+len(ups)], d[:1])
	if s.x != nil {
		out = []*ir.Value{d[1], d[2], d[0]}
	}
	if s.alive != nil {
		for i, v := range out {
			out[i] = in.choose(s.alive, v, present(s.ups, i))
		}
	}
	return out
}

// next returns the values carried after the step, computed from the kept values, and, of a gru without reset_after, the
// value that the candidate's weights multiply.
func (s *recurrentBackScan) next() (next []*ir.Value, held *ir.Value) {
	switch {
	case s.c != nil:
		return s.lstm(s.h, s.c, s.gates, nil), nil
	case s.x != nil:
		return s.gruAfter(s.h, s.x, s.gates), nil
	case s.n.Attrs.String("cell", "") == "gru":
		held = s.in.mul(s.apply(0, s.gate(s.gates, 1)), s.h)
		return s.blended(s.h, s.apply(0, s.gate(s.gates, 0)), s.apply(1, s.gate(s.gates, 2))), held
	}
	return []*ir.Value{s.apply(0, s.gates)}, nil
}

// recurrentBackLoops writes the layer's kernel in the opposite order: a serial loop over the steps, each one pass over
// the gates and one contraction of the derivatives with the weights.
func recurrentBackLoops(k *Nest, n *ir.Node) {
	recurrentSequences(k, n, k.In[backGates], func(m *recurrentKernel) { (&recurrentBackKernel{m}).build() })
}

// recurrentBackKernel writes the kernel of one direction and one sequence. h and c are the derivatives by the
// carried values, gates those by the state's products.
type recurrentBackKernel struct{ *recurrentKernel }

// build writes the kernel: the loop over the steps in the opposite order, and the derivatives by the first state and
// memory.
func (m *recurrentBackKernel) build() {
	m.locals()
	m.start(m.h, present(m.In, backByLast))
	m.start(m.c, present(m.In, backByEnd))
	steps, units := m.In[backGates].Shape[0], m.units
	m.Serial("s", steps, func(s sym.Expr) {
		t := steps.Sub(one).Sub(s)
		if m.back {
			t = s
		}
		switch m.n.Attrs.String("cell", "") {
		case "lstm":
			m.over("u", units, func(b, j sym.Expr) { m.lstm(m.position(t, b, j)) })
		case "gru":
			m.gru(t)
			return
		default:
			m.over("u", units, func(b, j sym.Expr) { m.rnn(m.position(t, b, j)) })
		}
		m.carry(t, m.width)
	})
	m.over("e", units, func(b, j sym.Expr) {
		to := []sym.Expr{m.direction(), m.first.Add(b), j}
		m.Store(m.Out[1], to, loop.Convert(m.Out[1].DType, m.h.Load(b, j)))
		if m.c != nil {
			m.Store(m.Out[2], to, loop.Convert(m.Out[2].DType, m.c.Load(b, j)))
		}
	})
}

// backPosition is one unit of one sequence at one step.
type backPosition struct {
	*recurrentBackKernel
	t, b, j sym.Expr
	alive   loop.Expr // nil: always
}

// position returns unit j of sequence b at step t.
func (m *recurrentBackKernel) position(t, b, j sym.Expr) *backPosition {
	return &backPosition{m, t, b, j, m.alive(t, b)}
}

// at loads the position's element j of a tensor [S, B, D, …].
func (p *backPosition) at(x *loop.Memory, j sym.Expr) loop.Expr {
	return loop.Convert(p.dt, x.Load(p.t, p.first.Add(p.b), p.direction(), j))
}

// unit returns the index of the unit among all gates, in gate g.
func (p *backPosition) unit(g int64) sym.Expr { return p.units.Mul(sym.Const(g)).Add(p.j) }

// gate loads the kept value of gate g.
func (p *backPosition) gate(g int64) loop.Expr { return p.at(p.In[backGates], p.unit(g)) }

// function returns the i-th function of x, under a name.
func (p *backPosition) function(hint string, i int64, x loop.Expr) loop.Expr {
	return p.Let(hint, p.apply(i, x))
}

// slope returns the derivative of the i-th function at its result y.
func (p *backPosition) slope(i int64, y loop.Expr) loop.Expr {
	f, _, _ := function(p.n, p.d, i)
	return slopes[f.name].body(y)
}

// up returns the derivative by the state after the step.
func (p *backPosition) up() loop.Expr {
	v := p.h.Load(p.b, p.j)
	if y := present(p.In, backByY); y != nil {
		v = plus(v, loop.Convert(p.dt, y.Load(p.t, p.direction(), p.first.Add(p.b), p.j)))
	}
	return p.Let("up", v)
}

// write stores the derivatives by gate g: by, by the projected input, and product, by the state's product; 0 beyond a
// sequence's end.
func (p *backPosition) write(g int64, by, product loop.Expr) {
	zero := loop.Number(p.dt, 0)
	to := []sym.Expr{p.t, p.first.Add(p.b), p.direction(), p.unit(g)}
	product = p.Let("by", whileAlive(p.alive, product, zero))
	if p.n.Attrs.Bool("reset_after") {
		p.Store(p.Out[0], to, loop.Convert(p.Out[0].DType, whileAlive(p.alive, by, zero)))
		p.Store(p.Out[2], to, loop.Convert(p.Out[2].DType, product))
	} else {
		p.Store(p.Out[0], to, loop.Convert(p.Out[0].DType, product))
	}
	p.Store(p.gates, []sym.Expr{p.b, p.unit(g)}, product)
}

// straight stores v, the derivative by the state before the step that does not pass through the products; beyond a
// sequence's end the entire derivative passes through.
func (p *backPosition) straight(v loop.Expr) {
	p.Store(p.h, []sym.Expr{p.b, p.j}, whileAlive(p.alive, v, p.h.Load(p.b, p.j)))
}

// rnn writes the step of a cell with one gate.
func (m *recurrentBackKernel) rnn(p *backPosition) {
	by := times(p.up(), p.slope(0, p.function("y", 0, p.gate(0))))
	p.write(0, by, by)
	p.straight(loop.Number(m.dt, 0))
}

// lstm writes the step of an lstm: the derivatives by its four gates and by the memory before.
func (m *recurrentBackKernel) lstm(p *backPosition) {
	in, out, forget := p.function("in", 0, p.gate(0)), p.function("out", 0, p.gate(1)), p.function("forget", 0, p.gate(2))
	candidate, memory := p.function("candidate", 1, p.gate(3)), p.Let("memory", p.at(p.In[backMemory], p.j))
	y := p.function("y", 2, plus(times(forget, memory), times(in, candidate)))
	up := p.up()
	along := m.c.Load(p.b, p.j)
	dc := p.Let("dc", plus(along, times(times(up, out), p.slope(2, y))))
	for g, by := range []loop.Expr{times(times(dc, candidate), p.slope(0, in)), times(times(up, y), p.slope(0, out)),
		times(times(dc, memory), p.slope(0, forget)), times(times(dc, in), p.slope(1, candidate))} {
		p.write(int64(g), by, by)
	}
	m.Store(m.c, []sym.Expr{p.b, p.j}, whileAlive(p.alive, times(dc, forget), along))
	p.straight(loop.Number(m.dt, 0))
}

// gru writes the step of a gru, before carry. Without reset_after, the derivative by the reset gate needs the
// candidate's derivative times its weights first.
func (m *recurrentBackKernel) gru(t sym.Expr) {
	two := m.units.Mul(sym.Const(2))
	if m.n.Attrs.Bool("reset_after") {
		m.over("u", m.units, func(b, j sym.Expr) { m.gruAfter(m.position(t, b, j)) })
		m.carry(t, m.width)
		return
	}
	held := m.Local("held", m.dt, one, m.units)
	m.over("u", m.units, func(b, j sym.Expr) {
		p := m.position(t, b, j)
		update, candidate, up := p.function("update", 0, p.gate(0)), p.function("candidate", 1, p.gate(2)), p.up()
		p.blend(update, candidate, up, nil)
		p.straight(times(up, update))
	})
	m.turned(two, m.units, func(_, _ sym.Expr) loop.Expr {
		return loop.Number(m.dt, 0)
	}, func(b, j sym.Expr, sum loop.Expr) { m.Store(held, []sym.Expr{b, j}, sum) })
	m.over("r", m.units, func(b, j sym.Expr) {
		p := m.position(t, b, j)
		reset, by := p.function("reset", 0, p.gate(1)), p.Let("held", held.Load(b, j))
		gate := times(times(by, p.at(p.In[backState], j)), p.slope(0, reset))
		p.write(1, gate, gate)
		p.straight(plus(m.h.Load(b, j), times(by, reset)))
	})
	m.carry(t, two)
}

// blend writes the derivatives by the update gate and the candidate. After is the factor of the candidate's product;
// nil: 1. It returns the derivative by the candidate's argument.
func (p *backPosition) blend(update, candidate, up, after loop.Expr) (by loop.Expr) {
	gate := times(minus(times(up, p.at(p.In[backState], p.j)), times(up, candidate)), p.slope(0, update))
	by = p.Let("dc", times(times(up, minus(loop.Number(p.dt, 1), update)), p.slope(1, candidate)))
	product := by
	if after != nil {
		product = times(by, after)
	}
	p.write(0, gate, gate)
	p.write(2, by, product)
	return by
}

// gruAfter writes one position of a gru with reset_after.
func (m *recurrentBackKernel) gruAfter(p *backPosition) {
	given := func(g int64) loop.Expr { return p.at(p.In[0], p.unit(g)) }
	update, reset := p.function("update", 0, plus(given(0), p.gate(0))), p.function("reset", 0, plus(given(1), p.gate(1)))
	product := p.Let("product", p.gate(2))
	candidate, up := p.function("candidate", 1, plus(given(2), times(reset, product))), p.up()
	by := p.blend(update, candidate, up, reset)
	gate := times(times(by, product), p.slope(0, reset))
	p.write(1, gate, gate)
	p.straight(times(up, update))
}

// carry adds to the derivative by the state the derivatives of the first count gates times their weights; beyond a
// sequence's end it adds nothing, even if weights are not finite.
func (m *recurrentBackKernel) carry(t, count sym.Expr) {
	m.turned(sym.Const(0), count, func(b, j sym.Expr) loop.Expr {
		return m.h.Load(b, j)
	}, func(b, j sym.Expr, sum loop.Expr) {
		m.Store(m.h, []sym.Expr{b, j}, whileAlive(m.alive(t, b), sum, m.h.Load(b, j)))
	})
}

// turned computes begin plus the product of count gates' derivatives and their rows of the weights, and passes each sum
// to end.
func (m *recurrentBackKernel) turned(from, count sym.Expr, begin func(b, j sym.Expr) loop.Expr,
	end func(b, j sym.Expr, sum loop.Expr)) {
	m.Each("once", one, func(sym.Expr) {
		sums := m.Local("sums", m.dt, one, m.units)
		m.over("x", m.units, func(b, j sym.Expr) { m.Store(sums, []sym.Expr{b, j}, begin(b, j)) })
		m.Contract(one, m.units, count,
			sums.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			m.gates.Tile([]sym.Expr{{}, from}, unit(2, 0, one), unit(2, 1, one)),
			m.In[1].Tile([]sym.Expr{m.direction(), from, {}}, unit(3, 1, one), unit(3, 2, one)))
		m.over("g", m.units, func(b, j sym.Expr) { end(b, j, sums.Load(b, j)) })
	})
}

// recurrentBackSamples are the layer's samples that recurrent_back supports, with the values that the layer keeps for
// them.
func recurrentBackSamples(r *rand.Rand) []Sample {
	var out []Sample
	for i, s := range recurrentSamples(r) {
		types := make([]*ir.Value, len(s.Inputs))
		for k, x := range s.Inputs {
			if x != nil && k != recurrentPeephole {
				types[k] = &ir.Value{Type: ir.Type{DType: x.DType(), Shape: ir.Constants(x.Shape())}}
			}
		}
		attrs := maps.Clone(s.Attrs)
		attrs["keep"] = true
		layer := &ir.Node{Attrs: attrs, Inputs: types}
		if !hasRecurrentBack(layer) {
			continue
		}
		delete(s.Attrs, "keep")
		in := make([]*tensor.Tensor, backByEnd+1)
		copy(in, s.Inputs[:recurrentLengths+1])
		var results []*tensor.Tensor
		for _, shape := range recurrentResults(layer) {
			extents := make([]int64, len(shape))
			for axis, e := range shape {
				extents[axis], _ = e.Const()
			}
			results = append(results, tensor.Must(tensor.New(in[0].DType(), extents...)))
		}
		recurrentRun(layer, s.Inputs, results)
		if !s.Attrs.Bool("reset_after") {
			in[recurrentProjected] = nil
		}
		last := 1 + carried(layer)
		copy(in[backGates:], results[last:])
		for k, result := range results[:last] {
			if k == 0 || i%2 == 0 {
				in[backByY+k] = sampleNormal(r, result.DType(), result.Shape()...)
			}
		}
		out = append(out, Sample{Attrs: s.Attrs, Inputs: in})
	}
	return out
}
