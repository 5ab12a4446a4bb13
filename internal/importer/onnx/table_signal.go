package onnx

// signalTable has the operators on signals.
var signalTable = table{rules: map[string]rule{
	"HannWindow": window(0.5, -0.5), "HammingWindow": window(25.0/46, -21.0/46), "BlackmanWindow": window(0.42, -0.5, 0.08),
	"MelWeightMatrix": melWeightMatrix, "DFT": dft, "STFT": stft,
}}
