package pattern

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// controls are the escapes of control characters.
var controls = map[rune]rune{'t': '\t', 'n': '\n', 'r': '\r', 'f': '\f', 'v': '\v', 'a': '\a', 'e': 0x1b}

// escape parses what follows a backslash outside of a class.
func (p *parser) escape(o options) (*node, error) {
	switch r := p.peek(); r {
	case 'A', 'z', 'Z', 'b', 'B':
		p.at++
		return &node{kind: kindAssert, assert: byte(r), single: -1}, nil
	case 'G', 'K', 'R', 'X', 'k', 'g', 'y', 'Y', 'N', 'O', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return nil, p.unsupported(fmt.Sprintf("\\%c", r))
	}
	place := p.at
	s, single, err := p.escaped()
	if err != nil {
		return nil, err
	}
	if place++; p.source[place-1]|0x20 == 'w' { // other than within a class, these are word characters
		if s = bareWord(); p.source[place-1] == 'W' {
			s = s.not()
		}
	}
	if single >= 0 {
		return p.literal(single, o)
	}
	return &node{kind: kindSet, set: s, single: -1}, nil
}

// escaped parses what follows a backslash anywhere: a class, or a single character (else -1).
func (p *parser) escaped() (s set, single rune, err error) {
	r := p.next()
	switch r {
	case -1:
		return nil, -1, p.fault("the pattern ends in a backslash")
	case 's', 'w', 'd', 'h':
		return unicodeTables().classes["\\"+string(r)], -1, nil
	case 'S', 'W', 'D', 'H':
		return unicodeTables().classes["\\"+strings.ToLower(string(r))].not(), -1, nil
	case 'p', 'P':
		if p.peek() != '{' {
			return nil, r, nil
		}
		s, err := p.property(r == 'P')
		return s, -1, err
	case 'c', 'C', 'M':
		return nil, -1, p.unsupported(fmt.Sprintf("\\%c", r))
	case 'x', 'u':
		single, err := p.code(r)
		return nil, single, err
	case '0':
		n := rune(0)
		for i := 0; i < 2 && p.more() && p.peek() >= '0' && p.peek() <= '7'; i++ {
			n = n*8 + p.next() - '0'
		}
		return nil, n, nil
	}
	if c, ok := controls[r]; ok {
		return nil, c, nil
	}
	return nil, r, nil
}

// property parses {name} or {^name}.
func (p *parser) property(negative bool) (set, error) {
	end := strings.IndexByte(p.source[p.at:], '}')
	if end < 0 {
		return nil, p.fault("the name of a property does not end")
	}
	name := p.source[p.at+1 : p.at+end]
	if rest, ok := strings.CutPrefix(name, "^"); ok {
		name, negative = rest, !negative
	}
	s, ok := property(name)
	if !ok {
		return nil, p.unsupported(fmt.Sprintf("the property %q", short(name)))
	}
	p.at += end + 1
	if negative {
		s = s.not()
	}
	return s, nil
}

// code parses the digits of \x41, \x{1F600} and \u0041.
func (p *parser) code(kind rune) (rune, error) {
	digits, braces := 2, kind == 'x' && p.take("{")
	if kind == 'u' {
		digits = 4
	}
	if braces {
		digits = 8
	}
	n, got := int64(0), 0
	for ; got < digits && p.more(); got++ {
		d := strings.IndexByte("0123456789abcdef", p.source[p.at]|0x20)
		if d < 0 || p.source[p.at] < '0' {
			break
		}
		n = n*16 + int64(d)
		p.at++
	}
	if got == 0 || braces && !p.take("}") || kind == 'u' && got < 4 {
		return 0, p.unsupported("an incomplete code point")
	}
	if n > utf8.MaxRune || n >= 0xD800 && n < 0xE000 || !braces && kind == 'x' && n >= 0x80 {
		return 0, p.unsupported("a code that is not a character's")
	}
	return rune(n), nil
}

