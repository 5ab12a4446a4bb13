package schedule

import (
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Tile sizes along the rows and columns of a product, before they are evened out. With tiles of 64 × 128, packing takes
// less than a tenth of the work, the accumulators fit the second-level cache, and a call with a few hundred columns of
// K takes about a millisecond.
const (
	tileRows = 64
	tileCols = 128
	tileWide = 224 // columns of all rows of a tile together
)

// cutContractions gathers narrow rows if that fits, and cuts the locals into which contractions add.
func cutContractions(s *scheduler, k *loop.Kernel) bool {
	if s.registerTiles() {
		return false // contractions did it
	}
	rows := s.smaller(k, func(next *loop.Kernel) bool {
		if !gatherRows(s, next) || !tileContractions(s, next) {
			return false
		}
		dropSingle(next)
		return true
	})
	if rows == nil || !s.fits(rows) {
		rows = s.smaller(k, func(next *loop.Kernel) bool { return tileContractions(s, next) })
	}
	if rows == nil {
		return false
	}
	k.Body = rows.Body
	return true
}

// tileContractions cuts the locals into which contractions add: see the package comment for the form. Each cut axis
// becomes an each-loop over tiles around all statements that touch the local.
func tileContractions(s *scheduler, k *loop.Kernel) bool {
	names := s.newNamer(k)
	changed := false
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for i := 0; i < len(body); i++ {
			if l, ok := body[i].(*loop.Local); ok && hasContract(body[i+1:], l.Name) {
				if cut := s.cut(l, body[i+1:], names, s.tileSize); cut != nil {
					body[i] = cut
					// The statements after the local are now inside the loops.
					for j := i + 1; j < len(body); j++ {
						body[j] = nil
					}
					changed = true
					return
				}
			}
			for _, inner := range loop.Bodies(body[i]) {
				visit(*inner)
			}
		}
	}
	visit(k.Body)
	k.Body = compact(k.Body)
	return changed
}

// compact drops the nil statements that tileContractions leaves.
func compact(body []loop.Stmt) []loop.Stmt {
	kept := body[:0]
	for _, s := range body {
		if s == nil {
			continue
		}
		for _, inner := range loop.Bodies(s) {
			*inner = compact(*inner)
		}
		kept = append(kept, s)
	}
	return kept
}

// hasContract reports whether a body contracts into the local.
func hasContract(body []loop.Stmt, local string) bool {
	found := false
	loop.Walk(body, func(s loop.Stmt) bool {
		if c, ok := s.(*loop.Contract); ok && c.C.Buffer == local {
			found = true
		}
		return true
	})
	return found
}

// axisUse says how Contracts use an axis of a local: as rows, as columns, or indexed by a loop variable.
type axisUse struct{ rows, cols, named bool }

// cut returns the statements after a local, and the local, inside loops over tiles of the given sizes; nil if no axis
// can be cut.
func (s *scheduler) cut(l *loop.Local, body []loop.Stmt, names *namer,
	sizes func(l *loop.Local, axis int, use axisUse) int64) loop.Stmt {
	for _, stmt := range body {
		switch stmt.(type) {
		case *loop.For, *loop.Contract:
		default:
			return nil
		}
	}
	result := body
	local := &loop.Local{Name: l.Name, DType: l.DType, Shape: append([]sym.Expr(nil), l.Shape...)}
	var loops []*loop.For
	for axis := range l.Shape {
		use, ok := s.axis(l, axis, body)
		if !ok {
			continue
		}
		size := sizes(l, axis, use)
		extent := s.extent(l, axis, body)
		if n, ok := extent.Const(); ok && n <= size {
			continue
		}
		tile := sym.Const(size)
		t := names.bound("t")
		origin := sym.Var(t).Mul(tile)
		length := tile
		if s.dims.EQ(extent.Mod(tile), zero) != sym.Yes {
			length = tile.Min(extent.Sub(origin))
		}
		loops = append(loops, &loop.For{Kind: loop.Each, Var: t, Extent: extent.CeilDiv(tile)})
		local.Shape[axis] = s.dims.Simplify(tile.Min(l.Shape[axis].Max(zero)))
		result = tiled(l, axis, result, origin, length)
	}
	if len(loops) == 0 {
		return nil
	}
	inner := append([]loop.Stmt{local}, result...)
	for i := len(loops) - 1; i >= 0; i-- {
		loops[i].Body = inner
		inner = []loop.Stmt{loops[i]}
	}
	return inner[0]
}

// tileSize returns the size of the tile along an axis. If the extent is known, all tiles have nearly the same size.
// Along an axis that Contracts index by a loop variable, a tile has so many rows that they have tileWide columns
// together.
func (s *scheduler) tileSize(l *loop.Local, axis int, use axisUse) int64 {
	size, multiple := int64(1), int64(1)
	switch {
	case use.cols:
		size, multiple = tileCols, 4
	case use.rows:
		size, multiple = tileRows, 2
	default:
		size = max(tileWide/max(int64(s.guess(l.Shape[len(l.Shape)-1])), 1), 1)
	}
	size = s.halved(size)
	multiple = min(multiple, size)
	n, ok := l.Shape[axis].Const()
	if !ok || n <= 0 {
		return size
	}
	pieces := (n + size - 1) / size
	even := (n + pieces - 1) / pieces
	return (even + multiple - 1) / multiple * multiple
}

