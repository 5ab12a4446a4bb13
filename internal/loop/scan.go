package loop

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
	"slices"
)

// parser reads the language's text. At its first error the scanner panics; catch returns the error.
type parser struct {
	*text.Scanner
	types    map[string]dtype.DType // of the kernel's buffers and scalars
	dims     []sym.Name             // of the kernel
	keyword  string                 // the first word of the statement
	options  *ParseOptions
	buffers  map[string]*Buffer
	kernels  map[string]*Kernel
	patterns map[string][]pattern // by their heads; nil: kernels are not shared
}

// newParser returns a parser at the beginning of source.
func newParser(source string) *parser { return &parser{Scanner: text.NewScanner(source)} }

// syntaxError carries an error out of a running parser, by panic.
type syntaxError struct{ error }

// catch stores the error of a running parser in err.
func (p *parser) catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case syntaxError:
		*err = r.error
	default:
		panic(r)
	}
}

// stop panics if the scanner has an error.
func (p *parser) stop() {
	if err := p.Err(); err != nil {
		panic(syntaxError{err})
	}
}

// fail ends the parse with an error at the present token.
func (p *parser) fail(format string, args ...any) {
	p.Failf(format, args...)
	p.stop()
}

// enter begins a level of nesting; it fails beyond the limit.
func (p *parser) enter() {
	p.Enter()
	p.stop()
}

// leave ends a level of nesting.
func (p *parser) leave() { p.Leave() }

// must reads a token of this kind.
func (p *parser) must(kind text.Kind) string {
	word := p.Must(kind)
	p.stop()
	return word
}

// percent reads the name of a buffer or a scalar.
func (p *parser) percent() string { return p.must(text.Local) }

// global reads the name of a kernel or a module.
func (p *parser) global() string { return p.must(text.Global) }

// ident reads a word.
func (p *parser) ident() string { return p.must(text.Word) }

// quoted reads a quoted string.
func (p *parser) quoted() string { return p.must(text.Quoted) }

// isPercent reports whether the next token is the name of a buffer or a scalar.
func (p *parser) isPercent() bool { return p.Peek().Kind == text.Local }

// accept reads a word if it is next, and reports whether it was.
func (p *parser) accept(word string) bool {
	ok := p.Accept(word)
	p.stop()
	return ok
}

// expect reads a word that must be next.
func (p *parser) expect(word string) {
	p.Expect(word)
	p.stop()
}

// end fails unless the text is read to its end.
func (p *parser) end() {
	p.Done()
	p.stop()
}

// symbol reads the name of a symbolic integer.
func (p *parser) symbol() sym.Name {
	name := p.Symbol()
	p.stop()
	return name
}

// counter reads the name of an integer that a statement declares. It must not be one of the kernel's dimensions.
func (p *parser) counter() sym.Name {
	name := p.symbol()
	if slices.Contains(p.dims, name) {
		p.fail("%s is declared twice", name)
	}
	return name
}

// name reads the name of a setting.
func (p *parser) name() string {
	name := p.Name()
	p.stop()
	return name
}

// choice reads one of some words and returns its index.
func (p *parser) choice(words []string) int {
	i := p.Choice(words...)
	p.stop()
	return i
}

// list reads items between brackets, separated by commas.
func (p *parser) list(open, closing string, item func()) {
	p.List(open, closing, item)
	p.stop()
}

// integer reads a symbolic integer.
func (p *parser) integer() sym.Expr {
	e := p.Expr()
	p.stop()
	return e
}

// cond reads a condition on symbolic integers.
func (p *parser) cond() sym.Cond {
	c := p.Cond()
	p.stop()
	return c
}

// signed reads an integer with an optional sign.
func (p *parser) signed() int64 {
	v := p.Int()
	p.stop()
	return v
}

// count reads a number that is 0 or more.
func (p *parser) count() int64 {
	v := p.signed()
	if v < 0 {
		p.fail("%d is less than 0", v)
	}
	return v
}

// number reads a number with its sign, or inf or nan, and returns its text.
func (p *parser) number() (string, bool) {
	sign := ""
	if p.accept("-") {
		sign = "-"
	}
	if number, ok := p.Take(text.Number); ok {
		return sign + number, true
	}
	for _, word := range []string{"inf", "nan"} {
		if p.accept(word) {
			return sign + word, true
		}
	}
	if sign != "" {
		p.fail("expected a number after -, found %s", p.Found())
	}
	return "", false
}
