package amd64

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// body emits statements in a scope of their declarations.
func (e *emitter) body(list []loop.Stmt) {
	if t := e.turning; t != nil && t.is(list) {
		t.block(e, list)
		return
	}
	bound, names := e.bound, e.names
	e.bound, e.names = maps.Clone(bound), maps.Clone(names)
	for i := 0; i < len(list); i++ {
		if n := e.group(list[i:]); n > 0 {
			i += n - 1
			continue
		}
		e.statement(list[i])
	}
	e.bound, e.names = bound, names
}

// statement emits a statement; it refuses a kernel whose code would be too long.
func (e *emitter) statement(s loop.Stmt) {
	if e.k.written++; e.k.written > mostWritten {
		refuse("loops in loops, each written out in several versions")
	}
	switch s := s.(type) {
	case *loop.For:
		e.loop(s)
	case *loop.Let:
		e.bound[s.Name] = binding{value: e.fixed(s.X), depth: e.here.depth}
	case *loop.Var:
		e.bound[s.Name] = binding{value: e.variable(e.value(s.X)), depth: e.here.depth, mutable: true}
	case *loop.Set:
		e.set(e.bound[s.Name], e.value(s.X))
	case *loop.Reduce:
		e.reduce(e.bound[s.Name], s)
	case *loop.Check:
		e.check(s)
	case *loop.Store:
		e.store(s)
	case *loop.When:
		e.when(s)
	case *loop.Local:
	case *loop.Contract:
		e.contract(s)
	default:
		refuse("a statement of type %T", s)
	}
}

// fixed returns the present value of an expression, which later assignments to its variables do not change.
func (e *emitter) fixed(x loop.Expr) value {
	v := e.value(x)
	if r, ok := x.(*loop.Ref); ok && e.bound[r.Name].mutable {
		return e.fresh(v)
	}
	return v
}

// fresh returns a value in registers of its own.
func (e *emitter) fresh(v value) value {
	return e.each(v, func(x asm.Reg) asm.Reg { return e.copyOf(x) })
}

// variable returns a copy of a value in new registers that may be overwritten; in a vector loop it may differ by lane.
func (e *emitter) variable(v value) value {
	if e.vector != nil {
		v.uniform = false
	}
	return e.fresh(v)
}

// set assigns a value to the registers of a variable.
func (e *emitter) set(b binding, x value) {
	if b.uniform && !x.uniform {
		e.k.bug("a value that differs by lane is given to a name that does not")
	}
	// In one routine all masks are of one class, vectors or opmasks, so that registers can always be assigned.
	e.assign(b.lo, x.lo)
	if b.hi != asm.NoReg && b.hi != b.lo {
		e.assign(b.hi, x.hi)
	}
}

// reduce combines a variable with a value. In an incomplete strip only its lanes change.
func (e *emitter) reduce(b binding, s *loop.Reduce) {
	tail := e.tailMask()
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Mul &&
		(b.dtype == dtype.F32 || b.dtype == dtype.F64) && (tail == asm.NoReg || b.depth > e.vector.depth) {
		op := asm.VFMADD231PS
		if b.dtype == dtype.F64 {
			op = asm.VFMADD231PD
		}
		x, y := e.value(m.X), e.value(m.Y)
		e.accumulate(op, b.lo, x.lo, y.lo)
		if b.hi != asm.NoReg && b.hi != b.lo {
			e.accumulate(op, b.hi, x.hi, y.hi)
		}
		return
	}
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Dot &&
		(tail == asm.NoReg || b.depth > e.vector.depth) {
		x, y := e.value(m.X), e.value(m.Y)
		e.addDot(b.lo, x.lo, y.lo)
		return
	}
	x := e.value(s.X)
	r := e.combine(s.Op, b.value, x)
	if tail != asm.NoReg && b.depth <= e.vector.depth {
		r = e.choose(value{dtype: dtype.Bool, lo: tail}, r, b.value)
	}
	e.set(b, r)
}

// when emits a branch, or only the body that a decided condition takes; it refuses conditions that differ by lane.
func (e *emitter) when(s *loop.When) {
	if !e.uniform(s.Cond) {
		refuse("a branch that differs by lane")
	}
	if holds, known := e.decided(s.Cond); known {
		if holds {
			e.body(s.Then)
		} else {
			e.body(s.Else)
		}
		return
	}
	otherwise, done := e.label(), e.label()
	e.branch(s.Cond, false, otherwise)
	arm := func(list []loop.Stmt) {
		scope := e.open(list)
		e.body(list)
		body := e.close()
		e.Append(scope.head)
		e.Append(body)
	}
	arm(s.Then)
	if len(s.Else) > 0 {
		e.jump(asm.JMP, done)
		e.bind(otherwise)
		arm(s.Else)
	} else {
		e.bind(otherwise)
	}
	e.bind(done)
}

