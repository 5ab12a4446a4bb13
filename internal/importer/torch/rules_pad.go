package torch

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// init adds the rules of this file.
func init() {
	add(map[string]rule{
		"aten.constant_pad_nd.default": pad("constant"), "aten.pad.default": pad(""),
		"aten.reflection_pad1d.default": pad("reflect"), "aten.reflection_pad2d.default": pad("reflect"),
		"aten.reflection_pad3d.default":  pad("reflect"),
		"aten.replication_pad1d.default": pad("edge"), "aten.replication_pad2d.default": pad("edge"),
		"aten.replication_pad3d.default": pad("edge"),
	})
}

// pad returns a rule for padding in a mode; "" means the argument mode. The list of widths begins with the last axis.
func pad(mode string) rule {
	return func(c *call) []*ir.Value {
		x, how := c.tensor("self"), mode
		name := "padding"
		if c.has("pad") {
			name = "pad"
		}
		if how == "" {
			how = map[string]string{"constant": "constant", "reflect": "reflect", "replicate": "edge",
				"circular": "wrap"}[c.string("mode", "constant")]
		}
		list, n := c.syms(name), len(x.Type.Shape)
		begin, end := make([]sym.Expr, n), make([]sym.Expr, n)
		for i := range begin {
			begin[i], end[i] = sym.Const(0), sym.Const(0)
		}
		if len(list)%2 != 0 || len(list) > 2*n {
			c.Fail(diag.Inputf("%d numbers of padding, of a tensor of rank %d", len(list), n))
		}
		for i := range len(list) / 2 {
			begin[n-1-i], end[n-1-i] = list[2*i], list[2*i+1]
		}
		if how == "edge" || how == "reflect" {
			for i := range x.Type.Shape {
				x, begin[i], end[i] = c.padCut(x, i, how, begin[i], end[i])
			}
		}
		var value *ir.Value
		if how == "constant" && c.has("value") {
			value = c.number("value", x.Type.DType)
		}
		return one(ops.Pad(c.Builder, x, value, how, begin, end))
	}
}

// padCut pads along an axis whose padding may be negative, which removes elements. The edge and the reflected elements
// are those of the original axis, which ops.Pad does not offer. It returns the padding that remains to be done.
func (c *call) padCut(x *ir.Value, axis int, how string, begin, end sym.Expr) (y *ir.Value, first, last sym.Expr) {
	b, fixed := begin.Const()
	e, also := end.Const()
	if fixed && also && b >= 0 && e >= 0 {
		return x, begin, end
	}
	extent, known := x.Type.Shape[axis].Const()
	if !known || !fixed || !also {
		c.Fail(diag.Unsupportedf("padding of %s and %s to an axis of %s", begin, end, x.Type.Shape[axis]))
	}
	if extent < 1 || min(extent+b+e, extent+b, extent+e) < 0 || max(b, e) > mostIndices || how == "reflect" &&
		max(b, e) >= extent {
		c.Fail(diag.Inputf("padding of %d and %d to an axis of %d elements", b, e, extent))
	}
	at := make([]int64, extent+b+e)
	for i := range at {
		from := int64(i) - b
		if how == "reflect" {
			from = max(from, -from)
			from = min(from, 2*(extent-1)-from)
		}
		at[i] = min(max(from, 0), extent-1)
	}
	return ops.Gather(c.Builder, x, c.vector(at), int64(axis)), sym.Const(0), sym.Const(0)
}

// vector returns a constant vector of integers.
func (c *call) vector(list []int64) *ir.Value {
	t, err := tensor.FromSlice(list, int64(len(list)))
	if err != nil {
		c.Fail(err)
	}
	return c.Constant(c.Name(c.node.Name), t)
}
