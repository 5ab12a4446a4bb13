package lanes

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/weirml/weir/internal/codegen/regalloc"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/sym"
)

// Emitter emits one nest of a kernel. Code goes to the innermost open scope; values that do not change in a loop are
// computed before it, in the scope's head.
type Emitter struct {
	Machine
	word     *words
	wide     *wides
	lanes    int   // of 32 bits in a vector
	MostSums int64 // the most sums that are computed together: twice the latency of an addition, if registers allow
	Kernel   *KernelEmitter
	scopes   []*scope
	// the scope whose cache and list are written: the innermost, or an outer one while its head is written
	here     *scope
	inHead   bool // here's head is written
	Names    map[sym.Name]Name
	bound    map[string]binding
	Strip    *vectorLoop                      // whose body is emitted; nil outside vector loops
	turning  *turning                         // the nest whose blocks are emitted
	Override func(l *loop.Load) (Value, bool) // if not nil, asked first for the value of a load
	rows     *loop.For                        // if not nil, a loop along the rows that are lanes: see sumsAlong
	Collect  func(list []reduction)           // if not nil, receives the lanes' reductions of a vector loop
}

// KernelEmitter is the state that a kernel's nests share.
type KernelEmitter struct {
	kernel   *loop.Kernel
	Words    int // of the frame
	memories map[string]*memory
	inputs   []sym.Name       // the names of the dimensions, then that of a course's step
	dims     map[sym.Name]int // words of the inputs
	derived  map[string]int   // words of expressions over the dimensions, by their keys
	launch   []derived
	checks   []check
	failed   int
	Ranges   *sym.Dims
	Divisors *loop.Divisors
	written  int // statements, see mostWritten
	slower   []string

	SquareAt    int32 // where the frame has sums of the tile registers
	SquareBytes int64 // and their bytes
}

// memory is a buffer of a kernel: the word with its address, and its layout.
type memory struct {
	word           int
	DType          dtype.DType
	Shape, Strides []sym.Expr
	steps          []sym.Expr  // the strides if they are not nil, else those of a row-major buffer
	Param          *loop.Param // nil: a local
}

// Offset returns the offset of the element at an index, in elements.
func (m *memory) Offset(index []sym.Expr) sym.Expr { return loop.Offset(index, m.Shape, m.steps) }

// Name is the meaning of a symbolic integer's name: a dimension (word), a loop variable or a checked value (register),
// or, while copies of a loop's body are written one after the other, an expression.
type Name struct {
	Depth    int // of the scope that binds it; 0 for dimensions
	word     int
	Register regalloc.Reg
	replaced bool
	value    sym.Expr // if replaced, the expression that replaces it
	Lanes    Value    // of a value checked lane by lane: its integers, from min to max
	Min, Max sym.Expr
}

// scope is a body whose code runs any number of times, even 0.
type scope struct {
	Depth int
	Head  Code // runs once before the body, if the body runs at all
	body  Code // so far, while an inner scope is open
	// headReady holds the values that the head computes, bodyReady those that the body has computed so far, by keys.
	headReady, bodyReady map[string]Ready
	// certain is true if the body runs whenever the code before it does; stored and assigned name what the body changes.
	Certain          bool
	checked          bool // a check was emitted in the body: code after it may read memory only if the check passes
	stored, assigned []string
}

type Ready struct {
	Register regalloc.Reg
	Value    Value
}

// unsupported is the panic by which emission gives up on a statement that has a simpler way, or on a kernel.
type unsupported struct{ reason string }

// Refuse gives up with a reason; attempt catches it.
func Refuse(format string, args ...any) { panic(unsupported{fmt.Sprintf(format, args...)}) }

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

// Bug panics with a message and the kernel's text.
func (k *KernelEmitter) Bug(format string, args ...any) {
	panic(diag.Internalf("kernel @%s: "+format+"\n%s", append(append([]any{k.kernel.Name}, args...), k.kernel)...))
}

// newWord reserves a word of the frame and returns its number.
func (k *KernelEmitter) newWord() int {
	k.Words++
	return k.Words - 1
}

// Memory returns a declared buffer.
func (k *KernelEmitter) Memory(name string) *memory {
	m, ok := k.memories[name]
	if !ok {
		k.Bug("%%%s is not a buffer", name)
	}
	return m
}

