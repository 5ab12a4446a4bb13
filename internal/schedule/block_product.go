package schedule

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// A sum of products, for machines that run blocks of threads: of a matrix product, a convolution of any kind, or
// attention's scores. The kernel has a sum for each iteration of its outer loops:
//
//	each i … { let …; var s = begin; serial k … { s += A × B }; …; store … }
//
// An outer loop's variable that only A mentions numbers rows, and one that only B mentions numbers columns; for each
// value of the others there is a separate product. A block computes a tile of rows × columns. In each step it copies a
// few steps' elements of A and of B, computed with conversions and masks, to shared memory, and each thread sums the
// products of its own rows and columns in registers. The statements after the sum are computed there.
//
// If the number of steps is known, there may be two pairs of tiles in shared memory (see hasPairs): one is filled while
// the other is multiplied, with one barrier for a tile of steps and not two, so that products hide the memory's
// latency.
//
// If the machine has cooperative matrices for the elements of both operands, a tile may be one of those: see
// block_matrices.go.
//
// All extents except the tile's may be dynamic. Elements beyond the rows and columns repeat the last ones, and are not
// stored; those beyond the steps are 0.

// productTile is the sizes of a block's tile: rows, columns and steps, and the rows and columns of one thread.
type productTile struct {
	rows, columns, steps, ownRows, ownColumns int64
	together                                  int64 // the threads of a block that multiplies matrices; else 0
}

// shares returns the number of parts of a tile's sums, each of ownRows × ownColumns.
func (t productTile) shares() int64 { return t.rows / t.ownRows * (t.columns / t.ownColumns) }

// threads returns the number of threads of a block.
func (t productTile) threads() int64 {
	if t.together > 0 {
		return t.together
	}
	return t.shares()
}

// productTiles are the candidates, tried in order of their cost.
var productTiles = []productTile{
	{128, 128, 8, 8, 8, 0}, {128, 64, 16, 8, 8, 0}, {64, 128, 16, 8, 8, 0}, {64, 64, 16, 8, 8, 0}, {64, 64, 16, 4, 4, 0},
	{128, 32, 16, 8, 4, 0}, {32, 128, 16, 4, 8, 0}, {64, 32, 16, 4, 4, 0}, {32, 64, 16, 4, 4, 0}, {32, 32, 16, 4, 4, 0},
	{128, 16, 16, 8, 2, 0}, {16, 128, 16, 2, 8, 0}, {64, 16, 16, 4, 2, 0}, {16, 64, 16, 2, 4, 0}, {16, 16, 16, 2, 2, 0},
	{64, 8, 16, 4, 1, 0}, {8, 64, 16, 1, 4, 0}, {16, 16, 8, 2, 2, 0}, {8, 8, 8, 1, 1, 0}, {8, 8, 4, 1, 1, 0},
	{4, 4, 4, 1, 1, 0}, {4, 4, 1, 1, 1, 0}, {2, 2, 1, 1, 1, 0},
}

// product holds the components of a kernel with a sum of products.
type product struct {
	loops         []*loop.For // around the sum
	before, after []loop.Stmt
	begin         *loop.Var // of the sum
	steps         []*loop.For
	lets          []loop.Stmt // in the innermost of steps
	a, b          loop.Expr
	batch         []*loop.For
	rows, columns []*loop.For
	sum           dtype.DType
	storedRows    bool // neighbouring rows are stored contiguously
}

// blockProduct rewrites a kernel of a sum of products for blocks of threads; nil for other kernels, or if no tile fits.
func (s *scheduler) blockProduct(k *loop.Kernel) *loop.Kernel {
	p := matchProduct(k)
	if p == nil || len(p.rows) == 0 || len(p.columns) == 0 {
		return nil
	}
	tiles := slices.DeleteFunc(append(s.matrixTiles(p), productTiles...), func(t productTile) bool {
		return t.threads() > s.machine.Limits.Invocations
	})
	return s.cheapest(k, tiles, func(t productTile) float64 { return s.productCost(p, t) },
		func(t productTile) []loop.Stmt {
			if s.hasPairs(p, t) {
				if pairs := s.productBody(k, p, t, 2); s.ifFits(k, pairs) != nil {
					return pairs
				}
			}
			return s.productBody(k, p, t, 1)
		})
}

// The least number of tiles of steps for which two pairs of tiles pay, and of blocks with two pairs whose shared memory
// the machine has: with fewer, too few threads would be resident.
const leastPairs, pairedBlocks = 4, 3

