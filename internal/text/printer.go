// Package text has the syntax that the project's three languages share: a scanner that cuts a text into tokens, and a
// printer.
//
// A token is a word, a %value, a @function, a number, a quoted string or punctuation; a name that is not letters,
// digits, underscores and dots is quoted. Symbolic integers are written as package sym writes them. Comments run from #
// to the end of the line. A line break means the same as a space.
//
// A printed text is parsed to the same content: floats to the bit, names to the byte.
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

// Indent indents the following lines by one more level.
func (p *Printer) Indent() { p.indent++ }

// Dedent undoes Indent.
func (p *Printer) Dedent() { p.indent-- }

// Block writes a head followed by {, the output of inside with one more level of indentation, and }.
func (p *Printer) Block(head string, inside func()) {
	p.Line("%s {", head)
	p.Indent()
	inside()
	p.Dedent()
	p.Line("}")
}

// String returns the output so far.
func (p *Printer) String() string { return p.b.String() }

// Name returns a name as in texts: unquoted if possible, otherwise quoted.
func Name(name string) string { return sym.QuoteName(name) }

// LocalName returns a value's name with its %.
func LocalName(name string) string { return "%" + sym.QuoteName(name) }

// GlobalName returns a function's name with its @.
func GlobalName(name string) string { return "@" + sym.QuoteName(name) }

// Float is FormatFloat with 64 bits.
func Float(x float64) string { return FormatFloat(x, 64) }

// FormatFloat returns the shortest form of x that Scanner.Float of the same number of bits, 32 or 64, reads as x; for a
// NaN, with the same bits. If bits is 32, x is the value of a float32.
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
