package loop

import (
	"fmt"
	"math"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// Data is an operand of a kernel: its element type and its bytes from the first element on.
type Data struct {
	DType dtype.DType
	Bytes []byte
}

// Interpret runs a kernel over operands, one for each parameter, with the given values of its dimensions. It is the
// slow reference that defines the meaning of kernels. Loops of every kind run in index order. Locals begin as bytes of
// 0xFF, which is NaN in every float type that has one.
//
// The error is a *diag.Error of kind ErrInput: a Check that failed, or integers over the dimensions that overflow. All
// other failures (an access outside its buffer, an element of a Write parameter that is read before it is written, or
// never written) are bugs of the kernel's author, and panic with the kernel's text.
func Interpret(k *Kernel, operands []Data, dims map[sym.Name]int64) error {
	return interpret(k, operands, dims, false)
}

// InterpretReversed is Interpret, but runs independent loops from their last iteration to their first. If a kernel's
// loops are independent, the results are the same except for rounding in vector reductions.
func InterpretReversed(k *Kernel, operands []Data, dims map[sym.Name]int64) error {
	return interpret(k, operands, dims, true)
}

// interpret runs a kernel once, with new scratch.
func interpret(k *Kernel, operands []Data, dims map[sym.Name]int64, reversed bool) error {
	values := make([]int64, len(k.Dims))
	for i, name := range k.Dims {
		v, ok := dims[name]
		if !ok {
			panic(diag.Internalf("kernel @%s: dimension %s has no value", k.Name, name))
		}
		values[i] = v
	}
	x := NewInterpreter(k)
	bytes, err := x.Scratch(values)
	if err != nil {
		return err
	}
	if int64(int(bytes)) != bytes {
		return diag.Inputf("kernel @%s: %d bytes of locals do not fit the address space", k.Name, bytes)
	}
	return x.run(operands, values, make([]byte, bytes), reversed)
}

// Interpreter is a compiled form of a kernel for repeated interpretation. It is safe for concurrent use.
type Interpreter struct {
	kernel   *Kernel
	body     []action
	params   []layout
	locals   []placedLocal
	scratch  *sym.Code
	integers []sym.Name // the names of frame.integers: first the dimensions, then loop variables and Checks
	scalars  int
	memories int
}

// frame is the state of one run.
type frame struct {
	integers []int64
	scalars  []uint64
	memories []memory
	reversed bool
}

// memory is a parameter or a local while a kernel runs. written has one entry per element of a Write parameter.
type memory struct {
	name           string
	width          int
	data           []byte
	shape, strides []int64
	written        []bool
}

type (
	action  func(*frame)
	value   func(*frame) uint64
	integer func(*frame) int64
)

// layout is the shape and strides of a memory over the dimensions.
type layout struct {
	dt             dtype.DType
	shape, strides []*sym.Code
}

// placedLocal is a local with its slot among a frame's memories and its offset in the scratch.
type placedLocal struct {
	layout
	name   string
	slot   int
	offset *sym.Code
}

// failure carries an input error out of a running kernel, by panic.
type failure struct{ err error }

// NewInterpreter compiles a kernel. It panics with the kernel's text if the kernel is not well formed; see Verify.
func NewInterpreter(k *Kernel) *Interpreter {
	x := &Interpreter{kernel: k}
	c := &resolver{kernel: k, interpreter: x, integers: map[sym.Name]int{}, scalars: map[string]int{},
		memories: map[string]int{}}
	for _, name := range k.Dims {
		c.integer(name)
	}
	for _, p := range k.Params {
		c.memories[p.Name] = len(c.types)
		c.types = append(c.types, p.DType)
		strides := p.Strides
		if strides == nil {
			strides = RowMajor(p.Shape)
		}
		x.params = append(x.params, layout{p.DType, c.sizes(p.Shape), c.sizes(strides)})
	}
	for _, l := range Locals(k) {
		x.locals = append(x.locals, c.local(l.Local, c.size(l.Offset)))
	}
	x.scratch = c.size(Scratch(k))
	for _, name := range integerNames(k.Body) {
		c.integer(name)
	}
	x.integers = c.names
	x.body = c.body(k.Body)
	x.scalars, x.memories = len(c.scalars), len(c.types)
	return x
}

// local declares a local at an offset in the scratch.
func (c *resolver) local(l *Local, offset *sym.Code) placedLocal {
	slot := len(c.types)
	c.memories[l.Name] = slot
	c.types = append(c.types, l.DType)
	return placedLocal{layout{l.DType, c.sizes(l.Shape), c.sizes(RowMajor(l.Shape))}, l.Name, slot, offset}
}

// Scratch returns the number of bytes that Run needs for the kernel's locals. dims are the values of the kernel's
// dimensions in order.
func (x *Interpreter) Scratch(dims []int64) (int64, error) {
	return x.eval(x.scratch, dims)
}

// eval computes a size; the error is of kind ErrInput.
func (x *Interpreter) eval(code *sym.Code, dims []int64) (int64, error) {
	v, err := code.Eval(dims)
	if err != nil {
		return 0, diag.Inputf("kernel @%s: a size cannot be computed for dimensions %v: %v", x.kernel.Name, dims, err)
	}
	return v, nil
}

// Run interprets the kernel. dims are the values of the kernel's dimensions in order; scratch has at least Scratch
// bytes.
func (x *Interpreter) Run(operands []Data, dims []int64, scratch []byte) error {
	return x.run(operands, dims, scratch, false)
}

// run is Run, with independent loops backward if reversed.
func (x *Interpreter) run(operands []Data, dims []int64, scratch []byte, reversed bool) (err error) {
	k := x.kernel
	if len(operands) != len(k.Params) || len(dims) != len(k.Dims) {
		panic(diag.Internalf("kernel @%s takes %d operands and %d dimensions, got %d and %d", k.Name, len(k.Params),
			len(k.Dims), len(operands), len(dims)))
	}
	f := &frame{integers: make([]int64, len(x.integers)), scalars: make([]uint64, x.scalars),
		memories: make([]memory, x.memories), reversed: reversed}
	copy(f.integers, dims)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.err
		default:
			panic(r)
		}
	}()
	for i, p := range k.Params {
		if operands[i].DType != p.DType {
			panic(diag.Internalf("kernel @%s: operand %%%s is %s, want %s", k.Name, p.Name, operands[i].DType, p.DType))
		}
		m := x.memory(x.params[i], p.Name, operands[i].Bytes, dims)
		if p.Access == Write {
			m.written = make([]bool, elements(m.shape))
		}
		f.memories[i] = m
	}
	for _, l := range x.locals {
		offset := x.mustEval(l.offset, dims)
		f.memories[l.slot] = x.memory(l.layout, l.name, scratch[offset:], dims)
	}
	for _, do := range x.body {
		do(f)
	}
	for _, m := range f.memories {
		for i, done := range m.written {
			if !done {
				x.bug("element %d of %%%s (shape %v) was never written", i, m.name, m.shape)
			}
		}
	}
	return nil
}

