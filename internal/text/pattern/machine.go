package pattern

import (
	"strings"
	"unicode/utf8"
)

// machine matches by backtracking.
type machine struct{ stack []choice }

// choice is a place to go on from if what was preferred fails.
type choice struct {
	pc int32
	at int
}

// find returns the first match of p that begins at from or after it, or -1. It reduces steps, and gives up below 0.
func (m *machine) find(p *Pattern, text string, from int, steps *int) (begin, end int) {
	for begin = from; begin <= len(text); {
		class, width := p.classAt(text, begin)
		if p.mayBeEmpty || class != endBit && p.first.has(class) {
			m.stack = m.stack[:0]
			if end = m.run(p, p.start, text, begin, steps); end >= 0 {
				return begin, end
			}
			if *steps < 0 {
				break
			}
		}
		begin += max(width, 1)
	}
	return -1, -1
}

// run returns the end of the first match of the program at pc, or -1.
func (m *machine) run(p *Pattern, pc int32, text string, at int, steps *int) int {
	base := len(m.stack)
	for {
		*steps--
		if *steps < 0 {
			m.stack = m.stack[:base]
			return -1
		}
		in := &p.code[pc]
		ok := true
		switch in.op {
		case opMatch:
			m.stack = m.stack[:base]
			return at
		case opSet:
			class, width := p.classAt(text, at)
			if ok = class != endBit && p.masks[in.mask].has(class); ok {
				at += width
				pc = in.a
			}
		case opSplit:
			m.stack = append(m.stack, choice{in.b, at})
			pc = in.a
		case opPeek:
			class, _ := p.classAt(text, at)
			ok = p.masks[in.mask].has(class)
			pc = in.a
		case opAssert:
			ok = p.holds(in.assert, text, at)
			pc = in.a
		case opLook:
			ok = m.run(p, in.sub, text, at, steps) >= 0 != in.negative
			pc = in.a
		case opBehind:
			ok = m.behind(p, p.behinds[in.sub], text, at, steps) != in.negative
			pc = in.a
		case opAtomic:
			end := m.run(p, in.sub, text, at, steps)
			if ok = end >= 0; end == at {
				pc = in.a
			} else if ok {
				at, pc = end, in.b
			}
		}
		if !ok {
			if len(m.stack) == base {
				return -1
			}
			last := m.stack[len(m.stack)-1]
			m.stack = m.stack[:len(m.stack)-1]
			pc, at = last.pc, last.at
		}
	}
}

// behind reports whether one of the alternatives ends at a place.
func (m *machine) behind(p *Pattern, alternatives []behind, text string, at int, steps *int) bool {
	for _, alt := range alternatives {
		begin, left := at, alt.chars
		for ; left > 0 && begin > 0; left-- {
			_, size := utf8.DecodeLastRuneInString(text[:begin])
			begin -= size
		}
		*steps -= alt.chars
		if left == 0 && m.run(p, alt.start, text, begin, steps) == at {
			return true
		}
	}
	return false
}

// classAt returns the class and the width of the character at a place; endBit at the end.
func (p *Pattern) classAt(text string, at int) (class, width int) {
	if at >= len(text) {
		return endBit, 0
	}
	if b := text[at]; b < utf8.RuneSelf {
		return int(p.alphabet.ascii[b]), 1
	}
	r, width := utf8.DecodeRuneInString(text[at:])
	return int(p.alphabet.class(r)), width
}

// holds reports whether a place is of a kind.
func (p *Pattern) holds(kind byte, text string, at int) bool {
	switch kind {
	case 'A':
		return at == 0
	case '^':
		return at == 0 || text[at-1] == '\n' && at < len(text)
	case 'Z':
		return at == len(text) || at == len(text)-1 && strings.HasSuffix(text, "\n")
	}
	before, after := false, false
	if at > 0 {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		class, _ := p.classAt(text, at-size)
		before = p.masks[p.words].has(class)
	}
	if at < len(text) {
		class, _ := p.classAt(text, at)
		after = p.masks[p.words].has(class)
	}
	return (before != after) == (kind == 'b')
}
