package tokenizer

import (
	"slices"
	"unicode/utf8"
	"unsafe"
)

// Span is a range of bytes [Begin, End) of a text.
type Span struct {
	Begin, End int
}

// span is a Span in half the memory: texts have fewer than 2^31 bytes.
type span struct {
	begin, end int32
}

// aligned is a text and, for each of its bytes, the range of the original that the byte stands for.
//
// While nothing but ASCII's case has changed, no alignments are stored: align is nil, and byte i stands for the
// character of s that contains it, at base + i.
//
// A step that changes the text calls begin, then emit for each character, and commit.
type aligned struct {
	s     string
	base  int
	align []span
	blind bool // no alignments are kept: only the text matters, and at returns any range

	// The buffers: s and align are in one of each, or in the caller's memory; the next step writes the other.
	bytes  [2][]byte
	spans  [2][]span
	active int // the buffer that s is in
	out    []byte
	to     []span
	most   int // the greatest length
}

// grown is the error of a text that a file's steps make longer than is allowed, or nil. n is its length.
func (t *aligned) grown(n int) error {
	if n <= t.most {
		return nil
	}
	return input("normalisation makes a text more than " + number(growth) + " times as long")
}

// growth is the most times that a text longer than a KiB becomes longer. The normal forms need 11.
const growth = 64

// limit sets the greatest length of what becomes of a text.
func (t *aligned) limit(size int) { t.most = int(min(int64(size)*growth+1<<16, 1<<30)) }

// reset makes the text a range of an original without changes.
func (t *aligned) reset(s string, base int) { t.s, t.base, t.align = s, base, nil }

// at returns the range of the original that byte i stands for.
func (t *aligned) at(i int) span {
	if t.align != nil {
		return t.align[i]
	}
	if t.s[i] < utf8.RuneSelf {
		return span{int32(t.base + i), int32(t.base + i + 1)}
	}
	begin, end := i, i+1
	for begin > 0 && !utf8.RuneStart(t.s[begin]) {
		begin--
	}
	for end < len(t.s) && !utf8.RuneStart(t.s[end]) {
		end++
	}
	return span{int32(t.base + begin), int32(t.base + end)}
}

// original returns the range of the original for a range of the text that is not empty.
func (t *aligned) original(begin, end int) span { return span{t.at(begin).begin, t.at(end - 1).end} }

// place returns the place in the original before byte i, which may be the end.
func (t *aligned) place(i int) int {
	if i < len(t.s) {
		return int(t.at(i).begin)
	}
	if i == 0 {
		return t.base
	}
	return int(t.at(i - 1).end)
}

// start begins a step: until commit, emit writes the text that replaces this one.
func (t *aligned) start() {
	next := 1 - t.active
	t.out, t.to = slices.Grow(t.bytes[next][:0], len(t.s)), t.spans[next][:0]
}

// reserve makes room for n more bytes. What is too small becomes twice as large, and a step is expected to write as
// much as it reads: append's factor of 5/4 would take and copy long texts again and again.
func (t *aligned) reserve(n int) {
	if more := cap(t.out) - len(t.out); more < n {
		t.out = slices.Grow(t.out, max(n, len(t.out)))
	}
	if more := cap(t.to) - len(t.to); more < n && !t.blind {
		t.to = slices.Grow(t.to, max(n, len(t.to), len(t.s)))
	}
}

// full reports whether there may be no room for another n bytes.
func (t *aligned) full(n int) bool {
	return cap(t.out)-len(t.out) < n || cap(t.to)-len(t.to) < n && !t.blind
}

// emit adds a character that stands for what byte from stands for.
func (t *aligned) emit(r rune, from int) {
	if t.full(utf8.UTFMax) {
		t.reserve(utf8.UTFMax)
	}
	n := len(t.out)
	t.out = utf8.AppendRune(t.out, r)
	if t.blind {
		return
	}
	at := t.at(from)
	for ; n < len(t.out); n++ {
		t.to = append(t.to, at)
	}
}

// emitLower adds the lower case of a character, or if table is nil the character.
func (t *aligned) emitLower(r rune, from int, table map[rune]rune) {
	if table == nil {
		t.emit(r, from)
		return
	}
	t.emit(lower(r, table), from)
	if r == 0x130 { // the only one with two characters
		t.emit(0x307, from)
	}
}

