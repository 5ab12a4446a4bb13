package amd64

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// body emits statements. What they declare ends with them.
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

// fixed is a value that later assignments to the variables in it do not change.
func (e *emitter) fixed(x loop.Expr) value {
	v := e.value(x)
	if r, ok := x.(*loop.Ref); ok && e.bound[r.Name].mutable {
		return e.fresh(v)
	}
	return v
}

// fresh is a value in registers of its own.
func (e *emitter) fresh(v value) value {
	return e.each(v, func(x asm.Reg) asm.Reg { return e.copyOf(x) })
}

// variable is a value in registers of its own that may be given other values: in a vector loop, one in each lane.
func (e *emitter) variable(v value) value {
	if e.vector != nil {
		v.uniform = false
	}
	return e.fresh(v)
}

func (e *emitter) set(b binding, x value) {
	if b.uniform && !x.uniform {
		e.k.bug("a value that differs by lane is given to a name that does not")
	}
	// Masks as vectors and masks as opmasks are of one class in one routine, so that registers can always be assigned.
	e.assign(b.lo, x.lo)
	if b.hi != asm.NoReg && b.hi != b.lo {
		e.assign(b.hi, x.hi)
	}
}

// reduce combines a variable with a value. In a part of a strip only the lanes that there are change.
func (e *emitter) reduce(b binding, s *loop.Reduce) {
	tail := e.tailMask()
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Mul && (b.dtype == dtype.F32 || b.dtype == dtype.F64) && (tail == asm.NoReg || b.depth > e.vector.depth) {
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
	if m, ok := s.X.(*loop.Binary); ok && s.Op == loop.Add && m.Op == loop.Dot && (tail == asm.NoReg || b.depth > e.vector.depth) {
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
		e.append(scope.head)
		e.append(body)
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

// check makes a value usable in indices, or ends the call with what was wrong about it.
func (e *emitter) check(s *loop.Check) {
	v := e.value(s.X)
	if least, _ := e.bounds(e.resolve(s.Min)); s.X.DType() == dtype.U64 && least < 0 { // 2⁶³ and more would pass for negative numbers
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

// failCheck ends the call with what was wrong.
func (e *emitter) failCheck(s *loop.Check, r, low, high asm.Reg) {
	for i, x := range []asm.Reg{r, low, high} {
		e.storeWord(frameWord(e.k.failed+i), x)
	}
	e.k.checks = append(e.k.checks, check{s.What, s.X.DType()})
	e.emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX}, Imm: int64(len(e.k.checks))})
	e.emit(asm.Inst{Op: asm.RET})
}

// checked gives what passed a check its name.
func (e *emitter) checked(s *loop.Check, n name) {
	for _, scope := range e.scopes {
		scope.checked = true
	}
	// A name of its own for each copy of the statement, since what is computed with it is remembered by its name.
	unique := sym.Hidden(fmt.Sprintf("%s#%d", s.Name.Text(), e.count[asm.General]))
	if known, ok := e.k.ranges.Get(s.Name); ok {
		e.k.ranges.Set(unique, known)
	}
	n.depth = e.here.depth
	e.names[unique] = n
	e.names[s.Name] = name{depth: e.here.depth, replaced: true, value: sym.Var(unique)}
}

// loop emits a loop: as a vector loop where it is one and its body can be done in lanes, else one iteration after the other.
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

// snapshot is the state of emission, to which a failed attempt goes back. Lists of instructions only grow, so their lengths are enough.
type snapshot struct {
	scopes []*scope
	copies []scope
	insts  []asm.Inst
	names  map[sym.Name]name
	bound  map[string]binding
	checks int
}

func (e *emitter) snapshot() snapshot {
	s := snapshot{scopes: slices.Clone(e.scopes), insts: e.insts, names: maps.Clone(e.names), bound: maps.Clone(e.bound), checks: len(e.k.checks)}
	for _, scope := range e.scopes {
		c := *scope
		c.headReady, c.bodyReady = maps.Clone(c.headReady), maps.Clone(c.bodyReady)
		s.copies = append(s.copies, c)
	}
	return s
}

func (e *emitter) restore(s snapshot) {
	e.scopes, e.insts, e.names, e.bound = s.scopes, s.insts, s.names, s.bound
	for i, scope := range e.scopes {
		*scope = s.copies[i]
	}
	e.here, e.inHead, e.vector = e.scopes[len(e.scopes)-1], false, nil
	e.k.checks = e.k.checks[:s.checks]
}

// mostWritten is how many statements are written out for a kernel, attempts that were given up included: versions of
// loops in versions of loops are a power of their depth.
const mostWritten = 1 << 17

// mostUnrolled is how many statements the copies of an unrolled loop may have together.
const mostUnrolled = 64

// serial emits a loop of one iteration after the other; short ones are written out.
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

// part emits the iterations of a loop from first on and below end.
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
	e.counted(first, end, s.Var, s.Body, func() { e.body(s.Body) })
}

// written writes out iterations of a loop.
func (e *emitter) written(s *loop.For, first, end int64) {
	outer := e.names
	e.names = maps.Clone(outer)
	for i := first; i < end; i++ {
		e.names[s.Var] = name{depth: e.here.depth, replaced: true, value: sym.Const(i)}
		e.body(s.Body)
	}
	e.names = outer
}

// weight is how many statements a body runs, if its loops are written out.
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

// copied is how many statements so many copies of a body run, or a number beyond mostUnrolled. A body of nothing counts
// as a statement: its copies take time all the same.
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
func (e *emitter) counted(first, end sym.Expr, variable sym.Name, around []loop.Stmt, body func()) {
	to, fixed := end.Const()
	limit := asm.NoReg
	if !fixed {
		limit = e.integer(end)
	}
	scope := e.open(around)
	lo, _ := e.bounds(end.Sub(first))
	scope.certain = lo > 0
	outer := e.names
	e.names = maps.Clone(outer)
	i := e.general()
	e.names[variable] = name{depth: scope.depth, register: i}
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
	e.append(scope.head)
	if from, ok := first.Const(); ok {
		e.setNumber(i, from)
	} else {
		e.assign(i, e.integer(first))
	}
	_, most := e.bounds(end.Sub(first))
	_, start := first.Const()
	e.turns(again, most, fixed && start, i, 1)
	e.append(list)
	e.integerImm(asm.ADD, i, 1)
	if fixed {
		e.integerImm(asm.CMP, i, to)
	} else {
		e.compareNumbers(i, limit)
	}
	e.jump(asm.JL, again)
	e.bind(over)
}

// reduction is a variable from outside a vector loop that the loop reduces: each copy of the body has lanes of its own.
type reduction struct {
	name   string
	op     loop.BinaryOp
	target binding
	lanes  []value
}

// copies is how many strips of a loop that reduces are done at once, so that their sums need not wait for one another.
const copies = 4

// vectorLoop emits the iterations of a loop from start on in strips of lanes: copies of whole strips, whole strips, and
// a part of one, whose lanes are masked; where that is not possible, the last few iterations run one after the other.
func (e *emitter) vectorLoop(s *loop.For, start int64, extent sym.Expr) {
	constant, fixed := extent.Const()
	if fixed && constant <= 0 {
		return
	}
	count := asm.NoReg
	if !fixed {
		count = e.integer(extent)
	}
	width := int64(e.isa.lanes)
	reductions := e.reductions(s)
	strips := int64(1)
	if len(reductions) > 0 && weight(s.Body) <= 8 {
		strips = copies
	}
	for i := range reductions {
		r := &reductions[i]
		for c := range strips {
			if c > 0 && e.collect != nil { // there are others to do meanwhile
				r.lanes = append(r.lanes, r.lanes[0])
				continue
			}
			r.lanes = append(r.lanes, e.fresh(e.varying(e.identity(r.op, r.target.dtype))))
		}
	}

	scope := e.open(s.Body)
	outerNames, outerBound := e.names, e.bound
	e.names, e.bound = maps.Clone(outerNames), maps.Clone(outerBound)
	first := sym.Hidden(s.Var.Text() + "#")
	e.k.ranges.Set(first, sym.Range{Min: 0, Max: max(e.most(extent)-1, 0)})
	i := e.general()
	e.names[first] = name{depth: scope.depth, register: i}
	lo, _ := e.bounds(extent)
	scope.certain = lo > 0
	lane0, number := sym.Hidden(s.Var.Text()+"##"), sym.Hidden(s.Var.Text()+"###")
	known, _ := e.k.ranges.Get(first)
	e.k.ranges.Set(lane0, known)
	e.k.ranges.Set(number, sym.Range{Min: 0, Max: int64(e.isa.lanes) - 1})
	e.names[lane0] = name{depth: scope.depth, register: i}
	e.vector = &vectorLoop{depth: scope.depth, original: s.Var, variable: first, lane0: lane0, number: number}
	e.names[number] = name{depth: scope.depth, lanes: e.laneSteps(sym.Const(1), dtype.I32)}
	strip := func(n int64, tail asm.Reg) []asm.Inst {
		e.vector.tail = tail
		for c := range n {
			e.names[s.Var] = name{depth: scope.depth, replaced: true, value: sym.Var(first).Add(sym.Const(start + c*width))}
			for _, r := range reductions {
				e.bound[r.name] = binding{value: r.lanes[c], depth: scope.depth, mutable: true}
			}
			e.body(s.Body)
		}
		return e.rebody()
	}
	var many, tail []asm.Inst
	e.names[s.Var] = name{depth: scope.depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
	if n := e.stripsMoved(s); n > 1 && !(fixed && constant < n*width) {
		e.moveRun(s.Body[0].(*loop.Store))
		many, strips = e.rebody(), n
	} else if strips > 1 && !(fixed && constant < strips*width) {
		many = strip(strips, asm.NoReg)
	}
	with := int64(0) // whole strips that are done with the part of one
	if n := e.jammable(s); n > 1 && many == nil {
		switch {
		case fixed && constant%width != 0 && constant/width+1 <= n && constant > width:
			with = constant / width
		case fixed:
			n = together(constant/width, n)
		default:
			n = min(n, e.most(extent)/width)
		}
		if with == 0 && n > 1 {
			e.vector.tail = asm.NoReg
			e.jammed(s, n).emit(e)
			many, strips = e.rebody(), n
		}
	}
	one := strip(1, asm.NoReg)
	lanesAtEnd := true
	if !fixed || constant%width != 0 {
		saved := e.snapshot()
		if reason := attempt(func() {
			rest := e.general()
			if fixed {
				e.setNumber(rest, constant%width)
			} else {
				e.assign(rest, count)
				e.integerOp(asm.SUB, rest, i)
			}
			mask := e.firstLanes(rest)
			setup := e.rebodyKeep()
			if with > 0 {
				e.names[s.Var] = name{depth: scope.depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
				j := e.jammed(s, with+1)
				j.tails[with] = mask
				j.emit(e)
				tail, one = append(setup, e.rebody()...), nil
				return
			}
			tail = append(setup, strip(1, mask)...)
		}); reason != "" {
			e.restore(saved)
			e.vector = nil
			lanesAtEnd = false
			e.names[s.Var] = name{depth: scope.depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
			for _, r := range reductions {
				e.bound[r.name] = r.target
			}
			e.body(s.Body)
			tail = e.rebody()
		}
	}
	e.vector = nil
	e.names, e.bound = outerNames, outerBound
	e.close()

	e.assemble(&stripLoop{scope: scope, i: i, count: count, constant: constant, fixed: fixed, extent: extent, many: many, one: one, tail: tail, lanesAtEnd: lanesAtEnd,
		width: strips * width, reductions: reductions})
}

// stripLoop is the parts of a vector loop: bodies of several whole strips and of one, and of what is left over, in lanes or (not lanesAtEnd) one iteration after the other.
type stripLoop struct {
	scope           *scope
	i, count        asm.Reg // the counter, and the number of iterations where it is not fixed
	constant        int64   // where fixed
	fixed           bool
	extent          sym.Expr
	many, one, tail []asm.Inst
	width           int64 // iterations that many does
	lanesAtEnd      bool
	reductions      []reduction
}

// assemble writes the loops around the bodies of a vector loop.
func (e *emitter) assemble(l *stripLoop) {
	if e.collect != nil && !l.lanesAtEnd {
		refuse("rows that do not end in lanes")
	}
	end := e.label()
	if !l.fixed {
		if lo, _ := e.bounds(l.extent); lo < 1 {
			e.integerOp(asm.TEST, l.count, l.count)
			e.jump(asm.JLE, end)
		}
	}
	e.append(l.scope.head)
	e.setNumber(l.i, 0)
	done := int64(0) // where l.fixed
	while := func(body []asm.Inst, width int64) {
		if body == nil {
			return
		}
		again, over := e.label(), e.label()
		if l.fixed {
			last := l.constant / width * width
			if last <= done {
				return
			}
			e.turns(again, (last-done)/width, true, l.i, width)
			e.append(body)
			if done+width < last || last < l.constant || width != int64(e.isa.lanes) {
				e.integerImm(asm.ADD, l.i, width)
			}
			if done+width < last {
				e.integerImm(asm.CMP, l.i, last)
				e.jump(asm.JL, again)
			}
			done = last
			return
		}
		limit := e.copyOf(l.count)
		e.integerImm(asm.SUB, limit, width)
		e.compareNumbers(l.i, limit)
		e.jump(asm.JG, over)
		e.turns(again, e.most(l.extent)/width, false, l.i, width)
		e.append(body)
		e.integerImm(asm.ADD, l.i, width)
		e.compareNumbers(l.i, limit)
		e.jump(asm.JLE, again)
		e.bind(over)
	}
	while(l.many, l.width)
	while(l.one, int64(e.isa.lanes))
	if l.lanesAtEnd {
		if l.tail != nil {
			over := e.label()
			if !l.fixed {
				e.compareNumbers(l.i, l.count)
				e.jump(asm.JGE, over)
			}
			e.append(l.tail)
			e.bind(over)
		}
		e.bind(end)
		e.combineLanes(l.reductions)
		return
	}
	e.combineLanes(l.reductions)
	over, again := e.label(), e.label()
	if l.fixed {
		l.count = e.number(l.constant)
	}
	e.compareNumbers(l.i, l.count)
	e.jump(asm.JGE, over)
	e.turns(again, e.most(l.extent), false, l.i, 1)
	e.append(l.tail)
	e.integerImm(asm.ADD, l.i, 1)
	e.compareNumbers(l.i, l.count)
	e.jump(asm.JL, again)
	e.bind(over)
	e.bind(end)
}

// rebodyKeep is rebody for code that what follows in the same body may rely on.
func (e *emitter) rebodyKeep() (body []asm.Inst) {
	body, e.insts = e.insts, nil
	return body
}

// reductions are the variables from outside a loop that its body reduces.
func (e *emitter) reductions(s *loop.For) []reduction {
	var list []reduction
	declared := declaredIn(s.Body)
	loop.Walk(s.Body, func(s loop.Stmt) bool {
		r, ok := s.(*loop.Reduce)
		if !ok || slices.Contains(declared, r.Name) {
			return true
		}
		if at := slices.IndexFunc(list, func(other reduction) bool { return other.name == r.Name }); at >= 0 {
			if list[at].op != r.Op {
				refuse("%s is reduced in two ways", r.Name)
			}
			return true
		}
		list = append(list, reduction{name: r.Name, op: r.Op, target: e.bound[r.Name]})
		return true
	})
	return list
}

// combineLanes adds what the lanes have collected to the variables.
func (e *emitter) combineLanes(list []reduction) {
	if e.collect != nil {
		e.collect(list)
		return
	}
	for _, r := range list {
		lanes := r.lanes
		for len(lanes) > 1 {
			half := len(lanes) / 2
			next := make([]value, half)
			for i := range next {
				next[i] = e.combine(r.op, lanes[i], lanes[i+half])
			}
			lanes = next
		}
		e.set(r.target, e.combine(r.op, r.target.value, e.across(r.op, lanes[0])))
	}
}

// across combines the lanes of a value into all of them.
func (e *emitter) across(op loop.BinaryOp, v value) value {
	if v.kind() == flags {
		return e.acrossFlags(op, v)
	}
	if v.kind().wide() {
		v = e.combine(op, value{dtype: v.dtype, lo: v.lo, hi: v.lo}, value{dtype: v.dtype, lo: v.hi, hi: v.hi})
	}
	turned := func(do func(x asm.Reg) asm.Reg) {
		mine, other := value{dtype: v.dtype, lo: v.lo}, value{dtype: v.dtype, lo: do(v.lo)}
		if v.kind().wide() {
			mine.hi, other.hi = mine.lo, other.lo
		}
		v = e.combine(op, mine, other)
	}
	if e.isa.bits == 512 {
		turned(func(x asm.Reg) asm.Reg { return e.vectorOf(asm.VSHUFF64X2, 0x4e, x, x) })
		turned(func(x asm.Reg) asm.Reg { return e.vectorOf(asm.VSHUFF64X2, 0xb1, x, x) })
	} else {
		turned(func(x asm.Reg) asm.Reg { return e.vectorOf(asm.VPERM2F128, 0x01, x, x) })
	}
	turned(func(x asm.Reg) asm.Reg { return e.twoImm(asm.VPSHUFD, x, 0x4e) })
	if !v.kind().wide() {
		turned(func(x asm.Reg) asm.Reg { return e.twoImm(asm.VPSHUFD, x, 0xb1) })
	}
	v.uniform = true
	if v.kind().wide() {
		v.hi = v.lo
	} else {
		v.hi = asm.NoReg
	}
	return v
}

func (e *emitter) acrossFlags(op loop.BinaryOp, v value) value {
	bits := e.bitsOf(v.lo)
	r := e.number(0)
	one := e.number(-1)
	switch op {
	case loop.Or, loop.Max:
		e.integerOp(asm.TEST, bits, bits)
		e.integerOp(asm.CMOVNE, r, one)
	case loop.And, loop.Min:
		e.integerImm(asm.CMP, bits, 1<<e.isa.lanes-1)
		e.integerOp(asm.CMOVE, r, one)
	default:
		refuse("%s over lanes of bool", op)
	}
	return value{dtype: dtype.Bool, uniform: true, lo: e.equalInt(e.broadcastInt(r), e.integer32(-1))}
}

// varying is a uniform value as one that may differ by lane.
func (e *emitter) varying(v value) value {
	v.uniform = false
	return v
}

// identity is what combining with changes nothing.
func (e *emitter) identity(op loop.BinaryOp, dt dtype.DType) value {
	c := &loop.Const{Type: dt}
	float := dt.IsFloat()
	switch op {
	case loop.Add, loop.Or, loop.Xor:
	case loop.Mul:
		if c.Bits = 1; float {
			c.Bits = loop.FromFloat(dt, 1)
		}
	case loop.And:
		c.Bits = loop.FromInt(dt, -1)
	case loop.Max, loop.Min:
		switch {
		case float && op == loop.Max:
			c.Bits = loop.FromFloat(dt, math.Inf(-1))
		case float:
			c.Bits = loop.FromFloat(dt, math.Inf(1))
		case dt == dtype.Bool:
			c.Bits = loop.FromInt(dt, int64(1-(op-loop.Min)))
		default:
			c.Bits = extremeOf(dt, op == loop.Min)
		}
	default:
		refuse("%s over lanes", op)
	}
	return e.constant(c)
}

// extremeOf is the least or greatest integer of a type.
func extremeOf(dt dtype.DType, greatest bool) uint64 {
	bits := dt.Bits()
	switch {
	case dt.IsSigned() && greatest:
		return 1<<(bits-1) - 1
	case dt.IsSigned():
		return 1 << (bits - 1)
	case greatest:
		return math.MaxUint64 >> (64 - bits)
	}
	return 0
}

// What a body writes, assigns and declares, at any depth.

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
