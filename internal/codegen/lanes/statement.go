package lanes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// body emits statements in a scope of their declarations.
func (e *Emitter) body(list []loop.Stmt) {
	if t := e.turning; t != nil && t.is(list) {
		t.block(e, list)
		return
	}
	bound, names := e.bound, e.Names
	if slices.ContainsFunc(list, declares) {
		e.bound, e.Names = maps.Clone(bound), maps.Clone(names)
	}
	for i := 0; i < len(list); i++ {
		if n := e.group(list[i:]); n > 0 {
			i += n - 1
			continue
		}
		e.statement(list[i])
	}
	e.bound, e.Names = bound, names
}

// declares reports whether a statement may give a name a value in the statements that follow it.
func declares(s loop.Stmt) bool {
	switch s.(type) {
	case *loop.For, *loop.When, *loop.Store, *loop.Contract:
		return false
	}
	return true
}

// statement emits a statement; it refuses a kernel whose code would be too long.
func (e *Emitter) statement(s loop.Stmt) {
	if e.Kernel.written++; e.Kernel.written > mostWritten {
		Refuse("loops in loops, each written out in several versions")
	}
	switch s := s.(type) {
	case *loop.For:
		e.loop(s)
	case *loop.Let:
		e.bound[s.Name] = binding{Value: e.fixed(s.X), depth: e.here.Depth, narrow: e.narrowOf(s.X)}
	case *loop.Var:
		e.bound[s.Name] = binding{Value: e.variable(e.Value(s.X)), depth: e.here.Depth, mutable: true}
	case *loop.Set:
		e.set(e.bound[s.Name], e.Value(s.X))
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
		Refuse("a statement of type %T", s)
	}
}

// fixed returns the present value of an expression, which later assignments to its variables do not change.
func (e *Emitter) fixed(x loop.Expr) Value {
	v := e.Value(x)
	if r, ok := x.(*loop.Ref); ok && e.bound[r.Name].mutable {
		return e.fresh(v)
	}
	return v
}

// fresh returns a value in registers of its own.
func (e *Emitter) fresh(v Value) Value {
	return e.Each(v, func(x regalloc.Reg) regalloc.Reg { return e.CopyOf(x) })
}

// variable returns a copy of a value in new registers that may be overwritten; in a vector loop it may differ by lane.
func (e *Emitter) variable(v Value) Value {
	if e.Strip != nil {
		v.Uniform = false
	}
	return e.fresh(v)
}

// set assigns a value to the registers of a variable.
func (e *Emitter) set(b binding, x Value) {
	if b.Uniform && !x.Uniform {
		e.Kernel.Bug("a value that differs by lane is given to a name that does not")
	}
	// In one routine all masks are of one class, vectors or opmasks, so that registers can always be assigned.
	e.Assign(b.Lo, x.Lo)
	if b.Hi != regalloc.NoReg && b.Hi != b.Lo {
		e.Assign(b.Hi, x.Hi)
	}
}

// reduce combines a variable with a value. In an incomplete strip only its lanes change.
func (e *Emitter) reduce(b binding, s *loop.Reduce) {
	tail := e.TailMask()
	whole := tail == regalloc.NoReg || b.depth > e.Strip.Depth
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && whole && e.addProduct(b, m) {
		return
	}
	x := e.Value(s.X)
	r := e.Combine(s.Op, b.Value, x)
	if !whole {
		r = e.Choose(Value{DType: dtype.Bool, Lo: tail}, r, b.Value)
	}
	e.set(b, r)
}

// addProduct adds a product to a variable, if there is an instruction for both.
func (e *Emitter) addProduct(b binding, m *loop.Binary) bool {
	small, signed := e.isSmall(m)
	floats := m.Op == loop.Mul && (b.DType == dtype.F32 || b.DType == dtype.F64)
	if !floats && !small && m.Op != loop.Dot {
		return false
	}
	x, y := e.Value(m.X), e.Value(m.Y)
	switch {
	case small:
		e.AddSmallProduct(b.Lo, x.Lo, y.Lo, signed)
	case m.Op == loop.Dot:
		e.AddDot(b.Lo, x.Lo, y.Lo)
	default:
		e.AddProduct(b.DType, b.Lo, x.Lo, y.Lo)
		if b.Hi != regalloc.NoReg && b.Hi != b.Lo {
			e.AddProduct(b.DType, b.Hi, x.Hi, y.Hi)
		}
	}
	return true
}

