package loop

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// TestQuantised compares products by a reciprocal with quotients for many scales, on random numbers and on numbers near
// a step of the rounding. For all scales that QuantisedOf accepts the integers are the same, and it accepts nearly all.
func TestQuantised(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	accepted, tried := 0, 2000
	for range tried {
		scale, low := float32(math.Exp(r.NormFloat64()*6)), float64(-128*r.IntN(2))
		zero, high := low+float64(r.IntN(256)), low+255
		real := func(v float64) Expr { return Number(dtype.F32, v) }
		x := Apply2(Add, Apply(Round, Apply2(Div, &Ref{Name: "x", Type: dtype.F32},
			real(float64(scale)))), real(zero))
		q, ok := QuantisedOf(&Cast{Type: map[bool]dtype.DType{true: dtype.I8, false: dtype.U8}[low < 0],
			X: Apply2(Max, real(low), Apply2(Min, real(high), x))})
		if !ok {
			continue
		}
		accepted++
		for range 200 {
			v := float32((low + r.Float64()*300 - 20 - zero) * float64(scale))
			if r.IntN(2) == 0 { // at a step, or just above it
				v = float32((math.Floor(low+r.Float64()*255-zero) + 0.5) * float64(scale))
				for range r.IntN(5) {
					v = math.Nextafter32(v, math.MaxFloat32)
				}
			}
			bound := func(y float32) float64 { return max(low, min(high, math.RoundToEven(float64(y))+zero)) }
			if got, want := bound(q.product(v)), bound(v/scale); got != want {
				t.Fatalf("scale %g, zero %g: %g becomes %g, not %g", scale, zero, v, got, want)
			}
		}
	}
	if accepted < tried*9/10 {
		t.Errorf("%d of %d scales are accepted", accepted, tried)
	}
	t.Logf("%d of %d scales are accepted", accepted, tried)
}
