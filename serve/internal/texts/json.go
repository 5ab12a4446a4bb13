// Package texts reads and writes the messages of APIs for models of texts: OpenAI's, Cohere's, and that of
// text-embeddings-inference. Texts and ids stay in the memory of the message, or of an Allocate.
package texts

import (
	"encoding/json"
	"math"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/weirml/weir/serve/internal/oip"
)

// span is a JSON value that is left as text: a range of the text that is decoded.
type span []byte

// UnmarshalJSON keeps the range. encoding/json passes a slice of its input.
func (s *span) UnmarshalJSON(text []byte) error {
	*s = text
	return nil
}

// decode reads the JSON text of a request.
func decode(body []byte, to any) error {
	if !utf8.Valid(body) {
		return oip.Errorf("the body is not UTF-8")
	}
	if err := json.Unmarshal(body, to); err != nil {
		return oip.Errorf("the body is not the API's JSON: %v", err)
	}
	return nil
}

// reader reads the next values of valid JSON text.
type reader struct {
	text []byte
	at   int
}

// next returns the first byte of the next value or sign, 0 at the end.
func (r *reader) next() byte {
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; c {
		case ' ', '\n', '\t', '\r', ',', ':':
		default:
			return c
		}
	}
	return 0
}

// skip passes over a value, whatever it is.
func (r *reader) skip() {
	depth := 0
	for {
		switch r.next() {
		case '{', '[':
			depth++
			r.at++
		case '}', ']':
			depth--
			r.at++
		case '"':
			r.raw()
		case 0:
			return
		default:
			r.word()
		}
		if depth <= 0 {
			return
		}
	}
}

// word returns a number, true, false or null.
func (r *reader) word() []byte {
	from := r.at
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case ' ', '\n', '\t', '\r', ',', ']', '}', ':':
			return r.text[from:r.at]
		}
	}
	return r.text[from:]
}

// raw returns the string that is next, as it stands between its quotes, and whether it has escapes.
func (r *reader) raw() (text []byte, escaped bool) {
	r.at++
	from := r.at
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			escaped = true
			r.at++
		case '"':
			r.at++
			return r.text[from : r.at-1], escaped
		}
	}
	return r.text[from:], escaped
}

// string returns the string that is next. It lies in the text, whose escapes it replaces in place.
func (r *reader) string() string {
	text, escaped := r.raw()
	if escaped {
		text = unescape(text)
	}
	return unsafe.String(unsafe.SliceData(text), len(text))
}

// unescape replaces the escapes of a valid JSON string in place. Half of a surrogate pair becomes U+FFFD.
func unescape(text []byte) []byte {
	out := text[:0]
	for i := 0; i < len(text); {
		if text[i] != '\\' {
			out = append(out, text[i])
			i++
			continue
		}
		c := text[i+1]
		if c != 'u' {
			if at := [...]byte{'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}; int(c) < len(at) && at[c] != 0 {
				c = at[c]
			}
			out = append(out, c)
			i += 2
			continue
		}
		r := hex(text[i+2:])
		i += 6
		if utf16.IsSurrogate(r) {
			low := rune(utf8.RuneError)
			if len(text) >= i+6 && text[i] == '\\' && text[i+1] == 'u' {
				low = hex(text[i+2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				i += 6
			}
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

// hex returns the number that four hexadecimal digits are.
func hex(text []byte) (n rune) {
	for _, c := range text[:4] {
		switch {
		case c <= '9':
			n = n<<4 | rune(c-'0')
		default:
			n = n<<4 | rune(c|0x20-'a'+10)
		}
	}
	return n
}

// id returns the token's id that is next; ok is false if the value is none.
func (r *reader) id() (id int32, ok bool) {
	n := int64(0)
	word := r.word()
	for _, c := range word {
		if c < '0' || c > '9' || n > math.MaxInt32 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return int32(n), len(word) > 0 && n <= math.MaxInt32
}
