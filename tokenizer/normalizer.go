package tokenizer

import "unicode/utf8"

// normalizer is a step that changes a text before it is split.
type normalizer interface {
	normalize(t *aligned, s *scratch) error
}

// sequence is steps one after the other.
type sequence []normalizer

func (q sequence) normalize(t *aligned, s *scratch) error {
	for _, n := range q {
		if err := n.normalize(t, s); err != nil {
			return err
		}
		if err := t.grown(len(t.s)); err != nil {
			return err
		}
	}
	return nil
}

// bertNormalizer cleans a text as BERT does: controls go, white space becomes spaces, spaces surround Chinese
// characters, accents go, and letters become lower case.
type bertNormalizer struct {
	clean, chinese, strip, lower bool
	ascii                        [utf8.RuneSelf]byte // what an ASCII character becomes; 0: nothing
}

func newBertNormalizer(clean, chinese, strip, lowercase bool) *bertNormalizer {
	b := &bertNormalizer{clean: clean, chinese: chinese, strip: strip, lower: lowercase}
	for i := range b.ascii {
		c := byte(i)
		switch {
		case clean && (c == '\t' || c == '\n' || c == '\r'):
			c = ' '
		case clean && (c < ' ' || c == 0x7F):
			c = 0
		case lowercase:
			c = byte(lower(rune(c), nil))
		}
		b.ascii[i] = c
	}
	return b
}

func (b *bertNormalizer) normalize(t *aligned, s *scratch) error {
	if !b.simple(t) {
		b.general(t, &s.forms)
	}
	return nil
}

// simple normalises a text of ASCII in which nothing is dropped, and reports whether it did.
func (b *bertNormalizer) simple(t *aligned) bool {
	if !isASCII(t.s) {
		return false
	}
	t.start()
	out := t.out
	for i := range len(t.s) {
		c := b.ascii[t.s[i]]
		if c == 0 && (b.clean || t.s[i] != 0) {
			t.out = out
			t.bytes[1-t.active] = out
			return false
		}
		out = append(out, c)
	}
	t.out = out
	t.commitInPlace()
	return true
}

// general normalises any text: for each character it does all steps. Only characters with a decomposition or a
// combining class change their order, among those next to each other.
func (b *bertNormalizer) general(t *aligned, w *forming) {
	table := classes()
	w.begin(t, form{})
	w.strip = b.strip
	if b.lower {
		w.letters = lowerTable()
	}
	for i := 0; i < len(t.s); {
		r, n := rune(t.s[i]), 1
		if r < utf8.RuneSelf {
			if c := b.ascii[r]; c != 0 || r == 0 && !b.clean {
				if len(w.from) > 0 {
					w.flush()
				}
				if t.full(1) {
					t.reserve(1)
				}
				if t.out = append(t.out, c); !t.blind {
					t.to = append(t.to, t.at(i))
				}
			}
			i++
			continue
		}
		r, n = utf8.DecodeRuneInString(t.s[i:])
		b.wide(t, w, r, i, table)
		i += n
	}
	w.flush()
	t.commit()
}

// wide normalises a character beyond ASCII, which begins at a byte of the text.
func (b *bertNormalizer) wide(t *aligned, w *forming, r rune, at int, table *classTable) {
	class := table.of(r)
	if b.clean {
		if r == 0xFFFD || class&(1<<classControl) != 0 {
			return
		}
		if class&(1<<classSpace) != 0 {
			r, class = ' ', 0
		}
	}
	if b.strip && class&(1<<classComposed) != 0 && !isChinese(r) {
		w.decompose(r, at, table)
		return
	}
	w.flush()
	chinese := b.chinese && isChinese(r)
	if chinese {
		t.emit(' ', at)
	}
	switch {
	case b.strip && class&(1<<classComposed) != 0:
		w.decompose(r, at, table)
		if chinese {
			w.flush()
		}
	case !b.strip || class&(1<<classAccent) == 0:
		t.emitLower(r, at, w.letters)
	}
	if chinese {
		t.emit(' ', at)
	}
}

// filter keeps the characters for which keep says so.
func filter(t *aligned, keep func(r rune, table *classTable) bool) {
	table := classes()
	for _, r := range t.s {
		if !keep(r, table) {
			t.start()
			for i, r := range t.s {
				if keep(r, table) {
					t.emit(r, i)
				}
			}
			t.commit()
			return
		}
	}
}

