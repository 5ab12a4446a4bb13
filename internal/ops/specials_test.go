package ops

import (
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/ir"
)

// TestSpecialSamples is TestSamples with NaN, infinities, zeros of both signs, and subnormal numbers among the elements
// of floats: expansions, lowerings and host functions agree with the reference on these too.
func TestSpecialSamples(t *testing.T) {
	values := []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), 1e-40, -1e-40}
	for _, op := range ir.Ops() {
		def, ok := op.(*Def)
		if !ok || def.Samples == nil || specialDeviations[def.Op] != "" {
			continue
		}
		t.Run(def.Op, func(t *testing.T) {
			r := rand.New(rand.NewSource(1))
			for i, s := range def.Samples(r) {
				some := false
				for k, in := range s.Inputs {
					if in == nil || !in.DType().IsFloat() || in.DType().Bits() < 16 || slices.Contains(s.Constant, k) {
						continue
					}
					x := in.Clone()
					for range 1 + x.Len()/8 {
						if x.Len() > 0 {
							x.SetFloat(r.Int63n(x.Len()), values[r.Intn(len(values))])
							some = true
						}
					}
					s.Inputs[k] = x
				}
				if some {
					if err := checkSample(def, s, false); err != nil {
						t.Fatalf("sample %d (%s): %v", i, s, err)
					}
				}
			}
		})
	}
}

// specialDeviations are operators whose results differ on such elements, as docs/accuracy.md lists them, or that refuse
// them.
var specialDeviations = map[string]string{
	"attention":      "keys and values that a causal mask hides are not read",
	"fourier":        "which results of a transform with an infinity are NaN depends on the algorithm",
	"roi_align":      "a weight of 0 beside an infinity is left out by one, multiplied by the other",
	"draw_bernoulli": "refuses probabilities that are NaN",
	"draw_classes":   "refuses a row in which no class is possible",
	"max_roi_pool":   "refuses an index of an image that does not exist",
	"roi_align_back": "as roi_align", "roi_align_largest": "as roi_align", "max_roi_pool_largest": "as max_roi_pool",
	"winograd_output": "sums of infinities, which occur only in far tiles, are NaN in one order and infinite " +
		"in another",
	"mel_weights": "refuses frequencies out of range",
}
