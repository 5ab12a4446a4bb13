package hostop

import (
	"bytes"
	"regexp"
	"slices"
	"unicode"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/tensor"
)

// Texts are two tensors, spans and a pool, as package tensor has them. Operators that look at characters take bytes for
// UTF-8, and leave those that are none as they are.

func init() {
	for name, f := range map[string]Func{"text_equal": textEqual, "text_concat": textConcat, "text_split": textSplit,
		"text_normalize": textNormalize,
		"text_match":     textMatch, "text_index": textIndex, "text_rank": textRank} {
		register(name, f)
	}
}

// texts are texts to read.
type texts struct {
	call  *Call
	spans *tensor.Tensor
	pool  []byte
}

// texts are inputs i and i+1.
func (c *Call) texts(i int) texts { return texts{c, c.In[i], c.In[i+1].Bytes()} }

// at is element i.
func (t texts) at(i int64) ([]byte, error) {
	text, err := tensor.TextAt(t.spans, t.pool, i)
	t.call.work(4 + int64(len(text)))
	return text, err
}

// each calls f with every element.
func (t texts) each(f func(i int64, text []byte)) error {
	for i := range t.spans.Len() {
		text, err := t.at(i)
		if err != nil {
			return err
		}
		f(i, text)
	}
	return nil
}

// written asks for a pool of the given size.
func (c *Call) written(i int, size int64) ([]byte, error) {
	if size > tensor.MaxPool {
		return nil, diag.Inputf("%d bytes of text, more than %d", size, int64(tensor.MaxPool))
	}
	pool, err := c.Result(i, size)
	if err != nil {
		return nil, err
	}
	return pool.Bytes(), nil
}

// textEqual compares two lots of texts of one shape.
func textEqual(c *Call) error {
	a, b := c.texts(0), c.texts(2)
	out, err := c.Result(0, a.spans.Shape()...)
	if err != nil {
		return err
	}
	return a.each(func(i int64, text []byte) {
		other, e := b.at(i)
		if e != nil {
			err = e
		}
		same := int64(0)
		if bytes.Equal(text, other) {
			same = 1
		}
		out.SetInt(i, same)
	})
}

// textConcat puts the second of two texts behind the first, element by element.
func textConcat(c *Call) error {
	a, b := c.texts(0), c.texts(2)
	total := int64(0)
	for _, t := range []texts{a, b} {
		if err := t.each(func(_ int64, text []byte) { total += int64(len(text)) }); err != nil {
			return err
		}
	}
	spans, err := c.Result(0, a.spans.Shape()...)
	if err != nil {
		return err
	}
	pool, err := c.written(1, total)
	if err != nil {
		return err
	}
	at := 0
	for i := range spans.Len() {
		x, _ := a.at(i)
		y, _ := b.at(i)
		spans.SetInt(i, tensor.Span(int64(at), int64(len(x)+len(y))))
		at += copy(pool[at:], x)
		at += copy(pool[at:], y)
	}
	return nil
}

// isSpace reports what separates words: Unicode's white space and ASCII's separators.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// pieces calls f with where each piece of a text begins and ends: at most `most` cuts are made, without a limit where
// it is negative. An empty delimiter stands for runs of white space, which also go from the text's ends.
func pieces(text []byte, delimiter string, most int64, f func(begin, end int)) {
	if delimiter != "" {
		begin := 0
		for ; most != 0; most-- {
			n := bytes.Index(text[begin:], []byte(delimiter))
			if n < 0 {
				break
			}
			f(begin, begin+n)
			begin += n + len(delimiter)
		}
		f(begin, len(text))
		return
	}
	skip := func(at int) int { return len(text) - len(bytes.TrimLeftFunc(text[at:], isSpace)) }
	for begin := skip(0); begin < len(text); most-- {
		n := bytes.IndexFunc(text[begin:], isSpace)
		if n < 0 || most == 0 {
			f(begin, len(text))
			return
		}
		f(begin, begin+n)
		begin = skip(begin + n)
	}
}

// textSplit cuts each text into pieces, which lie in the same pool: [shape…, most pieces], padded with empty texts, and
// the number of each text's pieces.
func textSplit(c *Call) error {
	x := c.texts(0)
	delimiter, most := c.Attrs["delimiter"].(string), c.Attrs["most"].(int64)
	widest := int64(0)
	err := x.each(func(_ int64, text []byte) {
		n := int64(0)
		pieces(text, delimiter, most, func(int, int) { n++ })
		widest = max(widest, n)
	})
	if err != nil {
		return err
	}
	spans, err := c.Result(0, append(slices.Clone(x.spans.Shape()), widest)...)
	if err != nil {
		return err
	}
	counts, err := c.Result(1, x.spans.Shape()...)
	if err != nil {
		return err
	}
	return x.each(func(i int64, text []byte) {
		offset, at := x.spans.Int(i)>>32, int64(0)
		pieces(text, delimiter, most, func(begin, end int) {
			spans.SetInt(i*widest+at, tensor.Span(offset+int64(begin), int64(end-begin)))
			at++
		})
		counts.SetInt(i, at)
		for ; at < widest; at++ {
			spans.SetInt(i*widest+at, 0)
		}
	})
}

// cases are what becomes of a character.
var cases = map[string]func(rune) rune{"lower": unicode.ToLower, "upper": unicode.ToUpper, "none": nil}

