package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.mm.default": matmul("self", "mat2"), "aten.bmm.default": matmul("self", "mat2"),
		"aten.matmul.default": matmul("self", "other"),
		"aten.mv.default":     matmul("self", "vec"), "aten.dot.default": matmul("self", "tensor"),
		"aten.addmm.default": addmm("mat1", "mat2"), "aten.baddbmm.default": addmm("batch1", "batch2"),
		"aten.linear.default": linear, "aten.einsum.default": einsum,
		"aten.convolution.default": convolution, "aten.conv1d.default": convolution, "aten.conv2d.default": convolution,
		"aten.conv3d.default": convolution,
		"aten.conv1d.padding": convolution, "aten.conv2d.padding": convolution, "aten.conv_transpose1d.default": transposed,
		"aten.conv_transpose2d.input": transposed,
		"aten.conv_transpose3d.input": transposed, "aten.convolution_backward.default": convolutionBackward,
		"aten.scaled_dot_product_attention.default":                         attention,
		"aten._scaled_dot_product_flash_attention_for_cpu.default":          attention,
		"aten._scaled_dot_product_flash_attention_for_cpu_backward.default": attentionBackward,
	})
}

// matmul returns a rule for the matrix product of the arguments x and y.
func matmul(x, y string) rule {
	return func(c *call) []*ir.Value {
		return one(ops.MatMulAny(c.Builder, c.tensor(x), c.tensor(y)))
	}
}

// addmm returns a rule for beta · self + alpha · x · y.
func addmm(x, y string) rule {
	return func(c *call) []*ir.Value {
		z, bias := ops.MatMul(c.Builder, c.tensor(x), c.tensor(y), false, false), c.tensor("self")
		if c.has("alpha") && !c.isOne("alpha") {
			z = c.binary(ops.Mul, z, c.number("alpha", z.Type.DType))
		}
		if c.has("beta") && !c.isOne("beta") {
			bias = c.binary(ops.Mul, bias, c.number("beta", z.Type.DType))
		}
		return one(c.binary(ops.Add, z, bias))
	}
}

// linear is a rule for input · weightᵀ + bias.
func linear(c *call) []*ir.Value {
	x, w := c.tensor("input"), c.tensor("weight")
	vector := len(x.Type.Shape) == 1
	if vector {
		x = ops.Reshape(c.Builder, x, unit, x.Type.Shape[0])
	}
	y := ops.MatMul(c.Builder, x, w, false, true)
	if vector {
		y = ops.Reshape(c.Builder, y, y.Type.Shape[1])
	}
	if bias := c.optional("bias"); bias != nil {
		y = c.binary(ops.Add, y, bias)
	}
	return one(y)
}

func einsum(c *call) []*ir.Value {
	return one(ops.Einsum(c.Builder, c.string("equation", ""), c.tensors("tensors")...))
}

// window returns the window of a convolution over the axes after the first two.
func (c *call) window(x, w *ir.Value) ops.Window {
	n := len(x.Type.Shape) - 2
	win := ops.Window{Strides: c.pairOf("stride", n, 1), Dilations: c.pairOf("dilation", n, 1)}
	for _, e := range w.Type.Shape[2:] {
		k, ok := e.Const()
		if !ok {
			c.Fail(diag.Unsupportedf("a kernel of %s", w.Type))
		}
		win.Kernel = append(win.Kernel, k)
	}
	if a := c.args["padding"]; a != nil && a.kind == "as_string" {
		for i := range n {
			total := int64(0)
			if c.string("padding", "") == "same" {
				total = win.Dilations[i] * (win.Kernel[i] - 1)
			}
			win.Begin, win.End = append(win.Begin, sym.Const(total/2)), append(win.End, sym.Const(total-total/2))
		}
		return win
	}
	for _, p := range c.pairOf("padding", n, 0) {
		win.Begin, win.End = append(win.Begin, sym.Const(p)), append(win.End, sym.Const(p))
	}
	return win
}