// hasPairs reports whether two pairs of tiles pay: not where memory that is read again is as fast as shared memory.
func (s *scheduler) hasPairs(p *product, t productTile) bool {
	if t.together > 0 {
		return s.hasMatrixPairs(p, t)
	}
	tiles, fixed := asOneLoop(p.steps).size.CeilDiv(sym.Const(t.steps)).Const()
	bytes := t.steps * (t.rows + t.columns) * int64(s.machine.SharedBits(p.sum.Bits())/8)
	return fixed && tiles >= leastPairs && !s.machine.Has(target.CachedReads) &&
		2*bytes*pairedBlocks <= s.machine.Limits.Shared
}

// productBody returns the body of a product's kernel with a tile, of which a block has a number of pairs at once.
func (s *scheduler) productBody(k *loop.Kernel, p *product, t productTile, pairs int) []loop.Stmt {
	w := s.newProductWriter(k, p, t)
	w.pairs = pairs
	if splits := s.splitsOf(p, t); splits > 1 {
		return (&splitWriter{productWriter: w, splits: splits}).kernel()
	}
	return w.blocks(w.block)
}

// mostRefused is the number of fitting tiles that are tried at most if the generator refuses them.
const mostRefused = 4

// cheapest returns the kernel with the tile of least cost among those that fit; nil if none does.
func (s *scheduler) cheapest(k *loop.Kernel, tiles []productTile, cost func(t productTile) float64,
	write func(t productTile) []loop.Stmt) *loop.Kernel {
	type candidate struct {
		tile productTile
		cost float64
	}
	list := make([]candidate, len(tiles))
	for i, t := range tiles {
		list[i] = candidate{t, cost(t)}
	}
	slices.SortStableFunc(list, func(a, b candidate) int { return cmp.Compare(a.cost, b.cost) })
	refused := 0
	for _, c := range list {
		next := s.ifFits(k, write(c.tile))
		if next == nil {
			continue
		}
		if !s.refuses(next) {
			return next
		}
		if refused++; refused == mostRefused {
			break
		}
	}
	return nil
}

// matchProduct returns the components of a kernel; nil if it is no sum of products.
func matchProduct(k *loop.Kernel) *product {
	p := &product{}
	loops, body := outerLoops(k.Body)
	p.loops = loops
	at := slices.IndexFunc(body, func(s loop.Stmt) bool { _, is := s.(*loop.For); return is })
	if at < 1 || len(p.loops) == 0 {
		return nil
	}
	p.before, p.after = body[:at], body[at+1:]
	inner := body[at : at+1]
	for {
		f, ok := loop.Only(inner)
		if !ok || f.Kind != loop.Serial || !freeOf(f.Extent, append(slices.Clone(p.loops), p.steps...)) {
			break
		}
		p.steps, inner = append(p.steps, f), f.Body
	}
	if len(p.steps) == 0 || len(inner) == 0 || !p.matchSum(inner) || !p.matchAround() {
		return nil
	}
	p.sort()
	return p
}

// freeOf reports whether an integer depends on none of the loops.
func freeOf(e sym.Expr, loops []*loop.For) bool {
	return !slices.ContainsFunc(loops, func(f *loop.For) bool { return mentions(e, f.Var) })
}

// matchSum finds the product that the innermost loop adds.
func (p *product) matchSum(inner []loop.Stmt) bool {
	last := len(inner) - 1
	add, ok := inner[last].(*loop.Reduce)
	if !ok || add.Op != loop.Add {
		return false
	}
	for _, s := range inner[:last] {
		if _, ok := s.(*loop.Let); !ok {
			return false
		}
	}
	p.lets = inner[:last]
	times, ok := add.X.(*loop.Binary)
	if !ok || times.Op != loop.Mul {
		return false
	}
	p.a, p.b, p.sum = times.X, times.Y, times.DType()
	for _, s := range p.before {
		if v, is := s.(*loop.Var); is && v.Name == add.Name {
			p.begin = v
		}
	}
	return p.begin != nil && (p.sum == dtype.F32 || p.sum == dtype.F64 || p.sum == dtype.I32 || p.sum == dtype.I64 ||
		p.sum == dtype.U32 || p.sum == dtype.U64)
}

