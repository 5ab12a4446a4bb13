package memplan

import (
	"cmp"
	"math"
	"slices"
)

// placer places groups one after another in a list's order, each in a gap that the groups placed before leave.
type placer struct {
	*instance
	meter     *meter
	neighbour [][]int32 // by group: those alive together with it; nil if lists would cost more than a scan
	placed    []slot    // the groups placed, lowest offset first
	offset    []int64   // by group, −1 for one that is not placed
	near      []slot    // scratch of one placement
}

// slot is a group that has been placed.
type slot struct {
	begin, end  int64
	first, last int32
}

// newPlacer returns a placer with no group placed. m counts its work.
func newPlacer(in *instance, m *meter) *placer {
	n := len(in.size)
	p := &placer{instance: in, meter: m, placed: make([]slot, 0, n), offset: make([]int64, n)}
	pairs := 0
	for _, alive := range in.count {
		pairs += alive
	}
	// A group's neighbours are found through the points it lives at; if that is far less than all groups, lists pay.
	if n > 512 && pairs < n*n/64 {
		p.neighbour = in.lifetimes.neighbours()
	}
	return p
}

// neighbours lists for each group those alive together with it.
func (l *lifetimes) neighbours() [][]int32 {
	if l.near != nil {
		return l.near
	}
	lists := make([][]int32, len(l.first))
	l.sweep(func(point int, live []int) {
		old := live[:len(live)-len(l.begin[point])]
		for i, g := range l.begin[point] {
			for _, other := range old {
				lists[g], lists[other] = append(lists[g], int32(other)), append(lists[other], int32(g))
			}
			for _, other := range l.begin[point][:i] {
				lists[g], lists[other] = append(lists[g], int32(other)), append(lists[other], int32(g))
			}
		}
	})
	l.near = lists
	return lists
}

// fit places the groups in the list's order, in the lowest gap that holds each or, with best, in the gap that it leaves
// the fewest bytes of. It returns the height; the offsets stay in p.offset until the next call.
func (p *placer) fit(list []int, best bool) int64 {
	p.placed = p.placed[:0]
	for i := range p.offset {
		p.offset[i] = -1
	}
	height := int64(0)
	for _, g := range list {
		among := p.placed
		if p.neighbour != nil {
			among = p.collect(g)
		}
		p.meter.spend(2 * len(among))
		at := p.gap(g, among, best)
		p.offset[g] = at
		if p.size[g] == 0 {
			continue // an empty group overlaps nothing
		}
		end := at + p.size[g]
		height = max(height, end)
		if p.neighbour == nil {
			where, _ := slices.BinarySearchFunc(p.placed, at, func(s slot, at int64) int { return cmp.Compare(s.begin, at) })
			p.placed = slices.Insert(p.placed, where, slot{at, end, int32(p.first[g]), int32(p.last[g])})
		}
	}
	return height
}

// collect lists the placed groups that are alive together with g, lowest offset first.
func (p *placer) collect(g int) []slot {
	p.near = p.near[:0]
	for _, other := range p.neighbour[g] {
		if at := p.offset[other]; at >= 0 && p.size[other] > 0 {
			p.near = append(p.near, slot{at, at + p.size[other], int32(p.first[other]), int32(p.last[other])})
		}
	}
	p.meter.spend(len(p.neighbour[g]) + 8*len(p.near))
	slices.SortFunc(p.near, func(a, b slot) int { return cmp.Compare(a.begin, b.begin) })
	return p.near
}

// gap finds the offset of g among groups sorted by their offsets.
func (p *placer) gap(g int, among []slot, best bool) int64 {
	size, round := p.size[g], p.align[g]-1
	first, last := int32(p.first[g]), int32(p.last[g])
	at, least, floor := int64(-1), int64(math.MaxInt64), int64(0)
	for i := range among {
		s := &among[i]
		if s.first > last || first > s.last {
			continue
		}
		if room := s.begin - floor; room >= size {
			if !best || size == 0 {
				return floor
			}
			if room-size < least {
				at, least = floor, room-size
			}
		}
		floor = max(floor, (s.end+round)&^round)
	}
	if at >= 0 {
		return at
	}
	return floor
}

// priority is one list order of the portfolio: key gives each group a number, and greater numbers come first.
type priority struct {
	name string
	key  func(in *instance, g int) float64
}

// priorities are tried in this order: the one that most often reaches the bound on real networks comes first. Ties go
// to the larger group, then to the longer lived, then to the earlier.
var priorities = []priority{
	{"size", func(in *instance, g int) float64 { return float64(in.size[g]) }},
	{"area", func(in *instance, g int) float64 { return float64(in.size[g]) * float64(in.length(g)) }},
	{"start", func(in *instance, g int) float64 { return -float64(in.first[g]) }},
	{"lifetime", func(in *instance, g int) float64 { return float64(in.length(g)) }},
	{"root area", func(in *instance, g int) float64 { return float64(in.size[g]) * math.Sqrt(float64(in.length(g))) }},
	{"end", func(in *instance, g int) float64 { return float64(in.last[g]) }},
	{"section", func(in *instance, g int) float64 { return float64(in.crowd(g)) }},
	{"degree", func(in *instance, g int) float64 { return float64(in.degree(g)) }},
}

