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
			if last == first || early > first && slices.Max(unchunked[first:last+1])*0.9 <= least {
				continue
			}
			c.each(first, last, func(s *segment) {
				for at := max(first, last-chunkReach+1); at <= min(last, first+chunkReach-1); at++ {
					c.consider(&best[at], chosen{s, s.cost}, 0.9*unchunked[at])
				}
				for at := early; at < first; at++ {
					c.consider(&best[at], chosen{s, max(s.cost, unchunked[at]-s.freed(at))}, 0.98*unchunked[at])
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

// better reports whether s is better than than. If neither keeps few enough bytes alive, twice the operations must
// halve the bytes.
func (c *chunking) better(s, than chosen) bool {
	if fits := s.alive <= c.allowed; fits != (than.alive <= c.allowed) {
		return fits
	} else if fits && math.Abs(s.more-than.more) > 0.01*s.work {
		return s.more < than.more
	}
	return s.alive*(1+s.share()) < 0.98*than.alive*(1+than.share())
}

// each calls visit for each way to compute the nodes from first to last in pieces.
func (c *chunking) each(first, last int, visit func(s *segment)) {
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
		if !s.spread(n, axis) {
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
