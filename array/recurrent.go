package array

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// Cell is a kind of recurrent layer.
type Cell string

// The kinds of cells. The comments list their gates in order.
const (
	LSTMCell Cell = "lstm" // input, output, forget, candidate
	GRUCell  Cell = "gru"  // update, reset, candidate
	RNNCell  Cell = "rnn"
)

// Recurrence are the settings of Recurrent.
type Recurrence struct {
	Cell       Cell
	Reverse    []bool // by direction: steps are processed from last to first
	Relu       bool   // of RNNCell: Relu instead of Tanh
	ResetAfter bool   // of GRUCell: the reset gate multiplies the product of state and weights, including the bias
}

// Recurrent runs a recurrent layer over S steps of B sequences, with H units, D directions and G gates. input[S, B, D,
// G·H] is the layer's input after its projection to the gates; weights[D, G·H, H] multiply the state. The initial
// state[D, B, H], an LSTM's initial memory[D, B, H], and a GRU's bias[D, G·H], which is added to the product of state
// and weights, may be nil. The results are the states after all steps, [S, D, B, H], the last state, [D, B, H], and for
// an LSTM the last memory.
func (s *Scope) Recurrent(o Recurrence, input, weights, state, memory, bias *Array) []*Array {
	results := 2
	functions := []string{"tanh"}
	switch o.Cell {
	case LSTMCell:
		results, functions = 3, []string{"sigmoid", "tanh", "tanh"}
	case GRUCell:
		functions = []string{"sigmoid", "tanh"}
	case RNNCell:
		if o.Relu {
			functions = []string{"relu"}
		}
	default:
		s.failAt("recurrent", diag.Inputf("no cell %q", o.Cell))
		return s.none(results)
	}
	r := ops.Recurrence{Cell: string(o.Cell), Reverse: o.Reverse, ResetAfter: o.ResetAfter}
	ints := []int{flag(o.Relu), flag(o.ResetAfter)}
	for _, back := range o.Reverse {
		r.Functions = append(r.Functions, functions...)
		ints = append(ints, flag(back))
	}
	r.Alpha, r.Beta = make([]float64, len(r.Functions)), make([]float64, len(r.Functions))
	in, at := []*Array{input, weights}, [3]int{-1, -1, -1}
	for i, a := range []*Array{state, memory, bias} {
		if a != nil {
			at[i], in = len(in), append(in, a)
		}
		ints = append(ints, at[i])
	}
	return s.many(operation{name: "recurrent", text: string(o.Cell), ints: ints,
		build: func(b *ir.Builder, v []*ir.Value) []*ir.Value {
			var given [3]*ir.Value
			for i, k := range at {
				if k >= 0 {
					given[i] = v[k]
				}
			}
			return ops.Recurrent(b, r, ops.RecurrentOperands{Projected: v[0], Weights: v[1], State: given[0], Memory: given[1],
				Bias: given[2]})[:results]
		}}, results, in...)
}
