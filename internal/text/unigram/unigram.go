// Package unigram cuts texts into the pieces of greatest total score, and by merges of scores, as Hugging Face's
// tokenizers and SentencePiece do.
package unigram

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// Piece is a string of a vocabulary. Its place in the vocabulary is its id.
type Piece struct {
	Text  string
	Score float64
	// Absent says that no text contains the piece. Hugging Face has no such pieces; those of SentencePiece are control
	// pieces, the unknown piece, bytes and unused pieces.
	Absent bool
	// Always says that the piece is taken wherever it fits: a user-defined symbol of SentencePiece.
	Always bool
}

// Options of a model.
type Options struct {
	Unknown int // the id of unknown characters, or -1: these are errors
	// ByteFallback says that unknown characters become the pieces <0x00> to <0xFF>, if there are all that it takes.
	ByteFallback bool
	// SentencePiece selects its arithmetic, in float32, and its treatment of bytes; otherwise they are Hugging Face's.
	SentencePiece bool
}

// Model is a vocabulary with scores. Goroutines may share it.
type Model struct {
	trie    *Trie
	scores  []float64
	always  []bool // nil: none
	options Options
	bytes   [256]int32 // the ids of the pieces of bytes, or -1
	unknown float64    // the score of an unknown character
	highest float64    // of all scores and 0, from which the reference's least float differs too little to matter
}

// unknownPenalty is what an unknown character scores less than the lowest piece.
const unknownPenalty = 10

// New returns a model. Its error is an ErrInput if the vocabulary is too large or the unknown id is not in it.
func New(pieces []Piece, o Options) (*Model, error) {
	if o.Unknown >= len(pieces) {
		return nil, &diag.Error{Kind: diag.ErrInput, Op: "Unigram",
			Detail: fmt.Sprintf("the unknown id is %d, and there are %d pieces", o.Unknown, len(pieces))}
	}
	m := &Model{options: o, scores: make([]float64, len(pieces))}
	for i := range m.bytes {
		m.bytes[i] = -1
	}
	names := map[string]int{}
	for i := range 256 {
		names[fmt.Sprintf("<0x%02X>", i)] = i
	}
	var entries []Entry
	lowest, first := 0.0, true
	for i, p := range pieces {
		m.scores[i] = p.Score
		if b, ok := names[p.Text]; ok {
			m.bytes[b] = int32(i)
		}
		if !p.Absent {
			entries = append(entries, Entry{p.Text, int32(i)})
		}
		if p.Always {
			if m.always == nil {
				m.always = make([]bool, len(pieces))
			}
			m.always[i] = true
		}
		if p.Absent || p.Always {
			continue
		}
		if first || p.Score < lowest {
			lowest = p.Score
		}
		m.highest = max(m.highest, p.Score)
		first = false
	}
	m.unknown = lowest - unknownPenalty
	if o.SentencePiece {
		m.unknown = float64(float32(m.unknown))
	}
	var err error
	m.trie, err = NewTrie(entries)
	return m, err
}

// Token is a piece of a text: text[Begin:End]. The pieces of an unknown character's bytes all have its bounds.
type Token struct{ ID, Begin, End int32 }

// Lattice is memory for a call of Encode; it grows to 16 bytes a byte of text and is used again.
type Lattice struct {
	nodes []node
	path  []Token
}

// node is the best path that ends at a place.
type node struct {
	score float64
	begin int32 // where its last piece begins; -1: no path ends here
	id    int32
}

// maxText is the greatest length of a text, in bytes.
const maxText = 1<<31 - 2

// longText is the length in bytes from which the pieces of a text are counted before memory is taken for them.
const longText = 4096

