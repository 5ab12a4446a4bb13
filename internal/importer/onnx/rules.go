package onnx

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/rules/core"
	"github.com/weirml/weir/internal/importer/onnx/rules/microsoft"
	"github.com/weirml/weir/internal/importer/onnx/rules/ml"
	"github.com/weirml/weir/internal/importer/onnx/rules/sequence"
	"github.com/weirml/weir/internal/importer/onnx/rules/signal"
	"github.com/weirml/weir/internal/importer/onnx/rules/training"
)

// rules has all rules of the importer.
var rules = convert.Assemble(core.Rules, sequence.Rules, signal.Rules, ml.Rules, microsoft.Rules, training.Rules)
