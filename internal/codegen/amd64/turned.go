package amd64

import (
	"maps"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
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
func (e *emitter) turned(s *loop.For) bool {
	if s.Kind != loop.Each || e.vector != nil || e.turning != nil {
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
func (e *emitter) turningOf(s *loop.For) *turning {
	v, ok := loop.Only(s.Body)
	if !ok || v.Kind != loop.Vector || slices.Contains(e.resolve(v.Extent).Vars(), s.Var) {
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
func (e *emitter) turningBy(nest, rows, lanes *loop.For) *turning {
	n := int64(e.isa.lanes)
	if e.most(e.resolve(rows.Extent)) < n || e.most(e.resolve(lanes.Extent)) < n/2 {
		return nil
	}
	t := &turning{nest: nest, lanes: lanes, row: rows.Var, turns: map[*loop.Store]bool{}, all: true}
	reads := false // some read is contiguous along the lanes
	for _, a := range loop.Accesses(lanes.Body) {
		m := e.k.memory(a.Buffer)
		offset := e.resolve(m.offset(a.Index))
		along, _, ok := offset.Linear(lanes.Var)
		across, _, also := offset.Linear(rows.Var)
		if !ok || !also || packs(m.dtype) || m.dtype == dtype.Bool || kinds[m.dtype].wide() {
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
func (e *emitter) turnedLoop(s *loop.For, t *turning) {
	extent, n := e.resolve(t.nest.Extent), int64(e.isa.lanes)
	if least, _ := e.bounds(extent); least >= n {
		e.turnedRows(extent, t)
		return
	}
	few, done := e.label(), e.label()
	arm := func(write func()) {
		scope := e.open(s.Body)
		write()
		body := e.close()
		e.Append(scope.head)
		e.Append(body)
	}
	e.compareNumbers(e.integer(extent), e.number(n))
	e.jump(asm.JL, few)
	arm(func() { e.turnedRows(extent, t) })
	e.jump(asm.JMP, done)
	e.bind(few)
	arm(func() { e.serial(s) })
	e.bind(done)
}

// turnedRows emits a nest in blocks of as many rows as there are lanes. If iterations may be repeated (turning.all),
// the last block begins in the one before it; otherwise the remaining rows are emitted without turning.
func (e *emitter) turnedRows(extent sym.Expr, t *turning) {
	n := sym.Const(int64(e.isa.lanes))
	blocks, at := extent.FloorDiv(n), func(i sym.Expr) sym.Expr { return i.Mul(n) }
	rest := extent.Mod(n)
	if t.all {
		blocks, rest = extent.CeilDiv(n), sym.Const(0)
		at = func(i sym.Expr) sym.Expr { return i.Mul(n).Min(extent.Sub(n)) }
	}
	block := sym.Hidden(t.row.Text() + "#block")
	t.first = sym.Hidden(t.row.Text() + "#first")
	e.k.ranges.Set(block, sym.Range{Min: 0, Max: max(e.most(blocks)-1, 0)})
	e.k.ranges.Set(t.first, sym.Range{Min: 0, Max: max(e.most(extent)-int64(e.isa.lanes), 0)})
	e.counted(&loop.For{Var: block}, sym.Const(0), e.k.ranges.Simplify(blocks), t.nest.Body, func() {
		e.names[t.first] = name{depth: e.here.depth, register: e.integer(e.k.ranges.Simplify(at(sym.Var(block))))}
		e.names[t.row] = name{depth: e.here.depth, replaced: true, value: sym.Var(t.first)}
		e.turning = t
		e.vectorParts(t.lanes)
		e.turning = nil
	})
	if !isZero(rest) {
		e.part(t.nest, e.k.ranges.Simplify(extent.Sub(rest)), extent)
	}
}

// is reports whether statements are the nest's innermost body.
func (t *turning) is(list []loop.Stmt) bool { return len(list) > 0 && &list[0] == &t.lanes.Body[0] }

// block emits a strip of a turned nest: row after row, and then the turned stores.
func (t *turning) block(e *emitter, list []loop.Stmt) {
	bound, names := e.bound, e.names
	rows := map[*loop.Store][]asm.Reg{}
	for i := range int64(e.isa.lanes) {
		e.bound, e.names = maps.Clone(bound), maps.Clone(names)
		e.names[t.row] = name{depth: e.here.depth, replaced: true, value: sym.Var(t.first).Add(sym.Const(i))}
		for _, stmt := range list {
			store, is := stmt.(*loop.Store)
			if !is || !t.turns[store] || e.vector == nil {
				e.statement(stmt)
				continue
			}
			rows[store] = append(rows[store], e.value(store.X).lo)
		}
	}
	e.bound, e.names = bound, names
	for _, stmt := range list {
		if store, is := stmt.(*loop.Store); is && rows[store] != nil {
			e.storeTurned(store, rows[store])
		}
	}
}

// storeTurned stores registers as columns; in an incomplete strip only its columns.
func (e *emitter) storeTurned(s *loop.Store, rows []asm.Reg) {
	m := e.k.memory(s.To)
	p := e.takeApart(e.simpler(e.resolve(m.offset(s.Index))))
	if !isZero(p.rest) || isZero(p.step) {
		refuse("columns without a constant distance")
	}
	at, step := e.address(s.To, p.base), e.integer(p.step.Mul(sym.Const(bytesOf(m.dtype))))
	begin := e.general()
	e.Emit(asm.Inst{Op: asm.LEA, Bits: 64, Args: [4]asm.Reg{begin, asm.Memory}, Mem: at})
	columns := e.transposed(rows)
	bits, end := asm.NoReg, e.label()
	if tail := e.tailMask(); tail != asm.NoReg {
		bits = e.bitsOf(tail)
	}
	scope := e.open(nil)
	for i, x := range columns {
		if bits != asm.NoReg {
			e.Emit(asm.Inst{Op: asm.TEST, Bits: 32, Args: [4]asm.Reg{bits}, Imm: 1 << i})
			e.jump(asm.JE, end)
		}
		e.storeRun(m.dtype, asm.Mem{Base: begin}, value{dtype: m.dtype, lo: x}, asm.NoReg)
		e.integerOp(asm.ADD, begin, step)
	}
	body := e.close()
	e.Append(scope.head)
	e.Append(body)
	e.bind(end)
}

// transposed transposes as many registers of 32-bit lanes as they have lanes: in quarters of 4 × 4, which are then
// exchanged.
func (e *emitter) transposed(rows []asm.Reg) []asm.Reg {
	out := make([]asm.Reg, len(rows))
	quarters := make([][turnedRows]asm.Reg, len(rows)/turnedRows)
	for g := range quarters {
		r := rows[g*turnedRows:]
		low, high := e.three(asm.VUNPCKLPS, r[0], r[1]), e.three(asm.VUNPCKHPS, r[0], r[1])
		low2, high2 := e.three(asm.VUNPCKLPS, r[2], r[3]), e.three(asm.VUNPCKHPS, r[2], r[3])
		quarters[g] = [turnedRows]asm.Reg{e.three(asm.VUNPCKLPD, low, low2), e.three(asm.VUNPCKHPD, low, low2),
			e.three(asm.VUNPCKLPD, high, high2), e.three(asm.VUNPCKHPD, high, high2)}
	}
	for i := range turnedRows {
		if !e.isa.masks {
			a, b := quarters[0][i], quarters[1][i]
			out[i], out[turnedRows+i] = e.shuffled(asm.VPERM2F128, a, b, 0x20), e.shuffled(asm.VPERM2F128, a, b, 0x31)
			continue
		}
		pair := func(g int) (low, high asm.Reg) {
			a, b := quarters[g][i], quarters[g+1][i]
			return e.shuffled(asm.VSHUFF32X4, a, b, 0x44), e.shuffled(asm.VSHUFF32X4, a, b, 0xee)
		}
		low, high := pair(0)
		low2, high2 := pair(2)
		for j, x := range []asm.Reg{e.shuffled(asm.VSHUFF32X4, low, low2, 0x88), e.shuffled(asm.VSHUFF32X4, low, low2, 0xdd),
			e.shuffled(asm.VSHUFF32X4, high, high2, 0x88), e.shuffled(asm.VSHUFF32X4, high, high2, 0xdd)} {
			out[j*turnedRows+i] = x
		}
	}
	return out
}

// shuffled returns quarters of two registers, selected by a number.
func (e *emitter) shuffled(op asm.Op, x, y asm.Reg, which int64) asm.Reg {
	r := e.builder.vector()
	e.Emit(asm.Inst{Op: op, Bits: uint16(e.isa.bits), Args: [4]asm.Reg{r, x, y}, Imm: which})
	return r
}
