package amd64

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/codegen/amd64/asm"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// emitter emits one nest of a kernel. Code goes to the innermost open scope; values that do not change in a loop are
// computed before it, in the scope's head.
type emitter struct {
	*builder
	k      *kernelEmitter
	scopes []*scope
	// the scope whose cache and list are written: the innermost, or an outer one while its head is written
	here     *scope
	inHead   bool // here's head is written
	names    map[sym.Name]name
	bound    map[string]binding
	vector   *vectorLoop
	turning  *turning                         // the nest whose blocks are emitted
	override func(l *loop.Load) (value, bool) // if not nil, asked first for the value of a load
	rows     *loop.For                        // if not nil, a loop along the rows that are lanes: see sumsAlong
	collect  func(list []reduction)           // if not nil, receives the lanes' reductions of a vector loop
}

// kernelEmitter is the state that a kernel's nests share.
type kernelEmitter struct {
	kernel   *loop.Kernel
	isa      *isa
	work     *workspace
	words    int // of the frame
	memories map[string]*memory
	inputs   []sym.Name       // the names of the dimensions, then that of a course's step
	dims     map[sym.Name]int // words of the inputs
	derived  map[string]int   // words of expressions over the dimensions, by their keys
	launch   []derived
	checks   []check
	failed   int
	ranges   *sym.Dims
	divisors *loop.Divisors
	written  int // statements, see mostWritten
	slower   []string
	spill    int32 // bytes of the frame that the nests use, words included

	squareAt    int32 // where the frame has sums of the tile registers
	squareBytes int64 // and their bytes
}

// memory is a buffer of a kernel: the word with its address, and its layout.
type memory struct {
	word           int
	dtype          dtype.DType
	shape, strides []sym.Expr
	steps          []sym.Expr  // the strides if they are not nil, else those of a row-major buffer
	param          *loop.Param // nil: a local
}

// offset returns the offset of the element at an index, in elements.
func (m *memory) offset(index []sym.Expr) sym.Expr { return loop.Offset(index, m.shape, m.steps) }

// name is the meaning of a symbolic integer's name: a dimension (word), a loop variable or a checked value (register),
// or, while copies of a loop's body are written one after the other, an expression.
type name struct {
	depth    int // of the scope that binds it; 0 for dimensions
	word     int
	register asm.Reg
	replaced bool
	value    sym.Expr // if replaced, the expression that replaces it
	lanes    value    // of a value checked lane by lane: its integers, from min to max
	min, max sym.Expr
}

// scope is a body whose code runs any number of times, even 0.
type scope struct {
	depth int
	head  []asm.Inst // runs once before the body, if the body runs at all
	insts []asm.Inst // the code so far, while an inner scope is open
	// headReady holds the values that the head computes, bodyReady those that the body has computed so far, by keys.
	headReady, bodyReady map[string]ready
	// certain is true if the body runs whenever the code before it does; stored and assigned name what the body changes.
	certain          bool
	checked          bool // a check was emitted in the body: code after it may read memory only if the check passes
	stored, assigned []string
}

type ready struct {
	register asm.Reg
	value    value
}

// unsupported is the panic by which emission gives up on a statement that has a simpler way, or on a kernel.
type unsupported struct{ reason string }

// refuse gives up with a reason; attempt catches it.
func refuse(format string, args ...any) { panic(unsupported{fmt.Sprintf(format, args...)}) }

// attempt runs do, and returns the reason if it refuses; "" if not.
func attempt(do func()) (reason string) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case unsupported:
			reason = r.reason
		default:
			panic(r)
		}
	}()
	do()
	return ""
}

// bug panics with a message and the kernel's text.
func (k *kernelEmitter) bug(format string, args ...any) {
	panic(diag.Internalf("amd64: kernel @%s: "+format+"\n%s", append(append([]any{k.kernel.Name}, args...), k.kernel)...))
}

// newWord reserves a word of the frame and returns its number.
func (k *kernelEmitter) newWord() int {
	k.words++
	return k.words - 1
}

// memory returns a declared buffer.
func (k *kernelEmitter) memory(name string) *memory {
	m, ok := k.memories[name]
	if !ok {
		k.bug("%%%s is not a buffer", name)
	}
	return m
}

// frameWord returns the address of a word of the frame.
func frameWord(word int) asm.Mem { return asm.Mem{Base: frameRegister, Disp: int32(word * 8)} }

// Scopes.

// open begins a scope, to which the following code belongs. body is the scope's statements: values that they change are
// not computed before them.
func (e *emitter) open(body []loop.Stmt) *scope {
	if e.inHead {
		e.k.bug("a scope inside a head")
	}
	if len(e.scopes) > 0 {
		e.here.insts = e.Insts
	}
	s := &scope{depth: len(e.scopes), headReady: map[string]ready{}, bodyReady: map[string]ready{}, stored: storedIn(body),
		assigned: assignedIn(body)}
	e.scopes = append(e.scopes, s)
	e.here, e.Insts = s, nil
	return s
}

