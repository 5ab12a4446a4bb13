// Package text is what the three languages' texts share: a printer and a scanner.
package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Printer writes indented lines.
type Printer struct {
	b      strings.Builder
	indent int
}

// Line writes one line at the current indentation.
func (p *Printer) Line(format string, args ...any) {
	p.b.WriteString(strings.Repeat("  ", p.indent))
	fmt.Fprintf(&p.b, format, args...)
	p.b.WriteByte('\n')
}

// Indent moves the following lines right.
func (p *Printer) Indent() { p.indent++ }

// Dedent moves them back.
func (p *Printer) Dedent() { p.indent-- }

// String is what was written so far.
func (p *Printer) String() string { return p.b.String() }

// Float prints x so that it parses back to the same bits; a NaN keeps its payload.
func Float(x float64) string {
	switch {
	case math.IsNaN(x):
		if bits := math.Float64bits(x); bits != math.Float64bits(math.NaN()) {
			return fmt.Sprintf("nan(0x%x)", bits)
		}
		return "nan"
	case math.IsInf(x, 1):
		return "inf"
	case math.IsInf(x, -1):
		return "-inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
