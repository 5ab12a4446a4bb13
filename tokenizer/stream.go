package tokenizer

import (
	"strconv"
	"strings"
)

func number(i int) string { return strconv.Itoa(i) }

// Stream decodes ids one by one. It returns text as soon as more ids cannot change it, and never a part of a
// character. One goroutine uses it.
type Stream struct {
	Special bool // special tokens are part of the text

	tokenizer *Tokenizer
	ids       []int32 // those that the next text depends on
	prefix    string  // their text that was returned before
	before    int     // the number of ids that prefix is the text of
}

// Stream returns a decoder of ids that come one by one.
func (t *Tokenizer) Stream() *Stream { return &Stream{tokenizer: t} }

// Next returns the text that an id adds; it is empty while a character is not complete. Text that contradicts what was
// returned before, which some decoders make of ids that no encoder gives, is returned whole.
func (d *Stream) Next(id int32) string {
	t := d.tokenizer
	const unfinished = "\uFFFD"
	if d.prefix == "" && len(d.ids) > 0 {
		if text := t.decode(d.ids, !d.Special); !strings.HasSuffix(text, unfinished) {
			d.prefix, d.before = text, len(d.ids)
		}
	}
	d.ids = append(d.ids, id)
	text := t.decode(d.ids, !d.Special)
	if len(text) <= len(d.prefix) || strings.HasSuffix(text, unfinished) {
		return ""
	}
	added, ok := strings.CutPrefix(text, d.prefix)
	if !ok {
		added = text
	}
	left := len(d.ids) - d.before
	d.ids = append(d.ids[:0], d.ids[d.before:]...)
	d.prefix = t.decode(d.ids, !d.Special)
	d.before = left
	return added
}

// Rest returns the text of ids that Next has not returned: U+FFFD stands for a character that is not complete.
func (d *Stream) Rest() string {
	if len(d.ids) == 0 {
		return ""
	}
	text := d.tokenizer.decode(d.ids, !d.Special)
	added, ok := strings.CutPrefix(text, d.prefix)
	d.ids, d.prefix, d.before = nil, "", 0
	if !ok {
		return text
	}
	return added
}
