package mathematics

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/dtype"
)

// TestCodes: each code has the value, and each value near a code, each special value and random ones have the code,
// that package dtype gives.
func TestCodes(t *testing.T) {
	m := model{Lane{}}
	for _, dt := range dtype.All() {
		if !Coded(dt) {
			continue
		}
		random := rand.New(rand.NewPCG(1, uint64(dt)))
		values := []float32{0, math.SmallestNonzeroFloat32, math.MaxFloat32, LeastPower, float32(math.Inf(1)),
			float32(math.NaN())}
		for code := range uint32(1) << dt.Bits() {
			want := float32(dtype.Decode(dt, uint16(code)))
			got := single(m.FromCode(dt, code))
			if math.Float32bits(got) != math.Float32bits(want) && !(got != got && want != want) {
				t.Errorf("%v: code %#x is %g, want %g", dt, code, got, want)
			}
			values = append(values, want, math.Nextafter32(want, 0), want+single(m.FromCode(dt, code^1)), want*1.0625, want/2)
		}
		for range 100_000 {
			values = append(values, single(random.Uint32()))
		}
		for _, v := range values {
			for _, x := range []float32{v, -v} {
				for _, clamped := range []bool{false, true} {
					got, want := m.ToCode(dt, word(x), clamped), uint32(dtype.Encode(dt, float64(x), clamped))
					if got != want {
						t.Fatalf("%v: %g (%#x, clamped %v) has code %#x, want %#x", dt, x, word(x), clamped, got, want)
					}
				}
			}
		}
	}
}
