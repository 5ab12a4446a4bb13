package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// preTokenizer is a step that cuts the pieces of a text into smaller ones.
type preTokenizer interface {
	split(s *scratch)
}

// stages are steps one after the other.
type stages []preTokenizer

func (q stages) split(s *scratch) {
	for _, p := range q {
		if p.split(s); s.err != nil {
			return
		}
		s.err = s.text.grown(len(s.text.s))
	}
}

// bertSplit cuts at white space, which goes, and around punctuation.
type bertSplit struct{}

func (bertSplit) split(s *scratch) {
	table := classes()
	ascii := &table.bits[table.block[0]]
	const breaks = 1<<classSpace | 1<<classPunctuation
	s.split(func(s *scratch, p piece) {
		text := s.text.s[:p.end]
		begin := int(p.begin)
		for i := begin; i < len(text); {
			n, class := 1, uint8(0)
			if c := text[i]; c < utf8.RuneSelf {
				class = ascii[c]
			} else {
				var r rune
				r, n = utf8.DecodeRuneInString(text[i:])
				class = table.of(r)
			}
			if class&breaks != 0 {
				s.add(begin, i)
				if class&(1<<classSpace) == 0 {
					s.add(i, i+n)
				}
				begin = i + n
			}
			i += n
		}
		s.add(begin, len(text))
	})
}

// whitespace cuts into runs of \w and runs of what is neither \w nor white space.
type whitespace struct{}

func (whitespace) split(s *scratch) {
	table := classes()
	s.split(func(s *scratch, p piece) {
		text := s.text.s[p.begin:p.end]
		begin, before := 0, uint8(0)
		for i, r := range text {
			kind := table.of(r) & (1<<classWord | 1<<classSpace)
			if kind&(1<<classWord) != 0 {
				kind = 1 << classWord
			}
			if i > 0 && kind != before {
				if before != 1<<classSpace {
					s.add(int(p.begin)+begin, int(p.begin)+i)
				}
				begin = i
			}
			before = kind
		}
		if before != 1<<classSpace {
			s.add(int(p.begin)+begin, int(p.end))
		}
	})
}

// characters cuts at the characters of a class, or at one character.
type characters struct {
	class int
	only  rune // if it is not 0: this character instead of the class
	how   behavior
}

func (c characters) split(s *scratch) {
	table := classes()
	is := func(r rune) bool { return table.is(r, c.class) }
	if c.only != 0 {
		is = func(r rune) bool { return r == c.only }
	}
	s.split(func(s *scratch, p piece) {
		s.findCharacters(s.text.s[p.begin:p.end], is)
		s.cut(int(p.begin), c.how)
	})
}

// splitPattern cuts at the matches of a pattern, or if invert is set at what is between them.
type splitPattern struct {
	pattern finder
	how     behavior
	invert  bool
}

func (c splitPattern) split(s *scratch) {
	if c.how == isolated {
		s.split(func(s *scratch, p piece) {
			text, done, base := s.text.s[p.begin:p.end], 0, int(p.begin)
			w := c.pattern.walk(text)
			for {
				begin, end, ok := w.next()
				if !ok {
					break
				}
				s.add(base+done, base+begin)
				s.add(base+begin, base+end)
				done = end
			}
			s.add(base+done, base+len(text))
			s.fail(w.err())
		})
		return
	}
	s.split(func(s *scratch, p piece) {
		s.find(s.text.s[p.begin:p.end], &c.pattern, c.invert)
		s.cut(int(p.begin), c.how)
	})
}

// unicodeScripts cuts where the script changes. Characters of no script belong to those before them; at the beginning
// of a piece they go.
type unicodeScripts struct{}

// scriptOf returns the number of a character's script; 0 is none.
func scriptOf(r rune) int32 {
	i, ok := slices.BinarySearchFunc(scriptRanges, r, func(s [3]int32, r rune) int {
		switch {
		case r < s[0]:
			return 1
		case r > s[1]:
			return -1
		}
		return 0
	})
	if !ok {
		return 0
	}
	return scriptRanges[i][2]
}

