package pattern

import (
	_ "embed"
	"encoding/binary"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"
)

// unicodeData is the file that testdata/tables.py writes. Go's package unicode has another version of Unicode than the
// reference, and may change it with each release, so the classes are the reference's own.
//
//go:embed unicode.bin
var unicodeData string

// span is the code points lo to hi, both included.
type span struct{ lo, hi rune }

// set is a class of characters: spans in increasing order that neither overlap nor touch.
type set []span

// everything is the set of all code points.
var everything = set{{0, utf8.MaxRune}}

// normal returns the union of spans in any order, as a set.
func normal(spans []span) set {
	sort.Slice(spans, func(i, j int) bool { return spans[i].lo < spans[j].lo })
	var out set
	for _, s := range spans {
		if n := len(out); n > 0 && s.lo <= out[n-1].hi+1 {
			out[n-1].hi = max(out[n-1].hi, s.hi)
			continue
		}
		out = append(out, s)
	}
	return out
}

// union returns the code points of either set.
func (s set) union(t set) set {
	return normal(append(append(make([]span, 0, len(s)+len(t)), s...), t...))
}

// not returns the code points that s does not contain.
func (s set) not() set {
	var out set
	next := rune(0)
	for _, r := range s {
		if r.lo > next {
			out = append(out, span{next, r.lo - 1})
		}
		next = r.hi + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, span{next, utf8.MaxRune})
	}
	return out
}

// and returns the code points of both sets.
func (s set) and(t set) set { return s.not().union(t.not()).not() }

// has reports whether s contains r.
func (s set) has(r rune) bool {
	i := sort.Search(len(s), func(i int) bool { return s[i].hi >= r })
	return i < len(s) && s[i].lo <= r
}

// tables is what unicodeData contains.
type tables struct {
	classes map[string]set
	orbits  map[rune][]rune  // simple case folding: the characters equal to this one, the folded one first
	pairs   map[[2]rune]bool // what the full folding of some character begins with, folded
	several map[rune]bool    // the characters whose full folding has several characters
}

// unicodeTables decodes unicodeData once.
var unicodeTables = sync.OnceValue(func() *tables {
	rest := []byte(unicodeData)
	number := func() int {
		n, size := binary.Uvarint(rest)
		rest = rest[size:]
		return int(n)
	}
	t := &tables{classes: map[string]set{}, orbits: map[rune][]rune{}, pairs: map[[2]rune]bool{}, several: map[rune]bool{}}
	for n := number(); n > 0; n-- {
		size := number()
		name := string(rest[:size])
		rest = rest[size:]
		spans := make(set, number())
		last := 0
		for i := range spans {
			lo := last + number()
			last = lo + number()
			spans[i] = span{rune(lo), rune(last - 1)}
		}
		t.classes[name] = spans
	}
	for n := number(); n > 0; n-- {
		orbit := make([]rune, number())
		for i := range orbit {
			orbit[i] = rune(number())
		}
		for _, r := range orbit {
			t.orbits[r] = orbit
		}
	}
	for n := number(); n > 0; n-- {
		first := rune(number())
		t.pairs[[2]rune{first, rune(number())}] = true
	}
	for n := number(); n > 0; n-- {
		t.several[rune(number())] = true
	}
	return t
})

// bareWord returns the characters of \w outside of a class and of \b, where the reference takes the fractions and the
// superscripts of Latin-1 for word characters; [\w] does not contain them.
func bareWord() set {
	return unicodeTables().classes["\\w"].union(set{{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}})
}

// property returns the class of \p{name}, whose case, spaces, hyphens and underscores do not matter.
func property(name string) (set, bool) {
	var b strings.Builder
	for _, r := range name {
		if r >= utf8.RuneSelf {
			return nil, false
		}
		if r != ' ' && r != '-' && r != '_' {
			b.WriteString(strings.ToLower(string(r)))
		}
	}
	key := b.String()
	if key == "" || key[0] == '[' || key[0] == '\\' {
		return nil, false
	}
	s, ok := unicodeTables().classes[key]
	return s, ok
}

// fold returns s with the characters that are equal to its own if case is ignored, and whether one of s has a full
// folding of several characters.
func (s set) fold() (folded set, several bool) {
	t := unicodeTables()
	spans := append([]span(nil), s...)
	if len(s) == 1 && s[0].lo == s[0].hi {
		for _, o := range t.orbits[s[0].lo] {
			spans = append(spans, span{o, o})
		}
		return normal(spans), t.several[s[0].lo]
	}
	for r, orbit := range t.orbits {
		if s.has(r) {
			for _, o := range orbit {
				spans = append(spans, span{o, o})
			}
		}
	}
	for r := range t.several {
		several = several || s.has(r)
	}
	return normal(spans), several
}

// folded returns the folded character of the orbit of r.
func folded(r rune) rune {
	if orbit := unicodeTables().orbits[r]; orbit != nil {
		return orbit[0]
	}
	return r
}
