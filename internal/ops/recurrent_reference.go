package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// recurrentMean runs each direction of each sequence by itself, in f64.
func recurrentMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(n.Outputs))
	for i := range out {
		var err error
		if out[i], err = result(e, n, i); err != nil {
			return nil, err
		}
	}
	if !allEmpty(out) {
		recurrentRun(n, in, out)
	}
	return out, nil
}

// allEmpty reports whether no tensor has elements: sequences of no units may be many.
func allEmpty(list []*tensor.Tensor) bool {
	return !slices.ContainsFunc(list, func(t *tensor.Tensor) bool { return t.Len() > 0 })
}

// recurrentRun computes a layer's results into out.
func recurrentRun(n *ir.Node, in, out []*tensor.Tensor) {
	shape, reverse := in[0].Shape(), n.Attrs.Ints("reverse")
	for d, back := range reverse {
		for b := range shape[1] {
			m := newRecurrentReference(n, in, d, b)
			for s := range m.length {
				t := s
				if back != 0 {
					t = m.length - 1 - s
				}
				row := (t*shape[1]+b)*int64(len(reverse)) + int64(d)
				before := [][]float64{m.h, m.c}
				m.step(func(i int64) float64 { return in[0].Float(row*m.width + i) })
				if last := 1 + carried(n); len(out) > last {
					for i, list := range append([][]float64{m.gates}, before[:carried(n)]...) {
						setFloats(out[last+i], row*int64(len(list)), list)
					}
				}
				setFloats(out[0], ((t*int64(len(reverse))+int64(d))*shape[1]+b)*m.units, m.h)
			}
			line := (int64(d)*shape[1] + b) * m.units
			for i, list := range [][]float64{m.h, m.c}[:carried(n)] {
				setFloats(out[1+i], line, list)
			}
		}
	}
}

// setFloats writes a list into a tensor from element from on.
func setFloats(t *tensor.Tensor, from int64, list []float64) {
	for i, x := range list {
		t.SetFloat(from+int64(i), x)
	}
}

// floatsOf returns count elements of a tensor from element from on; zeros if the tensor is absent.
func floatsOf(t *tensor.Tensor, from, count int64) []float64 {
	list := make([]float64, count)
	for i := range list {
		if t != nil {
			list[i] = t.Float(from + int64(i))
		}
	}
	return list
}

// newRecurrentReference returns sequence b in direction d before its first step.
func newRecurrentReference(n *ir.Node, in []*tensor.Tensor, d int, b int64) *recurrentReference {
	shape, units := in[0].Shape(), in[1].Shape()[2]
	line := (int64(d)*shape[1] + b) * units
	m := &recurrentReference{n: n, d: d, units: units, w: in[1], width: shape[3], length: shape[0],
		peephole: present(in, recurrentPeephole), bias: present(in, recurrentBias), scales: present(in, RecurrentScales),
		h: floatsOf(present(in, recurrentState), line, units), c: floatsOf(present(in, recurrentMemory), line, units),
		gates: make([]float64, shape[3])}
	if lengths := present(in, recurrentLengths); lengths != nil {
		m.length = max(min(m.length, lengths.Int(b)), 0)
	}
	return m
}

// recurrentReference is the state of one sequence in one direction.
type recurrentReference struct {
	n                 *ir.Node
	d                 int
	units, width      int64
	length            int64 // the sequence's number of steps
	w, peephole, bias *tensor.Tensor
	scales            *tensor.Tensor
	h, c              []float64
	gates             []float64 // the kept values of a step
}

// product returns a row of the weights times a state, plus the bias.
func (m *recurrentReference) product(gate int64, h []float64) float64 {
	sum, row := 0.0, (int64(m.d)*m.width+gate)*m.units
	for k := range m.units {
		sum += m.w.Float(row+k) * h[k]
	}
	if m.scales != nil {
		sum *= m.scales.Float(int64(m.d)*m.width + gate)
	}
	if m.bias != nil {
		sum += m.bias.Float(int64(m.d)*m.width + gate)
	}
	return sum
}

// apply returns the i-th function of x, which is clipped before.
func (m *recurrentReference) apply(i int64, x float64) float64 {
	if clip := m.n.Attrs.Float("clip", 0); clip > 0 {
		x = max(-clip, min(clip, x))
	}
	f, alpha, beta := function(m.n, m.d, i)
	return f.mean(x, alpha, beta)
}

// peep returns the peephole weight of gate i for unit j; 0 without peepholes.
func (m *recurrentReference) peep(i, j int64) float64 {
	if m.peephole == nil {
		return 0
	}
	return m.peephole.Float((int64(m.d)*3+i)*m.units + j)
}

// step computes the next state and memory; x(i) is element i of the projected input.
func (m *recurrentReference) step(x func(i int64) float64) {
	h, c, u := make([]float64, m.units), make([]float64, m.units), m.units
	switch m.n.Attrs.String("cell", "") {
	case "lstm":
		for j := range u {
			gate := func(g int64) float64 {
				m.gates[g*u+j] = x(g*u+j) + m.product(g*u+j, m.h)
				return m.gates[g*u+j]
			}
			in := m.apply(0, gate(0)+m.peep(0, j)*m.c[j])
			forget := m.apply(0, gate(2)+m.peep(2, j)*m.c[j])
			if m.n.Attrs.Bool("coupled") {
				forget = 1 - in
			}
			c[j] = forget*m.c[j] + in*m.apply(1, gate(3))
			f, alpha, beta := function(m.n, m.d, 2)
			h[j] = m.apply(0, gate(1)+m.peep(1, j)*c[j]) * f.mean(c[j], alpha, beta)
		}
	case "gru":
		reset, held := make([]float64, u), make([]float64, u)
		for j := range u {
			m.gates[u+j] = m.product(u+j, m.h)
			reset[j] = m.apply(0, x(u+j)+m.gates[u+j])
			held[j] = reset[j] * m.h[j]
		}
		for j := range u {
			m.gates[j] = m.product(j, m.h)
			update := m.apply(0, x(j)+m.gates[j])
			sum := 0.0
			if m.n.Attrs.Bool("reset_after") {
				m.gates[2*u+j] = m.product(2*u+j, m.h)
				sum = reset[j] * m.gates[2*u+j]
			} else {
				sum = m.product(2*u+j, held)
				m.gates[j], m.gates[u+j], m.gates[2*u+j] = x(j)+m.gates[j], x(u+j)+m.gates[u+j], x(2*u+j)+sum
			}
			h[j] = (1-update)*m.apply(1, x(2*u+j)+sum) + update*m.h[j]
		}
	default:
		for j := range u {
			m.gates[j] = x(j) + m.product(j, m.h)
			h[j] = m.apply(0, m.gates[j])
		}
	}
	m.h, m.c = h, c
}
