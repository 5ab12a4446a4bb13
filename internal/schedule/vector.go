package schedule

import (
	"math"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// chooseVectors makes one loop of each nest a vector loop: the one with the least estimated time for the nest. That is
// usually the loop that walks the stored or reduced elements contiguously. Each-loops directly inside one another are
// exchanged to bring it inside.
func chooseVectors(s *scheduler, k *loop.Kernel) bool {
	c := s.coster(k)
	c.known = map[accessKey]sym.Expr{}
	changed := false
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for i, stmt := range body {
			if f, ok := stmt.(*loop.For); ok {
				if better, _ := c.vectorized(f); better != nil {
					body[i] = better
					changed = true
				}
				continue
			}
			for _, inner := range loop.Bodies(stmt) {
				visit(*inner)
			}
		}
	}
	visit(k.Body)
	return changed
}

// vectorized returns a copy of a nest with its best vector loops, and its time; nil if there are none.
func (c *coster) vectorized(f *loop.For) (loop.Stmt, float64) {
	var best loop.Stmt
	least := math.Inf(1)
	consider := func(candidate loop.Stmt) {
		if cost := c.statement(candidate); cost < least {
			best, least = candidate, cost
		}
	}
	for v := f; ; {
		if c.canBeVector(v) {
			consider(moveInside(f, v))
		}
		inner, ok := loop.Only(v.Body)
		if !ok || v.Kind != loop.Each || inner.Kind != loop.Each && inner.Kind != loop.Serial {
			break
		}
		v = inner
	}
	// Or vector loops further inside: the best of each inner nest.
	deeper, found := c.inside(f)
	if found {
		consider(deeper)
	}
	if least >= c.statement(f) {
		return nil, 0
	}
	return best, least
}

// inside returns a copy of a loop with vector loops in its body only.
func (c *coster) inside(f *loop.For) (loop.Stmt, bool) {
	found := false
	var copied func(body []loop.Stmt) []loop.Stmt
	copied = func(body []loop.Stmt) []loop.Stmt {
		result := make([]loop.Stmt, len(body))
		for i, stmt := range body {
			result[i] = stmt
			switch stmt := stmt.(type) {
			case *loop.For:
				if better, _ := c.vectorized(stmt); better != nil {
					result[i] = better
					found = true
				}
			case *loop.When:
				result[i] = &loop.When{Cond: stmt.Cond, Then: copied(stmt.Then), Else: copied(stmt.Else)}
			}
		}
		return result
	}
	return &loop.For{Kind: f.Kind, Var: f.Var, Extent: f.Extent, Body: copied(f.Body)}, found
}

// moveInside returns a copy of the each-loops from f inward in which v is a vector loop inside the others. If v is a
// serial loop that only reduces, it keeps its position.
func moveInside(f, v *loop.For) loop.Stmt {
	var chain []*loop.For
	at := f
	for at != v {
		chain = append(chain, at)
		at = at.Body[0].(*loop.For)
	}
	for v.Kind == loop.Each {
		inner, ok := loop.Only(at.Body)
		if !ok || inner.Kind != loop.Each || mentions(inner.Extent, v.Var) {
			break
		}
		chain = append(chain, inner)
		at = inner
	}
	var result loop.Stmt = &loop.For{Kind: loop.Vector, Var: v.Var, Extent: v.Extent, Body: at.Body}
	for i := len(chain) - 1; i >= 0; i-- {
		result = &loop.For{Kind: chain[i].Kind, Var: chain[i].Var, Extent: chain[i].Extent, Body: []loop.Stmt{result}}
	}
	return result
}

// canBeVector reports whether a loop may run as lanes.
func (c *coster) canBeVector(f *loop.For) bool {
	if f.Kind == loop.Serial && !onlyReduces(f) || f.Kind != loop.Serial && f.Kind != loop.Each {
		return false
	}
	v := c.as(f)
	good := true
	// Locals are not possible inside lanes, and all lanes share the bounds of loops and the conditions of branches.
	var check func(body []loop.Stmt)
	check = func(body []loop.Stmt) {
		for _, stmt := range body {
			for _, e := range loop.Values(stmt) {
				_, varies := v.value(e)
				switch stmt := stmt.(type) {
				case *loop.Let:
					v.varying[scalar(stmt.Name)] = v.varying[scalar(stmt.Name)] || varies
				case *loop.Check:
					v.varying[stmt.Name] = v.varying[stmt.Name] || varies
				case *loop.When:
					good = good && !varies
				}
			}
			switch stmt := stmt.(type) {
			case *loop.Local, *loop.Contract:
				good = false
			case *loop.Var:
				v.varying[scalar(stmt.Name)] = true
			case *loop.For:
				good = good && !v.differs(stmt.Extent) && stmt.Kind != loop.Vector
			}
			for _, inner := range loop.Bodies(stmt) {
				check(*inner)
			}
		}
	}
	check(f.Body)
	return good
}
