package encoder

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir"
)

// costOf returns what runs of the groups cost.
func costOf(tokens, ends []int) (cost int) {
	begin := 0
	for _, end := range ends {
		cost += runCost + (end-begin)*max(1, tokens[end-1])
		begin = end
	}
	return cost
}

// cheapest returns the least cost of any groups of at most 60 tokens, or one text, by trying them all.
func cheapest(tokens []int) (cost int) {
	for choice := range 1 << max(0, len(tokens)-1) {
		var ends []int
		fits, begin := true, 0
		for i := range tokens {
			if choice>>i&1 == 1 || i == len(tokens)-1 {
				ends = append(ends, i+1)
				fits = fits && (i == begin || (i+1-begin)*tokens[i] <= 60)
				begin = i + 1
			}
		}
		if c := costOf(tokens, ends); fits && (cost == 0 || c < cost) {
			cost = c
		}
	}
	return cost
}

// TestGroups: groups have every text once, fit, and cost the least.
func TestGroups(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		tokens := make([]int, 1+r.IntN(11))
		for i := range tokens {
			tokens[i] = r.IntN(70)
		}
		slices.Sort(tokens)
		l := layout{together: 60, bytesOf: func(weir.Dims) (int64, error) { return 0, nil }}
		ends := l.groups(len(tokens), func(i int) int { return tokens[i] })
		if !slices.IsSorted(ends) || ends[len(ends)-1] != len(tokens) ||
			len(slices.Compact(slices.Clone(ends))) != len(ends) {
			t.Fatalf("%v: groups end at %v", tokens, ends)
		}
		if got, want := costOf(tokens, ends), cheapest(tokens); got != want {
			t.Errorf("%v: groups that end at %v cost %d; others %d", tokens, ends, got, want)
		}
	}
}

// TestHeld: certificates of more bytes than 64 bits count are the largest number, not a negative one.
func TestHeld(t *testing.T) {
	for _, c := range []struct {
		Memory
		want int64
	}{
		{Memory{Weights: 1, Files: 2, Calls: 3, Call: 4, Arguments: 5}, 30},
		{Memory{Calls: 1, Call: math.MaxInt64, Arguments: 1}, math.MaxInt64},
		{Memory{Calls: 3, Call: 1 << 62}, math.MaxInt64},
		{Memory{Weights: 1 << 62, Calls: 1, Call: 1 << 62}, math.MaxInt64},
		{Memory{Weights: 1<<62 - 1, Files: 1 << 61, Calls: 2, Call: 1 << 60}, 1<<62 - 1 + 1<<61 + 1<<61},
	} {
		if got := c.Held(); got != c.want {
			t.Errorf("%+v: %d, not %d", c.Memory, got, c.want)
		}
	}
}