// mustEval is eval that leaves the kernel on error.
func (x *Interpreter) mustEval(code *sym.Code, dims []int64) int64 {
	v, err := x.eval(code, dims)
	if err != nil {
		panic(failure{err})
	}
	return v
}

// bug panics with a message and the kernel's text.
func (x *Interpreter) bug(format string, args ...any) { kernelBug(x.kernel, format, args...) }

// kernelBug panics with a message and the kernel's text.
func kernelBug(k *Kernel, format string, args ...any) {
	panic(diag.Internalf("kernel @%s: %s\n%s", k.Name, fmt.Sprintf(format, args...), k))
}

// memory returns a buffer at the start of data. It panics if data is too short.
func (x *Interpreter) memory(l layout, name string, data []byte, dims []int64) memory {
	m := memory{name: name, width: l.dt.Bits(), shape: make([]int64, len(l.shape)), strides: make([]int64, len(l.shape))}
	last, empty := int64(0), false
	for i := range l.shape {
		m.shape[i] = max(x.mustEval(l.shape[i], dims), 0)
		m.strides[i] = x.mustEval(l.strides[i], dims)
		empty = empty || m.shape[i] == 0
		last += (m.shape[i] - 1) * m.strides[i]
	}
	if empty {
		last = -1
	}
	bytes, err := l.dt.Bytes(last + 1)
	if err != nil {
		panic(failure{err})
	}
	if bytes > int64(len(data)) {
		x.bug("%%%s needs %d bytes for shape %v, got %d", name, bytes, m.shape, len(data))
	}
	m.data = data[:bytes]
	return m
}

// elements returns the number of elements of a shape.
func elements(shape []int64) int64 {
	n := int64(1)
	for _, extent := range shape {
		n *= max(extent, 0)
	}
	return n
}

// at checks an index against the shape and returns its offset in elements.
func (m *memory) at(k *Kernel, index []integer, f *frame, writing bool) int64 {
	offset, logical := int64(0), int64(0)
	for d, get := range index {
		i := get(f)
		if uint64(i) >= uint64(m.shape[d]) {
			outside := make([]int64, len(index))
			for d, get := range index {
				outside[d] = get(f)
			}
			kernelBug(k, "access %v of %%%s is outside its shape %v", outside, m.name, m.shape)
		}
		offset += i * m.strides[d]
		logical = logical*m.shape[d] + i
	}
	if m.written != nil {
		m.mark(k, logical, writing)
	}
	return offset
}

