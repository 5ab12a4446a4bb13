package onnx

// trainingTable has the operators of ai.onnx.preview.training.
var trainingTable = table{rules: within("ai.onnx.preview.training", map[string]rule{
	"Adagrad": adagrad, "Adam": adam, "Momentum": momentum, "Gradient": gradient,
})}
