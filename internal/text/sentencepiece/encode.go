package sentencepiece

import (
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/text/charsmap"
	"github.com/weirml/weir/internal/text/unigram"
)

const (
	space       = unigram.Space
	replacement = "\ufffd"
)

// Encoder encodes and decodes with the model of a file. Goroutines may share it.
type Encoder struct {
	file     *File
	charsmap *charsmap.Map // nil: none
	denormal *charsmap.Map
	unigram  *unigram.Model // of a Unigram model
	merges   *unigram.Merges
	always   *unigram.Trie // the user-defined symbols; nil: none
	reserved *unigram.Trie // the pieces that no text contains
	pieces   *unigram.Trie // the others; nil for Unigram, whose model has them
	shadowed bool          // a piece is reserved too
	unknown  int32
	bytes    [256]int32
	plain    [utf8.RuneSelf]bool // bytes that stay as they are before another one of ASCII; a space is none
	spaces   bool                // a space stays as it is too
}

// findPlain sets plain: no key and no user-defined symbol is such a byte, or begins with it and a byte of ASCII.
func (e *Encoder) findPlain() {
	for c := byte(1); c < utf8.RuneSelf; c++ {
		one := string([]byte{c})
		e.plain[c] = e.always == nil || e.always.Step(0, c) < 0
		if e.charsmap == nil || !e.plain[c] || !e.charsmap.Begins(one) {
			continue
		}
		_, n := e.charsmap.Longest(one)
		e.plain[c] = n == 0
		for d := byte(1); d < utf8.RuneSelf; d++ {
			e.plain[c] = e.plain[c] && !e.charsmap.Begins(one+string([]byte{d}))
		}
	}
	e.spaces, e.plain[' '] = e.plain[' '], false
}

// NewEncoder returns the encoder of a file, which the caller does not change any more. Its error is an ErrInput.
func NewEncoder(f *File) (*Encoder, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	e := &Encoder{file: f, unknown: int32(f.UnknownID())}
	var err error
	for _, n := range []struct {
		data []byte
		to   **charsmap.Map
	}{{f.Normalizer.Charsmap, &e.charsmap}, {f.Denormalizer.Charsmap, &e.denormal}} {
		if len(n.data) > 0 {
			if *n.to, err = charsmap.Parse(n.data); err != nil {
				return nil, err
			}
		}
	}
	var always, reserved, pieces []unigram.Entry
	list := make([]unigram.Piece, len(f.Pieces))
	for i, p := range f.Pieces {
		entry := unigram.Entry{Text: p.Text, Value: int32(i)}
		list[i] = unigram.Piece{Text: p.Text, Score: float64(p.Score)}
		switch p.Type {
		case Unknown, Control, Byte:
			list[i].Absent = true
			reserved = append(reserved, entry)
			if p.Type == Byte {
				e.bytes[byteOf(p.Text)] = int32(i)
			}
			continue
		case UserDefined:
			list[i].Always = true
			always = append(always, entry)
		case Unused:
			list[i].Absent = f.Algorithm == Unigram
		}
		pieces = append(pieces, entry)
	}
	if len(always) > 0 {
		if e.always, err = unigram.NewTrie(always); err != nil {
			return nil, err
		}
	}
	if e.reserved, err = unigram.NewTrie(reserved); err != nil {
		return nil, err
	}
	if f.Algorithm != Unigram {
		if e.pieces, err = unigram.NewTrie(pieces); err != nil {
			return nil, err
		}
	}
	e.findPlain()
	switch f.Algorithm {
	case Unigram:
		e.unigram, err = unigram.New(list, unigram.Options{Unknown: int(e.unknown), ByteFallback: f.ByteFallback,
			SentencePiece: true})
	case BPE:
		scores := make([]float32, len(f.Pieces))
		unused := make([]bool, len(f.Pieces))
		texts := make([]string, len(f.Pieces))
		for i, p := range f.Pieces {
			scores[i], unused[i], texts[i] = p.Score, p.Type == Unused, p.Text
			e.shadowed = e.shadowed || e.pieces.Find(p.Text) >= 0 && e.reserved.Find(p.Text) >= 0
		}
		e.merges = unigram.NewMerges(e.pieces, texts, scores, unused, e.always)
	}
	return e, err
}

// Token is a piece of a text.
type Token struct {
	ID         int32
	Begin, End int32 // its bounds in the text, in bytes
	From, To   int32 // its bounds in the normalised text
}

// Scratch is memory for Encode, which it uses again.
type Scratch struct {
	Normalized []byte  // the text after normalisation
	origins    []int32 // of each byte of Normalized and of its end, the place in the text
	cut        []unigram.Token
	lattice    unigram.Lattice
	symbols    unigram.Symbols
}