// matchAround checks the statements before and after the sum: named values, and stores. The product mentions no named
// values but its own.
func (p *product) matchAround() bool {
	for _, s := range p.before {
		switch s.(type) {
		case *loop.Let, *loop.Var:
		default:
			return false
		}
	}
	stores := false
	simple := true
	loop.Walk(p.after, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Store:
			stores = true
		case *loop.For, *loop.Local, *loop.Contract, *loop.Check:
			simple = false
		case *loop.Set:
			simple = simple && s.Name != p.begin.Name
		case *loop.Reduce:
			simple = simple && s.Name != p.begin.Name
		}
		return true
	})
	return simple && stores && p.closed()
}

// closed reports whether the operands mention no named values but their own.
func (p *product) closed() bool {
	own := map[string]bool{}
	for _, s := range p.lets {
		own[s.(*loop.Let).Name] = true
	}
	ok := true
	visit := func(e loop.Expr) {
		if r, is := e.(*loop.Ref); is && !own[r.Name] {
			ok = false
		}
	}
	loop.WalkExpr(p.a, visit)
	loop.WalkExpr(p.b, visit)
	loop.WalkValues(p.lets, visit)
	return ok
}

// sort classifies the loops as rows, columns or batch.
func (p *product) sort() {
	inA, inB := p.mentioned(p.a), p.mentioned(p.b)
	for _, f := range p.loops {
		switch a, b := inA[f.Var], inB[f.Var]; {
		case isOne(f.Extent): // and what is stored need not mention it
			p.batch = append(p.batch, f)
		case a && !b:
			p.rows = append(p.rows, f)
		case b && !a:
			p.columns = append(p.columns, f)
		default:
			p.batch = append(p.batch, f)
		}
	}
	last := p.loops[len(p.loops)-1]
	p.storedRows = slices.Contains(p.rows, last)
}

// mentioned returns the integers that an expression mentions, directly or through named values.
func (p *product) mentioned(e loop.Expr) map[sym.Name]bool {
	seen := map[sym.Name]bool{}
	var visit func(e loop.Expr)
	visit = func(e loop.Expr) {
		for _, i := range loop.IntegersOf(e) {
			for _, name := range i.Vars() {
				seen[name] = true
			}
		}
		if r, is := e.(*loop.Ref); is {
			for _, s := range p.lets {
				if l := s.(*loop.Let); l.Name == r.Name {
					loop.WalkExpr(l.X, visit)
				}
			}
		}
	}
	loop.WalkExpr(e, visit)
	return seen
}

// productCost estimates the time of a product with a tile: its multiplications, those beyond the edges included, and
// the cost of the elements read, as long as there are enough blocks to keep a machine busy.
func (s *scheduler) productCost(p *product, t productTile) float64 {
	rows, columns, steps := ceil(s.sizeOf(p.rows), t.rows), ceil(s.sizeOf(p.columns), t.columns),
		ceil(s.sizeOf(p.steps), t.steps)
	blocks := rows * columns * s.sizeOf(p.batch)
	perProduct := 1 + 0.5/float64(t.ownRows) + 0.5/float64(t.ownColumns)
	if t.together > 0 {
		perProduct = matrixCost
	}
	perStep := float64(t.rows*t.columns)*perProduct + 4*float64(t.rows+t.columns) + float64(barrierCost)/float64(t.steps)
	cost, splits := blocks*steps*float64(t.steps)*perStep, float64(s.splitsOf(p, t))
	if t.together > 0 {
		cost += blocks * splits * matrixSumCost * float64(t.rows*t.columns)
	}
	if few := t.busy() / (blocks * splits * float64(t.threads())); few > 1 {
		cost *= min(few, 16)
	}
	if splits > 1 {
		cost += splitCost * splits * s.sizeOf(p.loops)
	}
	return cost
}

// sizeOf estimates the number of iterations of nested loops.
func (s *scheduler) sizeOf(loops []*loop.For) float64 {
	n := 1.0
	for _, f := range loops {
		n *= max(s.guess(f.Extent), 1)
	}
	return n
}

// ceil returns n / by, rounded up.
func ceil(n float64, by int64) float64 { return math.Ceil(n / float64(by)) }

const (
	busyThreads = 1 << 14 // approximate number of threads that a large machine runs at once
	barrierCost = 1 << 10 // the two barriers of a step, in multiplications of a block
	splitCost   = 16      // a partial sum that is stored and read, in multiplications
)

// flat is nested loops taken as one, whose index is split into theirs.
type flat struct {
	loops []*loop.For
	size  sym.Expr
}

