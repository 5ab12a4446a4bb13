package onnx

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init adds the rules of this file.
func init() {
	rulesOf(map[string]rule{
		"reshape": reshape,
		"transpose": func(c *call) {
			c.final("Transpose", c.inputs(), wire.IntsAttribute("perm", c.n.Attrs.Ints("perm")...))
		},
		"concat":   func(c *call) { c.final("Concat", c.inputs(), intAttr("axis", c.n.Attrs.Int("axis", 0))) },
		"expand":   func(c *call) { c.final("Expand", []string{c.in(0), c.vector(c.n.Attrs.Exprs("shape"))}) },
		"slice":    slice,
		"slice_by": sliceBy,
		"pad":      pad,
		"gather": func(c *call) {
			c.final("Gather", []string{c.in(0), c.indices(1)}, intAttr("axis", c.n.Attrs.Int("axis", 0)))
		},
		"resample": resample,
		"gather_elements": func(c *call) {
			c.final("GatherElements", []string{c.in(0), c.indices(1)}, intAttr("axis", c.n.Attrs.Int("axis", 0)))
		},
		"gather_nd": func(c *call) {
			c.final("GatherND", []string{c.in(0), c.cast(c.in(1), dtype.I64)}, intAttr("batch_dims", c.n.Attrs.Int("batch", 0)))
		},
		"scatter_elements": func(c *call) {
			c.final("ScatterElements", []string{c.in(0), c.indices(1), c.in(2)}, intAttr("axis", c.n.Attrs.Int("axis", 0)),
				c.reduction())
		},
		"scatter_nd": func(c *call) {
			c.final("ScatterND", []string{c.in(0), c.cast(c.in(1), dtype.I64), c.in(2)}, c.reduction())
		},
		"repeat":   repeat,
		"range":    rangeByCount,
		"integers": integers,
		"nonzero":  direct("NonZero"),
		"triangle": func(c *call) {
			k := c.add("Reshape", []string{c.extent(c.expr("k")), c.ints()})
			c.final("Trilu", []string{c.in(0), k}, intAttr("upper", flag(c.n.Attrs.Bool("upper"))))
		},
		"reverse_sequence": func(c *call) {
			c.final("ReverseSequence", []string{c.in(0), c.cast(c.in(1), dtype.I64)},
				intAttr("batch_axis", c.n.Attrs.Int("batch", 1)), intAttr("time_axis", c.n.Attrs.Int("time", 0)))
		},
		"topk": topk,
	})
}

func (c *call) reduction() *wire.AttributeProto {
	return wire.StringAttribute("reduction", c.n.Attrs.String("reduction", "none"))
}

// slice writes Slice, which needs the end of each axis: a backward step that takes the first element must end before
// index 0.
func slice(c *call) {
	begin, extent, step := c.n.Attrs.Exprs("begin"), c.n.Attrs.Exprs("extent"), c.n.Attrs.Ints("step")
	var from, to []sym.Expr
	var axes, steps []int64
	for i, e := range c.shape() {
		if step[i] == 1 && begin[i].Equal(sym.Const(0)) && extent[i].Equal(e) {
			continue
		}
		end := begin[i].Add(extent[i].Mul(sym.Const(step[i])))
		if step[i] < 0 {
			end = c.backwardEnd(end)
		}
		from, to, axes, steps = append(from, begin[i]), append(to, end), append(axes, int64(i)), append(steps, step[i])
	}
	if axes == nil {
		c.final("Identity", c.inputs())
		return
	}
	c.final("Slice", []string{c.in(0), c.vector(from), c.vector(to), c.ints(axes...), c.ints(steps...)})
}

// backwardEnd returns an end for a backward step. An end below 0 would count from the last element, so the least number
// stands for it.
func (c *call) backwardEnd(end sym.Expr) sym.Expr {
	dims := c.module.Dims
	switch {
	case dims.LE(sym.Const(0), end) == sym.Yes:
		return end
	case dims.LT(end, sym.Const(0)) == sym.Yes:
		return sym.Const(math.MinInt32)
	}
	c.refuse("a slice backwards to %v, of either sign", end)
	return end
}

// sliceBy writes Slice with steps that are expressions, which must be positive.
func sliceBy(c *call) {
	begin, extent, step := c.n.Attrs.Exprs("begin"), c.n.Attrs.Exprs("extent"), c.n.Attrs.Exprs("step")
	var axes []int64
	to := make([]sym.Expr, len(begin))
	for i := range begin {
		if c.module.Dims.LT(sym.Const(0), step[i]) != sym.Yes {
			c.refuse("a slice in steps of %v, of either sign", step[i])
		}
		axes, to[i] = append(axes, int64(i)), begin[i].Add(extent[i].Mul(step[i]))
	}
	c.final("Slice", []string{c.in(0), c.vector(begin), c.vector(to), c.ints(axes...), c.vector(step)})
}

