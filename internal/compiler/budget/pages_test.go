package budget_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// TestPagesInTurns checks that weights which save nothing one by one, because each is read entirely by a step at the
// peak, are paged together: as many as the budget requires, and not the large one, whose page would take more for all
// calls than it saves.
func TestPagesInTurns(t *testing.T) {
	const side, layers, large = 32, 8, 6
	const bytes, besides = side * side * 4, 256 // besides bounds the bytes of a call's other buffers
	for _, calls := range []int64{1, 2, 3} {
		var constants, steps strings.Builder
		for i := range layers + 1 {
			rows := side
			if i == layers {
				rows *= large
			}
			fmt.Fprintf(&constants, "    const %%w%d: f32[%d, %d] = [%d%s]\n", i, rows, side, i,
				strings.Repeat(", 0.5", rows*side-1))
			fmt.Fprintf(&steps, "    %%p%d: f32[%d, %d] = mul(%%w%d, %%v%d)\n"+
				"    %%s%d: f32[] = reduce_sum(%%p%d) {axes = ints [0, 1], keepdims = bool false}\n"+
				"    %%v%d: f32[] = tanh(%%s%d)\n", i, rows, side, i, i, i, i, i+1, i)
		}
		text := fmt.Sprintf("weir 1\nir @turns {\n  main @main(%%v0: f32[]) {\n%s%s    return %%v%d\n  }\n}\n",
			&constants, &steps, layers+1)
		peak, _, _ := withinCalls(t, text, math.MaxInt64/2, calls)
		paged := func(budget int64) (pages, others int64) {
			at, saved, least := withinCalls(t, text, budget, calls)
			if at == 0 {
				t.Errorf("%d calls: %d of %d bytes are too few, %d work", calls, budget, peak, least)
			}
			for _, s := range saved {
				if s.Bytes == bytes {
					pages++
				} else {
					others++
				}
			}
			return pages, others
		}
		for want := 2 * calls; want <= layers && calls > 1; want++ {
			budget := peak - (want-calls)*bytes + calls*besides
			if pages, others := paged(budget); pages != want || others != 0 {
				t.Errorf("%d calls, %d of %d bytes: %d pages and %d of others, want %d", calls, budget, peak, pages, others, want)
			}
		}
		_, _, least := withinCalls(t, text, 1, calls)
		if pages, others := paged(least); pages != layers || others > 0 != (calls == 1) {
			t.Errorf("%d calls, the least of %d bytes: %d pages and %d of others", calls, least, pages, others)
		}
	}
}
