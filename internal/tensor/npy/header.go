package npy

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// parseHeader parses the dictionary in a file's header and checks that the sizes in it are possible.
func parseHeader(text string) (*header, error) {
	p := &literal{text: text}
	value, err := p.value(0)
	if err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.text) {
		return nil, p.bad("something after the dictionary")
	}
	dictionary, ok := value.(map[string]any)
	if !ok {
		return nil, diag.Inputf("the .npy header is no dictionary")
	}
	for key := range dictionary {
		if key != "descr" && key != "fortran_order" && key != "shape" {
			return nil, diag.Inputf("the .npy header has an unknown key %q", key)
		}
	}
	h := &header{}
	fortran, ok := dictionary["fortran_order"].(bool)
	if !ok {
		return nil, diag.Inputf("the .npy header's fortran_order is neither True nor False")
	}
	h.fortran = fortran
	dims, ok := dictionary["shape"].([]any)
	if !ok {
		return nil, diag.Inputf("the .npy header's shape is no tuple")
	}
	for _, d := range dims {
		d, ok := d.(int64)
		if !ok {
			return nil, diag.Inputf("the .npy header's shape holds something that is no integer")
		}
		h.shape = append(h.shape, d)
	}
	if err := h.setType(dictionary["descr"]); err != nil {
		return nil, err
	}
	if h.count, err = tensor.Count(h.shape); err != nil {
		return nil, diag.As(err, diag.ErrInput)
	}
	switch {
	case h.size == 0 && h.count > maxEmpty:
		return nil, diag.Inputf("%d strings of no bytes are more than %d", h.count, maxEmpty)
	case h.size > 0 && h.count > math.MaxInt64/h.size:
		return nil, diag.Inputf("shape %s with elements of %d bytes is more than 2⁶³ bytes", tensor.ShapeString(h.shape),
			h.size)
	}
	h.bytes = h.count * h.size
	return h, nil
}

// setType understands descr: a byte order and a type.
func (h *header) setType(descr any) error {
	name, ok := descr.(string)
	if !ok {
		if _, structured := descr.([]any); structured {
			return diag.Unsupportedf("a .npy file of records").WithFix("save each field as an array of its own")
		}
		return diag.Inputf("the .npy header's descr is no string")
	}
	kind := name
	big := bigMachine
	if name != "" {
		switch name[0] {
		case '<', '>':
			big = name[0] == '>'
			kind = name[1:]
		case '=', '|':
			kind = name[1:]
		}
	}
	h.swap = big != bigMachine
	if dt, ok := kinds[kind]; ok {
		h.dt, h.size = dt, int64(dt.Size())
		return nil
	}
	if kind == "" {
		return diag.Inputf("the .npy header's descr %q names no type", name)
	}
	switch kind[0] {
	case 'U', 'S', 'a':
		width, err := strconv.ParseInt(kind[1:], 10, 32)
		if err != nil || width < 0 || kind[1] == '+' {
			return diag.Inputf("the .npy header's descr %q gives no width of a string", name)
		}
		h.dt, h.size, h.wide = dtype.String, width, kind[0] == 'U'
		if h.wide {
			h.size *= 4
		} else {
			h.swap = false
		}
		return nil
	case 'O':
		return diag.Unsupportedf("a .npy file of Python objects").WithFix("save it with a numeric or string dtype")
	case 'V':
		return diag.Unsupportedf("a .npy file of raw bytes (%s), which is how NumPy saves bfloat16 and float8", name).
			WithFix("save it as float32, or as an ONNX tensor (.pb)")
	}
	return diag.Unsupportedf("the .npy element type %q", name)
}

// literal parses the part of Python's literals that headers are made of: dictionaries with string keys, tuples, lists,
// strings, integers, True and False. A dictionary is a map[string]any, a tuple and a list are []any, the others string,
// int64, bool.
type literal struct {
	text string
	at   int
}

// maxDepth limits nesting.
const maxDepth = 16

// bad returns the error for a fault at the current byte.
func (p *literal) bad(what string) error {
	return diag.Inputf("the .npy header, byte %d: %s", p.at, what)
}

// space skips white space and NULs.
func (p *literal) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n\f\x00", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take consumes c, after any space, if it is next.
func (p *literal) take(c byte) bool {
	p.space()
	if p.at < len(p.text) && p.text[p.at] == c {
		p.at++
		return true
	}
	return false
}

// value parses any literal; depth is the number of enclosing ones.
func (p *literal) value(depth int) (any, error) {
	if depth > maxDepth {
		return nil, p.bad("nested too deeply")
	}
	p.space()
	if p.at == len(p.text) {
		return nil, p.bad("it ends too early")
	}
	switch c := p.text[p.at]; {
	case c == '{':
		return p.dictionary(depth)
	case c == '(':
		return p.sequence(')', depth)
	case c == '[':
		return p.sequence(']', depth)
	case c == '\'' || c == '"':
		return p.quoted(c)
	case c == '-' || '0' <= c && c <= '9':
		return p.integer()
	case strings.HasPrefix(p.text[p.at:], "True"):
		p.at += len("True")
		return true, nil
	case strings.HasPrefix(p.text[p.at:], "False"):
		p.at += len("False")
		return false, nil
	}
	return nil, p.bad("no value begins here")
}

// dictionary parses a dictionary from its opening brace on; keys must be distinct strings.
func (p *literal) dictionary(depth int) (any, error) {
	p.at++
	m := map[string]any{}
	for !p.take('}') {
		key, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		name, ok := key.(string)
		if !ok {
			return nil, p.bad("a key is no string")
		}
		if _, twice := m[name]; twice {
			return nil, p.bad("a key is there twice")
		}
		if !p.take(':') {
			return nil, p.bad("a colon is missing")
		}
		if m[name], err = p.value(depth + 1); err != nil {
			return nil, err
		}
		if !p.take(',') && !p.next('}') {
			return nil, p.bad("a comma is missing")
		}
	}
	return m, nil
}

// next reports whether c is next, after any space.
func (p *literal) next(c byte) bool {
	p.space()
	return p.at < len(p.text) && p.text[p.at] == c
}

// sequence parses a tuple or a list up to end; a single element in parentheses is the element itself.
func (p *literal) sequence(end byte, depth int) (any, error) {
	p.at++
	elements := []any{}
	for !p.take(end) {
		element, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
		if comma := p.take(','); !comma && !p.next(end) {
			return nil, p.bad("a comma is missing")
		} else if !comma && end == ')' && len(elements) == 1 { // (x) is x
			p.take(end)
			return element, nil
		}
	}
	return elements, nil
}

// quoted reads a string; no header needs an escape, so a backslash is refused.
func (p *literal) quoted(quote byte) (any, error) {
	p.at++
	n := strings.IndexByte(p.text[p.at:], quote)
	if n < 0 {
		return nil, p.bad("a string does not end")
	}
	s := p.text[p.at : p.at+n]
	if strings.ContainsAny(s, "\\\n") {
		return nil, p.bad("a string holds a backslash or a new line")
	}
	p.at += n + 1
	return s, nil
}

// integer reads an integer, with the L that Python 2 wrote after long ones.
func (p *literal) integer() (any, error) {
	begin := p.at
	p.at++
	for p.at < len(p.text) && '0' <= p.text[p.at] && p.text[p.at] <= '9' {
		p.at++
	}
	x, err := strconv.ParseInt(p.text[begin:p.at], 10, 64)
	if err != nil {
		return nil, p.bad("an integer that does not fit 64 bits")
	}
	if p.at < len(p.text) && p.text[p.at] == 'L' {
		p.at++
	}
	return x, nil
}
