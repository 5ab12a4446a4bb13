package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// A long sum whose left operand is stored transposed, such as a weight's gradient, is computed in blocks of steps. A
// register tile reads a few elements of each step, each from another cache line, often from another page and in the
// same few sets of the caches: a line is evicted before the next tile reads it again. A block has so few steps that the
// first-level cache holds a panel of them and the lines of the rows. Blocks also serve a sum that is so long that
// neither a panel of it nor a tile of rows stays in the second-level cache, if the right operand is no packed weight.
//
//	local acc [rows, columns]
//	each i { vector j { acc[i, j] = … } }
//	for block of steps {
//	  each panel { contract }
//	}
//	each i { vector j { … acc[i, j] … } }
//
// Between blocks, the sums stay in the second-level cache. Each sum adds its products one by one in the order of its
// steps, so that results do not depend on blocks.
const (
	blockRows    = 256  // the largest number of rows of a tile of sums
	blockFew     = 96   // the least number of rows of a tile that is made smaller so that there are several
	blockColumns = 256  // approximate number of columns of a tile: more if that makes panels even
	blockTiles   = 8    // the number of tiles of a product that keeps several workers busy
	blockSteps   = 512  // the least number of steps of a sum for which blocks pay: each costs a pass over the sums
	longSteps    = 2048 // the same, if the left operand's steps are contiguous
	pageBytes    = 4096
)

// blocks returns a local, and the nests and the contraction that touch it, cut into tiles whose sums are computed in
// blocks of steps; nil if that is impossible or does not pay.
func (s *scheduler) blocks(k *loop.Kernel, l *loop.Local, body []loop.Stmt, packs []*Pack, names *namer) []loop.Stmt {
	c := s.longSum(k, l, body, packs)
	if c == nil {
		return nil
	}
	// The width of panels depends on the number of steps of a block.
	steps := s.stepsOfBlock(bufferOf(k, c.A.Buffer), c)
	short := *c
	short.K = sym.Const(steps)
	width := s.panelWidth(k, &short, l.DType)
	result := append([]loop.Stmt{l}, body...)
	sizes := func(l *loop.Local, axis int, use axisUse) int64 { return s.blockSize(l, axis, use, c, width) }
	cut := s.cut(l, body, names, sizes)
	if cut != nil {
		result = []loop.Stmt{cut}
	}
	found := false
	r := &loop.Rewrite{Stmt: func(stmt loop.Stmt) []loop.Stmt {
		if c, ok := stmt.(*loop.Contract); ok && c.C.Buffer == l.Name {
			found = true
			return []loop.Stmt{s.byBlocks(k, c, steps, width, names)}
		}
		return []loop.Stmt{stmt}
	}}
	if result = r.Body(result); !found {
		return nil
	}
	return result
}

// longSum returns the only contraction of a body, if blocks of steps pay for it; nil otherwise.
func (s *scheduler) longSum(k *loop.Kernel, l *loop.Local, body []loop.Stmt, packs []*Pack) (c *loop.Contract) {
	for _, stmt := range body {
		if found, ok := stmt.(*loop.Contract); ok && c == nil {
			c = found
		} else if ok {
			return nil
		}
	}
	if c == nil || l.Space != loop.Own || l.DType != dtype.F32 && l.DType != dtype.F64 || !s.overDims(k, c.K) {
		return nil
	}
	depth := s.guess(c.K)
	if _, fixed := c.K.Const(); !fixed && s.most(c.K) >= blockSteps {
		depth = max(depth, blockSteps) // blocks cost short sums next to nothing
	}
	a, b := bufferOf(k, c.A.Buffer), bufferOf(k, c.B.Buffer)
	for _, p := range []*loop.Param{a, b} {
		if p == nil || p.Access != loop.Read || p.DType != l.DType {
			return nil
		}
	}
	step := max(s.stepBytes(c.A.Col, a), s.stepBytes(c.B.Row, b))
	transposed := isOne(loop.Offset(c.A.Row, a.Shape, a.Strides)) && depth >= blockSteps
	transposed = transposed && step >= farBytes && step*depth >= farExtent
	contiguous := isOne(loop.Offset(c.B.Col, b.Shape, b.Strides))
	long := alongRows(a, c) && depth >= longSteps && (s.far(c, c.B.Row, b) || !contiguous)
	if !transposed && !long {
		return nil
	}
	if slices.ContainsFunc(packs, func(p *Pack) bool { return p.widthFor(k, c.B.Buffer) > 0 }) {
		return nil
	}
	if s.most(c.M) < s.leastFarRows(c, b) {
		return nil
	}
	return c
}

