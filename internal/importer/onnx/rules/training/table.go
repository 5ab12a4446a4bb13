// Package training has the rules of ai.onnx.preview.training: optimisers, and gradients of graphs.
package training

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
)

// Rules has the operators of ai.onnx.preview.training.
var Rules = convert.Table{Rules: convert.Within("ai.onnx.preview.training", map[string]convert.Rule{
	"Adagrad": adagrad, "Adam": adam, "Momentum": momentum, "Gradient": gradient,
})}
