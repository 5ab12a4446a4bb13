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

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.max_pool1d.default": maxPool, "aten.max_pool2d.default": maxPool, "aten.max_pool3d.default": maxPool,
		"aten.max_pool2d_with_indices.default":          maxPool,
		"aten.max_pool3d_with_indices.default":          maxPool,
		"aten.max_pool2d_with_indices_backward.default": maxPoolBackward,
		"aten.max_pool3d_with_indices_backward.default": maxPoolBackward,
		"aten.avg_pool1d.default":                       averagePool, "aten.avg_pool2d.default": averagePool,
		"aten.avg_pool3d.default":          averagePool,
		"aten.avg_pool2d_backward.default": averagePoolBackward, "aten.avg_pool3d_backward.default": averagePoolBackward,
		"aten.adaptive_avg_pool1d.default": adaptive, "aten.adaptive_avg_pool2d.default": adaptive,
		"aten.adaptive_avg_pool3d.default":  adaptive,
		"aten._adaptive_avg_pool2d.default": adaptive, "aten._adaptive_avg_pool3d.default": adaptive,
		"aten._adaptive_avg_pool2d_backward.default": adaptiveBackward,
		"aten._adaptive_avg_pool3d_backward.default": adaptiveBackward,
	})
}

// poolWindow returns the window of a pooling over n axes.
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

// poolAxes returns the number of pooled axes, from the operator's name.
func (c *call) poolAxes() int {
	for _, n := range []int{1, 2, 3} {
		if strings.Contains(c.node.Target, "pool"+string(rune('0'+n))+"d") {
			return n
		}
	}
	return 2
}

// maxPool is a rule for max pooling: the result, and its indices if the node has a second result.
func maxPool(c *call) []*ir.Value {
	n := c.poolAxes()
	win, ceil := c.poolWindow(n), c.bool("ceil_mode", false)
	if len(c.node.Outputs) > 1 {
		x := c.tensor("self")
		if len(x.Type.Shape) == n+2 {
			y, indices := ops.MaxPoolIndices(c.Builder, x, win, ceil, false)
			return []*ir.Value{y, c.withinPlane(x, indices)}
		}
		x = ops.Reshape(c.Builder, x, insertExtent(x.Type.Shape, 0, unit)...)
		y, indices := ops.MaxPoolIndices(c.Builder, x, win, ceil, false)
		list := []*ir.Value{y, c.withinPlane(x, indices)}
		for i, v := range list {
			list[i] = ops.Reshape(c.Builder, v, v.Type.Shape[1:]...)
		}
		return list
	}
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value { return ops.MaxPool(c.Builder, x, win, ceil) })
}

// withinPlane converts flat indices of a tensor to indices within their planes.
func (c *call) withinPlane(x, indices *ir.Value) *ir.Value {
	plane := ops.Integers(c.Builder, ir.Type{DType: dtype.I64}, []sym.Expr{product(x.Type.Shape[2:]).Max(unit)})
	return c.binary(ops.FloorMod, ops.Cast(c.Builder, indices, dtype.I64), plane)
}

// maxPoolBackward is a rule for the derivative of max pooling.
func maxPoolBackward(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.pooledBack(n, func(x *ir.Value) *ir.Value {
		return ops.MaxPool(c.Builder, x, c.poolWindow(n), c.bool("ceil_mode", false))
	})
}

// pooledBack returns the derivative of a pooling with respect to self, times grad_output. Both may lack the batch axis.
func (c *call) pooledBack(n int, pool func(x *ir.Value) *ir.Value) []*ir.Value {
	x := c.tensor("self")
	y := c.batched(x, n+2, pool)
	return c.derivatives(y, []*ir.Value{c.tensor("grad_output")}, []*ir.Value{x})
}

// average returns the average pooling of x over n axes.
func (c *call) average(x *ir.Value, n int) *ir.Value {
	win, ceil := c.poolWindow(n), c.bool("ceil_mode", false)
	if !c.has("divisor_override") {
		return ops.AveragePool(c.Builder, x, win, ceil, c.bool("count_include_pad", true))
	}
	divisor := c.int("divisor_override", 1)
	if divisor == 0 {
		c.Fail(diag.Inputf("sums that are divided by 0"))
	}
	if ceil {
		x, win = c.overhung(x, win)
	}
	size := 1.0
	for _, k := range win.Kernel {
		size *= float64(k)
	}
	if x.Type.DType.IsFloat() {
		y := ops.AveragePool(c.Builder, x, win, false, true)
		return c.binary(ops.Mul, y, c.like(y, size/float64(divisor)))
	}
	y := ops.AveragePool(c.Builder, ops.Cast(c.Builder, x, dtype.F64), win, false, true)
	sum := c.unary(ops.Round, c.binary(ops.Mul, y, c.like(y, size)))
	return ops.Cast(c.Builder, c.unary(ops.Trunc, c.binary(ops.Div, sum, c.like(y, float64(divisor)))), x.Type.DType)
}

// overhung pads x with zeros so that no window exceeds the end.
func (c *call) overhung(x *ir.Value, win ops.Window) (*ir.Value, ops.Window) {
	like := ops.AveragePool(c.Builder, x, win, true, true)
	within := ops.Window{Kernel: win.Kernel, Strides: win.Strides, Dilations: win.Dilations}
	begin, end := make([]sym.Expr, len(x.Type.Shape)), make([]sym.Expr, len(x.Type.Shape))
	for i := range win.Kernel {
		axis := i + 2
		reach := like.Type.Shape[axis].Sub(unit).Mul(sym.Const(win.Strides[i])).
			Add(sym.Const((win.Kernel[i]-1)*win.Dilations[i] + 1))
		begin[axis] = win.Begin[i]
		end[axis] = c.Dims().Simplify(reach.Sub(x.Type.Shape[axis]).Sub(win.Begin[i]).Max(win.End[i]))
		within.Begin, within.End = append(within.Begin, sym.Const(0)), append(within.End, sym.Const(0))
	}
	return ops.Pad(c.Builder, x, nil, "constant", begin, end), within
}

// averagePool is a rule for average pooling.
func averagePool(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value { return c.average(x, n) })
}

// averagePoolBackward is a rule for the derivative of average pooling.
func averagePoolBackward(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.pooledBack(n, func(x *ir.Value) *ir.Value { return c.average(x, n) })
}

// adapt averages x over n axes to the given sizes: element i is the mean from floor(i·n/size) to ceil((i+1)·n/size).
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
		x = ops.Reshape(c.Builder, folded, append(append(append([]sym.Expr{}, shape[:axis]...), sym.Const(size)),
			shape[axis+1:]...)...)
	}
	return x
}

// adaptive is a rule for adaptive average pooling.
func adaptive(c *call) []*ir.Value {
	n := c.poolAxes()
	return c.batched(c.tensor("self"), n+2, func(x *ir.Value) *ir.Value {
		return c.adapt(x, n, c.pairOf("output_size", n, 1))
	})
}

// adaptiveBackward is a rule for the derivative of adaptive average pooling.
func adaptiveBackward(c *call) []*ir.Value {
	n, g := c.poolAxes(), c.tensor("grad_output")
	var sizes []int64
	for _, e := range g.Type.Shape[len(g.Type.Shape)-n:] {
		v, ok := e.Const()
		if !ok {
			c.Fail(diag.Unsupportedf("pooling to %s", g.Type))
		}
		sizes = append(sizes, v)
	}
	return c.pooledBack(n, func(x *ir.Value) *ir.Value { return c.adapt(x, n, sizes) })
}
