package memplan

import (
	"math"
	"slices"
)

// lifetimes holds the properties of a problem's groups that no binding changes: their live ranges, compressed to the
// points that matter, and their alignments. Two groups are alive together exactly when their [first, last] share a
// point.
type lifetimes struct {
	first, last []int     // by group, inclusive, in points
	align       []int64   // by group
	step        []int     // by point: the first step at which this set of groups is alive
	begin       [][]int   // by point: the groups whose first point it is
	count       []int     // by point: how many groups are alive
	near        [][]int32 // see neighbours
}

// newLifetimes compresses time to the steps at which the set of live groups is maximal: a step whose groups are all
// alive at another step as well can neither add a conflict nor raise the bound.
func newLifetimes(first, last []int, align []int64) *lifetimes {
	l := &lifetimes{first: make([]int, len(first)), last: make([]int, len(first)), align: align}
	starts := make([]int, len(first))
	ends := make([]int, len(first))
	for g := range starts {
		starts[g], ends[g] = g, g
	}
	slices.SortStableFunc(starts, func(a, b int) int { return first[a] - first[b] })
	slices.SortStableFunc(ends, func(a, b int) int { return last[a] - last[b] })
	for s, e := 0, 0; s < len(starts); {
		// All starts that come before the next end belong to one point; ends before the next start follow it.
		step := first[starts[s]]
		for s < len(starts) && first[starts[s]] <= last[ends[e]] {
			step = first[starts[s]]
			l.first[starts[s]] = len(l.step)
			s++
		}
		for e < len(ends) && (s == len(starts) || last[ends[e]] < first[starts[s]]) {
			l.last[ends[e]] = len(l.step)
			e++
		}
		l.step = append(l.step, step)
	}
	l.begin = make([][]int, len(l.step))
	for g, p := range l.first {
		l.begin[p] = append(l.begin[p], g)
	}
	l.count = make([]int, len(l.step)+1)
	for g := range first {
		l.count[l.first[g]]++
		l.count[l.last[g]+1]--
	}
	for p := range l.step {
		l.count[p+1] += l.count[p]
	}
	l.count = l.count[:len(l.step)]
	return l
}

// sweep visits every point with the groups alive at it. The list is valid until visit returns.
func (l *lifetimes) sweep(visit func(point int, live []int)) {
	var live []int
	for p := range l.step {
		live = slices.DeleteFunc(live, func(g int) bool { return l.last[g] < p })
		live = append(live, l.begin[p]...)
		visit(p, live)
	}
}

// grains lists the distinct alignments of groups, in order of first occurrence.
func (l *lifetimes) grains(groups []int) []int64 {
	var list []int64
	for _, g := range groups {
		if !slices.Contains(list, l.align[g]) {
			list = append(list, l.align[g])
		}
	}
	return list
}

// overlap reports whether two groups are ever alive together.
func (l *lifetimes) overlap(a, b int) bool { return l.first[a] <= l.last[b] && l.first[b] <= l.last[a] }

// mostAlive is the most groups alive, added over all points, that planning accepts: its work is in proportion.
const mostAlive = 1 << 27

// alive returns the number of groups alive, added over all points.
func (l *lifetimes) alive() int64 {
	n := int64(0)
	for _, c := range l.count {
		n += int64(c)
	}
	return n
}

// pairs returns the number of pairs of groups alive together.
func (l *lifetimes) pairs() int64 {
	n := int64(0)
	for p, list := range l.begin {
		b := int64(len(list))
		n += b*(int64(l.count[p])-b) + b*(b-1)/2
	}
	return n
}

// limit is the greatest sum of rounded sizes that concrete planning works with, so that no sum of its own can overflow.
const limit = math.MaxInt64 / 4

// instance is a problem at one binding of its dimensions. Sizes are never negative, and together at most limit.
type instance struct {
	*lifetimes
	size    []int64 // by group
	section []int64 // by point: no plan takes fewer bytes there
	bound   int64   // no plan takes fewer bytes: the greatest section
	peak    int     // the first point at which the bound is reached
}

// summable reports whether no size is negative and the sum of all sizes is at most limit.
func (l *lifetimes) summable(size []int64) bool {
	total := int64(0)
	for g, s := range size {
		if s < 0 || s > limit || l.align[g] > limit {
			return false
		}
		total += s + l.align[g]
		if total > limit {
			return false
		}
	}
	return true
}

// newInstance returns nil if the sizes are not summable.
func newInstance(l *lifetimes, size []int64) *instance {
	if !l.summable(size) {
		return nil
	}
	in := &instance{lifetimes: l, size: size, section: make([]int64, 0, len(l.step))}
	l.sweep(func(p int, live []int) {
		in.section = append(in.section, in.need(live))
		if in.section[p] > in.bound {
			in.bound, in.peak = in.section[p], p
		}
	})
	return in
}

// need returns the lower bound of groups alive together: for each of their alignments, the sum of the sizes of those
// that have it or a greater one, rounded up to it, less the greatest padding; the greatest of these sums.
func (in *instance) need(live []int) int64 {
	most := int64(0)
	for _, align := range in.grains(live) {
		sum, pad := int64(0), int64(0)
		for _, g := range live {
			if in.align[g] >= align {
				r := alignUp(in.size[g], align)
				sum += r
				pad = max(pad, r-in.size[g])
			}
		}
		most = max(most, sum-pad)
	}
	return most
}

// alignUp rounds x ≥ 0 up to a multiple of align, a power of two.
func alignUp(x, align int64) int64 { return (x + align - 1) &^ (align - 1) }

// orderOf returns the order of a placement: lowest offset first. An empty group comes before the groups that start at
// the same byte.
func (in *instance) orderOf(offset []int64) []int {
	order := make([]int, len(offset))
	for g := range order {
		order[g] = g
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case offset[a] != offset[b]:
			return compare(offset[a], offset[b])
		case (in.size[a] == 0) != (in.size[b] == 0):
			return compare(min(in.size[a], 1), min(in.size[b], 1))
		}
		return a - b
	})
	return order
}

// compare returns −1, 0 or 1 as a is less than, equal to or greater than b.
func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// meter counts elementary steps of work, so that effort is bounded the same way on every machine: by counting, never by
// a clock.
type meter struct{ left int64 }

// spend counts n steps.
func (m *meter) spend(n int) { m.left -= int64(n) }

// empty reports whether all the allowed work is done.
func (m *meter) empty() bool { return m.left <= 0 }
