package pass

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/ir"
)

// chosen is a segment for a node, and an estimate of the bytes alive at the node and in the segment.
type chosen struct {
	*segment
	alive float64
}

// A segment is chosen for a node if it keeps fewer than these shares of the bytes alive that are alive at the node now:
// a node of the segment, and a node before it whose result lies in the memory of a later concatenation's.
const (
	aroundLess = 0.9
	earlyLess  = 0.98
)

// fewerBytes is the share of another segment's bytes, with weight for added operations, below which a segment is
// better.
const fewerBytes = 0.98

// best returns the best segment for each wanted node: around the node, or around a later concatenation in whose result
// the node computes its own.
func (c *chunking) best(wanted func(n *ir.Node) bool) (found []*segment) {
	nodes := c.block.Nodes
	unchunked := make([]float64, len(nodes)) // by wanted node: bytes alive at it now
	best := make([]chosen, len(nodes))
	for i, n := range nodes {
		if wanted(n) && len(n.Outputs) == 1 && n.Outputs[0] != nil {
			if unchunked[i] = c.through[i]; !c.early(n.Outputs[0], i) {
				unchunked[i] += c.bytes[n.Outputs[0]]
			}
		}
	}
	for first := range nodes {
		early, least := len(nodes), c.through[first]
		for last := first; last < min(len(nodes), first+2*chunkReach); last++ {
			if out := nodes[last].Outputs; len(out) == 1 && c.early(out[0], first) {
				early = min(early, c.from[out[0]])
				least -= c.bytes[out[0]]
			}
			begin, end := max(first, last-chunkReach+1), min(last, first+chunkReach-1)
			hopeful := func(cost float64) bool {
				for at := begin; at <= end; at++ {
					if c.hopeful(best[at], cost, aroundLess*unchunked[at]) {
						return true
					}
				}
				for at := early; at < first; at++ {
					if c.hopeful(best[at], cost, earlyLess*unchunked[at]) {
						return true
					}
				}
				return c.exhaustive
			}
			if last == first || !hopeful(least) {
				continue
			}
			c.each(first, last, hopeful, func(s *segment) {
				for at := begin; at <= end; at++ {
					c.consider(&best[at], chosen{s, s.cost}, aroundLess*unchunked[at])
				}
				for at := early; at < first; at++ {
					c.consider(&best[at], chosen{s, max(s.cost, unchunked[at]-s.freed(at))}, earlyLess*unchunked[at])
				}
			})
		}
	}
	for at, s := range best {
		if s.segment != nil {
			s.gain = max(s.gain, unchunked[at]-s.alive)
			if !slices.Contains(found, s.segment) {
				found = append(found, s.segment)
			}
		}
	}
	return found
}

// consider replaces best by other if other is better and keeps fewer than less bytes alive.
func (c *chunking) consider(best *chosen, other chosen, less float64) {
	if other.alive < less && (best.segment == nil || c.better(other, *best)) {
		*best = other
	}
}

// hopeful reports whether consider might replace best by a segment that keeps at least cost bytes alive.
func (c *chunking) hopeful(best chosen, cost, less float64) bool {
	switch {
	case cost >= less:
		return false
	case best.segment == nil:
		return true
	case best.alive > c.allowed && cost <= c.allowed:
		return true // the segment may fit
	case best.alive <= c.allowed && cost > c.allowed:
		return false
	case best.alive <= c.allowed && best.more > 0:
		return true // the segment may add fewer operations
	}
	return cost < fewerBytes*best.alive*(1+best.share())
}

// better reports whether s is better than than. If neither keeps few enough bytes alive, twice the operations must
// halve the bytes.
func (c *chunking) better(s, than chosen) bool {
	if fits := s.alive <= c.allowed; fits != (than.alive <= c.allowed) {
		return fits
	} else if fits && math.Abs(s.more-than.more) > 0.01*s.work {
		return s.more < than.more
	}
	return s.alive*(1+s.share()) < fewerBytes*than.alive*(1+than.share())
}

// each calls visit for each way to compute the nodes from first to last in pieces, except ways that keep so many bytes
// alive that hopeful returns false.
func (c *chunking) each(first, last int, hopeful func(cost float64) bool, visit func(s *segment)) {
	n := c.block.Nodes[last]
	if len(n.Outputs) != 1 || n.Outputs[0] == nil {
		return
	}
	for axis := range n.Outputs[0].Type.Shape {
		extent, ok := n.Outputs[0].Type.Shape[axis].Const()
		if !ok || extent < 2 {
			continue
		}
		s := &segment{chunking: c, first: first, last: last}
		if !s.spread(n, axis) || !hopeful(s.whole()) {
			continue
		}
		for pieces := int64(mostPieces); pieces >= 2; pieces /= 2 {
			if way := *s; way.lay(pieces) {
				way.weigh()
				visit(&way)
				if way.more == 0 {
					break // fewer pieces keep more alive, and save nothing
				}
			}
		}
	}
}
