package weir_test

import (
	"bytes"
	"errors"
	"math"
	"testing"

	"github.com/weirml/weir"
)

// TestPrecision: in bf16 weights take about half the bytes, results stay near those of f32 and are the same as what portable code makes of the same roundings, what is measured is what was predicted, and an
// artefact is in the precision that it was compiled in. Without being asked for, nothing is rounded.
func TestPrecision(t *testing.T) {
	m := must[*weir.Model](t)(weir.LoadBytes(digits(t)))
	defer m.Close()
	if _, err := weir.Compile(t.Context(), m, weir.Options{Precision: weir.F16}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("a precision that there is not: %v", err)
	}
	compiled := func(o weir.Options) *weir.Program {
		p := must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		t.Cleanup(func() { p.Close() })
		return p
	}
	most := func(a, b []float32) (d float64) {
		for i := range a {
			d = max(d, math.Abs(float64(a[i]-b[i])))
		}
		return d
	}
	full := compiled(weir.Options{})
	want := scored(t, full)
	exact := scored(t, compiled(weir.Options{Precision: weir.BF16, CPU: "portable", Threads: 1}))
	if d := most(exact, want); d == 0 || d > 0.1 {
		t.Errorf("rounding changes scores by %g", d)
	}
	for _, cpu := range []string{"portable", ""} {
		p := compiled(weir.Options{Precision: weir.BF16, CPU: cpu})
		if d := most(scored(t, p), exact); d > 0.01 {
			t.Errorf("for %q, scores differ from those of portable code by %g", cpu, d)
		}
		if less, more := must[int64](t)(p.Memory().Weights.At(nil)), must[int64](t)(full.Memory().Weights.At(nil)); cpu == "" && (less < more*2/5 || less > more*4/5) {
			t.Errorf("weights take %d bytes, in f32 %d", less, more)
		}
		var file bytes.Buffer
		must[int64](t)(p.WriteTo(&file))
		a := must[*weir.Model](t)(weir.LoadBytes(file.Bytes()))
		q := must[*weir.Program](t)(weir.Compile(t.Context(), a, weir.Options{}))
		if d := most(scored(t, q), scored(t, p)); d != 0 {
			t.Errorf("an artefact for %q gives other scores by %g", cpu, d)
		}
		if _, err := weir.Compile(t.Context(), a, weir.Options{Precision: weir.BF16}); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("an artefact in another precision: %v", err)
		}
		q.Close()
		a.Close()
	}
}
