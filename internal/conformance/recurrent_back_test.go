package conformance

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// recurrentCase is a layer whose derivatives are compared.
type recurrentCase struct {
	layer               ops.Recurrence
	steps, batch, units int64
	optional            bool // lengths and initial states
	named               bool // extents are dimensions
	ends                bool // derivatives of the final states too
}

// TestRecurrentDerivatives: the first and second derivatives of recurrent layers, compiled, equal the reference's: each
// cell, blocks of sequences that are full, ragged or empty, different lengths, both directions.
func TestRecurrentDerivatives(t *testing.T) {
	functions := map[string][]string{"lstm": {"sigmoid", "tanh", "tanh"}, "gru": {"sigmoid", "tanh"}, "rnn": {"relu"}}
	r := rand.New(rand.NewSource(1))
	for i, batch := range []int64{1, 33, 0, 5, 32, 67, 3, 40} {
		for k, cell := range []string{"lstm", "gru", "rnn", "gru"} {
			c := recurrentCase{steps: int64(i+k) % 4, batch: batch, units: 1 + int64(r.Intn(20)), optional: (i+k)%2 == 0,
				named: i%2 == 1, ends: r.Intn(2) == 0}
			c.layer = ops.Recurrence{Cell: cell, ResetAfter: k == 3, Reverse: [][]bool{{false}, {true}, {false, true}}[(i+k)%3]}
			for range c.layer.Reverse {
				c.layer.Functions = append(c.layer.Functions, functions[cell]...)
			}
			c.layer.Alpha, c.layer.Beta = make([]float64, len(c.layer.Functions)), make([]float64, len(c.layer.Functions))
			for _, second := range []bool{false, true} {
				if second && (batch > 5 || k != i%4) {
					continue
				}
				how := configurations[(2*i+k)%len(configurations)]
				t.Run(fmt.Sprintf("%s%d second=%v %s", cell, batch, second, how.name), func(t *testing.T) {
					x := c.trial(r, second)
					if _, err := x.build(); err != nil {
						t.Fatal(err)
					}
					if v, err := x.compare(t.Context(), how); err != nil || v != equal && !how.budget {
						t.Errorf("%+v: verdict %d, %v", c, v, err)
					}
				})
			}
		}
	}
}

// extents returns the steps, sequences, directions, gates and units, named or not.
func (c recurrentCase) extents() (steps, batch, d, gates, units sym.Expr) {
	steps, batch, d, units = sym.Const(c.steps), sym.Const(c.batch), sym.Const(int64(len(c.layer.Reverse))),
		sym.Const(c.units)
	gates = units.Mul(sym.Const(map[string]int64{"lstm": 4, "gru": 3, "rnn": 1}[c.layer.Cell]))
	if c.named {
		steps, batch = sym.Dim("steps"), sym.Dim("batch")
	}
	return steps, batch, d, gates, units
}

// shapes returns the shapes of the operands, nil if absent, and of the results' gradients.
func (c recurrentCase) shapes() (operands, seeds [][]sym.Expr) {
	steps, batch, d, gates, units := c.extents()
	state := []sym.Expr{d, batch, units}
	operands = make([][]sym.Expr, 7)
	operands[0], operands[1] = []sym.Expr{steps, batch, d, gates}, []sym.Expr{d, gates, units}
	seeds = [][]sym.Expr{{steps, d, batch, units}}
	if c.optional {
		operands[2], operands[3] = []sym.Expr{batch}, state
		if c.layer.Cell == "lstm" {
			operands[4] = state
		}
		if c.layer.ResetAfter {
			operands[6] = []sym.Expr{d, gates}
		}
	}
	if c.ends {
		seeds = append(seeds, state)
		if c.layer.Cell == "lstm" {
			seeds = append(seeds, state)
		}
	}
	return operands, seeds
}

// trial returns the derivatives of the layer by all its floats or, if second is set, the derivatives of these.
func (c recurrentCase) trial(r *rand.Rand, second bool) *trial {
	x := &trial{build: func() (*ir.Module, error) { return c.module(second) }}
	operands, seeds := c.shapes()
	for i, shape := range append(operands, seeds...) {
		if shape == nil {
			continue
		}
		sizes := make([]int64, len(shape))
		for axis, e := range shape {
			sizes[axis], _ = e.Eval(func(name sym.Name) (int64, bool) {
				return map[string]int64{"steps": c.steps, "batch": c.batch}[name.Text()], true
			})
		}
		if i == 2 {
			lengths := tensor.Must(tensor.New(dtype.I64, sizes...))
			for i := range lengths.Len() {
				lengths.SetInt(i, r.Int63n(c.steps+2)-1)
			}
			x.args = append(x.args, lengths)
			continue
		}
		t := tensor.Must(tensor.New(dtype.F32, sizes...))
		for i := range t.Len() {
			t.SetFloat(i, r.NormFloat64()*0.4)
		}
		x.args = append(x.args, t)
	}
	return x
}

func (c recurrentCase) module(second bool) (m *ir.Module, err error) {
	defer ir.Catch(&err)
	body := &ir.Block{}
	m = &ir.Module{Name: "recurrent", Dims: sym.NewDims(), Main: &ir.Func{Name: "main", Body: body}}
	m.Funcs = []*ir.Func{m.Main}
	if c.named {
		for _, name := range []string{"steps", "batch"} {
			m.Dims.Set(sym.User(name), sym.Range{Min: 0, Max: 1 << 16})
		}
	}
	b := ir.NewBuilder(ir.NewInference(m), body)
	operands, seeds := c.shapes()
	var in, xs, ups []*ir.Value
	for i, shape := range append(operands, seeds...) {
		var v *ir.Value
		if shape != nil {
			dt := dtype.F32
			if i == 2 {
				dt = dtype.I64
			}
			v = b.Param(fmt.Sprintf("x%d", i), ir.Type{DType: dt, Shape: shape})
		}
		switch {
		case i >= len(operands):
			ups = append(ups, v)
		default:
			in = append(in, v)
			if v != nil && i != 2 {
				xs = append(xs, v)
			}
		}
	}
	y := ops.Recurrent(b, c.layer, ops.RecurrentOperands{Projected: in[0], Weights: in[1], Lengths: in[2], State: in[3],
		Memory: in[4], Bias: in[6]})
	body.Results = ops.VJP(b, y[:len(ups)], ups, xs)
	if second {
		body.Results = ops.VJP(b, body.Results, nil, append(xs, ups...))
	}
	return m, ir.Verify(m)
}
