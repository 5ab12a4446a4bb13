package ops

import (
	"math/rand"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init defines the operator scan.
func init() {
	define(&Def{Op: "scan", Grad: scanGrad, Shape: scanShape, Mean: scanMean, Expand: scanExpand, Samples: scanSamples})
}

// ScanOver says how a scan traverses: the axis of each scanned input and of each stacked output, and whether it is
// traversed from its end. Short lists are filled up with axis 0, forward.
type ScanOver struct {
	InputAxes, OutputAxes        []int64
	InputReversed, OutputReverse []int64 // 0 or 1
}

// Scan runs body once for each slice of the scanned inputs, which have one extent along their axes. The body takes the
// states and a slice of each input, and yields the new states and a slice of each output. The results are the last
// states, then the stacked slices of each output.
func Scan(b *ir.Builder, body *ir.Block, over ScanOver, states, scanned []*ir.Value) []*ir.Value {
	attrs := ir.Attrs{"states": int64(len(states)), "input_axes": over.InputAxes, "output_axes": over.OutputAxes,
		"input_reversed": over.InputReversed, "output_reversed": over.OutputReverse}
	return b.NodeWith("scan", attrs, []*ir.Block{body}, append(append([]*ir.Value{}, states...), scanned...)...).Outputs
}

// walk says how one input or output is traversed.
type walk struct {
	axis     int
	reversed bool
}

// walkOf returns how the i-th of a scan's inputs or outputs, of the given rank, is traversed; which is input or output.
func walkOf(n *ir.Node, which string, i, rank int) (walk, error) {
	w := walk{}
	if axes := n.Attrs.Ints(which + "_axes"); i < len(axes) {
		axis, err := axisOf(n, axes[i], rank)
		if err != nil {
			return w, err
		}
		w.axis = axis
	}
	if list := n.Attrs.Ints(which + "_reversed"); i < len(list) {
		w.reversed = list[i] != 0
	}
	return w, nil
}

// scanRegion returns a scan's body, its number of states and its number of iterations, and checks that the body takes
// and yields as many values as the node.
func scanRegion(n *ir.Node) (body *ir.Block, states int, extent sym.Expr, err error) {
	count := n.Attrs.Int("states", 0)
	if len(n.Regions) != 1 || count < 0 || count >= int64(len(n.Inputs)) || len(n.Regions[0].Params) != len(n.Inputs) ||
		int64(len(n.Regions[0].Results)) < count {
		return nil, 0, extent, fault(n, "%d states among %d inputs, for a body that takes and yields other numbers", count,
			len(n.Inputs))
	}
	states = int(count)
	for i, v := range n.Inputs {
		if v == nil || i >= states && len(v.Type.Shape) == 0 {
			return nil, 0, extent, fault(n, "input %d cannot be scanned", i)
		}
	}
	first := n.Inputs[states].Type.Shape
	w, err := walkOf(n, "input", 0, len(first))
	if err != nil {
		return nil, 0, extent, err
	}
	return n.Regions[0], states, first[w.axis], nil
}

// scanShape requires that inputs have one extent along their axes and the types of the body's parameters, and that
// states keep their type.
func scanShape(c *ir.Inference, n *ir.Node) error {
	body, states, extent, err := scanRegion(n)
	if err != nil {
		return err
	}
	for i, v := range n.Inputs {
		want := v.Type
		if i >= states {
			w, err := walkOf(n, "input", i-states, len(v.Type.Shape))
			if err != nil {
				return err
			}
			if err := c.RequireEqual(n, v.Type.Shape[w.axis], extent, "scanned inputs have the same extent"); err != nil {
				return err
			}
			want = ir.Type{DType: v.Type.DType, Shape: append(append([]sym.Expr{}, v.Type.Shape[:w.axis]...),
				v.Type.Shape[w.axis+1:]...)}
		} else if err := keeps(c, n, want, body.Results[i].Type); err != nil {
			return err
		}
		if !sameType(c, want, body.Params[i].Type) {
			return diag.Unsupportedf("the body takes %s, and is given %s", body.Params[i].Type, want).AtNode(n.Source, "scan")
		}
	}
	for i, v := range body.Results {
		t := v.Type
		if i >= states {
			w, err := walkOf(n, "output", i-states, len(t.Shape)+1)
			if err != nil {
				return err
			}
			t = ir.Type{DType: t.DType, Shape: append(append(append([]sym.Expr{}, t.Shape[:w.axis]...), extent),
				t.Shape[w.axis:]...)}
		}
		n.Result(i, t)
	}
	return nil
}

// keeps requires that a state becomes a value of the type that it begins with.
func keeps(c *ir.Inference, n *ir.Node, begins, becomes ir.Type) error {
	if begins.DType != becomes.DType || len(begins.Shape) != len(becomes.Shape) {
		return fault(n, "a state begins as %s and goes on as %s; its type stays the same", begins, becomes)
	}
	for axis, extent := range begins.Shape {
		if err := c.RequireEqual(n, extent, becomes.Shape[axis], "a state keeps its shape"); err != nil {
			return err
		}
	}
	return nil
}

// scanMean evaluates the body once for each slice.
func scanMean(e *ir.Evaluation, n *ir.Node, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	body, states, extent, err := scanRegion(n)
	if err != nil {
		return nil, err
	}
	count, err := e.Int(extent)
	if err != nil {
		return nil, err
	}
	out := append([]*tensor.Tensor{}, in[:states]...)
	for i := states; i < len(n.Outputs); i++ {
		full, err := result(e, n, i)
		if err != nil {
			return nil, err
		}
		out = append(out, full)
	}
	for step := range count {
		args := append([]*tensor.Tensor{}, out[:states]...)
		for i, x := range in[states:] {
			w, _ := walkOf(n, "input", i, x.Rank())
			shape := append(append([]int64{}, x.Shape()[:w.axis]...), x.Shape()[w.axis+1:]...)
			slice, err := tensor.New(x.DType(), shape...)
			if err != nil {
				return nil, err
			}
			w.each(x.Shape(), step, func(full, flat int64) { moveElement(slice, flat, x, full) })
			args = append(args, slice)
		}
		results, err := e.Run(body, args)
		if err != nil {
			return nil, err
		}
		copy(out, results[:states])
		for i, slice := range results[states:] {
			full := out[states+i]
			w, _ := walkOf(n, "output", i, full.Rank())
			w.each(full.Shape(), step, func(at, flat int64) { moveElement(full, at, slice, flat) })
		}
	}
	return out, nil
}

// each calls visit for each element of the slice of a step, with its flat index in the full shape and in the slice.
func (w walk) each(shape []int64, step int64, visit func(full, flat int64)) {
	if w.reversed {
		step = shape[w.axis] - 1 - step
	}
	strides, flat := tensor.Strides(shape), int64(0)
	one := append([]int64{}, shape...)
	one[w.axis] = 1
	tensor.Each(one, func(at []int64) {
		visit(tensor.Offset(strides, at)+step*strides[w.axis], flat)
		flat++
	})
}

// scanExpand builds a loop whose body takes its slices by the iteration's number.
func scanExpand(b *ir.Builder, n *ir.Node) []*ir.Value {
	body, states, extent, err := scanRegion(n)
	if err != nil {
		b.Fail(err)
	}
	into, in := LoopBody(b, "scan", extent, nil)
	into.Params = append(into.Params, body.Params[:states]...)
	into.Consts = append(into.Consts, body.Consts...)
	last := extent.Sub(one)
	for i, v := range body.Params[states:] {
		x := n.Inputs[states+i]
		w, err := walkOf(n, "input", i, len(x.Type.Shape))
		if err != nil {
			b.Fail(err)
		}
		at := into.Params[0]
		if w.reversed {
			at = Integers(in, ir.Type{DType: dtype.I64}, []sym.Expr{last.Sub(at.Known[0])})
		}
		// The slice replaces the body's parameter.
		node := Gather(in, x, at, int64(w.axis)).Node
		node.Outputs[0], v.Node, v.Index = v, node, 0
	}
	into.Nodes = append(into.Nodes, body.Nodes...)
	into.Results = append([]*ir.Value{in.Constant("scan.on", truthTensor(true))}, body.Results...)
	out := slices.Clone(Loop(b, into, Integers(b, ir.Type{DType: dtype.I64}, []sym.Expr{extent}), nil,
		n.Inputs[:states]...))
	for i := states; i < len(out); i++ {
		rank := len(out[i].Type.Shape)
		w, err := walkOf(n, "output", i-states, rank)
		if err != nil {
			b.Fail(err)
		}
		if w.reversed {
			begin, step := make([]sym.Expr, rank), make([]int64, rank)
			for axis := range step {
				step[axis] = 1
			}
			begin[0], step[0] = last, -1
			out[i] = Slice(b, out[i], begin, out[i].Type.Shape, step)
		}
		if w.axis > 0 {
			perm := make([]int64, 0, rank)
			for axis := 1; axis < rank; axis++ {
				if len(perm) == w.axis {
					perm = append(perm, 0)
				}
				perm = append(perm, int64(axis))
			}
			if len(perm) < rank {
				perm = append(perm, 0)
			}
			out[i] = Transpose(b, out[i], perm...)
		}
	}
	return out
}

// truthTensor returns a scalar of Bool.
func truthTensor(yes bool) *tensor.Tensor {
	t := tensor.Must(tensor.New(dtype.Bool))
	if yes {
		t.SetInt(0, 1)
	}
	return t
}

// scanSamples adds up the rows or columns of a matrix, in either direction, with outputs stacked in either direction.
func scanSamples(r *rand.Rand) []Sample {
	var out []Sample
	for _, s := range []ScanOver{{}, {InputAxes: []int64{1}}, {OutputAxes: []int64{-1}}, {InputReversed: []int64{1}},
		{OutputReverse: []int64{1}},
		{InputAxes: []int64{-1}, OutputAxes: []int64{1}, InputReversed: []int64{1}, OutputReverse: []int64{1}}} {
		for _, shape := range [][]int64{{3, 4}, {1, 1}, {5, 2}} {
			width := shape[1]
			if s.InputAxes != nil {
				width = shape[0]
			}
			row := ir.Type{DType: dtype.F64, Shape: ir.Constants([]int64{width})}
			out = append(out, Sample{
				Attrs: ir.Attrs{"states": int64(1), "input_axes": s.InputAxes, "output_axes": s.OutputAxes,
					"input_reversed":  s.InputReversed,
					"output_reversed": s.OutputReverse},
				Inputs: []*tensor.Tensor{sampleNormal(r, dtype.F64, width), sampleNormal(r, dtype.F64, shape...)},
				Regions: func(b *ir.Builder) []*ir.Block {
					body := &ir.Block{}
					in := b.In(body)
					sum, slice := in.Param("sum", row), in.Param("slice", row)
					next := in.Op("add", nil, sum, slice)
					body.Results = []*ir.Value{next, in.Op("mul", nil, next, slice)}
					return []*ir.Block{body}
				}})
		}
	}
	return out
}
