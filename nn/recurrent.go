package nn

import (
	"fmt"

	"github.com/weirml/weir/array"
)

// Layers sets the number of stacked recurrent layers. The default is 1.
func Layers(n int) Option { return func(o *settings) { o.count = n } }

// Bidirectional makes a recurrent layer read its steps forwards and backwards; the last axis of its result holds both.
func Bidirectional(o *settings) { o.both = true }

// Rate sets the rate of a layer's dropout. The default is 0.
func Rate(rate float64) Option { return func(o *settings) { o.rate = rate } }

// recurrent implements LSTM, GRU and RNN.
type recurrent struct {
	cell       array.Cell
	in, hidden int
	gates      []int // by gate in the store's order: the gate's index in a file
	settings
}

// LSTM takes x[batch, steps, in] and returns the states of all steps, [batch, steps, hidden]. If it is also given an
// initial state and an initial memory, [layers · directions, batch, hidden], it also returns the state and the memory
// after the last step. Parameters have PyTorch's names: "weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0".
func LSTM(in, hidden int, options ...Option) Layer {
	return &recurrent{array.LSTMCell, in, hidden, []int{0, 3, 1, 2}, settingsOf(options)}
}

// GRU is like LSTM, without a memory.
func GRU(in, hidden int, options ...Option) Layer {
	return &recurrent{array.GRUCell, in, hidden, []int{1, 0, 2}, settingsOf(options)}
}

// RNN is like GRU, with one gate, whose activation is Tanh, or Relu by Activation.
func RNN(in, hidden int, options ...Option) Layer {
	return &recurrent{array.RNNCell, in, hidden, []int{0}, settingsOf(options)}
}

// String returns the constructor's call, for errors.
func (l *recurrent) String() string {
	return fmt.Sprintf("%s(%d, %d)", map[array.Cell]string{array.LSTMCell: "LSTM", array.GRUCell: "GRU",
		array.RNNCell: "RNN"}[l.cell], l.in, l.hidden)
}

// directions returns the suffixes of the parameters' names, one for each direction.
func (l *recurrent) directions() []string {
	if l.both {
		return []string{"", "_reverse"}
	}
	return []string{""}
}

// Declare declares each layer's and direction's weights and biases.
func (l *recurrent) Declare(d *Declaration) {
	if l.in < 1 || l.hidden < 1 || l.count < 1 || l.activation != nil &&
		(l.cell != array.RNNCell || l.activation != Relu && l.activation != Tanh) {
		d.Fail(fmt.Errorf("%v: %d layers, activation %v", l, l.count, l.activation))
		return
	}
	within, rows := l.initial(within(float64(l.hidden))), len(l.gates)*l.hidden
	for k := range l.count {
		in := l.in
		if k > 0 {
			in = l.hidden * len(l.directions())
		}
		for _, suffix := range l.directions() {
			name := fmt.Sprintf("l%d%s", k, suffix)
			d.add(&entry{name: "weight_ih_" + name, dtype: l.dtype, shape: []int{in, rows}, init: within, transposed: true,
				gates: l.gates})
			d.add(&entry{name: "weight_hh_" + name, dtype: l.dtype, shape: []int{rows, l.hidden}, init: within, gates: l.gates})
			if l.bias {
				d.add(&entry{name: "bias_ih_" + name, dtype: l.dtype, shape: []int{rows}, init: l.initialBias(within),
					gates: l.gates})
				d.add(&entry{name: "bias_hh_" + name, dtype: l.dtype, shape: []int{rows}, init: l.initialBias(within),
					gates: l.gates})
			}
		}
	}
}

// Apply takes x, or x with initial states. It returns the states of all steps, followed by the last states if initial
// states are given.
func (l *recurrent) Apply(c *Context, x ...*array.Array) []*array.Array {
	states := map[array.Cell]int{array.LSTMCell: 2, array.GRUCell: 1, array.RNNCell: 1}[l.cell]
	if len(x) != 1 && !c.takes(1+states, x) {
		return c.dead()
	}
	if x[0].Rank() != 3 || x[0].Dim(2) != l.in {
		return c.Failf("", "the input is %v; the layer takes batch, steps and %d elements", x[0], l.in)
	}
	d := len(l.directions())
	for _, a := range x[1:] {
		if a.Rank() != 3 || a.Dim(0) != l.count*d || a.Dim(2) != l.hidden {
			return c.Failf("", "a state is %v; the layer takes [%d, batch, %d]", a, l.count*d, l.hidden)
		}
	}
	y := c.SwapAxes(x[0], 0, 1)
	last := make([][]*array.Array, states)
	for k := range l.count {
		given := make([]*array.Array, 2)
		for i := range len(x) - 1 {
			given[i] = c.Split(x[1+i], 0, k*d, d, (l.count-k-1)*d)[1]
		}
		if k > 0 && l.rate > 0 {
			y = drop(c, y, l.rate)
		}
		out := l.layer(c, k, y, given[0], given[1])
		y = out[0]
		for i := range last {
			last[i] = append(last[i], out[1+i])
		}
	}
	results := []*array.Array{c.SwapAxes(y, 0, 1)}
	if len(x) > 1 {
		for _, parts := range last {
			results = append(results, c.Scope.Concat(0, parts...))
		}
	}
	return results
}

// layer applies layer k in both directions to x[steps, batch, …]. It returns the states of all steps in that layout,
// and the last states.
func (l *recurrent) layer(c *Context, k int, x, state, memory *array.Array) []*array.Array {
	var inputs, weights, biases []*array.Array
	o := array.Recurrence{Cell: l.cell, ResetAfter: l.cell == array.GRUCell, Relu: l.activation == Relu}
	for i, suffix := range l.directions() {
		name := fmt.Sprintf("l%d%s", k, suffix)
		o.Reverse = append(o.Reverse, i == 1)
		y := c.MatMul(x, c.Param("weight_ih_"+name))
		if l.bias {
			bias := c.Param("bias_ih_" + name)
			if l.cell == array.GRUCell {
				biases = append(biases, c.Param("bias_hh_"+name))
			} else {
				bias = c.Add(bias, c.Param("bias_hh_"+name))
			}
			y = c.Add(y, bias)
		}
		inputs, weights = append(inputs, c.ExpandDims(y, 2)), append(weights, c.ExpandDims(c.Param("weight_hh_"+name), 0))
	}
	input, weight := inputs[0], weights[0]
	if len(inputs) > 1 {
		input, weight = c.Scope.Concat(2, inputs...), c.Scope.Concat(0, weights...)
	}
	var bias *array.Array
	if biases != nil {
		bias = c.Stack(0, biases...)
	}
	out := c.Recurrent(o, input, weight, state, memory, bias)
	// [steps, directions, batch, hidden] to [steps, batch, directions · hidden].
	d := len(l.directions())
	y := c.SwapAxes(out[0], 1, 2)
	out[0] = c.Scope.Reshape(y, x.Dim(0), x.Dim(1), d*l.hidden)
	return out
}
