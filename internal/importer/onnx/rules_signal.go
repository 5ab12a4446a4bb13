package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// extent is an integer scalar input as an extent, which the run may bind within [lo, extentLimit].
func (c *call) extent(i int, lo int64) sym.Expr {
	elements, err := c.ElementsWithin(scalarIn(c.Builder, c.Input(i)), c.String(), lo, sym.Const(extentLimit))
	if err != nil {
		c.Fail(err)
	}
	return elements[0]
}

// output is the type that the attribute output_datatype names, f32 where it is absent.
func (c *call) output() dtype.DType {
	if dt := c.Type("output_datatype"); dt != dtype.Invalid {
		return dt
	}
	return dtype.F32
}

func window(terms ...float64) rule {
	return func(c *call) []*ir.Value {
		return one(ops.CosineWindow(c.Builder, c.output(), c.extent(0, 0), c.Int("periodic", 1) != 0, terms...))
	}
}

func melWeightMatrix(c *call) []*ir.Value {
	scalar := func(i int) *ir.Value { return scalarIn(c.Builder, c.Input(i)) }
	return one(ops.MelWeights(c.Builder, c.output(), c.extent(0, 0), c.extent(1, 0), scalar(2), scalar(3), scalar(4)))
}

// dft: from version 20 on the axis is an input, which the run may know first. It is never the last, which holds the parts of a number.
func dft(c *call) []*ir.Value {
	x := c.Input(0)
	rank := len(x.Type.Shape)
	if rank < 2 {
		c.Fault("a signal %s, it must have at least two axes", x.Type)
	}
	switch {
	case c.Version < 20:
		return one(c.transform(x, c.Axis(c.Int("axis", 1), rank)))
	case c.Optional(2) == nil:
		return one(c.transform(x, int64(rank-2)))
	case isKnown(c.In[2]):
		return one(c.transform(x, c.Axis(c.scalarNumber(2), rank)))
	}
	return one(c.transformAt(x))
}

// scalarNumber is input i, one known integer.
func (c *call) scalarNumber(i int) int64 {
	list := c.Numbers(i)
	if len(list) != 1 {
		c.Fault("input %d has %d elements, it must have 1", i, len(list))
	}
	return list[0]
}

// transform is the transform of x along an axis, of the length given or that of the axis. An inverse of a half is taken to be of an even length.
func (c *call) transform(x *ir.Value, axis int64) *ir.Value {
	return ops.Fourier(c.Builder, x, axis, c.transformLength(x.Type.Shape[axis]), c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0)
}

// transformLength is the length of the transform of an axis of the extent.
func (c *call) transformLength(extent sym.Expr) sym.Expr {
	switch {
	case c.Optional(1) != nil:
		return c.extent(1, 1)
	case c.Int("inverse", 0) != 0 && c.Int("onesided", 0) != 0:
		return extent.Sub(sym.Const(1)).Mul(sym.Const(2))
	}
	return extent
}

// transformAt is transform along an axis that only the run knows: x is folded into what lies before it, itself, what lies behind it and the parts, and the result unfolded.
func (c *call) transformAt(x *ir.Value) *ir.Value {
	shape := x.Type.Shape
	last := len(shape) - 1
	axis := c.axes(2, len(shape))[0]
	c.require(sym.Cond{A: axis, Rel: sym.NE, B: sym.Const(int64(last))}, "the axis is not the last")
	folds := make([]sym.Expr, 3)
	for d, extent := range shape[:last] {
		here := is(axis, d)
		folds[0] = folds[0].Add(here.Mul(count(shape[:d])))
		folds[1] = folds[1].Add(here.Mul(extent))
		folds[2] = folds[2].Add(here.Mul(count(shape[d+1 : last])))
	}
	folds = c.asDims(0, natural(folds)...)
	y := c.transform(ops.Reshape(c.Builder, x, append(folds, shape[last])...), 1)
	to := make([]sym.Expr, last)
	for d, extent := range shape[:last] {
		m := c.transformLength(extent)
		if c.Int("inverse", 0) == 0 && c.Int("onesided", 0) != 0 {
			m = m.FloorDiv(sym.Const(2)).Add(sym.Const(1))
		}
		to[d] = extent.Add(is(axis, d).Mul(m.Sub(extent)))
	}
	return ops.Reshape(c.Builder, y, append(c.asDims(0, natural(to)...), y.Type.Shape[3])...)
}

// stft transforms the frames of a signal [batch, length, parts] that begin at every frame_step-th element and lie wholly inside, each times a window.
func stft(c *call) []*ir.Value {
	b, x, step, window := c.Builder, c.Input(0), c.extent(1, 1), c.Optional(2)
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
		size = c.extent(3, 1)
	}
	c.require(sym.Cond{A: size, Rel: sym.LE, B: signal}, "a frame of the signal")
	frames := c.Dims().Simplify(signal.Sub(size).FloorDiv(step).Add(sym.Const(1)))
	begins := ops.Binary(b, ops.Mul, ops.Counting(b, dtype.I64, frames), c.integer(step))
	at := ops.Binary(b, ops.Add, ops.Reshape(b, begins, frames, sym.Const(1)), ops.Counting(b, dtype.I64, size))
	x = ops.Gather(b, x, at, 1)
	if window != nil {
		c.require(sym.Cond{A: window.Type.Shape[0], Rel: sym.EQ, B: size}, "the window is as long as a frame")
		x = ops.Binary(b, ops.Mul, x, ops.Reshape(b, window, size, sym.Const(1)))
	}
	return one(ops.Fourier(b, x, 2, size, false, c.Int("onesided", 1) != 0))
}

// integer is a symbolic integer as an i64 scalar.
func (c *call) integer(e sym.Expr) *ir.Value {
	return ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{e})
}
