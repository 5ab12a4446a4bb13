package blocks

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// statements writes statements that one thread runs.
func (w *Writer) statements(body []loop.Stmt) {
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
func (w *Writer) unroll(s *loop.For) bool {
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
func (w *Writer) scalar(s loop.Stmt) {
	switch s := s.(type) {
	case *loop.Let:
		w.bound[s.Name] = w.expr(s.X)
	case *loop.Var:
		x := w.expr(s.X)
		v := Value{ID: w.Variable(w.Held(x.DType)), DType: x.DType, held: true}
		w.Set(v.ID, w.Full(x))
		w.bound[s.Name] = v
	case *loop.Set:
		w.Set(w.bound[s.Name].ID, w.Full(w.expr(s.X)))
	case *loop.Reduce:
		v := w.bound[s.Name]
		x := w.expr(s.X)
		w.Set(v.ID, w.Full(w.Binary(s.Op, Value{ID: w.Get(v.ID, w.Held(v.DType)), DType: v.DType}, x)))
	default:
		Refuse("a statement of type %T", s)
	}
}

// serial writes a loop whose iterations a thread runs in order.
func (w *Writer) serial(s *loop.For, inside func()) {
	if n, ok := s.Extent.Const(); ok && n <= 0 {
		return
	}
	count := w.Integer(s.Extent)
	typ := w.typeOf(count)
	for _, x := range loop.Hollow(s, w.least, w.most) {
		count.ID = w.Choose(typ, w.below(w.Constant(0), w.Integer(x)), count.ID, w.Sized(w.Constant(0), count.Wide).ID)
	}
	at := w.Variable(typ)
	w.Set(at, w.Sized(w.Constant(0), count.Wide).ID)
	w.extents[s.Var] = s.Extent
	w.Counted(w.overAll(s.Extent), func() {
		w.Loop(func() ID { return w.below(Integer{w.Get(at, typ), count.Wide}, count) }, func() {
			w.bind(s.Var, Integer{w.Get(at, typ), count.Wide})
			inside()
		}, func() {
			w.Set(at, w.sum(Integer{w.Get(at, typ), count.Wide}, w.Sized(w.Constant(1), count.Wide)).ID)
		})
	})
}

// bind sets a loop variable's value, in as many bits as its range needs.
func (w *Writer) bind(name sym.Name, x Integer) {
	if _, size := w.ranges.Of(sym.Var(name)); x.Wide && size <= mostNarrow {
		x = w.Sized(x, false)
	}
	w.names[name] = x
}

// branch writes a When; inside writes each of its bodies. The thread's iterations are those of the longer body.
func (w *Writer) branch(s *loop.When, inside func(body []loop.Stmt)) {
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
	w.When(cond.ID, write(s.Then), otherwise)
	w.taken = before.Add(most)
}

// check tests an integer, and writes rest, the statements after it, so that they run only if it passes. The first
// thread that finds a failure reports it.
func (w *Writer) check(s *loop.Check, rest func()) {
	x := w.expr(s.X)
	low, high := w.Integer(s.Min), w.Integer(s.Max)
	v, beyond := w.Signed(x)
	fails := w.Or(w.compare(Less, v, low), w.compare(Greater, v, high))
	fails = w.Or(fails, beyond)
	w.checks = append(w.checks, s)
	number := len(w.checks)
	w.When(fails, func() {
		w.Report(w.Argument(len(w.kernel.Params)+len(w.kernel.Dims)+1), number, x, low, high)
	}, func() {
		if _, size := w.ranges.Of(sym.Var(s.Name)); size <= mostNarrow {
			v = w.Sized(v, false)
		}
		w.names[s.Name] = v
		rest()
	})
}

// storeStmt writes a Store.
func (w *Writer) storeStmt(s *loop.Store) {
	m := w.memory(s.To)
	offset := w.offsetOf(m, s.Index)
	if s.Mask == nil {
		w.Store(m, offset, w.Full(w.expr(s.X)))
		return
	}
	x := w.Full(w.expr(s.X))
	w.When(w.expr(s.Mask).ID, func() { w.Store(m, offset, x) }, nil)
}

// mostUnrolled is the largest number of sums of a contraction that are kept in variables of their own, if they are
// threads' own memory of a block; mostAlone is that number for other variables.
const mostUnrolled, mostAlone = 256, 16

// stepsWritten is the number of steps by which the loop of a contraction with few sums is unrolled.
const stepsWritten = 4

// contract writes a contraction. If its sums are few and in variables, one loop over the steps contains all of them, so
// that the elements of a step are read once.
func (w *Writer) contract(s *loop.Contract) {
	rows, fixedRows := s.M.Const()
	columns, fixedColumns := s.N.Const()
	c := w.memory(s.C.Buffer)
	step := sym.Bound(w.kernel.Name + " step")
	most := int64(mostAlone)
	if c.thread {
		most = mostUnrolled
	}
	if fixedRows && fixedColumns && rows*columns <= most && c.Variable != 0 {
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
			typ := w.Held(c.DType)
			sum := w.Variable(typ)
			w.Set(sum, w.Load(c, at))
			w.serial(&loop.For{Var: step, Extent: s.K}, func() {
				x := w.tileValue(&s.A, c.DType, sym.Var(row), sym.Var(step))
				y := w.tileValue(&s.B, c.DType, sym.Var(step), sym.Var(column))
				w.Set(sum, w.MultiplyAdd(c.DType, x, y, w.Get(sum, typ)))
			})
			w.Store(c, at, w.Get(sum, typ))
		})
	})
}

