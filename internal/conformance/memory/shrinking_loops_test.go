package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestShrinking runs loops whose number of rows shrinks from one iteration to the next, grows, or both: they take the
// certified bytes, stay within their scratch, and give the reference's results.
func TestShrinking(t *testing.T) {
	for _, rows := range []string{"n - min(n, ?i)", "min(n, ?i)", "min(n, min(?i + 1, 8 - ?i))",
		"min(n, max(3 - ?i, ?i - 3))"} {
		source := fmt.Sprintf(`weir 1
ir @m {
  dim n in [1, 900]
  dim ?i in [0, 7] limit 7 from "the iteration"
  main @main(%%x: f32[n, 16], %%w: f32[16, 48], %%begin: f32[48]) {
    const %%trips: i64[] = [8]
    %%y: f32[48] = loop(%%trips, none, %%begin) region (%%i: i64[] known [?i], %%on: bool[], %%sum: f32[48]) {
      %%part: f32[%[1]s, 16] = slice(%%x) {begin = syms [0, 0], extent = syms [%[1]s, 16], step = ints [1, 1]}
      %%p: f32[%[1]s, 48] = matmul(%%part, %%w) {transpose_a = bool false, transpose_b = bool false}
      %%t: f32[%[1]s, 48] = tanh(%%p)
      %%s: f32[48] = reduce_sum(%%t) {axes = ints [0], keep = bool false}
      %%next: f32[48] = add(%%sum, %%s)
      return %%on, %%next
    }
    return %%y
  }
}`, rows)
		for _, target := range []weir.Target{"", weir.Portable} {
			p, reference := weirtest.MustCompileText(t, source, weir.Options{Threads: 1, Target: target}),
				weirtest.MustCompileText(t, source, weir.Options{Target: weir.Reference})
			for _, n := range []int64{1, 2, 5, 8, 9, 40, 700} {
				in := weirtest.Arguments(p, weirtest.Tensors(t, p, weir.Dims{"n": n}, rand.New(rand.NewPCG(1, uint64(n)))))
				m, err := p.Measure(t.Context(), in)
				if err != nil {
					t.Fatalf("%s, %s rows of %d: %v", target, rows, n, err)
				}
				if want := weirtest.Sure(p.Memory().Peak(1, weir.Dims{"n": n})); m.Peak(1) != want {
					t.Errorf("%s, %s rows of %d: %d bytes are predicted, %d measured", target, rows, n, want, m.Peak(1))
				}
				got, err := p.Run(t.Context(), in)
				if err != nil {
					t.Fatalf("%s, %s rows of %d: %v", target, rows, n, err)
				}
				want, err := reference.Run(t.Context(), in)
				if err != nil {
					t.Fatal(err)
				}
				x, y := copied(t, got.At(0)), copied(t, want.At(0))
				for i := range y {
					if d := x[i] - y[i]; !(d < 1e-3 && d > -1e-3) {
						t.Fatalf("%s, %s rows of %d: element %d is %v, not %v", target, rows, n, i, x[i], y[i])
					}
				}
				got.Close()
				want.Close()
			}
		}
	}
}

// copied returns the elements of x.
func copied(t *testing.T, x *weir.Tensor) []float32 {
	t.Helper()
	list, err := weir.Copy[float32](x)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
