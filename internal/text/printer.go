// Package text is what the project's three languages share in their texts: how a text is cut into tokens and how one is
// printed.
//
// A token is a word, a %value, a @function, a number, a quoted string or punctuation; a name that is not letters,
// digits, underscores and dots is quoted. Symbolic integers are written as package sym writes them. Comments run from #
// to the end of the line. Lines mean nothing more than spaces do.
//
// What is printed is read back as the same: floats to the bit, names to the byte.
package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/sym"
)

// Printer writes indented lines.
type Printer struct {
	b      strings.Builder
	indent int
}

// Line writes one line at the current indentation.
func (p *Printer) Line(format string, args ...any) {
	for range p.indent {
		p.b.WriteString("  ")
	}
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

// Indent moves the following lines right.
func (p *Printer) Indent() { p.indent++ }

// Dedent moves them back.
func (p *Printer) Dedent() { p.indent-- }

// Block writes a head followed by {, what inside writes further right, and }.
func (p *Printer) Block(head string, inside func()) {
	p.Line("%s {", head)
	p.Indent()
	inside()
	p.Dedent()
	p.Line("}")
}

// String is what was written so far.
func (p *Printer) String() string { return p.b.String() }

// Name is a name as texts write it: bare where it can be, else quoted.
func Name(name string) string { return sym.QuoteName(name) }

// LocalName is a value's name with its %.
func LocalName(name string) string { return "%" + sym.QuoteName(name) }

// GlobalName is a function's name with its @.
func GlobalName(name string) string { return "@" + sym.QuoteName(name) }

// Float is FormatFloat with 64 bits.
func Float(x float64) string { return FormatFloat(x, 64) }

// FormatFloat writes x, shortest such that Scanner.Float of the same number of bits, 32 or 64, reads the same value; of
// a NaN, to the bit. With 32 bits, x is the value of a float32.
func FormatFloat(x float64, bits int) string {
	switch {
	case math.IsNaN(x):
		if payload := math.Float64bits(x); payload != math.Float64bits(math.NaN()) {
			return fmt.Sprintf("nan(%#x)", payload)
		}
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'g', -1, bits)
}
