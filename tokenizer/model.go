package tokenizer

import (
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/text/sentencepiece"
	"github.com/weirml/weir/internal/text/unigram"
)

// model turns a piece of text into tokens.
type model interface {
	// tokenize adds the tokens of a piece.
	tokenize(dst []token, piece string, s *modelScratch) ([]token, error)
}

// modelScratch is the memory of the model in one call.
type modelScratch struct {
	symbols []symbol
	queue   []merge
	built   []byte
	unigram []unigram.Token
	lattice unigram.Lattice

	sentence  []sentencepiece.Token
	sentences sentencepiece.Scratch
}

// vocabulary maps tokens to ids and back.
type vocabulary struct {
	ids    map[string]int32
	tokens map[int32]string
	size   int // the number of the model's tokens, from which added ones are numbered
}

func newVocabulary(ids map[string]int32) *vocabulary {
	v := &vocabulary{ids: ids, tokens: make(map[int32]string, len(ids)), size: len(ids)}
	for token, id := range ids {
		if other, ok := v.tokens[id]; !ok || token < other {
			v.tokens[id] = token
		}
	}
	return v
}

// missing is the error of a text that has no ids, because the vocabulary lacks the token for unknown text.
func missing(unknown string) error {
	return input("a part of the text is not in the vocabulary, and neither is the unknown token " + quote(unknown))
}

// wordLevel makes each piece one token.
type wordLevel struct {
	vocabulary *vocabulary
	unknown    string
}

func (m *wordLevel) tokenize(dst []token, piece string, _ *modelScratch) ([]token, error) {
	id, ok := m.vocabulary.ids[piece]
	if !ok {
		if id, ok = m.vocabulary.ids[m.unknown]; !ok {
			return dst, missing(m.unknown)
		}
	}
	return append(dst, token{id, 0, int32(len(piece))}), nil
}

// wordPiece covers a piece by the longest token that fits, again and again.
type wordPiece struct {
	vocabulary *vocabulary
	following  map[string]int32 // the tokens that follow others, without their prefix
	prefix     string           // of the tokens that follow others
	unknown    string
	limit      int // the most characters of a piece that is not unknown
	longest    int // bytes of the longest token
}

func newWordPiece(v *vocabulary, unknown, prefix string, limit int) *wordPiece {
	m := &wordPiece{vocabulary: v, following: v.ids, prefix: prefix, unknown: unknown, limit: limit}
	if prefix != "" {
		m.following = make(map[string]int32, len(v.ids)/4)
	}
	for token, id := range v.ids {
		m.longest = max(m.longest, len(token))
		if rest, ok := strings.CutPrefix(token, prefix); ok && prefix != "" {
			m.following[rest] = id
		}
	}
	return m
}

func (m *wordPiece) tokenize(dst []token, piece string, _ *modelScratch) ([]token, error) {
	kept := len(dst)
	if len(piece) > m.limit && utf8.RuneCountInString(piece) > m.limit {
		return m.none(dst, piece)
	}
	table := m.vocabulary.ids
	for begin := 0; begin < len(piece); table = m.following {
		end := len(piece)
		if end-begin > m.longest {
			for end = begin + m.longest; end > begin && !utf8.RuneStart(piece[end]); {
				end--
			}
		}
		for ; end > begin; end-- {
			if end < len(piece) && !utf8.RuneStart(piece[end]) {
				continue
			}
			if id, ok := table[piece[begin:end]]; ok {
				dst = append(dst, token{id, int32(begin), int32(end)})
				break
			}
		}
		if end == begin {
			return m.none(dst[:kept], piece)
		}
		begin = end
	}
	return dst, nil
}

// none adds the unknown token.
func (m *wordPiece) none(dst []token, piece string) ([]token, error) {
	id, ok := m.vocabulary.ids[m.unknown]
	if !ok {
		return dst, missing(m.unknown)
	}
	return append(dst, token{id, 0, int32(len(piece))}), nil
}
