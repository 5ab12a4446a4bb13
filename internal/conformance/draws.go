package conformance

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// randomOperators are the operators with random results for which the standard does not fix a generator.
var randomOperators = []string{"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
	"RandomUniformLike"}

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