// class parses what follows an opening bracket, up to the closing one.
func (p *parser) class(o options, depth int) (set, error) {
	if depth > maxDepth {
		return nil, p.fault(fmt.Sprintf("more than %d classes lie within each other", maxDepth))
	}
	negative := p.take("^")
	c := &classParser{parser: p, o: o, depth: depth}
	s, err := c.parse()
	if err != nil {
		return nil, err
	}
	if o.fold {
		several := false
		if s, several = s.fold(); several && !negative && depth == 0 {
			return nil, p.unsupported("the folding of a class with characters such as ß")
		}
		if depth > 0 {
			return nil, p.unsupported("a class within a class whose case is ignored")
		}
	}
	if negative {
		s = s.not()
	}
	return s, nil
}

// classParser parses one class.
type classParser struct {
	*parser
	o     options
	depth int
	spans []span
	whole set  // the intersection of the operands so far
	and   bool // whether there was an operand
}

func (c *classParser) parse() (set, error) {
	first := true
	for ; ; first = false {
		if !c.more() {
			return nil, c.fault("a class does not end")
		}
		if c.peek() == ']' && !(first && strings.Contains(c.source[c.at+1:], "]")) {
			if first {
				return nil, c.fault("a class is empty")
			}
			c.at++
			break
		}
		if c.take("&&") {
			c.operand()
			continue
		}
		if err := c.member(); err != nil {
			return nil, err
		}
	}
	if c.and {
		c.operand()
		return c.whole, nil
	}
	return normal(c.spans), nil
}

// operand ends an operand of an intersection.
func (c *classParser) operand() {
	s := normal(c.spans)
	if c.and {
		s = s.and(c.whole)
	}
	c.whole, c.and, c.spans = s, true, nil
}

// member parses a character, a range, an escape or a class within the class.
func (c *classParser) member() error {
	s, low, err := c.one()
	if err != nil {
		return err
	}
	if low < 0 {
		c.spans = append(c.spans, s...)
		if rest := c.source[c.at:]; strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
			return c.unsupported("a hyphen after a class within a class")
		}
		return nil
	}
	if rest := c.source[c.at:]; !strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "-]") ||
		strings.HasPrefix(rest, "-[") || strings.HasPrefix(rest, "-&&") {
		if strings.HasPrefix(rest, "-[") || strings.HasPrefix(rest, "-&&") {
			return c.unsupported("a hyphen before a class within a class")
		}
		c.spans = append(c.spans, span{low, low})
		return nil
	}
	c.at++
	_, high, err := c.one()
	if err != nil {
		return err
	}
	if high < 0 {
		return c.fault("a range ends in a class")
	}
	if high < low {
		return c.fault("a range is empty")
	}
	c.spans = append(c.spans, span{low, high})
	if rest := c.source[c.at:]; strings.HasPrefix(rest, "-") && !strings.HasPrefix(rest, "-]") {
		return c.unsupported("a hyphen after a range")
	}
	return nil
}

// one parses one character (else -1) or one class.
func (c *classParser) one() (set, rune, error) {
	switch r := c.next(); r {
	case '[':
		if c.peek() == ':' {
			if end := strings.Index(c.source[c.at:], ":]"); end > 0 {
				return c.bracket(end)
			}
		}
		s, err := c.class(c.o, c.depth+1)
		return s, -1, err
	case '\\':
		switch c.peek() {
		case 'b':
			c.at++
			return nil, '\b', nil
		case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'R', 'X', 'N', 'O':
			return nil, -1, c.unsupported(fmt.Sprintf("\\%c within a class", c.peek()))
		}
		return c.escaped()
	default:
		return nil, r, nil
	}
}

// bracket parses the rest of [:name:].
func (c *classParser) bracket(end int) (set, rune, error) {
	name, negative := strings.CutPrefix(c.source[c.at+1:c.at+end], "^")
	s, ok := unicodeTables().classes["["+name]
	if !ok {
		return nil, -1, c.unsupported(fmt.Sprintf("the class [:%s:]", short(name)))
	}
	c.at += end + 2
	if negative {
		s = s.not()
	}
	return s, -1, nil
}
