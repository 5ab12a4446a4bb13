package memplan

import (
	"cmp"
	"math"
	"slices"
)

// dag is a graph as the order search sees it: storages with sizes at each sample, and nodes that use and make them.
type dag struct {
	size      [][]int64 // by storage, by sample
	keep      []bool    // by storage: alive to the end
	made      []int32   // by storage: the node that makes it, −1 for one that is there from the start
	consumers [][]int32 // by storage: the nodes that use it, in the given order, each once
	uses      [][]int32 // by node: storages it reads, each once
	makes     [][]int32 // by node: storages that come alive at it
	reuse     [][][2]int32
	work      [][]int64 // by node, by sample; nil for none
	before    [][]int32 // by node: nodes that must run earlier, each once
	after     [][]int32 // by node: the converse
	fixed     []bool
}

// ranSet is a set of nodes that have run: all before from, and of those after it the ones whose bits are set.
type ranSet struct {
	from int32
	bits []uint64
}

// has reports whether a node has run.
func (r ranSet) has(node int32) bool {
	i := node - r.from
	return i < 0 || int(i>>6) < len(r.bits) && r.bits[i>>6]&(1<<(i&63)) != 0
}

// dies reports whether storage r is dead after node v, once the nodes of ran have run.
func (d *dag) dies(r, v int32, ran ranSet) bool {
	if d.keep[r] {
		return false
	}
	for _, c := range d.consumers[r] {
		if c != v && !ran.has(c) {
			return false
		}
	}
	return true
}

// step returns the effect of running v at one sample: the most bytes that it adds, and the bytes that remain.
func (d *dag) step(v int32, sample int, ran ranSet) (high, net int64) {
	for _, m := range d.makes[v] {
		high += d.size[m][sample]
		if len(d.consumers[m]) > 0 || d.keep[m] {
			net += d.size[m][sample]
		}
	}
	for _, r := range d.uses[v] {
		if d.dies(r, v, ran) {
			net -= d.size[r][sample]
		}
	}
	for _, pair := range d.reuse[v] {
		if made, used := pair[0], pair[1]; d.dies(used, v, ran) {
			high -= min(d.size[made][sample], d.size[used][sample])
		}
	}
	if d.work[v] != nil {
		high += d.work[v][sample]
	}
	return max(high, net, 0), net
}

// start returns the number of bytes alive before the first node.
func (d *dag) start(sample int) int64 {
	live := int64(0)
	for r, made := range d.made {
		if made < 0 && (len(d.consumers[r]) > 0 || d.keep[r]) {
			live += d.size[r][sample]
		}
	}
	return live
}

// curve computes the live bytes while the nodes of one piece run in an order, at one sample: by position the bytes
// alive before the node, and its peak. The nodes are those from number from on; live is the bytes that earlier nodes
// left.
func (d *dag) curve(piece []int32, from int, live int64, sample int) (before, peak []int64) {
	ran := ranSet{int32(from), make([]uint64, (len(piece)+63)/64)}
	for _, v := range piece {
		high, net := d.step(v, sample, ran)
		before, peak = append(before, live), append(peak, live+high)
		live += net
		i := int(v) - from
		ran.bits[i>>6] |= 1 << (i & 63)
	}
	return before, peak
}

// pieces cuts the given order 0, 1, … at nodes whose position no order can change: every other node must run before
// them or after them. The live values there are the same in all orders, so each piece can be ordered by itself. A piece
// is [from, to).
func (d *dag) pieces() [][2]int {
	n := len(d.uses)
	// The prefix before a node leads to it when every node of the prefix has a successor no later than it; the suffix
	// likewise.
	const never = int32(1 << 30)
	suffix := make([]int32, n+1) // the least "last predecessor" among the nodes from here on
	suffix[n] = never
	for v := n - 1; v >= 0; v-- {
		last := int32(-1)
		for _, b := range d.before[v] {
			last = max(last, b)
		}
		suffix[v] = min(suffix[v+1], last)
	}
	var list [][2]int
	from, prefix := 0, int32(0)
	for v := range n {
		if d.fixed[v] || prefix <= int32(v) && suffix[v+1] >= int32(v) {
			list = append(list, [2]int{from, v}, [2]int{v, v + 1})
			from = v + 1
		}
		first := never
		for _, a := range d.after[v] {
			first = min(first, a)
		}
		prefix = max(prefix, first)
	}
	list = append(list, [2]int{from, n})
	return slices.DeleteFunc(list, func(p [2]int) bool { return p[0] == p[1] })
}

