package signal

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// extentOf returns an integer scalar input as an extent within [lo, ExtentLimit], which may be known only as the model
// runs.
func extentOf(c *convert.Call, i int, lo int64) sym.Expr {
	elements, err := c.ElementsWithin(convert.ScalarIn(c.Builder, c.Input(i)), c.String(), lo,
		sym.Const(convert.ExtentLimit))
	if err != nil {
		c.Fail(err)
	}
	return elements[0]
}

// output returns the type that the attribute output_datatype names, f32 if it is absent.
func output(c *convert.Call) dtype.DType {
	if dt := c.Type("output_datatype"); dt != dtype.Invalid {
		return dt
	}
	return dtype.F32
}

// window returns the rule of a window that is a sum of cosines with these coefficients.
func window(terms ...float64) convert.Rule {
	return func(c *convert.Call) []*ir.Value {
		return convert.One(ops.CosineWindow(c.Builder, output(c), extentOf(c, 0, 0), c.Int("periodic", 1) != 0, terms...))
	}
}

// melWeightMatrix converts MelWeightMatrix.
func melWeightMatrix(c *convert.Call) []*ir.Value {
	scalar := func(i int) *ir.Value { return convert.ScalarIn(c.Builder, c.Input(i)) }
	return convert.One(ops.MelWeights(c.Builder, output(c), extentOf(c, 0, 0), extentOf(c, 1, 0), scalar(2), scalar(3),
		scalar(4)))
}

// dft converts DFT. From version 20 on the axis is an input, which may be known only as the model runs. It is never the
// last axis, which holds the components of a complex number.
func dft(c *convert.Call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	if rank < 2 {
		c.Fault("a signal %s, it must have at least two axes", x.Type)
	}
	switch {
	case c.Version < 20:
		return convert.One(transform(c, x, c.Axis(c.Int("axis", 1), rank)))
	case c.Optional(2) == nil:
		return convert.One(transform(c, x, int64(rank-2)))
	case convert.IsKnown(c.In[2]):
		return convert.One(transform(c, x, c.Axis(scalarNumber(c, 2), rank)))
	}
	return convert.One(transformAt(c, x))
}

// scalarNumber returns input i, a single known integer.
func scalarNumber(c *convert.Call, i int) int64 {
	list := c.Numbers(i)
	if len(list) != 1 {
		c.Fault("input %d has %d elements, it must have 1", i, len(list))
	}
	return list[0]
}

// transform is the transform of x along an axis. If the spectrum is one-sided, its inverse has an even length.
func transform(c *convert.Call, x *ir.Value, axis int64) *ir.Value {
	return ops.Fourier(c.Builder, x, axis, transformLength(c, x.Type.Shape[axis]), c.Int("inverse", 0) != 0,
		c.Int("onesided", 0) != 0)
}

// transformLength returns the length of the transform along an axis of the extent: the input dft_length or, if that is
// absent, the axis's own.
func transformLength(c *convert.Call, extent sym.Expr) sym.Expr {
	switch {
	case c.Optional(1) != nil:
		return extentOf(c, 1, 1)
	case c.Int("inverse", 0) != 0 && c.Int("onesided", 0) != 0:
		return extent.Sub(sym.Const(1)).Mul(sym.Const(2))
	}
	return extent
}

// transformAt is transform along an axis that only the run knows. It reshapes x to four axes: those before the axis,
// the axis, those after it, and the components; then it restores the shape.
func transformAt(c *convert.Call, x *ir.Value) *ir.Value {
	shape := x.Type.Shape
	last := len(shape) - 1
	axis := c.Axes(2, len(shape))[0]
	c.Condition(sym.Cond{A: axis, Rel: sym.NE, B: sym.Const(int64(last))}, "the axis is not the last")
	folds := make([]sym.Expr, 3)
	for d, extent := range shape[:last] {
		here := convert.Is(axis, d)
		folds[0] = folds[0].Add(here.Mul(convert.Count(shape[:d])))
		folds[1] = folds[1].Add(here.Mul(extent))
		folds[2] = folds[2].Add(here.Mul(convert.Count(shape[d+1 : last])))
	}
	folds = c.AsDims(0, convert.Natural(folds)...)
	y := transform(c, ops.Reshape(c.Builder, x, append(folds, shape[last])...), 1)
	to := make([]sym.Expr, last)
	for d, extent := range shape[:last] {
		m := transformLength(c, extent)
		if c.Int("inverse", 0) == 0 && c.Int("onesided", 0) != 0 {
			m = m.FloorDiv(sym.Const(2)).Add(sym.Const(1))
		}
		to[d] = extent.Add(convert.Is(axis, d).Mul(m.Sub(extent)))
	}
	return ops.Reshape(c.Builder, y, append(c.AsDims(0, convert.Natural(to)...), y.Type.Shape[3])...)
}

// stft converts STFT: it transforms the frames of a signal [batch, length, components] that begin at every
// frame_step-th element and end within the signal, each multiplied by a window.
func stft(c *convert.Call) []*ir.Value {
	b, x, step, window := c.Builder, c.Input(0), extentOf(c, 1, 1), c.Optional(2)
	if len(x.Type.Shape) == 2 { // a real signal, as exporters write it
		x = ops.Reshape(b, x, append(slices.Clone(x.Type.Shape), sym.Const(1))...)
	}
	if len(x.Type.Shape) != 3 || window != nil && len(window.Type.Shape) != 1 {
		c.Fault("a signal %s, it must have rank 3, and a window rank 1", x.Type)
	}
	signal := x.Type.Shape[1]
	size := signal
	if window != nil {
		size = window.Type.Shape[0]
	}
	if c.Optional(3) != nil {
		size = extentOf(c, 3, 1)
	}
	c.Condition(sym.Cond{A: size, Rel: sym.LE, B: signal}, "a frame of the signal")
	frames := c.Dims().Simplify(signal.Sub(size).FloorDiv(step).Add(sym.Const(1)))
	begins := ops.Binary(b, ops.Mul, ops.Counting(b, dtype.I64, frames), c.Integer(step))
	at := ops.Binary(b, ops.Add, ops.Reshape(b, begins, frames, sym.Const(1)), ops.Counting(b, dtype.I64, size))
	x = ops.Gather(b, x, at, 1)
	if window != nil {
		c.Condition(sym.Cond{A: window.Type.Shape[0], Rel: sym.EQ, B: size}, "the window is as long as a frame")
		x = ops.Binary(b, ops.Mul, x, ops.Reshape(b, window, size, sym.Const(1)))
	}
	return convert.One(ops.Fourier(b, x, 2, size, false, c.Int("onesided", 1) != 0))
}