// close ends the innermost scope and returns its body; its head is in the scope. Code is emitted to the scope around it
// again.
func (e *emitter) close() (body []asm.Inst) {
	body = e.Insts
	e.scopes = e.scopes[:len(e.scopes)-1]
	e.here, e.Insts = nil, nil
	if len(e.scopes) > 0 {
		e.here = e.scopes[len(e.scopes)-1]
		e.Insts = e.here.insts
	}
	return body
}

// rebody returns the innermost scope's body so far and begins it again, for a second version.
func (e *emitter) rebody() (body []asm.Inst) {
	body, e.Insts = e.Insts, nil
	e.here.bodyReady = map[string]ready{}
	return body
}

// depthHere returns the depth of the scope in which the code that is emitted now runs.
func (e *emitter) depthHere() int {
	if e.inHead {
		return e.here.depth - 1
	}
	return e.here.depth
}

// once computes a value that depends on names of scopes up to depth in the outermost scope that allows it, unless that
// scope has the value already.
func (e *emitter) once(depth int, key string, make func() ready) ready {
	at := e.depthHere()
	if r, ok := e.here.headReady[key]; ok {
		return r
	}
	for _, s := range e.scopes[:at+1] {
		if r, ok := s.headReady[key]; ok {
			return r
		}
		if r, ok := s.bodyReady[key]; ok {
			return r
		}
	}
	if depth >= at {
		r := make()
		if e.inHead {
			e.here.headReady[key] = r
		} else {
			e.here.bodyReady[key] = r
		}
		return r
	}
	here, inHead, insts := e.here, e.inHead, e.Insts
	e.here, e.inHead = e.scopes[depth+1], true
	if inHead {
		here.head = insts
	} else {
		here.insts = insts
	}
	e.Insts = e.here.head
	r := make()
	e.here.head = e.Insts
	e.here.headReady[key] = r
	e.here, e.inHead = here, inHead
	if inHead {
		e.Insts = here.head
	} else {
		e.Insts = here.insts
	}
	return r
}

// Integers.

// resolve replaces the variables of unrolled loops by their values.
func (e *emitter) resolve(x sym.Expr) sym.Expr {
	for _, n := range x.Vars() {
		if e.names[n].replaced {
			return x.Subst(func(n sym.Name) (sym.Expr, bool) {
				b := e.names[n]
				return b.value, b.replaced
			})
		}
	}
	return x
}

// depthOf returns the depth of the innermost scope whose names x mentions.
func (e *emitter) depthOf(x sym.Expr) int {
	depth := 0
	for _, n := range x.Vars() {
		b, ok := e.names[n]
		if !ok {
			e.k.bug("%s has no value in %s", n, x)
		}
		depth = max(depth, b.depth)
	}
	return depth
}

// overDims reports whether an expression uses only names whose values are in the frame.
func (e *emitter) overDims(x sym.Expr) bool {
	return !slices.ContainsFunc(x.Vars(), func(n sym.Name) bool {
		_, ok := e.k.dims[n]
		return !ok
	})
}

// derive returns the word of the frame that holds an expression over the dimensions.
func (k *kernelEmitter) derive(x sym.Expr) int {
	if n, ok := x.Name(); ok {
		return k.dims[n]
	}
	key := x.Key()
	if word, ok := k.derived[key]; ok {
		return word
	}
	word := k.newWord()
	k.derived[key] = word
	k.launch = append(k.launch, derived{word, k.codeOver(k.divisors.Safe(x), k.inputs)})
	return word
}

// code compiles an expression over the dimensions.
func (k *kernelEmitter) code(x sym.Expr) *sym.Code { return k.codeOver(x, k.kernel.Dims) }

// codeOver compiles an expression over the given names.
func (k *kernelEmitter) codeOver(x sym.Expr, inputs []sym.Name) *sym.Code {
	code, err := x.Compile(inputs)
	if err != nil {
		k.bug("%s: %v", x, err)
	}
	return code
}

// integer returns a general register with the value of a symbolic integer. It must not be changed.
func (e *emitter) integer(x sym.Expr) asm.Reg {
	x = e.resolve(x)
	if v, ok := x.Const(); ok {
		return e.number(v)
	}
	if n, ok := x.Name(); ok {
		if b := e.names[n]; b.lanes.lo != asm.NoReg {
			refuse("an index that differs by lane")
		} else if b.depth > 0 {
			return b.register
		}
	}
	if e.overDims(x) {
		return e.once(0, "d"+x.Key(), func() ready { return ready{register: e.loadWord(frameWord(e.k.derive(x)))} }).register
	}
	return e.once(e.depthOf(x), "i"+x.Key(), func() ready { return ready{register: e.sum(x)} }).register
}

