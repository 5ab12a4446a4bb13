package memplan

import (
	"cmp"
	"math"
	"slices"
)

// verdict is the outcome of a complete search for a placement under a ceiling.
type verdict int

const (
	refuted verdict = iota // there is none: every case was tried
	found                  // offset holds one
	stopped                // the allowed work was done first
)

// gone is the least offset of a group that has been placed: above all others.
const gone = math.MaxInt64 / 2

// searcher decides whether the groups of an instance fit under a ceiling.
//
// A state is the groups that are left and, for each, the least offset that the placed groups allow; the least of these
// at a point is the floor there. If the floor has a valley, take a point in it: either one of the groups that fit the
// valley lies on its floor at that point, or none does, and the floor rises to the next offset that one of them can
// have. There is no third case, since some placement of each state has no group that can be moved down by itself. So
// whether a state can be completed does not depend on the path to it: a refuted state need not be examined again, nor a
// state with the same groups and less room.
type searcher struct {
	*units
	hash  []uint64 // by group: random bits
	begin []int32  // by point: the first group that begins there or later

	ceiling int64     // bytes
	over    []int64   // by group: the units that it may reach above the ceiling, which is rounded down
	low     []int64   // by group: its least offset, or gone
	offset  []int64   // by group: its offset, if it is placed
	list    [][]int32 // by point: the groups left that are alive there, lowest first
	end     []int64   // by point: a lower bound of the end of the groups left there
	cross   []int32   // by point: the number of groups left that are alive there and at the next point

	trail   []change
	saves   []save
	backup  []int32 // the lists of saves
	changed []bool  // by group: raised in this step
	bounds  []int32 // by point: intervals raised in this step that begin there, less those that ended before
	raised  []int32 // scratch of one point
	cases   []int32 // a stack of groups to be tried
	depth   int
	tooDeep bool

	rank   []int32 // by group: the case with the least rank is tried first
	choice choice
	weight []int64 // by point: one more than the failures found there
	nogood *nogoods
	state  residue // scratch
	meter  *meter
	nodes  int64
}

// change is a group's state before a step.
type change struct {
	group  int32
	placed bool // in this step
	low    int64
}

// save is a point's state before a step.
type save struct {
	point int32
	from  int32 // in backup
	end   int64
}

// newSearcher prepares a search over an instance; run begins it. Refuted states are kept in n.
func newSearcher(u *units, n *nogoods) *searcher {
	count := len(u.group)
	x := &searcher{units: u, nogood: n, hash: make([]uint64, count), begin: make([]int32, u.points+1),
		over: make([]int64, count), low: make([]int64, count), offset: make([]int64, count),
		list: make([][]int32, u.points), end: make([]int64, u.points), cross: make([]int32, u.points),
		changed: make([]bool, count), bounds: make([]int32, u.points+1), rank: make([]int32, count),
		weight: make([]int64, u.points)}
	alive := make([]int32, u.points+1) // by point
	for g := range x.hash {
		x.hash[g] = scramble(uint64(g))
		x.begin[x.first[g]+1] = int32(g + 1)
		alive[x.first[g]]++
		alive[x.last[g]+1]--
	}
	store := make([]int32, u.places)
	for p := range u.points {
		x.begin[p+1] = max(x.begin[p], x.begin[p+1])
		x.list[p], store = store[:0:alive[p]], store[alive[p]:]
		alive[p+1] += alive[p]
	}
	return x
}

// run searches under a ceiling, in bytes. Groups that are tried come in the order of rank.
func (x *searcher) run(ceiling int64, m *meter) verdict {
	x.ceiling, x.meter, x.depth = ceiling, m, 0
	x.trail, x.saves, x.backup, x.cases = x.trail[:0], x.saves[:0], x.backup[:0], x.cases[:0]
	clear(x.low)
	clear(x.cross)
	for p := range x.weight {
		x.weight[p] = 1
	}
	for p := range x.list {
		x.list[p] = x.list[p][:0]
	}
	for g := range x.low {
		x.over[g] = x.above(g, ceiling)
		for p := x.first[g]; p <= x.last[g]; p++ {
			x.list[p] = append(x.list[p], int32(g))
			if p < x.last[g] {
				x.cross[p]++
			}
		}
	}
	top := ceiling / x.unit
	for p := range x.list {
		if !x.measure(int32(p), top) {
			return refuted
		}
	}
	return x.split(0, int32(x.points-1), top)
}

// measure computes the end of a point and reports whether it is under the ceiling, in units.
func (x *searcher) measure(p int32, top int64) bool {
	end := int64(0)
	for _, g := range x.list[p] {
		end = max(end, x.low[g]) + x.size[g]
	}
	x.end[p] = end
	if end > top && x.padded {
		// One of them may reach above.
		for _, g := range x.list[p] {
			if x.over[g] > 0 {
				return end <= top+x.over[g]
			}
		}
	}
	return end <= top
}

// floor returns the least offset that any group left at a point can have; gone if no group is left.
func (x *searcher) floor(p int32) int64 {
	if len(x.list[p]) == 0 {
		return gone
	}
	return x.low[x.list[p][0]]
}

