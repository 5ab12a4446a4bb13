package loop

import (
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/text"
	"slices"
)

// parser reads the language's text. The scanner's first error ends it by a panic, which catch returns.
type parser struct {
	*text.Scanner
	types    map[string]dtype.DType // of the kernel's buffers and scalars
	dims     []sym.Name             // the kernel's
	keyword  string                 // of the statement
	options  *ParseOptions
	buffers  map[string]*Buffer
	kernels  map[string]*Kernel
	patterns map[string][]pattern // by their heads; nil: texts are not to be shared
}

func newParser(source string) *parser { return &parser{Scanner: text.NewScanner(source)} }

// syntaxError is how an error leaves a running parser.
type syntaxError struct{ error }

func (p *parser) catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case syntaxError:
		*err = r.error
	default:
		panic(r)
	}
}

func (p *parser) stop() {
	if err := p.Err(); err != nil {
		panic(syntaxError{err})
	}
}

func (p *parser) fail(format string, args ...any) {
	p.Failf(format, args...)
	p.stop()
}

func (p *parser) enter() {
	p.Enter()
	p.stop()
}

func (p *parser) leave() { p.Leave() }

func (p *parser) must(kind text.Kind) string {
	word := p.Must(kind)
	p.stop()
	return word
}

func (p *parser) percent() string { return p.must(text.Local) }
func (p *parser) global() string  { return p.must(text.Global) }
func (p *parser) ident() string   { return p.must(text.Word) }
func (p *parser) quoted() string  { return p.must(text.Quoted) }

func (p *parser) isPercent() bool { return p.Peek().Kind == text.Local }

func (p *parser) accept(word string) bool {
	ok := p.Accept(word)
	p.stop()
	return ok
}

func (p *parser) expect(word string) {
	p.Expect(word)
	p.stop()
}

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

// counter reads the name that a statement gives an integer of its own. The kernel's dimensions have others.
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

// choice reads one of some words and returns its place among them.
func (p *parser) choice(words []string) int {
	i := p.Choice(words...)
	p.stop()
	return i
}

// list reads items between brackets, with commas between them.
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

func (p *parser) cond() sym.Cond {
	c := p.Cond()
	p.stop()
	return c
}

func (p *parser) whole() int64 {
	v := p.Int()
	p.stop()
	return v
}

// count reads a number that is 0 or more.
func (p *parser) count() int64 {
	v := p.whole()
	if v < 0 {
		p.fail("%d is less than 0", v)
	}
	return v
}

// number reads a number with its sign, inf and nan among them, as text.
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