// sum adds up an expression; the terms that do not change in this scope are added in outer scopes first.
func (e *emitter) sum(x sym.Expr) asm.Reg {
	constant, terms := x.Terms()
	depth := e.depthOf(x)
	outer := sym.Const(0)
	var inner []sym.Term
	for _, t := range terms {
		if e.depthOf(t.Expr()) < depth {
			outer = outer.Add(t.Expr())
		} else {
			inner = append(inner, t)
		}
	}
	var total asm.Reg
	add := func(r asm.Reg) {
		if total == asm.NoReg {
			total = e.copyOf(r)
		} else {
			e.integerOp(asm.ADD, total, r)
		}
	}
	if !isZero(outer) {
		add(e.integer(outer))
	}
	for _, t := range inner {
		add(e.product(t))
	}
	if constant != 0 {
		e.integerImm(asm.ADD, total, constant)
	}
	return total
}

// isZero reports whether an integer is the constant 0.
func isZero(x sym.Expr) bool { v, ok := x.Const(); return ok && v == 0 }

// product returns a register with a term's value. It must not be changed.
func (e *emitter) product(t sym.Term) asm.Reg {
	result, changeable := asm.NoReg, false
	for _, f := range t.Factors {
		r := e.factor(f)
		switch {
		case result == asm.NoReg:
			result = r
		default:
			if !changeable {
				result, changeable = e.copyOf(result), true
			}
			e.integerOp(asm.IMUL, result, r)
		}
	}
	return e.times(result, t.Coef)
}

// factor returns a register with the value of a factor.
func (e *emitter) factor(f sym.Factor) asm.Reg {
	if f.Kind == sym.Variable {
		return e.integer(f.Expr())
	}
	x := f.Expr()
	if e.overDims(x) {
		return e.integer(x)
	}
	return e.once(e.depthOf(x), "f"+x.Key(), func() ready { return ready{register: e.function(f)} }).register
}

// function returns a register with the value of a maximum, minimum, quotient, remainder, product or sum.
func (e *emitter) function(f sym.Factor) asm.Reg {
	switch f.Kind {
	case sym.Least, sym.Greatest:
		op := asm.CMOVG // keeps the lesser: x, if the value so far is greater
		if f.Kind == sym.Greatest {
			op = asm.CMOVL
		}
		r := e.copyOf(e.integer(f.Args[0]))
		for _, x := range f.Args[1:] {
			v := e.integer(x)
			e.compareNumbers(r, v)
			e.integerOp(op, r, v)
		}
		return r
	case sym.FloorQuotient, sym.Remainder, sym.CeilQuotient:
		return e.quotient(f)
	case sym.FactorProduct, sym.FactorSum:
		op := asm.IMUL
		if f.Kind == sym.FactorSum {
			op = asm.ADD
		}
		r := e.copyOf(e.integer(f.Args[0]))
		for _, x := range f.Args[1:] {
			e.integerOp(op, r, e.integer(x))
		}
		return r
	}
	refuse("an integer that is too large")
	return asm.NoReg
}

// quotient divides, rounding down (or up), and takes remainders with the divisor's sign. The divisor must be 1 or more
// wherever the kernel divides by it. The code may also divide in an outer scope, before a loop without iterations:
// there a divisor over dimensions that is below 1 is replaced by 1, so that the instruction does not fault.
func (e *emitter) quotient(f sym.Factor) asm.Reg {
	x, y := f.Args[0], e.resolve(f.Args[1])
	if v, ok := y.Const(); ok && v > 0 && v&(v-1) == 0 && f.Kind != sym.CeilQuotient {
		r := e.copyOf(e.integer(x))
		if f.Kind == sym.Remainder {
			e.integerImm(asm.AND, r, v-1)
		} else if v > 1 {
			e.Emit(asm.Inst{Op: asm.SAR, Bits: 64, Args: [4]asm.Reg{r}, Imm: int64(log2(v))})
		}
		return r
	}
	if lo, _ := e.bounds(y); lo < 1 {
		if !e.overDims(y) || !e.k.divisors.Positive(y) {
			refuse("a division by %s, which is not known to be 1 or more", y)
		}
		y = y.Max(sym.Const(1))
	}
	kind := f.Kind
	if kind == sym.CeilQuotient { // ⌈x/y⌉ = ⌊(x+y−1)/y⌋
		x, kind = x.Add(y).Sub(sym.Const(1)), sym.FloorQuotient
	}
	x = e.resolve(x)
	dividend, divisor := e.integer(x), e.integer(y)
	r := e.general()
	if lo, _ := e.bounds(x); lo >= 0 {
		e.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, dividend}})
		e.Emit(asm.Inst{Op: asm.MOV, Bits: 32, Args: [4]asm.Reg{asm.RDX}, Imm: 0})
		e.Emit(asm.Inst{Op: asm.DIV, Bits: 64, Args: [4]asm.Reg{divisor}})
		if kind == sym.Remainder {
			e.assign(r, asm.RDX)
		} else {
			e.assign(r, asm.RAX)
		}
		return r
	}
	e.Emit(asm.Inst{Op: asm.MOV, Bits: 64, Args: [4]asm.Reg{asm.RAX, dividend}})
	e.Emit(asm.Inst{Op: asm.CQO, Bits: 64})
	e.Emit(asm.Inst{Op: asm.IDIV, Bits: 64, Args: [4]asm.Reg{divisor}})
	// A negative remainder is one divisor too low, the quotient one too high.
	done := e.label()
	quotient, remainder := e.copyOf(asm.RAX), e.copyOf(asm.RDX)
	e.integerOp(asm.TEST, remainder, remainder)
	e.jump(asm.JNS, done)
	e.integerImm(asm.SUB, quotient, 1)
	e.integerOp(asm.ADD, remainder, divisor)
	e.bind(done)
	if kind == sym.Remainder {
		return remainder
	}
	return quotient
}

