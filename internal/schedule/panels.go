package schedule

import (
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A machine with a register tile runs a contraction panel by panel: a panel is the number of columns of B whose sums
// for a few rows of A fill the registers. The local of the sums is cut to one panel of some rows; the kernel then
// contains a group
//
//	local acc [rows, panel]
//	each i { vector j { acc[i, j] = … } }
//	serial … { contract }
//	each i { vector j { … acc[i, j] … } }
//
// whose sums the code generator keeps in registers from the first nest to the last. The rows of A of a tile stay in the
// second-level cache while the panels of B pass by, as far as that leaves enough of them: each panel is read once per
// tile, from a more distant memory.
const (
	leastRows  = 128 // of one tile
	mostRows   = 384
	widestTile = 8 // vectors of sums for a single row: as many as hide the latency of adding

	manyTiles = 16      // tiles of a product, at most, so that workers have about the same work
	tilesEach = 4       // for each worker
	leastWork = 250_000 // multiplications in such a tile: some microseconds
	fewRows   = 32      // of such a tile: fewer would read panels too often
	fewWide   = 64      // the same, if panels are wider than the register tile by half
)

// registerTiles reports whether contractions run in the machine's registers.
func (s *scheduler) registerTiles() bool {
	return s.machine.Tile.Columns > 0 && s.machine.VectorBytes > 0
}

// contractions cuts all contractions of the module into register tiles, and packs the weights among their right
// operands.
func (s *scheduler) contractions() error {
	if !s.registerTiles() {
		return nil
	}
	packs := s.planPacks()
	for _, k := range s.module.Kernels {
		s.free = k.Dims
		if forBlocks(k) || neverRuns(k) || !contracts(k) {
			continue
		}
		next := s.smaller(k, func(next *loop.Kernel) bool {
			if !s.off("rejoin") {
				rejoin(s, next)
			}
			s.panels(next, packs)
			return true
		})
		if s.commits(next, k) {
			*k = *next
		}
	}
	return s.pack(packs)
}

// contracts reports whether a kernel contains a Contract.
func contracts(k *loop.Kernel) bool {
	found := false
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		_, is := s.(*loop.Contract)
		found = found || is
		return !found
	})
	return found
}

// panels cuts the locals into which a kernel's contractions add, and turns the loops over a panel's columns into vector
// loops.
func (s *scheduler) panels(k *loop.Kernel, packs []*Pack) {
	names := s.newNamer(k)
	var visit func(body []loop.Stmt)
	visit = func(body []loop.Stmt) {
		for i, stmt := range body {
			if l, ok := stmt.(*loop.Local); ok && hasContract(body[i+1:], l.Name) {
				after := body[i+1:]
				if list := s.blocks(k, l, after, packs, names); list != nil {
					for j := range body[i:] {
						body[i+j] = nil
					}
					copy(body[i:], list)
					return
				}
				sizes := func(l *loop.Local, axis int, use axisUse) int64 { return s.panelSize(k, l, axis, use, after, packs) }
				if cut := s.cut(l, after, names, sizes); cut != nil {
					body[i] = cut
					for j := range after {
						after[j] = nil
					}
					return
				}
			}
			for _, inner := range loop.Bodies(stmt) {
				visit(*inner)
			}
		}
	}
	visit(k.Body)
	k.Body = compact(k.Body)
	dropSingle(k)
	s.cutToPanels(k, packs, names)
	s.columnsInLanes(k)
	s.gatherRows(k, names)
	s.gatherBlocks(k, packs, names)
	s.gatherPanels(k, packs, names)
}

// cutToPanels cuts contractions that are still wider than a panel because their local could not be cut: their sums are
// stored to memory panel by panel.
func (s *scheduler) cutToPanels(k *loop.Kernel, packs []*Pack, names *namer) {
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		c, ok := stmt.(*loop.Contract)
		if !ok {
			return []loop.Stmt{stmt}
		}
		width := int64(0)
		for _, p := range packs {
			width = max(width, p.widthFor(k, c.B.Buffer))
		}
		if b := bufferOf(k, c.B.Buffer); width == 0 && b != nil {
			width = s.panelWidth(k, c, bufferOf(k, c.C.Buffer).DType)
		}
		panel := sym.Const(width)
		if width == 0 || s.dims.LE(c.N, panel) == sym.Yes {
			return []loop.Stmt{stmt}
		}
		t := names.bound("t")
		first, count := sym.Var(t).Mul(panel), c.N.CeilDiv(panel)
		if s.dims.EQ(c.N.Mod(panel), zero) == sym.Yes {
			c.N = panel
		} else {
			c.N = panel.Min(c.N.Sub(first))
		}
		for _, tile := range []*loop.Tile{&c.B, &c.C} {
			for i := range tile.Origin {
				tile.Origin[i] = tile.Origin[i].Add(tile.Col[i].Mul(first))
			}
		}
		return []loop.Stmt{&loop.For{Kind: loop.Each, Var: t, Extent: count, Body: []loop.Stmt{c}}}
	}}
	k.Body = r.Body(k.Body)
}

