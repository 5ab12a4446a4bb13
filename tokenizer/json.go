package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
)

// input returns the error of a file, a text or an option at fault.
func input(detail string) error { return &diag.Error{Kind: diag.ErrInput, Detail: detail} }

// unsupported returns the error of something legal that is not implemented.
func unsupported(detail string) error { return &diag.Error{Kind: diag.ErrUnsupported, Detail: detail} }

// quote returns a text in quotes, shortened.
func quote(s string) string {
	if len(s) > 60 {
		s = s[:60] + "…"
	}
	return strconv.Quote(s)
}

// reading counts what a file has of things that take more memory, or time, than their description.
type reading struct {
	patterns int // regular expressions
	steps    int // elements of sequences
	growth   int // of a text by the decoder
}

// The most of what is counted. A pattern takes up to 2 MiB.
const (
	maxPatterns = 16
	maxSteps    = 200
	maxGrowth   = 4096
	maxTemplate = 4096 // special tokens of a template
)

// value is a value in a JSON file, and the path that leads to it.
type value struct {
	path string
	raw  json.RawMessage
	file *reading
}

// object is a JSON object's members.
type object struct {
	path    string
	members map[string]json.RawMessage
	file    *reading
}

// grow counts a step of the decoder, by which a text becomes up to factor times as long.
func (o object) grow(factor int) error {
	if o.file.growth *= factor; o.file.growth > maxGrowth {
		return unsupported(fmt.Sprintf("%s: decoded texts may grow more than %d times", o.path, maxGrowth))
	}
	return nil
}

func (v value) fault(detail string) error { return input(v.path + ": " + detail) }

func (v value) isNull() bool { return len(v.raw) == 0 || string(v.raw) == "null" }

// decode reads a value; what names the expected kind.
func decode[T any](v value, what string) (out T, err error) {
	if v.isNull() {
		return out, v.fault("is missing; expected " + what)
	}
	if json.Unmarshal(v.raw, &out) != nil {
		return out, v.fault("expected " + what)
	}
	return out, nil
}

func (v value) object() (object, error) {
	if m, ok := scanObject(v.raw); ok {
		return object{v.path, m, v.file}, nil
	}
	m, err := decode[map[string]json.RawMessage](v, "an object")
	return object{v.path, m, v.file}, err
}

func (v value) list() ([]value, error) {
	raws, ok := scanList(v.raw)
	if !ok {
		var err error
		if raws, err = decode[[]json.RawMessage](v, "a list"); err != nil {
			return nil, err
		}
	}
	list := make([]value, len(raws))
	for i, raw := range raws {
		list[i] = value{v.path + "[" + strconv.Itoa(i) + "]", raw, v.file}
	}
	return list, nil
}

func (o object) get(name string) value { return value{o.path + "." + name, o.members[name], o.file} }

func (o object) text(name string) (string, error) { return decode[string](o.get(name), "a string") }

// optionalText returns "" for a member that is missing or null.
func (o object) optionalText(name string) (string, error) {
	if o.get(name).isNull() {
		return "", nil
	}
	return o.text(name)
}

func (o object) flag(name string) (bool, error) { return decode[bool](o.get(name), "true or false") }

// flagOr returns a default for a member that is missing or null.
func (o object) flagOr(name string, missing bool) (bool, error) {
	if o.get(name).isNull() {
		return missing, nil
	}
	return o.flag(name)
}

// number returns an integer from 0 to 2^31-1.
func (o object) number(name string) (int, error) {
	n, err := decode[uint64](o.get(name), "an integer from 0")
	if err == nil && n > math.MaxInt32 {
		err = o.get(name).fault(fmt.Sprintf("%d is more than %d", n, math.MaxInt32))
	}
	return int(n), err
}

// character returns a string of one character.
func (o object) character(name string) (rune, error) {
	s, err := o.text(name)
	r, n := utf8.DecodeRuneInString(s)
	if err == nil && (n == 0 || n != len(s)) {
		err = o.get(name).fault("expected one character")
	}
	return r, err
}

// kind returns an object's type.
func (v value) kind() (object, string, error) {
	o, err := v.object()
	if err != nil {
		return o, "", err
	}
	k, err := o.text("type")
	return o, k, err
}

// refuse is the error of a type that is not known.
func (o object) refuse(kind string, known []string) error {
	slices.Sort(known)
	return &diag.Error{Kind: diag.ErrUnsupported, Op: kind, Detail: o.path + ": the type " + quote(kind) +
		" is not supported; supported are " + strings.Join(known, ", ")}
}

// names returns the keys of a table.
func names[T any](table map[string]T) []string {
	list := make([]string, 0, len(table))
	for name := range table {
		list = append(list, name)
	}
	return list
}

// maxDepth is the depth to which sequences may contain sequences.
const maxDepth = 16

// flags reads members that are true or false.
func (o object) flags(names ...string) ([]bool, error) {
	out := make([]bool, len(names))
	for i, name := range names {
		var err error
		if out[i], err = o.flag(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// special reads a token and its id, as a list of the two.
func (o object) special(name string) (int32, error) {
	v := o.get(name)
	list, err := v.list()
	if err != nil {
		return 0, err
	}
	if len(list) != 2 {
		return 0, v.fault("expected a token and its id")
	}
	if _, err := decode[string](list[0], "a string"); err != nil {
		return 0, err
	}
	return decode[int32](list[1], "an id")
}

// vocabulary reads the ids of tokens. The file's keys are distinct in memory, so that their number is bounded by its
// size.
func (o object) vocabulary(name string) (*vocabulary, error) {
	v := o.get(name)
	if ids, ok := scanIDs(v.raw); ok {
		return newVocabulary(ids), nil
	}
	ids, err := decode[map[string]int64](v, "an object of tokens and their ids")
	if err != nil {
		return nil, err
	}
	small := make(map[string]int32, len(ids))
	for token, id := range ids {
		if id < 0 || id > math.MaxInt32 {
			return nil, v.fault(fmt.Sprintf("the id %d of %s is not from 0 to %d", id, quote(token), math.MaxInt32))
		}
		small[token] = int32(id)
	}
	return newVocabulary(small), nil
}

// parse reads the members of a file.
func parse(data []byte) (object, error) {
	if !utf8.Valid(data) {
		return object{}, input("the file is not UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\xEF\xBB\xBF"))
	if json.Valid(data) {
		if members, ok := scanObject(data); ok {
			return object{"tokenizer", members, &reading{growth: 1}}, nil
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return object{}, input("the file is not a JSON object: " + err.Error())
	}
	return object{"tokenizer", members, &reading{growth: 1}}, nil
}
