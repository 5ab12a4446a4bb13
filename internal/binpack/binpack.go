// Package binpack places items into as few bins of one capacity as possible, and proves how few they can be.
//
// First-fit and best-fit decreasing give a packing, and the bounds of bound.go a number of bins that none goes below.
// Between the two, a search by bin completion (search.go) decides for each number of bins whether it is enough. A limit
// of work ends the search; the result then says how far it may be from the least.
package binpack

import (
	"cmp"
	"context"
	"slices"

	"github.com/weirml/weir/internal/diag"
)

// Problem is a list of items to place.
type Problem struct {
	Capacity int64 // of each bin, at least 0
	Items    []Item
}

// Item is a size from 0 to the capacity, to be placed Copies times in different bins. Copies of 0 means 1.
type Item struct {
	Size   int64
	Copies int
}

// Options limit the search.
type Options struct {
	// Work is the number of steps that the search may take. 0 means no search: heuristics and bounds only.
	Work int64
}

// Solution is a packing. The same problem and the same work give the same solution on every machine.
type Solution struct {
	Bins   [][]int // the items of each bin, by index, in ascending order
	Least  int     // no packing has fewer bins
	Proven bool    // len(Bins) == Least
	Work   int64   // the steps of the search
}

// kind is a set of items that the search does not distinguish: single items of one size, or the copies of one item.
type kind struct {
	size   uint64
	items  []int // by index; one element for copies
	count  int
	single bool // at most one in a bin
}

// Solve places the items. It returns an error if an item does not fit a bin, or if ctx ends.
func Solve(ctx context.Context, p Problem, o Options) (*Solution, error) {
	kinds, err := kindsOf(p)
	if err != nil {
		return nil, err
	}
	capacity := uint64(p.Capacity)
	counts := make([]int, len(kinds))
	for i, k := range kinds {
		counts[i] = k.count
	}
	best := greedy(kinds, capacity)
	least := lowerBound(kinds, counts, capacity)
	s := &search{ctx: ctx, kinds: kinds, capacity: capacity}
	for bins := least; bins < len(best) && o.Work > s.work; bins++ {
		s.limit = s.work + (o.Work-s.work+1)/2 // half of what is left, for each number of bins
		found, whole := s.decide(bins, counts)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case found != nil:
			best = found
		case whole && least == bins:
			least = bins + 1
		}
	}
	return &Solution{Bins: expand(kinds, best), Least: least, Proven: least == len(best), Work: s.work}, nil
}

// kindsOf groups the items, the largest first.
func kindsOf(p Problem) ([]kind, error) {
	if p.Capacity < 0 {
		return nil, diag.Inputf("the capacity is %d", p.Capacity)
	}
	var kinds []kind
	bySize := map[int64]int{}
	for i, item := range p.Items {
		if item.Size < 0 || item.Size > p.Capacity {
			return nil, diag.Inputf("item %d has size %d; a bin has %d", i, item.Size, p.Capacity)
		}
		if item.Copies > 1 {
			kinds = append(kinds, kind{size: uint64(item.Size), items: []int{i}, count: item.Copies, single: true})
			continue
		}
		at, ok := bySize[item.Size]
		if !ok {
			at = len(kinds)
			bySize[item.Size] = at
			kinds = append(kinds, kind{size: uint64(item.Size)})
		}
		kinds[at].items = append(kinds[at].items, i)
		kinds[at].count++
	}
	slices.SortStableFunc(kinds, func(a, b kind) int { return cmp.Compare(b.size, a.size) })
	return kinds, nil
}

// pick is a number of items of a kind in a bin.
type pick struct{ kind, count int }

// expand replaces the kinds in bins by items.
func expand(kinds []kind, bins [][]pick) [][]int {
	used := make([]int, len(kinds))
	out := make([][]int, len(bins))
	for i, bin := range bins {
		for _, p := range bin {
			for range p.count {
				k := &kinds[p.kind]
				out[i] = append(out[i], k.items[used[p.kind]%len(k.items)])
				used[p.kind]++
			}
		}
		slices.Sort(out[i])
	}
	return out
}

// greedy returns the best of four packings, each largest item first: into the first bin with room or the fullest one,
// and with copies among the other items or before them.
func greedy(kinds []kind, capacity uint64) (best [][]pick) {
	order := make([]int, len(kinds))
	for i := range order {
		order[i] = i
	}
	for _, copiesFirst := range []bool{false, true} {
		if copiesFirst {
			slices.SortStableFunc(order, func(a, b int) int {
				return cmp.Compare(kinds[b].copies(), kinds[a].copies())
			})
		}
		for _, fullest := range []bool{false, true} {
			if bins := fit(kinds, order, capacity, fullest); best == nil || len(bins) < len(best) {
				best = bins
			}
		}
	}
	return best
}

// copies returns 1 for the copies of one item, and 0 for other items.
func (k kind) copies() int {
	if k.single {
		return 1
	}
	return 0
}

// fit places each item into the first bin with room or, if fullest, the bin with the least room that is enough.
func fit(kinds []kind, order []int, capacity uint64, fullest bool) (bins [][]pick) {
	var room []uint64
	for _, i := range order {
		k := kinds[i]
		for range k.count {
			to := -1
			for b, free := range room {
				last := bins[b][len(bins[b])-1]
				if free < k.size || k.single && last.kind == i || to >= 0 && free >= room[to] {
					continue
				}
				if to = b; !fullest {
					break
				}
			}
			if to < 0 {
				to = len(bins)
				bins, room = append(bins, nil), append(room, capacity)
			}
			room[to] -= k.size
			if n := len(bins[to]); n > 0 && bins[to][n-1].kind == i {
				bins[to][n-1].count++
			} else {
				bins[to] = append(bins[to], pick{i, 1})
			}
		}
	}
	return bins
}
