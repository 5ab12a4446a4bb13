package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// piece is a range of the text that becomes tokens by itself: a word, or an added token.
type piece struct {
	begin, end int32
	token      int32 // the id of the added token; -1: the model is asked
}

// token is an id and the range of its piece that it stands for.
type token struct {
	id         int32
	begin, end int32
}

// match is a part of a piece's text that a pattern found or passed over.
type match struct {
	begin, end int
	found      bool
}

// scratch is the memory of one call. Calls take it from a pool, and leave nothing in it.
type scratch struct {
	text    aligned // the text as a whole
	part    aligned // the segment that is being normalised
	pieces  []piece
	next    []piece // what the current step makes of pieces
	matches []match
	forms   forming
	tokens  []token
	model   modelScratch
	first   encoded
	second  encoded
	cuts    [2][]window
	err     error // of a step that cuts
	longest int   // the bytes of the longest text that was encoded
}

// push is append for lists that may be long.
func push[T any](list []T, x T) []T { return append(room(list, 1), x) }

// room returns a list with room for n more elements. A list that is full becomes twice as large or more: append's
// factor of 5/4 would take and copy long lists again and again.
func room[T any](list []T, n int) []T {
	if cap(list)-len(list) < n {
		list = slices.Grow(list, max(n, len(list)))
	}
	return list
}

// split replaces the pieces that are not tokens by those that f adds to next.
func (s *scratch) split(f func(s *scratch, p piece)) {
	s.next = s.next[:0]
	for _, p := range s.pieces {
		if p.token >= 0 {
			s.next = append(s.next, p)
			continue
		}
		s.next = room(s.next, int(p.end-p.begin)/4)
		f(s, p)
	}
	s.pieces, s.next = s.next, s.pieces
}

// add adds a piece of the text, unless it is empty.
func (s *scratch) add(begin, end int) {
	if begin < end {
		s.next = append(s.next, piece{int32(begin), int32(end), -1})
	}
}

// behavior says what becomes of the matches of a pattern.
type behavior int

const (
	removed behavior = iota
	isolated
	mergedWithPrevious
	mergedWithNext
	contiguous
)

var behaviors = map[string]behavior{
	"Removed": removed, "Isolated": isolated, "MergedWithPrevious": mergedWithPrevious,
	"MergedWithNext": mergedWithNext, "Contiguous": contiguous,
}

// cut adds the pieces that matches make of a text that begins at base. The matches cover the text.
func (s *scratch) cut(base int, how behavior) {
	m := s.matches
	switch how {
	case removed, isolated:
		for _, x := range m {
			if how == isolated || !x.found {
				s.add(base+x.begin, base+x.end)
			}
		}
	case mergedWithNext:
		// From the end: a match is part of what follows it, unless that is a match.
		kept, before := len(m), false
		for i := len(m) - 1; i >= 0; i-- {
			x := m[i]
			if x.found && !before && kept < len(m) {
				m[kept].begin = x.begin
			} else {
				kept--
				m[kept] = x
			}
			before = x.found
		}
		for _, x := range m[kept:] {
			s.add(base+x.begin, base+x.end)
		}
	default:
		kept, before := 0, false
		for _, x := range m {
			merge := x.found && !before
			if how == contiguous {
				merge = x.found == before
			}
			if merge && kept > 0 {
				m[kept-1].end = x.end
			} else {
				m[kept] = x
				kept++
			}
			before = x.found
		}
		for _, x := range m[:kept] {
			s.add(base+x.begin, base+x.end)
		}
	}
}

// find fills matches with those of a pattern in a text, and with what is between them.
func (s *scratch) find(text string, pattern *finder, invert bool) {
	s.matches = room(s.matches[:0], len(text)/4)
	done := 0
	w := pattern.walk(text)
	for {
		begin, end, ok := w.next()
		if !ok {
			break
		}
		if done != begin {
			s.matches = append(s.matches, match{done, begin, invert})
		}
		s.matches = append(s.matches, match{begin, end, !invert})
		done = end
	}
	if done != len(text) {
		s.matches = append(s.matches, match{done, len(text), invert})
	}
	s.fail(w.err())
}

// fail keeps the first error of a step that cuts.
func (s *scratch) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// findCharacters fills matches with the characters for which is says so, one by one, and with what is between them.
func (s *scratch) findCharacters(text string, is func(r rune) bool) {
	s.matches = room(s.matches[:0], len(text)/4)
	done := 0
	for i, r := range text {
		if !is(r) {
			continue
		}
		if done < i {
			s.matches = append(s.matches, match{done, i, false})
		}
		done = i + utf8.RuneLen(r)
		s.matches = append(s.matches, match{i, done, true})
	}
	if done < len(text) {
		s.matches = append(s.matches, match{done, len(text), false})
	}
}