// when emits a branch, or only the body that a decided condition takes; it refuses conditions that differ by lane.
func (e *Emitter) when(s *loop.When) {
	if !e.Uniform(s.Cond) {
		Refuse("a branch that differs by lane")
	}
	if holds, known := e.Decided(s.Cond); known {
		if holds {
			e.body(s.Then)
		} else {
			e.body(s.Else)
		}
		return
	}
	otherwise, done := e.Label(), e.Label()
	e.Branch(s.Cond, false, otherwise)
	arm := func(list []loop.Stmt) {
		scope := e.Open(list)
		e.body(list)
		body := e.Close()
		e.Place(scope, body)
	}
	arm(s.Then)
	if len(s.Else) > 0 {
		e.Jump(done)
		e.Bind(otherwise)
		arm(s.Else)
	} else {
		e.Bind(otherwise)
	}
	e.Bind(done)
}

// check makes a value usable in indices, or ends the call with the failed check.
func (e *Emitter) check(s *loop.Check) {
	v := e.Value(s.X)
	// 2⁶³ and more would be taken for negative numbers
	if least, _ := e.Bounds(e.Resolve(s.Min)); s.X.DType() == dtype.U64 && least < 0 {
		Refuse("a check of u64 against %s", s.Min)
	}
	if !v.Uniform {
		e.checkLanes(s, v)
		return
	}
	r, low, high := e.WholeNumber(v), e.IntegerOf(s.Min), e.IntegerOf(s.Max)
	wrong, right := e.Label(), e.Label()
	e.CompareNumbers(r, low)
	e.JumpIf(Less, wrong)
	e.CompareNumbers(r, high)
	e.JumpIf(LessOrEqual, right)
	e.Bind(wrong)
	e.FailCheck(s, r, low, high)
	e.Bind(right)
	e.Checked(s, Name{Register: r})
}

// FailCheck ends the call with the value and the bounds of a failed check.
func (e *Emitter) FailCheck(s *loop.Check, r, low, high regalloc.Reg) {
	for i, x := range []regalloc.Reg{r, low, high} {
		e.StoreWord(e.frameWord(e.Kernel.failed+i), x)
	}
	e.Kernel.checks = append(e.Kernel.checks, check{s.What, s.X.DType()})
	e.Return(int64(len(e.Kernel.checks)))
}

// Checked binds the name of a value that passed its check.
func (e *Emitter) Checked(s *loop.Check, n Name) {
	for _, scope := range e.scopes {
		scope.checked = true
	}
	// Each copy of the statement gets a unique name, since values computed with it are cached by name.
	unique := sym.Hidden(fmt.Sprintf("%s#%d", s.Name.Text(), e.Unique()))
	if known, ok := e.Kernel.Ranges.Get(s.Name); ok {
		e.Kernel.Ranges.Set(unique, known)
	}
	n.Depth = e.here.Depth
	e.Names[unique] = n
	e.Names[s.Name] = Name{Depth: e.here.Depth, replaced: true, value: sym.Var(unique)}
}

// loop emits a loop: as a vector loop if it is one and its body can be done in lanes, else one iteration after the
// other.
func (e *Emitter) loop(s *loop.For) {
	if s == e.rows && e.Strip != nil {
		e.sumsAlong(s)
		return
	}
	if e.rowsOfSums(s) || e.turned(s) {
		return
	}
	if s.Kind == loop.Vector && e.Strip == nil {
		saved := e.snapshot()
		if reason := attempt(func() { e.vectorParts(s) }); reason == "" {
			return
		} else {
			e.restore(saved)
			e.Kernel.Note("loop %s is not done in lanes: %s", s.Var, reason)
		}
	}
	e.serial(s)
}

// snapshot is the state of emission, which restore brings back after a failed attempt. Lists of instructions only grow,
// so their lengths are enough.
type snapshot struct {
	scopes []*scope
	copies []scope
	code   Code
	names  map[sym.Name]Name
	bound  map[string]binding
	checks int
}

// snapshot copies the emitter's state, so that restore can undo a failed attempt.
func (e *Emitter) snapshot() snapshot {
	s := snapshot{scopes: slices.Clone(e.scopes), code: e.Code(), names: maps.Clone(e.Names), bound: maps.Clone(e.bound),
		checks: len(e.Kernel.checks)}
	for _, scope := range e.scopes {
		c := *scope
		c.headReady, c.bodyReady = maps.Clone(c.headReady), maps.Clone(c.bodyReady)
		s.copies = append(s.copies, c)
	}
	return s
}

