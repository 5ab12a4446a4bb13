package tokenizer

import (
	"slices"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// form is a normal form of Unicode. Decompositions and combining classes are those of golang.org/x/text, for the
// characters that the reference's Unicode knew (classComposed); composition and alignment follow the reference.
// Package norm is not applied to texts: it inserts a character into long runs of marks, and aligns nothing.
type form struct {
	compatible, compose bool
}

// mark is a character of a decomposition: its combining class, and the reference's change, which is 0 for the first
// character of a decomposition, 1 for the others, and after composition -n if n of the text's characters follow that
// have become part of it.
type mark struct {
	r      rune
	class  uint8
	change int32
}

// pair is two characters that compose.
type pair struct{ a, b rune }

// compositions returns the characters that pairs compose to, Hangul apart.
var compositions = sync.OnceValue(func() map[pair]rune {
	m := make(map[pair]rune, 1000)
	ranges := classRanges[classComposed]
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			whole := string(r)
			parts := norm.NFD.String(whole)
			if parts == whole || norm.NFC.String(parts) != whole || 0xAC00 <= r && r <= 0xD7A3 {
				continue
			}
			last, n := utf8.DecodeLastRuneInString(parts)
			first := norm.NFC.String(parts[:len(parts)-n])
			if a, n := utf8.DecodeRuneInString(first); n == len(first) {
				m[pair{a, last}] = r
			}
		}
	}
	return m
})

// compose returns the character that two compose to.
func compose(a, b rune, table map[pair]rune) (rune, bool) {
	const syllables, leads, vowels, tails = 0xAC00, 0x1100, 0x1161, 0x11A7
	if leads <= a && a < leads+19 && vowels <= b && b < vowels+21 {
		return syllables + (a-leads)*588 + (b-vowels)*28, true
	}
	if syllables <= a && a <= 0xD7A3 && (a-syllables)%28 == 0 && tails < b && b < tails+28 {
		return a + b - tails, true
	}
	r, ok := table[pair{a, b}]
	return r, ok
}

