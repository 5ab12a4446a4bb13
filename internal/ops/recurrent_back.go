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

func init() {
	define(&Def{Op: "recurrent_back", Shape: recurrentBackShape, Mean: recurrentBackMean, Expand: recurrentBackExpand,
		Samples:   recurrentBackSamples,
		Lowerings: []Lowering{{Name: "steps", Build: recurrentBackSteps}}})
}

// This file is the derivatives of a recurrent layer by what it is given, by what it begins with, and by the products of
// its state: a node recurrent_back of the layer's weights and lengths, of what it keeps of each step (see
// recurrentResults), and of the derivatives by its results. Of a gru with reset_after, what the layer is given is an
// operand too. The layer's other operands are absent.

// The operands of recurrent_back beyond those of the layer, by their places.
const (
	backGates  = recurrentOperands + iota // what is kept: [S, B, D, G·H]
	backState                             // [S, B, D, H]
	backMemory                            // [S, B, D, H]; lstm only
	backByY                               // the derivatives: by the states, [S, D, B, H]; optional
	backByLast                            // by the last state, [D, B, H]; optional
	backByEnd                             // by the last memory, [D, B, H]; optional
)

// slopes are the derivatives of the functions that recurrent_back knows, by their results.
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

// hasRecurrentBack reports whether there is a recurrent_back of a layer: of the common functions and cells.
func hasRecurrentBack(n *ir.Node) bool {
	dt := n.Inputs[0].Type.DType
	functions, _ := n.Attrs["functions"].([]string)
	unknown := slices.ContainsFunc(functions, func(f string) bool { return slopes[f].mean == nil })
	return (dt == dtype.F32 || dt == dtype.F64) && !unknown && n.Attrs.Float("clip", 0) <= 0 && !n.Attrs.Bool("coupled") &&
		input(n, recurrentPeephole) == nil
}

// keptGrad has the layer keep its steps, and differentiates by those.
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

// kept are a layer's results of each step, which it is given if it does not have them.
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

// recurrentWeights is the derivative by the weights of each direction: that by the state's products, turned, times the
// states before each step; of a gru's candidate, times what the reset gate has left of them.
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

// layerOf is a layer of the types of that which a node is the derivative of.
func layerOf(n *ir.Node) *ir.Node {
	attrs, in := maps.Clone(n.Attrs), slices.Clone(n.Inputs[:recurrentOperands])
	attrs["keep"], in[recurrentProjected] = true, n.Inputs[backGates]
	return &ir.Node{Op: n.Op, Source: n.Source, Attrs: attrs, Inputs: in}
}

// recurrentBackExpand is a scan from the other end, in each direction.
func recurrentBackExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	parts := make([][]*ir.Value, len(n.Outputs))
	for d, back := range n.Attrs.Ints("reverse") {
		r := &recurrentScan{Gradients: newGradients(b, nil), n: n, d: d}
		for i, v := range r.backward(back != 0) {
			parts[i] = append(parts[i], v)
		}
	}
	out := make([]*ir.Value, len(parts))
	for i, list := range parts {
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

// backward are a direction's parts of recurrent_back's results.
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
	s := &recurrentBackScan{recurrentScan: r, block: &ir.Block{}, w: r.part(recurrentWeights)}
	r.in = &Gradients{Builder: r.In(s.block)}
	for _, v := range begins {
		s.ups = append(s.ups, r.in.Param("by", v.Type))
	}
	s.gates, s.h = s.step(gates), s.step(r.along1(n.Inputs[backState], 2))
	s.c, s.x = s.step(r.along1(input(n, backMemory), 2)), s.step(r.part(recurrentProjected))
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
	ups     []*ir.Value // by what is carried after the step

	w, gates, h, c, x, byY, alive *ir.Value // of the step; nil if absent
}

// step is a parameter of the body for the slices of a value; nil of nil.
func (s *recurrentBackScan) step(v *ir.Value) *ir.Value {
	if v == nil {
		return nil
	}
	s.scanned = append(s.scanned, v)
	return s.in.Param("step", ir.Type{DType: v.Type.DType, Shape: v.Type.Shape[1:]})
}

// results are the derivatives by what is carried before the step, by what the layer is given, and by the state's
// products where these are others.
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

// next is what is carried after the step, of what is kept; and of a gru without reset_after what the candidate's
// weights multiply.
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

// recurrentBackSteps is the layer's kernel the other way: a serial loop over the steps, each one pass over the gates
// and one contraction of the derivatives with the weights.
func recurrentBackSteps(k *Nest, n *ir.Node) {
	recurrentBlocks(k, n, k.In[backGates], func(m *recurrentKernel) { (&recurrentBackKernel{m}).build() })
}

// recurrentBackKernel is the kernel of one direction and one block of sequences: h and c are the derivatives by what is
// carried, gates those by the state's products.
type recurrentBackKernel struct{ *recurrentKernel }

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
			m.over("u", units, func(b, j sym.Expr) { m.lstm(m.place(t, b, j)) })
		case "gru":
			m.gru(t)
			return
		default:
			m.over("u", units, func(b, j sym.Expr) { m.plain(m.place(t, b, j)) })
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

// backPosition is a unit of a sequence at a step.
type backPosition struct {
	*recurrentBackKernel
	t, b, j sym.Expr
	alive   loop.Expr // nil: always
}

