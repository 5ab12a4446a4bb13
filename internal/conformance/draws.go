package conformance

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// randomOperators are the operators whose results are random and whose standard does not say by which generator.
var randomOperators = []string{"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
	"RandomUniformLike"}

// otherDraws turns a difference into a refusal where a model draws random numbers, and what it gave has the type and
// shape of what is expected: those numbers came from another generator, or from this one in a state that the model does
// not tell.
func otherDraws(ops []string, got, want values.Value, difference error) error {
	if !slices.ContainsFunc(ops, func(op string) bool {
		return slices.Contains(randomOperators, op)
	}) || values.CompareValues(got, want, 0, math.MaxFloat64) != nil {
		return difference
	}
	return diag.Unsupportedf("the numbers expected were drawn by another generator, or in a state that the model does "+
		"not tell (%v)", difference)
}
