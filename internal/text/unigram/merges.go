package unigram

import "unicode/utf8"

// Merges is SentencePiece's BPE: the adjacent symbols whose union is the piece of the highest score are joined first,
// the leftmost of equal ones. Goroutines may share it.
type Merges struct {
	pieces *Trie
	scores []float32
	unused []bool // pieces that serve as steps to others, and are split again
	splits bool   // whether there are unused pieces
}

// NewMerges returns the merges of a vocabulary: a trie of the pieces' ids, and their scores by id.
func NewMerges(pieces *Trie, scores []float32, unused []bool) *Merges {
	m := &Merges{pieces: pieces, scores: scores, unused: unused}
	for _, u := range unused {
		m.splits = m.splits || u
	}
	return m
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

// Encode appends the pieces of text to tokens. Their ids are -1. A string of always, which may be nil, is one symbol.
func (m *Merges) Encode(tokens []Token, text string, always *Trie, s *Symbols) []Token {
	s.list, s.heap = s.list[:0], s.heap[:0]
	clear(s.from)
	for at := 0; at < len(text); {
		_, n := utf8.DecodeRuneInString(text[at:])
		frozen := false
		if always != nil {
			if size, _ := always.Longest(text[at:]); size > 0 {
				n, frozen = size, true
			}
		}
		k := int32(len(s.list))
		s.list = append(s.list, symbol{int32(at), int32(at + n), k - 1, k + 1, frozen})
		at += n
	}
	if len(s.list) == 0 {
		return tokens
	}
	s.list[len(s.list)-1].next = -1
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
	for i := int32(0); i >= 0; i = s.list[i].next {
		tokens = m.split(tokens, text, s, s.list[i].begin, s.list[i].end)
	}
	return tokens
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
	return append(tokens, Token{-1, begin, end})
}
