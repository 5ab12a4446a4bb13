package onnx

import (
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

func init() {
	textRules["Equal"] = textEqual
}

// broadcast gives the texts of inputs 0 and 1 one shape.
func (c *call) broadcast() (x, y ops.Text) {
	x, y = c.textInput(0), c.textInput(1)
	x.Spans = ops.Expand(c.Builder, x.Spans, y.Spans.Type.Shape...)
	y.Spans = ops.Expand(c.Builder, y.Spans, x.Spans.Type.Shape...)
	return x, y
}

func textEqual(c *call) []*ir.Value {
	x, y := c.broadcast()
	return one(ops.TextEqual(c.Builder, x, y))
}
