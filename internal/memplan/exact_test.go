package memplan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// lowest is the least height of a problem of numbers without aliases, found by trying every order: each buffer lies on those before it.
func lowest(p memplan.Problem) int64 {
	n := len(p.Buffers)
	size, begin, end := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, b := range p.Buffers {
		size[i], _ = b.Size.Const()
	}
	least := int64(1 << 62)
	var order []int
	used := make([]bool, n)
	var visit func(height int64)
	visit = func(height int64) {
		if height >= least {
			return
		}
		if len(order) == n {
			least = height
			return
		}
		for i, b := range p.Buffers {
			if used[i] {
				continue
			}
			begin[i] = 0
			for _, j := range order {
				if under := p.Buffers[j]; under.First <= b.Last && b.First <= under.Last && size[j] > 0 {
					begin[i] = max(begin[i], (end[j]+b.Align-1)/b.Align*b.Align)
				}
			}
			end[i] = begin[i] + size[i]
			top := height
			if size[i] > 0 {
				top = max(top, end[i])
			}
			used[i], order = true, append(order, i)
			visit(top)
			used[i], order = false, order[:len(order)-1]
		}
	}
	visit(0)
	return least
}

// small makes problems small enough to try every order.
func small(random *rand.Rand, most int, sizes []int64, aligns []int64) memplan.Problem {
	p := memplan.Problem{Steps: 2 + random.IntN(7)}
	for i := range 2 + random.IntN(most-1) {
		b := memplan.Buffer{Name: fmt.Sprint("b", i), Size: sym.Const(sizes[random.IntN(len(sizes))]), Align: aligns[random.IntN(len(aligns))]}
		b.First = random.IntN(p.Steps)
		b.Last = b.First + random.IntN(p.Steps-b.First)
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// TestExactIsExact compares the search with every order there is.
func TestExactIsExact(t *testing.T) {
	rounds := uint64(150)
	if testing.Short() {
		rounds = 40
	}
	for name, c := range map[string]struct{ sizes, aligns []int64 }{
		"ones, twos":  {[]int64{1, 2, 3}, []int64{1}},
		"small sizes": {[]int64{1, 2, 3, 4, 5, 7}, []int64{1}},
		"large sizes": {[]int64{1000, 1024, 3000, 4096, 999, 12345}, []int64{1}},
		"with zeros":  {[]int64{0, 1, 3, 4, 6}, []int64{1, 2}},
		"multiples":   {[]int64{64, 128, 192, 320, 448}, []int64{64, 32}},
		"padded":      {[]int64{64, 100, 130, 192, 8, 60}, []int64{64}},
		"alignments":  {[]int64{64, 100, 130, 192, 8, 33}, []int64{1, 16, 64}},
		"coarse":      {[]int64{64, 128, 192, 256}, []int64{64, 128, 256}},
	} {
		t.Run(name, func(t *testing.T) {
			above := 0
			for seed := range rounds {
				p := small(rand.New(rand.NewPCG(seed, 11)), 8, c.sizes, c.aligns)
				want := lowest(p)
				for _, without := range [][]string{{"greedy", "fill", "local"}, nil} {
					s, err := memplan.Plan(p, memplan.Options{Without: without})
					if err != nil {
						t.Fatal(err)
					}
					arena, _ := s.Arena.Const()
					if arena != want || s.Least != want {
						t.Fatalf("seed %d, without %v: %d bytes, at least %d, found by %s; trying all orders gives %d", seed, without, arena, s.Least, s.Layouts[0].Found, want)
					}
					if _, err := validator.Verify(claim(p, s), 0); err != nil {
						t.Fatal(err)
					}
					if bound, _ := s.Bound.Const(); bound < want && without == nil {
						above++
					}
				}
			}
			t.Logf("%d of %d have an optimum above the bound", above, rounds)
		})
	}
}
