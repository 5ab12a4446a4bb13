package ops

import (
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// recurrentBackMean runs each direction of each sequence by itself, in f64.
func recurrentBackMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	var out []*tensor.Tensor
	for i := range n.Outputs {
		t, err := result(e, n, i)
		if err != nil {
			return nil, err
		}
		out = append(out, t)
	}
	if allEmpty(out) {
		return out, nil
	}
	for d, back := range n.Attrs.Ints("reverse") {
		for b := range in[backGates].Shape()[1] {
			newRecurrentBackReference(n, in, d, b).run(back != 0, out)
		}
	}
	return out, nil
}

// recurrentBackReference computes the derivatives of one sequence in one direction.
type recurrentBackReference struct {
	*recurrentReference
	in               []*tensor.Tensor
	b                int64
	by, products     []float64 // of a step: by the projected input, and by the state's products
	dh, dc, straight []float64 // by the state and the memory; by the state, not through the products
}

// newRecurrentBackReference returns sequence b in direction d after its last step.
func newRecurrentBackReference(n *ir.Node, in []*tensor.Tensor, d int, b int64) *recurrentBackReference {
	layer := slices.Clone(in[:recurrentOperands])
	layer[recurrentProjected] = in[backGates]
	m := &recurrentBackReference{recurrentReference: newRecurrentReference(n, layer, d, b), in: in, b: b}
	line := (int64(d)*in[backGates].Shape()[1] + b) * m.units
	m.dh, m.dc = floatsOf(present(in, backByLast), line, m.units), floatsOf(present(in, backByEnd), line, m.units)
	return m
}

// run computes the steps from last to first and writes the results into out.
func (m *recurrentBackReference) run(back bool, out []*tensor.Tensor) {
	shape, directions := m.in[backGates].Shape(), int64(len(m.n.Attrs.Ints("reverse")))
	for s := range m.length {
		t := m.length - 1 - s
		if back {
			t = s
		}
		for j, up := range floatsOf(present(m.in, backByY), ((t*directions+int64(m.d))*shape[1]+m.b)*m.units, m.units) {
			m.dh[j] += up
		}
		row := (t*shape[1]+m.b)*directions + int64(m.d)
		m.by, m.products, m.straight = make([]float64, m.width), make([]float64, m.width), make([]float64, m.units)
		m.back(row)
		setFloats(out[0], row*m.width, m.by)
		if m.n.Attrs.Bool("reset_after") {
			setFloats(out[2], row*m.width, m.products)
		}
		m.dh = m.straight
	}
	line := (int64(m.d)*shape[1] + m.b) * m.units
	for i, list := range [][]float64{m.dh, m.dc}[:carried(m.n)] {
		setFloats(out[1+i], line, list)
	}
}

// slope returns the derivative of the i-th function at its result y.
func (m *recurrentBackReference) slope(i int64, y float64) float64 {
	f, _, _ := function(m.n, m.d, i)
	return slopes[f.name].mean(y)
}

// carry adds the derivatives by the products of count gates times their rows of the weights.
func (m *recurrentBackReference) carry(to []float64, from, count int64) {
	for k := from; k < from+count; k++ {
		for j := range to {
			to[j] += m.products[k] * m.w.Float((int64(m.d)*m.width+k)*m.units+int64(j))
		}
	}
}

// back computes the derivatives of one step, the row of [S, B, D] with that number.
func (m *recurrentBackReference) back(row int64) {
	z, h, u := floatsOf(m.in[backGates], row*m.width, m.width), floatsOf(m.in[backState], row*m.units, m.units),
		m.units
	switch m.n.Attrs.String("cell", "") {
	case "lstm":
		m.lstm(z, floatsOf(m.in[backMemory], row*m.units, m.units))
	case "gru":
		m.gru(z, h, floatsOf(m.in[recurrentProjected], row*m.width, m.width))
		return
	default:
		for j := range u {
			m.by[j] = m.dh[j] * m.slope(0, m.apply(0, z[j]))
		}
	}
	copy(m.products, m.by)
	m.carry(m.straight, 0, m.width)
}

// lstm computes the step of an lstm with gates z and memory c.
func (m *recurrentBackReference) lstm(z, c []float64) {
	u := m.units
	for j := range u {
		in, out, forget, candidate := m.apply(0, z[j]), m.apply(0, z[u+j]), m.apply(0, z[2*u+j]), m.apply(1, z[3*u+j])
		y := m.apply(2, forget*c[j]+in*candidate)
		dc := m.dc[j] + m.dh[j]*out*m.slope(2, y)
		m.by[j], m.by[u+j] = dc*candidate*m.slope(0, in), m.dh[j]*y*m.slope(0, out)
		m.by[2*u+j], m.by[3*u+j] = dc*c[j]*m.slope(0, forget), dc*in*m.slope(1, candidate)
		m.dc[j] = dc * forget
	}
}

// gru computes the step of a gru with gates z, state h and projected input x.
func (m *recurrentBackReference) gru(z, h, x []float64) {
	u, after := m.units, m.n.Attrs.Bool("reset_after")
	resets := make([]float64, u)
	for j := range u {
		var update, candidate float64
		if after {
			update, resets[j] = m.apply(0, x[j]+z[j]), m.apply(0, x[u+j]+z[u+j])
			candidate = m.apply(1, x[2*u+j]+resets[j]*z[2*u+j])
		} else {
			update, resets[j], candidate = m.apply(0, z[j]), m.apply(0, z[u+j]), m.apply(1, z[2*u+j])
		}
		m.by[j] = (m.dh[j]*h[j] - m.dh[j]*candidate) * m.slope(0, update)
		m.by[2*u+j] = m.dh[j] * (1 - update) * m.slope(1, candidate)
		m.straight[j] = m.dh[j] * update
	}
	copy(m.products, m.by)
	held := make([]float64, u)
	if !after {
		m.carry(held, 2*u, u)
	}
	for j := range u {
		slope := m.slope(0, resets[j])
		if after {
			m.by[u+j], m.products[2*u+j] = m.by[2*u+j]*z[2*u+j]*slope, m.by[2*u+j]*resets[j]
		} else {
			m.by[u+j], m.straight[j] = held[j]*h[j]*slope, m.straight[j]+held[j]*resets[j]
		}
		m.products[u+j] = m.by[u+j]
	}
	if after {
		m.carry(m.straight, 0, 3*u)
	} else {
		m.carry(m.straight, 0, 2*u)
	}
}