// prefix returns what the beginning of rest becomes, and how many bytes of it that takes.
func (e *Encoder) prefix(m *charsmap.Map, rest string) (string, int) {
	if e.always != nil {
		if n, _ := e.always.Longest(rest); n > 0 {
			return rest[:n], n
		}
	}
	if m != nil {
		if with, n := m.Longest(rest); n > 0 {
			return with, n
		}
	}
	r, n := utf8.DecodeRuneInString(rest)
	if r == utf8.RuneError && n == 1 {
		return replacement, 1
	}
	return rest[:n], n
}

// The greatest length of a normalised text: for each byte of the text, or if that is more, altogether. A hostile file
// replaces a character by thousands.
const (
	growthPerByte = 256
	growthAlways  = 1 << 20
)

// normalize writes text to s. Its error is an ErrInput if the text grows beyond what is allowed.
func (e *Encoder) normalize(s *Scratch, text string, m *charsmap.Map, spec *Normalizer, suffix bool) error {
	s.Normalized, s.origins = s.Normalized[:0], s.origins[:0]
	at := 0
	if spec.RemoveExtraWhitespaces {
		for at < len(text) {
			with, n := e.prefix(m, text[at:])
			if with != " " {
				break
			}
			at += n
		}
	}
	if at == len(text) {
		return nil
	}
	symbol := " "
	if spec.EscapeWhitespaces {
		symbol = space
	}
	add := func(part string, at int) {
		s.Normalized = append(s.Normalized, part...)
		for range len(part) {
			s.origins = append(s.origins, int32(at))
		}
	}
	if !suffix && spec.AddDummyPrefix {
		add(symbol, at)
	}
	afterSpace := spec.RemoveExtraWhitespaces
	for at < len(text) {
		if int64(len(s.Normalized)) > max(growthAlways, min(int64(len(text))*growthPerByte, 1<<30)) {
			return fault("a text of %d bytes becomes one of more than %d", len(text), len(s.Normalized))
		}
		if begin := at; m == e.charsmap {
			if at = e.plainRun(text, at); at > begin {
				s.Normalized = append(s.Normalized, text[begin:at]...)
				for i := begin; i < at; i++ {
					s.origins = append(s.origins, int32(i))
				}
				afterSpace = false
				continue
			}
		}
		with, n := " ", 1
		if m != e.charsmap || !e.spaces || text[at] != ' ' || at+1 < len(text) && text[at+1] >= utf8.RuneSelf {
			with, n = e.prefix(m, text[at:])
		}
		if afterSpace {
			with = strings.TrimLeft(with, " ")
		}
		if with != "" {
			for i := 0; i < len(with); i++ {
				if with[i] == ' ' {
					add(symbol, at)
				} else {
					s.Normalized = append(s.Normalized, with[i])
					s.origins = append(s.origins, int32(at))
				}
			}
			afterSpace = with[len(with)-1] == ' '
		}
		at += n
		afterSpace = afterSpace && spec.RemoveExtraWhitespaces
	}
	if spec.RemoveExtraWhitespaces {
		for strings.HasSuffix(string(s.Normalized[max(0, len(s.Normalized)-len(symbol)):]), symbol) {
			length := len(s.Normalized) - len(symbol)
			at = int(s.origins[length])
			s.Normalized, s.origins = s.Normalized[:length], s.origins[:length]
		}
	}
	if suffix && spec.AddDummyPrefix {
		add(symbol, at)
	}
	s.origins = append(s.origins, int32(at))
	return nil
}

// plainRun returns the end of the bytes from a place on that stay as they are.
func (e *Encoder) plainRun(text string, at int) int {
	for at < len(text) && text[at] < utf8.RuneSelf && e.plain[text[at]] {
		if at+1 < len(text) && text[at+1] >= utf8.RuneSelf {
			break
		}
		at++
	}
	return at
}

// Encode appends the pieces of text to tokens. Bytes that are not UTF-8 are U+FFFD. Its error is an ErrInput if the
// text is too long, or its normalisation makes it much longer.
func (e *Encoder) Encode(tokens []Token, text string, s *Scratch) ([]Token, error) {
	if len(text) > 1<<28 {
		return tokens, fault("a text of %d bytes is too long", len(text))
	}
	err := e.normalize(s, text, e.charsmap, &e.file.Normalizer, e.file.TreatWhitespaceAsSuffix)
	if err != nil || len(s.Normalized) == 0 {
		return tokens, err
	}
	normalized := view(s.Normalized)
	s.cut = s.cut[:0]
	switch e.file.Algorithm {
	case Unigram:
		s.cut, err = e.unigram.Encode(s.cut, normalized, &s.lattice)
	case BPE:
		s.cut = e.merges.Encode(s.cut, normalized, &s.symbols)
	case Word:
		s.cut = e.words(s.cut, normalized)
	default:
		for at := 0; at < len(normalized); {
			n := e.symbol(normalized[at:])
			s.cut = append(s.cut, unigram.Token{ID: -1, Begin: int32(at), End: int32(at + n)})
			at += n
		}
	}
	if err != nil {
		return tokens, err
	}
	first := len(tokens)
	if e.unigram != nil {
		for _, t := range s.cut {
			tokens = append(tokens, Token{t.ID, s.origins[t.Begin], s.origins[t.End], t.Begin, t.End})
		}
		e.bounds(tokens[first:])
		return tokens, nil
	}
	for _, t := range s.cut {
		id := t.ID
		if id < 0 || e.shadowed {
			id = e.find(normalized[t.Begin:t.End])
		}
		last := len(tokens) - 1
		switch {
		case id == e.unknown && e.file.ByteFallback:
			for i := t.Begin; i < t.End; i++ {
				tokens = append(tokens, Token{e.bytes[normalized[i]], s.origins[t.Begin], s.origins[t.End], t.Begin, t.End})
			}
		case id == e.unknown && last >= first && tokens[last].ID == e.unknown:
			tokens[last].End, tokens[last].To = s.origins[t.End], t.End
		default:
			tokens = append(tokens, Token{id, s.origins[t.Begin], s.origins[t.End], t.Begin, t.End})
		}
	}
	e.bounds(tokens[first:])
	return tokens, nil
}