// extent returns the used extent of an axis of a local: that of the first loop that writes it. It may be less than the
// local's, in the last block of a blocked loop.
func (s *scheduler) extent(l *loop.Local, axis int, body []loop.Stmt) sym.Expr {
	for _, a := range loop.Accesses(body) {
		if a.Buffer != l.Name || a.Tile != nil {
			continue
		}
		for _, f := range a.Loops {
			if isVar(a.Index[axis], f.Var) {
				return f.Extent
			}
		}
		break
	}
	return l.Shape[axis]
}

// axis reports whether an axis of a local can be cut in body, and how Contracts use it.
func (s *scheduler) axis(l *loop.Local, axis int, body []loop.Stmt) (use axisUse, ok bool) {
	extent := s.extent(l, axis, body)
	for _, a := range loop.Accesses(body) {
		if a.Buffer != l.Name {
			continue
		}
		if a.Tile == nil {
			if s.loopOver(a.Loops, a.Index[axis], extent, false) == nil {
				return use, false
			}
			continue
		}
		c, isC := a.Stmt.(*loop.Contract)
		if !isC || a.Tile != &c.C {
			return use, false
		}
		t := a.Tile
		switch {
		case isZero(t.Origin[axis]) && isOne(t.Row[axis]) && isZero(t.Col[axis]) && s.equal(c.M, extent):
			use.rows = true
		case isZero(t.Origin[axis]) && isZero(t.Row[axis]) && isOne(t.Col[axis]) && s.equal(c.N, extent):
			use.cols = true
		case isZero(t.Row[axis]) && isZero(t.Col[axis]) && s.loopOver(a.Loops, t.Origin[axis], extent, true) != nil:
			use.named = true
		default:
			return use, false
		}
	}
	// Every statement must be inside the cut: a loop that does not run over the axis would run once per tile.
	for _, stmt := range body {
		if !s.follows(stmt, l, axis) {
			return use, false
		}
	}
	return use, use.rows || use.cols || use.named
}

// loopOver returns the enclosing loop of an access whose variable is the index and which runs over the entire extent;
// nil if there is none. It must be an each-loop, or, if serial is set, may be a serial one.
func (s *scheduler) loopOver(loops []*loop.For, index, extent sym.Expr, serial bool) *loop.For {
	name, ok := index.Name()
	if !ok {
		return nil
	}
	for _, f := range loops {
		if f.Var == name && s.equal(f.Extent, extent) && (f.Kind == loop.Each || serial && f.Kind == loop.Serial) {
			return f
		}
	}
	return nil
}

// follows reports whether a statement can be split along the axis: it acts only inside loops that index the axis, or is
// a Contract into the local.
func (s *scheduler) follows(stmt loop.Stmt, l *loop.Local, axis int) bool {
	switch stmt := stmt.(type) {
	case *loop.Contract:
		return stmt.C.Buffer == l.Name
	case *loop.Let, *loop.Check:
		return true // computed once more per tile, with the same result
	case *loop.When:
		for _, body := range loop.Bodies(stmt) {
			for _, inner := range *body {
				if !s.follows(inner, l, axis) {
					return false
				}
			}
		}
		return true
	case *loop.For:
		for _, a := range loop.Accesses(stmt.Body) {
			if a.Buffer == l.Name && a.Tile == nil && isVar(a.Index[axis], stmt.Var) {
				return true
			}
		}
		for _, inner := range stmt.Body {
			if !s.follows(inner, l, axis) {
				return false
			}
		}
		return len(stmt.Body) > 0
	}
	return false
}

// tiled returns body with an axis of the local reduced to one tile, of the given length, from origin on.
func tiled(l *loop.Local, axis int, body []loop.Stmt, origin, length sym.Expr) []loop.Stmt {
	variables := map[sym.Name]bool{} // of loops over the axis
	for _, a := range loop.Accesses(body) {
		if a.Buffer != l.Name {
			continue
		}
		if name, ok := a.Index[axis].Name(); ok {
			variables[name] = true
		}
	}
	shifted := func(e sym.Expr) sym.Expr {
		return e.Subst(func(name sym.Name) (sym.Expr, bool) { return origin.Add(sym.Var(name)), variables[name] })
	}
	// Indices of the local do not change: its element 0 is the tile's first.
	inside := func(index []sym.Expr) {
		if name, ok := index[axis].Sub(origin).Name(); ok && variables[name] {
			index[axis] = sym.Var(name)
		}
	}
	r := &loop.Rewrite{Integer: shifted}
	r.Expr = func(e loop.Expr) loop.Expr {
		if load, ok := e.(*loop.Load); ok && load.From == l.Name {
			inside(load.Index)
		}
		return e
	}
	r.Stmt = func(c loop.Stmt) []loop.Stmt {
		switch c := c.(type) {
		case *loop.Store:
			if c.To == l.Name {
				inside(c.Index)
			}
		case *loop.For:
			if variables[c.Var] {
				c.Extent = length
			}
		case *loop.Contract:
			if c.C.Buffer == l.Name {
				narrow(c, axis, origin, length)
				inside(c.C.Origin)
			}
		}
		return []loop.Stmt{c}
	}
	return r.Body(body)
}

// narrow reduces a Contract to one tile of the axis.
func narrow(c *loop.Contract, axis int, origin, length sym.Expr) {
	move := func(t *loop.Tile, steps []sym.Expr) {
		for i := range t.Origin {
			t.Origin[i] = t.Origin[i].Add(origin.Mul(steps[i]))
		}
	}
	switch {
	case isOne(c.C.Row[axis]):
		c.M = length
		move(&c.A, c.A.Row)
	case isOne(c.C.Col[axis]):
		c.N = length
		move(&c.B, c.B.Col)
	}
}
