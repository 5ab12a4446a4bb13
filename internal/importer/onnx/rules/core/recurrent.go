package core

import (
	"slices"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// recurrentKinds has the properties of the three recurrent operators.
var recurrentKinds = map[string]struct {
	cell      string
	gates     int64
	functions []string // the defaults for one direction
}{
	"LSTM": {"lstm", 4, []string{"Sigmoid", "Tanh", "Tanh"}},
	"GRU":  {"gru", 3, []string{"Sigmoid", "Tanh"}},
	"RNN":  {"rnn", 1, []string{"Tanh"}},
}

// recurrentFunctions has the activation functions of cells by ONNX's names in lower case, with their settings and the
// settings' defaults.
var recurrentFunctions = map[string]struct {
	name        string
	takes       int // the number of settings: alpha, or alpha and beta
	alpha, beta float64
}{
	"sigmoid": {name: "sigmoid"}, "tanh": {name: "tanh"}, "relu": {name: "relu"}, "softsign": {name: "softsign"},
	"softplus":  {name: "softplus"},
	"leakyrelu": {"leaky_relu", 1, 0.01, 0}, "thresholdedrelu": {"thresholded_relu", 1, 1, 0}, "elu": {"elu", 1, 1, 0},
	"hardsigmoid": {"hard_sigmoid", 2, 0.2, 0.5}, "scaledtanh": {"scaled_tanh", 2, 1, 1}, "affine": {"affine", 2, 1, 0},
}

// recurrent converts LSTM, GRU and RNN: one product projects the input of every step, and the recurrence follows.
func recurrent(c *convert.Call) []*ir.Value {
	b, kind := c.Builder, recurrentKinds[c.Node.OpType]
	x, w, r := c.Input(0), c.Input(1), c.Input(2)
	state, memory := c.Optional(5), (*ir.Value)(nil)
	if kind.cell == "lstm" {
		memory = c.Optional(6)
	}
	byBatch := c.Int("layout", 0) != 0
	if byBatch {
		x = ops.Transpose(b, x, 1, 0, 2)
		for _, v := range []**ir.Value{&state, &memory} {
			if *v != nil {
				*v = ops.Transpose(b, *v, 1, 0, 2)
			}
		}
	}
	if len(x.Type.Shape) != 3 || len(w.Type.Shape) != 3 || len(r.Type.Shape) != 3 {
		c.Fault("an input %s with weights %s and %s, all of which must have rank 3", x.Type, w.Type, r.Type)
	}
	cell := CellOf(c, kind.cell, kind.functions)
	directions, width := sym.Const(int64(len(cell.Reverse))), r.Type.Shape[1]
	operands := ops.RecurrentOperands{Weights: r, Lengths: c.Optional(4), State: state, Memory: memory}
	if kind.cell == "lstm" {
		operands.Peephole = c.Optional(7)
	}
	flat := ops.Reshape(b, w, directions.Mul(width), w.Type.Shape[2])
	projected := ops.MatMul(b, x, flat, false, true)
	if bias := c.Optional(3); bias != nil {
		halves := ops.Reshape(b, bias, directions, sym.Const(2), width)
		if cell.ResetAfter {
			half := func(i int64) *ir.Value { return ops.SliceAxis(b, halves, 1, sym.Const(i), sym.Const(1)) }
			operands.Bias = ops.Reshape(b, half(1), directions, width)
			halves = half(0)
		}
		sum := ops.ReduceSum(b, halves, false, 1)
		projected = ops.Binary(b, ops.Add, projected, ops.Reshape(b, sum, directions.Mul(width)))
	}
	operands.Projected = ops.Reshape(b, projected, x.Type.Shape[0], x.Type.Shape[1], directions, width)
	out := slices.Clone(ops.Recurrent(b, cell, operands))
	if byBatch {
		out[0] = ops.Transpose(b, out[0], 2, 0, 1, 3)
		for i := 1; i < len(out); i++ {
			out[i] = ops.Transpose(b, out[i], 1, 0, 2)
		}
	}
	return out
}

// CellOf returns the attributes of a recurrent layer; functions has the default activations of one direction.
func CellOf(c *convert.Call, kind string, functions []string) ops.Recurrence {
	cell := ops.Recurrence{Cell: kind, Clip: c.Float("clip", 0), Coupled: c.Int("input_forget", 0) != 0,
		ResetAfter: kind == "gru" && c.Int("linear_before_reset", 0) != 0}
	switch direction := c.StringAttribute("direction", "forward"); direction {
	case "forward":
		cell.Reverse = []bool{false}
	case "reverse":
		cell.Reverse = []bool{true}
	case "bidirectional":
		cell.Reverse = []bool{false, true}
	default:
		c.Fault("direction is %q", direction)
	}
	cellFunctions(c, &cell, functions)
	return cell
}

// cellFunctions reads the activations of a cell; fallback has those of one direction if there is no such attribute.
// The alphas and betas go, in order, to the functions that take them.
func cellFunctions(c *convert.Call, cell *ops.Recurrence, fallback []string) {
	names := c.Strings("activations")
	if names == nil {
		names = slices.Repeat(fallback, len(cell.Reverse))
	}
	if len(names) != len(fallback)*len(cell.Reverse) {
		c.Fault("%d activations for %d directions of %d each", len(names), len(cell.Reverse), len(fallback))
	}
	alphas, betas := c.Floats("activation_alpha"), c.Floats("activation_beta")
	next := func(list *[]float64, fallback float64) float64 {
		if len(*list) == 0 {
			return fallback
		}
		first := (*list)[0]
		*list = (*list)[1:]
		return first
	}
	for _, name := range names {
		f, ok := recurrentFunctions[strings.ToLower(name)]
		if !ok {
			c.Fault("there is no activation %q", name)
		}
		alpha, beta := f.alpha, f.beta
		if f.takes > 0 {
			alpha = next(&alphas, alpha)
		}
		if f.takes > 1 {
			beta = next(&betas, beta)
		}
		cell.Functions, cell.Alpha, cell.Beta = append(cell.Functions, f.name), append(cell.Alpha, alpha),
			append(cell.Beta, beta)
	}
}
