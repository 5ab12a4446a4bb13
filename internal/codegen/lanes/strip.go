package lanes

import (
	"maps"
	"math"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// reduction is a variable from outside a vector loop that the loop reduces: each copy of the body has lanes of its own.
type reduction struct {
	name   string
	op     loop.BinaryOp
	target binding
	lanes  []Value
}

// copies is the number of strips of a reducing loop that are done at once, so that their sums need not wait for one
// another.
const copies = 4

// vectorLoop emits the iterations of a loop from start on in strips of lanes: several full strips at once, single full
// strips, and an incomplete one with masked lanes; if masks are not possible, the last few iterations run one after the
// other.
func (e *Emitter) vectorLoop(s *loop.For, start int64, extent sym.Expr) {
	constant, fixed := extent.Const()
	if fixed && constant <= 0 {
		return
	}
	count := regalloc.NoReg
	if !fixed {
		count = e.IntegerOf(extent)
	}
	width := int64(e.lanes)
	reductions, strips := e.reductionLanes(s)
	scope := e.Open(s.Body)
	outerNames, outerBound := e.Names, e.bound
	e.Names, e.bound = maps.Clone(outerNames), maps.Clone(outerBound)
	first, i := e.stripNames(s, extent, scope)
	strip := func(n int64, tail regalloc.Reg) Code {
		e.Strip.tail = tail
		for c := range n {
			e.Names[s.Var] = Name{Depth: scope.Depth, replaced: true, value: sym.Var(first).Add(sym.Const(start + c*width))}
			for _, r := range reductions {
				e.bound[r.name] = binding{Value: r.lanes[c], depth: scope.Depth, mutable: true}
			}
			e.body(s.Body)
		}
		return e.rebody()
	}
	var many, tail Code
	e.Names[s.Var] = Name{Depth: scope.Depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
	if n := e.stripsMoved(s); n > 1 && !(fixed && constant < n*width) {
		e.moveRun(s.Body[0].(*loop.Store))
		many, strips = e.rebody(), n
	} else if strips > 1 && !(fixed && constant < strips*width) {
		many = strip(strips, regalloc.NoReg)
	}
	with := int64(0) // full strips that are done together with the incomplete one
	if n := e.Jammable(s); n > 1 && many == nil {
		switch {
		case fixed && constant%width != 0 && constant/width+1 <= n && constant > width:
			with = constant / width
		case fixed:
			n = Together(constant/width, n)
		default:
			n = min(n, e.Most(extent)/width)
		}
		if with == 0 && n > 1 {
			e.Strip.tail = regalloc.NoReg
			e.jammed(s, n).emit(e)
			many, strips = e.rebody(), n
		}
	}
	one := strip(1, regalloc.NoReg)
	lanesAtEnd := true
	if !fixed || constant%width != 0 {
		saved := e.snapshot()
		if reason := attempt(func() {
			rest := e.General()
			if fixed {
				e.SetNumber(rest, constant%width)
			} else {
				e.Assign(rest, count)
				e.Integer(Subtract, rest, i)
			}
			mask := e.FirstLanes(rest)
			setup := e.rebodyKeep()
			if with > 0 {
				e.Names[s.Var] = Name{Depth: scope.Depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
				j := e.jammed(s, with+1)
				j.tails[with] = mask
				j.emit(e)
				tail, one = e.joined(setup, e.rebody()), nil
				return
			}
			tail = e.joined(setup, strip(1, mask))
		}); reason != "" {
			e.restore(saved)
			e.Strip = nil
			lanesAtEnd = false
			e.Names[s.Var] = Name{Depth: scope.Depth, replaced: true, value: sym.Var(first).Add(sym.Const(start))}
			for _, r := range reductions {
				e.bound[r.name] = r.target
			}
			e.body(s.Body)
			tail = e.rebody()
		}
	}
	e.Strip = nil
	e.Names, e.bound = outerNames, outerBound
	e.Close()

	e.assemble(&stripLoop{scope: scope, i: i, count: count, constant: constant, fixed: fixed, extent: extent, many: many,
		one: one, tail: tail, lanesAtEnd: lanesAtEnd,
		width: strips * width, reductions: reductions})
}

// reductionLanes returns the variables that a vector loop reduces, each with lanes for the strips that are done at
// once.
func (e *Emitter) reductionLanes(s *loop.For) (list []reduction, strips int64) {
	list, strips = e.reductions(s), 1
	if len(list) > 0 && weight(s.Body) <= 8 {
		strips = copies
	}
	for i := range list {
		r := &list[i]
		for c := range strips {
			if c > 0 && e.Collect != nil { // other sums are computed meanwhile
				r.lanes = append(r.lanes, r.lanes[0])
				continue
			}
			r.lanes = append(r.lanes, e.fresh(e.varying(e.identity(r.op, r.target.DType))))
		}
	}
	return list, strips
}

// stripNames enters a vector loop's scope: it names the first iteration of a strip, which a register counts, and the
// number of each lane.
func (e *Emitter) stripNames(s *loop.For, extent sym.Expr, scope *scope) (first sym.Name, i regalloc.Reg) {
	first = sym.Hidden(s.Var.Text() + "#")
	e.Kernel.Ranges.Set(first, sym.Range{Min: 0, Max: max(e.Most(extent)-1, 0)})
	i = e.General()
	e.Names[first] = Name{Depth: scope.Depth, Register: i}
	lo, _ := e.Bounds(extent)
	scope.Certain = lo > 0
	lane0, number := sym.Hidden(s.Var.Text()+"##"), sym.Hidden(s.Var.Text()+"###")
	known, _ := e.Kernel.Ranges.Get(first)
	e.Kernel.Ranges.Set(lane0, known)
	e.Kernel.Ranges.Set(number, sym.Range{Min: 0, Max: int64(e.lanes) - 1})
	e.Names[lane0] = Name{Depth: scope.Depth, Register: i}
	e.Strip = &vectorLoop{Depth: scope.Depth, original: s.Var, Variable: first, lane0: lane0, number: number}
	e.Names[number] = Name{Depth: scope.Depth, Lanes: e.LaneSteps(sym.Const(1), dtype.I32)}
	return first, i
}

// stripLoop is the code of a vector loop: the bodies of several full strips, of one, and of the remaining iterations,
// in masked lanes (lanesAtEnd) or one after the other.
type stripLoop struct {
	scope           *scope
	i, count        regalloc.Reg // the counter, and the number of iterations if it is not fixed
	constant        int64        // if fixed
	fixed           bool
	extent          sym.Expr
	many, one, tail Code
	width           int64 // iterations that many does
	lanesAtEnd      bool
	reductions      []reduction
}

// assemble writes the loops around the bodies of a vector loop.
func (e *Emitter) assemble(l *stripLoop) {
	if e.Collect != nil && !l.lanesAtEnd {
		Refuse("rows that do not end in lanes")
	}
	end := e.Label()
	if !l.fixed {
		if lo, _ := e.Bounds(l.extent); lo < 1 {
			e.CompareZero(l.count)
			e.JumpIf(LessOrEqual, end)
		}
	}
	e.AppendCode(l.scope.Head)
	e.SetNumber(l.i, 0)
	done := int64(0) // if l.fixed
	while := func(body Code, width int64) {
		if body == nil {
			return
		}
		again, over := e.Label(), e.Label()
		if l.fixed {
			last := l.constant / width * width
			if last <= done {
				return
			}
			e.Turns(again, (last-done)/width, true, l.i, width)
			e.AppendCode(body)
			if done+width < last || last < l.constant || width != int64(e.lanes) {
				e.IntegerNumber(Add, l.i, width)
			}
			if done+width < last {
				e.CompareNumber(l.i, last)
				e.JumpIf(Less, again)
			}
			done = last
			return
		}
		limit := e.CopyOf(l.count)
		e.IntegerNumber(Subtract, limit, width)
		e.CompareNumbers(l.i, limit)
		e.JumpIf(Greater, over)
		e.Turns(again, e.Most(l.extent)/width, false, l.i, width)
		e.AppendCode(body)
		e.IntegerNumber(Add, l.i, width)
		e.CompareNumbers(l.i, limit)
		e.JumpIf(LessOrEqual, again)
		e.Bind(over)
	}
	while(l.many, l.width)
	while(l.one, int64(e.lanes))
	if l.lanesAtEnd {
		if l.tail != nil {
			over := e.Label()
			if !l.fixed {
				e.CompareNumbers(l.i, l.count)
				e.JumpIf(GreaterOrEqual, over)
			}
			e.AppendCode(l.tail)
			e.Bind(over)
		}
		e.Bind(end)
		e.combineLanes(l.reductions)
		return
	}
	e.combineLanes(l.reductions)
	over, again := e.Label(), e.Label()
	if l.fixed {
		l.count = e.Number(l.constant)
	}
	e.CompareNumbers(l.i, l.count)
	e.JumpIf(GreaterOrEqual, over)
	e.Turns(again, e.Most(l.extent), false, l.i, 1)
	e.AppendCode(l.tail)
	e.IntegerNumber(Add, l.i, 1)
	e.CompareNumbers(l.i, l.count)
	e.JumpIf(Less, again)
	e.Bind(over)
	e.Bind(end)
}

// TailMask returns the mask of an incomplete strip's lanes; NoReg if the strip has all lanes.
func (e *Emitter) TailMask() regalloc.Reg {
	if e.Strip == nil {
		return regalloc.NoReg
	}
	return e.Strip.tail
}

// reductions returns the variables from outside a loop that its body reduces.
func (e *Emitter) reductions(s *loop.For) []reduction {
	var list []reduction
	declared := declaredIn(s.Body)
	loop.Walk(s.Body, func(s loop.Stmt) bool {
		r, ok := s.(*loop.Reduce)
		if !ok || slices.Contains(declared, r.Name) {
			return true
		}
		if at := slices.IndexFunc(list, func(other reduction) bool { return other.name == r.Name }); at >= 0 {
			if list[at].op != r.Op {
				Refuse("%s is reduced in two ways", r.Name)
			}
			return true
		}
		list = append(list, reduction{name: r.Name, op: r.Op, target: e.bound[r.Name]})
		return true
	})
	return list
}

// combineLanes combines the lanes' reductions into the variables.
func (e *Emitter) combineLanes(list []reduction) {
	if e.Collect != nil {
		e.Collect(list)
		return
	}
	for _, r := range list {
		lanes := r.lanes
		for len(lanes) > 1 {
			half := len(lanes) / 2
			next := make([]Value, half)
			for i := range next {
				next[i] = e.Combine(r.op, lanes[i], lanes[i+half])
			}
			lanes = next
		}
		e.set(r.target, e.Combine(r.op, r.target.Value, e.Across(r.op, lanes[0])))
	}
}

// Across combines the lanes of a value into all of them.
func (e *Emitter) Across(op loop.BinaryOp, v Value) Value {
	if v.Kind() == Flags {
		return e.acrossFlags(op, v)
	}
	if v.Kind().Wide() {
		v = e.Combine(op, Value{DType: v.DType, Lo: v.Lo, Hi: v.Lo}, Value{DType: v.DType, Lo: v.Hi, Hi: v.Hi})
	}
	turned := func(do func(x regalloc.Reg) regalloc.Reg) {
		mine, other := Value{DType: v.DType, Lo: v.Lo}, Value{DType: v.DType, Lo: do(v.Lo)}
		if v.Kind().Wide() {
			mine.Hi, other.Hi = mine.Lo, other.Lo
		}
		v = e.Combine(op, mine, other)
	}
	least := 1 // lanes of 32 bits
	if v.Kind().Wide() {
		least = 2
	}
	for n := e.lanes / 2; n >= least; n /= 2 {
		turned(func(x regalloc.Reg) regalloc.Reg { return e.Exchanged(x, n) })
	}
	v.Uniform = true
	if v.Kind().Wide() {
		v.Hi = v.Lo
	} else {
		v.Hi = regalloc.NoReg
	}
	return v
}

// varying returns a uniform value marked as one that may differ by lane.
func (e *Emitter) varying(v Value) Value {
	v.Uniform = false
	return v
}

// identity returns the neutral element of an operation.
func (e *Emitter) identity(op loop.BinaryOp, dt dtype.DType) Value {
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
		Refuse("%s over lanes", op)
	}
	return e.Constant(c)
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
