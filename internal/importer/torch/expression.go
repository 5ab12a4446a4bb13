package torch

import (
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// expression parses an integer expression as SymPy prints it, in either form: numbers, symbols, + - * // % **,
// parentheses and functions, as in 2*s0 + 1; or functions alone, as in Add(Mul(Integer(2), Symbol('s0')), Integer(1)).
// symbol resolves the symbols.
func expression(text string, symbol func(name string) (sym.Expr, error)) (e sym.Expr, err error) {
	p := &expressions{text: text, symbol: symbol}
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(expressionFault)
			if !ok {
				panic(r)
			}
			err = fault.err
		}
	}()
	e = p.sum()
	if p.skip(); p.at != len(p.text) {
		p.fail("%q is not expected", p.text[p.at:])
	}
	return e, nil
}

// expressionFault is the panic that ends the parser with err.
type expressionFault struct{ err error }

// expressions is the state of the parser.
type expressions struct {
	text   string
	at     int
	depth  int
	symbol func(name string) (sym.Expr, error)
}

// deepest is the deepest nesting of expressions, and greatestPower the greatest exponent.
const (
	deepest       = 200
	greatestPower = 8
)

// fail ends the parser with an error about the expression.
func (p *expressions) fail(format string, args ...any) {
	panic(expressionFault{diag.Unsupportedf("the expression %q: "+format, append([]any{p.text}, args...)...)})
}

// skip skips spaces.
func (p *expressions) skip() {
	for p.at < len(p.text) && p.text[p.at] == ' ' {
		p.at++
	}
}

// next skips word and returns true if it comes next.
func (p *expressions) next(word string) bool {
	p.skip()
	if !strings.HasPrefix(p.text[p.at:], word) {
		return false
	}
	p.at += len(word)
	return true
}

// sum parses a sum.
func (p *expressions) sum() sym.Expr {
	e := p.product()
	for {
		switch {
		case p.next("+"):
			e = e.Add(p.product())
		case p.next("-"):
			e = e.Sub(p.product())
		default:
			return e
		}
	}
}

// product parses a product.
func (p *expressions) product() sym.Expr {
	e := p.power()
	for {
		switch {
		case p.next("//"):
			e = e.FloorDiv(p.power())
		case p.next("%"):
			e = e.Mod(p.power())
		case p.next("*"):
			e = e.Mul(p.power())
		default:
			return e
		}
	}
}

// power parses a power.
func (p *expressions) power() sym.Expr {
	if p.next("-") {
		return p.power().Neg()
	}
	e := p.atom()
	if !p.next("**") {
		return e
	}
	return p.raised(e, p.power())
}

// raised returns e to the power of exponent.
func (p *expressions) raised(e, exponent sym.Expr) sym.Expr {
	n, ok := exponent.Const()
	if !ok || n < 0 || n > greatestPower {
		p.fail("an exponent that is no number from 0 to %d", greatestPower)
	}
	product := sym.Const(1)
	for range n {
		product = product.Mul(e)
	}
	return product
}

// atom parses a number, a symbol, a function or a parenthesis.
func (p *expressions) atom() sym.Expr {
	if p.depth++; p.depth > deepest {
		p.fail("it is nested deeper than %d", deepest)
	}
	defer func() { p.depth-- }()
	if p.next("(") {
		e := p.sum()
		if !p.next(")") {
			p.fail("a parenthesis is not closed")
		}
		return e
	}
	p.skip()
	begin := p.at
	for p.at < len(p.text) && (p.text[p.at] == '_' || p.text[p.at] >= '0' && p.text[p.at] <= '9' ||
		p.text[p.at]|0x20 >= 'a' && p.text[p.at]|0x20 <= 'z') {
		p.at++
	}
	word := p.text[begin:p.at]
	if n, err := strconv.ParseInt(word, 10, 64); err == nil {
		return sym.Const(n)
	}
	if word == "" {
		p.fail("something is missing at its byte %d", begin)
	}
	if p.next("(") {
		if word == "Symbol" {
			return p.quoted()
		}
		return p.function(word)
	}
	return p.named(word)
}

// named returns the symbol of a name.
func (p *expressions) named(word string) sym.Expr {
	e, err := p.symbol(word)
	if err != nil {
		panic(expressionFault{err})
	}
	return e
}

// quoted parses a symbol's name in quotes and skips its assumptions.
func (p *expressions) quoted() sym.Expr {
	name, rest, ok := strings.Cut(strings.TrimPrefix(p.text[p.at:], "'"), "'")
	assumed, _, closed := strings.Cut(rest, ")")
	if !ok || !closed || !strings.HasPrefix(p.text[p.at:], "'") || strings.ContainsAny(assumed, "('") {
		p.fail("a symbol without a name")
	}
	p.at += len(name) + 2 + len(assumed) + 1
	return p.named(name)
}

// function parses the arguments of a function and applies it.
func (p *expressions) function(name string) sym.Expr {
	args := []sym.Expr{p.sum()}
	for p.next(",") {
		args = append(args, p.sum())
	}
	if !p.next(")") {
		p.fail("a parenthesis is not closed")
	}
	switch {
	case name == "Add":
		return sym.Sum(args...)
	case name == "Mul":
		return sym.Product(args...)
	case name == "Pow" && len(args) == 2:
		return p.raised(args[0], args[1])
	case name == "Max":
		return sym.MaxOf(args...)
	case name == "Min":
		return sym.MinOf(args...)
	case len(args) == 1 && (name == "Integer" || name == "TruncToInt" || name == "Identity"):
		return args[0]
	case len(args) == 2 && (name == "FloorDiv" || name == "CleanDiv"):
		return args[0].FloorDiv(args[1])
	case len(args) == 2 && name == "CeilDiv":
		return args[0].CeilDiv(args[1])
	case len(args) == 2 && (name == "Mod" || name == "PythonMod"):
		return args[0].Mod(args[1])
	case len(args) == 3 && name == "ModularIndexing":
		return args[0].FloorDiv(args[1]).Mod(args[2])
	}
	p.fail("the function %s of %d arguments", name, len(args))
	return sym.Expr{}
}
