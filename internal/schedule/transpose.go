package schedule

import "github.com/weirml/weir/internal/loop"

// transposedLanes is the width of the blocks in which a transposition reads and writes: the cache lines that the lanes of one block touch stay in the
// first-level cache, of which they take an eighth, until all of each has been used.
func (s *scheduler) transposedLanes() int64 {
	const line, usual = 64, 64
	if s.machine.Limits.L1 == 0 {
		return usual
	}
	return max(16, s.machine.Limits.L1/8/line)
}

// blockTranspositions cuts vector loops that walk one buffer element after element and another in large steps, where an each-loop
// around walks the other element after element: that loop goes inside the blocks.
func blockTranspositions(s *scheduler, k *loop.Kernel) bool {
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

// blocked is a nest of each-loops around a vector loop, in blocks; nil where that is of no use.
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
	if v.Kind != loop.Vector || len(chain) == 0 || c.guess(v.Extent) <= float64(c.transposedLanes()) || containsLoop(v.Body) {
		return nil
	}
	across := -1
	for i, u := range chain {
		if c.guess(u.Extent) > 4 && !mentions(v.Extent, u.Var) && c.transposes(v, u) {
			across = i
		}
	}
	if across < 0 {
		return nil
	}
	for _, other := range chain[across+1:] {
		if mentions(other.Extent, chain[across].Var) {
			return nil
		}
	}
	block := c.split(v, c.transposedLanes(), names)
	lanes := block.Body[0].(*loop.For)
	u := chain[across]
	block.Body = []loop.Stmt{&loop.For{Kind: u.Kind, Var: u.Var, Extent: u.Extent, Body: []loop.Stmt{lanes}}}
	var result loop.Stmt = block
	for i := len(chain) - 1; i >= 0; i-- {
		if i != across {
			result = &loop.For{Kind: chain[i].Kind, Var: chain[i].Var, Extent: chain[i].Extent, Body: []loop.Stmt{result}}
		}
	}
	return result
}

func containsLoop(body []loop.Stmt) bool {
	found := false
	loop.Walk(body, func(s loop.Stmt) bool {
		_, is := s.(*loop.For)
		found = found || is
		return !found
	})
	return found
}

// transposes reports whether some access of a vector loop's body is in large steps along it and of step 1 along another loop.
func (c *coster) transposes(v, u *loop.For) bool {
	for _, a := range loop.Accesses(v.Body) {
		p := c.shapes[a.Buffer]
		if p == nil || a.Tile != nil {
			continue
		}
		offset := p.Offset(a.Index)
		along, _, ok := offset.Linear(v.Var)
		beside, _, also := offset.Linear(u.Var)
		if ok && also && isOne(beside) && !isOne(along) && !isZero(along) && c.guess(along) >= 16 {
			return true
		}
	}
	return false
}