// check makes a value usable in indices, or ends the call with the failed check.
func (e *emitter) check(s *loop.Check) {
	v := e.value(s.X)
	// 2⁶³ and more would be taken for negative numbers
	if least, _ := e.bounds(e.resolve(s.Min)); s.X.DType() == dtype.U64 && least < 0 {
		refuse("a check of u64 against %s", s.Min)
	}
	if !v.uniform {
		e.checkLanes(s, v)
		return
	}
	r, low, high := e.wholeNumber(v), e.integer(s.Min), e.integer(s.Max)
	wrong, right := e.label(), e.label()
	e.compareNumbers(r, low)
	e.jump(asm.JL, wrong)
	e.compareNumbers(r, high)
	e.jump(asm.JLE, right)
	e.bind(wrong)
	e.failCheck(s, r, low, high)
	e.bind(right)
	e.checked(s, name{register: r})
}

// failCheck ends the call with the value and the bounds of a failed check.
func (e *emitter) failCheck(s *loop.Check, r, low, high asm.Reg) {
	for i, x := range []asm.Reg{r, low, high} {
		e.storeWord(frameWord(e.k.failed+i), x)
	}
	e.k.checks = append(e.k.checks, check{s.What, s.X.DType()})
	e.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX}, Imm: int64(len(e.k.checks))})
	e.Emit(asm.Inst{Op: asm.RET})
}

// checked binds the name of a value that passed its check.
func (e *emitter) checked(s *loop.Check, n name) {
	for _, scope := range e.scopes {
		scope.checked = true
	}
	// Each copy of the statement gets a unique name, since values computed with it are cached by name.
	unique := sym.Hidden(fmt.Sprintf("%s#%d", s.Name.Text(), e.Registers(asm.General)))
	if known, ok := e.k.ranges.Get(s.Name); ok {
		e.k.ranges.Set(unique, known)
	}
	n.depth = e.here.depth
	e.names[unique] = n
	e.names[s.Name] = name{depth: e.here.depth, replaced: true, value: sym.Var(unique)}
}

// loop emits a loop: as a vector loop if it is one and its body can be done in lanes, else one iteration after the
// other.
func (e *emitter) loop(s *loop.For) {
	if s == e.rows && e.vector != nil {
		e.sumsAlong(s)
		return
	}
	if e.rowsOfSums(s) || e.turned(s) {
		return
	}
	if s.Kind == loop.Vector && e.vector == nil {
		saved := e.snapshot()
		if reason := attempt(func() { e.vectorParts(s) }); reason == "" {
			return
		} else {
			e.restore(saved)
			e.k.note("loop %s is not done in lanes: %s", s.Var, reason)
		}
	}
	e.serial(s)
}

// snapshot is the state of emission, which restore brings back after a failed attempt. Lists of instructions only grow,
// so their lengths are enough.
type snapshot struct {
	scopes []*scope
	copies []scope
	insts  []asm.Inst
	names  map[sym.Name]name
	bound  map[string]binding
	checks int
}

// snapshot copies the emitter's state, so that restore can undo a failed attempt.
func (e *emitter) snapshot() snapshot {
	s := snapshot{scopes: slices.Clone(e.scopes), insts: e.Insts, names: maps.Clone(e.names), bound: maps.Clone(e.bound),
		checks: len(e.k.checks)}
	for _, scope := range e.scopes {
		c := *scope
		c.headReady, c.bodyReady = maps.Clone(c.headReady), maps.Clone(c.bodyReady)
		s.copies = append(s.copies, c)
	}
	return s
}

// restore drops everything that was emitted since a snapshot.
func (e *emitter) restore(s snapshot) {
	e.scopes, e.Insts, e.names, e.bound = s.scopes, s.insts, s.names, s.bound
	for i, scope := range e.scopes {
		*scope = s.copies[i]
	}
	e.here, e.inHead, e.vector = e.scopes[len(e.scopes)-1], false, nil
	e.k.checks = e.k.checks[:s.checks]
}

// mostWritten is the largest number of statements that are emitted for a kernel, failed attempts included: the number
// of versions of nested loops grows as a power of their depth.
const mostWritten = 1 << 17

// mostUnrolled is the largest number of statements of all copies of an unrolled loop.
const mostUnrolled = 64

// serial emits a loop of one iteration after the other; short loops are unrolled.
func (e *emitter) serial(s *loop.For) {
	extent := e.resolve(s.Extent)
	if n, ok := extent.Const(); ok {
		if n <= 0 {
			return
		}
		if n == 1 || copied(n, s.Body) <= mostUnrolled {
			e.written(s, 0, n)
			return
		}
	}
	if n, ok := extent.Const(); ok {
		if first, end, ok := e.interior(s.Var, n, s.Body); ok {
			e.part(s, sym.Const(0), sym.Const(first))
			e.part(s, sym.Const(first), sym.Const(end))
			e.part(s, sym.Const(end), sym.Const(n))
			return
		}
	}
	e.part(s, sym.Const(0), extent)
}