// length returns the number of points at which g is alive.
func (l *lifetimes) length(g int) int { return l.last[g] - l.first[g] + 1 }

// crowd returns the greatest bound of a point at which g is alive.
func (in *instance) crowd(g int) int64 {
	most := int64(0)
	for p := in.first[g]; p <= in.last[g]; p++ {
		most = max(most, in.section[p])
	}
	return most
}

// degree returns the sum of live groups over g's points: about how many neighbours it has, and for how long.
func (in *instance) degree(g int) int {
	n := 0
	for p := in.first[g]; p <= in.last[g]; p++ {
		n += in.count[p]
	}
	return n
}

// list sorts the groups by a priority.
func (in *instance) list(p priority) []int {
	key := make([]float64, len(in.size))
	list := make([]int, len(in.size))
	for g := range list {
		list[g], key[g] = g, p.key(in, g)
	}
	slices.SortFunc(list, func(a, b int) int {
		switch {
		case key[a] != key[b]:
			return cmp.Compare(key[b], key[a])
		case in.size[a] != in.size[b]:
			return cmp.Compare(in.size[b], in.size[a])
		}
		return cmp.Or(in.length(b)-in.length(a), a-b)
	})
	return list
}

// taste ranks the groups that fit a gap: the one with the greatest key goes in first.
type taste struct {
	name string
	key  func(in *instance, g int) (int64, int64)
}

var tastes = []taste{
	{"longest", func(in *instance, g int) (int64, int64) { return int64(in.length(g)), in.size[g] }},
	{"largest", func(in *instance, g int) (int64, int64) { return in.size[g], int64(in.length(g)) }},
	{"crowded", func(in *instance, g int) (int64, int64) { return in.crowd(g), int64(in.length(g)) }},
}

// level is a run of points at which the placed groups end at the same height.
type level struct {
	first, last int
	top         int64
}

// fill places groups from the bottom up: the lowest level takes the group that the taste likes best of those that
// live within it; if no group does, the level is raised to its lower neighbour. It returns nil when the work allowed
// runs out.
func fill(in *instance, t taste, m *meter) []int64 {
	rank := make([]int, len(in.size))
	keys := make([][2]int64, len(in.size))
	for g := range rank {
		rank[g] = g
		keys[g][0], keys[g][1] = t.key(in, g)
	}
	slices.SortFunc(rank, func(a, b int) int { return cmp.Or(slices.Compare(keys[b][:], keys[a][:]), a-b) })
	offset := make([]int64, len(in.size))
	skyline := []level{{0, len(in.step) - 1, 0}}
	for len(rank) > 0 {
		if m.empty() {
			return nil
		}
		low := 0
		for i := range skyline {
			if skyline[i].top < skyline[low].top {
				low = i
			}
		}
		s := skyline[low]
		at := slices.IndexFunc(rank, func(g int) bool { return s.first <= in.first[g] && in.last[g] <= s.last })
		m.spend(len(skyline) + len(rank))
		if at < 0 {
			skyline = raise(skyline, low)
			continue
		}
		g := rank[at]
		rank = slices.Delete(rank, at, at+1)
		offset[g] = alignUp(s.top, in.align[g])
		skyline = cover(skyline, low, in.first[g], in.last[g], offset[g]+in.size[g])
	}
	return offset
}

// raise lifts a level that nothing fits to the lower of its neighbours, and joins the two.
func raise(skyline []level, i int) []level {
	switch {
	case i > 0 && (i+1 == len(skyline) || skyline[i-1].top <= skyline[i+1].top):
		skyline[i-1].last = skyline[i].last
		skyline = slices.Delete(skyline, i, i+1)
		if i < len(skyline) && skyline[i].top == skyline[i-1].top {
			skyline[i-1].last = skyline[i].last
			skyline = slices.Delete(skyline, i, i+1)
		}
	default:
		skyline[i+1].first = skyline[i].first
		skyline = slices.Delete(skyline, i, i+1)
	}
	return skyline
}

// cover sets points first to last of level i, which holds them all, to a new top.
func cover(skyline []level, i, first, last int, top int64) []level {
	s := skyline[i]
	var levels []level
	if s.first < first {
		levels = append(levels, level{s.first, first - 1, s.top})
	}
	levels = append(levels, level{first, last, top})
	if last < s.last {
		levels = append(levels, level{last + 1, s.last, s.top})
	}
	return slices.Replace(skyline, i, i+1, levels...)
}