// contractHeld writes a contraction whose sums each have a variable.
func (w *Writer) contractHeld(s *loop.Contract, rows, columns int64, step sym.Name) {
	w.ranges.Set(step, sym.Range{Max: max(w.most(s.K), 1) - 1})
	c := w.memory(s.C.Buffer)
	typ := w.Held(c.DType)
	offset := func(i int) sym.Expr {
		return w.tileOffset(&s.C, sym.Const(int64(i)/columns), sym.Const(int64(i)%columns))
	}
	sums := make([]ID, rows*columns)
	for i := range sums {
		sums[i] = w.Variable(typ)
		w.Set(sums[i], w.Load(c, offset(i)))
	}
	copies := int64(1)
	if all, fixed := s.K.Const(); fixed && all%stepsWritten == 0 && rows*columns <= mostAlone {
		copies = stepsWritten
	}
	w.serial(&loop.For{Var: step, Extent: s.K.CeilDiv(sym.Const(copies))}, func() {
		for i := range copies {
			at := sym.Var(step).Mul(sym.Const(copies)).Add(sym.Const(i))
			var left, right []ID
			for r := range rows {
				left = append(left, w.tileValue(&s.A, c.DType, sym.Const(r), at))
			}
			for n := range columns {
				right = append(right, w.tileValue(&s.B, c.DType, at, sym.Const(n)))
			}
			for i, sum := range sums {
				w.Set(sum, w.MultiplyAdd(c.DType, left[int64(i)/columns], right[int64(i)%columns], w.Get(sum, typ)))
			}
		}
	})
	for i, sum := range sums {
		w.Store(c, offset(i), w.Get(sum, typ))
	}
}

// tileOffset returns the offset of a tile's element from the buffer's first one, in elements.
func (w *Writer) tileOffset(t *loop.Tile, row, column sym.Expr) sym.Expr {
	index := make([]sym.Expr, len(t.Origin))
	for i := range index {
		index[i] = t.Origin[i].Add(t.Row[i].Mul(row)).Add(t.Col[i].Mul(column))
	}
	return w.offsetOf(w.memory(t.Buffer), index)
}

// tileValue loads a tile's element, converted to the type of the sums.
func (w *Writer) tileValue(t *loop.Tile, dt dtype.DType, row, column sym.Expr) ID {
	m := w.memory(t.Buffer)
	x := Value{ID: w.Load(m, w.tileOffset(t, row, column)), DType: m.DType}
	if m.DType == dt {
		return x.ID
	}
	return w.Cast(dt, x, true)
}