// convolution is a rule for convolutions, also transposed ones.
func convolution(c *call) []*ir.Value {
	if c.bool("transposed", false) {
		return transposed(c)
	}
	x, w := c.tensor("input"), c.tensor("weight")
	return c.batched(x, len(w.Type.Shape), func(x *ir.Value) *ir.Value {
		return ops.Convolution(c.Builder, x, w, c.optional("bias"), c.window(x, w), c.int("groups", 1))
	})
}

// batched applies a function that needs a batch axis to x, which may lack it.
func (c *call) batched(x *ir.Value, rank int, f func(x *ir.Value) *ir.Value) []*ir.Value {
	if len(x.Type.Shape) == rank {
		return one(f(x))
	}
	y := f(ops.Reshape(c.Builder, x, insertExtent(x.Type.Shape, 0, unit)...))
	return one(ops.Reshape(c.Builder, y, y.Type.Shape[1:]...))
}

// transposed is a rule for transposed convolutions.
func transposed(c *call) []*ir.Value {
	x, w := c.tensor("input"), c.tensor("weight")
	return c.batched(x, len(w.Type.Shape), func(x *ir.Value) *ir.Value {
		win := c.window(x, w)
		for i, more := range c.pairOf("output_padding", len(win.Kernel), 0) {
			win.End[i] = win.End[i].Sub(sym.Const(more))
		}
		return ops.ConvolutionTranspose(c.Builder, x, w, c.optional("bias"), win, c.int("groups", 1))
	})
}

// mask returns whether each of a node's n results is wanted.
func (c *call) mask(n int) []bool {
	list := make([]bool, n)
	if c.has("output_mask") {
		if err := c.args["output_mask"].into(&list); err != nil {
			c.Fail(err)
		}
	}
	return list
}

// derivatives returns Weir's own derivatives of ys with respect to xs, times gs. It reshapes gs, because Weir may not
// know sizes that torch knows.
func (c *call) derivatives(ys, gs, xs []*ir.Value) []*ir.Value {
	for i, y := range ys {
		gs[i] = ops.Reshape(c.Builder, ops.Cast(c.Builder, gs[i], y.Type.DType), y.Type.Shape...)
	}
	return ops.VJP(c.Builder, ys, gs, xs)
}

// backward returns Weir's own derivatives of ys with respect to the wanted xs, times gs; the others are nil.
func (c *call) backward(ys, gs, xs []*ir.Value, wanted []bool) []*ir.Value {
	var by []*ir.Value
	for i, x := range xs {
		if wanted[i] && x != nil {
			by = append(by, x)
		}
	}
	list := c.derivatives(ys, gs, by)
	out := make([]*ir.Value, len(xs))
	for i, x := range xs {
		if wanted[i] && x != nil {
			out[i], list = list[0], list[1:]
		}
	}
	return out
}

// convolutionBackward is a rule for the derivatives of a convolution with respect to input, weight and bias.
func convolutionBackward(c *call) []*ir.Value {
	x, w, g := c.tensor("input"), c.tensor("weight"), c.tensor("grad_output")
	win, groups := c.window(x, w), c.int("groups", 1)
	var y *ir.Value
	if c.bool("transposed", false) {
		for i, more := range c.pairOf("output_padding", len(win.Kernel), 0) {
			win.End[i] = win.End[i].Sub(sym.Const(more))
		}
		y = ops.ConvolutionTranspose(c.Builder, x, w, nil, win, groups)
	} else {
		y = ops.Convolution(c.Builder, x, w, nil, win, groups)
	}
	wanted := c.mask(3)
	out := c.backward([]*ir.Value{y}, []*ir.Value{g}, []*ir.Value{x, w}, wanted)
	if out = append(out, nil); wanted[2] {
		axes := []int64{0}
		for i := 2; i < len(g.Type.Shape); i++ {
			axes = append(axes, int64(i))
		}
		out[2] = ops.ReduceSum(c.Builder, g, false, axes...)
	}
	return out
}
