package binpack

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
)

// search decides whether items fit a number of bins, by bin completion: R. E. Korf, An improved algorithm for optimal
// bin packing, IJCAI 2003, and E. L. Schreiber and R. E. Korf, Improved bin completion for optimal bin packing and
// number partitioning, IJCAI 2013. The largest item that is left begins a bin. The search tries each set of items that
// completes the bin, the fullest first, unless another set dominates it (S. Martello and P. Toth, 1990): if the rest
// can be packed beside the one, it can be packed beside the other. Remainders that were refuted are kept.
type search struct {
	ctx      context.Context
	kinds    []kind
	capacity uint64

	left   []int // by kind
	bins   [][]pick
	failed map[string]bool // remainders that do not fit the bins left; see remainder
	work   int64
	limit  int64
	ended  bool // the limit was reached, or the context ended
}

// The most completions of a bin that are sorted at once, and the most remainders that are kept.
const (
	completionsAtOnce = 256
	mostFailed        = 1 << 17
)

// decide looks for a packing into a number of bins. whole reports that the search was complete: without a packing
// found, there is none.
func (s *search) decide(bins int, counts []int) (found [][]pick, whole bool) {
	s.left, s.bins, s.failed, s.ended = slices.Clone(counts), nil, map[string]bool{}, false
	var sum amount
	for i, k := range s.kinds {
		sum = sum.times(k.size, counts[i], s.capacity)
	}
	if s.place(bins, sum) {
		return s.bins, true
	}
	return nil, !s.ended
}

// spend counts a step, and reports whether the search must end.
func (s *search) spend() bool {
	s.work++
	if s.work > s.limit || s.work&0xfff == 0 && s.ctx.Err() != nil {
		s.ended = true
	}
	return s.ended
}

// place packs what is left, whose sum is given, into a number of bins.
func (s *search) place(bins int, sum amount) bool {
	first := 0
	for first < len(s.kinds) && s.left[first] == 0 {
		first++
	}
	if first == len(s.kinds) {
		return true
	}
	if s.spend() || bins == 0 || sum.bins() > bins || separate(s.kinds, s.left) > bins ||
		martelloToth(s.kinds, s.left, s.capacity) > bins {
		return false
	}
	key := s.remainder(bins)
	if s.failed[key] {
		return false
	}
	waste, _ := sum.from(amount{whole: bins}, s.capacity)
	c := &completion{search: s, first: first, bins: bins, sum: sum, waste: waste, taken: make([]int, len(s.kinds)),
		rest: make([]uint64, len(s.kinds)+1)}
	c.taken[first] = 1
	for i := len(s.kinds) - 1; i >= 0; i-- {
		c.rest[i] = c.rest[i+1]
		for n := s.left[i]; n > 0 && s.kinds[i].size > 0 && c.rest[i] < s.capacity; n-- {
			c.rest[i] = min(c.rest[i]+s.kinds[i].size, s.capacity)
		}
	}
	if c.choose(first, s.capacity-s.kinds[first].size) || c.tryAll() {
		return true
	}
	if !s.ended && len(s.failed) < mostFailed {
		s.failed[key] = true
	}
	return false
}

// remainder names what is left, and the bins for it.
func (s *search) remainder(bins int) string {
	key := binary.AppendUvarint(make([]byte, 0, len(s.left)+4), uint64(bins))
	for _, n := range s.left {
		key = binary.AppendUvarint(key, uint64(n))
	}
	return string(key)
}

// completion enumerates the sets of items that complete a bin.
type completion struct {
	*search
	first int // the kind of the item that begins the bin
	bins  int // left, with this one
	sum   amount
	waste amount // that all bins left may have together
	taken []int
	rest  []uint64 // by kind: the sum of the items left of this kind and of smaller ones, at most the capacity
	found []complete
}

// complete is a set of items that completes a bin.
type complete struct {
	picks []pick
	room  uint64
}

// choose takes items of kinds from i on into a bin with some room left, and collects each set. It tries the collected
// sets as soon as they are many, and returns true if one of them leads to a packing.
func (c *completion) choose(i int, room uint64) bool {
	for ; i < len(c.kinds); i++ {
		if c.most(i, room) > 0 {
			break
		}
	}
	if c.waste.whole == 0 && room > c.waste.part && (i == len(c.kinds) || room-c.waste.part > c.rest[i]) {
		return false // the bin cannot become full enough
	}
	if c.spend() {
		return false
	}
	if i == len(c.kinds) {
		if c.dominated(room) {
			return false
		}
		c.collect(room)
		return len(c.found) >= completionsAtOnce && c.tryAll()
	}
	most, before := c.most(i, room), c.taken[i]
	for n := most; n >= 0; n-- {
		c.taken[i] = before + n
		if c.choose(i+1, room-uint64(n)*c.kinds[i].size) {
			return true
		}
	}
	c.taken[i] = before
	return false
}

// most returns the number of items of a kind that may be added to a bin with some room.
func (c *completion) most(i int, room uint64) int {
	k := &c.kinds[i]
	most := c.left[i] - c.taken[i]
	if k.single {
		most = min(most, 1-c.taken[i])
	}
	if k.size > 0 && most > 0 {
		most = int(min(uint64(most), room/k.size))
	}
	return max(most, 0)
}

// dominated reports that another set is at least as good as the taken one: with an item more, or with a larger item in
// place of one or two smaller ones that may be in any bin.
func (c *completion) dominated(room uint64) bool {
	for i := range c.kinds {
		if c.most(i, room) > 0 {
			return true
		}
	}
	var small []uint64 // of the items that can be replaced, two of a kind at most
	for i := c.first; i < len(c.kinds); i++ {
		n := c.taken[i]
		if i == c.first {
			n-- // the first item stays
		}
		for n = min(n, 2); n > 0 && !c.kinds[i].single && c.kinds[i].size > 0; n-- {
			small = append(small, c.kinds[i].size)
		}
	}
	for i := c.first; i < len(c.kinds); i++ {
		larger := c.kinds[i].size
		if c.left[i] == c.taken[i] || c.kinds[i].single && c.taken[i] > 0 {
			continue
		}
		for a, x := range small {
			if larger > x && larger-x <= room {
				return true
			}
			for _, y := range small[a+1:] {
				if larger >= x && larger-x >= y && larger-x-y <= room {
					return true
				}
			}
		}
	}
	return false
}

// collect keeps the taken set.
func (c *completion) collect(room uint64) {
	var picks []pick
	for i, n := range c.taken {
		if n > 0 {
			picks = append(picks, pick{i, n})
		}
	}
	c.found = append(c.found, complete{picks, room})
}

// tryAll packs the rest beside each collected set, the fullest first, until one packing is found.
func (c *completion) tryAll() bool {
	sets := c.found
	c.found = nil
	slices.Reverse(sets) // of equally full bins, first those that keep large items
	slices.SortStableFunc(sets, func(a, b complete) int { return cmp.Compare(a.room, b.room) })
	for _, set := range sets {
		if c.ended {
			return false
		}
		rest := c.sum
		for _, p := range set.picks {
			c.left[p.kind] -= p.count
			var filled amount
			filled = filled.times(c.kinds[p.kind].size, p.count, c.capacity)
			rest, _ = filled.from(rest, c.capacity)
		}
		c.search.bins = append(c.search.bins, set.picks)
		if c.place(c.bins-1, rest) {
			return true
		}
		c.search.bins = c.search.bins[:len(c.search.bins)-1]
		for _, p := range set.picks {
			c.left[p.kind] += p.count
		}
	}
	return false
}