// gatherPanels copies each panel of a right operand without contiguous columns, a transposed one, into a local before
// the sums that need it begin.
func (s *scheduler) gatherPanels(k *loop.Kernel, packs []*Pack, names *namer) {
	next := k.Clone()
	var visit func(body []loop.Stmt) []loop.Stmt
	visit = func(body []loop.Stmt) []loop.Stmt {
		var result []loop.Stmt
		for i, stmt := range body {
			for _, inner := range loop.Bodies(stmt) {
				*inner = visit(*inner)
			}
			if l, ok := stmt.(*loop.Local); ok {
				for _, later := range body[i+1:] {
					c, ok := later.(*loop.Contract)
					if ok && c.C.Buffer == l.Name && !willBePacked(k, c, packs) {
						result = append(result, s.gathered(k, c, names)...)
					}
				}
			}
			result = append(result, stmt)
		}
		return result
	}
	next.Body = visit(next.Body)
	if s.commits(next, k) {
		k.Body = next.Body
	}
}

// willBePacked reports whether a contraction's right operand is a weight whose columns will be contiguous.
func willBePacked(k *loop.Kernel, c *loop.Contract, packs []*Pack) bool {
	return slices.ContainsFunc(packs, func(p *Pack) bool {
		return p.widthFor(k, c.B.Buffer) > 0 && stepOf(c.B.Col) == p.columns && sameNumbers(bufferOf(k, c.B.Buffer).Shape,
			p.old)
	})
}

// sameNumbers reports whether a shape consists of these constants.
func sameNumbers(shape []sym.Expr, list []int64) bool {
	n, ok := numbers(shape)
	return ok && slices.Equal(n, list)
}

// gathered returns a local for a contraction's right operand and the statements that fill it; the contraction then
// reads the local. It returns nil if the operand's columns are contiguous, or if its size is not known before the
// kernel runs.
func (s *scheduler) gathered(k *loop.Kernel, c *loop.Contract, names *namer) []loop.Stmt {
	b := bufferOf(k, c.B.Buffer)
	if isOne(c.N) || b == nil || !s.overDims(k, c.K) {
		return nil
	}
	if isOne(loop.Offset(c.B.Col, b.Shape, b.Strides)) && !s.farPanel(c, b) {
		return nil
	}
	shape := [2]sym.Expr{c.K, sym.Const(s.panelWidth(k, c, bufferOf(k, c.C.Buffer).DType))}
	return nearby(b, &c.B, &c.B.Row, &c.B.Col, [2]sym.Expr{c.K, c.N}, shape, "panel", names)
}

// overDims reports whether an expression mentions no loop variable.
func (s *scheduler) overDims(k *loop.Kernel, e sym.Expr) bool {
	inside := bound(k.Body)
	return !slices.ContainsFunc(e.Vars(), func(name sym.Name) bool { return slices.Contains(inside, name) })
}

// panelSize returns the size of the tile along an axis of a local.
func (s *scheduler) panelSize(k *loop.Kernel, l *loop.Local, axis int, use axisUse, body []loop.Stmt,
	packs []*Pack) int64 {
	var sum *loop.Contract // the contraction with the longest sums
	depth := 0.0
	for _, a := range loop.Accesses(body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Buffer != l.Name {
			continue
		}
		d := max(s.guess(c.K), 1)
		for _, f := range a.Loops {
			if f.Kind == loop.Serial {
				d *= max(s.guess(f.Extent), 1)
			}
		}
		if sum == nil || d > depth {
			sum, depth = c, d
		}
	}
	switch {
	case use.cols:
		for _, p := range packs {
			if width := p.widthFor(k, sum.B.Buffer); width > 0 {
				return width
			}
		}
		return s.panelWidth(k, sum, l.DType)
	case !use.rows:
		return 1
	}
	rows := s.machine.Tile.Rows
	size := int64(float64(s.machine.Limits.L2/2) / (depth * float64(l.DType.Bits()/8)))
	size = s.halved(s.choice(k).rows(min(max(size, leastRows), mostRows)))
	n, ok := l.Shape[axis].Const()
	if !ok || n <= 0 {
		return size
	}
	if columns, fixed := sum.N.Const(); fixed {
		// Enough tiles for several workers, if each has work for some microseconds.
		width := s.panelWidth(k, sum, l.DType)
		panels := max(1, (columns+width-1)/width)
		tiles := min(manyTiles, s.enough(), int64(float64(n*columns)*depth/leastWork))
		few := int64(fewRows)
		if width*int64(l.DType.Bits())/32*3 > s.machine.Tile.Columns*4 {
			few = fewWide
		}
		if pieces := (tiles + panels - 1) / panels; pieces > 1 {
			size = min(size, max(few, (n+pieces-1)/pieces))
		}
	}
	// Even tiles, if they need not be much smaller; else all but the last are multiples of the register tile.
	for even := size; even > size*2/3; even-- {
		if n%even == 0 {
			return even
		}
	}
	pieces := (n + size - 1) / size
	even := (n + pieces - 1) / pieces
	return (even + rows - 1) / rows * rows
}

