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

// A tensor of strings is two tensors: the byte ranges of its elements and the pool of bytes that they lie in, as
// package tensor packs them. Operators on characters decode the bytes as UTF-8 and leave invalid bytes unchanged.

// init defines the operators on strings.
func init() {
	for name, f := range map[string]Func{"text_equal": stringsEqual, "text_concat": stringsConcat,
		"text_split":     stringsSplit,
		"text_normalize": stringsNormalize,
		"text_match":     stringsMatch, "text_index": stringsIndex, "text_rank": stringsRank} {
		register(name, f)
	}
}

// stringTensor reads the strings of an operand.
type stringTensor struct {
	call  *Call
	spans *tensor.Tensor
	pool  []byte
}

// stringsAt returns the strings whose spans are input i and whose pool is input i+1.
func (c *Call) stringsAt(i int) stringTensor { return stringTensor{c, c.In[i], c.In[i+1].Bytes()} }

// at returns element i, or ErrInput if its span lies outside the pool.
func (t stringTensor) at(i int64) ([]byte, error) {
	s, err := tensor.StringAt(t.spans, t.pool, i)
	t.call.work(4 + int64(len(s)))
	return s, err
}

// each calls f with every element, in order, and stops at the first error.
func (t stringTensor) each(f func(i int64, s []byte)) error {
	for i := range t.spans.Len() {
		s, err := t.at(i)
		if err != nil {
			return err
		}
		f(i, s)
	}
	return nil
}

// written allocates result i as a pool of size bytes.
func (c *Call) written(i int, size int64) ([]byte, error) {
	if size > tensor.MaxPool {
		return nil, diag.Inputf("%d bytes of strings, more than %d", size, int64(tensor.MaxPool))
	}
	pool, err := c.Result(i, size)
	if err != nil {
		return nil, err
	}
	return pool.Bytes(), nil
}

// stringsEqual compares the strings of two operands of one shape, element by element.
func stringsEqual(c *Call) error {
	a, b := c.stringsAt(0), c.stringsAt(2)
	out, err := c.Result(0, a.spans.Shape()...)
	if err != nil {
		return err
	}
	return a.each(func(i int64, s []byte) {
		other, e := b.at(i)
		if e != nil {
			err = e
		}
		same := int64(0)
		if bytes.Equal(s, other) {
			same = 1
		}
		out.SetInt(i, same)
	})
}

