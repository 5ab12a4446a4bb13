package sym

import (
	"slices"
	"sync"
)

// Code is an expression compiled for repeated evaluation. It is safe for concurrent use.
type Code struct {
	inputs int
	steps  []step
	slots  int // the number of intermediate values; the last one is the result
}

// step is one instruction. An operand is a slot, or ^i for the i-th input.
type step struct {
	op   stepOp
	x, y int32
	c    int64
}

// stepOp is the operation of a step.
type stepOp uint8

const (
	startProduct stepOp = iota // product = c
	timesValue                 // product ×= x
	addProduct                 // sum += product
	addValue                   // sum += x
	finishSum                  // slot y = sum + c; sum = 0
	applyKind                  // slot y = apply[c](slot y, x)
	copyValue                  // slot y = x
	failTooLarge
)

const slotsOnStack = 64

// Compile prepares e for evaluation with the values of names, in that order. A subexpression that occurs twice is
// computed once. The error is an *UnboundError for a name of e that is not in the list.
func (e Expr) Compile(names []Name) (*Code, error) { return NewNames(names).Compile(e) }

// Names are the names for which expressions are compiled, in the order of their values.
type Names struct {
	operands map[Name]int32
	count    int
}

// NewNames returns the names in the order of their values.
func NewNames(names []Name) *Names {
	n := &Names{make(map[Name]int32, len(names)), len(names)}
	for i, name := range names {
		n.operands[name] = ^int32(i)
	}
	return n
}

// Compile is Expr.Compile for these names.
func (n *Names) Compile(e Expr) (*Code, error) {
	b := &builder{code: &Code{inputs: n.count}, inputs: n.operands}
	for _, name := range e.Vars() {
		if _, ok := b.inputs[name]; !ok {
			return nil, &UnboundError{name}
		}
	}
	if at := b.expr(e); at < 0 || at != int32(b.code.slots)-1 {
		b.emit(step{op: copyValue, x: at, y: b.slot()})
	}
	b.code.steps = slices.Clip(b.code.steps)
	return b.code, nil
}

// builder compiles an expression.
type builder struct {
	code   *Code
	inputs map[Name]int32
	exprs  map[hash]int32 // the slots of expressions; nil for none
	atoms  map[hash]int32
}

// put adds an entry to a map, which is nil before the first one.
func put(m *map[hash]int32, h hash, at int32) {
	if *m == nil {
		*m = map[hash]int32{}
	}
	(*m)[h] = at
}

func (b *builder) emit(s step) { b.code.steps = append(b.code.steps, s) }

// slot returns a new slot.
func (b *builder) slot() int32 {
	b.code.slots++
	return int32(b.code.slots - 1)
}

// expr returns the operand that has the value of e.
func (b *builder) expr(e Expr) int32 {
	if a := e.atom(); a != nil {
		return b.atom(a)
	}
	h := e.hash()
	if at, ok := b.exprs[h]; ok {
		return at
	}
	for _, t := range e.terms() {
		for _, a := range t.atoms {
			b.atom(a)
		}
	}
	for _, t := range e.terms() {
		if t.coef == 1 && len(t.atoms) == 1 {
			b.emit(step{op: addValue, x: b.atom(t.atoms[0])})
			continue
		}
		b.emit(step{op: startProduct, c: t.coef})
		for _, a := range t.atoms {
			b.emit(step{op: timesValue, x: b.atom(a)})
		}
		b.emit(step{op: addProduct})
	}
	at := b.slot()
	b.emit(step{op: finishSum, y: at, c: e.c})
	put(&b.exprs, h, at)
	return at
}

// atom returns the operand that has the value of the atom.
func (b *builder) atom(a *atom) int32 {
	if a.kind == variable {
		return b.inputs[a.name]
	}
	if at, ok := b.atoms[a.hash]; ok {
		return at
	}
	args := make([]int32, len(a.args))
	for i, x := range a.args {
		args[i] = b.expr(x)
	}
	at := b.slot()
	switch a.kind {
	case huge:
		b.emit(step{op: failTooLarge})
	case sum:
		for _, x := range args {
			b.emit(step{op: addValue, x: x})
		}
		b.emit(step{op: finishSum, y: at})
	default:
		b.emit(step{op: copyValue, x: args[0], y: at})
		for _, x := range args[1:] {
			b.emit(step{op: applyKind, x: x, y: at, c: int64(a.kind)})
		}
	}
	put(&b.atoms, a.hash, at)
	return at
}

var slotPool = sync.Pool{New: func() any { return new([]int64) }}

// Eval computes the value; values has the values of the names given to Compile, in that order. Repeated calls allocate
// nothing. The errors are those of Expr.Eval. It panics if values is shorter than the names.
func (c *Code) Eval(values []int64) (int64, error) {
	values = values[:c.inputs]
	if c.slots <= slotsOnStack {
		var slots [slotsOnStack]int64
		return c.run(values, slots[:c.slots])
	}
	p := slotPool.Get().(*[]int64)
	if len(*p) < c.slots {
		*p = make([]int64, c.slots)
	}
	v, err := c.run(values, (*p)[:c.slots])
	slotPool.Put(p)
	return v, err
}

// run executes the steps, with slots as scratch.
func (c *Code) run(values, slots []int64) (int64, error) {
	var total wide
	var p factors
	operand := func(at int32) int64 {
		if at < 0 {
			return values[^at]
		}
		return slots[at]
	}
	for i := range c.steps {
		s := &c.steps[i]
		switch s.op {
		case startProduct:
			p = factors{value: s.c}
		case timesValue:
			p.times(operand(s.x))
		case addProduct:
			if p.overflow {
				return 0, ErrOverflow
			}
			total.add(p.value)
		case addValue:
			total.add(operand(s.x))
		case finishSum:
			total.add(s.c)
			v, fits := total.int64()
			if !fits {
				return 0, ErrOverflow
			}
			slots[s.y], total = v, wide{}
		case applyKind:
			v, err := apply[s.c](slots[s.y], operand(s.x))
			if err != nil {
				return 0, err
			}
			slots[s.y] = v
		case copyValue:
			slots[s.y] = operand(s.x)
		case failTooLarge:
			return 0, ErrTooLarge
		}
	}
	return slots[c.slots-1], nil
}