// emitSpan adds text of which each byte stands for a range of the original.
func (t *aligned) emitSpan(s string, at span) {
	t.reserve(len(s))
	t.out = append(t.out, s...)
	if t.blind {
		return
	}
	for range len(s) {
		t.to = append(t.to, at)
	}
}

// copy adds a range of the text as it is.
func (t *aligned) copy(begin, end int) {
	t.reserve(end - begin)
	t.out = append(t.out, t.s[begin:end]...)
	if t.blind {
		return
	}
	if t.align != nil {
		t.to = append(t.to, t.align[begin:end]...)
		return
	}
	for i := begin; i < end; {
		n := 1
		if t.s[i] >= utf8.RuneSelf {
			_, n = utf8.DecodeRuneInString(t.s[i:])
		}
		at := span{int32(t.base + i), int32(t.base + i + n)}
		for range n {
			t.to = append(t.to, at)
		}
		i += n
	}
}

// commit ends a step: what was emitted is the text.
func (t *aligned) commit() {
	t.active = 1 - t.active
	t.bytes[t.active], t.spans[t.active] = t.out, t.to
	t.s, t.align = view(t.out), t.to
	switch {
	case t.blind:
		t.align = nil
	case t.align == nil:
		t.align = []span{}
	}
}

// commitInPlace ends a step that wrote out alone, with a character for each of the text's at the same place.
func (t *aligned) commitInPlace() {
	next := 1 - t.active
	t.bytes[next] = t.out
	t.s = view(t.out)
	if t.align == nil || len(t.align) == 0 {
		t.active = next
		return
	}
	t.spans[next] = append(t.spans[next][:0], t.align...)
	t.align = t.spans[next]
	t.active = next
}

// slice makes the text a range of itself.
func (t *aligned) slice(begin, end int) {
	if t.align != nil {
		t.align = t.align[begin:end]
	} else {
		t.base += begin
	}
	t.s = t.s[begin:end]
}

// isASCII reports whether a text is of ASCII alone.
func isASCII(s string) bool {
	for len(s) >= 8 {
		if (uint64(s[0])|uint64(s[1])|uint64(s[2])|uint64(s[3])|
			uint64(s[4])|uint64(s[5])|uint64(s[6])|uint64(s[7]))&0x80 != 0 {
			return false
		}
		s = s[8:]
	}
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// view returns bytes as a string, without a copy. The bytes must not change while the string is in use.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// invalid returns the number of bytes at the front of s that stand for one U+FFFD; s begins with a byte that begins no
// character.
func invalid(s string) int {
	first := s[0]
	low, high, n := byte(0x80), byte(0xBF), 0
	switch {
	case 0xC2 <= first && first <= 0xDF:
		n = 1
	case 0xE0 <= first && first <= 0xEF:
		n = 2
		if first == 0xE0 {
			low = 0xA0
		} else if first == 0xED {
			high = 0x9F
		}
	case 0xF0 <= first && first <= 0xF4:
		n = 3
		if first == 0xF0 {
			low = 0x90
		} else if first == 0xF4 {
			high = 0x8F
		}
	}
	used := 1
	for ; used <= n && used < len(s) && low <= s[used] && s[used] <= high; used++ {
		low, high = 0x80, 0xBF
	}
	return used
}

// firstLength returns the number of bytes of the first character of a text that is not empty, or of what stands for one
// U+FFFD.
func firstLength(s string) int {
	r, n := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && n == 1 {
		return invalid(s)
	}
	return n
}

// lastLength returns the same for the last character before a place that is not 0, at which no character is cut.
func lastLength(s string, end int) int {
	r, n := utf8.DecodeLastRuneInString(s[:end])
	if r == utf8.RuneError && n == 1 {
		for k := 2; k <= min(3, end); k++ {
			if s[end-k] >= 0xC2 && firstLength(s[end-k:]) == k {
				return k
			}
		}
	}
	return n
}

// repair replaces what is not UTF-8 by U+FFFD.
func (t *aligned) repair() {
	t.start()
	for i := 0; i < len(t.s); {
		r, _ := utf8.DecodeRuneInString(t.s[i:])
		n := firstLength(t.s[i:])
		t.emitSpan(string(r), span{int32(t.base + i), int32(t.base + i + n)})
		i += n
	}
	t.commit()
}
