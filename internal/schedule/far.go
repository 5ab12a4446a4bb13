package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// If consecutive steps of a sum are far apart in an operand, as in both operands of the gradient of a weight, the
// operand is copied so that its steps are contiguous: otherwise each step is on another page, and all steps share a few
// sets of the caches.
const (
	farBytes  = 1024    // from one step to the next
	farExtent = 1 << 18 // from the first step to the last
	farRows   = 48      // rows that read a panel, for a copy to pay
	setRows   = 12      // the same, if all steps of the panel share a few sets of the caches
	setBytes  = 512     // they do if they are a multiple of this many bytes apart
	farPanels = 4       // panels that read a copy of rows, for it to pay
)

// far reports whether the steps of a sum are far apart in an operand.
func (s *scheduler) far(c *loop.Contract, step []sym.Expr, b *loop.Param) bool {
	bytes := s.stepBytes(step, b)
	return bytes >= farBytes && bytes*s.guess(c.K) >= farExtent
}

// farPanel reports whether a copy of a panel of a right operand with contiguous columns pays.
func (s *scheduler) farPanel(c *loop.Contract, b *loop.Param) bool {
	return s.most(c.M) >= s.leastFarRows(c, b) && s.far(c, c.B.Row, b)
}

// leastFarRows returns the number of rows that must read a panel of a right operand for a copy to pay.
func (s *scheduler) leastFarRows(c *loop.Contract, b *loop.Param) int64 {
	if math.Mod(s.stepBytes(c.B.Row, b), setBytes) == 0 {
		return setRows
	}
	return farRows
}

// gatherRows copies rows of a left operand that is stored transposed, with steps far apart, into a local that is
// multiplied with several panels.
func (s *scheduler) gatherRows(k *loop.Kernel, names *namer) {
	next := k.Clone()
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		if f, ok := stmt.(*loop.For); ok {
			if c := s.overPanels(next, f); c != nil {
				return []loop.Stmt{s.withRows(next, f, c, names)}
			}
		}
		return []loop.Stmt{stmt}
	}}
	next.Body = r.Body(next.Body)
	if s.commits(next, k) {
		k.Body = next.Body
	}
}

// gatherBlocks copies several panels at once of a right operand with contiguous columns and steps far apart, before the
// loop over panels. Each step of the block is one long contiguous read, which the hardware prefetches; a single panel's
// columns are only a few cache lines of each page.
func (s *scheduler) gatherBlocks(k *loop.Kernel, packs []*Pack, names *namer) {
	next := k.Clone()
	var visit func(body []loop.Stmt, tiles float64) []loop.Stmt
	visit = func(body []loop.Stmt, tiles float64) []loop.Stmt {
		for i, stmt := range body {
			inside := tiles
			if f, ok := stmt.(*loop.For); ok {
				if c, panels := s.overBlocks(next, f, packs, tiles); c != nil {
					body[i] = s.withBlocks(next, f, c, panels, names)
					continue
				}
				if inside *= max(s.guess(f.Extent), 1); f.Kind == loop.Serial {
					inside = math.Inf(1)
				}
			}
			for _, inner := range loop.Bodies(stmt) {
				*inner = visit(*inner, inside)
			}
		}
		return body
	}
	next.Body = visit(next.Body, 1)
	if s.commits(next, k) {
		k.Body = next.Body
	}
}

// overBlocks returns the only contraction in a loop over panels and the number of panels to copy at once, if such a
// copy pays; nil otherwise. tiles is the number of tiles in which the loop runs. Enough blocks remain for all workers.
func (s *scheduler) overBlocks(k *loop.Kernel, f *loop.For, packs []*Pack, tiles float64) (c *loop.Contract,
	panels int64) {
	if c = s.onlyContract(f); c == nil || willBePacked(k, c, packs) {
		return nil, 0
	}
	b := bufferOf(k, c.B.Buffer)
	most, steps := s.most(c.N), s.most(c.K)
	if b == nil || b.Access != loop.Read || !slices.Contains(k.Params, b) || most <= 0 || steps <= 0 ||
		b.DType.Bits() < 8 || !s.overDims(k, c.K) {
		return nil, 0
	}
	if !isOne(loop.Offset(c.B.Col, b.Shape, b.Strides)) || !s.farPanel(c, b) {
		return nil, 0
	}
	inside := bound(f.Body)
	for i, e := range c.B.Origin {
		step, rest, ok := e.Linear(f.Var)
		if !ok || !s.equal(step, c.B.Col[i].Mul(sym.Const(most))) ||
			slices.ContainsFunc(rest.Vars(), func(name sym.Name) bool {
				return slices.Contains(inside, name)
			}) {
			return nil, 0
		}
	}
	panels = farPanels
	if n := s.most(f.Extent); n > 0 {
		panels = min(panels, n)
	}
	near := int64(s.machine.Limits.L2/2) / int64(b.DType.Bits()/8)
	for panels > 1 && (steps > near/(panels*most) || tiles*s.guess(f.Extent) < float64(panels*s.enough()) &&
		s.enough() > 1) {
		panels /= 2
	}
	if panels < 2 {
		return nil, 0
	}
	return c, panels
}