// mark records the write of an element, or panics on a read before the write.
func (m *memory) mark(k *Kernel, logical int64, writing bool) {
	if writing {
		m.written[logical] = true
	} else if !m.written[logical] {
		kernelBug(k, "element %d of %%%s (shape %v) is read before it was written", logical, m.name, m.shape)
	}
}

// resolver turns names into slots of a frame, and statements into closures.
type resolver struct {
	kernel      *Kernel
	interpreter *Interpreter
	names       []sym.Name       // of integers
	integers    map[sym.Name]int // dimensions, loop variables and Checks
	scalars     map[string]int
	memories    map[string]int
	types       []dtype.DType // of memories
}

// bug panics with a message and the kernel's text.
func (c *resolver) bug(format string, args ...any) { kernelBug(c.kernel, format, args...) }

// integer returns the slot of an integer, and adds one for a new name.
func (c *resolver) integer(name sym.Name) int {
	slot, ok := c.integers[name]
	if !ok {
		slot = len(c.names)
		c.integers[name] = slot
		c.names = append(c.names, name)
	}
	return slot
}

// scalar returns the slot of a scalar, and adds one for a new name.
func (c *resolver) scalar(name string) int {
	slot, ok := c.scalars[name]
	if !ok {
		slot = len(c.scalars)
		c.scalars[name] = slot
	}
	return slot
}

// memory returns the slot of a declared buffer.
func (c *resolver) memory(name string) int {
	slot, ok := c.memories[name]
	if !ok {
		c.bug("%%%s is not declared", name)
	}
	return slot
}

// size compiles a symbolic integer over the names known so far.
func (c *resolver) size(e sym.Expr) *sym.Code {
	code, err := e.Compile(c.names)
	if err != nil {
		c.bug("%s: %v", e, err)
	}
	return code
}

// sizes compiles a list of symbolic integers.
func (c *resolver) sizes(list []sym.Expr) []*sym.Code {
	codes := make([]*sym.Code, len(list))
	for i, e := range list {
		codes[i] = c.size(e)
	}
	return codes
}

// symbol compiles a symbolic integer to a closure.
func (c *resolver) symbol(e sym.Expr) integer {
	if v, ok := e.Const(); ok {
		return func(*frame) int64 { return v }
	}
	if name, ok := e.Name(); ok {
		slot, known := c.integers[name]
		if !known {
			c.bug("%s is not declared", name)
		}
		return func(f *frame) int64 { return f.integers[slot] }
	}
	code := c.size(e)
	return func(f *frame) int64 {
		v, err := code.Eval(f.integers)
		if err != nil {
			panic(failure{diag.Inputf("kernel @%s: %s cannot be computed: %v", c.kernel.Name, e, err)})
		}
		return v
	}
}

// symbols compiles a list of symbolic integers to closures.
func (c *resolver) symbols(list []sym.Expr) []integer {
	result := make([]integer, len(list))
	for i, e := range list {
		result[i] = c.symbol(e)
	}
	return result
}

// body compiles a list of statements.
func (c *resolver) body(list []Stmt) []action {
	result := make([]action, len(list))
	for i, s := range list {
		result[i] = c.statement(s)
	}
	return result
}

// run executes compiled statements in order.
func run(body []action, f *frame) {
	for _, do := range body {
		do(f)
	}
}

// statement compiles a statement.
func (c *resolver) statement(s Stmt) action {
	switch s := s.(type) {
	case *For:
		return c.loop(s)
	case *Let:
		return c.assign(s.Name, s.X)
	case *Var:
		return c.assign(s.Name, s.X)
	case *Set:
		return c.assign(s.Name, s.X)
	case *Reduce:
		x, combine, slot := c.expr(s.X), binaryFunc(s.Op, s.X.DType()), c.scalar(s.Name)
		return func(f *frame) { f.scalars[slot] = combine(f.scalars[slot], x(f)) }
	case *Check:
		return c.check(s)
	case *Store:
		return c.store(s)
	case *When:
		cond, then, otherwise := c.expr(s.Cond), c.body(s.Then), c.body(s.Else)
		return func(f *frame) {
			if cond(f) != 0 {
				run(then, f)
			} else {
				run(otherwise, f)
			}
		}
	case *Local:
		slot := c.memory(s.Name)
		return func(f *frame) {
			m := &f.memories[slot]
			for i := range m.data {
				m.data[i] = 0xFF
			}
		}
	case *Contract:
		return c.contract(s)
	}
	c.bug("a statement of type %T is not known", s)
	return nil
}

