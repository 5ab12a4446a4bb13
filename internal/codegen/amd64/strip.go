package amd64

import (
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// reduction is a variable from outside a vector loop that the loop reduces: each copy of the body has lanes of its own.
type reduction struct {
	name   string
	op     loop.BinaryOp
	target binding
	lanes  []value
}

// copies is the number of strips of a reducing loop that are done at once, so that their sums need not wait for one
// another.
const copies = 4

// vectorLoop emits the iterations of a loop from start on in strips of lanes: several full strips at once, single full
// strips, and an incomplete one with masked lanes; if masks are not possible, the last few iterations run one after the
// other.
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
	reductions, strips := e.reductionLanes(s)
	scope := e.open(s.Body)
	outerNames, outerBound := e.names, e.bound
	e.names, e.bound = maps.Clone(outerNames), maps.Clone(outerBound)
	first, i := e.stripNames(s, extent, scope)
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
	with := int64(0) // full strips that are done together with the incomplete one
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

	e.assemble(&stripLoop{scope: scope, i: i, count: count, constant: constant, fixed: fixed, extent: extent, many: many,
		one: one, tail: tail, lanesAtEnd: lanesAtEnd,
		width: strips * width, reductions: reductions})
}

// reductionLanes returns the variables that a vector loop reduces, each with lanes for the strips that are done at
// once.
func (e *emitter) reductionLanes(s *loop.For) (list []reduction, strips int64) {
	list, strips = e.reductions(s), 1
	if len(list) > 0 && weight(s.Body) <= 8 {
		strips = copies
	}
	for i := range list {
		r := &list[i]
		for c := range strips {
			if c > 0 && e.collect != nil { // other sums are computed meanwhile
				r.lanes = append(r.lanes, r.lanes[0])
				continue
			}
			r.lanes = append(r.lanes, e.fresh(e.varying(e.identity(r.op, r.target.dtype))))
		}
	}
	return list, strips
}

// stripNames enters a vector loop's scope: it names the first iteration of a strip, which a register counts, and the
// number of each lane.
func (e *emitter) stripNames(s *loop.For, extent sym.Expr, scope *scope) (first sym.Name, i asm.Reg) {
	first = sym.Hidden(s.Var.Text() + "#")
	e.k.ranges.Set(first, sym.Range{Min: 0, Max: max(e.most(extent)-1, 0)})
	i = e.general()
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
	return first, i
}

// stripLoop is the code of a vector loop: the bodies of several full strips, of one, and of the remaining iterations,
// in masked lanes (lanesAtEnd) or one after the other.
type stripLoop struct {
	scope           *scope
	i, count        asm.Reg // the counter, and the number of iterations if it is not fixed
	constant        int64   // if fixed
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
	e.Append(l.scope.head)
	e.setNumber(l.i, 0)
	done := int64(0) // if l.fixed
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
			e.Append(body)
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
		e.Append(body)
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
			e.Append(l.tail)
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
	e.Append(l.tail)
	e.integerImm(asm.ADD, l.i, 1)
	e.compareNumbers(l.i, l.count)
	e.jump(asm.JL, again)
	e.bind(over)
	e.bind(end)
}

// reductions returns the variables from outside a loop that its body reduces.
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

// combineLanes combines the lanes' reductions into the variables.
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

// acrossFlags combines the lanes of a mask by and, or, min or max, into a uniform mask.
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

// varying returns a uniform value marked as one that may differ by lane.
func (e *emitter) varying(v value) value {
	v.uniform = false
	return v
}

// identity returns the neutral element of an operation.
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

// extremeOf returns the least or greatest integer of a type.
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

// The names that a body writes, assigns and declares, at any depth.