// searchable is the most nodes of a piece of which a search may look at every set.
const searchable = 40

// schedule lowers the peak of the given order 0, 1, …, piece by piece, and is worse at no sample. Samples are looked at
// in their order, the first most of all: proved reports whether the peak there is proved least.
func (d *dag) schedule(samples int, budget int64) (order []int32, proved bool) {
	order = make([]int32, len(d.uses))
	for v := range order {
		order[v] = int32(v)
	}
	before, peak := make([][]int64, samples), make([][]int64, samples)
	for s := range peak {
		before[s], peak[s] = d.curve(order, 0, d.start(s), s)
	}
	pieces := d.pieces()
	proved = true
	for s := range samples {
		highest := func(p [2]int) int64 { return slices.Max(peak[s][p[0]:p[1]]) }
		// The piece with the highest peak comes first: the others need not go below what it settles at.
		slices.SortStableFunc(pieces, func(a, b [2]int) int { return cmp.Compare(highest(b), highest(a)) })
		settled := int64(0)
		for _, p := range pieces {
			if given := highest(p); given > settled && p[1]-p[0] > 1 {
				share := int64(1)
				if s > 0 {
					share = int64(samples - 1) // all samples but the first together cost as much as the first
				}
				if found := d.improved(order[p[0]:p[1]], before[s][p[0]], s, settled,
					min(improverWork, 4*budget)/share); found != nil && d.adopt(order, before, peak, p, found) {
					if given = highest(p); given <= settled {
						continue
					}
					if p[1]-p[0] > searchable {
						share *= 8 // such a search seldom finds more
					}
				}
				search := pieceSearch{dag: d, from: int32(p[0]), to: int32(p[1]), sample: s, given: given, enough: settled,
					budget: budget / share}
				found, proved := search.run(before[s][p[0]])
				if s == 0 && !proved {
					proved = false
				}
				if found != nil && !d.adopt(order, before, peak, p, found) && s == 0 {
					proved = false
				}
			}
			settled = max(settled, highest(p))
		}
	}
	return order, proved
}

// adopt takes a piece's new order, unless its peak would rise at some sample.
func (d *dag) adopt(order []int32, before, peak [][]int64, p [2]int, found []int32) bool {
	from, to := p[0], p[1]
	newBefore, newPeak := make([][]int64, len(peak)), make([][]int64, len(peak))
	for s := range peak {
		newBefore[s], newPeak[s] = d.curve(found, from, before[s][from], s)
		if slices.Max(newPeak[s]) > slices.Max(peak[s][from:to]) {
			return false
		}
	}
	for s := range peak {
		copy(before[s][from:to], newBefore[s])
		copy(peak[s][from:to], newPeak[s])
	}
	copy(order[from:to], found)
	return true
}

// pieceSearch looks for an order of nodes from to to−1 with a peak below given; it need not go below enough. It is a
// breadth-first search over the sets of nodes that may have run, with equal sets merged: complete if no level was cut
// to the width that the budget allows.
type pieceSearch struct {
	*dag
	from, to      int32
	sample        int
	given, enough int64
	budget        int64 // moves looked at
	spent         int64
	trail         []footprint
}

// footprint is one step of a path: the node that runs and the index of the step before it, −1 at the start.
type footprint struct{ before, node int32 }

// state is a set of nodes of the piece that have run, and the best known path to it.
type state struct {
	ran   ranSet
	hash  uint64
	ready []int32 // nodes that may run next
	live  int64
	peak  int64
	trail int32
}

// move is a node that may run next, with the highest number of live bytes on the way and the number left.
type move struct {
	node       int32
	peak, live int64
}

// arrival is a state that a move leads to, not yet made.
type arrival struct {
	from *state
	move
	hash uint64
}

