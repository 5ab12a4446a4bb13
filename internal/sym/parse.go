package sym

import (
	"fmt"
	"strconv"
	"strings"
)

// Limits of a text.
const (
	longestText = 1 << 20 // bytes
	deepestText = 600     // parentheses: two for each level of the deepest expression, and some
	mostWork    = 1 << 22 // parts of what the operations on the way make
)

// SyntaxError says where a text is no expression.
type SyntaxError struct {
	Offset  int // in bytes
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("offset %d: %s", e.Offset, e.Message) }

// Parse reads what String writes, and freer: integers, names, quoted names, + - * // %, max(a, b, …), min(a, b, …),
// ceildiv(a, b) and parentheses, with Python's precedence and any space. Errors are *SyntaxError.
func Parse(text string) (Expr, error) {
	p := newParser(text)
	e, err := p.whole()
	if err == nil && p.at < len(text) {
		err = p.errorf("unexpected %s", p.here())
	}
	if err != nil {
		return Expr{}, err
	}
	return e, nil
}

// ParsePrefix reads the expression that a text of one of the project's languages begins with, and returns its length in
// bytes. There a % after a space and before a letter or a quote begins a value's name, an operator before = or > is
// none, and # begins a comment. Errors are *SyntaxError.
func ParsePrefix(text string) (Expr, int, error) {
	budget := int64(mostWork)
	return ParseWithin(text, &budget)
}

// ParseWithin is ParsePrefix that takes the work of multiplying out, counted in names and numbers of its results, from
// a budget that the expressions of one text share.
func ParseWithin(text string, budget *int64) (Expr, int, error) {
	p := parser{text: text, embedded: true, budget: budget}
	p.space()
	e, err := p.sum()
	return e, p.end, err
}

// ParseCond reads two expressions with <=, <, ==, !=, >= or > between them. Errors are *SyntaxError.
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

// ParseCondPrefix reads a condition as ParsePrefix reads an expression.
func ParseCondPrefix(text string) (Cond, int, error) {
	budget := int64(mostWork)
	return ParseCondWithin(text, &budget)
}

// ParseCondWithin reads a condition as ParseWithin reads an expression.
func ParseCondWithin(text string, budget *int64) (Cond, int, error) {
	p := parser{text: text, embedded: true, budget: budget}
	c, err := p.condition()
	return c, p.end, err
}

type parser struct {
	text     string
	at       int // the next byte
	end      int // after the last byte of the last token
	depth    int // parentheses around
	budget   *int64
	embedded bool
}

func newParser(text string) *parser {
	budget := int64(mostWork)
	return &parser{text: text, budget: &budget}
}

func (p *parser) errorf(format string, args ...any) error {
	return &SyntaxError{p.at, fmt.Sprintf(format, args...)}
}

func (p *parser) here() string {
	if p.at >= len(p.text) {
		return "end of text"
	}
	return strconv.QuoteRune([]rune(p.text[p.at:min(p.at+4, len(p.text))])[0])
}

func (p *parser) whole() (Expr, error) {
	if len(p.text) > longestText && !p.embedded {
		return Expr{}, p.errorf("an expression of more than %d bytes", longestText)
	}
	p.space()
	return p.sum()
}

var relations = []struct {
	text  string
	rel   Rel
	turns bool
}{{"<=", LE, false}, {">=", LE, true}, {"==", EQ, false}, {"!=", NE, false}, {"<", LT, false}, {">", LT, true}}

func (p *parser) condition() (Cond, error) {
	a, err := p.whole()
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

// space skips spaces, and comments where they are legal.
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

// take accepts a token and the space after it.
func (p *parser) take(token string) bool {
	if len(p.text)-p.at < len(token) || p.text[p.at:p.at+len(token)] != token {
		return false
	}
	p.advance(len(token))
	return true
}

func (p *parser) advance(n int) {
	p.at += n
	p.end = p.at
	p.space()
}

// spend counts the parts of what an operation made, so that a short text cannot ask for much.
func (p *parser) spend(e Expr) (Expr, error) {
	if *p.budget -= int64(e.size()); *p.budget < 0 {
		return Expr{}, p.errorf("an expression that takes too long to multiply out")
	}
	return e, nil
}

func (p *parser) enter() error {
	if p.depth++; p.depth > deepestText {
		return p.errorf("nested more than %d deep", deepestText)
	}
	return nil
}

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

// byte is the byte i places on, 0 beyond the end.
func (p *parser) byte(i int) byte {
	if p.at+i < len(p.text) {
		return p.text[p.at+i]
	}
	return 0
}

// operator accepts *, // or % and returns its first byte, or 0.
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

// number reads digits; the sign belongs to it, so that the least integer can be written.
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

// list reads a parenthesised list, possibly empty.
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