// enough returns the number of tiles of a kernel with which all workers have about the same work.
func (s *scheduler) enough() int64 {
	if s.machine.Threads < 2 {
		return 1
	}
	return tilesEach * int64(s.machine.Threads)
}

// panelWidth returns the number of columns of a contraction's panels: the register tile's, or more vectors if there are
// few rows, so that enough sums are always in flight.
func (s *scheduler) panelWidth(k *loop.Kernel, c *loop.Contract, dt dtype.DType) int64 {
	lanes := int64(s.machine.VectorBytes) * 8 / int64(dt.Bits())
	usual := max(s.machine.Tile.Columns*4/int64(s.machine.VectorBytes), 1)
	vectors := usual
	if _, m := s.dims.Bounds(c.M); m <= 3 && dt.IsFloat() && s.machine.Halves() {
		vectors = widestTile / 2 // as many of half the length
	} else if m < s.machine.Tile.Rows {
		for vectors = widestTile; vectors > usual && !s.machine.Limits.HoldSums(max(m, 1), vectors); vectors-- {
		}
	}
	n, fixed := c.N.Const()
	all := (n + lanes - 1) / lanes
	if chosen := s.choice(k).Vectors; chosen > 0 {
		vectors = chosen
	} else if depth, known := c.K.Const(); known && depth <= shortSum && s.inSquares(k, c) {
		vectors = squareVectors
	} else if most := s.mostVectors(c, lanes); vectors == 3 && (most == 4 ||
		fixed && all%3 != 0 && all%4 == 0 && !s.onceInThree(c, all)) {
		// Nearly as fast, and no panel has padding: tiles of 6 × 4 vectors instead of 8 × 3. Columns that were cut to four
		// vectors stay in one panel.
		vectors = 4
	}
	if usual == 2 && vectors == 2 && !s.inSquares(k, c) {
		vectors = s.wider(k, c, lanes)
	}
	if fixed && n > 0 {
		vectors = min(vectors, all)
	}
	for vectors > 1 && !s.machine.Limits.HoldSums(1, vectors) {
		vectors--
	}
	return vectors * lanes
}

// paddedVectors is the number of vectors of columns from which on a vector or two of padding cost less than reading
// each panel for two tiles of rows.
const paddedVectors = 16

// onceInThree reports whether all rows fit one tile of three vectors, so that panels are read once, and the columns are
// so many that the padding of the last panel does not matter.
func (s *scheduler) onceInThree(c *loop.Contract, vectors int64) bool {
	_, rows := s.dims.Bounds(c.M)
	return rows > 0 && s.machine.Limits.HoldSums(rows, 3) && vectors >= paddedVectors
}

// mostVectors returns the largest number of vectors of a contraction's columns; 0 if there is no bound.
func (s *scheduler) mostVectors(c *loop.Contract, lanes int64) int64 {
	_, columns := s.dims.Bounds(c.N)
	if columns < 0 || columns > math.MaxInt64-lanes {
		return 0
	}
	return (columns + lanes - 1) / lanes
}

