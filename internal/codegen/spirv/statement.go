package spirv

import (
	"math"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// statements writes statements that one thread runs.
func (w *writer) statements(body []loop.Stmt) {
	for i, s := range body {
		switch s := s.(type) {
		case *loop.For:
			if w.unroll(s) {
				continue
			}
			w.serial(s, func() { w.statements(s.Body) })
		case *loop.When:
			w.branch(s, w.statements)
		case *loop.Check:
			w.check(s, func() { w.statements(body[i+1:]) })
			return
		case *loop.Local: // allocateLocals declared it
		case *loop.Contract:
			w.contract(s)
		case *loop.Store:
			w.storeStmt(s)
		default:
			w.scalar(s)
		}
	}
}

// unroll unrolls a loop with a small constant number of iterations that accesses the thread's own memory, since
// registers have no addresses. It reports whether it did.
func (w *writer) unroll(s *loop.For) bool {
	n, fixed := s.Extent.Const()
	if !fixed || n > mostWritten || s.Kind == loop.Serial {
		return false
	}
	if !w.reachesOwn(touches(s.Body)) {
		return false
	}
	for i := range n {
		w.statements(loop.Substitute(s.Body, map[sym.Name]sym.Expr{s.Var: sym.Const(i)}))
	}
	return true
}

// mostWritten is the largest number of iterations of a loop that unroll unrolls.
const mostWritten = 16

// scalar writes a statement that declares or changes a named value.
func (w *writer) scalar(s loop.Stmt) {
	switch s := s.(type) {
	case *loop.Let:
		w.bound[s.Name] = w.expr(s.X)
	case *loop.Var:
		x := w.expr(s.X)
		v := value{id: w.variable(w.heldType(x.dt)), dt: x.dt, held: true}
		w.set(v.id, w.full(x))
		w.bound[s.Name] = v
	case *loop.Set:
		w.set(w.bound[s.Name].id, w.full(w.expr(s.X)))
	case *loop.Reduce:
		v := w.bound[s.Name]
		x := w.expr(s.X)
		w.set(v.id, w.full(w.binary(s.Op, value{id: w.get(v.id, w.heldType(v.dt)), dt: v.dt}, x)))
	default:
		refuse("a statement of type %T", s)
	}
}

// serial writes a loop whose iterations a thread runs in order.
func (w *writer) serial(s *loop.For, inside func()) {
	if n, ok := s.Extent.Const(); ok && n <= 0 {
		return
	}
	count := w.integer(s.Extent)
	typ := w.typeOf(count)
	for _, x := range loop.Hollow(s, w.least, w.most) {
		count.id = w.op(opSelect, typ, w.below(w.constant(0), w.integer(x)), count.id, w.sized(w.constant(0), count.wide).id)
	}
	at := w.variable(typ)
	w.set(at, w.sized(w.constant(0), count.wide).id)
	w.extents[s.Var] = s.Extent
	w.counted(w.overAll(s.Extent), func() {
		w.loop(func() id { return w.below(integer{w.get(at, typ), count.wide}, count) }, func() {
			w.bind(s.Var, integer{w.get(at, typ), count.wide})
			inside()
		}, func() {
			w.set(at, w.sum(integer{w.get(at, typ), count.wide}, w.sized(w.constant(1), count.wide)).id)
		})
	})
}

// bind sets a loop variable's value, in as many bits as its range needs.
func (w *writer) bind(name sym.Name, x integer) {
	if _, size := w.ranges.Of(sym.Var(name)); x.wide && size <= mostNarrow {
		x = w.sized(x, false)
	}
	w.names[name] = x
}

// branch writes a When; inside writes each of its bodies. The thread's iterations are those of the longer body.
func (w *writer) branch(s *loop.When, inside func(body []loop.Stmt)) {
	cond := w.expr(s.Cond)
	before, most := w.taken, sym.Const(0)
	write := func(body []loop.Stmt) func() {
		return func() {
			w.taken = sym.Const(0)
			inside(body)
			most = most.Max(w.taken)
		}
	}
	var otherwise func()
	if len(s.Else) > 0 {
		otherwise = write(s.Else)
	}
	w.when(cond.id, write(s.Then), otherwise)
	w.taken = before.Add(most)
}

// check tests an integer, and writes rest, the statements after it, so that they run only if it passes. The first
// thread that finds a failure reports it.
func (w *writer) check(s *loop.Check, rest func()) {
	x := w.expr(s.X)
	low, high := w.integer(s.Min), w.integer(s.Max)
	v := integer{x.id, x.dt.Bits() == 64 && !x.narrow}
	beyond := w.constantBool(false)
	switch {
	case x.dt == dtype.U64:
		beyond = w.test(opUGreaterThan, x.id, w.constant64(math.MaxInt64))
	case x.dt == dtype.U32 && w.int64s():
		v = integer{w.op(opUConvert, w.intType(64), x.id), true}
	case x.dt == dtype.U32:
		beyond = w.test(opUGreaterThan, x.id, w.constant32(math.MaxInt32))
	}
	fails := w.op(opLogicalOr, w.boolType(), w.compare(opSLessThan, v, low), w.compare(opSGreaterThan, v, high))
	fails = w.op(opLogicalOr, w.boolType(), fails, beyond)
	w.checks = append(w.checks, s)
	number := len(w.checks)
	w.when(fails, func() { w.report(number, x, low, high) }, func() {
		if _, size := w.ranges.Of(sym.Var(s.Name)); size <= mostNarrow {
			v = w.sized(v, false)
		}
		w.names[s.Name] = v
		rest()
	})
}

// report writes the launch's report, unless another thread did before.
func (w *writer) report(number int, x value, low, high integer) {
	word := w.intType(32)
	at := w.argument(len(w.kernel.Params) + len(w.kernel.Dims) + 1)
	first := w.op(opAtomicCompareExchange, word, w.pointer(word, at), w.constant32(1), w.constant32(0), w.constant32(0),
		w.constant32(uint32(number)), w.constant32(0))
	w.when(w.test(opIEqual, first, w.constant32(0)), func() {
		typ := w.addressType()
		put := func(i int64, v id) {
			w.do(opStore, uint32(w.pointer(typ, w.address(at, w.constant(8*i)))), uint32(v), memoryAccessAligned, 8)
		}
		full := func(v integer, signed bool) id {
			switch {
			case v.wide:
				return v.id
			case w.int64s() && signed:
				return w.op(opSConvert, typ, v.id)
			case w.int64s():
				return w.op(opUConvert, typ, v.id)
			}
			high := w.constant32(0)
			if signed {
				high = w.word(opShiftRightArithmetic, v.id, w.constant32(31))
			}
			return w.op(opCompositeConstruct, typ, v.id, high)
		}
		put(1, full(integer{x.id, x.dt.Bits() == 64 && !x.narrow}, x.dt.IsSigned()))
		put(2, full(low, true))
		put(3, full(high, true))
	}, nil)
}

// storeStmt writes a Store.
func (w *writer) storeStmt(s *loop.Store) {
	m := w.memory(s.To)
	offset := w.offsetOf(m, s.Index)
	if s.Mask == nil {
		w.store(m, offset, w.full(w.expr(s.X)))
		return
	}
	x := w.full(w.expr(s.X))
	w.when(w.expr(s.Mask).id, func() { w.store(m, offset, x) }, nil)
}

// mostUnrolled is the largest number of sums of a contraction that are kept in variables of their own, if they are
// threads' own memory of a block; mostAlone is that number for other variables.
const mostUnrolled, mostAlone = 256, 16

// stepsWritten is the number of steps by which the loop of a contraction with few sums is unrolled.
const stepsWritten = 4

// contract writes a contraction. If its sums are few and in variables, one loop over the steps contains all of them, so
// that the elements of a step are read once.
func (w *writer) contract(s *loop.Contract) {
	rows, fixedRows := s.M.Const()
	columns, fixedColumns := s.N.Const()
	c := w.memory(s.C.Buffer)
	step := sym.Bound(w.kernel.Name + " step")
	most := int64(mostAlone)
	if c.thread {
		most = mostUnrolled
	}
	if fixedRows && fixedColumns && rows*columns <= most && c.variable != 0 {
		if rows > 0 && columns > 0 {
			w.contractHeld(s, rows, columns, step)
		}
		return
	}
	row, column := sym.Bound(w.kernel.Name+" row"), sym.Bound(w.kernel.Name+" column")
	for _, l := range []struct {
		name   sym.Name
		extent sym.Expr
	}{{row, s.M}, {column, s.N}, {step, s.K}} {
		w.ranges.Set(l.name, sym.Range{Max: max(w.most(l.extent), 1) - 1})
	}
	w.serial(&loop.For{Var: row, Extent: s.M}, func() {
		w.serial(&loop.For{Var: column, Extent: s.N}, func() {
			at := w.tileOffset(&s.C, sym.Var(row), sym.Var(column))
			typ := w.heldType(c.dt)
			sum := w.variable(typ)
			w.set(sum, w.load(c, at))
			w.serial(&loop.For{Var: step, Extent: s.K}, func() {
				x := w.tileValue(&s.A, c.dt, sym.Var(row), sym.Var(step))
				y := w.tileValue(&s.B, c.dt, sym.Var(step), sym.Var(column))
				w.set(sum, w.multiplyAdd(c.dt, x, y, w.get(sum, typ)))
			})
			w.store(c, at, w.get(sum, typ))
		})
	})
}

// contractHeld writes a contraction whose sums each have a variable.
func (w *writer) contractHeld(s *loop.Contract, rows, columns int64, step sym.Name) {
	w.ranges.Set(step, sym.Range{Max: max(w.most(s.K), 1) - 1})
	c := w.memory(s.C.Buffer)
	typ := w.heldType(c.dt)
	offset := func(i int) sym.Expr {
		return w.tileOffset(&s.C, sym.Const(int64(i)/columns), sym.Const(int64(i)%columns))
	}
	sums := make([]id, rows*columns)
	for i := range sums {
		sums[i] = w.variable(typ)
		w.set(sums[i], w.load(c, offset(i)))
	}
	copies := int64(1)
	if all, fixed := s.K.Const(); fixed && all%stepsWritten == 0 && rows*columns <= mostAlone {
		copies = stepsWritten
	}
	w.serial(&loop.For{Var: step, Extent: s.K.CeilDiv(sym.Const(copies))}, func() {
		for i := range copies {
			at := sym.Var(step).Mul(sym.Const(copies)).Add(sym.Const(i))
			var left, right []id
			for r := range rows {
				left = append(left, w.tileValue(&s.A, c.dt, sym.Const(r), at))
			}
			for n := range columns {
				right = append(right, w.tileValue(&s.B, c.dt, at, sym.Const(n)))
			}
			for i, sum := range sums {
				w.set(sum, w.multiplyAdd(c.dt, left[int64(i)/columns], right[int64(i)%columns], w.get(sum, typ)))
			}
		}
	})
	for i, sum := range sums {
		w.store(c, offset(i), w.get(sum, typ))
	}
}

// multiplyAdd returns x·y + z. Floats may be rounded once or twice.
func (w *writer) multiplyAdd(dt dtype.DType, x, y, z id) id {
	typ := w.heldType(dt)
	if dt.IsFloat() {
		return w.extended(glslFma, typ, x, y, z)
	}
	return w.wrappedAny(dt, w.op(opIAdd, typ, z, w.op(opIMul, typ, x, y)))
}

// wrappedAny returns an integer reduced to the bits of a type, which may have 32 or more.
func (w *writer) wrappedAny(dt dtype.DType, x id) id {
	if dt.Bits() < 32 {
		return w.wrapped(dt, x)
	}
	return x
}

// tileOffset returns the offset of a tile's element from the buffer's first one, in elements.
func (w *writer) tileOffset(t *loop.Tile, row, column sym.Expr) sym.Expr {
	index := make([]sym.Expr, len(t.Origin))
	for i := range index {
		index[i] = t.Origin[i].Add(t.Row[i].Mul(row)).Add(t.Col[i].Mul(column))
	}
	return w.offsetOf(w.memory(t.Buffer), index)
}

// tileValue loads a tile's element, converted to the type of the sums.
func (w *writer) tileValue(t *loop.Tile, dt dtype.DType, row, column sym.Expr) id {
	m := w.memory(t.Buffer)
	x := value{id: w.load(m, w.tileOffset(t, row, column)), dt: m.dt}
	if m.dt == dt {
		return x.id
	}
	return w.cast(dt, x, true)
}
