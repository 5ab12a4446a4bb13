package sym

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of a text.
const (
	longestText = 1 << 20 // bytes
	deepestText = 600     // parentheses: two for each level of the deepest expression, and a few more
	mostWork    = 1 << 22 // names, numbers and operations in the results of all operations
)

// SyntaxError says where a text is not an expression.
type SyntaxError struct {
	Offset  int // in bytes
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Message) }

// Parse parses the output of String and more: integers, names, quoted names, + - * // %, max(a, b, …), min(a, b, …),
// ceildiv(a, b) and parentheses, with Python's precedence and any spaces. Errors are *SyntaxError.
func Parse(text string) (Expr, error) {
	p := newParser(text)
	e, err := p.expr()
	if err == nil && p.at < len(text) {
		err = p.errorf("unexpected %s", p.here())
	}
	if err != nil {
		return Expr{}, err
	}
	return e, nil
}

// ParsePrefix parses the expression at the beginning of a text in one of the project's languages, and returns its
// length in bytes. In these languages a % after a space and before a letter or a quote begins a value's name, an
// operator before = or > is not one, and # begins a comment. Errors are *SyntaxError.
func ParsePrefix(text string) (Expr, int, error) {
	budget := int64(mostWork)
	return ParseWithin(text, &budget)
}

// ParseWithin is ParsePrefix that deducts the work of multiplying out, counted in names and numbers of the results,
// from a budget that all expressions of a text share.
func ParseWithin(text string, budget *int64) (Expr, int, error) {
	p := parser{text: text, embedded: true, budget: budget}
	p.space()
	e, err := p.sum()
	return e, p.end, err
}

// ParseCond parses two expressions with <=, <, ==, !=, >= or > between them. Errors are *SyntaxError.
func ParseCond(text string) (Cond, error) {
	p := newParser(text)
	c, err := p.condition()
	if err == nil && p.at < len(text) {
		err = p.errorf("unexpected %s", p.here())
	}
	if err != nil {
		return Cond{}, err
	}
	return c, nil
}

// ParseCondPrefix parses a condition as ParsePrefix parses an expression.
func ParseCondPrefix(text string) (Cond, int, error) {
	budget := int64(mostWork)
	return ParseCondWithin(text, &budget)
}

// ParseCondWithin parses a condition as ParseWithin parses an expression.
func ParseCondWithin(text string, budget *int64) (Cond, int, error) {
	p := parser{text: text, embedded: true, budget: budget}
	c, err := p.condition()
	return c, p.end, err
}

// parser parses an expression by recursive descent.
type parser struct {
	text     string
	at       int // the offset of the next byte
	end      int // the offset after the last token
	depth    int // the number of open parentheses
	budget   *int64
	embedded bool
}

// newParser returns a parser with a budget of its own.
func newParser(text string) *parser {
	budget := int64(mostWork)
	return &parser{text: text, budget: &budget}
}

// errorf returns a SyntaxError at the current offset.
func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{p.at, fmt.Sprintf(format, args...)}
}

// here describes the next character for an error.
func (p *parser) here() string {
	if p.at >= len(p.text) {
		return "end of text"
	}
	return strconv.QuoteRune([]rune(p.text[p.at:min(p.at+4, len(p.text))])[0])
}

// expr parses an expression at the beginning of the text.
func (p *parser) expr() (Expr, error) {
	if len(p.text) > longestText && !p.embedded {
		return Expr{}, p.errorf("an expression of more than %d bytes", longestText)
	}
	p.space()
	return p.sum()
}

// relations has the spellings of relations; turns exchanges the sides.
var relations = []struct {
	text  string
	rel   Rel
	turns bool
}{{"<=", LE, false}, {">=", LE, true}, {"==", EQ, false}, {"!=", NE, false}, {"<", LT, false}, {">", LT, true}}

// condition parses a condition.
func (p *parser) condition() (Cond, error) {
	a, err := p.expr()
	if err != nil {
		return Cond{}, err
	}
	for _, r := range relations {
		if !p.take(r.text) {
			continue
		}
		b, err := p.sum()
		if err != nil {
			return Cond{}, err
		}
		if r.turns {
			a, b = b, a
		}
		return Cond{a, r.rel, b}, nil
	}
	return Cond{}, p.errorf("expected a comparison, found %s", p.here())
}

// space skips spaces, and comments if they are allowed.
func (p *parser) space() {
	comment := false
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; {
		case c == '\n':
			comment = false
		case comment || c == ' ' || c == '\t' || c == '\r':
		case c == '#' && p.embedded:
			comment = true
		default:
			return
		}
	}
}

// take consumes a token and the space after it, if it is next.
func (p *parser) take(token string) bool {
	if len(p.text)-p.at < len(token) || p.text[p.at:p.at+len(token)] != token {
		return false
	}
	p.advance(len(token))
	return true
}

// advance consumes n bytes and the space after them.
func (p *parser) advance(n int) {
	p.at += n
	p.end = p.at
	p.space()
}

// spend deducts the size of an operation's result from the budget, so that a short text cannot ask for much work.
func (p *parser) spend(e Expr) (Expr, error) {
	if *p.budget -= int64(e.size()); *p.budget < 0 {
		return Expr{}, p.errorf("an expression that takes too long to multiply out")
	}
	return e, nil
}

// enter counts an open parenthesis, and refuses too many.
func (p *parser) enter() error {
	if p.depth++; p.depth > deepestText {
		return p.errorf("nested more than %d deep", deepestText)
	}
	return nil
}