// NewEmitter returns an emitter of a nest, for a machine's vectors of so many lanes and sums.
func NewEmitter(m Machine, k *KernelEmitter, lanes int, sums int64) *Emitter {
	e := &Emitter{Machine: m, lanes: lanes, MostSums: sums, Kernel: k, Names: map[sym.Name]Name{},
		bound: map[string]binding{}}
	e.word = &words{arithmetic{e, dtype.F32, dtype.I32, dtype.U32}}
	e.wide = &wides{arithmetic{e, dtype.F64, dtype.I64, dtype.U64}}
	for name, word := range k.dims {
		e.Names[name] = nameOfWord(word)
	}
	return e
}

// frameWord returns the address of a word of the frame.
func (e *Emitter) frameWord(word int) regalloc.Mem {
	return regalloc.Mem{Base: e.Frame(), Disp: int32(word * 8)}
}

// Scopes.

// Open begins a scope, to which the following code belongs. body is the scope's statements: values that they change are
// not computed before them.
func (e *Emitter) Open(body []loop.Stmt) *scope {
	if e.inHead {
		e.Kernel.Bug("a scope inside a head")
	}
	if len(e.scopes) > 0 {
		e.here.body = e.Code()
	}
	s := &scope{Depth: len(e.scopes), headReady: map[string]Ready{}, bodyReady: map[string]Ready{}, stored: storedIn(body),
		assigned: assignedIn(body)}
	e.scopes = append(e.scopes, s)
	e.here = s
	e.SetCode(nil)
	return s
}

// Close ends the innermost scope and returns its body; its head is in the scope. Code is emitted to the scope around it
// again.
func (e *Emitter) Close() (body Code) {
	body = e.Code()
	e.scopes = e.scopes[:len(e.scopes)-1]
	e.here = nil
	e.SetCode(nil)
	if len(e.scopes) > 0 {
		e.here = e.scopes[len(e.scopes)-1]
		e.SetCode(e.here.body)
	}
	return body
}

// Place emits a scope's head and body to the scope around it.
func (e *Emitter) Place(s *scope, body Code) {
	e.AppendCode(s.Head)
	e.AppendCode(body)
}

// rebody returns the innermost scope's body so far and begins it again, for a second version.
func (e *Emitter) rebody() (body Code) {
	body = e.Code()
	e.SetCode(nil)
	e.here.bodyReady = map[string]Ready{}
	return body
}

// DepthHere returns the depth of the scope in which the code that is emitted now runs.
func (e *Emitter) DepthHere() int {
	if e.inHead {
		return e.here.Depth - 1
	}
	return e.here.Depth
}

// Once computes a value that depends on names of scopes up to depth in the outermost scope that allows it, unless that
// scope has the value already.
func (e *Emitter) Once(depth int, key string, make func() Ready) Ready {
	at := e.DepthHere()
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
	here, inHead, code := e.here, e.inHead, e.Code()
	e.here, e.inHead = e.scopes[depth+1], true
	if inHead {
		here.Head = code
	} else {
		here.body = code
	}
	e.SetCode(e.here.Head)
	r := make()
	e.here.Head = e.Code()
	e.here.headReady[key] = r
	e.here, e.inHead = here, inHead
	if inHead {
		e.SetCode(here.Head)
	} else {
		e.SetCode(here.body)
	}
	return r
}

// Integers.

// Resolve replaces the variables of unrolled loops by their values.
func (e *Emitter) Resolve(x sym.Expr) sym.Expr {
	for _, n := range x.Vars() {
		if e.Names[n].replaced {
			return x.Subst(func(n sym.Name) (sym.Expr, bool) {
				b := e.Names[n]
				return b.value, b.replaced
			})
		}
	}
	return x
}

// DepthOf returns the depth of the innermost scope whose names x mentions.
func (e *Emitter) DepthOf(x sym.Expr) int {
	depth := 0
	for _, n := range x.Vars() {
		b, ok := e.Names[n]
		if !ok {
			e.Kernel.Bug("%s has no value in %s", n, x)
		}
		depth = max(depth, b.Depth)
	}
	return depth
}

// OverDims reports whether an expression uses only names whose values are in the frame.
func (e *Emitter) OverDims(x sym.Expr) bool {
	return !slices.ContainsFunc(x.Vars(), func(n sym.Name) bool {
		_, ok := e.Kernel.dims[n]
		return !ok
	})
}

// derive returns the word of the frame that holds an expression over the dimensions.
func (k *KernelEmitter) derive(x sym.Expr) int {
	if n, ok := x.Name(); ok {
		return k.dims[n]
	}
	key := x.Key()
	if word, ok := k.derived[key]; ok {
		return word
	}
	word := k.newWord()
	k.derived[key] = word
	k.launch = append(k.launch, derived{word, k.codeOver(k.Divisors.Safe(x), k.inputs)})
	return word
}

