package torch

import (
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

func init() {
	add(map[string]rule{
		"aten.mm.default": matmul("self", "mat2"), "aten.bmm.default": matmul("self", "mat2"), "aten.matmul.default": matmul("self", "other"),
		"aten.mv.default": matmul("self", "vec"), "aten.dot.default": matmul("self", "tensor"),
		"aten.addmm.default": addmm("mat1", "mat2"), "aten.baddbmm.default": addmm("batch1", "batch2"), "aten.linear.default": linear, "aten.einsum.default": einsum,
		"aten.convolution.default": convolution, "aten.conv1d.default": convolution, "aten.conv2d.default": convolution, "aten.conv3d.default": convolution,
		"aten.conv1d.padding": convolution, "aten.conv2d.padding": convolution, "aten.conv_transpose1d.default": transposed, "aten.conv_transpose2d.input": transposed,
		"aten.conv_transpose3d.input": transposed, "aten.convolution_backward.default": convolutionBackward,
		"aten.scaled_dot_product_attention.default": attention, "aten._scaled_dot_product_flash_attention_for_cpu.default": attention,
		"aten._scaled_dot_product_flash_attention_for_cpu_backward.default": attentionBackward,
		"aten.max_pool2d_with_indices.default":                              maxPool, "aten.max_pool2d.default": maxPool, "aten.max_pool1d.default": maxPool, "aten.max_pool3d.default": maxPool,
		"aten.max_pool2d_with_indices_backward.default": maxPoolBackward, "aten.avg_pool2d_backward.default": averagePoolBackward,
		"aten.avg_pool1d.default": averagePool, "aten.avg_pool2d.default": averagePool, "aten.avg_pool3d.default": averagePool,
		"aten.adaptive_avg_pool1d.default": adaptive, "aten.adaptive_avg_pool2d.default": adaptive, "aten._adaptive_avg_pool2d.default": adaptive,
		"aten._adaptive_avg_pool2d_backward.default": adaptiveBackward,
	})
}

func matmul(x, y string) rule {
	return func(c *call) []*ir.Value {
		return one(ops.MatMulAny(c.Builder, c.tensor(x), c.tensor(y)))
	}
}

// addmm is beta · self + alpha · x · y.
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
	return one(ops.Einsum(c.Builder, c.text("equation", ""), c.tensors("tensors")...))
}

// window is the window of a convolution over the axes behind the first two.
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
			if c.text("padding", "") == "same" {
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

func convolution(c *call) []*ir.Value {
	if c.bool("transposed", false) {
		return transposed(c)
	}
	x, w := c.tensor("input"), c.tensor("weight")
	return c.batched(x, len(w.Type.Shape), func(x *ir.Value) *ir.Value {
		return ops.Convolution(c.Builder, x, w, c.optional("bias"), c.window(x, w), c.int("groups", 1))
	})
}

// batched computes what needs a batch, of what may have none.
func (c *call) batched(x *ir.Value, rank int, f func(x *ir.Value) *ir.Value) []*ir.Value {
	if len(x.Type.Shape) == rank {
		return one(f(x))
	}
	y := f(ops.Reshape(c.Builder, x, at(x.Type.Shape, 0, unit)...))
	return one(ops.Reshape(c.Builder, y, y.Type.Shape[1:]...))
}

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

// mask is which of a node's results are wanted.
func (c *call) mask(n int) []bool {
	list := make([]bool, n)
	if c.has("output_mask") {
		if err := c.args["output_mask"].into(&list); err != nil {
			c.Fail(err)
		}
	}
	return list
}

// derivatives are weir's own derivatives of ys, times gs, by xs. What torch knows of the shapes' sizes, weir may not:
// it is checked.
func (c *call) derivatives(ys, gs, xs []*ir.Value) []*ir.Value {
	for i, y := range ys {
		gs[i] = ops.Reshape(c.Builder, ops.Cast(c.Builder, gs[i], y.Type.DType), y.Type.Shape...)
	}
	return ops.VJP(c.Builder, ys, gs, xs)
}

// backward is weir's own derivatives of y, times g, by those of xs that are wanted; the others are nil.
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

// poolWindow is the window of a pooling.
func (c *call) poolWindow(n int) ops.Window {
	win := ops.Window{Kernel: c.pairOf("kernel_size", n, 1), Dilations: c.pairOf("dilation", n, 1)}
	if win.Strides = win.Kernel; len(c.listOf("stride")) > 0 {
		win.Strides = c.pairOf("stride", n, 1)
	}
	for _, p := range c.pairOf("padding", n, 0) {
		win.Begin, win.End = append(win.Begin, sym.Const(p)), append(win.End, sym.Const(p))
	}
	return win
}

// poolAxes is the number of axes that an operator pools over, which its name says.
func (c *call) poolAxes() int {
	for _, n := range []int{1, 2, 3} {
		if strings.Contains(c.node.Target, "pool"+string(rune('0'+n))+"d") {
			return n
		}
	}
	return 2
}

func maxPool(c *call) []*ir.Value {
	n := c.poolAxes()
	win, ceil := c.poolWindow(n), c.bool("ceil_mode", false)
	if len(c.node.Outputs) > 1 {
		y, indices := ops.MaxPoolIndices(c.Builder, c.tensor("self"), win, ceil, false)
		if len(y.Type.Shape) != n+2 {
			c.Fail(diag.Unsupportedf("pooling without a batch"))
		}
		return []*ir.Value{y, c.withinPlane(indices)}
	}
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value { return ops.MaxPool(c.Builder, x, win, ceil) })
}

