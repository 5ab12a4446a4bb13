package tokenizer

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrder: marks are sorted by class, few and many, and those of a class keep their order.
func TestOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(39, 1))
	var w forming
	for range 300 {
		w.pending = w.pending[:0]
		for i := range r.IntN(4 * fewMarks) {
			w.pending = append(w.pending, mark{r: rune(i), class: uint8(r.IntN(1 << r.IntN(9)))})
		}
		want := slices.Clone(w.pending)
		slices.SortStableFunc(want, func(a, b mark) int { return int(a.class) - int(b.class) })
		if w.order(); !slices.Equal(w.pending, want) {
			t.Fatalf("%d marks are in the order %v; want %v", len(want), w.pending, want)
		}
	}
}
