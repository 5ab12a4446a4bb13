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
	dense  []string         // tokens by id, if most ids below the greatest have one; those of the others are absent
	sparse map[int32]string // otherwise
	size   int              // the number of the model's tokens, from which added ones are numbered
}

// absent stands for the token of an id that has none. It is not UTF-8.
const absent = "\xff\xfe"

func newVocabulary(ids map[string]int32) *vocabulary {
	v := &vocabulary{ids: ids, size: len(ids)}
	most := int32(-1)
	for _, id := range ids {
		most = max(most, id)
	}
	if int(most) < 2*len(ids)+256 {
		v.dense = make([]string, most+1)
		for i := range v.dense {
			v.dense[i] = absent
		}
	} else {
		v.sparse = make(map[int32]string, len(ids))
	}
	for token, id := range ids {
		if other, ok := v.token(id); !ok || token < other {
			v.set(id, token)
		}
	}
	return v
}

// newPieces returns the vocabulary of pieces whose places are their ids. Of equal ones the last one's id is found.
func newPieces(pieces []string) *vocabulary {
	v := &vocabulary{ids: make(map[string]int32, len(pieces)), dense: pieces, size: len(pieces)}
	for i, p := range pieces {
		v.ids[p] = int32(i)
	}
	return v
}

// token returns the token of an id.
func (v *vocabulary) token(id int32) (string, bool) {
	if v.dense == nil {
		token, ok := v.sparse[id]
		return token, ok
	}
	if id < 0 || int(id) >= len(v.dense) || v.dense[id] == absent {
		return "", false
	}
	return v.dense[id], true
}

func (v *vocabulary) set(id int32, token string) {
	if v.dense == nil {
		v.sparse[id] = token
	} else {
		v.dense[id] = token
	}
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