// alignUp rounds an offset, in units, up to a group's alignment.
func (x *searcher) alignUp(at int64, g int32) int64 { return alignUp(at, x.align[g]) }

// mark is a position on the trail.
type mark struct{ trail, saves int }

// mark returns the present position, to which back returns.
func (x *searcher) mark() mark { return mark{len(x.trail), len(x.saves)} }

// place takes a group away and puts it at an offset. settle must follow.
func (x *searcher) place(g int32, at int64) {
	x.trail = append(x.trail, change{g, true, x.low[g]})
	x.low[g], x.offset[g] = gone, at
	for p := x.first[g]; p < x.last[g]; p++ {
		x.cross[p]--
	}
	x.touch(g)
}

// raise gives a group a greater least offset. settle must follow.
func (x *searcher) raise(g int32, at int64) {
	x.trail = append(x.trail, change{g, false, x.low[g]})
	x.low[g] = at
	x.changed[g] = true
	x.touch(g)
}

// touch notes the points of a group for settle.
func (x *searcher) touch(g int32) {
	x.bounds[x.first[g]]++
	x.bounds[x.last[g]+1]--
}

// settle brings the points from a to b up to date with the changes since a mark, and reports whether each can still be
// completed under the ceiling.
func (x *searcher) settle(from mark, a, b int32, top int64) bool {
	open, good := int32(0), true
	for p := a; p <= b; p++ {
		open += x.bounds[p]
		x.bounds[p] = 0
		if open == 0 || !good {
			continue
		}
		x.saves = append(x.saves, save{p, int32(len(x.backup)), x.end[p]})
		x.backup = append(x.backup, x.list[p]...)
		x.sort(p)
		if good = x.measure(p, top); !good {
			x.weight[p]++
		}
	}
	x.bounds[b+1] = 0
	for _, c := range x.trail[from.trail:] {
		x.changed[c.group] = false
	}
	return good
}

// sort drops placed groups from a point's list and moves raised groups to their new positions.
func (x *searcher) sort(p int32) {
	kept, raised := x.list[p][:0], x.raised[:0]
	for _, g := range x.list[p] {
		if x.changed[g] {
			raised = append(raised, g)
		} else if x.low[g] != gone {
			kept = append(kept, g)
		}
	}
	x.meter.spend(4*len(x.list[p]) + 16)
	if x.coarsest > 1 {
		slices.SortStableFunc(raised, func(g, h int32) int { return cmp.Compare(x.low[g], x.low[h]) })
	}
	// The two are merged from their ends.
	i, j := len(kept)-1, len(raised)-1
	kept = kept[:len(kept)+len(raised)]
	for k := len(kept) - 1; j >= 0; k-- {
		if i >= 0 && x.low[kept[i]] > x.low[raised[j]] {
			kept[k] = kept[i]
			i--
		} else {
			kept[k] = raised[j]
			j--
		}
	}
	x.list[p], x.raised = kept, raised[:0]
}

// back undoes all changes since a mark.
func (x *searcher) back(to mark) {
	for i := len(x.saves) - 1; i >= to.saves; i-- {
		s := x.saves[i]
		x.end[s.point] = s.end
		x.list[s.point] = append(x.list[s.point][:0], x.backup[s.from:]...)
		x.backup = x.backup[:s.from]
	}
	x.saves = x.saves[:to.saves]
	for i := len(x.trail) - 1; i >= to.trail; i-- {
		c := x.trail[i]
		x.low[c.group] = c.low
		if c.placed {
			for p := x.first[c.group]; p < x.last[c.group]; p++ {
				x.cross[p]++
			}
		}
	}
	x.trail = x.trail[:to.trail]
}

// deepest is the greatest depth of cases within cases; the search stops beyond it.
const deepest = 1 << 16

// split divides a range of points into pieces that no group left joins, and solves each, those with few points first.
func (x *searcher) split(a, b int32, top int64) verdict {
	type piece struct{ a, b int32 }
	var few [8]piece
	pieces := few[:0]
	for p, start := a, a; p <= b; p++ {
		if p < b && x.cross[p] > 0 {
			continue
		}
		if len(x.list[start]) > 0 {
			pieces = append(pieces, piece{start, p})
		}
		start = p + 1
	}
	slices.SortStableFunc(pieces, func(p, q piece) int { return int(p.b - p.a - (q.b - q.a)) })
	for _, p := range pieces {
		if v := x.solve(p.a, p.b, top); v != found {
			return v
		}
	}
	return found
}

// solve completes a range of points that the groups left join. Unless it returns found it leaves everything as it was.
func (x *searcher) solve(a, b int32, top int64) verdict {
	x.nodes++
	x.meter.spend(64 + 8*int(b-a))
	if x.tooDeep = x.tooDeep || x.depth >= deepest; x.tooDeep || x.meter.empty() {
		return stopped
	}
	x.depth++
	v := refuted
	start := x.mark()
	if rest := x.lift(a, b, top); rest < top {
		if x.settle(start, a, b, rest) {
			v = x.split(a, b, rest)
		}
		if v != found {
			x.back(start)
		}
	} else if x.describe(a, b, top); !x.nogood.known(&x.state) {
		x.meter.spend(2 * len(x.state.words))
		if v = x.branch(a, b, top); v == refuted {
			x.describe(a, b, top)
			x.nogood.keep(&x.state)
		}
	}
	x.depth--
	return v
}