// code compiles an expression over the dimensions.
func (k *KernelEmitter) code(x sym.Expr) *sym.Code { return k.codeOver(x, k.kernel.Dims) }

// codeOver compiles an expression over the given names.
func (k *KernelEmitter) codeOver(x sym.Expr, inputs []sym.Name) *sym.Code {
	code, err := x.Compile(inputs)
	if err != nil {
		k.Bug("%s: %v", x, err)
	}
	return code
}

// IntegerOf returns a general register with the value of a symbolic integer. It must not be changed.
func (e *Emitter) IntegerOf(x sym.Expr) regalloc.Reg {
	x = e.Resolve(x)
	if v, ok := x.Const(); ok {
		return e.Number(v)
	}
	if n, ok := x.Name(); ok {
		if b := e.Names[n]; b.Lanes.Lo != regalloc.NoReg {
			Refuse("an index that differs by lane")
		} else if b.Depth > 0 {
			return b.Register
		}
	}
	if e.OverDims(x) {
		return e.Once(0, "d"+x.Key(), func() Ready {
			return Ready{Register: e.LoadWord(e.frameWord(e.Kernel.derive(x)))}
		}).Register
	}
	return e.Once(e.DepthOf(x), "i"+x.Key(), func() Ready { return Ready{Register: e.sum(x)} }).Register
}

// sum adds up an expression; the terms that do not change in this scope are added in outer scopes first.
func (e *Emitter) sum(x sym.Expr) regalloc.Reg {
	constant, terms := x.Terms()
	depth := e.DepthOf(x)
	outer := sym.Const(0)
	var inner []sym.Term
	for _, t := range terms {
		if e.DepthOf(t.Expr()) < depth {
			outer = outer.Add(t.Expr())
		} else {
			inner = append(inner, t)
		}
	}
	var total regalloc.Reg
	add := func(r regalloc.Reg) {
		if total == regalloc.NoReg {
			total = e.CopyOf(r)
		} else {
			e.Integer(Add, total, r)
		}
	}
	if !IsZero(outer) {
		add(e.IntegerOf(outer))
	}
	for _, t := range inner {
		add(e.product(t))
	}
	if constant != 0 {
		e.IntegerNumber(Add, total, constant)
	}
	return total
}

// IsZero reports whether an integer is the constant 0.
func IsZero(x sym.Expr) bool { v, ok := x.Const(); return ok && v == 0 }

// product returns a register with a term's value. It must not be changed.
func (e *Emitter) product(t sym.Term) regalloc.Reg {
	result, changeable := regalloc.NoReg, false
	for _, f := range t.Factors {
		r := e.factor(f)
		switch {
		case result == regalloc.NoReg:
			result = r
		default:
			if !changeable {
				result, changeable = e.CopyOf(result), true
			}
			e.Integer(Multiply, result, r)
		}
	}
	return e.Times(result, t.Coef)
}

// factor returns a register with the value of a factor.
func (e *Emitter) factor(f sym.Factor) regalloc.Reg {
	if f.Kind == sym.Variable {
		return e.IntegerOf(f.Expr())
	}
	x := f.Expr()
	if e.OverDims(x) {
		return e.IntegerOf(x)
	}
	return e.Once(e.DepthOf(x), "f"+x.Key(), func() Ready { return Ready{Register: e.function(f)} }).Register
}

// function returns a register with the value of a maximum, minimum, quotient, remainder, product or sum.
func (e *Emitter) function(f sym.Factor) regalloc.Reg {
	switch f.Kind {
	case sym.Least, sym.Greatest:
		replaces := Greater // keeps the lesser: x, if the value so far is greater
		if f.Kind == sym.Greatest {
			replaces = Less
		}
		r := e.CopyOf(e.IntegerOf(f.Args[0]))
		for _, x := range f.Args[1:] {
			v := e.IntegerOf(x)
			e.CompareNumbers(r, v)
			e.AssignIf(replaces, r, v)
		}
		return r
	case sym.FloorQuotient, sym.Remainder, sym.CeilQuotient:
		return e.quotient(f)
	case sym.FactorProduct, sym.FactorSum:
		op := Multiply
		if f.Kind == sym.FactorSum {
			op = Add
		}
		r := e.CopyOf(e.IntegerOf(f.Args[0]))
		for _, x := range f.Args[1:] {
			e.Integer(op, r, e.IntegerOf(x))
		}
		return r
	}
	Refuse("an integer that is too large")
	return regalloc.NoReg
}

