package tokenizer

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// alphabets are what random texts are made of.
var alphabets = []string{
	"abcdefghijklmnopqrstuvwxyz", "abcdefghij", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "0123456789", " ", " \t\n\r\v\f",
	"\u00a0\u1680\u2000\u2003\u200b\u2028\u2029\u202f\u205f\u3000\u0085\ufeff", ".,;:!?'\"()[]{}<>-_/\\|@#$%^&*+=~`",
	"éèàüößñçÅÄÖØæœŁİıſ",
	"\u0300\u0301\u0308\u030a\u0323\u0327\u0345\u0334\u05b0\u064b\u093c\u3099\u0344",
	"абвгдежзийклмнопрстЁЖ", "αβγδεζηθικλμνξοσςΆΣ", "אבגדהוזחטי",
	"ابتثجحخدذرزس", "कखगघचछजिीुू्", "กขคงจฉชซัิี",
	"日本語中国人大小豈更", "かきくけこがぎ", "カキクケコﾊﾟ", "가나다라마바사각힣", "\u1100\u1161\u11a8\u11c2\u1175",
	"🙂🚀👍🏽❤️👨‍👩‍👧🇩🇪", "\u200d\ufe0f\u200c", "\x00\x01\x07\x1b\x7f\u0080\u009f\u00ad\u0600",
	"\ud7ff\ue000\ufffd\uffff\ufffe",
	"ﬁﬂ①②½¼™℡㎏Ⅷ㍿", "\U0001d400\U0001d7ff\U0002f800\U000e0041\U0010ffff\U00020000", "▁ĠĊ", "ͅΐΰ", "ẞǆǅﷺ",
	"\u1baa\u073a\x10\u0323\x00\u0301\ue62e\u00ade퉋", // marks that change places, and what goes from between them
}

// fragments are texts that tokenizers treat in their own ways.
var fragments = []string{
	"don't", "it's", "we'll", "I'VE", "'s", "'t", " 're", "[CLS]", "[SEP]", "[MASK]", "<mask>", " <mask> ", "</s>", "<s>",
	"<|endoftext|>", "<|eot_id|>", "<|im_start|>user\n", "<unk>", "[UNK]", "<0x41>", "yesterday", "Yesterday",
	"new_token", "NEW_TOKEN", "abc", "abcd", "éa", "e\u0301a", "<e1>", "<e1>x", " <e1> ", "##ing", "</w>", "123456789",
	"3.14", "x=1;", "\r\n\r\n", "    ", "…", "—", "http://a.b/c?d=e",
	"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "ΑΣ ", "e\u0301\u0323\u0300",
}

// randomText returns a text of mixed scripts. Words are some of the tokenizer's own tokens.
func randomText(r *rand.Rand, words []string) string {
	var b strings.Builder
	switch r.IntN(40) {
	case 0:
		return ""
	case 1: // one character, again and again
		c := randomRune(r)
		for range 1 + r.IntN(300) {
			b.WriteRune(c)
		}
		return b.String()
	case 2: // any characters
		for range 1 + r.IntN(20) {
			b.WriteRune(randomRune(r))
		}
		return b.String()
	}
	parts := 1 + r.IntN(12)
	if r.IntN(500) == 0 {
		parts *= 100
	}
	for range parts {
		switch r.IntN(8) {
		case 0:
			b.WriteString(fragments[r.IntN(len(fragments))])
		case 1:
			b.WriteString(words[r.IntN(len(words))])
		case 2:
			b.WriteRune(randomRune(r))
		default:
			a := []rune(alphabets[r.IntN(len(alphabets))])
			for range 1 + r.IntN(8) {
				b.WriteRune(a[r.IntN(len(a))])
			}
		}
		if r.IntN(3) > 0 {
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// firstRunes returns the first n characters of a text.
func firstRunes(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i]
		}
	}
	return s
}

func randomRune(r *rand.Rand) rune {
	for {
		limit := []rune{0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x110000}[r.IntN(6)]
		if c := r.Int32N(limit); utf8.ValidRune(c) {
			return c
		}
	}
}

// question is a call of the reference, as testdata/reference.py reads it.
type question struct {
	A       string         `json:"a"`
	B       *string        `json:"b,omitempty"`
	Special bool           `json:"special"`
	Stream  bool           `json:"stream"` // the text is decoded id by id too, which takes the reference most of its time
	Cut     map[string]any `json:"cut,omitempty"`
	Pad     map[string]any `json:"pad,omitempty"`
	options Options
	raw     string // if it is not empty: a text that is not UTF-8, which A is the repaired form of
}

// text returns the first text.
func (q *question) text() string {
	if q.raw != "" {
		return q.raw
	}
	return q.A
}

// damage replaces a few bytes of the first text.
func (q *question) damage(r *rand.Rand) {
	b := []byte(q.A)
	for range 1 + r.IntN(4) {
		if len(b) > 0 {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
	}
	if !utf8.Valid(b) {
		q.raw, q.A = string(b), lossy(b)
	}
}

// repaired returns the place in A of each place in the first text between characters; others have -1.
func (q *question) repaired() []int {
	if q.raw == "" {
		return nil
	}
	at := make([]int, len(q.raw)+1)
	for i := range at {
		at[i] = -1
	}
	to := 0
	for i := 0; i < len(q.raw); {
		at[i] = to
		r, _ := utf8.DecodeRuneInString(q.raw[i:])
		i += firstLength(q.raw[i:])
		to += utf8.RuneLen(r)
	}
	at[len(q.raw)] = to
	return at
}

// randomQuestion returns a text, or two, and options. Most have none.
func randomQuestion(r *rand.Rand, i int, words []string) question {
	q := question{A: randomText(r, words), Special: true, Stream: i < 1000 || i%7 == 0}
	q.options = Options{Overflow: true, Truncation: &Truncation{Off: true}, Padding: &Padding{Off: true}}
	sides, strategies := []string{"right", "left"}, []string{"longest_first", "only_first", "only_second"}
	kind := i % 10
	if kind == 6 {
		q.Special, q.options.NoSpecial = false, true
	}
	if i%20 == 2 || i%20 == 18 {
		q.damage(r)
	}
	if kind == 7 || kind == 9 {
		b := randomText(r, words)
		if kind == 9 { // what overflows of two texts is of quadratic size
			b, q.A = firstRunes(b, 20), firstRunes(q.A, 20)
		}
		q.B = &b
	}
	if kind >= 8 {
		c := &Truncation{Max: 7 + r.IntN(40), Stride: r.IntN(2) * r.IntN(4), Side: Side(r.IntN(2))}
		if q.B != nil {
			c.Strategy = Strategy(r.IntN(3))
		}
		q.options.Truncation = c
		q.Cut = map[string]any{"max": c.Max, "stride": c.Stride, "strategy": strategies[c.Strategy], "side": sides[c.Side]}
	}
	if kind == 5 || kind == 9 {
		p := &Padding{Length: r.IntN(2) * r.IntN(40), Multiple: r.IntN(9), ID: 3, Type: 2, Side: Side(r.IntN(2))}
		q.options.Padding = p
		q.Pad = map[string]any{"length": p.Length, "multiple": p.Multiple, "id": 3, "type": 2, "side": sides[p.Side]}
	}
	return q
}