// withinPlane turns positions within a whole tensor into positions within their own plane.
func (c *call) withinPlane(indices *ir.Value) *ir.Value {
	x := c.tensor("self")
	plane := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{product(x.Type.Shape[2:]).Max(unit)})
	return c.binary(ops.FloorMod, ops.Cast(c.Builder, indices, dtype.I64), plane)
}

func maxPoolBackward(c *call) []*ir.Value {
	x := c.tensor("self")
	y := ops.MaxPool(c.Builder, x, c.poolWindow(2), c.bool("ceil_mode", false))
	return c.derivatives([]*ir.Value{y}, []*ir.Value{c.tensor("grad_output")}, []*ir.Value{x})
}

// average is average pooling of self.
func (c *call) average(x *ir.Value, n int) *ir.Value {
	if c.has("divisor_override") {
		c.Fail(diag.Unsupportedf("a divisor of its own"))
	}
	return ops.AveragePool(c.Builder, x, c.poolWindow(n), c.bool("ceil_mode", false), c.bool("count_include_pad", true))
}

func averagePool(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value { return c.average(x, n) })
}

func averagePoolBackward(c *call) []*ir.Value {
	x := c.tensor("self")
	return c.derivatives([]*ir.Value{c.average(x, 2)}, []*ir.Value{c.tensor("grad_output")}, []*ir.Value{x})
}

// adapt is average pooling to a size: along each axis the mean of what lies between floor(i·n/size) and
// ceil((i+1)·n/size).
func (c *call) adapt(x *ir.Value, n int, sizes []int64) *ir.Value {
	for i, size := range sizes {
		axis := len(x.Type.Shape) - n + i
		if size == 1 {
			x = ops.ReduceMean(c.Builder, x, true, int64(axis))
			continue
		}
		extent, ok := x.Type.Shape[axis].Const()
		if !ok || size < 0 || extent < 1 || extent*size > mostIndices {
			c.Fail(diag.Unsupportedf("pooling of %s to %d", x.Type.Shape[axis], size))
		}
		if extent == size {
			continue
		}
		shares := make([]float32, size*extent)
		for to := range size {
			begin, end := to*extent/size, ((to+1)*extent+size-1)/size
			for from := begin; from < end; from++ {
				shares[to*extent+from] = 1 / float32(end-begin)
			}
		}
		t, err := tensor.FromSlice(shares, size, extent)
		if err != nil {
			c.Fail(err)
		}
		mix := ops.Cast(c.Builder, c.Constant(c.Name(c.node.Name), t), x.Type.DType)
		if axis == len(x.Type.Shape)-1 {
			x = ops.MatMul(c.Builder, x, mix, false, true)
			continue
		}
		shape := x.Type.Shape
		rest := product(shape[axis+1:])
		folded := ops.Reshape(c.Builder, x, append(append([]sym.Expr{}, shape[:axis+1]...), rest)...)
		folded = ops.MatMul(c.Builder, mix, folded, false, false)
		x = ops.Reshape(c.Builder, folded, append(append(append([]sym.Expr{}, shape[:axis]...), sym.Const(size)), shape[axis+1:]...)...)
	}
	return x
}

func adaptive(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value { return c.adapt(x, n, c.pairOf("output_size", n, 1)) })
}

func adaptiveBackward(c *call) []*ir.Value {
	x, g := c.tensor("self"), c.tensor("grad_output")
	var sizes []int64
	for _, e := range g.Type.Shape[len(g.Type.Shape)-2:] {
		v, _ := e.Const()
		sizes = append(sizes, v)
	}
	return c.derivatives([]*ir.Value{c.adapt(x, 2, sizes)}, []*ir.Value{g}, []*ir.Value{x})
}