// part emits the iterations [first, end) of a loop.
func (e *emitter) part(s *loop.For, first, end sym.Expr) {
	from, ok1 := first.Const()
	to, ok2 := end.Const()
	if ok1 && ok2 {
		if to-from == 1 {
			e.written(s, from, to)
			return
		} else if to <= from {
			return
		}
		known, _ := e.k.ranges.Get(s.Var)
		e.k.ranges.Set(s.Var, sym.Range{Min: from, Max: to - 1})
		defer e.k.ranges.Set(s.Var, known)
	}
	e.counted(s, first, end, s.Body, func() { e.body(s.Body) })
}

// written unrolls iterations of a loop.
func (e *emitter) written(s *loop.For, first, end int64) {
	outer := e.names
	e.names = maps.Clone(outer)
	for i := first; i < end; i++ {
		e.names[s.Var] = name{depth: e.here.depth, replaced: true, value: sym.Const(i)}
		e.body(s.Body)
	}
	e.names = outer
}

// weight returns the number of statements that a body runs, if its loops are unrolled.
func weight(list []loop.Stmt) int64 {
	total := int64(0)
	for _, s := range list {
		switch s := s.(type) {
		case *loop.For:
			n, ok := s.Extent.Const()
			if !ok || s.Kind == loop.Vector {
				n = mostUnrolled
			}
			total += copied(n, s.Body)
		case *loop.Contract:
			total += mostUnrolled
		default:
			total++
			for _, inner := range loop.Bodies(s) {
				total += weight(*inner)
			}
		}
		if total > mostUnrolled {
			return total
		}
	}
	return total
}

// copied returns the number of statements that n copies of a body run, or a number beyond mostUnrolled. An empty body
// counts as one statement.
func copied(n int64, body []loop.Stmt) int64 {
	if n <= 0 {
		return 0
	}
	each := max(weight(body), 1)
	if each > mostUnrolled/n {
		return mostUnrolled + 1
	}
	return n * each
}

// counted emits a loop whose variable counts from first up to end. around is the statements that body emits.
func (e *emitter) counted(s *loop.For, first, end sym.Expr, around []loop.Stmt, body func()) {
	to, fixed := end.Const()
	limit := asm.NoReg
	if !fixed {
		limit = e.integer(end)
	}
	var inner []asm.Reg
	for _, x := range loop.Hollow(s, func(x sym.Expr) int64 { lo, _ := e.bounds(e.resolve(x)); return lo }, e.most) {
		inner = append(inner, e.integer(x))
	}
	scope := e.open(around)
	lo, _ := e.bounds(end.Sub(first))
	scope.certain = lo > 0 && len(inner) == 0
	outer := e.names
	e.names = maps.Clone(outer)
	i := e.general()
	e.names[s.Var] = name{depth: scope.depth, register: i}
	body()
	e.names = outer
	list := e.close()
	over, again := e.label(), e.label()
	if !scope.certain {
		if fixed {
			limit = e.number(to)
		}
		e.compareNumbers(limit, e.integer(first))
		e.jump(asm.JLE, over)
	}
	for _, x := range inner {
		e.integerImm(asm.CMP, x, 0)
		e.jump(asm.JLE, over)
	}
	e.Append(scope.head)
	if from, ok := first.Const(); ok {
		e.setNumber(i, from)
	} else {
		e.assign(i, e.integer(first))
	}
	_, most := e.bounds(end.Sub(first))
	_, start := first.Const()
	e.turns(again, most, fixed && start, i, 1)
	e.Append(list)
	e.integerImm(asm.ADD, i, 1)
	if fixed {
		e.integerImm(asm.CMP, i, to)
	} else {
		e.compareNumbers(i, limit)
	}
	e.jump(asm.JL, again)
	e.bind(over)
}

// rebodyKeep is rebody, but keeps the cached values, on which the following code may rely.
func (e *emitter) rebodyKeep() (body []asm.Inst) {
	body, e.Insts = e.Insts, nil
	return body
}

// storedIn returns the names of the buffers that a body stores to.
func storedIn(body []loop.Stmt) (names []string) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Store:
			names = append(names, s.To)
		case *loop.Contract:
			names = append(names, s.C.Buffer)
		}
		return true
	})
	return names
}

// assignedIn returns the names of the variables that a body sets or reduces.
func assignedIn(body []loop.Stmt) (names []string) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Set:
			names = append(names, s.Name)
		case *loop.Reduce:
			names = append(names, s.Name)
		}
		return true
	})
	return names
}

// declaredIn returns the names of the scalars that a body declares.
func declaredIn(body []loop.Stmt) (names []string) {
	loop.Walk(body, func(s loop.Stmt) bool {
		switch s := s.(type) {
		case *loop.Let:
			names = append(names, s.Name)
		case *loop.Var:
			names = append(names, s.Name)
		}
		return true
	})
	return names
}