// asOneLoop returns nested loops as one.
func asOneLoop(loops []*loop.For) flat {
	size := one
	for _, f := range loops {
		size = size.Mul(f.Extent)
	}
	return flat{loops, size}
}

// at sets the loops' variables to those of an index in range.
func (f flat) at(index sym.Expr, values map[sym.Name]sym.Expr) {
	for i := len(f.loops) - 1; i > 0; i-- {
		extent := f.loops[i].Extent
		values[f.loops[i].Var] = index.Mod(extent)
		index = index.FloorDiv(extent)
	}
	if len(f.loops) > 0 {
		values[f.loops[0].Var] = index
	}
}

// productWriter writes a kernel of a product.
type productWriter struct {
	*scheduler
	*product
	tile                       productTile
	names                      *namer
	rowsOf, columnsOf, stepsOf flat
	row, column                sym.Expr // the first row and column of the block's tile
	pairs                      int      // of tiles in shared memory: at most 2
}

// newProductWriter returns a writer for a product and a tile.
func (s *scheduler) newProductWriter(k *loop.Kernel, p *product, t productTile) *productWriter {
	return &productWriter{scheduler: s, product: p, tile: t, names: s.newNamer(k),
		rowsOf: asOneLoop(p.rows), columnsOf: asOneLoop(p.columns), stepsOf: asOneLoop(p.steps)}
}

// each returns a loop with a new variable.
func (w *productWriter) each(kind loop.LoopKind, hint string, extent sym.Expr,
	body func(i sym.Expr) []loop.Stmt) *loop.For {
	name := w.names.bound(hint)
	return &loop.For{Kind: kind, Var: name, Extent: extent, Body: body(sym.Var(name))}
}

// blocks returns the loops over blocks around the statements of block.
func (w *productWriter) blocks(block func() []loop.Stmt) []loop.Stmt {
	return inBlocks(w.batch, w.tiles(block))
}

// tiles returns the loops over the tiles of rows and columns: neighbouring blocks read the same elements of A or B.
func (w *productWriter) tiles(block func() []loop.Stmt) []loop.Stmt {
	t := w.tile
	return []loop.Stmt{w.each(loop.Block, "bn", w.columnsOf.size.CeilDiv(sym.Const(t.columns)),
		func(bn sym.Expr) []loop.Stmt {
			return []loop.Stmt{w.each(loop.Block, "bm", w.rowsOf.size.CeilDiv(sym.Const(t.rows)), func(bm sym.Expr) []loop.Stmt {
				w.row, w.column = bm.Mul(sym.Const(t.rows)), bn.Mul(sym.Const(t.columns))
				return block()
			})}
		})}
}

// block returns the statements of one block.
func (w *productWriter) block() []loop.Stmt {
	return w.added(zero, w.stepsOf.size.CeilDiv(sym.Const(w.tile.steps)), w.finish)
}

// added returns a block that sums count tiles of steps, beginning with tile from, and ends with the statements of end
// for each sum of a thread.
func (w *productWriter) added(from, count sym.Expr, end func(sums *loop.Local, thread, r,
	c sym.Expr) []loop.Stmt) []loop.Stmt {
	t := w.tile
	threads := sym.Const(t.shares())
	shared := func(hint string, e loop.Expr, n int64) *loop.Local {
		l := &loop.Local{Name: w.names.name(hint), DType: w.tileType(e), Space: loop.Shared}
		l.Shape = []sym.Expr{sym.Const(t.steps), sym.Const(n + t.padding(l.DType))}
		return l
	}
	var locals []loop.Stmt
	var fetch, multiply [2]func(tile sym.Expr) []loop.Stmt
	var sums *loop.Local
	for i := range max(1, w.pairs) {
		tileA, tileB := shared("tile_a", w.a, t.rows), shared("tile_b", w.b, t.columns)
		locals = append(locals, tileA, tileB)
		fetch[i] = func(tile sym.Expr) []loop.Stmt {
			first := tile.Mul(sym.Const(t.steps))
			return []loop.Stmt{w.fetch(tileA, w.a, w.rowsOf, w.row, first, t.rows),
				w.fetch(tileB, w.b, w.columnsOf, w.column, first, t.columns)}
		}
		multiply[i] = func(sym.Expr) []loop.Stmt {
			if t.together > 0 {
				return []loop.Stmt{w.multiplyTogether(sums, tileA, tileB)}
			}
			return []loop.Stmt{w.each(loop.Thread, "t", threads, func(thread sym.Expr) []loop.Stmt {
				return []loop.Stmt{w.multiply(sums, tileA, tileB, thread)}
			})}
		}
	}
	sums = &loop.Local{Name: w.names.name("sums"), DType: w.sum,
		Shape: []sym.Expr{threads, sym.Const(t.ownRows), sym.Const(t.ownColumns)}}
	if t.together > 0 {
		sums.Space = loop.Shared
	}
	body := append(locals, sums, w.begin(sums))
	if w.pairs == 2 {
		body = append(body, w.inPairs(from, count, fetch, multiply)...)
	} else {
		body = append(body, w.each(loop.Serial, "k", count, func(step sym.Expr) []loop.Stmt {
			return append(fetch[0](from.Add(step)), multiply[0](zero)...)
		}))
	}
	return append(body, w.end(sums, end))
}

