package sym

import (
	"strconv"
	"strings"
)

// functions are the names that are functions if a parenthesis follows.
var functions = map[string]kind{"min": minimum, "max": maximum, "ceildiv": ceilDiv, "huge": huge}

var functionNames = map[kind]string{minimum: "min", maximum: "max", ceilDiv: "ceildiv", huge: "huge"}

// String returns the canonical text, which Parse parses. If all names are Python's too, Python evaluates it, given max,
// min and ceildiv.
func (e Expr) String() string {
	if e.n == nil {
		return strconv.FormatInt(e.c, 10)
	}
	text := e.n.string()
	switch {
	case e.c > 0:
		return text + " + " + strconv.FormatInt(e.c, 10)
	case e.c < 0:
		return text + " " + signed(e.c)
	}
	return text
}

// Key returns a string that only Equal expressions share: the text.
func (e Expr) Key() string { return e.String() }

// signed returns a number as the second operand of a sum: "- 4".
func signed(c int64) string {
	text := strconv.FormatUint(magnitude(c), 10)
	switch {
	case c >= 0:
		return "+ " + text
	case magnitude(c) == 1<<63: // its magnitude does not fit 64 bits
		return "+ -" + text
	}
	return "- " + text
}

// string returns the printed node without a constant, and remembers it.
func (n *node) string() string {
	if p := n.text.Load(); p != nil {
		return *p
	}
	var b strings.Builder
	for i, t := range n.terms {
		switch {
		case i == 0 && t.coef == -1:
			b.WriteByte('-')
		case i == 0 && t.coef != 1:
			b.WriteString(strconv.FormatInt(t.coef, 10) + "*")
		case i > 0 && t.coef == 1:
			b.WriteString(" + ")
		case i > 0 && t.coef == -1:
			b.WriteString(" - ")
		case i > 0:
			b.WriteString(" " + signed(t.coef) + "*")
		}
		lone := len(t.atoms) == 1 && (t.coef == 1 || t.coef == -1 && i > 0)
		for j, a := range t.atoms {
			if j > 0 {
				b.WriteByte('*')
			}
			a.write(&b, lone)
		}
	}
	text := b.String()
	n.text.Store(&text)
	return text
}

// write appends the atom. If lone is true, it needs no parentheses: no factor is adjacent, and no sign that binds
// tighter is before it.
func (a *atom) write(b *strings.Builder, lone bool) {
	switch a.kind {
	case variable, slack:
		b.WriteString(a.name.String())
	case floorDiv, modulo:
		operator := "//"
		if a.kind == modulo {
			operator = "%"
		}
		open(b, !lone, func() {
			a.args[0].writeOperand(b)
			b.WriteString(operator)
			a.args[1].writeOperand(b)
		})
	case product:
		open(b, true, func() {
			a.args[0].writeOperand(b)
			b.WriteByte('*')
			a.args[1].writeOperand(b)
		})
	case sum:
		open(b, true, func() {
			for i, x := range a.args {
				if i > 0 {
					b.WriteString(" + ")
				}
				x.writeOperand(b)
			}
		})
	default:
		b.WriteString(functionNames[a.kind])
		open(b, true, func() {
			for i, x := range a.args {
				if i > 0 {
					b.WriteString(", ")
				}
				b.WriteString(x.String())
			}
		})
	}
}

// open writes inside's output, in parentheses if asked.
func open(b *strings.Builder, parentheses bool, inside func()) {
	if parentheses {
		b.WriteByte('(')
	}
	inside()
	if parentheses {
		b.WriteByte(')')
	}
}

// writeOperand appends the expression as an operand of a product or a division.
func (e Expr) writeOperand(b *strings.Builder) {
	a := e.atom()
	simple := e.n == nil && e.c >= 0 || a != nil && a.kind != floorDiv && a.kind != modulo
	open(b, !simple, func() { b.WriteString(e.String()) })
}

// QuoteName returns a name as in texts: unquoted if it consists of letters, digits, underscores and dots and begins
// with neither a digit nor a dot, otherwise quoted as Go quotes strings.
func QuoteName(name string) string {
	if len(name) > 0 && nameLength(name) == len(name) {
		return name
	}
	return strconv.Quote(name)
}

// nameLength returns the length of the unquoted name at the beginning of s.
func nameLength(s string) int {
	for i := range len(s) {
		c := s[i]
		letter := c == '_' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '.' && (c < '0' || c > '9')) {
			return i
		}
	}
	return len(s)
}