func (m *recurrentBackKernel) place(t, b, j sym.Expr) *backPosition {
	return &backPosition{m, t, b, j, m.alive(t, b)}
}

// at is an element of [S, B, D, …].
func (p *backPosition) at(x *loop.Memory, j sym.Expr) loop.Expr {
	return loop.Convert(p.dt, x.Load(p.t, p.first.Add(p.b), p.direction(), j))
}

// unit is the unit's place in gate g.
func (p *backPosition) unit(g int64) sym.Expr { return p.units.Mul(sym.Const(g)).Add(p.j) }

// gate is what was kept of gate g.
func (p *backPosition) gate(g int64) loop.Expr { return p.at(p.In[backGates], p.unit(g)) }

// function is the i-th function, and slope its derivative where its result is y.
func (p *backPosition) function(hint string, i int64, x loop.Expr) loop.Expr {
	return p.Let(hint, p.apply(i, x))
}

func (p *backPosition) slope(i int64, y loop.Expr) loop.Expr {
	f, _, _ := function(p.n, p.d, i)
	return slopes[f.name].body(y)
}

// up is the derivative by the state after the step.
func (p *backPosition) up() loop.Expr {
	v := p.h.Load(p.b, p.j)
	if y := present(p.In, backByY); y != nil {
		v = plus(v, loop.Convert(p.dt, y.Load(p.t, p.direction(), p.first.Add(p.b), p.j)))
	}
	return p.Let("up", v)
}

// write takes the derivatives by gate g: by what is given, and by the state's product; 0 beyond a sequence's end.
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

// straight is what gets to the state before the step past the products: all of it beyond a sequence's end.
func (p *backPosition) straight(v loop.Expr) {
	p.Store(p.h, []sym.Expr{p.b, p.j}, whileAlive(p.alive, v, p.h.Load(p.b, p.j)))
}

func (m *recurrentBackKernel) plain(p *backPosition) {
	by := times(p.up(), p.slope(0, p.function("y", 0, p.gate(0))))
	p.write(0, by, by)
	p.straight(loop.Number(m.dt, 0))
}

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

func (m *recurrentBackKernel) gru(t sym.Expr) {
	two := m.units.Mul(sym.Const(2))
	if m.n.Attrs.Bool("reset_after") {
		m.over("u", m.units, func(b, j sym.Expr) { m.gruAfter(m.place(t, b, j)) })
		m.carry(t, m.width)
		return
	}
	held := m.Local("held", m.dt, m.most, m.units)
	m.over("u", m.units, func(b, j sym.Expr) {
		p := m.place(t, b, j)
		update, candidate, up := p.function("update", 0, p.gate(0)), p.function("candidate", 1, p.gate(2)), p.up()
		p.blend(update, candidate, up, nil)
		p.straight(times(up, update))
	})
	m.turned(two, m.units, func(_, _ sym.Expr) loop.Expr {
		return loop.Number(m.dt, 0)
	}, func(b, j sym.Expr, sum loop.Expr) { m.Store(held, []sym.Expr{b, j}, sum) })
	m.over("r", m.units, func(b, j sym.Expr) {
		p := m.place(t, b, j)
		reset, by := p.function("reset", 0, p.gate(1)), p.Let("held", held.Load(b, j))
		gate := times(times(by, p.at(p.In[backState], j)), p.slope(0, reset))
		p.write(1, gate, gate)
		p.straight(plus(m.h.Load(b, j), times(by, reset)))
	})
	m.carry(t, two)
}

// blend takes the derivatives by the update gate and the candidate. After is what the candidate's product was
// multiplied by; nil: nothing.
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

// carry adds to the derivative by the state what gets there through the weights' first rows; beyond a sequence's end
// nothing does, whatever the weights are.
func (m *recurrentBackKernel) carry(t, count sym.Expr) {
	m.turned(sym.Const(0), count, func(b, j sym.Expr) loop.Expr {
		return m.h.Load(b, j)
	}, func(b, j sym.Expr, sum loop.Expr) {
		m.Store(m.h, []sym.Expr{b, j}, whileAlive(m.alive(t, b), sum, m.h.Load(b, j)))
	})
}

// turned is the product of the gates' derivatives and rows of the weights, added to what it begins with.
func (m *recurrentBackKernel) turned(from, count sym.Expr, begin func(b, j sym.Expr) loop.Expr,
	end func(b, j sym.Expr, sum loop.Expr)) {
	m.Each("once", one, func(sym.Expr) {
		sums := m.Local("sums", m.dt, m.most, m.units)
		m.over("x", m.units, func(b, j sym.Expr) { m.Store(sums, []sym.Expr{b, j}, begin(b, j)) })
		m.Contract(m.rows, m.units, count,
			sums.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			m.gates.Tile([]sym.Expr{{}, from}, unit(2, 0, one), unit(2, 1, one)),
			m.In[1].Tile([]sym.Expr{m.direction(), from, {}}, unit(3, 1, one), unit(3, 2, one)))
		m.over("g", m.units, func(b, j sym.Expr) { end(b, j, sums.Load(b, j)) })
	})
}

// recurrentBackSamples are the layer's samples that there is a derivative of, with what the layer keeps of them.
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