// restore drops everything that was emitted since a snapshot.
func (e *Emitter) restore(s snapshot) {
	e.scopes, e.Names, e.bound = s.scopes, s.names, s.bound
	e.SetCode(s.code)
	for i, scope := range e.scopes {
		*scope = s.copies[i]
	}
	e.here, e.inHead, e.Strip = e.scopes[len(e.scopes)-1], false, nil
	e.Kernel.checks = e.Kernel.checks[:s.checks]
}

// mostWritten is the largest number of statements that are emitted for a kernel, failed attempts included: the number
// of versions of nested loops grows as a power of their depth.
const mostWritten = 1 << 17

// mostUnrolled is the largest number of statements of all copies of an unrolled loop.
const mostUnrolled = 64

// serial emits a loop of one iteration after the other; short loops are unrolled.
func (e *Emitter) serial(s *loop.For) {
	extent := e.Resolve(s.Extent)
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
func (e *Emitter) part(s *loop.For, first, end sym.Expr) {
	from, ok1 := first.Const()
	to, ok2 := end.Const()
	if ok1 && ok2 {
		if to-from == 1 {
			e.written(s, from, to)
			return
		} else if to <= from {
			return
		}
		known, _ := e.Kernel.Ranges.Get(s.Var)
		e.Kernel.Ranges.Set(s.Var, sym.Range{Min: from, Max: to - 1})
		defer e.Kernel.Ranges.Set(s.Var, known)
	}
	e.counted(s, first, end, s.Body, func() { e.body(s.Body) })
}

// written unrolls iterations of a loop.
func (e *Emitter) written(s *loop.For, first, end int64) {
	outer := e.Names
	e.Names = maps.Clone(outer)
	for i := first; i < end; i++ {
		e.Names[s.Var] = Name{Depth: e.here.Depth, replaced: true, value: sym.Const(i)}
		e.body(s.Body)
	}
	e.Names = outer
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
func (e *Emitter) counted(s *loop.For, first, end sym.Expr, around []loop.Stmt, body func()) {
	to, fixed := end.Const()
	limit := regalloc.NoReg
	if !fixed {
		limit = e.IntegerOf(end)
	}
	var inner []regalloc.Reg
	for _, x := range loop.Hollow(s, func(x sym.Expr) int64 { lo, _ := e.Bounds(e.Resolve(x)); return lo }, e.Most) {
		inner = append(inner, e.IntegerOf(x))
	}
	scope := e.Open(around)
	lo, _ := e.Bounds(end.Sub(first))
	scope.Certain = lo > 0 && len(inner) == 0
	outer := e.Names
	e.Names = maps.Clone(outer)
	i := e.General()
	e.Names[s.Var] = Name{Depth: scope.Depth, Register: i}
	body()
	e.Names = outer
	list := e.Close()
	over, again := e.Label(), e.Label()
	if !scope.Certain {
		if fixed {
			limit = e.Number(to)
		}
		e.CompareNumbers(limit, e.IntegerOf(first))
		e.JumpIf(LessOrEqual, over)
	}
	for _, x := range inner {
		e.CompareNumber(x, 0)
		e.JumpIf(LessOrEqual, over)
	}
	e.AppendCode(scope.Head)
	if from, ok := first.Const(); ok {
		e.SetNumber(i, from)
	} else {
		e.Assign(i, e.IntegerOf(first))
	}
	_, most := e.Bounds(end.Sub(first))
	_, start := first.Const()
	e.Turns(again, most, fixed && start, i, 1)
	e.AppendCode(list)
	e.IntegerNumber(Add, i, 1)
	if fixed {
		e.CompareNumber(i, to)
	} else {
		e.CompareNumbers(i, limit)
	}
	e.JumpIf(Less, again)
	e.Bind(over)
}

// rebodyKeep is rebody, but keeps the cached values, on which the following code may rely.
func (e *Emitter) rebodyKeep() (body Code) {
	body = e.Code()
	e.SetCode(nil)
	return body
}

// joined returns a list of instructions followed by another, which are then no longer valid; the innermost scope's body
// begins again.
func (e *Emitter) joined(first, second Code) Code {
	e.SetCode(first)
	e.AppendCode(second)
	return e.rebodyKeep()
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
