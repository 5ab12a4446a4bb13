// Package pattern matches the regular expressions of Hugging Face's tokenizer files exactly as their library does,
// which uses Oniguruma with the syntax of Ruby.
//
// A pattern that needs to look ahead by one character at most, as those of the known tokenizers do, becomes a
// deterministic automaton, which reads each character once. Other patterns are matched by backtracking. What Compile
// accepts matches as in the reference; it refuses other syntax by name.
//
// A search is bounded: it ends with an error if it takes too many steps. The reference has such a bound too.
package pattern

import (
	"encoding/binary"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// The steps that a search may lose on places where no match begins: per byte of the text, and in addition.
const (
	stepsPerByte = 64
	stepsAtLeast = 1 << 24
)

// Pattern is a compiled regular expression. Goroutines may share it.
type Pattern struct {
	source   string
	alphabet *alphabet
	code     []inst
	masks    []mask
	behinds  [][]behind
	start    int32
	words    int32 // the mask of the word characters, for \b

	mayBeEmpty bool // whether a match may begin before any character, or at the end
	first      mask // the classes that a match may begin with

	table  *automaton // nil: backtracking
	stacks sync.Pool  // of *machine
}

// Compile returns the pattern of source. Its error is an ErrUnsupported if the reference has the syntax and this
// package lacks it, and an ErrInput if source is malformed or too long.
func Compile(source string) (*Pattern, error) {
	tree, err := parse(source)
	if err != nil {
		return nil, err
	}
	c := &compiler{index: map[*node]int32{}, numbers: map[string]int32{}}
	c.number(bareWord(), false) // number 0: Pattern.words
	c.collect(tree)
	if c.err != nil {
		return nil, c.err
	}
	a, masks, err := newAlphabet(c.sets)
	if err != nil {
		return nil, err
	}
	for i := range masks {
		if c.ends[i] {
			masks[i].add(endBit)
		}
	}
	c.masks = masks
	end := c.add(inst{op: opMatch})
	start := c.emit(tree, end, end)
	if c.err != nil {
		return nil, c.err
	}
	p := &Pattern{source: source, alphabet: a, code: c.code, masks: masks, behinds: c.behinds, start: start}
	p.stacks.New = func() any { return &machine{} }
	p.mayBeEmpty = p.begins(start, make([]bool, len(p.code)))
	p.table = newAutomaton(p)
	return p, nil
}

// number returns the number of a set, which holds the end of the text too if atEnd.
func (c *compiler) number(s set, atEnd bool) int32 {
	key := make([]byte, 1, 1+8*len(s))
	if atEnd {
		key[0] = 1
	}
	for _, r := range s {
		key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(key, uint32(r.lo)), uint32(r.hi))
	}
	n, ok := c.numbers[string(key)]
	if !ok {
		n = int32(len(c.sets))
		c.numbers[string(key)] = n
		c.sets, c.ends = append(c.sets, s), append(c.ends, atEnd)
		if c.spans += len(s); c.spans > maxSpans {
			c.fail(fmt.Sprintf("a pattern whose classes have more than %d ranges", maxSpans))
		}
	}
	return n
}

// collect numbers the sets below n, and those of the places that the next character tells.
func (c *compiler) collect(n *node) {
	if c.err != nil {
		return
	}
	switch {
	case n.kind == kindSet:
		c.index[n] = c.number(n.set, false)
	case n.kind == kindAssert && n.assert == '$':
		c.index[n] = c.number(set{{'\n', '\n'}}, true)
	case n.kind == kindAssert && n.assert == 'z':
		c.index[n] = c.number(nil, true)
	case n.kind == kindAtomic && n.sub[0].kind == kindRepeat && n.sub[0].sub[0].kind == kindSet && !n.sub[0].lazy:
		c.index[n] = c.number(n.sub[0].sub[0].set.not(), true)
	case n.kind == kindLook && !n.behind && oneSet(n.sub[0]) != nil:
		if s := oneSet(n.sub[0]).set; n.negative {
			c.index[n] = c.number(s.not(), true)
		} else {
			c.index[n] = c.number(s, false)
		}
		return
	}
	for _, s := range n.sub {
		c.collect(s)
	}
}

// oneSet returns the node of the only character of n, or nil.
func oneSet(n *node) *node {
	for n.kind == kindCat && len(n.sub) == 1 {
		n = n.sub[0]
	}
	if n.kind == kindSet {
		return n
	}
	return nil
}

// begins adds to first the classes that a match from pc on may begin with, and reports whether it may be empty.
func (p *Pattern) begins(pc int32, seen []bool) bool {
	empty := false
	for todo := []int32{pc}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch in := &p.code[at]; in.op {
		case opMatch:
			empty = true
		case opSet:
			p.first.or(&p.masks[in.mask])
		case opSplit:
			todo = append(todo, in.a, in.b)
		case opAtomic:
			if p.begins(in.sub, make([]bool, len(p.code))) {
				todo = append(todo, in.a, in.b)
			}
		default:
			todo = append(todo, in.a)
		}
	}
	return empty
}

// String returns the source of p.
func (p *Pattern) String() string { return p.source }

// Linear reports whether a match reads each character once, without backtracking.
func (p *Pattern) Linear() bool { return p.table != nil }

// budget returns the steps that the searches in a text may take.
func budget(text string) int { return min(len(text), 1<<24)*stepsPerByte + stepsAtLeast }

// find returns the bounds, in bytes, of the first match that begins at from or after it: text[begin:end], which may be
// empty; begin is -1 if there is none. Text before from is visible to lookbehind. steps are those that are left.
func (p *Pattern) find(text string, from int, steps *int) (begin, end int, err error) {
	if from > len(text) {
		return -1, -1, nil
	}
	if p.table != nil {
		begin, end = p.table.find(text, from, p.mayBeEmpty, steps)
	} else {
		m := p.stacks.Get().(*machine)
		begin, end = m.find(p, text, from, steps)
		p.stacks.Put(m)
	}
	if *steps < 0 {
		return -1, -1, &diag.Error{Kind: diag.ErrInput, Op: "regular expression",
			Detail: "a search with the pattern " + short(p.source) + " takes too many steps"}
	}
	return begin, end, nil
}

// Matches iterates over the matches of a pattern in a text as the reference does: an empty match directly after
// another match does not count.
type Matches struct {
	pattern    *Pattern
	text       string
	from       int
	last       int // the end of the last match, or -1
	steps      int
	err        error
	Begin, End int // the bounds of the current match in bytes
}

// Matches returns an iterator before the first match.
func (p *Pattern) Matches(text string) Matches {
	return Matches{pattern: p, text: text, last: -1, steps: budget(text)}
}

// Next moves to the next match, and reports whether there is one.
func (m *Matches) Next() bool {
	for m.err == nil && m.from <= len(m.text) {
		begin, end, err := m.pattern.find(m.text, m.from, &m.steps)
		if m.err = err; begin < 0 {
			m.from = len(m.text) + 1
			return false
		}
		if begin == end && end == m.last {
			_, size := utf8.DecodeRuneInString(m.text[m.from:])
			m.from += max(size, 1)
			continue
		}
		m.Begin, m.End, m.from, m.last = begin, end, end, end
		return true
	}
	return false
}

// Err returns the error that ended the iteration, or nil.
func (m *Matches) Err() error { return m.err }
