package unigram

import (
	"strings"
	"unicode/utf8"
)

// Merges is SentencePiece's BPE: the adjacent symbols whose union is the piece of the highest score are joined first,
// the leftmost of equal ones. Goroutines may share it.
type Merges struct {
	pieces *Trie
	scores []float32
	unused []bool // pieces that serve as steps to others, and are split again
	splits bool   // whether there are unused pieces
	always *Trie  // strings that are one symbol; nil: none
	words  bool   // no piece goes on after a word's end, so that words are encoded one by one
	whole  []bool // the pieces that are one token if they are a word; nil: not known
}

// Space stands for a space in pieces. A word ends before one that follows another character.
const Space = "\u2581"

// NewMerges returns the merges of a vocabulary: a trie of the pieces' ids, the pieces' texts and scores by id, those
// that are unused, and the strings that are one symbol, which may be nil.
func NewMerges(pieces *Trie, texts []string, scores []float32, unused []bool, always *Trie) *Merges {
	m := &Merges{pieces: pieces, scores: scores, unused: unused, always: always, words: true}
	for i, text := range texts {
		m.splits = m.splits || unused[i]
		m.words = m.words && (pieces.Find(text) < 0 || wordEnd(text) == len(text))
	}
	if m.words = m.words && !m.splits; !m.words {
		return m
	}
	whole := make([]bool, len(texts))
	var s Symbols
	var made []Token
	for i, text := range texts {
		if len(text) <= 64 && pieces.Find(text) == int32(i) {
			made = m.Encode(made[:0], text, &s)
			whole[i] = len(made) == 1 && made[0].ID == int32(i)
		}
	}
	m.whole = whole
	return m
}

// wordEnd returns the length of the word at the beginning of text.
func wordEnd(text string) int {
	at := 0
	for strings.HasPrefix(text[at:], Space) {
		at += len(Space)
	}
	if n := strings.Index(text[at:], Space); n >= 0 {
		return at + n
	}
	return len(text)
}

// Symbols is memory for a call of Merges.Encode, which it uses again.
type Symbols struct {
	list []symbol
	heap []pair
	from map[string]int32 // of an unused piece, the length of its left part
}

type symbol struct {
	begin, end int32
	prev, next int32 // -1: none
	state      int32 // of the trie, after the symbol; -1: no piece begins with it, or it is frozen
	merged     int32 // the piece of it and the next symbol, or -1
	frozen     bool
}

// pair is two adjacent symbols that may be joined.
type pair struct {
	score       float32
	left, right int32
	size        int32
}

func (a pair) before(b pair) bool { return a.score > b.score || a.score == b.score && a.left < b.left }

func (s *Symbols) push(p pair) {
	s.heap = append(s.heap, p)
	i := len(s.heap) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !p.before(s.heap[up]) {
			break
		}
		s.heap[i] = s.heap[up]
		i = up
	}
	s.heap[i] = p
}

func (s *Symbols) pop() pair {
	top := s.heap[0]
	last := s.heap[len(s.heap)-1]
	s.heap = s.heap[:len(s.heap)-1]
	n := len(s.heap)
	for i := 0; n > 0; {
		down := 2*i + 1
		if down+1 < n && s.heap[down+1].before(s.heap[down]) {
			down++
		}
		if down >= n || !s.heap[down].before(last) {
			s.heap[i] = last
			break
		}
		s.heap[i] = s.heap[down]
		i = down
	}
	return top
}

// Encode appends the pieces of text to tokens. An id is -1 if the text is none of the pieces.
func (m *Merges) Encode(tokens []Token, text string, s *Symbols) []Token {
	if !m.words {
		m.read(text, 0, len(text), s)
		m.join(text, s)
		return m.emit(tokens, text, s)
	}
	for begin := 0; begin < len(text); {
		end := begin + wordEnd(text[begin:])
		if m.whole != nil {
			if id := m.pieces.Find(text[begin:end]); id >= 0 && m.whole[id] {
				tokens = append(tokens, Token{id, int32(begin), int32(end)})
				begin = end
				continue
			}
		}
		if m.read(text, begin, end, s); len(s.list) <= few {
			tokens = m.joinFew(tokens, text, s)
		} else {
			m.join(text, s)
			tokens = m.emit(tokens, text, s)
		}
		begin = end
	}
	return tokens
}

// few is the number of symbols up to which looking at all of them is faster than a heap.
const few = 24

