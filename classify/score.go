package classify

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
)

// Function makes scores of the logits of a text.
type Function int

// The functions.
const (
	// Default is what the folder says. For labels: the identity if config.json says problem_type regression, the sigmoid
	// for one label or several that hold together (problem_type multi_label_classification), softmax otherwise. For
	// Predict and Rank: the activation_fn of config_sentence_transformers.json or config.json; without it the sigmoid for
	// one label, the identity for several.
	Default Function = iota
	Softmax
	Sigmoid
	Identity // the logits themselves, the pipeline's "none"
)

// functions are the functions by their numbers. They compute in float32, as NumPy and PyTorch do, so that scores which
// are equal to them are equal here.
var functions = []func(x []float32){Softmax: softmax, Sigmoid: each(sigmoid), Identity: func([]float32) {}}

// of returns the function; by default, another.
func (f Function) of(byDefault func(x []float32)) (func(x []float32), error) {
	switch {
	case f == Default:
		return byDefault, nil
	case f < 0 || int(f) >= len(functions):
		return nil, diag.Inputf("there is no function %d", int(f))
	}
	return functions[f], nil
}

// each returns the function that applies f to each element.
func each(f func(x float64) float64) func(x []float32) {
	return func(list []float32) {
		for i, x := range list {
			list[i] = float32(f(float64(x)))
		}
	}
}

func sigmoid(x float64) float64 { return float64(1 / (1 + float32(math.Exp(-x)))) }

// softmax makes the elements positive, with the sum 1.
func softmax(x []float32) {
	most := slices.Max(x)
	sum := float32(0)
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v - most)))
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// activations are the modules of PyTorch that a CrossEncoder may name as its activation_fn, by their last names.
var activations = map[string]func(x []float32){
	"Identity":   functions[Identity],
	"Sigmoid":    functions[Sigmoid],
	"Softmax":    softmax,
	"Tanh":       each(math.Tanh),
	"ReLU":       each(func(x float64) float64 { return max(x, 0) }),
	"LogSigmoid": each(func(x float64) float64 { return min(x, 0) - math.Log1p(math.Exp(-math.Abs(x))) }),
}