// inPairs returns the loops over count tiles of steps, from tile from on: each is fetched into one pair of tiles in
// shared memory while the other pair is multiplied. The last fetch may repeat the last tile of all, whose elements are
// then not used.
func (w *productWriter) inPairs(from, count sym.Expr, fetch, multiply [2]func(tile sym.Expr) []loop.Stmt) []loop.Stmt {
	last := w.stepsOf.size.CeilDiv(sym.Const(w.tile.steps)).Sub(one)
	known := func(tile sym.Expr) sym.Expr { return from.Add(tile).Min(last) }
	two := sym.Const(2)
	both := w.each(loop.Serial, "k", count.FloorDiv(two), func(k sym.Expr) []loop.Stmt {
		first := k.Mul(two)
		body := append(fetch[1](from.Add(first).Add(one)), multiply[0](zero)...)
		body = append(body, fetch[0](known(first.Add(two)))...)
		return append(body, multiply[1](zero)...)
	})
	out := append(fetch[0](known(zero)), both)
	if w.equal(count.Mod(two), zero) {
		return out
	}
	return append(out, w.each(loop.Serial, "k", count.Mod(two), multiply[0]))
}

// begin sets a thread's sums to 0.
func (w *productWriter) begin(sums *loop.Local) loop.Stmt {
	return w.eachOwn(sums, func(thread, r, c sym.Expr) []loop.Stmt {
		return []loop.Stmt{&loop.Store{To: sums.Name, Index: []sym.Expr{thread, r, c}, X: zeroOf(w.sum)}}
	})
}

// end returns the loop that runs finish for each of a thread's sums.
func (w *productWriter) end(sums *loop.Local, finish func(sums *loop.Local, thread, r,
	c sym.Expr) []loop.Stmt) loop.Stmt {
	return w.eachOwn(sums, func(thread, r, c sym.Expr) []loop.Stmt { return finish(sums, thread, r, c) })
}

// eachOwn returns a loop that runs do for each element of each thread's share of a local [threads, rows, columns].
func (w *productWriter) eachOwn(own *loop.Local, do func(thread, r, c sym.Expr) []loop.Stmt) loop.Stmt {
	return w.each(loop.Thread, "t", own.Shape[0], func(thread sym.Expr) []loop.Stmt {
		if w.tile.together > 0 {
			return do(thread, zero, zero)
		}
		return []loop.Stmt{w.each(loop.Each, "r", own.Shape[1], func(r sym.Expr) []loop.Stmt {
			return []loop.Stmt{w.each(loop.Each, "c", own.Shape[2], func(c sym.Expr) []loop.Stmt { return do(thread, r, c) })}
		})}
	})
}

// zeroOf returns the constant 0 of a type.
func zeroOf(dt dtype.DType) loop.Expr { return &loop.Const{Type: dt} }

// tileType returns the type of a tile's elements: the operand's type before widening if the contraction widens it
// itself.
func (p *product) tileType(e loop.Expr) dtype.DType {
	if narrow := narrowOf(e, p.sum); narrow != nil {
		return narrow.DType()
	}
	return p.sum
}

// narrowOf returns the expression that an operand widens, if a contraction widens it itself; nil otherwise.
func narrowOf(e loop.Expr, sum dtype.DType) loop.Expr {
	c, ok := e.(*loop.Cast)
	if !ok || c.Type != sum {
		return nil
	}
	from := c.X.DType()
	if from.Bits() < 8 || from.Bits() > 16 || sum == dtype.F64 || from == dtype.Bool {
		return nil
	}
	if sum == dtype.F32 && (from == dtype.F16 || from == dtype.BF16) || sum.IsInt() && from.IsInt() {
		return c.X
	}
	return nil
}