// Encode appends the pieces of text, which must be UTF-8, to tokens. Its error is an ErrInput if a character is unknown
// and the model has no id for those, or the text is too long. Adjacent unknown characters are one token.
func (m *Model) Encode(tokens []Token, text string, l *Lattice) ([]Token, error) {
	if len(text) > maxText {
		return tokens, &diag.Error{Kind: diag.ErrInput, Op: "Unigram",
			Detail: fmt.Sprintf("a text of %d bytes is too long", len(text))}
	}
	if err := m.forward(text, l); err != nil {
		return tokens, err
	}
	first, unknown := len(tokens), int32(m.options.Unknown)
	joined := !m.split()
	if len(text) > longText {
		n := 0
		for end := int32(len(text)); end > 0; end = l.nodes[end].begin {
			n++
		}
		tokens = slices.Grow(tokens, n)
	}
	for end := int32(len(text)); end > 0; {
		n := &l.nodes[end]
		k := len(tokens)
		if k > first && n.id == unknown && joined && tokens[k-1].ID == unknown {
			tokens[k-1].Begin = n.begin
		} else {
			tokens = append(tokens, Token{n.id, n.begin, end})
		}
		end = n.begin
	}
	slices.Reverse(tokens[first:])
	if !slices.ContainsFunc(tokens[first:], func(t Token) bool { return t.ID == unknown }) {
		return tokens, nil
	}
	l.path = append(l.path[:0], tokens[first:]...)
	tokens = tokens[:first]
	for _, t := range l.path {
		if t.ID == unknown {
			var done bool
			if tokens, done = m.spell(tokens, text, t); done {
				continue
			}
		}
		tokens = append(tokens, t)
	}
	return tokens, nil
}

// split reports whether adjacent unknown characters stay apart: SentencePiece spells each by its own bytes.
func (m *Model) split() bool { return m.options.SentencePiece && m.options.ByteFallback }

// spell appends the bytes of an unknown token, or the piece that Hugging Face finds for the whole token.
func (m *Model) spell(tokens []Token, text string, t Token) ([]Token, bool) {
	part := text[t.Begin:t.End]
	if !m.options.SentencePiece {
		if id := m.trie.Find(part); id >= 0 {
			return append(tokens, Token{id, t.Begin, t.End}), true
		}
	}
	if !m.options.ByteFallback {
		return tokens, false
	}
	for i := 0; i < len(part); i++ {
		if m.bytes[part[i]] < 0 {
			return tokens, false
		}
	}
	for i := 0; i < len(part); i++ {
		tokens = append(tokens, Token{m.bytes[part[i]], t.Begin, t.End})
	}
	return tokens, true
}

// forward finds the best path to each place of text.
func (m *Model) forward(text string, l *Lattice) error {
	if cap(l.nodes) <= len(text) {
		l.nodes = make([]node, len(text)+1, len(text)+len(text)/4+64)
	}
	nodes := l.nodes[:len(text)+1]
	l.nodes = nodes
	for i := range nodes {
		nodes[i].begin = -1
	}
	nodes[0].score = 0
	cells := m.trie.cells
	single := m.options.SentencePiece
	for begin := 0; begin < len(text); {
		width := 1
		if text[begin] >= utf8.RuneSelf {
			_, width = utf8.DecodeRuneInString(text[begin:])
		}
		till := nodes[begin].score
		known := false
		state := int32(0)
		for at := begin; at < len(text); {
			next := cells[state].next
			if next == 0 {
				break
			}
			child := next + int32(text[at])
			if cells[child].owner != state+1 {
				break
			}
			state = child
			at++
			id := cells[state].value
			if id < 0 {
				continue
			}
			score := m.scores[id]
			if m.always != nil && m.always[id] {
				score = m.bonus(at - begin)
			}
			candidate := score + till
			if single {
				candidate = float64(float32(candidate))
			}
			if n := &nodes[at]; n.begin < 0 || candidate > n.score {
				n.score, n.begin, n.id = candidate, int32(begin), id
			}
			known = known || at-begin == width
		}
		if !known {
			candidate := m.unknown + till
			if single {
				candidate = float64(float32(candidate))
			}
			if n := &nodes[begin+width]; n.begin < 0 || candidate > n.score {
				if m.options.Unknown < 0 {
					return &diag.Error{Kind: diag.ErrInput, Op: "Unigram",
						Detail: fmt.Sprintf("the character %q is unknown, and the model has no id for it", text[begin:begin+width])}
				}
				n.score, n.begin, n.id = candidate, int32(begin), int32(m.options.Unknown)
			}
		}
		begin += width
	}
	return nil
}

// bonus returns the score of a user-defined symbol of a length in bytes.
func (m *Model) bonus(length int) float64 {
	return float64(float32(length) * float32(m.highest))
}

// Find returns the id of a piece that texts may contain, or -1.
func (m *Model) Find(piece string) int { return int(m.trie.Find(piece)) }

// Bytes returns the memory that m occupies, in bytes, without the strings of the vocabulary.
func (m *Model) Bytes() int64 {
	return m.trie.Bytes() + int64(len(m.scores))*8 + int64(len(m.always)) + 1024
}