// lowercase makes each character lower case, by itself: a sigma at a word's end becomes σ.
type lowercase struct{}

func (lowercase) normalize(t *aligned, _ *scratch) error {
	if isASCII(t.s) {
		t.start()
		for i := range len(t.s) {
			c := t.s[i]
			if 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
			t.out = append(t.out, c)
		}
		t.commitInPlace()
		return nil
	}
	table := lowerTable()
	t.start()
	for i, r := range t.s {
		t.emitLower(r, i, table)
	}
	t.commit()
	return nil
}

// strip drops white space at the ends.
type strip struct{ left, right bool }

func (n strip) normalize(t *aligned, _ *scratch) error {
	table := classes()
	begin, end := 0, len(t.s)
	for n.left && begin < end {
		r, size := utf8.DecodeRuneInString(t.s[begin:end])
		if !table.is(r, classSpace) {
			break
		}
		begin += size
	}
	for n.right && begin < end {
		r, size := utf8.DecodeLastRuneInString(t.s[begin:end])
		if !table.is(r, classSpace) {
			break
		}
		end -= size
	}
	t.slice(begin, end)
	return nil
}

// stripAccents drops marks.
type stripAccents struct{}

func (stripAccents) normalize(t *aligned, _ *scratch) error {
	filter(t, func(r rune, table *classTable) bool { return r < 0x300 || !table.is(r, classMark) })
	return nil
}

// nmt drops and replaces the characters that the tools of neural machine translation do.
type nmt struct{}

func (nmt) normalize(t *aligned, _ *scratch) error {
	filter(t, func(r rune, _ *classTable) bool {
		return !(1 <= r && r <= 8 || r == 0xB || 0xE <= r && r <= 0x1F || r == 0x7F || r == 0x8F || r == 0x9F)
	})
	t.start()
	for i, r := range t.s {
		switch r {
		case 9, 0xA, 0xC, 0xD, 0x1680, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F, 0x2028, 0x2029, 0x2581, 0xFEFF, 0xFFFD:
			r = ' '
		}
		t.emit(r, i)
	}
	t.commit()
	return nil
}

// prepend writes a text before one that is not empty.
type prepend struct{ text string }

func (n prepend) normalize(t *aligned, _ *scratch) error {
	if t.s == "" || n.text == "" {
		return nil
	}
	t.start()
	t.emitSpan(n.text, t.at(0))
	t.copy(0, len(t.s))
	t.commit()
	return nil
}

// replace replaces what a pattern finds.
type replace struct {
	pattern finder
	content string
}

func (n replace) normalize(t *aligned, _ *scratch) error {
	if t.s == "" {
		return nil
	}
	w := n.pattern.walk(t.s)
	begin, end, ok := w.next()
	if !ok {
		return w.err()
	}
	t.start()
	done := 0
	for ; ok; begin, end, ok = w.next() {
		t.copy(done, begin)
		at := span{int32(t.base), int32(t.base)}
		if end > 0 {
			at = t.at(end - 1)
		}
		t.emitSpan(n.content, at)
		if err := t.grown(len(t.out)); err != nil {
			return err
		}
		done = end
	}
	t.copy(done, len(t.s))
	t.commit()
	return w.err()
}

// byteCharacters maps bytes to the printable characters that stand for them in the vocabularies of byte-level models.
var byteCharacters = func() (table [256]rune) {
	next := rune(256)
	for b := range table {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b && b <= 0xFF {
			table[b] = rune(b)
		} else {
			table[b] = next
			next++
		}
	}
	return table
}()

// characterBytes maps back: the byte of each character below 324, or -1.
var characterBytes = func() (table [324]int16) {
	for i := range table {
		table[i] = -1
	}
	for b, r := range byteCharacters {
		table[r] = int16(b)
	}
	return table
}()

// byteLevel replaces each byte by its character.
type byteLevel struct{}

func (byteLevel) normalize(t *aligned, _ *scratch) error {
	t.start()
	for i := range len(t.s) {
		t.emit(byteCharacters[t.s[i]], i)
	}
	t.commit()
	return nil
}
