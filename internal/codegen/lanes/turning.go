package lanes

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// This file emits two nested loops, one along contiguous reads and the other along contiguous writes: transpositions,
// perhaps with computations between. It computes blocks of as many registers as a register has lanes: a register is an
// iteration of one loop, and its lanes are iterations of the other. The registers are transposed and stored in full.

// turning is a nest of two such loops.
type turning struct {
	nest  *loop.For // iterations of rows around a vector loop
	lanes *loop.For
	row   sym.Name // the variable of rows
	first sym.Name // the first row of the block that is emitted
	turns map[*loop.Store]bool
	all   bool // every store is turned, so iterations may be repeated
}

// turned emits a nest of two loops in blocks of lanes × lanes, if it can be done so.
func (e *Emitter) turned(s *loop.For) bool {
	if s.Kind != loop.Each || e.Strip != nil || e.turning != nil {
		return false
	}
	t := e.turningOf(s)
	if t == nil {
		return false
	}
	saved := e.snapshot()
	reason := attempt(func() { e.turnedLoop(s, t) })
	e.turning = nil
	if reason != "" {
		e.restore(saved)
	}
	return reason == ""
}

// turningOf decides which of two loops is rows and which is lanes; nil if no store is to be turned.
func (e *Emitter) turningOf(s *loop.For) *turning {
	v, ok := loop.Only(s.Body)
	if !ok || v.Kind != loop.Vector || slices.Contains(e.Resolve(v.Extent).Vars(), s.Var) {
		return nil
	}
	for _, stmt := range v.Body {
		switch stmt.(type) {
		case *loop.Let, *loop.Store:
		default:
			return nil
		}
	}
	if t := e.turningBy(s, s, v); t != nil {
		return t
	}
	lanes := &loop.For{Kind: loop.Vector, Var: s.Var, Extent: s.Extent, Body: v.Body}
	rows := &loop.For{Kind: loop.Each, Var: v.Var, Extent: v.Extent, Body: []loop.Stmt{lanes}}
	return e.turningBy(rows, rows, lanes)
}

// turningBy returns the nest with one loop as rows and the other as lanes. It returns nil unless all reads move by one
// element or none along the lanes, and all writes move by one element along the lanes or, for at least one, the rows.
func (e *Emitter) turningBy(nest, rows, lanes *loop.For) *turning {
	n := int64(e.lanes)
	if e.Most(e.Resolve(rows.Extent)) < n || e.Most(e.Resolve(lanes.Extent)) < n/2 {
		return nil
	}
	t := &turning{nest: nest, lanes: lanes, row: rows.Var, turns: map[*loop.Store]bool{}, all: true}
	reads := false // some read is contiguous along the lanes
	for _, a := range loop.Accesses(lanes.Body) {
		m := e.Kernel.Memory(a.Buffer)
		offset := e.Resolve(m.Offset(a.Index))
		along, _, ok := offset.Linear(lanes.Var)
		across, _, also := offset.Linear(rows.Var)
		if !ok || !also || Packs(m.DType) || m.DType == dtype.Bool || Kinds[m.DType].Wide() {
			return nil
		}
		step, fixed := along.Const()
		switch beside, known := across.Const(); {
		case fixed && (step == 1 || step == 0 && !a.Write):
			reads = reads || step == 1 && !a.Write
			t.all = t.all && !a.Write
		case a.Write && known && beside == 1 && a.Mask == nil && (!fixed || step > 1):
			t.turns[a.Stmt.(*loop.Store)] = true
		default:
			return nil
		}
	}
	if len(t.turns) == 0 || !reads {
		return nil
	}
	return t
}

// turnedLoop emits a nest in blocks, or, if the rows are fewer than a block's, as it is. It emits both if the number of
// rows is not known.
func (e *Emitter) turnedLoop(s *loop.For, t *turning) {
	extent, n := e.Resolve(t.nest.Extent), int64(e.lanes)
	if least, _ := e.Bounds(extent); least >= n {
		e.turnedRows(extent, t)
		return
	}
	few, done := e.Label(), e.Label()
	arm := func(write func()) {
		scope := e.Open(s.Body)
		write()
		body := e.Close()
		e.Place(scope, body)
	}
	e.CompareNumbers(e.IntegerOf(extent), e.Number(n))
	e.JumpIf(Less, few)
	arm(func() { e.turnedRows(extent, t) })
	e.Jump(done)
	e.Bind(few)
	arm(func() { e.serial(s) })
	e.Bind(done)
}