// caseGrowth is how many times as long a text may become by a change of case: characters of one or two bytes have
// counterparts of up to three.
const caseGrowth = 3

// changed appends a text with its characters' case changed; bytes that are no UTF-8 stay.
func changed(to, text []byte, change func(rune) rune) []byte {
	if change == nil {
		return append(to, text...)
	}
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if r == utf8.RuneError && size == 1 {
			to = append(to, text[0])
		} else {
			to = utf8.AppendRune(to, change(r))
		}
		text = text[size:]
	}
	return to
}

// Lower is a text with its characters in lower case.
func Lower(text string) string { return string(changed(nil, []byte(text), unicode.ToLower)) }

// textNormalize takes stop words (inputs 2 and 3, ascending, in lower case where the comparison is not to mind it) out
// of the last axis's texts and changes the case of what is left; where nothing is left, there is one empty text.
func textNormalize(c *Call) error {
	x, stops := c.texts(0), c.texts(2)
	change, ok := cases[c.Attrs["case"].(string)]
	if !ok {
		return diag.Inputf("case %q", c.Attrs["case"])
	}
	exact, _ := c.Attrs["exact"].(bool)
	longest := 0
	if err := x.each(func(_ int64, text []byte) { longest = max(longest, len(text)) }); err != nil {
		return err
	}
	room := caseGrowth*int64(longest) + utf8.UTFMax
	if err := c.heap(8*x.spans.Len() + room); err != nil {
		return err
	}
	kept := make([]int64, 0, x.spans.Len())
	buffer := make([]byte, 0, room)
	total := int64(0)
	var failed error
	err := x.each(func(i int64, text []byte) {
		word := text
		if !exact {
			buffer = changed(buffer[:0], text, unicode.ToLower)
			word = buffer
		}
		at, err := stops.find(word)
		if err != nil {
			failed = err
		}
		if at < 0 {
			kept = append(kept, i)
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return err
	}
	for _, i := range kept {
		text, _ := x.at(i)
		buffer = changed(buffer[:0], text, change)
		total += int64(len(buffer))
	}
	shape := slices.Clone(x.spans.Shape())
	shape[len(shape)-1] = int64(max(len(kept), 1))
	spans, err := c.Result(0, shape...)
	if err != nil {
		return err
	}
	pool, err := c.written(1, total)
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		spans.SetInt(0, 0)
	}
	at := int64(0)
	for k, i := range kept {
		text, _ := x.at(i)
		buffer = changed(buffer[:0], text, change)
		spans.SetInt(int64(k), tensor.Span(at, int64(len(buffer))))
		at += int64(copy(pool[at:], buffer))
	}
	return nil
}

// find is the place of a text among ascending ones; −1 if it is none of them.
func (t texts) find(text []byte) (int64, error) {
	lo, hi := int64(0), t.spans.Len()
	for lo < hi {
		mid := lo + (hi-lo)/2
		other, err := t.at(mid)
		if err != nil {
			return -1, err
		}
		switch by := bytes.Compare(other, text); {
		case by == 0:
			return mid, nil
		case by < 0:
			lo = mid + 1
		default:
			hi = mid
		}
	}
	return -1, nil
}

// Pattern is a regular expression, in RE2's syntax, that the whole of a text must match.
func Pattern(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// What Go's heap takes to match a pattern, in bytes: at most so much for any text, and about so much for each byte of
// it.
const (
	matching    = 128 << 10
	patternByte = 1 << 10
)

// textMatch tells which texts a pattern matches.
func textMatch(c *Call) error {
	x := c.texts(0)
	pattern := c.Attrs["pattern"].(string)
	if err := c.heap(matching + patternByte*int64(len(pattern))); err != nil {
		return err
	}
	re, err := Pattern(pattern)
	if err != nil {
		return diag.Inputf("%v", err)
	}
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	return x.each(func(i int64, text []byte) {
		yes := int64(0)
		if re.Match(text) {
			yes = 1
		}
		out.SetInt(i, yes)
	})
}

// textIndex is each text's place among keys (inputs 2 and 3), which ascend; their number if it is none of them.
func textIndex(c *Call) error {
	x, keys := c.texts(0), c.texts(2)
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	var failed error
	err = x.each(func(i int64, text []byte) {
		at, e := keys.find(text)
		if e != nil {
			failed = e
		}
		if at < 0 {
			at = keys.spans.Len()
		}
		out.SetInt(i, at)
	})
	if err == nil {
		err = failed
	}
	return err
}

// textRank is each text's place among all the different ones, in the order of their bytes.
func textRank(c *Call) error {
	x := c.texts(0)
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	if err := c.heap(8 * x.spans.Len()); err != nil {
		return err
	}
	order := make([]int64, 0, x.spans.Len())
	if err := x.each(func(i int64, _ []byte) { order = append(order, i) }); err != nil {
		return err
	}
	compare := func(i, j int64) int {
		a, _ := x.at(i)
		b, _ := x.at(j)
		return bytes.Compare(a, b)
	}
	slices.SortFunc(order, compare)
	rank := int64(0)
	for k, i := range order {
		if k > 0 && compare(order[k-1], i) != 0 {
			rank++
		}
		out.SetInt(i, rank)
	}
	return nil
}
