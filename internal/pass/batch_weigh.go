package pass

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
)

// lay finds the nodes of each loop, and the values that it keeps.
func (b *batching) lay() {
	last := 0
	for _, n := range b.block.Nodes {
		if b.roles[n] != once {
			last = max(last, b.level[n])
		}
	}
	b.loops = make([]batchLoop, last+1)
	wanted := maps.Clone(b.forced)
	base := 0.0
	total, counted := 0.0, map[*ir.Node]bool{}
	for at := last; at >= 0; at-- {
		in := map[*ir.Node]bool{}
		var visit func(n *ir.Node)
		visit = func(n *ir.Node) {
			if in[n] {
				return
			}
			in[n] = true
			for i, v := range n.Inputs {
				if v == nil || b.axes[n][i] < 0 || !b.comes(v) {
					continue
				}
				if _, made := b.at[v.Node]; !made {
					continue
				}
				if (b.kept[v] || b.forced[v]) && b.level[v.Node] < at {
					wanted[v] = true
					continue
				}
				visit(v.Node)
			}
		}
		for _, n := range b.block.Nodes {
			if b.level[n] == at && (b.roles[n] == summing || b.roles[n] == piecewise && wanted[n.Outputs[0]]) {
				visit(n)
			}
		}
		l := &b.loops[at]
		for _, n := range b.block.Nodes {
			if !in[n] {
				continue
			}
			l.nodes = append(l.nodes, n)
			if total += b.work[n]; !counted[n] {
				counted[n], base = true, base+b.work[n]
			}
			if b.roles[n] == summing {
				l.sums = append(l.sums, n)
			} else if v := n.Outputs[0]; wanted[v] && b.level[n] == at {
				l.keep = append(l.keep, v)
			}
		}
	}
	if b.more = 0; base > 0 {
		b.more = total/base - 1
	}
	if !slices.ContainsFunc(b.loops, func(l batchLoop) bool { return len(l.nodes) > 1 }) {
		b.loops = nil
	}
}

// weigh estimates the bytes alive in the fullest loop, and returns the values that are in memory there in full. Nodes
// outside loops are ignored as candidates for the fullest point: they are reordered and joined to kernels later.
func (b *batching) weigh() (there map[*ir.Value]bool) {
	type liveRange struct{ first, last int }
	ranges := map[*ir.Value]*liveRange{}
	last := map[*ir.Value]int{} // position of the last reader
	until := func(v *ir.Value, at int) {
		last[v] = max(last[v], at)
		if s := ranges[v]; s != nil {
			s.last = max(s.last, at)
		}
	}
	var inside []float64 // by position: bytes of pieces; 0 outside loops
	visit := func(once func(n *ir.Node, at int), loop func(l *batchLoop, at int)) {
		at := 0
		for level := range len(b.loops) + 1 {
			for _, n := range b.stages[level] {
				once(n, at)
				at++
			}
			if level < len(b.loops) && len(b.loops[level].nodes) > 0 {
				loop(&b.loops[level], at)
				at++
			}
		}
	}
	visit(func(n *ir.Node, at int) {
		inside = append(inside, 0)
		for _, v := range n.Outputs {
			if v != nil {
				ranges[v] = &liveRange{at, at}
			}
		}
	}, func(l *batchLoop, at int) {
		inside = append(inside, max(1, b.within(*l)))
		for _, n := range l.sums {
			ranges[n.Outputs[0]] = &liveRange{at, at}
		}
		for _, v := range l.keep {
			ranges[v] = &liveRange{at, at}
		}
	})
	visit(func(n *ir.Node, at int) {
		for _, v := range b.reads[n] {
			until(v, at)
		}
	}, func(l *batchLoop, at int) {
		for _, n := range l.nodes {
			for _, v := range n.Inputs {
				if v != nil {
					until(v, at)
				}
			}
		}
	})
	for _, n := range slices.Backward(b.block.Nodes) { // an alias keeps its operand alive
		if ops.Of(n).Alias && b.roles[n] == once && ranges[n.Outputs[0]] != nil {
			until(n.Inputs[0], ranges[n.Outputs[0]].last)
		}
	}
	live := make([]float64, len(inside)+1)
	for v, s := range ranges {
		live[s.first] += b.fullBytes(v)
		live[s.last+1] -= b.fullBytes(v)
	}
	for _, s := range b.module.Main.States { // a state's new value has memory of its own while the old value is read
		v := b.block.Results[s.Out]
		if at := ranges[v]; at != nil && last[s.In] > at.first {
			live[at.first] += b.bytesOf(v)
			live[last[s.In]+1] -= b.bytesOf(v)
		}
	}
	b.alive = -1
	sum, fullest := 0.0, 0
	for at, pieces := range inside {
		if sum += live[at]; pieces > 0 && sum+pieces > b.alive {
			b.alive, fullest = sum+pieces, at
		}
	}
	there = map[*ir.Value]bool{}
	for v, s := range ranges {
		there[v] = s.first <= fullest && fullest <= s.last
	}
	return there
}

// fullBytes is the size of a value that is in memory in full.
func (b *batching) fullBytes(v *ir.Value) float64 {
	if b.roles[v.Node] == once {
		return b.bytes[v]
	}
	return b.size[v]
}

// within estimates the most bytes of pieces that are alive at once in a loop.
func (b *batching) within(l batchLoop) (most float64) {
	share := float64(b.each) / float64(b.most)
	last := map[*ir.Value]int{}
	for i, n := range l.nodes {
		for _, v := range n.Inputs {
			last[v] = i
		}
	}
	live, ends := 0.0, map[int]float64{}
	for i, n := range l.nodes {
		if b.roles[n] == piecewise && !slices.Contains(l.keep, n.Outputs[0]) {
			bytes := share * b.bytes[n.Outputs[0]]
			live += bytes
			ends[last[n.Outputs[0]]] += bytes
		}
		most = max(most, live)
		live -= ends[i]
	}
	return most
}
