package binpack_test

import (
	"context"
	"errors"
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/binpack"
	"github.com/weirml/weir/internal/binpack/validator"
)

var instances = flag.Int("instances", 3000, "the number of random instances that brute force solves too")

var work = flag.Int("work", 1<<21, "the steps of the search for triplets")

// solve packs, and checks the packing and the claims.
func solve(t *testing.T, p binpack.Problem, work int64) *binpack.Solution {
	t.Helper()
	s, err := binpack.Solve(t.Context(), p, binpack.Options{Work: work})
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	var items []validator.Item
	for _, i := range p.Items {
		items = append(items, validator.Item{Size: i.Size, Copies: max(1, i.Copies)})
	}
	if err := validator.Check(items, p.Capacity, s.Bins, s.Least); err != nil {
		t.Fatalf("%+v: %v: %+v", p, err, s)
	}
	if s.Proven != (s.Least == len(s.Bins)) {
		t.Fatalf("%+v: proven %v with %d bins and a bound of %d", p, s.Proven, len(s.Bins), s.Least)
	}
	return s
}

// fewest returns the least number of bins, by trying every assignment.
func fewest(p binpack.Problem) int {
	var sizes []int64
	var of []int
	for i, item := range p.Items {
		for range max(1, item.Copies) {
			sizes, of = append(sizes, item.Size), append(of, i)
		}
	}
	best := len(sizes)
	room := make([]int64, 0, len(sizes))
	holds := make([][]int, len(sizes))
	var assign func(i int)
	assign = func(i int) {
		if len(room) >= best && i < len(sizes) {
			return
		}
		if i == len(sizes) {
			best = min(best, len(room))
			return
		}
		for b := range room {
			if room[b] >= sizes[i] && !slices.Contains(holds[b], of[i]) {
				room[b] -= sizes[i]
				holds[b] = append(holds[b], of[i])
				assign(i + 1)
				holds[b] = holds[b][:len(holds[b])-1]
				room[b] += sizes[i]
			}
		}
		b := len(room)
		room, holds[b] = append(room, p.Capacity-sizes[i]), []int{of[i]}
		assign(i + 1)
		room, holds[b] = room[:b], nil
	}
	assign(0)
	return best
}

// random returns a small problem of one of several families.
func random(r *rand.Rand) binpack.Problem {
	p := binpack.Problem{Capacity: 1 + r.Int64N(60)}
	family := r.IntN(9)
	if family == 7 {
		p.Capacity = math.MaxInt64 - r.Int64N(3)
	}
	c := p.Capacity
	near := func(x int64) int64 { return min(max(x+r.Int64N(5)-2, 0), c) }
	for n, copies := r.IntN(10), 0; copies < n; {
		var item binpack.Item
		switch family {
		case 0, 7:
			item.Size = r.Int64N(c)
			if r.IntN(3) == 0 {
				item.Size = c - r.Int64N(min(c, 3))
			}
		case 1:
			item.Size = near(c / 3)
		case 2:
			item.Size = near(c / 2)
		case 3:
			item.Size = c / 4
		case 4:
			item.Size = r.Int64N(3)
		case 5:
			item.Size = near([]int64{c / 2, c / 3, c / 4, c / 6, 2 * c / 3}[r.IntN(5)])
		case 6: // of a triplet: between a quarter and a half
			item.Size = c/4 + r.Int64N(c/4+1)
		case 8:
			p.Capacity, item.Size = 0, 0
		}
		if r.IntN(4) == 0 && copies+2 <= n {
			item.Copies = 2 + r.IntN(n-copies-1)
		}
		copies += max(1, item.Copies)
		item.Size = min(item.Size, p.Capacity)
		p.Items = append(p.Items, item)
	}
	return p
}

// TestFewest compares with brute force: small problems of every family, with copies.
func TestFewest(t *testing.T) {
	searched, refuted := 0, 0
	for seed := range *instances {
		p := random(rand.New(rand.NewPCG(uint64(seed), 1)))
		s := solve(t, p, 1<<30)
		if want := fewest(p); !s.Proven || len(s.Bins) != want {
			t.Fatalf("seed %d: %+v: %d bins, proven %v, not %d", seed, p, len(s.Bins), s.Proven, want)
		}
		lazy := solve(t, p, 0)
		if lazy.Least > len(s.Bins) {
			t.Fatalf("seed %d: %+v: bound %d above %d", seed, p, lazy.Least, len(s.Bins))
		}
		if s.Work > 0 {
			searched++
		}
		if lazy.Least < s.Least {
			refuted++
		}
	}
	t.Logf("%d instances, %d searched, %d bounds raised by the search", *instances, searched, refuted)
	if searched == 0 || refuted == 0 {
		t.Error("no instance needed the search")
	}
}

// triplets returns 3·n items that fill n bins of 1000, as in E. Falkenauer, A hybrid grouping genetic algorithm for bin
// packing, Journal of Heuristics 2 (1996).
func triplets(n int, seed uint64) binpack.Problem {
	r := rand.New(rand.NewPCG(seed, 2))
	p := binpack.Problem{Capacity: 1000}
	for range n {
		a := 380 + r.Int64N(111)
		b := 250 + r.Int64N((1000-a)/2-250+1)
		for _, size := range []int64{a, b, 1000 - a - b} {
			p.Items = append(p.Items, binpack.Item{Size: size})
		}
	}
	return p
}