// lift places groups that are alive at all points of a range at the top: wherever such a group lies in a placement, the
// groups above it may come down by its size and leave it the room at the top. It returns the remaining ceiling.
func (x *searcher) lift(a, b int32, top int64) int64 {
	if top%x.coarsest != 0 {
		return top
	}
	for g := x.begin[a]; g < x.begin[b+1] && x.padded; g++ {
		if x.low[g] != gone && x.over[g] > 0 {
			return top // which group lies on top makes a difference
		}
	}
	for i := len(x.list[a]) - 1; i >= 0; i-- {
		if g := x.list[a][i]; x.first[g] == a && x.last[g] == b && x.size[g]%x.coarsest == 0 {
			top -= x.size[g]
			x.place(g, top)
		}
	}
	return top
}

// branch tries all cases of one point.
func (x *searcher) branch(a, b int32, top int64) verdict {
	start, base := x.mark(), len(x.cases)
	p := x.choose(a, b, top)
	floor := x.floor(p)
	for _, g := range x.list[p] {
		if x.low[g] != floor {
			break
		}
		x.cases = append(x.cases, g)
	}
	slices.SortFunc(x.cases[base:], func(g, h int32) int { return int(x.rank[g] - x.rank[h]) })
	last := len(x.cases)
	verdict := refuted
	for i := base; i < last && verdict == refuted; i++ {
		g := x.cases[i]
		if slices.ContainsFunc(x.cases[base:i], func(other int32) bool { return x.alike(g, other) }) {
			continue
		}
		if floor+x.size[g] <= top+x.over[g] {
			verdict = x.try(g, floor, a, b, top)
		}
	}
	x.cases = x.cases[:base]
	if verdict == refuted && x.skip(p, floor) {
		if x.settle(start, a, b, top) {
			verdict = x.split(a, b, top)
		}
	}
	if verdict != found {
		x.back(start)
	}
	return verdict
}

// alike reports whether two groups differ in nothing but their names.
func (x *searcher) alike(g, h int32) bool {
	return x.size[g] == x.size[h] && x.first[g] == x.first[h] && x.last[g] == x.last[h] && x.align[g] == x.align[h] &&
		x.spare[g] == x.spare[h]
}

// try places a group on the floor of a valley and goes on.
func (x *searcher) try(g int32, floor int64, a, b int32, top int64) verdict {
	start := x.mark()
	x.place(g, floor)
	end := floor + x.size[g]
	for _, other := range x.near(g) {
		if at := x.low[other]; at < end {
			x.raise(other, x.alignUp(end, other))
		}
	}
	x.meter.spend(2 * len(x.near(g)))
	v := refuted
	if x.settle(start, a, b, top) {
		v = x.split(a, b, top)
	}
	if v != found {
		x.back(start)
	}
	return v
}

// skip raises the floor of a point on which nothing lies. It returns false if nothing could ever lie above it.
func (x *searcher) skip(p int32, floor int64) bool {
	next := int64(gone)
	for _, g := range x.list[p] {
		if x.low[g] > floor {
			next = min(next, x.low[g])
			break
		}
		// It rests on a group that is not alive here, or it could be moved down.
		for _, other := range x.near(g) {
			if x.low[other] != gone && (x.first[other] > p || x.last[other] < p) {
				next = min(next, x.alignUp(x.low[other]+x.size[other], g))
			}
		}
		x.meter.spend(2 * len(x.near(g)))
	}
	if next == gone {
		return false
	}
	for _, g := range x.list[p] {
		if x.low[g] >= next {
			break
		}
		x.raise(g, x.alignUp(next, g))
	}
	return true
}

// describe sets x.state to the identity of the state of a range of points.
func (x *searcher) describe(a, b int32, top int64) {
	s := &x.state
	s.a, s.b, s.rest, s.words = a, b, 0, s.words[:0]
	if x.coarsest > 1 || x.padded {
		s.rest = x.ceiling // the room does not tell the offsets' alignment, nor which group may end above the ceiling
	}
	s.hash = scramble(uint64(a)<<32 | uint64(b))
	word, bit := uint64(0), uint(0)
	for g := x.begin[a]; g < x.begin[b+1]; g++ {
		if x.low[g] != gone {
			word |= 1 << bit
			s.hash ^= x.hash[g]
		}
		if bit++; bit == 64 {
			s.words = append(s.words, word)
			word, bit = 0, 0
		}
	}
	s.words = append(s.words, word)
	s.set = len(s.words)
	for p := a; p <= b; p++ {
		s.words = append(s.words, uint64(top-x.floor(p)))
	}
}