// withBlocks returns the loop over panels in blocks, each after a copy of its panels.
func (s *scheduler) withBlocks(k *loop.Kernel, f *loop.For, c *loop.Contract, panels int64, names *namer) loop.Stmt {
	b := bufferOf(k, c.B.Buffer)
	_, width := s.dims.Bounds(c.N)
	local := &loop.Local{Name: names.name("block"), DType: b.DType,
		Shape: []sym.Expr{sym.Const(panels), c.K, sym.Const(width)}}
	p, d, n := names.bound("p"), names.bound("d"), names.bound("n")
	at := make([]sym.Expr, len(c.B.Origin))
	for i, e := range c.B.Origin {
		at[i] = e.Add(c.B.Row[i].Mul(sym.Var(d))).Add(c.B.Col[i].Mul(sym.Var(n)))
	}
	copied := &loop.For{Kind: loop.Vector, Var: n, Extent: c.N, Body: []loop.Stmt{
		&loop.Store{To: local.Name, Index: []sym.Expr{sym.Var(p), sym.Var(d), sym.Var(n)},
			X: &loop.Load{From: b.Name, Index: at, Type: b.DType}}}}
	c.B = loop.Tile{Buffer: local.Name, Origin: []sym.Expr{sym.Var(f.Var), zero, zero}, Row: []sym.Expr{zero, one, zero},
		Col: []sym.Expr{zero, zero, one}}
	panel := f.Var
	cut := s.inGroups(k, f, panels, names)
	inner := cut.Body[0].(*loop.For)
	first := sym.Var(cut.Var).Mul(sym.Const(panels))
	loop.Walk(inner.Body, func(stmt loop.Stmt) bool {
		if c, ok := stmt.(*loop.Contract); ok && c.B.Buffer == local.Name {
			c.B.Origin[0] = sym.Var(inner.Var)
		}
		return true
	})
	fill := &loop.For{Kind: loop.Each, Var: d, Extent: c.K,
		Body: []loop.Stmt{&loop.For{Kind: loop.Each, Var: p, Extent: inner.Extent,
			Body: loop.Substitute([]loop.Stmt{copied}, map[sym.Name]sym.Expr{panel: first.Add(sym.Var(p))})}}}
	cut.Body = append([]loop.Stmt{local, fill}, cut.Body...)
	return cut
}

// onlyContract returns the only contraction directly in a loop with several iterations; nil otherwise.
func (s *scheduler) onlyContract(f *loop.For) (c *loop.Contract) {
	if f.Kind != loop.Each && f.Kind != loop.Parallel || s.guess(f.Extent) < 2 {
		return nil
	}
	for _, stmt := range f.Body {
		if found, ok := stmt.(*loop.Contract); ok && c == nil {
			c = found
		} else if ok {
			return nil
		}
	}
	return c
}

// overPanels returns the only contraction in a loop over panels, if its left operand is the same for all of them and a
// copy of it pays; nil otherwise.
func (s *scheduler) overPanels(k *loop.Kernel, f *loop.For) (c *loop.Contract) {
	if c = s.onlyContract(f); c == nil {
		return nil
	}
	a := bufferOf(k, c.A.Buffer)
	inside := append(bound(f.Body), f.Var)
	moves := func(e sym.Expr) bool {
		return slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return slices.Contains(inside, name) })
	}
	if a == nil || a.Access != loop.Read || slices.ContainsFunc(c.A.Origin, moves) || moves(c.M) || !s.overDims(k, c.K) {
		return nil
	}
	if !isOne(loop.Offset(c.A.Row, a.Shape, a.Strides)) || !s.far(c, c.A.Col, a) {
		return nil
	}
	_, rows := s.dims.Bounds(c.M)
	_, steps := s.dims.Bounds(c.K)
	if rows <= 0 || steps <= 0 || a.DType.Bits() < 8 || steps > int64(s.machine.Limits.L2/2)/int64(a.DType.Bits()/8)/rows {
		return nil
	}
	return c
}

// withRows returns the loop over panels in groups, each after a copy of the rows.
func (s *scheduler) withRows(k *loop.Kernel, f *loop.For, c *loop.Contract, names *namer) loop.Stmt {
	a := bufferOf(k, c.A.Buffer)
	_, most := s.dims.Bounds(c.M)
	shape := [2]sym.Expr{c.K, sym.Const(most)}
	fill := nearby(a, &c.A, &c.A.Col, &c.A.Row, [2]sym.Expr{c.K, c.M}, shape, "rows", names)
	panels := int64(farPanels)
	if s.enough() == 1 {
		panels = max(panels, int64(s.guess(f.Extent)))
	}
	for panels > 2 && s.guess(f.Extent) <= float64(panels) {
		panels /= 2
	}
	cut := s.inGroups(k, f, panels, names)
	cut.Body = append(fill, cut.Body...)
	return cut
}

// inGroups returns a loop over groups of size iterations of f; the new loop has f's kind.
func (s *scheduler) inGroups(k *loop.Kernel, f *loop.For, size int64, names *namer) *loop.For {
	kind := f.Kind
	f.Kind = loop.Each
	groups := s.coster(k).cutInto(f, sym.Const(size), names)
	groups.Kind = kind
	return groups
}
