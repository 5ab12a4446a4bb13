package onnx

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

func init() {
	add(map[string]rule{
		"HannWindow": window(0.5, -0.5), "HammingWindow": window(25.0/46, -21.0/46), "BlackmanWindow": window(0.42, -0.5, 0.08),
		"MelWeightMatrix": melWeightMatrix, "DFT": dft, "STFT": stft,
	})
}

// extent is an integer scalar input as an extent, which the run may bind within [lo, extentLimit].
func (c *call) extent(i int, lo int64) sym.Expr {
	elements, err := c.ElementsWithin(scalarIn(c.Builder, c.Input(i)), lo, sym.Const(extentLimit))
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

// dft: from version 20 on the axis is an input. An inverse of a half is taken to be of an even length.
func dft(c *call) []*ir.Value {
	x, inverse, onesided := c.Input(0), c.Int("inverse", 0) != 0, c.Int("onesided", 0) != 0
	axis := c.Int("axis", 1)
	if c.Version >= 20 {
		axis = -2
		if c.Optional(2) != nil {
			list := c.Numbers(2)
			if len(list) != 1 {
				c.Fault("%d axes, there must be 1", len(list))
			}
			axis = list[0]
		}
	}
	axis = c.Axis(axis, len(x.Type.Shape))
	length := x.Type.Shape[axis]
	if inverse && onesided {
		length = length.Sub(sym.Const(1)).Mul(sym.Const(2))
	}
	if c.Optional(1) != nil {
		length = c.extent(1, 1)
	}
	return one(ops.Fourier(c.Builder, x, axis, length, inverse, onesided))
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
