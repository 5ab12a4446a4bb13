package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// Encoding is a text, or two, as a model reads it. All slices but Overflow have an element for each token.
type Encoding struct {
	IDs     []int32
	Offsets []Span  // the bytes of its text that a token stands for; empty for tokens that stand for none
	Mask    []int32 // 0 for padding, 1 for every other token
	Types   []int32 // which of two texts the token belongs to, as the model counts
	Words   []int32 // the number of the word, or the added token, that a token is of; -1: of none
	Special []bool  // the token is of the template or of the padding, and stands for no text

	// Overflow is what truncation has cut off, in encodings of their own, if Options.Overflow is set.
	Overflow []Encoding
}

// encoded is the tokens of one text before truncation.
type encoded struct {
	text  string
	ids   []int32
	at    []Span
	words []int32
	trims []trim // if offsets are trimmed
}

// trim is the number of characters that stand for spaces at a token's ends.
type trim struct{ leading, trailing int32 }

func (e *encoded) reset() {
	e.ids, e.at, e.words, e.trims = e.ids[:0], e.at[:0], e.words[:0], e.trims[:0]
}

// trimOf counts the spaces at the ends of a token. A byte-level space is Ġ.
func trimOf(token string) (t trim) {
	isSpace := func(r rune) bool { return (r <= ' ' || r >= 0x7F) && (r == 'Ġ' || unicode.Is(unicode.White_Space, r)) }
	for _, r := range token {
		if !isSpace(r) {
			break
		}
		t.leading++
	}
	for rest := token; rest != ""; t.trailing++ {
		r, n := utf8.DecodeLastRuneInString(rest)
		if !isSpace(r) {
			break
		}
		rest = rest[:len(rest)-n]
	}
	return t
}

// trimmed returns a token's offsets without the spaces at its ends. Like the reference in Python, it counts characters
// of the text, which need not be the token's.
func trimmed(text string, at Span, t trim, first, prefix bool) Span {
	leading := int(t.leading)
	if leading == 1 && prefix && (first || at.Begin == 0) {
		leading = 0 // the space is not of the text
	}
	for ; leading > 0 && at.Begin < at.End; leading-- {
		at.Begin = min(at.Begin+firstLength(text[at.Begin:]), at.End)
	}
	end := at.End
	for range t.trailing {
		if end == 0 {
			return at
		}
		end -= lastLength(text, end)
	}
	at.End = max(end, at.Begin)
	return at
}

// run encodes a text into e. Without whole, only ids are made.
func (t *Tokenizer) run(s *scratch, e *encoded, text string, whole bool) error {
	e.reset()
	e.text = text
	if t.sentence != nil {
		return t.runSentence(s, e, text, whole)
	}
	if err := t.prepare(s, text, whole); err != nil {
		return err
	}
	for i, p := range s.pieces {
		s.tokens = s.tokens[:0]
		if p.token >= 0 {
			s.tokens = append(s.tokens, token{p.token, 0, p.end - p.begin})
		} else {
			var err error
			if s.tokens, err = t.model.tokenize(s.tokens, s.text.s[p.begin:p.end], &s.model); err != nil {
				return err
			}
		}
		e.ids = room(e.ids, len(s.tokens))
		for _, k := range s.tokens {
			e.ids = append(e.ids, k.id)
		}
		if whole {
			t.describe(s, e, p, i)
		}
	}
	return nil
}

// describe adds what an encoding says of the tokens of a piece.
func (t *Tokenizer) describe(s *scratch, e *encoded, p piece, word int) {
	e.at, e.words = room(e.at, len(s.tokens)), room(e.words, len(s.tokens))
	for _, k := range s.tokens {
		at := Span{int(k.begin), int(k.end)}
		if begin, end := int(p.begin+k.begin), int(p.begin+k.end); end <= int(p.end) && begin < end {
			o := s.text.original(begin, end)
			at = Span{int(o.begin), int(o.end)}
		} else if t.parted {
			at.Begin = s.text.place(begin)
			at.End = at.Begin
		}
		e.at = append(e.at, at)
		e.words = append(e.words, int32(word))
		if !t.trims {
			continue
		}
		e.trims = room(e.trims, 1)
		switch {
		case p.token >= 0:
			e.trims = append(e.trims, trimOf(s.text.s[p.begin:p.end]))
		case t.literal:
			e.trims = append(e.trims, trimOf(s.text.s[p.begin+k.begin:p.begin+k.end]))
		default:
			text, _ := t.vocabulary.token(k.id)
			e.trims = append(e.trims, trimOf(text))
		}
	}
}
