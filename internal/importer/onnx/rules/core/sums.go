package core

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// einsum converts Einsum.
func einsum(c *convert.Call) []*ir.Value {
	var xs []*ir.Value
	for i := range c.In {
		xs = append(xs, c.Input(i))
	}
	return convert.One(ops.Einsum(c.Builder, c.StringAttribute("equation", ""), xs...))
}

// likelihoodLoss converts NegativeLogLikelihoodLoss.
func likelihoodLoss(c *convert.Call) []*ir.Value {
	return convert.One(ops.NegativeLogLikelihood(c.Builder, c.Input(0), c.Input(1), c.Optional(2), ignoredIndex(c),
		c.StringAttribute("reduction", "mean")))
}

// crossEntropyLoss converts SoftmaxCrossEntropyLoss.
func crossEntropyLoss(c *convert.Call) []*ir.Value {
	logs := ops.LogSoftmax(c.Builder, c.Input(0), 1)
	return []*ir.Value{ops.NegativeLogLikelihood(c.Builder, logs, c.Input(1), c.Optional(2), ignoredIndex(c),
		c.StringAttribute("reduction", "mean")), logs}
}

// ignoredIndex returns the attribute ignore_index, a target that does not count; nil if it is absent.
func ignoredIndex(c *convert.Call) *int64 {
	if !c.Has("ignore_index") {
		return nil
	}
	index := c.Int("ignore_index", 0)
	return &index
}