func (unicodeScripts) split(s *scratch) {
	s.split(func(s *scratch, p piece) {
		begin, last := -1, int32(0)
		for i, r := range s.text.s[p.begin:p.end] {
			script := scriptOf(r)
			if script == 0 || script == last {
				continue
			}
			if begin >= 0 {
				s.add(int(p.begin)+begin, int(p.begin)+i)
			}
			begin, last = i, script
		}
		if begin >= 0 {
			s.add(int(p.begin)+begin, int(p.end))
		}
	})
}

// fixedLength cuts after every n characters.
type fixedLength struct{ n int }

func (c fixedLength) split(s *scratch) {
	s.split(func(s *scratch, p piece) {
		begin, count := 0, 0
		for i := range s.text.s[p.begin:p.end] {
			if count == c.n {
				s.add(int(p.begin)+begin, int(p.begin)+i)
				begin, count = i, 0
			}
			count++
		}
		s.add(int(p.begin)+begin, int(p.end))
	})
}

// rewrite replaces the text of every piece that is not a token by what f emits.
func (s *scratch) rewrite(f func(t *aligned, p piece)) {
	t := &s.text
	t.start()
	for i, p := range s.pieces {
		begin := len(t.out)
		if p.token >= 0 {
			t.copy(int(p.begin), int(p.end))
		} else {
			f(t, p)
		}
		s.pieces[i].begin, s.pieces[i].end = int32(begin), int32(len(t.out))
	}
	t.commit()
}

// metaspace replaces spaces by another character, writes one before the text, and cuts before each of them.
type metaspace struct {
	replacement rune
	prepend     string // always, first or never
	cut         bool
}

func (m metaspace) split(s *scratch) {
	mark := string(m.replacement)
	s.rewrite(func(t *aligned, p piece) {
		text := t.s[p.begin:p.end]
		if m.prepend != "never" && text[0] != ' ' && !strings.HasPrefix(text, mark) &&
			(m.prepend == "always" || t.at(int(p.begin)).begin == 0) {
			t.emitSpan(mark, t.at(int(p.begin)))
		}
		for i := 0; i < len(text); {
			n := strings.IndexByte(text[i:], ' ')
			if n < 0 {
				n = len(text) - i
			}
			t.copy(int(p.begin)+i, int(p.begin)+i+n)
			if i += n; i < len(text) {
				t.emitSpan(mark, t.at(int(p.begin)+i))
				i++
			}
		}
	})
	if m.cut {
		characters{only: m.replacement, how: mergedWithNext}.split(s)
	}
}

// places reports whether steps read the places of pieces in the original text.
func places(p preTokenizer) bool {
	switch p := p.(type) {
	case stages:
		return slices.ContainsFunc(p, places)
	case metaspace:
		return p.prepend == "first"
	}
	return false
}

// gpt2 is the pattern of ByteLevel's words.
const gpt2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

// byteSplit cuts into words as GPT-2 does, and replaces their bytes by characters.
type byteSplit struct {
	prefix bool
	cut    bool   // pieces are cut into words
	words  finder // if cut is set
	raw    bool   // the model reads bytes: they are not replaced
}

func (b byteSplit) split(s *scratch) {
	if b.prefix && b.lacksPrefix(s) {
		s.rewrite(func(t *aligned, p piece) {
			if t.s[p.begin] != ' ' {
				t.emitSpan(" ", t.at(int(p.begin)))
			}
			t.copy(int(p.begin), int(p.end))
		})
	}
	if b.cut {
		splitPattern{pattern: b.words, how: isolated}.split(s)
	}
	if b.raw {
		return
	}
	s.rewrite(func(t *aligned, p piece) {
		for i := p.begin; i < p.end; i++ {
			t.emit(byteCharacters[t.s[i]], int(i))
		}
	})
}

// lacksPrefix reports whether a piece does not begin with a space.
func (byteSplit) lacksPrefix(s *scratch) bool {
	for _, p := range s.pieces {
		if p.token < 0 && s.text.s[p.begin] != ' ' {
			return true
		}
	}
	return false
}
