package core

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// Gemm converts Gemm: alpha·A·B + beta·C.
func Gemm(c *convert.Call) []*ir.Value {
	y := ops.MatMul(c.Builder, c.Input(0), c.Input(1), c.Int("transA", 0) != 0, c.Int("transB", 0) != 0)
	if alpha := c.Float("alpha", 1); alpha != 1 {
		y = Scaled(c, y, alpha)
	}
	if bias := c.Optional(2); bias != nil {
		if beta := c.Float("beta", 1); beta != 1 {
			bias = Scaled(c, bias, beta)
		}
		y = ops.Binary(c.Builder, ops.Add, y, ops.BroadcastTo(c.Builder, bias, y.Type.Shape...))
	}
	return convert.One(y)
}

// Scaled returns v times a number; integers are converted to floats and back.
func Scaled(c *convert.Call, v *ir.Value, by float64) *ir.Value {
	dt := v.Type.DType
	if !dt.IsFloat() {
		return ops.Cast(c.Builder, Scaled(c, ops.Cast(c.Builder, v, dtype.F64), by), dt)
	}
	return ops.Binary(c.Builder, ops.Mul, v, ops.Scalar(c.Builder, dt, by))
}

// Conv converts Conv.
func Conv(c *convert.Call) []*ir.Value {
	x, w := c.Input(0), c.Input(1)
	window := convWindow(c, x, w)
	return convert.One(ops.Convolution(c.Builder, x, w, c.Optional(2), window, c.Int("group", 1)))
}

// convWindow returns the window of a convolution. If the attribute kernel_shape is absent, the kernel is that of the
// weights.
func convWindow(c *convert.Call, x, w *ir.Value) ops.Window {
	axes := len(x.Type.Shape) - 2
	if axes < 1 || len(w.Type.Shape) != axes+2 {
		c.Fault("an input of rank %d and weights of rank %d", len(x.Type.Shape), len(w.Type.Shape))
	}
	kernel := c.Ints("kernel_shape")
	if kernel == nil {
		kernel = make([]int64, axes)
		for i, extent := range w.Type.Shape[2:] {
			size, ok := extent.Const()
			if !ok {
				c.Refuse("the kernel's extent %s is not a number", extent)
			}
			kernel[i] = size
		}
	}
	return slidingWindow(c, x, kernel)
}

// padded returns the window of the attributes strides, dilations and pads.
func padded(c *convert.Call, kernel []int64) ops.Window {
	axes := len(kernel)
	w := ops.Window{Kernel: kernel, Strides: listOr(c, "strides", axes, 1), Dilations: listOr(c, "dilations", axes, 1)}
	const most = 1 << 31
	for i := range axes {
		for _, v := range []int64{kernel[i], w.Strides[i], w.Dilations[i]} {
			if v < 1 || v > most {
				c.Fault("kernel %v, strides %v, dilations %v: all must be positive", kernel, w.Strides, w.Dilations)
			}
		}
		if kernel[i] > most/w.Dilations[i] {
			c.Fault("a window of %d positions, %d apart", kernel[i], w.Dilations[i])
		}
	}
	pads := listOr(c, "pads", 2*axes, 0)
	for _, p := range pads {
		if p < -most || p > most {
			c.Fault("a padding of %d", p)
		}
	}
	w.Begin, w.End = ir.Constants(pads[:axes]), ir.Constants(pads[axes:])
	return w
}

// slidingWindow returns the window of the attributes that convolutions and poolings share.
func slidingWindow(c *convert.Call, x *ir.Value, kernel []int64) ops.Window {
	axes := len(x.Type.Shape) - 2
	if axes < 1 || len(kernel) != axes {
		c.Fault("a kernel over %d axes for an input of rank %d", len(kernel), len(x.Type.Shape))
	}
	w := padded(c, kernel)
	switch mode := c.StringAttribute("auto_pad", "NOTSET"); mode {
	case "", "NOTSET":
	case "VALID":
		w.Begin, w.End = make([]sym.Expr, axes), make([]sym.Expr, axes)
	case "SAME_UPPER", "SAME_LOWER":
		w.Begin, w.End = make([]sym.Expr, axes), make([]sym.Expr, axes)
		for i := range axes {
			w.Begin[i], w.End[i] = halved(samePadding(c, x.Type.Shape[2+i], (kernel[i]-1)*w.Dilations[i]+1, w.Strides[i]))
			if mode == "SAME_LOWER" {
				w.Begin[i], w.End[i] = w.End[i], w.Begin[i]
			}
		}
	default:
		c.Fault("auto_pad is %q", mode)
	}
	return w
}

// samePadding returns the total padding of an axis for which the window, of size elements, has a position for every
// stride.
func samePadding(c *convert.Call, extent sym.Expr, size, stride int64) sym.Expr {
	positions := extent.CeilDiv(sym.Const(stride))
	total := positions.Sub(sym.Const(1)).Mul(sym.Const(stride)).Add(sym.Const(size)).Sub(extent)
	if size < stride { // otherwise it is never negative
		total = total.Max(sym.Const(0))
	}
	return c.Dims().Simplify(total)
}

// halved splits a padding in two; if it is odd, the second half is larger.
func halved(total sym.Expr) (less, more sym.Expr) {
	less = total.FloorDiv(sym.Const(2))
	return less, total.Sub(less)
}

// listOr returns a list attribute of the given length, or a list of fallback if it is absent.
func listOr(c *convert.Call, name string, length int, fallback int64) []int64 {
	list := c.Ints(name)
	if list == nil {
		return slices.Repeat([]int64{fallback}, length)
	}
	if len(list) != length {
		c.Fault("attribute %s has %d numbers, %d are needed", name, len(list), length)
	}
	return list
}

// convTranspose converts ConvTranspose. The window's end has the padding that extends or crops the result.
func convTranspose(c *convert.Call) []*ir.Value {
	x, w := c.Input(0), c.Input(1)
	window := convWindow(c, x, w)
	axes := len(window.Kernel)
	extra, wanted := listOr(c, "output_padding", axes, 0), c.Ints("output_shape")
	if len(wanted) > axes {
		wanted = wanted[len(wanted)-axes:]
	}
	mode := c.StringAttribute("auto_pad", "NOTSET")
	same := mode == "SAME_UPPER" || mode == "SAME_LOWER"
	if wanted != nil && len(wanted) != axes {
		c.Fault("output_shape has %d numbers for %d axes", len(wanted), axes)
	}
	for i := range axes {
		added := sym.Const(extra[i])
		if wanted == nil && !same {
			window.End[i] = window.End[i].Sub(added)
			continue
		}
		size := (window.Kernel[i]-1)*window.Dilations[i] + 1
		var total sym.Expr
		if wanted != nil {
			total = x.Type.Shape[2+i].Sub(sym.Const(1)).Mul(sym.Const(window.Strides[i])).
				Add(sym.Const(extra[i] + size - wanted[i]))
		} else {
			total = sym.Const(max(0, size-window.Strides[i]+extra[i])) // so that the result is stride times as long
		}
		// A result that is longer than the computed elements is filled at the end.
		less, more := halved(c.Dims().Simplify(total.Max(sym.Const(0))))
		window.Begin[i] = more
		if mode == "SAME_UPPER" {
			window.Begin[i] = less
		}
		window.End[i] = c.Dims().Simplify(total.Sub(window.Begin[i]).Sub(added))
	}
	return convert.One(ops.ConvolutionTranspose(c.Builder, x, w, c.Optional(2), window, c.Int("group", 1)))
}
