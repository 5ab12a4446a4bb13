package tokenizer

import (
	"unicode/utf8"
)

// addedToken is a token that is found in the text before the model sees it.
type addedToken struct {
	content    string
	normal     string // the content as the normaliser leaves it: what is found, and decoded
	id         int32
	single     bool // only if it is not a part of a word
	left       bool // it takes the white space before it
	right      bool // it takes the white space after it
	normalized bool // it is found in the normalised text
	special    bool
}

// matcher finds the added tokens of one kind. It is a trie: node n's child for byte b is in the table at the key.
type matcher struct {
	first  [256]bool
	nodes  map[uint64]int32
	tokens []int32 // of each node: the index of the token that ends there, or -1
}

// newMatcher returns a matcher for texts; it reports the index of one that is empty, or that occurs twice.
func newMatcher(tokens []addedToken, normalized bool) (m *matcher, odd int) {
	for i := range tokens {
		a := &tokens[i]
		if a.normalized != normalized {
			continue
		}
		text := a.content
		if normalized {
			text = a.normal
		}
		if text == "" {
			return nil, i
		}
		if m == nil {
			m = &matcher{nodes: map[uint64]int32{}, tokens: []int32{-1}}
		}
		m.first[text[0]] = true
		node := int32(0)
		for j := range len(text) {
			key := uint64(node)<<8 | uint64(text[j])
			child, ok := m.nodes[key]
			if !ok {
				child = int32(len(m.tokens))
				m.nodes[key] = child
				m.tokens = append(m.tokens, -1)
			}
			node = child
		}
		if m.tokens[node] >= 0 {
			return nil, i
		}
		m.tokens[node] = int32(i)
	}
	return m, -1
}

// next returns the leftmost longest token at or after from.
func (m *matcher) next(text string, from int) (begin, end int, token int32) {
	for i := from; i < len(text); i++ {
		if !m.first[text[i]] {
			continue
		}
		node, found := int32(0), int32(-1)
		for j := i; j < len(text); j++ {
			child, ok := m.nodes[uint64(node)<<8|uint64(text[j])]
			if !ok {
				break
			}
			node = child
			if m.tokens[node] >= 0 {
				found, end = m.tokens[node], j+1
			}
		}
		if found >= 0 {
			return i, end, found
		}
	}
	return 0, 0, -1
}

// cutAdded cuts a piece at the added tokens in it.
func (t *Tokenizer) cutAdded(s *scratch, p piece, m *matcher) {
	text, base := s.text.s[p.begin:p.end], int(p.begin)
	done, from := 0, 0
	spaces := window{} // a range of white space that was found before
	for {
		begin, end, at := m.next(text, from)
		if at < 0 {
			break
		}
		from = end
		a := &t.added[at]
		if a.single && (begin > 0 && wordBefore(text[:begin]) || end < len(text) && wordAfter(text[end:])) {
			continue
		}
		if a.left {
			for begin > done {
				r, n := utf8.DecodeLastRuneInString(text[done:begin])
				if !classes().is(r, classSpace) {
					break
				}
				begin -= n
			}
			begin = max(begin, done)
		}
		if a.right {
			start := end
			if spaces.begin <= start && start < spaces.end {
				end = spaces.end
			}
			for end < len(text) {
				r, n := utf8.DecodeRuneInString(text[end:])
				if !classes().is(r, classSpace) {
					break
				}
				end += n
			}
			spaces = window{start, end}
		}
		s.add(base+done, base+begin)
		if begin < end {
			s.next = append(s.next, piece{int32(base + begin), int32(base + end), a.id})
		}
		done = max(done, end)
	}
	s.add(base+done, base+len(text))
}

func wordBefore(text string) bool {
	r, _ := utf8.DecodeLastRuneInString(text)
	return classes().is(r, classWord)
}

func wordAfter(text string) bool {
	r, _ := utf8.DecodeRuneInString(text)
	return classes().is(r, classWord)
}

// prepare makes the pieces of a text: normalised, with the added tokens found, and cut into words.
//
// Without whole, only the text of the pieces matters.
func (t *Tokenizer) prepare(s *scratch, text string, whole bool) error {
	s.text.blind = !whole && !t.places
	s.part.blind = s.text.blind
	s.text.limit(len(text))
	s.part.limit(len(text))
	s.text.reset(text, 0)
	if !utf8.ValidString(text) {
		s.text.repair()
	}
	s.pieces = s.pieces[:0]
	if s.text.s != "" {
		s.pieces = append(s.pieces, piece{0, int32(len(s.text.s)), -1})
	}
	if t.exact != nil {
		s.split(func(s *scratch, p piece) { t.cutAdded(s, p, t.exact) })
	}
	if err := t.normalizePieces(s); err != nil {
		return err
	}
	if t.normal != nil {
		s.split(func(s *scratch, p piece) { t.cutAdded(s, p, t.normal) })
	}
	s.err = nil
	if t.pre != nil {
		t.pre.split(s)
	}
	return s.err
}

// normalizePieces normalises the pieces that are not tokens.
func (t *Tokenizer) normalizePieces(s *scratch) error {
	if t.normalizer == nil {
		return nil
	}
	if len(s.pieces) == 1 && s.pieces[0].token < 0 {
		if err := t.normalizer.normalize(&s.text, s); err != nil {
			return err
		}
		s.pieces[0] = piece{0, int32(len(s.text.s)), -1}
		if s.text.s == "" {
			s.pieces = s.pieces[:0]
		}
		return nil
	}
	whole, kept := &s.text, s.pieces[:0]
	whole.start()
	for _, p := range s.pieces {
		begin := len(whole.out)
		if p.token >= 0 {
			whole.copy(int(p.begin), int(p.end))
		} else {
			part := &s.part
			part.reset(whole.s[p.begin:p.end], int(p.begin))
			if whole.align != nil {
				part.align = whole.align[p.begin:p.end]
			}
			if err := t.normalizer.normalize(part, s); err != nil {
				return err
			}
			whole.reserve(len(part.s))
			whole.out = append(whole.out, part.s...)
			for i := range len(part.s) {
				if whole.blind {
					break
				}
				whole.to = append(whole.to, part.at(i))
			}
			if err := whole.grown(len(whole.out)); err != nil {
				return err
			}
		}
		if begin < len(whole.out) {
			kept = append(kept, piece{int32(begin), int32(len(whole.out)), p.token})
		}
	}
	whole.commit()
	s.pieces = kept
	return nil
}
