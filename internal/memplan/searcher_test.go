package memplan_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/memplan"
	"github.com/weirml/weir/internal/memplan/validator"
	"github.com/weirml/weir/internal/sym"
)

// lowest returns the least height of a problem of numbers without aliases, found by trying every order: each buffer
// lies on those before it.
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

// leastOf returns the proved least height of a plan of numbers; −1 for plans with dimensions.
func leastOf(s *memplan.Solution) int64 {
	if least, ok := s.Least.Const(); ok {
		return least
	}
	return -1
}

// small makes problems small enough to try every order.
func small(random *rand.Rand, most int, sizes []int64, aligns []int64) memplan.Problem {
	p := memplan.Problem{Steps: 2 + random.IntN(7)}
	for i := range 2 + random.IntN(most-1) {
		b := memplan.Buffer{Name: fmt.Sprint("b", i), Size: sym.Const(sizes[random.IntN(len(sizes))]),
			Align: aligns[random.IntN(len(aligns))]}
		b.First = random.IntN(p.Steps)
		b.Last = b.First + random.IntN(p.Steps-b.First)
		p.Buffers = append(p.Buffers, b)
	}
	return p
}

// TestSearchIsOptimal: the search finds the least height that trying every order finds.
func TestSearchIsOptimal(t *testing.T) {
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
					if arena != want || leastOf(s) != want {
						t.Fatalf("seed %d, without %v: %d bytes, at least %d, found by %s; trying all orders gives %d", seed, without,
							arena, leastOf(s), s.Layouts[0].Found, want)
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

// cut makes a problem that fits a height exactly: a rectangle of steps and bytes cut into pieces again and again.
func cut(random *rand.Rand, steps int, height int64, pieces int) memplan.Problem {
	type piece struct {
		first, last int
		size        int64
	}
	list := []piece{{0, steps - 1, height}}
	for len(list) < pieces {
		at := random.IntN(len(list))
		one, other := list[at], list[at]
		switch {
		case one.first < one.last && (random.IntN(2) == 0 || one.size == 1):
			one.last = one.first + random.IntN(one.last-one.first)
			other.first = one.last + 1
		case one.size > 1:
			one.size = 1 + random.Int64N(one.size-1)
			other.size -= one.size
		}
		if one != other {
			list[at] = one
			list = append(list, other)
		}
	}
	p := memplan.Problem{Steps: steps}
	for i, at := range random.Perm(len(list)) {
		c := list[at]
		p.Buffers = append(p.Buffers, memplan.Buffer{Name: fmt.Sprint("b", i), Size: sym.Const(c.size), Align: 1,
			First: c.first, Last: c.last})
	}
	return p
}

// TestSearchFindsCuts solves problems that have a placement without any gap. A height that can be reached must never be
// refuted, and most of them must be found.
func TestSearchFindsCuts(t *testing.T) {
	solved, rounds := 0, 40
	for seed := range uint64(rounds) {
		random := rand.New(rand.NewPCG(seed, 13))
		height := 8 + random.Int64N(200)
		p := cut(random, 4+random.IntN(20), height, 10+random.IntN(40))
		s, err := memplan.Plan(p, memplan.Options{Work: 4 << 20, Without: []string{"greedy", "fill", "local"}})
		if err != nil {
			t.Fatal(err)
		}
		if leastOf(s) != height {
			t.Errorf("seed %d: at least %d, and %d is the height", seed, leastOf(s), height)
		}
		if _, err := validator.Verify(claim(p, s), 0); err != nil {
			t.Fatal(err)
		}
		if s.Proven {
			solved++
		}
	}
	if t.Logf("%d of %d solved", solved, rounds); solved < rounds*3/4 {
		t.Errorf("only %d of %d solved", solved, rounds)
	}
}

// TestSearchIsSymmetric plans problems and the same ones with time running backward: two proofs must agree.
func TestSearchIsSymmetric(t *testing.T) {
	both := 0
	for seed := range uint64(60) {
		p := randomProblem(rand.New(rand.NewPCG(seed, 17)), recipe{buffers: 14, steps: 12})
		back := memplan.Problem{Steps: p.Steps, Buffers: slices.Clone(p.Buffers)}
		for i := range back.Buffers {
			b := &back.Buffers[i]
			b.First, b.Last = p.Steps-1-b.Last, p.Steps-1-b.First
			p.Buffers[i].Align, b.Align = 4, 4
		}
		slices.Reverse(back.Buffers)
		s, err := memplan.Plan(p, memplan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := memplan.Plan(back, memplan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		there, _ := s.Arena.Const()
		again, _ := r.Arena.Const()
		if leastOf(s) > again || leastOf(r) > there {
			t.Fatalf("seed %d: forward %d, at least %d; backward %d, at least %d", seed, there, leastOf(s), again, leastOf(r))
		}
		if leastOf(s) == there && leastOf(r) == again {
			both++
		}
	}
	if both < 50 {
		t.Errorf("only %d of 60 proved both ways", both)
	}
}
