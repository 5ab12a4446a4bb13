package conformance

import (
	"math"
	"path"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// randomOperators are the operators with random results for which the standard does not fix a generator.
var randomOperators = []string{"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
	"RandomUniformLike"}

// fractional is why some official cases expect other numbers than the text of Resize.
const fractional = "the case divides by the length before it is rounded; the text of Resize, PyTorch, onnxruntime " +
	"and OpenVINO divide by the result's length"

// otherTexts are the official cases that expect other numbers than the standard's text gives, with the reason.
var otherTexts = map[string]string{
	"test_resize_downsample_scales_cubic_align_corners":  fractional,
	"test_resize_downsample_scales_linear_align_corners": fractional,
}

// otherText turns a difference into a refusal if the case, by its name, expects other numbers than the standard's text.
func otherText(name string, difference error) error {
	if why, ok := otherTexts[path.Base(name)]; ok {
		return diag.Unsupportedf("%s (%v)", why, difference)
	}
	return difference
}

// otherDraws turns a difference into a refusal if the model draws random numbers and got has the type and shape of
// want: the expected numbers came from another generator, or from another state of it.
func otherDraws(ops []string, got, want values.Value, difference error) error {
	if !slices.ContainsFunc(ops, func(op string) bool {
		return slices.Contains(randomOperators, op)
	}) || values.CompareValues(got, want, 0, math.MaxFloat64) != nil {
		return difference
	}
	return diag.Unsupportedf("the numbers expected were drawn by another generator, or in a state that the model does "+
		"not tell (%v)", difference)
}