// quotient divides, rounding down (or up), and takes remainders with the divisor's sign. The divisor must be 1 or more
// wherever the kernel divides by it. The code may also divide in an outer scope, before a loop without iterations:
// there a divisor over dimensions that is below 1 is replaced by 1, so that the instruction does not fault.
func (e *Emitter) quotient(f sym.Factor) regalloc.Reg {
	x, y := f.Args[0], e.Resolve(f.Args[1])
	if v, ok := y.Const(); ok && v > 0 && v&(v-1) == 0 && f.Kind != sym.CeilQuotient {
		r := e.CopyOf(e.IntegerOf(x))
		if f.Kind == sym.Remainder {
			e.IntegerNumber(And, r, v-1)
		} else if v > 1 {
			e.ShiftDown(r, int64(bits.TrailingZeros64(uint64(v))))
		}
		return r
	}
	if lo, _ := e.Bounds(y); lo < 1 {
		if !e.OverDims(y) || !e.Kernel.Divisors.Positive(y) {
			Refuse("a division by %s, which is not known to be 1 or more", y)
		}
		y = y.Max(sym.Const(1))
	}
	kind := f.Kind
	if kind == sym.CeilQuotient { // ⌈x/y⌉ = ⌊(x+y−1)/y⌋
		x, kind = x.Add(y).Sub(sym.Const(1)), sym.FloorQuotient
	}
	x = e.Resolve(x)
	dividend, divisor := e.IntegerOf(x), e.IntegerOf(y)
	if lo, _ := e.Bounds(x); lo >= 0 {
		return e.DivideNatural(dividend, divisor, kind == sym.Remainder)
	}
	return e.DivideDown(dividend, divisor, kind == sym.Remainder)
}

// Bounds returns the range of an expression, by what is known of dimensions, variables and checked values: they are 0
// or more.
func (e *Emitter) Bounds(x sym.Expr) (lo, hi int64) {
	return e.Kernel.Ranges.Bounds(x)
}

// Most returns an upper bound of an extent.
func (e *Emitter) Most(x sym.Expr) int64 {
	if n, ok := x.Const(); ok {
		return n
	}
	_, hi := e.Bounds(x)
	return hi
}

// Addresses.

// Pointer returns a register with the address of a buffer's element at an offset in elements; bytes are added to it.
func (e *Emitter) Pointer(buffer string, offset sym.Expr) regalloc.Reg {
	m := e.Kernel.Memory(buffer)
	base := e.Once(0, "m"+buffer, func() Ready { return Ready{Register: e.LoadWord(e.frameWord(m.word))} }).Register
	if IsZero(offset) {
		return base
	}
	size := BytesOf(m.DType)
	return e.Once(e.DepthOf(offset), "p"+buffer+" "+offset.Key(), func() Ready {
		r := e.CopyOf(base)
		constant, _ := offset.Terms()
		rest := offset.Sub(sym.Const(constant))
		if !IsZero(rest) {
			e.Integer(Add, r, e.Times(e.IntegerOf(rest), size))
		}
		if constant != 0 {
			e.IntegerNumber(Add, r, constant*size)
		}
		return Ready{Register: r}
	}).Register
}

// Address returns the operand for a buffer's element at an offset in elements. The terms that change in the innermost
// scope become the operand's index, the others its base.
func (e *Emitter) Address(buffer string, offset sym.Expr) regalloc.Mem {
	m := e.Kernel.Memory(buffer)
	size := BytesOf(m.DType)
	offset = e.Resolve(offset)
	constant, terms := offset.Terms()
	depth := e.DepthOf(offset)
	outer, inner := sym.Const(0), sym.Const(0)
	var last sym.Term
	count := 0
	for _, t := range terms {
		x := t.Expr()
		if e.DepthOf(x) < depth || depth == 0 {
			outer = outer.Add(x)
		} else {
			inner, last = inner.Add(x), t
			count++
		}
	}
	at := regalloc.Mem{Base: e.Pointer(buffer, outer)}
	switch {
	case IsZero(inner):
	case count == 1 && len(last.Factors) == 1 && last.Factors[0].Kind == sym.Variable && e.Scales(last.Coef*size):
		at.Index, at.Scale = e.Names[last.Factors[0].Name].Register, uint8(last.Coef*size)
	default:
		at.Scale = 1
		at.Index = e.Once(depth, fmt.Sprintf("x%d %s", size, inner.Key()), func() Ready {
			return Ready{Register: e.Times(e.IntegerOf(inner), size)}
		}).Register
	}
	disp := constant * size
	if disp != int64(int32(disp)) || disp > math.MaxInt32-4096 {
		r := e.CopyOf(at.Base)
		e.IntegerNumber(Add, r, disp)
		at.Base, disp = r, 0
	}
	at.Disp = int32(disp)
	return at
}
