// Package signal has the rules of ai.onnx's operators on signals: windows and Fourier transforms.
package signal

import (
	"github.com/weirml/weir/internal/importer/onnx/convert"
)

// Rules has the operators on signals.
var Rules = convert.Table{Rules: map[string]convert.Rule{
	"HannWindow": window(0.5, -0.5), "HammingWindow": window(25.0/46, -21.0/46),
	"BlackmanWindow":  window(0.42, -0.5, 0.08),
	"MelWeightMatrix": melWeightMatrix, "DFT": dft, "STFT": stft,
}}
