package texts

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/weirml/weir/serve/internal/oip"
)

// Input is what a model reads: texts, or the ids of texts.
type Input struct {
	Texts []string  // slices of the message
	IDs   [][]int32 // instead of Texts, if it is not nil
	Alone bool      // the request has a text, or its ids, rather than a list of them
}

// Len returns the number of texts.
func (in *Input) Len() int { return max(len(in.Texts), len(in.IDs)) }

// TooManyError reports a request with more texts than the server takes.
type TooManyError struct{ Most int }

// Error returns the number.
func (e *TooManyError) Error() string {
	return oip.Errorf("more than %d texts in a request", e.Most).Error()
}

// Unwrap returns an oip.Error.
func (e *TooManyError) Unwrap() error { return oip.Errorf("more than %d texts", e.Most) }

// EmptyError reports a request without texts.
type EmptyError struct{ Field string }

// Error names the field.
func (e *EmptyError) Error() string { return e.Field + " has no texts" }

// Unwrap returns an oip.Error.
func (e *EmptyError) Unwrap() error { return oip.Errorf("%s has no texts", e.Field) }

// readInput reads a text, a list of texts, a list of ids, or a list of lists of ids: at most so many texts. Memory for
// ids is of allocate.
func readInput(field string, text span, most int, allocate oip.Allocate) (in Input, err error) {
	r := reader{text: text}
	switch r.next() {
	case '"':
		return Input{Texts: []string{r.string()}, Alone: true}, nil
	case '[':
		r.at++
	case 0:
		return in, oip.Errorf("%s is missing", field)
	default:
		return in, oip.Errorf("%s is %.20s, and not a string, an array of strings, or ids of tokens", field, text)
	}
	switch c := r.next(); {
	case c == ']':
		return in, &EmptyError{field}
	case c == '"':
		in.Texts, err = r.strings(field, most, allocate)
		return in, err
	case c == '[' || c >= '0' && c <= '9':
		in.Alone = c != '['
		in.IDs, err = r.lists(field, most, allocate)
		return in, err
	}
	return in, oip.Errorf("%s[0] is %.20s, and not a string or ids of tokens", field, text[r.at:])
}

// strings reads the rest of an array of strings.
func (r *reader) strings(field string, most int, allocate oip.Allocate) ([]string, error) {
	list, err := room[string](min(most, bytes.Count(r.text[r.at:], []byte{'"'})/2), allocate)
	if err != nil {
		return nil, err
	}
	n := 0
	for c := r.next(); c != ']'; c = r.next() {
		if n == most {
			return nil, &TooManyError{most}
		}
		ok := c == '"'
		if ok {
			list[n] = r.string()
		} else if c == '{' && field == "documents" {
			list[n], ok = r.object()
		}
		if !ok {
			return nil, oip.Errorf("%s[%d] is not a string as the others", field, n)
		}
		n++
	}
	return list[:n], nil
}

// object returns the field text of the object that is next; ok is false if it has none that is a string.
func (r *reader) object() (text string, ok bool) {
	r.at++
	for r.next() != '}' {
		name := r.string()
		if r.next() == '"' && name == "text" {
			text, ok = r.string(), true
		} else {
			r.skip()
		}
	}
	r.at++
	return text, ok
}

// room returns memory for n elements, of which those with pointers must point to memory outside of Go's heap.
func room[T string | int32 | []int32](n int, allocate oip.Allocate) ([]T, error) {
	var one T
	memory, err := allocate(int64(n) * int64(unsafe.Sizeof(one)))
	if err != nil || n == 0 {
		return nil, err
	}
	clear(memory) // the garbage collector looks at pointers that are overwritten
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), n), nil
}

// lists reads the rest of an array of ids, or of arrays of ids.
func (r *reader) lists(field string, most int, allocate oip.Allocate) ([][]int32, error) {
	ids, err := room[int32](bytes.Count(r.text[r.at:], []byte{','})+1, allocate)
	if err != nil {
		return nil, err
	}
	list, err := room[[]int32](min(most, bytes.Count(r.text[r.at:], []byte{'['})+1), allocate)
	if err != nil {
		return nil, err
	}
	texts := 0
	nested := r.next() == '['
	for c := r.next(); c != ']'; c = r.next() {
		switch {
		case nested && c != '[':
			return nil, oip.Errorf("%s[%d] is %.20s, and not an array as the others", field, texts, r.text[r.at:])
		case nested:
			r.at++
		}
		if texts == most {
			return nil, &TooManyError{most}
		}
		n := 0
		for r.next() != ']' {
			value := r.text[r.at:]
			id, ok := r.id()
			if !ok {
				at := field
				if nested {
					at = fmt.Sprintf("%s[%d]", field, texts)
				}
				return nil, oip.Errorf("%s[%d] is %.20s, and ids are whole numbers from 0", at, n, value)
			}
			ids[n] = id
			n++
		}
		if n == 0 {
			return nil, oip.Errorf("%s[%d] has no ids", field, texts)
		}
		list[texts], ids = ids[:n:n], ids[n:]
		texts++
		if !nested {
			break
		}
		r.at++
	}
	return list[:texts], nil
}