// sum parses a sum.
func (p *parser) sum() (Expr, error) {
	first, err := p.product()
	if err != nil {
		return Expr{}, err
	}
	var list []Expr
	for {
		minus := p.byte(0) == '-'
		if !minus && p.byte(0) != '+' || p.embedded && (p.byte(1) == '=' || p.byte(1) == '>') {
			break
		}
		if list == nil {
			list = append(list, first)
		}
		p.advance(1)
		x, err := p.product()
		if err != nil {
			return Expr{}, err
		}
		if minus {
			if x, err = p.spend(x.Neg()); err != nil {
				return Expr{}, err
			}
		}
		list = append(list, x)
	}
	if list == nil {
		return first, nil
	}
	return p.spend(Sum(list...))
}

// byte returns the byte i positions ahead, 0 beyond the end.
func (p *parser) byte(i int) byte {
	if p.at+i < len(p.text) {
		return p.text[p.at+i]
	}
	return 0
}

// operator consumes *, // or % and returns its first byte, or 0.
func (p *parser) operator() byte {
	c, next := p.byte(0), p.byte(1)
	switch {
	case c == '*' && !(p.embedded && next == '='):
		p.advance(1)
	case c == '/' && next == '/':
		p.advance(2)
	case c == '%' && !(p.embedded && p.at > p.end && (next == '"' || nameLength(string(next)) > 0)):
		p.advance(1)
	default:
		return 0
	}
	return c
}

// product parses a product.
func (p *parser) product() (Expr, error) {
	first, err := p.unary()
	if err != nil {
		return Expr{}, err
	}
	factors := []Expr{first}
	for {
		c := p.operator()
		if c == 0 {
			if len(factors) == 1 {
				return factors[0], nil
			}
			return p.spend(Product(factors...))
		}
		x, err := p.unary()
		if err != nil {
			return Expr{}, err
		}
		if c == '*' {
			factors = append(factors, x)
			continue
		}
		if first, err = p.spend(Product(factors...)); err != nil {
			return Expr{}, err
		}
		if c == '/' {
			first = first.FloorDiv(x)
		} else {
			first = first.Mod(x)
		}
		factors = append(factors[:0], first)
	}
}

// unary parses an operand with its signs.
func (p *parser) unary() (Expr, error) {
	negative := false
	for p.byte(0) == '-' || p.byte(0) == '+' {
		if p.byte(0) == '-' {
			negative = !negative
			if c := p.byte(1); '0' <= c && c <= '9' {
				p.at++
				return p.number(negative)
			}
		}
		p.advance(1)
	}
	e, err := p.primary()
	if negative && err == nil {
		return p.spend(e.Neg())
	}
	return e, err
}

// number parses digits; it includes the sign, so that the least integer can be written.
func (p *parser) number(negative bool) (Expr, error) {
	start := p.at
	for c := p.byte(0); '0' <= c && c <= '9'; c = p.byte(0) {
		p.at++
	}
	if n := nameLength(p.text[p.at:min(p.at+1, len(p.text))]); n > 0 || p.byte(0) == '.' {
		return Expr{}, p.errorf("a number runs into %s", p.here())
	}
	digits := p.text[start:p.at]
	if negative {
		digits = "-" + digits
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		p.at = start
		return Expr{}, p.errorf("an integer beyond 64 bits")
	}
	p.advance(0)
	return Const(v), nil
}

// primary parses a number, a name, a function or a parenthesis.
func (p *parser) primary() (Expr, error) {
	c := p.byte(0)
	switch {
	case '0' <= c && c <= '9':
		return p.number(false)
	case c == '(':
		list, err := p.list()
		if err == nil && len(list) != 1 {
			err = p.errorf("a list where one expression belongs")
		}
		if err != nil {
			return Expr{}, err
		}
		return list[0], nil
	case c == '"' || strings.IndexByte(nameMarks, c) >= 0:
		name, n, err := NamePrefix(p.text[p.at:])
		if err != nil {
			return Expr{}, p.errorf("%v", err)
		}
		if n == 0 {
			return Expr{}, p.errorf("expected an expression, found %s", p.here())
		}
		p.advance(n)
		return Var(name), nil
	}
	n := nameLength(p.text[p.at:])
	if n == 0 {
		return Expr{}, p.errorf("expected an expression, found %s", p.here())
	}
	name, start := p.text[p.at:p.at+n], p.at
	p.advance(n)
	k, ok := functions[name]
	if !ok || p.byte(0) != '(' {
		return Dim(name), nil
	}
	list, err := p.list()
	if err != nil {
		return Expr{}, err
	}
	if !functionTakes[k](len(list)) {
		p.at = start
		return Expr{}, p.errorf("%s of %d arguments", name, len(list))
	}
	if k == huge {
		return tooLarge, nil
	}
	return rebuild(k, list), nil
}

var functionTakes = map[kind]func(int) bool{
	minimum: func(n int) bool { return n > 0 },
	maximum: func(n int) bool { return n > 0 },
	ceilDiv: func(n int) bool { return n == 2 },
	huge:    func(n int) bool { return n == 0 },
}

// list parses a parenthesised list, which may be empty.
func (p *parser) list() ([]Expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	p.advance(1)
	var list []Expr
	for p.byte(0) != ')' {
		if len(list) > 0 && !p.take(",") {
			return nil, p.errorf("expected , or ), found %s", p.here())
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	p.depth--
	p.advance(1)
	return list, nil
}
