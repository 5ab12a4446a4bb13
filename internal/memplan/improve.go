package memplan

import (
	"cmp"
	"slices"
)

const (
	improverRounds = 3       // passes over all storages
	improverWork   = 400_000 // steps that are computed for one piece
)

// improver lowers the peak of one piece by moves: a value that is alive at the fullest node, and not used there, is
// made later or used up earlier, together with the nodes that must move along.
type improver struct {
	*dag
	nodes    []int32 // of the piece, in their order
	position []int32 // by node: its index in nodes, −1 before the piece, len(nodes) after it
	sample   int
	start    int64 // bytes alive before the piece
	before   []int64
	peak     []int64
	large    []int32 // the storages with bytes, the largest first
	work     int64   // steps that may still be computed
}

// improved returns an order of a piece's nodes with a lower peak at one sample, or with the peak at fewer nodes; nil if
// no move gives one. It computes about as many steps as work says.
func (d *dag) improved(nodes []int32, start int64, sample int, enough, work int64) []int32 {
	m := &improver{dag: d, nodes: slices.Clone(nodes), position: slices.Repeat([]int32{-1}, len(d.uses)), sample: sample,
		start: start, work: work}
	for v := range m.position {
		m.position[v] = int32(len(nodes))
	}
	from := slices.Min(nodes)
	for v := range from {
		m.position[v] = -1
	}
	m.before, m.peak = make([]int64, len(nodes)+1), make([]int64, len(nodes))
	for r := range d.size {
		if d.size[r][sample] > 0 {
			m.large = append(m.large, int32(r))
		}
	}
	slices.SortStableFunc(m.large, func(a, b int32) int { return cmp.Compare(d.size[b][sample], d.size[a][sample]) })
	m.settle(0, len(nodes))
	changed := false
	for range improverRounds {
		if !m.shorten() {
			break
		}
		changed = true
	}
	for m.work > 0 && slices.Max(m.peak) > enough && m.lower() {
		changed = true
	}
	if !changed {
		return nil
	}
	return m.nodes
}

// settle computes the live bytes at the positions from to to−1 of the present order.
func (m *improver) settle(from, to int) {
	for i := from; i < to; i++ {
		m.position[m.nodes[i]] = int32(i)
	}
	if from == 0 {
		m.before[0] = m.start
	}
	for i := from; i < to; i++ {
		high, net := m.placed(m.nodes[i])
		m.peak[i], m.before[i+1] = m.before[i]+high, m.before[i]+net
	}
	m.work -= int64(to - from)
}

// gone reports whether storage r is dead after node v in the present order.
func (m *improver) gone(r, v int32) bool {
	if m.keep[r] {
		return false
	}
	for _, c := range m.consumers[r] {
		if m.position[c] > m.position[v] {
			return false
		}
	}
	return true
}

// placed returns the same as dag.step for a node at its position in the present order.
func (m *improver) placed(v int32) (high, net int64) {
	for _, r := range m.makes[v] {
		size := m.size[r][m.sample]
		if high += size; len(m.consumers[r]) > 0 || m.keep[r] {
			net += size
		}
	}
	for _, r := range m.uses[v] {
		if m.gone(r, v) {
			net -= m.size[r][m.sample]
		}
	}
	for _, pair := range m.reuse[v] {
		if made, used := pair[0], pair[1]; m.gone(used, v) {
			high -= min(m.size[made][m.sample], m.size[used][m.sample])
		}
	}
	if m.dag.work[v] != nil {
		high += m.dag.work[v][m.sample]
	}
	return max(high, net, 0), net
}

// rearranged is a new order of the nodes from position at on.
type rearranged struct {
	at    int
	nodes []int32
}

// take puts nodes into the order from position at on.
func (m *improver) take(at int, nodes []int32) {
	copy(m.nodes[at:], nodes)
	m.settle(at, at+len(nodes))
}

// score tells how full a piece is: its peak, the number of nodes that reach it, and the bytes alive at all nodes, in
// units of 64.
type score struct{ peak, times, sum int64 }

// score computes the score of the entire piece.
func (m *improver) score() (s score) {
	for _, p := range m.peak {
		s.sum += p >> 6 // sums of many nodes stay within 64 bits
		switch {
		case p > s.peak:
			s.peak, s.times = p, 1
		case p == s.peak:
			s.times++
		}
	}
	return s
}

// try makes a move, and takes it back unless the piece is then less full in the given sense. It reports whether it
// stays.
func (m *improver) try(move *rearranged, less func(after, now score) bool) bool {
	if move == nil {
		return false
	}
	now := m.score()
	old := slices.Clone(m.nodes[move.at : move.at+len(move.nodes)])
	m.take(move.at, move.nodes)
	if less(m.score(), now) {
		return true
	}
	m.take(move.at, old)
	return false
}