// run searches, with live bytes alive before the piece. order is nil if no better order was found. proved is true if no
// order has a lower peak than the found one or, if none was found, than given; a peak of at most enough counts as
// proved.
func (s *pieceSearch) run(live int64) (order []int32, proved bool) {
	n := int(s.to - s.from)
	level := []*state{s.begin(live)}
	index := map[uint64]int{}
	proved = true
	for i := range n {
		var next []arrival
		clear(index)
		before := s.spent
		for _, from := range level {
			for _, m := range s.moves(from) {
				a := arrival{from, m, from.hash ^ scatter(m.node)}
				at, known := index[a.hash]
				switch {
				case !known:
					index[a.hash] = len(next)
					next = append(next, a)
				case !next[at].same(a):
					proved = false // two sets with one hash: the later is dropped
				case a.peak < next[at].peak:
					next[at] = a
				}
			}
		}
		if len(next) == 0 {
			return nil, proved
		}
		// The rest of the budget is spread over the levels that are left, at this level's cost of a state.
		cost := max(1, (s.spent-before)/int64(len(level)))
		if width := int(min(max(2, (s.budget-s.spent)/(int64(n-i)*cost)), math.MaxInt32)); len(next) > width {
			proved = false
			slices.SortStableFunc(next, func(a, b arrival) int {
				return cmp.Or(cmp.Compare(a.peak, b.peak), cmp.Compare(a.live, b.live))
			})
			next = next[:width]
		}
		level = level[:0:0]
		for _, a := range next {
			level = append(level, s.advance(a))
		}
	}
	for t := level[0].trail; t >= 0; t = s.trail[t].before {
		order = append(order, s.trail[t].node)
	}
	slices.Reverse(order)
	return order, proved || level[0].peak <= s.enough
}

// begin returns the state in which no node of the piece has run.
func (s *pieceSearch) begin(live int64) *state {
	first := &state{ran: ranSet{s.from, make([]uint64, (s.to-s.from+63)/64)}, live: live, peak: s.enough, trail: -1}
	for v := s.from; v < s.to; v++ {
		if !slices.ContainsFunc(s.before[v], func(b int32) bool { return b >= s.from }) {
			first.ready = append(first.ready, v)
		}
	}
	return first
}

// moves lists the nodes worth running next. A node that leaves no more alive than it found, without a new peak on the
// way, is run at once: later it could do no better, and everything else does at least as well after it.
func (s *pieceSearch) moves(from *state) []move {
	list := make([]move, 0, len(from.ready))
	for _, v := range from.ready {
		s.spent++
		high, net := s.step(v, s.sample, from.ran)
		m := move{v, max(from.peak, from.live+high), from.live + net}
		if net <= 0 && m.peak == from.peak {
			return []move{m}
		}
		if m.peak < s.given {
			list = append(list, m)
		}
	}
	return list
}

// same reports whether two arrivals are the same set of nodes.
func (a arrival) same(b arrival) bool {
	one, two := a.from.ran, b.from.ran
	i, j := int(a.node-one.from), int(b.node-one.from)
	for w := range one.bits {
		x, y := one.bits[w], two.bits[w]
		if i>>6 == w {
			x |= 1 << (i & 63)
		}
		if j>>6 == w {
			y |= 1 << (j & 63)
		}
		if x != y {
			return false
		}
	}
	return true
}

// advance makes the state that a move leads to.
func (s *pieceSearch) advance(m arrival) *state {
	from := m.from
	s.trail = append(s.trail, footprint{from.trail, m.node})
	st := &state{ran: ranSet{s.from, slices.Clone(from.ran.bits)}, hash: m.hash, live: m.live, peak: m.peak,
		trail: int32(len(s.trail) - 1)}
	at := m.node - s.from
	st.ran.bits[at>>6] |= 1 << (at & 63)
	st.ready = make([]int32, 0, len(from.ready)+1)
	for _, v := range from.ready {
		if v != m.node {
			st.ready = append(st.ready, v)
		}
	}
	for _, v := range s.after[m.node] {
		if v < s.to && !slices.ContainsFunc(s.before[v], func(b int32) bool { return !st.ran.has(b) }) {
			st.ready = append(st.ready, v)
		}
	}
	return st
}

// scatter turns a node into a number whose bits look random (the finaliser of SplitMix64), so that sets hash to the
// exclusive or of their nodes.
func scatter(node int32) uint64 {
	x := (uint64(node) + 1) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