// loop compiles a loop.
func (c *resolver) loop(s *For) action {
	extent, slot, body := c.symbol(s.Extent), c.integer(s.Var), c.body(s.Body)
	var inner []integer
	for _, x := range Hollow(s, func(sym.Expr) int64 { return 0 }, func(sym.Expr) int64 { return math.MaxInt64 }) {
		inner = append(inner, c.symbol(x))
	}
	return func(f *frame) {
		n := extent(f)
		for _, x := range inner {
			if n > 0 && x(f) <= 0 {
				return
			}
		}
		for i := range n {
			f.integers[slot] = i
			if f.reversed && s.Kind != Serial {
				f.integers[slot] = n - 1 - i
			}
			run(body, f)
		}
	}
}

// assign compiles an assignment to a scalar.
func (c *resolver) assign(name string, x Expr) action {
	get, slot := c.expr(x), c.scalar(name)
	return func(f *frame) { f.scalars[slot] = get(f) }
}

// check compiles a Check.
func (c *resolver) check(s *Check) action {
	x, slot, dt := c.expr(s.X), c.integer(s.Name), s.X.DType()
	low, high := c.symbol(s.Min), c.symbol(s.Max)
	return func(f *frame) {
		bits := x(f)
		v := ToInt(dt, bits)
		from, to := low(f), high(f)
		if v < from || v > to || dt == dtype.U64 && bits > math.MaxInt64 {
			panic(failure{&diag.Error{Kind: diag.ErrInput, Node: c.kernel.Source,
				Detail: CheckDetail(s.What, dt, bits, from, to)}})
		}
		f.integers[slot] = v
	}
}

// CheckDetail returns the error message of a failed Check: the value of type dt with these bits is not in [min, max].
func CheckDetail(what string, dt dtype.DType, bits uint64, min, max int64) string {
	if dt == dtype.U64 {
		return fmt.Sprintf("%s is %d, outside [%d, %d]", what, bits, min, max)
	}
	return fmt.Sprintf("%s is %d, outside [%d, %d]", what, ToInt(dt, bits), min, max)
}

// store compiles a Store.
func (c *resolver) store(s *Store) action {
	x, slot, index := c.expr(s.X), c.memory(s.To), c.symbols(s.Index)
	mask := c.mask(s.Mask)
	return func(f *frame) {
		if mask != nil && mask(f) == 0 {
			return
		}
		v := x(f)
		m := &f.memories[slot]
		storeBits(m.width, m.data, m.at(c.kernel, index, f, true), v)
	}
}

// mask compiles a mask; nil gives nil.
func (c *resolver) mask(e Expr) value {
	if e == nil {
		return nil
	}
	return c.expr(e)
}

// expr compiles an expression.
func (c *resolver) expr(e Expr) value {
	switch e := e.(type) {
	case *Const:
		bits := e.Bits
		return func(*frame) uint64 { return bits }
	case *Ref:
		slot, ok := c.scalars[e.Name]
		if !ok {
			c.bug("%%%s is not declared", e.Name)
		}
		return func(f *frame) uint64 { return f.scalars[slot] }
	case *Index:
		x := c.symbol(e.X)
		return func(f *frame) uint64 { return uint64(x(f)) }
	case *Load:
		return c.load(e)
	case *Unary:
		x, apply := c.expr(e.X), unaryFunc(e.Op, e.X.DType())
		return func(f *frame) uint64 { return apply(x(f)) }
	case *Binary:
		x, y, apply := c.expr(e.X), c.expr(e.Y), binaryFunc(e.Op, e.X.DType())
		return func(f *frame) uint64 { return apply(x(f), y(f)) }
	case *Select:
		cond, x, y := c.expr(e.Cond), c.expr(e.X), c.expr(e.Y)
		return func(f *frame) uint64 {
			a, b := x(f), y(f)
			if cond(f) != 0 {
				return a
			}
			return b
		}
	case *Cast:
		x, apply := c.expr(e.X), castFunc(e.Type, e.X.DType(), e.Wrap)
		return func(f *frame) uint64 { return apply(x(f)) }
	}
	c.bug("an expression of type %T is not known", e)
	return nil
}

// load compiles a Load.
func (c *resolver) load(e *Load) value {
	slot, index, boolean := c.memory(e.From), c.symbols(e.Index), e.Type == dtype.Bool
	mask, otherwise := c.mask(e.Mask), c.mask(e.Else)
	return func(f *frame) uint64 {
		if mask != nil && mask(f) == 0 {
			return otherwise(f)
		}
		m := &f.memories[slot]
		v := loadBits(m.width, m.data, m.at(c.kernel, index, f, false))
		if boolean && v != 0 {
			return 1
		}
		return v
	}
}