// lower makes the first move that helps at the first of the fullest nodes; it returns false if no move does.
func (m *improver) lower() bool {
	at := slices.Index(m.peak, slices.Max(m.peak))
	v := m.nodes[at]
	less := func(after, now score) bool {
		return after.peak < now.peak || after.peak == now.peak && after.times < now.times
	}
	for _, r := range m.large {
		if m.work <= 0 {
			break
		}
		if m.across(r, v, at) && (m.try(m.hoisted(r, at, true), less) || m.try(m.hoisted(r, at, false), less) ||
			m.try(m.sunk(r, at), less)) {
			return true
		}
	}
	return false
}

// shorten tries moves for all storages across the longest time in which a storage is not used. It keeps the moves that
// reduce the sum of live bytes and do not raise the peak, and reports whether it kept any.
func (m *improver) shorten() (changed bool) {
	less := func(after, now score) bool { return after.peak <= now.peak && after.sum < now.sum }
	for _, r := range m.large {
		if m.work <= 0 {
			break
		}
		at := m.idle(r)
		if at >= 0 && (m.try(m.hoisted(r, at, true), less) || m.try(m.sunk(r, at), less)) {
			changed = true
		}
	}
	return changed
}

// idle returns the fullest position between the two uses of a storage that are farthest apart; −1 if all are adjacent.
func (m *improver) idle(r int32) int {
	var places []int
	if made := m.made[r]; made >= 0 {
		places = append(places, int(m.position[made]))
	} else {
		places = append(places, -1)
	}
	for _, c := range m.consumers[r] {
		places = append(places, int(m.position[c]))
	}
	slices.Sort(places)
	from, to := 0, 0
	for i := 1; i < len(places); i++ {
		if first, last := max(places[i-1]+1, 0), min(places[i], len(m.nodes)); last-first > to-from {
			from, to = first, last
		}
	}
	if from == to {
		return -1
	}
	at := from
	for i := from; i < to; i++ {
		if m.peak[i] > m.peak[at] {
			at = i
		}
	}
	return at
}

// across reports whether a storage is alive at node v at position at, which neither makes nor uses it.
func (m *improver) across(r, v int32, at int) bool {
	made := int32(-1)
	if m.made[r] >= 0 {
		made = m.position[m.made[r]]
	}
	if int(made) >= at || slices.Contains(m.uses[v], r) {
		return false
	}
	for _, c := range m.consumers[r] {
		if int(m.position[c]) > at {
			return true
		}
	}
	return false
}

// sunk moves the node that makes a storage, and all nodes before a position that depend on it, after that position,
// just before the first node that needs them; nil if that is not possible.
func (m *improver) sunk(r int32, at int) *rearranged {
	if m.made[r] < 0 || m.position[m.made[r]] < 0 {
		return nil
	}
	from := int(m.position[m.made[r]])
	moved := map[int32]bool{m.nodes[from]: true}
	var stay, along []int32
	along = append(along, m.nodes[from])
	for i := from + 1; i < len(m.nodes); i++ {
		v := m.nodes[i]
		needs := slices.ContainsFunc(m.dag.before[v], func(b int32) bool { return moved[b] })
		switch {
		case needs && i > at:
			return &rearranged{from, slices.Concat(stay, along)}
		case needs && i == at:
			return nil
		case needs:
			moved[v] = true
			along = append(along, v)
		default:
			stay = append(stay, v)
		}
	}
	return &rearranged{from, slices.Concat(stay, along)}
}

// hoisted moves all nodes that use a storage, and the nodes that they need, from after a position to before it: just
// before the position or, with early, as early as they can run; nil if that is not possible.
func (m *improver) hoisted(r int32, at int, early bool) *rearranged {
	if m.keep[r] {
		return nil
	}
	last := at
	wanted := map[int32]bool{}
	for _, c := range m.consumers[r] {
		switch p := int(m.position[c]); {
		case p >= len(m.nodes):
			return nil
		case p > at:
			wanted[c] = true
			last = max(last, p)
		}
	}
	var moved, stay []int32
	for i := last; i > at; i-- {
		v := m.nodes[i]
		if !wanted[v] {
			stay = append(stay, v)
			continue
		}
		moved = append(moved, v)
		for _, b := range m.dag.before[v] {
			if int(m.position[b]) == at {
				return nil
			}
			wanted[b] = true
		}
	}
	slices.Reverse(moved)
	slices.Reverse(stay)
	from := at
	if early {
		from = 0
		for _, v := range moved {
			for _, b := range m.dag.before[v] {
				if p := int(m.position[b]); p < at {
					from = max(from, p+1)
				}
			}
		}
	}
	return &rearranged{from, slices.Concat(moved, m.nodes[from:at+1], stay)}
}
