package schedule

import (
	"slices"

	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// The target time of a tile, and the least time of a kernel that is cut, in estimated nanoseconds. An element's
// operations, and their order, do not depend on tiles, and so not on the number of threads.
const (
	tileTime        = 25_000
	largeTile       = 150_000 // loops with longer iterations are cut further inside
	leastKernelTime = 25_000

	// The same for several workers, if a kernel has no products, whose estimates are far too long.
	leastTileTime   = 3_000
	leastSharedTime = 6_000
	namedTileTime   = 8_000 // of a kernel whose extents only a run knows
)

// chooseTiles makes the outermost each-loops of a kernel parallel, as many of them as give tiles that pay for a call,
// and cuts the last of them, or a single vector loop, into blocks of iterations.
func chooseTiles(s *scheduler, k *loop.Kernel) bool {
	if !s.separate(k) {
		return false
	}
	c := s.coster(k)
	c.wanted = s.enough()
	shared := s.machine.Threads > 1 && !contracts(k)
	switch {
	case known(k):
		total, least := c.of(k.Body), float64(leastKernelTime)
		if shared {
			least = leastSharedTime
			c.tile = min(max(total/float64(c.wanted), leastTileTime), tileTime)
		}
		if total < least {
			return false
		}
	case shared:
		c.tile = namedTileTime
	}
	names := s.newNamer(k)
	for i, stmt := range k.Body {
		k.Body[i] = c.tiles(stmt.(*loop.For), 1, names)
	}
	return true
}

// known reports whether all extents are constants, so that the estimate is exact for the kernel.
func known(k *loop.Kernel) bool {
	constant := true
	loop.Walk(k.Body, func(s loop.Stmt) bool {
		if f, ok := s.(*loop.For); ok {
			_, is := f.Extent.Const()
			constant = constant && (is || len(f.Extent.Vars()) > 0 && onlyLoops(k, f.Extent))
		}
		return constant
	})
	return constant
}

// onlyLoops reports whether an expression contains no dimension.
func onlyLoops(k *loop.Kernel, e sym.Expr) bool {
	for _, name := range e.Vars() {
		for _, d := range k.Dims {
			if name == d {
				return false
			}
		}
	}
	return true
}

// tiles returns a nest with its outermost loops parallel: as many as are long, or as are needed for the wanted number
// of tiles whatever the dimensions are. sure is the least number of tiles that the loops around the nest give.
func (c *coster) tiles(f *loop.For, sure int64, names *namer) *loop.For {
	if f.Kind == loop.Vector {
		return c.block(f, names)
	}
	inner, ok := loop.Only(f.Body)
	cost, large := c.of(f.Body), c.large
	if sure < c.wanted {
		least, _ := c.dims.Bounds(f.Extent)
		sure *= min(max(least, 1), c.wanted)
	}
	if sure < c.wanted {
		large = min(large, 2*c.tile)
	}
	deeper := ok && (inner.Kind == loop.Each || inner.Kind == loop.Vector && c.lengthy(inner, large)) &&
		!mentions(inner.Extent, f.Var)
	if deeper && (cost > large || isOne(f.Extent)) {
		return &loop.For{Kind: loop.Parallel, Var: f.Var, Extent: f.Extent, Body: []loop.Stmt{c.tiles(inner, sure, names)}}
	}
	if sure < c.wanted {
		if inside := unbounded(f); inside != nil {
			return c.twice(f, inside, names)
		}
	}
	if cost*2 > c.tile {
		return &loop.For{Kind: loop.Parallel, Var: f.Var, Extent: f.Extent, Body: f.Body}
	}
	return c.block(f, names)
}

// unbounded returns the first loop around the only statement of an each-loop's body whose extent a run decides, such
// that it can be cut into tiles as well; nil if there is none.
func unbounded(f *loop.For) *loop.For {
	vars := []sym.Name{f.Var}
	for inner, only := loop.Only(f.Body); only && (inner.Kind == loop.Each || inner.Kind == loop.Vector); {
		if slices.ContainsFunc(vars, func(v sym.Name) bool { return mentions(inner.Extent, v) }) {
			return nil
		}
		if _, fixed := inner.Extent.Const(); !fixed {
			if inner.Kind == loop.Vector && reducesOut(inner) {
				return nil
			}
			return inner
		}
		vars = append(vars, inner.Var)
		inner, only = loop.Only(inner.Body)
	}
	return nil
}

// twice cuts a loop and a loop inside it into blocks. If iterations are short, a tile has several of the outer loop; if
// they are long, as only a run decides, a part of one.
func (c *coster) twice(f, inside *loop.For, names *namer) *loop.For {
	work := 1.0 // iterations of the loops between
	for l, _ := loop.Only(f.Body); l != inside; l, _ = loop.Only(l.Body) {
		work *= c.guess(l.Extent)
	}
	size := c.blockSize(inside, work)
	outer := c.block(f, names)
	rows := outer.Body[0].(*loop.For)
	// The loop's copy in the block.
	inner, _ := loop.Only(rows.Body)
	for inner.Var != inside.Var {
		inner, _ = loop.Only(inner.Body)
	}
	cut := c.cutInto(inner, size, names)
	*inner = *cut.Body[0].(*loop.For)
	outer.Body = []loop.Stmt{&loop.For{Kind: loop.Parallel, Var: cut.Var, Extent: cut.Extent, Body: []loop.Stmt{rows}}}
	return outer
}

// lengthy reports whether a vector loop takes longer than a time.
func (c *coster) lengthy(f *loop.For, than float64) bool {
	return c.guess(f.Extent)*c.as(f).of(f.Body) > than
}

// block cuts a loop into parallel blocks of iterations, each of a tile's time.
func (c *coster) block(f *loop.For, names *namer) *loop.For {
	size := c.blockSize(f, 1)
	if c.dims.LE(f.Extent, size) == sym.Yes {
		return &loop.For{Kind: loop.Parallel, Var: names.bound("t"), Extent: one, Body: []loop.Stmt{f}}
	}
	outer := c.cutInto(f, size, names)
	outer.Kind = loop.Parallel
	return outer
}

// blockSize returns the number of iterations of a loop in a tile, if the tile runs through them so many times. It is a
// constant if the work of an iteration is; otherwise it depends on the dimensions on which the work depends.
func (c *coster) blockSize(f *loop.For, times float64) sym.Expr {
	inner := times * c.of(f.Body)
	multiple := int64(1)
	if f.Kind == loop.Vector {
		inner = times * c.as(f).of(f.Body)
		multiple = c.strips(inner)
	}
	work, each := volume(f.Body), inner
	if slices.ContainsFunc(work.Vars(), func(name sym.Name) bool { return !slices.Contains(c.kernel.Dims, name) }) {
		work = one // it varies from tile to tile
	}
	if v := c.guess(work); v > 1 {
		each = inner / v
	}
	count := max(int64(c.tile/max(each, 0.01)), 1)
	size := sym.Const((count + multiple - 1) / multiple * multiple)
	if _, ok := work.Const(); ok {
		count = max(int64(c.tile/max(inner, 0.01)), 1)
		size = sym.Const((count + multiple - 1) / multiple * multiple)
	} else {
		size = size.FloorDiv(work.Max(one).Mul(sym.Const(multiple))).Max(one).Mul(sym.Const(multiple))
	}
	n, fixed := f.Extent.Const()
	if b, ok := size.Const(); ok && fixed && b < n { // even blocks
		blocks := (n + b - 1) / b
		even := (n + blocks - 1) / blocks
		size = sym.Const((even + multiple - 1) / multiple * multiple)
	}
	return size
}

// strips returns a divisor of the block size of a vector loop: many strips, or one if iterations are so long that many
// would exceed a tile.
func (c *coster) strips(each float64) int64 {
	const many = 256
	if each*many > c.tile {
		return min(int64(c.lanes), many)
	}
	return many
}

// split cuts a loop into blocks of size iterations: an each-loop around a loop of f's kind.
func (c *coster) split(f *loop.For, size int64, names *namer) *loop.For {
	return c.cutInto(f, sym.Const(size), names)
}

// cutInto is split with a symbolic size.
func (c *coster) cutInto(f *loop.For, size sym.Expr, names *namer) *loop.For {
	t := names.bound("t")
	begin := sym.Var(t).Mul(size)
	i := names.bound(f.Var.Text())
	length := size.Min(f.Extent.Sub(begin))
	if c.dims.EQ(f.Extent.Mod(size), zero) == sym.Yes {
		length = size
	}
	body := loop.Substitute(f.Body, map[sym.Name]sym.Expr{f.Var: begin.Add(sym.Var(i))})
	return &loop.For{Kind: loop.Each, Var: t, Extent: f.Extent.CeilDiv(size), Body: []loop.Stmt{
		&loop.For{Kind: f.Kind, Var: i, Extent: length, Body: body}}}
}

// volume returns the product of the extents of the inner loops that depend on dimensions, for the nest with the
// largest: the work of the body is proportional to it.
func volume(body []loop.Stmt) sym.Expr {
	result := one
	for _, s := range body {
		for _, inner := range loop.Bodies(s) {
			v := volume(*inner)
			if f, ok := s.(*loop.For); ok {
				if _, fixed := f.Extent.Const(); !fixed {
					v = v.Mul(f.Extent.Max(zero))
				}
			}
			if len(v.Vars()) >= len(result.Vars()) {
				result = v
			}
		}
	}
	return result
}

// separate reports whether the kernel consists of loops with independent iterations that are independent of each other:
// no nest touches a buffer that another stores to, unless their index ranges are disjoint along some axis.
func (s *scheduler) separate(k *loop.Kernel) bool {
	for _, stmt := range k.Body {
		f, ok := stmt.(*loop.For)
		if !ok || f.Kind != loop.Each && f.Kind != loop.Vector {
			return false
		}
		if f.Kind == loop.Vector && reducesOut(f) {
			return false
		}
	}
	for i := range k.Body {
		for j := range i {
			if !s.independent(k.Body[j:j+1], k.Body[i:i+1]) {
				return false
			}
		}
	}
	return len(k.Body) > 0
}

// reducesOut reports whether a loop reduces into variables outside it.
func reducesOut(f *loop.For) bool {
	inside := map[string]bool{}
	for _, name := range declared(f.Body) {
		inside[name] = true
	}
	out := false
	loop.Walk(f.Body, func(s loop.Stmt) bool {
		if r, ok := s.(*loop.Reduce); ok && !inside[r.Name] {
			out = true
		}
		return true
	})
	return out
}

// independent reports whether two nests may run in any order.
func (s *scheduler) independent(first, second []loop.Stmt) bool {
	for _, a := range loop.Accesses(first) {
		for _, b := range loop.Accesses(second) {
			if a.Buffer != b.Buffer || !a.Write && !b.Write {
				continue
			}
			if a.Tile != nil || b.Tile != nil || !s.disjoint(a, b) {
				return false
			}
		}
	}
	return true
}

// disjoint reports whether two accesses never meet: along some axis one ends before the other begins.
func (s *scheduler) disjoint(a, b loop.Touches) bool {
	for axis := range a.Index {
		lowA, highA, okA := s.indexRange(a.Index[axis], a.Loops)
		lowB, highB, okB := s.indexRange(b.Index[axis], b.Loops)
		if okA && okB && (s.dims.LT(highA, lowB) == sym.Yes || s.dims.LT(highB, lowA) == sym.Yes) {
			return true
		}
	}
	return false
}

// indexRange returns the least and the greatest value of an index over its loops; ok is false unless it grows with each
// loop variable.
func (s *scheduler) indexRange(e sym.Expr, loops []*loop.For) (low, high sym.Expr, ok bool) {
	low, high = e, e
	for i := len(loops) - 1; i >= 0; i-- {
		f := loops[i]
		if !mentions(low, f.Var) && !mentions(high, f.Var) {
			continue
		}
		factor, _, linear := e.Linear(f.Var)
		if n, fixed := factor.Const(); !linear || !fixed || n < 0 {
			return low, high, false
		}
		set := func(e, v sym.Expr) sym.Expr {
			return e.Subst(func(name sym.Name) (sym.Expr, bool) { return v, name == f.Var })
		}
		low, high = set(low, zero), set(high, f.Extent.Sub(one))
	}
	return low, high, true
}
