package ops

import (
	"math/rand"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator recurrent.
func init() {
	define(&Def{Op: "recurrent", apart: apartRecurrent, Grad: recurrentGrad, Shape: recurrentShape, Mean: recurrentMean,
		Samples: recurrentSamples,
		Lowerings: []Lowering{{Name: "sequences", Meant: true, Build: func(k *Nest, n *ir.Node) {
			recurrentSequences(k, n, k.In[0], (*recurrentKernel).build)
		}}}})
}

// Recurrence holds the attributes of a recurrent layer. Reverse has one element for a layer in one direction, two for
// one in both.
type Recurrence struct {
	Cell    string // lstm, gru or rnn
	Reverse []bool // by direction: whether the last step comes first
	// Functions are the activations of each direction in turn, by name in activationTable: of an lstm for the gates,
	// the cell's candidate and the output; of a gru for the gates and the candidate; of an rnn one. Alpha and Beta are
	// their settings.
	Functions   []string
	Alpha, Beta []float64
	Clip        float64 // above 0: the functions' arguments are kept within −Clip … Clip
	Coupled     bool    // lstm: the forget gate is 1 − the input gate
	ResetAfter  bool    // gru: the reset gate multiplies the state's product and bias, not the state
}

// RecurrentOperands are the operands of a recurrent layer over S steps, B sequences, D directions and H units. G is the
// number of gates: 4 of an lstm (input, output, forget, candidate), 3 of a gru (update, reset, candidate), 1 of an rnn.
// Optional operands may be nil.
type RecurrentOperands struct {
	Projected *ir.Value // [S, B, D, G·H]: the input times its weights, with the biases
	Weights   *ir.Value // [D, G·H, H]: by which the state is multiplied; their type may be narrower than the others'
	// [B], integers; optional: the number of steps of each sequence. Later steps do not change the state, and their output
	// is 0.
	Lengths  *ir.Value
	State    *ir.Value // [D, B, H]; optional, 0
	Memory   *ir.Value // [D, B, H]; optional, 0; lstm only
	Peephole *ir.Value // [D, 3·H]; optional; lstm only: input, output, forget
	Bias     *ir.Value // [D, G·H]; optional; gru with ResetAfter: added to the state's product
}

// The indices of a node's operands.
const (
	recurrentProjected = iota
	recurrentWeights
	recurrentLengths
	recurrentState
	recurrentMemory
	recurrentPeephole
	recurrentBias
	recurrentOperands // the number of those that derivatives know
)

// RecurrentScales is the index of an operand that nodes have whose weights are of i8: [D, G·H], by which each sum of
// products with the weights is multiplied.
const RecurrentScales = recurrentOperands

// Recurrent returns the results of a recurrent layer: the state after every step, [S, D, B, H], the last state, [D, B,
// H], and of an lstm the last memory, [D, B, H].
func Recurrent(b *ir.Builder, r Recurrence, x RecurrentOperands) []*ir.Value {
	reverse := make([]int64, len(r.Reverse))
	for i, back := range r.Reverse {
		if back {
			reverse[i] = 1
		}
	}
	attrs := ir.Attrs{"cell": r.Cell, "reverse": reverse, "functions": r.Functions, "alpha": r.Alpha, "beta": r.Beta,
		"clip": r.Clip, "coupled": r.Coupled, "reset_after": r.ResetAfter}
	return b.Node("recurrent", attrs, x.Projected, x.Weights, x.Lengths, x.State, x.Memory, x.Peephole, x.Bias).Outputs
}

// cells has the numbers of gates, functions and carried tensors of each kind of cell.
var cells = map[string]struct{ gates, functions, carried int64 }{"lstm": {4, 3, 2}, "gru": {3, 2, 1}, "rnn": {1, 1, 1}}

// carried returns the number of tensors that a layer carries from step to step.
func carried(n *ir.Node) int { return int(cells[n.Attrs.String("cell", "")].carried) }

// recurrentShape checks the operands; the results have the types that recurrentResults lists.
func recurrentShape(c *ir.Inference, n *ir.Node) error {
	if err := arity(n, 2, RecurrentScales+1); err != nil {
		return err
	}
	if err := recurrentOperandTypes(c, n); err != nil {
		return err
	}
	x := n.Inputs[0].Type
	for i, shape := range recurrentResults(n) {
		n.Result(i, ir.Type{DType: x.DType, Shape: shape})
	}
	return nil
}

// recurrentResults returns the shapes of a layer's results: the states, the last ones and, with the attribute keep, the
// values of each step that a derivative needs, [S, B, D, …]: the arguments of the gates' functions (of a gru with
// reset_after, only the state's product) and the values carried before the step; 0 beyond a sequence's end.
func recurrentResults(n *ir.Node) [][]sym.Expr {
	x, units := n.Inputs[0].Type.Shape, n.Inputs[1].Type.Shape[2]
	steps, batch, d, gates := x[0], x[1], x[2], x[3]
	out := [][]sym.Expr{{steps, d, batch, units}}
	for range carried(n) {
		out = append(out, []sym.Expr{d, batch, units})
	}
	if !n.Attrs.Bool("keep") {
		return out
	}
	out = append(out, []sym.Expr{steps, batch, d, gates})
	for range carried(n) {
		out = append(out, []sym.Expr{steps, batch, d, units})
	}
	return out
}

// recurrentOperandTypes checks the attributes and the operands of a recurrent layer.
func recurrentOperandTypes(c *ir.Inference, n *ir.Node) error {
	kind, known := cells[n.Attrs.String("cell", "")]
	directions := int64(len(n.Attrs.Ints("reverse")))
	functions, _ := n.Attrs["functions"].([]string)
	alpha, _ := n.Attrs["alpha"].([]float64)
	beta, _ := n.Attrs["beta"].([]float64)
	if !known || directions < 1 || int64(len(functions)) != directions*kind.functions || len(alpha) != len(functions) ||
		len(beta) != len(functions) {
		return fault(n, "a cell %q with %d directions and functions %v", n.Attrs.String("cell", ""), directions, functions)
	}
	for _, f := range functions {
		if activations[f] == nil {
			return fault(n, "no function is called %q", f)
		}
	}
	x, w := n.Inputs[0].Type, n.Inputs[1].Type
	narrow := w.DType.IsFloat() && w.DType.Bits() <= x.DType.Bits() || w.DType == dtype.I8 && x.DType == dtype.F32
	scaled := input(n, RecurrentScales) != nil
	if !x.DType.IsFloat() || !narrow || (w.DType == dtype.I8) != scaled || len(x.Shape) != 4 || len(w.Shape) != 3 {
		return fault(n, "a projected input %s and weights %s", x, w)
	}
	steps, batch, units, d := x.Shape[0], x.Shape[1], w.Shape[2], sym.Const(directions)
	gates := units.Mul(sym.Const(kind.gates))
	wants := [][]sym.Expr{{steps, batch, d, gates}, {d, gates, units}, {batch}, {d, batch, units}, {d, batch, units},
		{d, units.Mul(sym.Const(3))}, {d, gates}, {d, gates}}
	for i, want := range wants {
		v := input(n, i)
		if v == nil {
			continue
		}
		if floats := i > recurrentLengths; len(v.Type.Shape) != len(want) || floats && v.Type.DType != x.DType ||
			i == recurrentLengths && !v.Type.DType.IsInt() {
			return fault(n, "input %d is %s", i, v.Type)
		}
		for axis, extent := range want {
			if err := c.RequireEqual(n, v.Type.Shape[axis], extent, "the extents of a recurrent layer's operands"); err != nil {
				return err
			}
		}
	}
	return nil
}

// function returns the i-th function of direction d and its settings.
func function(n *ir.Node, d int, i int64) (*activation, float64, float64) {
	at := int64(d)*cells[n.Attrs.String("cell", "")].functions + i
	return activations[n.Attrs["functions"].([]string)[at]], n.Attrs["alpha"].([]float64)[at],
		n.Attrs["beta"].([]float64)[at]
}

// recurrentSequences writes a loop over the sequences of each direction, which are independent: build writes a serial
// loop over the steps, each one contraction of the state with the weights and one pass over the gates. like has the
// shape [S, B, D, G·H].
func recurrentSequences(k *Nest, n *ir.Node, like *loop.Memory, build func(m *recurrentKernel)) {
	for d, back := range n.Attrs.Ints("reverse") {
		k.Each("b", like.Shape[1], func(at sym.Expr) {
			build(&recurrentKernel{Nest: k, n: n, d: d, back: back != 0, first: at, units: k.In[1].Shape[2],
				width: like.Shape[3], dt: computing(like.DType)})
		})
	}
}

// recurrentKernel writes the loops of one direction and one sequence. Its nests, locals and products have one row: a
// recipe gives them several.
type recurrentKernel struct {
	*Nest
	n            *ir.Node
	d            int
	back         bool
	first, units sym.Expr // the sequence, and the number of units
	width        sym.Expr // of all gates together
	dt           dtype.DType
	h, c, gates  *loop.Memory
}

func (m *recurrentKernel) direction() sym.Expr { return sym.Const(int64(m.d)) }

// over writes a loop over the row of the sequence and the units.
func (m *recurrentKernel) over(hint string, units sym.Expr, body func(b, j sym.Expr)) {
	m.Nest.Nest(loop.Each, hint, []sym.Expr{one, units}, func(at []sym.Expr) { body(at[0], at[1]) })
}

// build writes the kernel: the locals, the loop over the steps, and the last state and memory.
func (m *recurrentKernel) build() {
	cell := m.n.Attrs.String("cell", "")
	x := m.In[0]
	steps := x.Shape[0]
	m.locals()
	m.start(m.h, present(m.In, recurrentState))
	m.start(m.c, present(m.In, recurrentMemory))
	var held *loop.Memory
	if cell == "gru" && !m.n.Attrs.Bool("reset_after") {
		held = m.Local("held", m.dt, one, m.units)
	}
	last := m.last(steps)
	m.Serial("s", last, func(s sym.Expr) {
		t := s
		if m.back {
			t = last.Sub(one).Sub(s)
		}
		input := func(b, i sym.Expr) loop.Expr {
			return loop.Convert(m.dt, x.Load(t, m.first.Add(b), m.direction(), i))
		}
		switch {
		case cell == "gru" && held == nil:
			m.gruAfter(t, input)
		case cell == "gru":
			m.gruBefore(t, input, held)
		default:
			m.multiply(m.h, sym.Const(0), m.width, input)
			if cell == "lstm" {
				m.lstm(t)
			} else {
				m.over("u", m.units, func(b, j sym.Expr) {
					m.keep(t, b, j)
					m.finish(t, b, j, m.apply(0, m.gates.Load(b, j)), nil)
				})
			}
		}
	})
	if !last.Equal(steps) {
		m.Each("after", steps.Sub(last), func(s sym.Expr) {
			m.over("o", m.units, func(b, j sym.Expr) { m.without(last.Add(s), b, j) })
		})
	}
	m.over("e", m.units, func(b, j sym.Expr) {
		to := []sym.Expr{m.direction(), m.first.Add(b), j}
		m.Store(m.Out[1], to, loop.Convert(m.Out[1].DType, m.h.Load(b, j)))
		if m.c != nil {
			m.Store(m.Out[2], to, loop.Convert(m.Out[2].DType, m.c.Load(b, j)))
		}
	})
}

// last returns the number of steps until the last sequence ends.
func (m *recurrentKernel) last(steps sym.Expr) sym.Expr {
	lengths := present(m.In, recurrentLengths)
	if lengths == nil {
		return steps
	}
	last := m.Local("last", dtype.I64, one)
	m.Each("once", one, func(sym.Expr) {
		most := m.Var("most", loop.Integer(dtype.I64, 0))
		m.Serial("b", one, func(b sym.Expr) {
			length := loop.Convert(dtype.I64, lengths.Load(m.first.Add(b)))
			m.Reduce(most, loop.Max, loop.Apply2(loop.Min, length, loop.At(steps)))
		})
		m.Store(last, []sym.Expr{{}}, most)
	})
	return m.Check("n", last.Load(sym.Const(0)), sym.Const(0), steps, "the steps until the last sequence ends")
}

// without writes the results of step t, which no sequence has: zeros.
func (m *recurrentKernel) without(t, b, j sym.Expr) {
	m.Store(m.Out[0], []sym.Expr{t, m.direction(), m.first.Add(b), j}, loop.Number(m.Out[0].DType, 0))
	m.eachKept(t, b, j, func(loop.Expr) loop.Expr { return loop.Number(m.dt, 0) })
}

// locals declares the carried values and the gates.
func (m *recurrentKernel) locals() {
	m.h = m.Local("h", m.dt, one, m.units)
	m.gates = m.Local("gates", m.dt, one, m.width)
	if m.n.Attrs.String("cell", "") == "lstm" {
		m.c = m.Local("c", m.dt, one, m.units)
	}
}

// start sets a carried value to the given one, or to 0.
func (m *recurrentKernel) start(local, given *loop.Memory) {
	if local == nil {
		return
	}
	m.over("z", m.units, func(b, j sym.Expr) {
		v := loop.Expr(loop.Number(m.dt, 0))
		if given != nil {
			v = loop.Convert(m.dt, given.Load(m.direction(), m.first.Add(b), j))
		}
		m.Store(local, []sym.Expr{b, j}, v)
	})
}

// multiply sets count gates from index from on to begin plus the product of state and their rows of the weights. The
// sums of products with bytes begin at 0 and are scaled before begin is added.
func (m *recurrentKernel) multiply(state *loop.Memory, from, count sym.Expr, begin func(b, i sym.Expr) loop.Expr) {
	w, scales := m.In[1], present(m.In, RecurrentScales)
	m.Each("once", one, func(sym.Expr) {
		sums := m.Local("sums", m.dt, one, count)
		m.over("x", count, func(b, i sym.Expr) {
			start := loop.Expr(loop.Number(m.dt, 0))
			if scales == nil {
				start = begin(b, from.Add(i))
			}
			m.Store(sums, []sym.Expr{b, i}, start)
		})
		m.Contract(one, count, m.units,
			sums.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			state.Tile(zeros(2), unit(2, 0, one), unit(2, 1, one)),
			w.Tile([]sym.Expr{m.direction(), from, {}}, unit(3, 2, one), unit(3, 1, one)))
		m.over("g", count, func(b, i sym.Expr) {
			sum := sums.Load(b, i)
			if scales != nil {
				sum = plus(begin(b, from.Add(i)), times(sum, loop.Convert(m.dt, scales.Load(m.direction(), from.Add(i)))))
			}
			m.Store(m.gates, []sym.Expr{b, from.Add(i)}, sum)
		})
	})
}

// apply returns the i-th function of x, which is clipped before.
func (m *recurrentKernel) apply(i int64, x loop.Expr) loop.Expr {
	if clip := m.n.Attrs.Float("clip", 0); clip > 0 {
		x = loop.Apply2(loop.Max, loop.Number(m.dt, -clip), loop.Apply2(loop.Min, loop.Number(m.dt, clip), x))
	}
	f, alpha, beta := function(m.n, m.d, i)
	return f.body(x, loop.Number(m.dt, alpha), loop.Number(m.dt, beta))
}

// alive returns whether sequence b has step t; nil if all sequences have all steps.
func (m *recurrentKernel) alive(t, b sym.Expr) loop.Expr {
	lengths := present(m.In, recurrentLengths)
	if lengths == nil {
		return nil
	}
	return m.Let("alive", less(loop.At(t), loop.Convert(dtype.I64, lengths.Load(m.first.Add(b)))))
}

// whileAlive returns x if the sequence has the step, and y otherwise.
func whileAlive(alive, x, y loop.Expr) loop.Expr {
	if alive == nil {
		return x
	}
	return loop.Choose(alive, x, y)
}

// keep writes the values of a step that a derivative needs, if the node has the attribute keep: see recurrentResults.
func (m *recurrentKernel) keep(t, b, j sym.Expr) {
	if !m.n.Attrs.Bool("keep") {
		return
	}
	alive := m.alive(t, b)
	m.eachKept(t, b, j, func(v loop.Expr) loop.Expr { return whileAlive(alive, v, loop.Number(m.dt, 0)) })
}

// eachKept stores what as returns for each value of a step that a derivative needs, if the node has the attribute keep.
func (m *recurrentKernel) eachKept(t, b, j sym.Expr, as func(v loop.Expr) loop.Expr) {
	if !m.n.Attrs.Bool("keep") {
		return
	}
	to := m.Out[1+carried(m.n):]
	store := func(to *loop.Memory, j sym.Expr, v loop.Expr) {
		m.Store(to, []sym.Expr{t, m.first.Add(b), m.direction(), j}, loop.Convert(to.DType, as(v)))
	}
	for g := range cells[m.n.Attrs.String("cell", "")].gates {
		at := m.units.Mul(sym.Const(g)).Add(j)
		store(to[0], at, m.gates.Load(b, at))
	}
	store(to[1], j, m.h.Load(b, j))
	if m.c != nil {
		store(to[2], j, m.c.Load(b, j))
	}
}

// finish stores a new state (and memory) and the step's output. After a sequence's end the state stays, and the output
// is 0.
func (m *recurrentKernel) finish(t, b, j sym.Expr, h, c loop.Expr) {
	h = m.Let("state", h)
	alive := m.alive(t, b)
	y := whileAlive(alive, h, loop.Number(m.dt, 0))
	h = whileAlive(alive, h, m.h.Load(b, j))
	if c != nil {
		c = whileAlive(alive, c, m.c.Load(b, j))
	}
	m.Store(m.Out[0], []sym.Expr{t, m.direction(), m.first.Add(b), j}, loop.Convert(m.Out[0].DType, y))
	m.Store(m.h, []sym.Expr{b, j}, h)
	if c != nil {
		m.Store(m.c, []sym.Expr{b, j}, c)
	}
}

// lstm writes the step of an lstm: gates with peepholes, the new memory and the new state.
func (m *recurrentKernel) lstm(t sym.Expr) {
	peephole := present(m.In, 5)
	m.over("u", m.units, func(b, j sym.Expr) {
		gate := func(g, p int64, memory loop.Expr) loop.Expr {
			v := m.gates.Load(b, m.units.Mul(sym.Const(g)).Add(j))
			if peephole != nil {
				v = plus(v, times(loop.Convert(m.dt, peephole.Load(m.direction(), m.units.Mul(sym.Const(p)).Add(j))), memory))
			}
			return v
		}
		m.keep(t, b, j)
		memory := m.Let("memory", m.c.Load(b, j))
		in, forget := m.apply(0, gate(0, 0, memory)), m.apply(0, gate(2, 2, memory))
		if m.n.Attrs.Bool("coupled") {
			in = m.Let("in", in)
			forget = minus(loop.Number(m.dt, 1), in)
		}
		candidate := m.apply(1, m.gates.Load(b, m.units.Mul(sym.Const(3)).Add(j)))
		c := m.Let("next", plus(times(forget, memory), times(in, candidate)))
		f, alpha, beta := function(m.n, m.d, 2)
		h := times(m.apply(0, gate(1, 1, c)), f.body(c, loop.Number(m.dt, alpha), loop.Number(m.dt, beta)))
		m.finish(t, b, j, h, c)
	})
}

// gruBefore writes the step of a gru whose reset gate multiplies the state before its product with the candidate's
// weights.
func (m *recurrentKernel) gruBefore(t sym.Expr, input func(b, i sym.Expr) loop.Expr, held *loop.Memory) {
	two := m.units.Mul(sym.Const(2))
	m.multiply(m.h, sym.Const(0), two, input)
	m.over("r", m.units, func(b, j sym.Expr) {
		m.Store(held, []sym.Expr{b, j}, times(m.apply(0, m.gates.Load(b, m.units.Add(j))), m.h.Load(b, j)))
	})
	m.multiply(held, two, m.units, input)
	m.over("u", m.units, func(b, j sym.Expr) {
		m.keep(t, b, j)
		update := m.Let("update", m.apply(0, m.gates.Load(b, j)))
		m.blend(t, b, j, update, m.apply(1, m.gates.Load(b, two.Add(j))))
	})
}

// gruAfter writes the step of a gru whose reset gate multiplies the state's product and bias; the projected input is
// added afterwards.
func (m *recurrentKernel) gruAfter(t sym.Expr, input func(b, i sym.Expr) loop.Expr) {
	two, three := m.units.Mul(sym.Const(2)), m.units.Mul(sym.Const(3))
	m.multiply(m.h, sym.Const(0), three, func(_, i sym.Expr) loop.Expr {
		if bias := present(m.In, 6); bias != nil {
			return loop.Convert(m.dt, bias.Load(m.direction(), i))
		}
		return loop.Number(m.dt, 0)
	})
	m.over("u", m.units, func(b, j sym.Expr) {
		m.keep(t, b, j)
		update := m.Let("update", m.apply(0, plus(input(b, j), m.gates.Load(b, j))))
		reset := m.apply(0, plus(input(b, m.units.Add(j)), m.gates.Load(b, m.units.Add(j))))
		candidate := m.apply(1, plus(input(b, two.Add(j)), times(reset, m.gates.Load(b, two.Add(j)))))
		m.blend(t, b, j, update, candidate)
	})
}

// blend finishes a gru's step with (1 − update)·candidate + update·state.
func (m *recurrentKernel) blend(t, b, j sym.Expr, update, candidate loop.Expr) {
	h := plus(times(minus(loop.Number(m.dt, 1), update), candidate), times(update, m.h.Load(b, j)))
	m.finish(t, b, j, h, nil)
}

// recurrentSamples covers each cell in each direction and in both, with and without the optional operands, clipping, no
// steps, no sequences, lengths below 0 and above the number of steps, the variants of lstm and gru, and the attribute
// keep.
func recurrentSamples(r *rand.Rand) []Sample {
	var out []Sample
	var weights dtype.DType // if not Invalid, the weights' type
	sample := func(dt dtype.DType, cell string, steps, batch, units int64, reverse []int64, optional bool, more ir.Attrs) {
		kind, d := cells[cell], int64(len(reverse))
		var functions []string
		for range d {
			functions = append(functions, map[string][]string{"lstm": {"sigmoid", "tanh", "tanh"}, "gru": {"sigmoid", "tanh"},
				"rnn": {"tanh"}}[cell]...)
		}
		attrs := ir.Attrs{"cell": cell, "reverse": reverse, "functions": functions, "alpha": make([]float64, len(functions)),
			"beta": make([]float64, len(functions))}
		for name, v := range more {
			attrs[name] = v
		}
		in := make([]*tensor.Tensor, RecurrentScales+1)
		in[0], in[1] = sampleNormal(r, dt, steps, batch, d, kind.gates*units), sampleNormal(r, dt, d, kind.gates*units, units)
		switch weights {
		case dtype.Invalid:
		case dtype.I8:
			in[1] = sampleIntegers(r, weights, in[1].Shape()...)
			in[RecurrentScales] = tensor.Must(tensor.New(dt, d, kind.gates*units))
			for i := range in[RecurrentScales].Len() {
				in[RecurrentScales].SetFloat(i, r.Float64()/64)
			}
		default:
			in[1] = tensor.Must(in[1].Convert(weights, false))
		}
		if optional {
			in[2] = tensor.Must(tensor.New(dtype.I32, batch))
			for i := range batch {
				in[2].SetInt(i, r.Int63n(steps+3)-1)
			}
			in[3] = sampleNormal(r, dt, d, batch, units)
			switch cell {
			case "lstm":
				in[4], in[5] = sampleNormal(r, dt, d, batch, units), sampleNormal(r, dt, d, 3*units)
			case "gru":
				if attrs.Bool("reset_after") {
					in[6] = sampleNormal(r, dt, d, kind.gates*units)
				}
			}
		}
		out = append(out, Sample{Attrs: attrs, Inputs: in})
	}
	for _, cell := range []string{"lstm", "gru", "rnn"} {
		for _, reverse := range [][]int64{{0}, {1}, {0, 1}} {
			for _, optional := range []bool{false, true} {
				sample(dtype.F32, cell, 3, 2, 4, reverse, optional, nil)
			}
		}
		sample(dtype.F32, cell, 2, 33, 2, []int64{0}, true, ir.Attrs{"clip": 0.5})
		sample(dtype.F64, cell, 2, 2, 3, []int64{0}, true, nil)
		sample(dtype.F16, cell, 2, 2, 3, []int64{1}, true, nil)
		sample(dtype.F32, cell, 0, 2, 3, []int64{0}, false, nil)
		sample(dtype.F32, cell, 2, 0, 3, []int64{0}, false, nil)
	}
	sample(dtype.F32, "lstm", 3, 2, 4, []int64{0, 1}, true, ir.Attrs{"coupled": true})
	sample(dtype.F32, "gru", 3, 2, 4, []int64{0, 1}, true, ir.Attrs{"reset_after": true})
	sample(dtype.F32, "gru", 3, 2, 4, []int64{0}, false, ir.Attrs{"reset_after": true})
	sample(dtype.F32, "rnn", 3, 2, 4, []int64{0}, true, ir.Attrs{"functions": []string{"leaky_relu"},
		"alpha": []float64{0.1}})
	for _, cell := range []string{"lstm", "gru", "rnn"} {
		sample(dtype.F32, cell, 2, 33, 2, []int64{0, 1}, true, ir.Attrs{"keep": true})
	}
	sample(dtype.F32, "gru", 2, 3, 4, []int64{1}, true, ir.Attrs{"keep": true, "reset_after": true})
	for _, weights = range []dtype.DType{dtype.BF16, dtype.F16, dtype.I8} {
		sample(dtype.F32, "lstm", 3, 2, 17, []int64{0, 1}, true, nil)
		sample(dtype.F32, "lstm", 2, 1, 40, []int64{0}, false, nil)
		sample(dtype.F32, "gru", 3, 33, 4, []int64{1}, true, nil)
		sample(dtype.F32, "gru", 3, 2, 9, []int64{0, 1}, true, ir.Attrs{"reset_after": true})
		sample(dtype.F32, "rnn", 0, 2, 3, []int64{0}, true, nil)
	}
	return out
}