func (f form) normalize(t *aligned, s *scratch) error {
	quick := rune(0x300) // below it nothing changes
	switch {
	case f.compatible:
		quick = 0xA0
	case !f.compose:
		quick = 0xC0
	}
	table := classes()
	i := 0
	for i < len(t.s) {
		r, n := rune(t.s[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(t.s[i:])
			if r >= quick && (table.is(r, classComposed) || f.compose && hangulPart(r)) {
				break
			}
		}
		i += n
	}
	if i == len(t.s) {
		return nil
	}
	w := &s.forms
	w.begin(t, f)
	for at, r := range t.s {
		w.decompose(r, at, table)
	}
	w.flush()
	t.commit()
	return nil
}

// hangulPart reports whether a character composes with those before it without a combining class.
func hangulPart(r rune) bool { return 0x1161 <= r && r <= 0x11FF }

// forming is the state of a form's step.
type forming struct {
	form
	text    *aligned
	from    []int32 // where the characters begin that were added and not yet written, or became part of others
	written int     // how many of them were written, as the reference counts
	pending []mark
	sorted  []mark // memory for order
	table   map[pair]rune

	composee    mark
	composing   bool
	behind      []mark
	class       int // the class of the last mark in behind; -1: there is none
	single, dec []byte

	strip   bool          // accents are dropped
	letters map[rune]rune // what is written becomes lower case by this table, unless it is nil
}

// begin starts a step of a text.
func (w *forming) begin(t *aligned, f form) {
	w.form, w.text, w.from, w.written = f, t, w.from[:0], 0
	w.pending, w.behind, w.composing, w.class = w.pending[:0], w.behind[:0], false, -1
	w.strip, w.letters = false, nil
	if f.compose {
		w.table = compositions()
	}
	t.start()
}

// add adds where a character begins. Without alignments, that there is one is enough.
func (w *forming) add(at int) {
	if len(w.from) == 0 || !w.text.blind {
		w.from = push(w.from, int32(at))
	}
}

// decompose adds the decomposition of the character r, which begins at a byte of the text.
func (w *forming) decompose(r rune, at int, table *classTable) {
	w.add(at)
	if r < utf8.RuneSelf || !table.is(r, classComposed) {
		w.push(mark{r, 0, 0})
		return
	}
	w.single = utf8.AppendRune(w.single[:0], r)
	properties := norm.NFD.Properties(w.single)
	if w.compatible {
		properties = norm.NFKD.Properties(w.single)
	}
	w.dec = properties.Decomposition()
	if 0xAC00 <= r && r <= 0xD7A3 {
		w.hangul(r)
		return
	}
	if len(w.dec) == 0 {
		w.push(mark{r, properties.CCC(), 0})
		return
	}
	change := int32(0)
	for b := w.dec; len(b) > 0; change = 1 {
		d, n := utf8.DecodeRune(b)
		class := uint8(0)
		if table.is(d, classComposed) {
			class = norm.NFD.Properties(b[:n]).CCC()
		}
		w.push(mark{d, class, change})
		b = b[n:]
	}
}

func (w *forming) hangul(r rune) {
	at := r - 0xAC00
	w.push(mark{0x1100 + at/588, 0, 0})
	w.push(mark{0x1161 + at%588/28, 0, 1})
	if tail := at % 28; tail > 0 {
		w.push(mark{0x11A7 + tail, 0, 1})
	}
}

// push adds a decomposed character. Those before one of class 0 are in their order.
func (w *forming) push(m mark) {
	if m.class == 0 {
		w.flushPending()
	}
	w.pending = push(w.pending, m)
}

// fewMarks is the most marks that are sorted by comparing them.
const fewMarks = 32

// order sorts what is pending by classes; those of a class keep their order.
func (w *forming) order() {
	list := w.pending
	if len(list) <= fewMarks {
		slices.SortStableFunc(list, func(a, b mark) int { return int(a.class) - int(b.class) })
		return
	}
	var places [257]int // where the marks of a class go, at the class plus 1
	for _, m := range list {
		places[int(m.class)+1]++
	}
	for class := range 256 {
		places[class+1] += places[class]
	}
	sorted := slices.Grow(w.sorted[:0], len(list))[:len(list)]
	for _, m := range list {
		sorted[places[m.class]] = m
		places[m.class]++
	}
	w.pending, w.sorted = sorted, list
}

func (w *forming) flushPending() {
	if len(w.pending) > 1 {
		w.order()
	}
	for _, m := range w.pending {
		if w.compose {
			w.join(m)
		} else {
			w.put(m)
		}
	}
	w.pending = w.pending[:0]
}

// join composes a character with those before it.
func (w *forming) join(m mark) {
	if !w.composing {
		if m.class != 0 {
			w.put(m)
			return
		}
		w.composee, w.composing = m, true
		return
	}
	if w.class < 0 || w.class < int(m.class) {
		if r, ok := compose(w.composee.r, m.r, w.table); ok {
			w.composee.r = r
			w.composee.change += m.change - 1
			return
		}
	}
	if m.class == 0 {
		w.release()
		w.composee, w.composing = m, true
		return
	}
	w.behind = push(w.behind, m)
	w.class = int(m.class)
}

// release writes the composed character and the marks behind it.
func (w *forming) release() {
	w.put(w.composee)
	for _, m := range w.behind {
		w.put(m)
	}
	w.behind, w.class, w.composing = w.behind[:0], -1, false
}

// flush writes what was added.
func (w *forming) flush() {
	w.flushPending()
	if w.composing {
		w.release()
	}
	w.from, w.written = w.from[:0], 0
}

// put writes a character, aligned by its change. The first character of a decomposition is written before the others,
// so that there is one that these are aligned with.
func (w *forming) put(m mark) {
	at := min(w.written, len(w.from)-1)
	if m.change > 0 {
		at = max(w.written-1, 0)
	} else {
		w.written += 1 - int(m.change)
	}
	if w.text.blind {
		at = 0
	}
	if w.strip && classes().is(m.r, classAccent) {
		return
	}
	w.text.emitLower(m.r, int(w.from[at]), w.letters)
}