// read fills the symbols with those of a range of text.
func (m *Merges) read(text string, begin, end int, s *Symbols) {
	s.list, s.heap = s.list[:0], s.heap[:0]
	clear(s.from)
	for at := begin; at < end; {
		n, frozen := 1, false
		if text[at] >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(text[at:])
		}
		if m.always != nil {
			if size, _ := m.always.Longest(text[at:]); size > 0 {
				n, frozen = size, true
			}
		}
		k := int32(len(s.list))
		s.list = append(s.list, symbol{begin: int32(at), end: int32(at + n), prev: k - 1, next: k + 1, frozen: frozen})
		at += n
	}
	if len(s.list) > 0 {
		s.list[len(s.list)-1].next = -1
	}
}

// join merges with a heap.
func (m *Merges) join(text string, s *Symbols) {
	for i := 1; i < len(s.list); i++ {
		m.consider(text, s, int32(i-1), int32(i))
	}
	for len(s.heap) > 0 {
		p := s.pop()
		left, right := &s.list[p.left], &s.list[p.right]
		if left.begin == left.end || right.begin == right.end || right.end-left.begin != p.size || left.next != p.right {
			continue
		}
		left.end = right.end
		right.begin = right.end
		left.next = right.next
		if right.next >= 0 {
			s.list[right.next].prev = p.left
		}
		m.consider(text, s, left.prev, p.left)
		m.consider(text, s, p.left, left.next)
	}
}

// emit appends the symbols that are left.
func (m *Merges) emit(tokens []Token, text string, s *Symbols) []Token {
	if len(s.list) == 0 {
		return tokens
	}
	for i := int32(0); i >= 0; i = s.list[i].next {
		tokens = m.split(tokens, text, s, s.list[i].begin, s.list[i].end)
	}
	return tokens
}

// joinFew merges a word's symbols, and appends those that are left: it looks for the best pair again and again.
func (m *Merges) joinFew(tokens []Token, text string, s *Symbols) []Token {
	y := s.list
	for i := range y {
		k := &y[i]
		if k.state = -1; !k.frozen {
			k.state = m.walk(0, text[k.begin:k.end])
		}
	}
	for i := 0; i+1 < len(y); i++ {
		m.pair(text, y, i)
	}
	for len(y) > 1 {
		best, at := float32(0), -1
		for i := range y[:len(y)-1] {
			if id := y[i].merged; id >= 0 && (at < 0 || m.scores[id] > best) {
				best, at = m.scores[id], i
			}
		}
		if at < 0 {
			break
		}
		y[at].state = m.walk(y[at].state, text[y[at+1].begin:y[at+1].end])
		y[at].end = y[at+1].end
		y = append(y[:at+1], y[at+2:]...)
		if at+1 < len(y) {
			m.pair(text, y, at)
		}
		if at > 0 {
			m.pair(text, y, at-1)
		}
	}
	for _, k := range y {
		id := int32(-1)
		if k.state >= 0 {
			id = m.pieces.cells[k.state].value
		} else if k.frozen {
			id = m.pieces.Find(text[k.begin:k.end])
		}
		tokens = append(tokens, Token{id, k.begin, k.end})
	}
	return tokens
}

// walk returns the state of the trie after a state and a text, or -1.
func (m *Merges) walk(state int32, text string) int32 {
	for i := 0; i < len(text) && state >= 0; i++ {
		state = m.pieces.Step(state, text[i])
	}
	return state
}

// pair sets the piece of symbol i and the next one.
func (m *Merges) pair(text string, y []symbol, i int) {
	y[i].merged = -1
	if y[i].state < 0 || y[i+1].frozen {
		return
	}
	if state := m.walk(y[i].state, text[y[i+1].begin:y[i+1].end]); state >= 0 {
		y[i].merged = m.pieces.cells[state].value
	}
}

// consider adds the pair of two symbols if their union is a piece.
func (m *Merges) consider(text string, s *Symbols, left, right int32) {
	if left < 0 || right < 0 || s.list[left].frozen || s.list[right].frozen {
		return
	}
	begin, end := s.list[left].begin, s.list[right].end
	id := m.pieces.Find(text[begin:end])
	if id < 0 {
		return
	}
	s.push(pair{m.scores[id], left, right, end - begin})
	if m.unused[id] {
		if s.from == nil {
			s.from = map[string]int32{}
		}
		s.from[text[begin:end]] = s.list[left].end - begin
	}
}

// split appends a piece, or its parts if it is unused.
func (m *Merges) split(tokens []Token, text string, s *Symbols, begin, end int32) []Token {
	if m.splits {
		if id := m.pieces.Find(text[begin:end]); id >= 0 && m.unused[id] {
			if n, ok := s.from[text[begin:end]]; ok {
				tokens = m.split(tokens, text, s, begin, begin+n)
				return m.split(tokens, text, s, begin+n, end)
			}
		}
	}
	return append(tokens, Token{m.pieces.Find(text[begin:end]), begin, end})
}