// turnedRows emits a nest in blocks of as many rows as there are lanes. If iterations may be repeated (turning.all),
// the last block begins in the one before it; otherwise the remaining rows are emitted without turning.
func (e *Emitter) turnedRows(extent sym.Expr, t *turning) {
	n := sym.Const(int64(e.lanes))
	blocks, at := extent.FloorDiv(n), func(i sym.Expr) sym.Expr { return i.Mul(n) }
	rest := extent.Mod(n)
	if t.all {
		blocks, rest = extent.CeilDiv(n), sym.Const(0)
		at = func(i sym.Expr) sym.Expr { return i.Mul(n).Min(extent.Sub(n)) }
	}
	block := sym.Hidden(t.row.Text() + "#block")
	t.first = sym.Hidden(t.row.Text() + "#first")
	e.Kernel.Ranges.Set(block, sym.Range{Min: 0, Max: max(e.Most(blocks)-1, 0)})
	e.Kernel.Ranges.Set(t.first, sym.Range{Min: 0, Max: max(e.Most(extent)-int64(e.lanes), 0)})
	e.counted(&loop.For{Var: block}, sym.Const(0), e.Kernel.Ranges.Simplify(blocks), t.nest.Body, func() {
		e.Names[t.first] = Name{Depth: e.here.Depth, Register: e.IntegerOf(e.Kernel.Ranges.Simplify(at(sym.Var(block))))}
		e.Names[t.row] = Name{Depth: e.here.Depth, replaced: true, value: sym.Var(t.first)}
		e.turning = t
		e.vectorParts(t.lanes)
		e.turning = nil
	})
	if !IsZero(rest) {
		e.part(t.nest, e.Kernel.Ranges.Simplify(extent.Sub(rest)), extent)
	}
}

// is reports whether statements are the nest's innermost body.
func (t *turning) is(list []loop.Stmt) bool { return len(list) > 0 && &list[0] == &t.lanes.Body[0] }

// block emits a strip of a turned nest: row after row, and then the turned stores.
func (t *turning) block(e *Emitter, list []loop.Stmt) {
	bound, names := e.bound, e.Names
	rows := map[*loop.Store][]regalloc.Reg{}
	for i := range int64(e.lanes) {
		e.bound, e.Names = maps.Clone(bound), maps.Clone(names)
		e.Names[t.row] = Name{Depth: e.here.Depth, replaced: true, value: sym.Var(t.first).Add(sym.Const(i))}
		for _, stmt := range list {
			store, is := stmt.(*loop.Store)
			if !is || !t.turns[store] || e.Strip == nil {
				e.statement(stmt)
				continue
			}
			rows[store] = append(rows[store], e.Value(store.X).Lo)
		}
	}
	e.bound, e.Names = bound, names
	for _, stmt := range list {
		if store, is := stmt.(*loop.Store); is && rows[store] != nil {
			e.storeTurned(store, rows[store])
		}
	}
}

// storeTurned stores registers as columns; in an incomplete strip only its columns.
func (e *Emitter) storeTurned(s *loop.Store, rows []regalloc.Reg) {
	m := e.Kernel.Memory(s.To)
	p := e.TakeApart(e.Simpler(e.Resolve(m.Offset(s.Index))))
	if !IsZero(p.Rest) || IsZero(p.Step) {
		Refuse("columns without a constant distance")
	}
	at, step := e.Address(s.To, p.Base), e.IntegerOf(p.Step.Mul(sym.Const(BytesOf(m.DType))))
	begin := e.AddressOf(at)
	columns := e.Transposed(rows)
	bits, end := regalloc.NoReg, e.Label()
	if tail := e.TailMask(); tail != regalloc.NoReg {
		bits = e.LaneWord(dtype.I32, tail)
	}
	scope := e.Open(nil)
	for i, x := range columns {
		if bits != regalloc.NoReg {
			e.JumpOnSet(bits, i, false, end)
		}
		e.storeRun(m.DType, regalloc.Mem{Base: begin}, Value{DType: m.DType, Lo: x}, regalloc.NoReg)
		e.Integer(Add, begin, step)
	}
	body := e.Close()
	e.Place(scope, body)
	e.Bind(end)
}
