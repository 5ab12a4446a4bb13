package pass

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// levels finds the loop that each node belongs to. It adds cuts ends of loops that no dependency requires, so that not
// all sums are in memory at once; it returns false if there are too few sums for that.
func (b *batching) levels(cuts int) bool {
	ends := b.ends(cuts)
	if len(ends) < cuts {
		return false
	}
	b.level, b.stages, b.crossing = map[*ir.Node]int{}, map[int][]*ir.Node{}, map[*ir.Value]bool{}
	for at, n := range b.block.Nodes {
		if b.roles[n] == once {
			for _, v := range b.reads[n] {
				b.level[n] = max(b.level[n], b.ready(v, false))
			}
			continue
		}
		for _, end := range ends {
			if end < at {
				b.level[n]++
			}
		}
		for i, v := range n.Inputs {
			if v == nil {
				continue
			}
			b.level[n] = max(b.level[n], b.ready(v, b.axes[n][i] >= 0))
			if made, inside := b.at[v.Node]; inside && b.comes(v) && slices.ContainsFunc(ends, func(end int) bool {
				return made <= end && end < at
			}) {
				b.crossing[v] = true
			}
		}
	}
	first := map[*ir.Value]int{} // the level of the first reader
	for _, n := range slices.Backward(b.block.Nodes) {
		if b.roles[n] == once && b.level[n] == 0 { // it depends on no loop: the level of its first reader
			least := math.MaxInt
			for _, v := range n.Outputs {
				if at, read := first[v]; read {
					least = min(least, at)
				}
			}
			if least < math.MaxInt {
				b.level[n] = least
			}
		}
		for _, v := range b.reads[n] {
			if at, read := first[v]; !read || b.level[n] < at {
				first[v] = b.level[n]
			}
		}
	}
	for _, n := range b.block.Nodes {
		if b.roles[n] == once {
			b.stages[b.level[n]] = append(b.stages[b.level[n]], n)
		}
	}
	return true
}

// ends returns the indices of the nodes after which loops end, so that each loop has about as many bytes of sums.
func (b *batching) ends(cuts int) (ends []int) {
	total := 0.0
	for n, role := range b.roles {
		if role == summing {
			total += b.size[n.Outputs[0]]
		}
	}
	sum := 0.0
	for at, n := range b.block.Nodes {
		if b.roles[n] != summing {
			continue
		}
		if sum += b.size[n.Outputs[0]]; len(ends) < cuts && sum*float64(cuts+1) >= total*float64(len(ends)+1) {
			ends = append(ends, at)
		}
	}
	return ends
}

// ready returns the index of the first loop that may read a value, or with piece a piece of it.
func (b *batching) ready(v *ir.Value, piece bool) int {
	n := v.Node
	if _, made := b.at[n]; !made {
		return 0
	}
	if r := b.roles[n]; r == summing || r == piecewise && !piece {
		return b.level[n] + 1
	}
	return b.level[n]
}

// pieceSizes returns the possible numbers of examples in a piece, the largest first. Each is a divisor of the batch. If
// the extent of the batch is not one number, a piece is one example.
func (b *batching) pieceSizes() (list []int64) {
	extent, most := b.module.Dims.Bounds(b.extent)
	if extent != most {
		return []int64{1}
	}
	for pieces := int64(2); pieces < extent; {
		if extent%pieces == 0 {
			list = append(list, extent/pieces)
		}
		if pieces < everyCount {
			pieces++
		} else {
			pieces *= 2
		}
	}
	return append(list, 1)
}

// search returns the best of the candidates with these loops, and of best. It begins with all expensive results kept,
// and keeps fewer and fewer, until at most allowed bytes are alive with the smallest pieces.
func (b *batching) search(allowed float64, best *batching) *batching {
	sizes := b.pieceSizes()
	kept := map[*ir.Value]bool{}
	for _, n := range b.block.Nodes {
		if b.roles[n] == piecewise && b.leads(n.Outputs[0]) && (!cheap(n) || b.crossing[n.Outputs[0]]) {
			kept[n.Outputs[0]] = true
		}
	}
	for {
		for i, each := range sizes {
			w, there := b.way(each, kept, nil)
			if len(w.loops) > 0 && (best == nil || w.better(best, allowed)) {
				best = w
			}
			if i < len(sizes)-1 {
				continue
			}
			out := b.dropped(w, there)
			if len(w.loops) == 0 || w.alive <= allowed || out == nil {
				return best
			}
			delete(kept, out)
		}
	}
}

// way returns the candidate with pieces of each examples that keeps the values kept except but, and the values that
// are in memory in its fullest loop.
func (b *batching) way(each int64, kept map[*ir.Value]bool, but *ir.Value) (w *batching, there map[*ir.Value]bool) {
	next := *b
	next.each, next.kept = each, maps.Clone(kept)
	delete(next.kept, but)
	next.lay()
	return &next, next.weigh()
}

// dropped chooses the value to keep no longer: among the largest in memory in the fullest loop, the one that costs
// least per byte saved; nil if there is none.
func (b *batching) dropped(w *batching, there map[*ir.Value]bool) (out *ir.Value) {
	var large []*ir.Value
	for v := range w.kept {
		if there[v] && !b.forced[v] {
			large = append(large, v)
		}
	}
	slices.SortFunc(large, func(x, y *ir.Value) int {
		return cmp.Or(cmp.Compare(b.size[y], b.size[x]), cmp.Compare(b.at[x.Node], b.at[y.Node]))
	})
	var best *batching
	for _, v := range large[:min(len(large), mostDropped)] {
		next, _ := b.way(w.each, w.kept, v)
		if best == nil || next.price(w) < best.price(w) {
			best, out = next, v
		}
	}
	return out
}

// price is the number of operations that b adds to than's for each byte that it saves; if it saves none, as for one
// byte.
func (b *batching) price(than *batching) float64 {
	return (b.more - than.more + 1e-9) / max(than.alive-b.alive, 1)
}

// better reports whether candidate b is better than another.
func (b *batching) better(than *batching, allowed float64) bool {
	if fits := b.alive <= allowed; fits != (than.alive <= allowed) {
		return fits
	} else if !fits {
		return b.alive < than.alive
	}
	return b.cost() < than.cost()
}

// cost estimates the ratio of added time to the block's time. Each piece costs something, since it reads all weights.
func (b *batching) cost() float64 { return b.more + 0.01*float64(b.most)/float64(b.each) }