// stepsOfBlock returns the number of steps of a block: a panel of them takes two thirds of the first-level cache, and
// leaves room for the lines of a transposed operand's rows. Rows with contiguous steps need few lines; their blocks are
// twice as long.
func (s *scheduler) stepsOfBlock(a *loop.Param, c *loop.Contract) int64 {
	const vectors = 4 // of a wide panel
	steps := s.machine.Limits.L1 * 2 / 3 / (vectors * int64(s.machine.VectorBytes))
	if alongRows(a, c) {
		steps *= 2
	}
	return max(steps/16*16, 16)
}

// alongRows reports whether the steps of a contraction are contiguous in its left operand.
func alongRows(a *loop.Param, c *loop.Contract) bool {
	return isOne(loop.Offset(c.A.Col, a.Shape, a.Strides))
}

// blockSize returns the size of the tile along an axis of a local whose sums are computed in blocks.
func (s *scheduler) blockSize(l *loop.Local, axis int, use axisUse, c *loop.Contract, width int64) int64 {
	if !use.rows && !use.cols {
		return 1
	}
	panels, groups := max(blockColumns/width, 1), int64(1)
	rows, size, pieces := int64(0), s.halved(blockRows), int64(1)
	if m, fixed := c.M.Const(); fixed && m > 0 {
		rows, pieces = m, (m+size-1)/size
	}
	if columns, fixed := c.N.Const(); fixed {
		all := (columns + width - 1) / width
		groups = max(1, (all+panels-1)/panels)
		if pieces*groups < blockTiles && rows/pieces/2 >= s.halved(blockFew) {
			pieces *= 2
		}
		for pieces*groups < blockTiles/2 && (all+groups)/(groups+1) >= 2 {
			groups++
		}
		panels = (all + groups - 1) / groups
	}
	switch {
	case use.cols:
		return panels * width
	case rows > 0:
		return (rows + pieces - 1) / pieces
	}
	return size
}

// byBlocks returns a contraction into a local as a loop over blocks of its steps, around a loop over panels. Operands
// whose steps are a page or more apart are copied first. If there is one panel, one operand is copied in any case: the
// loop over blocks would otherwise contain only the product, and the code generator would keep the sums in registers
// for all steps.
func (s *scheduler) byBlocks(k *loop.Kernel, c *loop.Contract, steps, width int64, names *namer) loop.Stmt {
	a, b := bufferOf(k, c.A.Buffer), bufferOf(k, c.B.Buffer)
	at, panel := names.bound("b"), names.bound("t")
	depth, depths := s.blockOf(c.K, steps, at)
	columns, panels := s.blockOf(c.N, width, panel)
	move := func(t *loop.Tile, steps []sym.Expr, by sym.Expr) {
		for i := range t.Origin {
			t.Origin[i] = t.Origin[i].Add(steps[i].Mul(by))
		}
	}
	first := sym.Var(at).Mul(sym.Const(steps))
	move(&c.A, c.A.Col, first)
	move(&c.B, c.B.Row, first)
	c.K = depth
	var outside, inside []loop.Stmt
	single, rows := isOne(panels), alongRows(a, c)
	if s.stepBytes(c.A.Col, a) >= pageBytes || single && !rows {
		shape := [2]sym.Expr{sym.Const(steps), sym.Const(spread(s.most(c.M), a.DType))}
		outside = nearby(a, &c.A, &c.A.Col, &c.A.Row, [2]sym.Expr{depth, c.M}, shape, "rows", names)
	}
	left := sym.Var(panel).Mul(sym.Const(width))
	move(&c.B, c.B.Col, left)
	move(&c.C, c.C.Col, left)
	c.N = columns
	if !isOne(loop.Offset(c.B.Col, b.Shape, b.Strides)) || s.stepBytes(c.B.Row, b) >= pageBytes || single && rows {
		shape := [2]sym.Expr{sym.Const(steps), sym.Const(width)}
		inside = nearby(b, &c.B, &c.B.Row, &c.B.Col, [2]sym.Expr{depth, columns}, shape, "panel", names)
	}
	walk := &loop.For{Kind: loop.Each, Var: panel, Extent: panels, Body: append(inside, c)}
	return &loop.For{Kind: loop.Serial, Var: at, Extent: depths, Body: append(outside, walk)}
}