// wider returns the number of vectors of a panel instead of two: four or three, if such panels are full, or nearly, and
// there are rows for several of the lower tiles that belong to them. Such a tile reads fewer elements of rows per
// product, and touches the cache lines of fewer rows: 6 × 4 or 8 × 3 sums take a tenth less time than 14 × 2. Columns
// that fit one panel, such as those already cut to one, are not divided.
func (s *scheduler) wider(k *loop.Kernel, c *loop.Contract, lanes int64) int64 {
	_, rows := s.dims.Bounds(c.M)
	_, columns := s.dims.Bounds(c.N)
	single := columns <= 4*lanes // one panel has all columns
	all := (columns + lanes - 1) / lanes
	if _, fixed := c.N.Const(); !single && !fixed || all <= 2 {
		return 2
	}
	near := float64(s.machine.Limits.L2 / 2)
	line := s.steps(k, c) * float64(lanes*int64(bufferOf(k, c.B.Buffer).DType.Bits())/8)
	for _, tile := range []struct {
		rows, vectors int64
		more          int64   // for more rows than these
		near          float64 // the most bytes of a panel, which is read once per tile
		window        bool    // also for sums inside serial loops
		ragged        bool    // panels may be nearly full
	}{
		{6, 4, 24, near / 4, true, false},
		{8, 3, 32, near, true, false},
		{6, 4, 96, near / 2, false, false},
		{8, 3, 32, near, false, true},
		{8, 3, 127, math.Inf(1), false, true},
	} {
		room := (all + tile.vectors - 1) / tile.vectors * tile.vectors
		fits := room == all || tile.ragged && (room-(all+1)/2*2)*mostEmpty <= all
		fits = fits && line*float64(tile.vectors) <= tile.near && (single || rows > tile.more)
		if !tile.window {
			fits = fits && s.steps(k, c) == max(s.guess(c.K), 1)
		}
		if fits && s.machine.Limits.HoldSums(tile.rows, tile.vectors) {
			return tile.vectors
		}
	}
	return 2
}

// mostEmpty: at most one in this many columns is added as padding to make panels wider.
const mostEmpty = 16

// steps returns the number of products of each sum of a contraction, with those of the serial loops around it. Loops
// around the local of the sums, such as that over the steps of a recurrence, begin new sums each time.
func (s *scheduler) steps(k *loop.Kernel, c *loop.Contract) float64 {
	steps := max(s.guess(c.K), 1)
	for _, a := range loop.Accesses(k.Body) {
		if a.Stmt != loop.Stmt(c) || a.Tile != &c.C {
			continue
		}
		for _, f := range a.Loops {
			if f.Kind == loop.Serial && !slices.Contains(declared(f.Body), c.C.Buffer) {
				steps *= max(s.trips(k, f), 1)
			}
		}
	}
	return steps
}

// squareVectors is the number of vectors of a panel of a short sum in tile registers, two of which are computed at
// once: their configuration takes as long as the products of a short sum, and is shared among the columns. For longer
// sums, a panel is two vectors, which are read from memory in order.
const squareVectors = 4

// shortSum is the largest number of steps of a short sum.
const shortSum = 512

// inSquares reports whether a contraction is meant for the machine's tile registers.
func (s *scheduler) inSquares(k *loop.Kernel, c *loop.Contract) bool {
	feature := map[bool]string{true: "amxint8", false: "amxbf16"}
	for _, t := range []loop.Tile{c.A, c.B} {
		dt := bufferOf(k, t.Buffer).DType
		if s.atOnce(dt) <= 1 || !s.machine.Has(feature[dt.IsInt()]) {
			return false
		}
	}
	return true
}

// columnsInLanes turns the loops over the columns of locals into which contractions add into vector loops, innermost in
// their nests.
func (s *scheduler) columnsInLanes(k *loop.Kernel) {
	columns := map[string]int{} // the axis of each local that contractions call columns
	for _, a := range loop.Accesses(k.Body) {
		c, ok := a.Stmt.(*loop.Contract)
		if !ok || a.Tile != &c.C {
			continue
		}
		for axis, step := range c.C.Col {
			if isOne(step) {
				columns[c.C.Buffer] = axis
			}
		}
	}
	c := s.coster(k)
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		f, ok := stmt.(*loop.For)
		if !ok || f.Kind != loop.Each {
			return []loop.Stmt{stmt}
		}
		for _, a := range loop.Accesses([]loop.Stmt{f}) {
			axis, sums := columns[a.Buffer]
			if !sums || a.Tile != nil {
				continue
			}
			v := chained(f, a.Index[axis])
			if v == nil || !c.canBeVector(v) {
				return []loop.Stmt{stmt}
			}
			return []loop.Stmt{moveInside(f, v)}
		}
		return []loop.Stmt{stmt}
	}}
	k.Body = r.Body(k.Body)
}

// chained returns the loop whose variable is index among the each-loops from f inward, each directly inside another;
// nil if there is none.
func chained(f *loop.For, index sym.Expr) *loop.For {
	for f.Kind == loop.Each {
		if isVar(index, f.Var) {
			return f
		}
		inner, ok := loop.Only(f.Body)
		if !ok {
			break
		}
		f = inner
	}
	return nil
}