// bounds gives the bytes of a character the bounds that SentencePiece reports: the last has the character's.
func (e *Encoder) bounds(tokens []Token) {
	if !e.file.ByteFallback {
		return
	}
	for i := 0; i+1 < len(tokens); i++ {
		t, next := &tokens[i], &tokens[i+1]
		if t.From == next.From && t.To == next.To {
			t.End = t.Begin
		}
	}
}

// symbol returns the length of the user-defined symbol, or else the character, at the beginning of rest.
func (e *Encoder) symbol(rest string) int {
	if e.always != nil {
		if n, _ := e.always.Longest(rest); n > 0 {
			return n
		}
	}
	_, n := utf8.DecodeRuneInString(rest)
	return n
}

// words appends the words of a normalised text, each with the space before it, or after it.
func (e *Encoder) words(cut []unigram.Token, text string) []unigram.Token {
	inSpaces := false
	begin := 0
	end := func(at int) {
		if at > begin {
			cut = append(cut, unigram.Token{ID: -1, Begin: int32(begin), End: int32(at)})
			begin = at
		}
	}
	for at := 0; at < len(text); {
		_, n := utf8.DecodeRuneInString(text[at:])
		isSpace := text[at:at+n] == space
		if e.file.TreatWhitespaceAsSuffix {
			if isSpace {
				inSpaces = true
			} else if inSpaces {
				if e.file.AllowWhitespaceOnly {
					end(at)
				}
				inSpaces = false
			}
			at += n
			if isSpace && !e.file.AllowWhitespaceOnly {
				end(at)
			}
			continue
		}
		if at == 0 || isSpace && (!inSpaces || !e.file.AllowWhitespaceOnly) {
			end(at)
			inSpaces = true
		}
		inSpaces = inSpaces && isSpace
		at += n
	}
	end(len(text))
	return cut
}

// find returns the id of a piece of a model other than Unigram, or the unknown piece's.
func (e *Encoder) find(piece string) int32 {
	if id := e.reserved.Find(piece); id >= 0 {
		return id
	}
	if id := e.pieces.Find(piece); id >= 0 {
		return id
	}
	return e.unknown
}

// Decode returns the text of ids. Its error is an ErrInput if an id is not in the vocabulary.
func (e *Encoder) Decode(ids []int32) (string, error) {
	var out strings.Builder
	var bytes []byte
	flush := func() {
		for len(bytes) > 0 {
			r, n := utf8.DecodeRune(bytes)
			if r == utf8.RuneError && n == 1 {
				out.WriteString(replacement)
			} else {
				out.Write(bytes[:n])
			}
			bytes = bytes[n:]
		}
	}
	spec := &e.file.Normalizer
	atBegin, seen := true, false
	for _, id := range ids {
		if id < 0 || int(id) >= len(e.file.Pieces) {
			return "", fault("the id %d is not one of %d", id, len(e.file.Pieces))
		}
		p := e.file.Pieces[id]
		if p.Type == Byte {
			bytes = append(bytes, byte(byteOf(p.Text)))
			continue
		}
		flush()
		if seen || out.Len() > 0 {
			atBegin = false
		}
		seen = false
		switch p.Type {
		case Control:
		case Unknown:
			out.WriteString(e.file.UnknownSurface)
		default:
			piece := p.Text
			if atBegin && (spec.AddDummyPrefix || spec.RemoveExtraWhitespaces) {
				piece, seen = strings.CutPrefix(piece, space)
				seen = seen && !spec.RemoveExtraWhitespaces
			}
			out.WriteString(strings.ReplaceAll(piece, space, " "))
		}
	}
	flush()
	if e.denormal == nil {
		return out.String(), nil
	}
	var s Scratch
	err := e.normalize(&s, out.String(), e.denormal, &e.file.Denormalizer, false)
	return string(s.Normalized), err
}
