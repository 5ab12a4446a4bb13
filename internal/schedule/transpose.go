package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
)

// transposedLanes returns the width of the blocks in which a transposition reads and writes. The cache lines that one
// block touches take an eighth of the first-level cache, so that they stay in it until all of each is used.
func (s *scheduler) transposedLanes() int64 {
	const line, usual = 64, 64
	if s.machine.Limits.L1 == 0 {
		return usual
	}
	return max(16, s.machine.Limits.L1/8/line)
}

// cutTranspositions cuts vector loops that walk one buffer contiguously and another in large steps, if an enclosing
// each-loop walks the other contiguously: that loop moves inside the blocks.
func cutTranspositions(s *scheduler, k *loop.Kernel) bool {
	c := s.coster(k)
	names := s.newNamer(k)
	changed := false
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for i, stmt := range body {
			f, ok := stmt.(*loop.For)
			if !ok {
				continue
			}
			if better := c.blocked(f, names); better != nil {
				body[i] = better
				changed = true
				continue
			}
			visit(f.Body)
		}
	}
	visit(k.Body)
	return changed
}

// blocked returns a copy of a nest of each-loops around a vector loop, with the vector loop in blocks; nil if that does
// not pay.
func (c *coster) blocked(f *loop.For, names *namer) loop.Stmt {
	var chain []*loop.For
	v := f
	for v.Kind == loop.Each {
		chain = append(chain, v)
		inner, ok := loop.Only(v.Body)
		if !ok {
			return nil
		}
		v = inner
	}
	if v.Kind != loop.Vector || len(chain) == 0 || c.guess(v.Extent) <= float64(c.transposedLanes()) ||
		containsLoop(v.Body) {
		return nil
	}
	var across, rest []*loop.For // loops that move inside, and loops that stay
	steps := 1.0
	for _, u := range chain {
		if !mentions(v.Extent, u.Var) && c.transposes(v, u) {
			across = append(across, u)
			steps *= c.guess(u.Extent)
			continue
		}
		if slices.ContainsFunc(across, func(outer *loop.For) bool { return mentions(u.Extent, outer.Var) }) {
			return nil
		}
		rest = append(rest, u)
	}
	if steps <= leastAcross {
		return nil
	}
	block := c.split(v, c.transposedLanes(), names)
	lanes := block.Body[0]
	wrap := func(inner loop.Stmt, around []*loop.For) loop.Stmt {
		for _, u := range slices.Backward(around) {
			inner = &loop.For{Kind: u.Kind, Var: u.Var, Extent: u.Extent, Body: []loop.Stmt{inner}}
		}
		return inner
	}
	block.Body = []loop.Stmt{wrap(lanes, across)}
	return wrap(block, rest)
}

// containsLoop reports whether a body contains a loop.
func containsLoop(body []loop.Stmt) bool {
	found := false
	loop.Walk(body, func(s loop.Stmt) bool {
		_, is := s.(*loop.For)
		found = found || is
		return !found
	})
	return found
}

// Loops over nearby elements read the same cache lines. It pays to keep these if there are at least leastAcross steps,
// and if a step of the vector loop leads away from them.
const (
	nearElements = 64
	leastAcross  = 4
	leastAway    = 4 // elements
)

// transposes reports whether some access in a vector loop's body takes large steps along it, and contiguous or near
// steps, forward or back, along another loop.
func (c *coster) transposes(v, u *loop.For) bool {
	for _, a := range loop.Accesses(v.Body) {
		p := c.shapes[a.Buffer]
		if p == nil || a.Tile != nil {
			continue
		}
		offset := p.Offset(a.Index)
		along, _, ok := offset.Linear(v.Var)
		other, _, also := offset.Linear(u.Var)
		step, fixed := other.Const()
		step = max(step, -step)
		near := fixed && (step == 1 || step > 1 && float64(step)*c.guess(u.Extent) < nearElements)
		if ok && also && near && math.Abs(c.guess(along)) >= leastAway {
			return true
		}
	}
	return false
}