// blockOf returns the length of the block with the number in variable, of an extent that is cut into blocks of a size,
// and the number of blocks.
func (s *scheduler) blockOf(extent sym.Expr, size int64, variable sym.Name) (length, count sym.Expr) {
	length = sym.Const(size)
	count = extent.CeilDiv(length)
	if s.dims.EQ(extent.Mod(length), zero) != sym.Yes {
		length = length.Min(extent.Sub(sym.Var(variable).Mul(length)))
	}
	return length, count
}

// most returns the upper bound of an extent.
func (s *scheduler) most(extent sym.Expr) int64 {
	_, most := s.dims.Bounds(extent)
	return most
}

// stepBytes estimates the distance in bytes between two consecutive steps in a parameter.
func (s *scheduler) stepBytes(step []sym.Expr, p *loop.Param) float64 {
	return s.guess(loop.Offset(step, p.Shape, p.Strides)) * float64(p.DType.Bits()) / 8
}

// spread returns the number of elements to allocate for a line: one cache line more if lines would otherwise share few
// sets of the caches.
func spread(elements int64, dt dtype.DType) int64 {
	const line, few = 64, 512
	size := int64(dt.Bits()) / 8
	if elements*size%few == 0 {
		elements += line / size
	}
	return elements
}

// nearby returns a local of a shape for a copy of a tile, and the nest that fills it, and changes the tile to read the
// local. extents are the tile's number of steps, and of elements of each step; step and element are its Row and Col, in
// either order. In the local, the elements of each step are contiguous.
func nearby(
	p *loop.Param, tile *loop.Tile, step, element *[]sym.Expr, extents, shape [2]sym.Expr, hint string, names *namer,
) []loop.Stmt {
	local := &loop.Local{Name: names.name(hint), DType: p.DType, Shape: shape[:]}
	d, n := names.bound("d"), names.bound("n")
	at := make([]sym.Expr, len(tile.Origin))
	for i, e := range tile.Origin {
		at[i] = e.Add((*step)[i].Mul(sym.Var(d))).Add((*element)[i].Mul(sym.Var(n)))
	}
	outer := &loop.For{Kind: loop.Each, Var: n, Extent: extents[1]}
	inner := &loop.For{Kind: loop.Each, Var: d, Extent: extents[0]}
	if isOne(loop.Offset(*element, p.Shape, p.Strides)) {
		outer, inner = inner, outer
		inner.Kind = loop.Vector
	}
	x := &loop.Load{From: p.Name, Index: at, Type: p.DType}
	inner.Body = []loop.Stmt{&loop.Store{To: local.Name, Index: []sym.Expr{sym.Var(d), sym.Var(n)}, X: x}}
	outer.Body = []loop.Stmt{inner}
	tile.Buffer, tile.Origin = local.Name, []sym.Expr{zero, zero}
	*step, *element = []sym.Expr{one, zero}, []sym.Expr{zero, one}
	return []loop.Stmt{local, outer}
}