// pad writes Pad.
func pad(c *call) {
	in := []string{c.in(0), c.vector(slices.Concat(c.n.Attrs.Exprs("begin"), c.n.Attrs.Exprs("end")))}
	if len(c.n.Inputs) > 1 && c.n.Inputs[1] != nil {
		in = append(in, c.add("Reshape", []string{c.in(1), c.ints()}))
	}
	c.final("Pad", in, wire.StringAttribute("mode", c.n.Attrs.String("mode", "constant")))
}

// repeat repeats each element in place: it adds an axis after each axis, expands the new axes and merges them.
func repeat(c *call) {
	var split, result []sym.Expr
	for i, times := range c.n.Attrs.Ints("times") {
		split, result = append(split, c.shape()[i], sym.Const(1)), append(result, c.shape()[i], sym.Const(times))
	}
	x := c.add("Reshape", []string{c.in(0), c.vector(split)}, intAttr("allowzero", 1))
	x = c.add("Expand", []string{x, c.vector(result)})
	c.final("Reshape", []string{x, c.vector(c.n.Outputs[0].Type.Shape)}, intAttr("allowzero", 1))
}

// rangeByCount writes Range as start + delta · (0, 1, …), so that the number of elements is the result's extent
// exactly.
func rangeByCount(c *call) {
	scalar := func(e sym.Expr) string { return c.add("Reshape", []string{c.extent(e), c.ints()}) }
	i := c.add("Range", []string{scalar(sym.Const(0)), scalar(c.n.Outputs[0].Type.Shape[0]), scalar(sym.Const(1))})
	start, delta, dt := c.in(0), c.in(1), c.dtype()
	narrow := dt.IsFloat() && dt.Bits() < 32
	if narrow { // rounded once
		dt = dtype.F32
		start, delta = c.cast(start, dt), c.cast(delta, dt)
	}
	if dt != dtype.I64 {
		i = c.cast(i, dt)
	}
	in := []string{start, c.add("Mul", []string{i, delta})}
	if narrow {
		c.final("Cast", []string{c.add("Add", in)}, intAttr("to", int64(elementType(c.dtype()))))
		return
	}
	c.final("Add", in)
}

// integers writes a tensor of integers that are expressions.
func integers(c *call) {
	elements, out := c.n.Attrs.Exprs("elements"), c.n.Outputs[0]
	if numbers, ok := numbersOf(elements); ok {
		if shape, ok := numbersOf(out.Type.Shape); ok {
			t := tensor.Must(tensor.New(out.Type.DType, shape...))
			for i, x := range numbers {
				t.SetInt(int64(i), x)
			}
			c.final("Identity", []string{c.tensor("c", t)})
			return
		}
	}
	x := c.vector(elements)
	if out.Type.DType != dtype.I64 {
		x = c.cast(x, out.Type.DType)
	}
	c.reshape(x, ir.Constants([]int64{int64(len(elements))}), out.Type.Shape, c.result(out))
}

// topk writes TopK; its third result is scratch and not written.
func topk(c *call) {
	out := []string{c.result(c.n.Outputs[0]), c.result(c.n.Outputs[1])}
	c.node("TopK", []string{c.in(0), c.extent(c.expr("k"))}, out, intAttr("axis", c.n.Attrs.Int("axis", -1)),
		intAttr("largest", flag(c.n.Attrs.Bool("largest"))))
}

// reshape writes Reshape, or Identity if the shape stays.
func reshape(c *call) {
	to := c.n.Outputs[0].Type.Shape
	if slices.EqualFunc(c.shape(), to, sym.Expr.Equal) {
		c.final("Identity", c.inputs())
		return
	}
	c.reshape(c.in(0), c.shape(), to, c.result(c.n.Outputs[0]))
}

// resample writes a Gather of the taps, along an additional axis, times their weights, summed.
func resample(c *call) {
	dt, rank := c.dtype(), int64(len(c.shape()))
	axis := (c.n.Attrs.Int("axis", 0) + rank) % rank
	x, weights := c.in(0), c.in(2)
	if dt.Bits() < 32 {
		x, weights = c.cast(x, dtype.F32), c.cast(weights, dtype.F32)
	}
	taps := c.add("Gather", []string{x, c.indices(1)}, intAttr("axis", axis))
	var after []int64 // axes
	for i := axis + 1; i < rank; i++ {
		after = append(after, i-axis+1)
	}
	if after != nil {
		weights = c.add("Unsqueeze", []string{weights, c.ints(after...)})
	}
	product := []string{c.add("Mul", []string{taps, weights}), c.ints(axis + 1)}
	if dt.Bits() < 32 {
		c.final("Cast", []string{c.add("ReduceSum", product, intAttr("keepdims", 0))}, intAttr("to", int64(elementType(dt))))
		return
	}
	c.final("ReduceSum", product, intAttr("keepdims", 0))
}
