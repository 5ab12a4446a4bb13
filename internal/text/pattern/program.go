package pattern

import (
	"fmt"
	"sort"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

const (
	maxProgram = 1 << 14 // instructions
	maxClasses = 254     // classes of characters that a pattern tells apart
	maxSpans   = 1 << 16 // ranges in the sets of a pattern
)

// opcode is what an instruction does.
type opcode uint8

const (
	opMatch  opcode = iota
	opSet           // one character of mask, then a
	opSplit         // a, or else b
	opPeek          // the next character is of mask, or the end is; then a
	opAssert        // the place that assert names, then a
	opLook          // the program at sub matches here, or does not; then a
	opBehind        // the same for one of the programs behind[sub], which end here
	opAtomic        // the first match of the program at sub; then a if it is empty, else b
)

// inst is an instruction. Targets are indices of instructions.
type inst struct {
	op       opcode
	assert   byte
	negative bool
	a, b     int32
	sub      int32
	mask     int32
}

// mask is a set of classes of characters. Bit 255 is the end of the text.
type mask [4]uint64

const endBit = 255

func (m *mask) has(class int) bool { return m[class>>6]>>(class&63)&1 != 0 }
func (m *mask) add(class int)      { m[class>>6] |= 1 << (class & 63) }
func (m *mask) or(o *mask) {
	for i := range m {
		m[i] |= o[i]
	}
}

// alphabet tells classes of characters apart: two characters of a class are in the same sets of the pattern.
type alphabet struct {
	ascii [utf8.RuneSelf]uint8
	pages [(utf8.MaxRune + 1) / 256]uint16 // the index of a page by the upper bits of a code point
	table []([256]uint8)
	size  int // the number of classes
}

// class returns the class of a character.
func (a *alphabet) class(r rune) uint8 { return a.table[a.pages[r>>8]][r&0xff] }

// newAlphabet returns the alphabet of sets, and the mask of each set.
func newAlphabet(sets []set) (*alphabet, []mask, error) {
	edges := []rune{0}
	for _, s := range sets {
		for _, r := range s {
			edges = append(edges, r.lo, r.hi+1)
		}
	}
	sort.Slice(edges, func(i, j int) bool { return edges[i] < edges[j] })
	a := &alphabet{}
	masks := make([]mask, len(sets))
	at := make([]int, len(sets)) // of each set, the first span that does not end before the edge
	known := map[string]uint8{}
	pages := map[[256]uint8]uint16{}
	signature := make([]byte, (len(sets)+7)/8)
	var page [256]uint8
	for i, lo := range edges {
		if i > 0 && lo == edges[i-1] || lo > utf8.MaxRune {
			continue
		}
		hi := rune(utf8.MaxRune)
		for _, next := range edges[i+1:] {
			if next > lo {
				hi = min(next-1, hi)
				break
			}
		}
		clear(signature)
		for j, s := range sets {
			for at[j] < len(s) && s[at[j]].hi < lo {
				at[j]++
			}
			if at[j] < len(s) && s[at[j]].lo <= lo {
				signature[j>>3] |= 1 << (j & 7)
			}
		}
		class, ok := known[string(signature)]
		if !ok {
			if a.size == maxClasses {
				return nil, nil, &diag.Error{Kind: diag.ErrUnsupported, Op: "regular expression",
					Detail: fmt.Sprintf("a pattern that tells more than %d classes of characters apart is not supported", maxClasses)}
			}
			class = uint8(a.size)
			known[string(signature)] = class
			for j := range sets {
				if signature[j>>3]>>(j&7)&1 != 0 {
					masks[j].add(a.size)
				}
			}
			a.size++
		}
		for r := lo; r <= hi; r++ {
			page[r&0xff] = class
			if r < utf8.RuneSelf {
				a.ascii[r] = class
			}
			if r&0xff != 0xff {
				continue
			}
			index, ok := pages[page]
			if !ok {
				index = uint16(len(a.table))
				pages[page] = index
				a.table = append(a.table, page)
			}
			a.pages[r>>8] = index
			for whole := page == uniform(class); whole && r+256 <= hi; r += 256 {
				a.pages[r>>8+1] = index
			}
		}
	}
	return a, masks, nil
}

// uniform returns the page of one class.
func uniform(class uint8) (page [256]uint8) {
	for i := range page {
		page[i] = class
	}
	return page
}

// compiler emits a program from the end to the beginning: a node is emitted when what follows it is known.
type compiler struct {
	code    []inst
	sets    []set            // the different sets
	ends    []bool           // of each set, whether it holds the end of the text
	numbers map[string]int32 // of the sets, by their spans
	spans   int              // of all sets
	masks   []mask           // by set
	index   map[*node]int32  // the set of a node
	behinds [][]behind
	err     error
}

// behind is an alternative of a lookbehind.
type behind struct {
	chars int   // its length
	start int32 // its program
}

func (c *compiler) fail(what string) {
	if c.err == nil {
		c.err = &diag.Error{Kind: diag.ErrUnsupported, Op: "regular expression", Detail: what + " is not supported"}
	}
}

func (c *compiler) add(in inst) int32 {
	if len(c.code) >= maxProgram {
		c.fail(fmt.Sprintf("a pattern of more than %d steps", maxProgram))
		return 0
	}
	c.code = append(c.code, in)
	return int32(len(c.code) - 1)
}

// nullable reports whether n may match without a character.
func nullable(n *node) bool {
	switch n.kind {
	case kindSet:
		return false
	case kindCat:
		for _, s := range n.sub {
			if !nullable(s) {
				return false
			}
		}
		return true
	case kindAlt:
		for _, s := range n.sub {
			if nullable(s) {
				return true
			}
		}
		return false
	case kindRepeat:
		return n.min == 0 || nullable(n.sub[0])
	case kindAtomic:
		return nullable(n.sub[0])
	}
	return true
}

// emit emits n and returns its first instruction. After n the program continues at empty, if neither n nor the
// part of the enclosing loop's body before it took a character, else at taken. A loop ends after a body that took none.
func (c *compiler) emit(n *node, empty, taken int32) int32 {
	if c.err != nil {
		return 0
	}
	switch n.kind {
	case kindSet:
		return c.add(inst{op: opSet, mask: c.index[n], a: taken})
	case kindCat:
		for i := len(n.sub) - 1; i >= 0; i-- {
			empty, taken = c.both(n.sub[i], empty, taken)
		}
		return empty
	case kindAlt:
		next := c.emit(n.sub[len(n.sub)-1], empty, taken)
		for i := len(n.sub) - 2; i >= 0; i-- {
			next = c.add(inst{op: opSplit, a: c.emit(n.sub[i], empty, taken), b: next})
		}
		return next
	case kindRepeat:
		return c.repeat(n, empty, taken, -1)
	case kindAtomic:
		if guard, ok := c.index[n]; ok {
			return c.repeat(n.sub[0], empty, taken, guard)
		}
		end := c.add(inst{op: opMatch})
		return c.add(inst{op: opAtomic, sub: c.emit(n.sub[0], end, end), a: empty, b: taken})
	case kindLook:
		return c.look(n, empty)
	case kindAssert:
		if n.assert == '$' || n.assert == 'z' {
			return c.add(inst{op: opPeek, mask: c.index[n], a: empty})
		}
		return c.add(inst{op: opAssert, assert: n.assert, a: empty})
	}
	return empty
}

// both emits n for both continuations: where the body has taken no character yet, and where it has.
func (c *compiler) both(n *node, empty, taken int32) (int32, int32) {
	if empty == taken {
		at := c.emit(n, empty, taken)
		return at, at
	}
	after := c.emit(n, taken, taken)
	if !nullable(n) {
		return after, after
	}
	return c.emit(n, empty, taken), after
}

// split adds a choice between another round of a loop and its end.
func (c *compiler) split(lazy bool, round, end int32) int32 {
	if lazy {
		round, end = end, round
	}
	return c.add(inst{op: opSplit, a: round, b: end})
}

// repeat emits a loop. A possessive loop over a set has a guard, the mask of what is not in the set: the loop ends only
// before such a character, or after its greatest number of rounds.
func (c *compiler) repeat(n *node, empty, taken, guard int32) int32 {
	body := n.sub[0]
	leaveEmpty, leaveTaken := empty, taken
	if guard >= 0 {
		leaveEmpty = c.add(inst{op: opPeek, mask: guard, a: empty})
		if leaveTaken = leaveEmpty; empty != taken {
			leaveTaken = c.add(inst{op: opPeek, mask: guard, a: taken})
		}
	}
	if n.max < 0 {
		loop := func(leave, again int32) int32 {
			at := c.split(n.lazy, -1, leave)
			if again < 0 {
				again = at
			}
			round := c.emit(body, leave, again)
			if c.err != nil {
				return 0
			}
			if n.lazy {
				c.code[at].b = round
			} else {
				c.code[at].a = round
			}
			return at
		}
		after := loop(leaveTaken, -1)
		if empty != taken {
			empty = loop(leaveEmpty, after)
		} else {
			empty = after
		}
		taken = after
	} else {
		for range n.max - n.min {
			if c.err != nil {
				return 0
			}
			// A round that takes nothing leaves the loop.
			first := c.split(n.lazy, c.emit(body, leaveEmpty, taken), leaveEmpty)
			if leaveEmpty != leaveTaken || empty != taken {
				taken = c.split(n.lazy, c.emit(body, leaveTaken, taken), leaveTaken)
			} else {
				taken = first
			}
			empty = first
		}
	}
	for range n.min {
		if c.err != nil {
			return 0
		}
		empty, taken = c.both(body, empty, taken)
	}
	return empty
}

func (c *compiler) look(n *node, next int32) int32 {
	body := n.sub[0]
	if mask, ok := c.index[n]; ok && !n.behind {
		return c.add(inst{op: opPeek, mask: mask, a: next})
	}
	end := c.add(inst{op: opMatch})
	if !n.behind {
		return c.add(inst{op: opLook, sub: c.emit(body, end, end), negative: n.negative, a: next})
	}
	alternatives := []*node{body}
	if body.kind == kindAlt {
		alternatives = body.sub
	}
	var list []behind
	for _, alt := range alternatives {
		chars := length(alt)
		if chars < 0 {
			c.fail("a lookbehind of varying length")
			return 0
		}
		list = append(list, behind{chars, c.emit(alt, end, end)})
	}
	c.behinds = append(c.behinds, list)
	return c.add(inst{op: opBehind, sub: int32(len(c.behinds) - 1), negative: n.negative, a: next})
}

// length returns the number of characters that n matches, or -1 if it varies.
func length(n *node) int {
	switch n.kind {
	case kindSet:
		return 1
	case kindCat:
		total := 0
		for _, s := range n.sub {
			k := length(s)
			if k < 0 || total > maxRepeat {
				return -1
			}
			total += k
		}
		return total
	case kindAlt:
		k := length(n.sub[0])
		for _, s := range n.sub[1:] {
			if length(s) != k {
				return -1
			}
		}
		return k
	case kindRepeat:
		if k := length(n.sub[0]); n.min == n.max && k >= 0 && n.min*k <= maxProgram {
			return n.min * k
		}
		return -1
	case kindAtomic:
		return length(n.sub[0])
	}
	return 0
}