// stringsConcat appends the second operand's strings to the first's, element by element.
func stringsConcat(c *Call) error {
	a, b := c.stringsAt(0), c.stringsAt(2)
	total := int64(0)
	for _, t := range []stringTensor{a, b} {
		if err := t.each(func(_ int64, s []byte) { total += int64(len(s)) }); err != nil {
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

// isSpace reports whether r separates words: Unicode's white space and ASCII's separators do.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

// pieces calls f with the byte range of each piece of s. It cuts at most `most` times; a negative `most` sets no limit.
// An empty delimiter stands for runs of white space, which are also removed from both ends of s.
func pieces(s []byte, delimiter string, most int64, f func(begin, end int)) {
	if delimiter != "" {
		begin := 0
		for ; most != 0; most-- {
			n := bytes.Index(s[begin:], []byte(delimiter))
			if n < 0 {
				break
			}
			f(begin, begin+n)
			begin += n + len(delimiter)
		}
		f(begin, len(s))
		return
	}
	skip := func(at int) int { return len(s) - len(bytes.TrimLeftFunc(s[at:], isSpace)) }
	for begin := skip(0); begin < len(s); most-- {
		n := bytes.IndexFunc(s[begin:], isSpace)
		if n < 0 || most == 0 {
			f(begin, len(s))
			return
		}
		f(begin, begin+n)
		begin = skip(begin + n)
	}
}

// stringsSplit cuts each string into pieces over the same pool: result 0 has the shape [shape…, most pieces] and is
// padded with empty strings; result 1 is the number of pieces of each string.
func stringsSplit(c *Call) error {
	x := c.stringsAt(0)
	delimiter, most := c.Attrs["delimiter"].(string), c.Attrs["most"].(int64)
	widest := int64(0)
	err := x.each(func(_ int64, s []byte) {
		n := int64(0)
		pieces(s, delimiter, most, func(int, int) { n++ })
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
	return x.each(func(i int64, s []byte) {
		offset, at := x.spans.Int(i)>>32, int64(0)
		pieces(s, delimiter, most, func(begin, end int) {
			spans.SetInt(i*widest+at, tensor.Span(offset+int64(begin), int64(end-begin)))
			at++
		})
		counts.SetInt(i, at)
		for ; at < widest; at++ {
			spans.SetInt(i*widest+at, 0)
		}
	})
}

// cases maps the attribute case to a function of characters; nil keeps them.
var cases = map[string]func(rune) rune{"lower": unicode.ToLower, "upper": unicode.ToUpper, "none": nil}

// caseGrowth is the largest factor by which a change of case lengthens a string: characters of one or two bytes have
// counterparts of up to three.
const caseGrowth = 3

// changed appends s to to with every character changed; bytes that are not UTF-8 are kept.
func changed(to, s []byte, change func(rune) rune) []byte {
	if change == nil {
		return append(to, s...)
	}
	for len(s) > 0 {
		r, size := utf8.DecodeRune(s)
		if r == utf8.RuneError && size == 1 {
			to = append(to, s[0])
		} else {
			to = utf8.AppendRune(to, change(r))
		}
		s = s[size:]
	}
	return to
}

// Lower returns s with its characters in lower case.
func Lower(s string) string { return string(changed(nil, []byte(s), unicode.ToLower)) }

// stringsNormalize removes the stop words from the last axis and changes the case of the other strings. If none is
// left, the result is one empty string. Inputs 2 and 3 are the stop words, ascending, and in lower case unless the
// attribute exact, which compares case too, is set.
func stringsNormalize(c *Call) error {
	x, stops := c.stringsAt(0), c.stringsAt(2)
	change, ok := cases[c.Attrs["case"].(string)]
	if !ok {
		return diag.Inputf("case %q", c.Attrs["case"])
	}
	exact, _ := c.Attrs["exact"].(bool)
	longest := 0
	if err := x.each(func(_ int64, s []byte) { longest = max(longest, len(s)) }); err != nil {
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
	err := x.each(func(i int64, s []byte) {
		word := s
		if !exact {
			buffer = changed(buffer[:0], s, unicode.ToLower)
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
		s, _ := x.at(i)
		buffer = changed(buffer[:0], s, change)
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
		s, _ := x.at(i)
		buffer = changed(buffer[:0], s, change)
		spans.SetInt(int64(k), tensor.Span(at, int64(len(buffer))))
		at += int64(copy(pool[at:], buffer))
	}
	return nil
}

// find returns the index of s among the strings of t, which ascend; −1 if it is none of them.
func (t stringTensor) find(s []byte) (int64, error) {
	lo, hi := int64(0), t.spans.Len()
	for lo < hi {
		mid := lo + (hi-lo)/2
		other, err := t.at(mid)
		if err != nil {
			return -1, err
		}
		switch by := bytes.Compare(other, s); {
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

// Pattern compiles a regular expression in RE2's syntax, such that it matches entire strings only.
func Pattern(pattern string) (*regexp.Regexp, error) {
	return regexp.Compile(`\A(?:` + pattern + `)\z`)
}

// The bytes of Go's heap that matching a pattern takes: at most matching for any string, and about patternByte for each
// byte of the pattern.
const (
	matching    = 128 << 10
	patternByte = 1 << 10
)

// stringsMatch reports for each string whether the pattern matches it.
func stringsMatch(c *Call) error {
	x := c.stringsAt(0)
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
	return x.each(func(i int64, s []byte) {
		yes := int64(0)
		if re.Match(s) {
			yes = 1
		}
		out.SetInt(i, yes)
	})
}

// stringsIndex returns for each string its index among the keys, inputs 2 and 3, which ascend; the number of keys if it
// is none of them.
func stringsIndex(c *Call) error {
	x, keys := c.stringsAt(0), c.stringsAt(2)
	out, err := c.Result(0, x.spans.Shape()...)
	if err != nil {
		return err
	}
	var failed error
	err = x.each(func(i int64, s []byte) {
		at, e := keys.find(s)
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

// stringsRank returns for each string its index among the distinct strings, in the order of their bytes.
func stringsRank(c *Call) error {
	x := c.stringsAt(0)
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
