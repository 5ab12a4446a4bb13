package loop

import (
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// ParseKernel reads one kernel from its printed text. Errors are of kind ErrInput, with line and column. The kernel is
// not verified.
func ParseKernel(source string) (k *Kernel, err error) {
	p := newParser(source)
	defer p.catch(&err)
	p.expect("kernel")
	k = p.kernel()
	p.end()
	return k, nil
}

// literal is a constant whose type its context decides.
type literal struct {
	text string // a number, true, false, nan, or bits
	bits bool
}

// operand is an expression or a literal.
type operand struct {
	Expr
	literal *literal
}

// kernel reads a kernel after its keyword. If it shares the head of an earlier one, it shares its parameters; if it
// shares the body too, it shares all statements.
func (p *parser) kernel() *Kernel {
	k := &Kernel{Name: p.global()}
	head := p.head()
	like := p.patterns[head]
	if like != nil {
		k.Params, k.Dims = like[0].kernel.Params, like[0].kernel.Dims
		p.Skip(len(head))
	} else {
		rest := p.Rest()
		p.parameters(k)
		if rest[:len(rest)-len(p.Rest())] != head {
			head = ""
		}
	}
	if p.accept("work") {
		k.Work = p.integer()
	}
	if p.accept("means") {
		k.Meaning = &Meaning{Op: p.quoted(), Attrs: p.attributes()}
	}
	k.Source = p.source()
	rest := p.Rest()
	for _, o := range like {
		if strings.HasPrefix(rest, o.body) {
			p.Skip(len(o.body))
			k.Body = o.kernel.Body
			return k
		}
	}
	p.types = map[string]dtype.DType{}
	for _, q := range k.Params {
		p.types[q.Name] = q.DType
	}
	p.dims = k.Dims
	k.Body = p.body()
	p.mark(k)
	if head != "" && len(like) < mostPatterns {
		p.patterns[head] = append(like, pattern{rest[:len(rest)-len(p.Rest())], k})
	}
	return k
}

// mark adds a $ to the names of loop variables and checked values that the text has without one.
func (p *parser) mark(k *Kernel) {
	taken, renamed := map[sym.Name]bool{}, map[sym.Name]sym.Name{}
	for _, name := range integerNames(k.Body) {
		taken[name] = true
	}
	for _, name := range integerNames(k.Body) {
		if name.Bound() {
			continue
		}
		own := sym.Bound(name.Text())
		if taken[own] {
			p.fail("%s is declared twice", name)
		}
		renamed[name] = own
	}
	if len(renamed) > 0 {
		k.Body = Rename(k.Body, renamed)
	}
}

// parameters reads a kernel's parameters and dimensions.
func (p *parser) parameters(k *Kernel) {
	p.list("(", ")", func() {
		q := &Param{Name: p.percent()}
		p.expect(":")
		q.DType, q.Shape = p.bufferType()
		if p.accept("strides") {
			q.Strides = p.index()
		}
		q.Access = Access(p.choice(accessNames[:]))
		k.Params = append(k.Params, q)
	})
	p.expect("dims")
	p.list("(", ")", func() { k.Dims = append(k.Dims, p.symbol()) })
}

// pattern is a kernel that was read earlier, and the text of its body.
type pattern struct {
	body   string
	kernel *Kernel
}

// Limits of the search for equal texts, which bound its time for any text.
const (
	mostPatterns = 8    // with one head
	longestHead  = 4096 // bytes
)

// head returns the rest of the line up to the source or the body: a printed kernel has its parameters and dimensions
// there. It returns "" if kernels are not shared.
func (p *parser) head() string {
	if p.patterns == nil {
		return ""
	}
	line := p.Rest()
	line = line[:min(len(line), longestHead)]
	if end := strings.IndexByte(line, '\n'); end >= 0 {
		line = line[:end]
	}
	end := strings.Index(line, " source \"")
	if end < 0 {
		end = strings.LastIndex(line, " {")
	}
	return line[:max(end, 0)]
}

// source reads an optional source "…".
func (p *parser) source() string {
	if p.accept("source") {
		return p.quoted()
	}
	return ""
}

// bufferType reads f32[n, 10].
func (p *parser) bufferType() (dtype.DType, []sym.Expr) {
	dt := p.dtype()
	return dt, p.index()
}

// dtype reads the name of an element type.
func (p *parser) dtype() dtype.DType {
	name := p.ident()
	dt, ok := dtype.Parse(name)
	if !ok {
		p.fail("%s is not an element type", name)
	}
	return dt
}

// index reads [i, j + 1].
func (p *parser) index() []sym.Expr {
	list := []sym.Expr{}
	p.list("[", "]", func() { list = append(list, p.integer()) })
	return list
}

// body reads a list of statements in braces.
func (p *parser) body() []Stmt {
	p.enter()
	defer p.leave()
	var body []Stmt
	p.expect("{")
	for !p.accept("}") {
		body = append(body, p.statement())
	}
	return body
}

// keywords maps the first word of a statement to its parser.
var keywords map[string]func(*parser) Stmt

// init fills keywords: a literal would make an initialization cycle.
func init() {
	keywords = map[string]func(*parser) Stmt{
		"let": (*parser).let, "var": (*parser).variable, "check": (*parser).check, "guard": (*parser).check,
		"store": (*parser).store, "when": (*parser).when,
		"local": (*parser).local, "shared": (*parser).local, "contract": (*parser).contract,
	}
	for kind, name := range loopNames {
		keywords[name] = func(p *parser) Stmt { return p.loop(LoopKind(kind)) }
	}
}

// statement reads a statement.
func (p *parser) statement() Stmt {
	if p.isPercent() {
		return p.assignment()
	}
	p.keyword = p.ident()
	read, ok := keywords[p.keyword]
	if !ok {
		p.fail("no statement begins with %s", p.keyword)
	}
	return read(p)
}

// loop reads i < n { … }.
func (p *parser) loop(kind LoopKind) Stmt {
	f := &For{Kind: kind, Var: p.counter()}
	p.expect("<")
	f.Extent = p.integer()
	f.Body = p.body()
	return f
}

// let reads %x = e.
func (p *parser) let() Stmt {
	l := &Let{Name: p.percent()}
	p.expect("=")
	l.X = p.expr()
	p.types[l.Name] = l.X.DType()
	return l
}

// variable reads %x: f32 = e.
func (p *parser) variable() Stmt {
	v := &Var{Name: p.percent()}
	p.expect(":")
	dt := p.dtype()
	p.expect("=")
	v.X = p.typed(dt)
	p.types[v.Name] = dt
	return v
}

// assignment reads %x = e or %x max= e.
func (p *parser) assignment() Stmt {
	name := p.percent()
	if p.accept("=") {
		return &Set{Name: name, X: p.typed(p.typeOf(name))}
	}
	op, ok := binaryOf[p.ident()]
	if !ok {
		p.fail("a %%name is followed by = or by a function and =")
	}
	p.expect("=")
	return &Reduce{Name: name, Op: op, X: p.typed(p.typeOf(name))}
}

// typeOf returns the type of a declared buffer or scalar.
func (p *parser) typeOf(name string) dtype.DType {
	dt, ok := p.types[name]
	if !ok {
		p.fail("%%%s is not declared", name)
	}
	return dt
}

// check reads i = e in [0, n] "what".
func (p *parser) check() Stmt {
	c := &Check{Name: p.counter(), Guard: p.keyword == "guard"}
	p.expect("=")
	c.X = p.expr()
	p.expect("in")
	p.expect("[")
	c.Min = p.integer()
	p.expect(",")
	c.Max = p.integer()
	p.expect("]")
	c.What = p.quoted()
	return c
}

// store reads %x[i] = e, with an optional mask.
func (p *parser) store() Stmt {
	s := &Store{To: p.percent()}
	s.Index = p.index()
	p.expect("=")
	s.X = p.typed(p.typeOf(s.To))
	if p.accept("where") {
		s.Mask = p.typed(dtype.Bool)
	}
	return s
}

// when reads cond { … } else { … }; else is optional.
func (p *parser) when() Stmt {
	w := &When{Cond: p.typed(dtype.Bool)}
	w.Then = p.body()
	if p.accept("else") {
		w.Else = p.body()
	}
	return w
}

// local reads %x: f32[n].
func (p *parser) local() Stmt {
	l := &Local{}
	if p.keyword == "shared" {
		l.Space = Shared
	}
	l.Name = p.percent()
	p.expect(":")
	l.DType, l.Shape = p.bufferType()
	p.types[l.Name] = l.DType
	return l
}

// contract reads %c[r, q] += %a[r, k] * %b[k, q] for r < m, q < n, k < l.
func (p *parser) contract() Stmt {
	c := &Contract{}
	c.C.Buffer, c.C.Origin = p.element()
	p.expect("+=")
	c.A.Buffer, c.A.Origin = p.element()
	p.expect("*")
	c.B.Buffer, c.B.Origin = p.element()
	p.expect("for")
	var names [3]sym.Name
	for i, extent := range []*sym.Expr{&c.M, &c.N, &c.K} {
		if i > 0 {
			p.expect(",")
		}
		names[i] = p.symbol()
		p.expect("<")
		*extent = p.integer()
	}
	p.steps(&c.C, names[0], names[1])
	p.steps(&c.A, names[0], names[2])
	p.steps(&c.B, names[2], names[1])
	return c
}

// element reads %x[i, j].
func (p *parser) element() (string, []sym.Expr) {
	name := p.percent()
	p.typeOf(name)
	return name, p.index()
}

// steps splits the index of a tile's element, an expression over a row and a column, into origin and steps.
func (p *parser) steps(t *Tile, row, col sym.Name) {
	index := t.Origin
	t.Origin, t.Row, t.Col = make([]sym.Expr, len(index)), make([]sym.Expr, len(index)), make([]sym.Expr, len(index))
	for i, e := range index {
		byRow, rest, okRow := e.Linear(row)
		byCol, origin, okCol := rest.Linear(col)
		mixed, _, ok := byRow.Linear(col)
		if !okRow || !okCol || !ok || !mixed.Equal(sym.Const(0)) {
			p.fail("%s is not linear in %s and %s", e, row, col)
		}
		t.Origin[i], t.Row[i], t.Col[i] = origin, byRow, byCol
	}
}

// typed reads an expression of a type that the context decides.
func (p *parser) typed(dt dtype.DType) Expr { return p.settle(p.operand(), dt) }

// expr reads an expression that states its type.
func (p *parser) expr() Expr { return p.settle(p.operand(), dtype.Invalid) }

// settle gives a literal the type; dtype.Invalid means that the context decides none.
func (p *parser) settle(o operand, dt dtype.DType) Expr {
	if o.literal == nil {
		return o.Expr
	}
	if dt == dtype.Invalid {
		p.fail("the constant %s needs a type, as in f32(%s)", o.literal.text, o.literal.text)
	}
	bits, ok := parseConst(dt, o.literal)
	if !ok {
		p.fail("%s is not a value of %s", o.literal.text, dt)
	}
	return &Const{Type: dt, Bits: bits}
}

// pair gives a literal among two operands the type of the other.
func (p *parser) pair(x, y operand) (Expr, Expr) {
	switch {
	case x.literal == nil && y.literal != nil:
		return x.Expr, p.settle(y, x.DType())
	case x.literal != nil && y.literal == nil:
		return p.settle(x, y.DType()), y.Expr
	}
	return p.settle(x, dtype.Invalid), p.settle(y, dtype.Invalid)
}

var unaryOf, binaryOf = func() (map[string]UnaryOp, map[string]BinaryOp) {
	unary, binary := map[string]UnaryOp{}, map[string]BinaryOp{}
	for op, name := range unaryNames {
		unary[name] = UnaryOp(op)
	}
	for op, name := range binaryNames {
		binary[name] = BinaryOp(op)
	}
	return unary, binary
}()

// operand reads an expression or a literal.
func (p *parser) operand() operand {
	p.enter()
	defer p.leave()
	if p.isPercent() {
		name := p.percent()
		return operand{Expr: &Ref{Name: name, Type: p.typeOf(name)}}
	}
	if text, ok := p.number(); ok {
		return operand{literal: &literal{text: text}}
	}
	name := p.ident()
	switch name {
	case "true", "false":
		return operand{literal: &literal{text: name}}
	case "bits":
		return operand{literal: p.bits()}
	case "load":
		return operand{Expr: p.load()}
	}
	p.expect("(")
	e := p.call(name)
	p.expect(")")
	return operand{Expr: e}
}

// bits reads the number in bits(…).
func (p *parser) bits() *literal {
	p.expect("(")
	text, ok := p.number()
	if !ok {
		p.fail("expected a number of bits")
	}
	p.expect(")")
	return &literal{text: text, bits: true}
}

// load reads %x[i], with an optional mask.
func (p *parser) load() Expr {
	l := &Load{From: p.percent()}
	l.Type = p.typeOf(l.From)
	l.Index = p.index()
	if p.accept("if") {
		l.Mask = p.typed(dtype.Bool)
		p.expect("else")
		l.Else = p.typed(l.Type)
	}
	return l
}

// call reads the operands of a function.
func (p *parser) call(name string) Expr {
	if op, ok := unaryOf[name]; ok {
		return &Unary{Op: op, X: p.expr()}
	}
	if op, ok := binaryOf[name]; ok {
		x := p.operand()
		p.expect(",")
		y := p.operand()
		e := &Binary{Op: op}
		e.X, e.Y = p.pair(x, y)
		return e
	}
	if dt, ok := dtype.Parse(name); ok {
		return p.typed(dt)
	}
	switch name {
	case "index":
		return &Index{X: p.integer()}
	case "cast":
		c := &Cast{Type: p.dtype()}
		p.expect(",")
		c.X = p.expr()
		if p.accept(",") {
			p.expect("wrap")
			c.Wrap = true
		}
		return c
	case "select":
		s := &Select{Cond: p.typed(dtype.Bool)}
		p.expect(",")
		x := p.operand()
		p.expect(",")
		s.X, s.Y = p.pair(x, p.operand())
		return s
	}
	p.fail("%s is not a function", name)
	return nil
}

// parseConst returns the bits of a literal in a type; false if the type does not have this value. Floats are rounded,
// integers must be exact.
func parseConst(dt dtype.DType, l *literal) (uint64, bool) {
	switch {
	case !Scalar(dt):
		return 0, false
	case l.bits:
		x, err := strconv.ParseUint(l.text, 10, dt.Bits())
		return x, err == nil && (dt != dtype.Bool || x < 2)
	case dt == dtype.Bool:
		return boolBits(l.text == "true"), l.text == "true" || l.text == "false"
	case dt.IsFloat():
		if l.text == "true" || l.text == "false" {
			return 0, false
		}
		precision := 32
		if dt == dtype.F64 {
			precision = 64
		}
		x, err := strconv.ParseFloat(l.text, precision)
		return FromFloat(dt, x), err == nil
	case dt.IsUnsigned():
		x, err := strconv.ParseUint(l.text, 10, dt.Bits())
		return x, err == nil
	case dt.IsInt():
		x, err := strconv.ParseInt(l.text, 10, dt.Bits())
		return FromInt(dt, x), err == nil
	}
	return 0, false
}