// TestTriplets solves instances whose optimum is known: every bin is full. Of 60 items each is proved; 120 and 249
// items may take one bin more, with a bound that says so. -work searches longer.
func TestTriplets(t *testing.T) {
	proved := map[int]int{}
	for _, n := range []int{20, 40, 83} {
		for seed := range uint64(5) {
			s := solve(t, triplets(n, seed), int64(*work))
			if s.Least != n || len(s.Bins) > n+1 {
				t.Errorf("%d triplets, seed %d: %d bins, at least %d", n, seed, len(s.Bins), s.Least)
			}
			if s.Proven {
				proved[n]++
			}
		}
	}
	t.Logf("proved of 5, by triplets: %v", proved)
	if proved[20] != 5 || proved[40] < 1 {
		t.Errorf("proved of 5, by triplets: %v", proved)
	}
}

// TestUniform solves Falkenauer's uniform instances: sizes from 20 to 100 in bins of 150.
func TestUniform(t *testing.T) {
	for _, n := range []int{120, 250} {
		for seed := range uint64(5) {
			r := rand.New(rand.NewPCG(seed, 3))
			p := binpack.Problem{Capacity: 150}
			for range n {
				p.Items = append(p.Items, binpack.Item{Size: 20 + r.Int64N(81)})
			}
			s := solve(t, p, 1<<24)
			if !s.Proven || s.Least < len(s.Bins)-1 {
				t.Errorf("%d items, seed %d: %d bins, at least %d, %d steps", n, seed, len(s.Bins), s.Least, s.Work)
			}
		}
	}
}

// TestModels solves what people have: many sizes over three orders of magnitude, some with copies.
func TestModels(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		p := binpack.Problem{Capacity: 8 << 30}
		for range 200 {
			item := binpack.Item{Size: int64(math.Exp(r.Float64()*7) * (4 << 20))}
			if r.IntN(10) == 0 {
				item.Copies = 2 + r.IntN(3)
			}
			p.Items = append(p.Items, item)
		}
		if s := solve(t, p, 1<<22); !s.Proven {
			t.Errorf("seed %d: %d bins, at least %d, %d steps", seed, len(s.Bins), s.Least, s.Work)
		}
	}
}

// TestLimit stops the search of a hard instance: the result says that it is not proven, and is the same again.
func TestLimit(t *testing.T) {
	p := triplets(83, 1)
	s, again := solve(t, p, 2000), solve(t, p, 2000)
	if s.Proven || s.Least != 83 || len(s.Bins) <= 83 || s.Work > 2100 {
		t.Errorf("%d bins, at least %d, proven %v after %d steps", len(s.Bins), s.Least, s.Proven, s.Work)
	}
	if !slices.EqualFunc(s.Bins, again.Bins, slices.Equal) || s.Work != again.Work {
		t.Error("the same problem has two packings")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := binpack.Solve(ctx, p, binpack.Options{Work: 1 << 40}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled search returned %v", err)
	}
}

// TestFaults: sizes that no bin holds are errors, and no items need no bins.
func TestFaults(t *testing.T) {
	for _, p := range []binpack.Problem{{Capacity: -1}, {Capacity: 4, Items: []binpack.Item{{Size: 5}}},
		{Capacity: 4, Items: []binpack.Item{{Size: -1}}}} {
		if _, err := binpack.Solve(t.Context(), p, binpack.Options{}); err == nil {
			t.Errorf("%+v has no error", p)
		}
	}
	if s := solve(t, binpack.Problem{Capacity: 9}, 9); len(s.Bins) != 0 || !s.Proven {
		t.Errorf("nothing takes %d bins", len(s.Bins))
	}
}

// TestValidator: the validator finds each fault of a packing.
func TestValidator(t *testing.T) {
	items := []validator.Item{{Size: 3, Copies: 2}, {Size: 4, Copies: 1}, {Size: math.MaxInt64, Copies: 1}}
	const capacity = math.MaxInt64
	for name, c := range map[string]struct {
		bins  [][]int
		least int
		ok    bool
	}{
		"right":           {[][]int{{0, 1}, {0}, {2}}, 3, true},
		"too full":        {[][]int{{0, 1}, {0, 2}}, 1, false},
		"missing":         {[][]int{{0, 1}, {2}}, 1, false},
		"twice in a bin":  {[][]int{{0, 0, 1}, {2}}, 1, false},
		"once too often":  {[][]int{{0, 1}, {0, 1}, {2}}, 1, false},
		"empty":           {[][]int{{0, 1}, {0}, {2}, {}}, 3, false},
		"no item":         {[][]int{{0, 1}, {0}, {2, 3}}, 3, false},
		"below the bound": {[][]int{{0, 1}, {0}, {2}}, 4, false},
	} {
		if err := validator.Check(items, capacity, c.bins, c.least); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
