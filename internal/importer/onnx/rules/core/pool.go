package core

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// poolWindow returns the window of a pooling, and whether ceil_mode is set.
func poolWindow(c *convert.Call) (ops.Window, bool) {
	if !c.Has("kernel_shape") {
		c.Fault("attribute kernel_shape is missing")
	}
	return slidingWindow(c, c.Input(0), c.Ints("kernel_shape")), c.Int("ceil_mode", 0) != 0
}

// maxPool converts MaxPool.
func maxPool(c *convert.Call) []*ir.Value {
	w, ceil := poolWindow(c)
	if c.Outputs < 2 {
		return convert.One(ops.MaxPool(c.Builder, c.Input(0), w, ceil))
	}
	y, indices := ops.MaxPoolIndices(c.Builder, c.Input(0), w, ceil, c.Int("storage_order", 0) != 0)
	return []*ir.Value{y, indices}
}

// AveragePool converts AveragePool.
func AveragePool(c *convert.Call) []*ir.Value {
	w, ceil := poolWindow(c)
	return convert.One(ops.AveragePool(c.Builder, c.Input(0), w, ceil, c.Int("count_include_pad", 0) != 0))
}

// lpPool converts LpPool.
func lpPool(c *convert.Call) []*ir.Value {
	w, ceil := poolWindow(c)
	return convert.One(ops.LpPool(c.Builder, c.Input(0), w, ceil, c.Int("p", 2)))
}

func globalLpPool(c *convert.Call) []*ir.Value {
	return convert.One(ops.LpNorm(c.Builder, c.Input(0), c.Int("p", 2), true, SpatialAxes(c)...))
}

// SpatialAxes returns the axes after the first two.
func SpatialAxes(c *convert.Call) []int64 {
	rank := len(c.Input(0).Type.Shape)
	if rank < 3 {
		c.Fault("an input of rank %d; at least 3 is needed", rank)
	}
	axes := make([]int64, 0, rank-2)
	for axis := 2; axis < rank; axis++ {
		axes = append(axes, int64(axis))
	}
	return axes
}

// maxUnpool converts MaxUnpool: each element moves to its index in the tensor that the window implies. The requested
// shape may be larger, and is filled at the ends.
func maxUnpool(c *convert.Call) []*ir.Value {
	b, x, indices := c.Builder, c.Input(0), c.Input(1)
	w, _ := poolWindow(c)
	shape := append([]sym.Expr{}, x.Type.Shape[:2]...)
	for i, kernel := range w.Kernel {
		extent := x.Type.Shape[2+i].Sub(sym.Const(1)).Mul(sym.Const(w.Strides[i])).Sub(w.Begin[i]).Sub(w.End[i]).
			Add(sym.Const(kernel))
		shape = append(shape, c.Dims().Simplify(extent))
	}
	zero, err := tensor.New(x.Type.DType)
	if err != nil {
		c.Fail(err)
	}
	count := sym.Product(x.Type.Shape...)
	flat := ops.ScatterElements(b, ops.Fill(b, zero, sym.Product(shape...)), ops.Reshape(b, indices, count),
		ops.Reshape(b, x, count), 0, "none")
	y := ops.Reshape(b, flat, shape...)
	if c.Optional(2) == nil {
		return convert.One(y)
	}
	counted(c, 2, int64(len(shape)))
	wanted := c.Symbols(2, 0, convert.Unlimited)
	if len(wanted) != len(shape) {
		c.Fault("output_shape has %d numbers for rank %d", len(wanted), len(shape))
	}
	begin, end := make([]sym.Expr, len(shape)), make([]sym.Expr, len(shape))
	for i := range shape {
		end[i] = c.Dims().Simplify(wanted[i].Sub(shape[i]))
	}
	return convert.One(ops.Pad(b, y, nil, "constant", begin, end))
}

func globalMaxPool(c *convert.Call) []*ir.Value {
	return convert.One(ops.ReduceMax(c.Builder, c.Input(0), true, SpatialAxes(c)...))
}

func globalAveragePool(c *convert.Call) []*ir.Value {
	return convert.One(ops.ReduceMean(c.Builder, c.Input(0), true, SpatialAxes(c)...))
}