// bounds returns the range of an expression, by what is known of dimensions, variables and checked values: they are 0
// or more.
func (e *emitter) bounds(x sym.Expr) (lo, hi int64) {
	return e.k.ranges.Bounds(x)
}

// most returns an upper bound of an extent.
func (e *emitter) most(x sym.Expr) int64 {
	if n, ok := x.Const(); ok {
		return n
	}
	_, hi := e.bounds(x)
	return hi
}

// Addresses.

// pointer returns a register with the address of a buffer's element at an offset in elements; bytes are added to it.
func (e *emitter) pointer(buffer string, offset sym.Expr) asm.Reg {
	m := e.k.memory(buffer)
	base := e.once(0, "m"+buffer, func() ready { return ready{register: e.loadWord(frameWord(m.word))} }).register
	if isZero(offset) {
		return base
	}
	size := bytesOf(m.dtype)
	return e.once(e.depthOf(offset), "p"+buffer+" "+offset.Key(), func() ready {
		r := e.copyOf(base)
		constant, _ := offset.Terms()
		rest := offset.Sub(sym.Const(constant))
		if !isZero(rest) {
			e.integerOp(asm.ADD, r, e.times(e.integer(rest), size))
		}
		if constant != 0 {
			e.integerImm(asm.ADD, r, constant*size)
		}
		return ready{register: r}
	}).register
}

// address returns the operand for a buffer's element at an offset in elements. The terms that change in the innermost
// scope become the operand's index, the others its base.
func (e *emitter) address(buffer string, offset sym.Expr) asm.Mem {
	m := e.k.memory(buffer)
	size := bytesOf(m.dtype)
	offset = e.resolve(offset)
	constant, terms := offset.Terms()
	depth := e.depthOf(offset)
	outer, inner := sym.Const(0), sym.Const(0)
	var last sym.Term
	count := 0
	for _, t := range terms {
		x := t.Expr()
		if e.depthOf(x) < depth || depth == 0 {
			outer = outer.Add(x)
		} else {
			inner, last = inner.Add(x), t
			count++
		}
	}
	at := asm.Mem{Base: e.pointer(buffer, outer)}
	switch {
	case isZero(inner):
	case count == 1 && len(last.Factors) == 1 && last.Factors[0].Kind == sym.Variable && addressable(last.Coef*size):
		at.Index, at.Scale = e.names[last.Factors[0].Name].register, uint8(last.Coef*size)
	default:
		at.Scale = 1
		at.Index = e.once(depth, fmt.Sprintf("x%d %s", size, inner.Key()), func() ready {
			return ready{register: e.times(e.integer(inner), size)}
		}).register
	}
	disp := constant * size
	if disp != int64(int32(disp)) || disp > math.MaxInt32-4096 {
		r := e.copyOf(at.Base)
		e.integerImm(asm.ADD, r, disp)
		at.Base, disp = r, 0
	}
	at.Disp = int32(disp)
	return at
}

// addressable reports whether an address may scale its index by v.
func addressable(v int64) bool { return v == 1 || v == 2 || v == 4 || v == 8 }

// listing returns the instructions as text, for dumps.
func listing(insts []asm.Inst) string {
	var s strings.Builder
	for i := range insts {
		fmt.Fprintf(&s, "\t%s\n", insts[i].String())
	}
	return s.String()
}
