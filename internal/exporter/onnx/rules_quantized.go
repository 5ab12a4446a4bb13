package onnx

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/sym"
)

// perTensor reports whether one scale applies to the entire tensor.
func (c *call) perTensor() bool {
	count, known := sym.Product(c.n.Inputs[1].Type.Shape...).Const()
	return known && count == 1 && c.n.Attrs.Int("block", 0) == 0
}

// scales returns the scale and the zero point, without axes if there is one of each, and the attributes that say along
// which axis and in which blocks elements share them. The zero point is always written, because its type is the
// quantised type.
func (c *call) scales() (in []string, list []*wire.AttributeProto) {
	for i := range c.n.Inputs[1:] {
		name := c.in(i + 1)
		if c.perTensor() && len(c.n.Inputs[i+1].Type.Shape) > 0 {
			name = c.add("Reshape", []string{name, c.ints()})
		}
		in = append(in, name)
	}
	if len(in) == 1 {
		in = append(in, c.noOffset(in[0]))
	}
	if c.perTensor() {
		return in, nil
	}
	list = append(list, intAttr("axis", c.n.Attrs.Int("axis", 1)))
	if block := c.n.Attrs.Int("block", 0); block > 0 {
		list = append(list, intAttr("block_size", block))
	}
	return in, list
}

// noOffset returns a zero point of zeros for a scale; if it is absent, readers take the integers for u8.
func (c *call) noOffset(scale string) string {
	dt := c.n.Attrs.DType("to")
	if dt.IsFloat() {
		dt = c.dtype()
	}
	zero := c.number(dt, 0)
	if c.perTensor() {
		return zero
	}
	return c.add("Expand", []string{zero, c.add("Shape", []string{scale})})
}

// quantizedTypes are the types that QuantizeLinear produces.
var quantizedTypes = map[dtype.DType]bool{dtype.I8: true, dtype.U8: true, dtype.I16: true, dtype.U16: true,
	dtype.I4: true, dtype.U4: true}

// quantize writes QuantizeLinear.
func quantize(c *call) {
	to, of, precision := c.n.Attrs.DType("to"), c.n.Inputs[1].Type.DType, c.n.Attrs.DType("precision")
	if !quantizedTypes[to] || c.dtype() != of || of == dtype.F64 || precision != dtype.Invalid && precision != of {
		c.refuse("%v quantised to %v by a scale of %v", c.dtype(), to, of)
	}
	scales, attrs := c.scales()
	c.final("QuantizeLinear", append([]string{c.in(0)}, scales...), attrs...)
}

// dequantize writes DequantizeLinear.
func dequantize(c *call) {
	to, of := c.n.Attrs.DType("to"), c.n.Inputs[1].Type.DType
	if !quantizedTypes[c.dtype()] && c.dtype() != dtype.I32 || to != of || of == dtype.F64 {
		c.refuse("%v to %v by a scale of %v", c.dtype(), to, of)
	}
	scales, attrs := c.scales()
	c.final("DequantizeLinear", append([]string{c.in(0)}, scales...), attrs...)
}
