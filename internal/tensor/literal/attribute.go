package literal

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// kinds are the types that an attribute may have: the word, its printer and its parser.
var kinds = []struct {
	word  string
	write func(v any) (string, bool)
	read  func(s *text.Scanner) any
}{
	{"int", as(formatInt), func(s *text.Scanner) any { return s.Int() }},
	{"ints", as(func(v []int64) string {
		return List(v, formatInt)
	}), func(s *text.Scanner) any { return ReadList(s, s.Int) }},
	{"float", as(text.Float), func(s *text.Scanner) any { return s.Float(64) }},
	{"floats", as(func(v []float64) string { return List(v, text.Float) }), func(s *text.Scanner) any {
		return ReadList(s, func() float64 { return s.Float(64) })
	}},
	{"bool", as(strconv.FormatBool), func(s *text.Scanner) any { return s.Choice("false", "true") == 1 }},
	{"string", as(strconv.Quote), func(s *text.Scanner) any { return s.Must(text.Quoted) }},
	{"strings", as(func(v []string) string { return List(v, strconv.Quote) }), func(s *text.Scanner) any {
		return ReadList(s, func() string { return s.Must(text.Quoted) })
	}},
	{"sym", as(sym.Expr.String), func(s *text.Scanner) any { return s.Expr() }},
	{"syms", as(Index), func(s *text.Scanner) any { return ReadIndex(s) }},
	{"dtype", as(dtype.DType.String), func(s *text.Scanner) any {
		if s.Accept(dtype.Invalid.String()) { // an operator's "none"
			return dtype.Invalid
		}
		return ReadDType(s)
	}},
	{"tensor", as(formatTensor), func(s *text.Scanner) any { return readTensor(s) }},
}

// as makes a printer that accepts values of one type only.
func as[T any](write func(T) string) func(v any) (string, bool) {
	return func(v any) (string, bool) {
		x, ok := v.(T)
		if !ok {
			return "", false
		}
		return write(x), true
	}
}

func formatInt(v int64) string { return strconv.FormatInt(v, 10) }

// formatTensor prints a small tensor by its elements, and others in base64.
func formatTensor(t *tensor.Tensor) string {
	head := t.DType().String() + List(t.Shape(), formatInt)
	if Inline(t) {
		return head + " = " + Elements(t)
	}
	return head + " base64 " + strconv.Quote(base64.StdEncoding.EncodeToString(t.Bytes()))
}

// readTensor parses the output of formatTensor.
func readTensor(s *text.Scanner) *tensor.Tensor {
	dt, shape := ReadType(s)
	fixed := Fixed(s, shape)
	if !s.Accept("base64") {
		s.Expect("=")
		return ReadElements(s, dt, fixed)
	}
	data, err := base64.StdEncoding.DecodeString(s.Must(text.Quoted))
	if err != nil {
		s.Failf("%v", err)
	}
	if s.Err() != nil {
		return nil
	}
	return must(s)(tensor.Over(dt, fixed, data))
}

// Legal reports whether a value is of one of the types that an attribute may have: int64, float64, bool, string,
// dtype.DType, *tensor.Tensor, sym.Expr, []int64, []float64, []string or []sym.Expr.
func Legal(v any) bool {
	if t, ok := v.(*tensor.Tensor); ok {
		return t != nil
	}
	for _, k := range kinds {
		if _, ok := k.write(v); ok {
			return true
		}
	}
	return false
}

// Attributes prints settings, in order of their names: {axis = int 1, perm = ints [1, 0]}.
func Attributes(attrs map[string]any) string {
	words := make([]string, 0, len(attrs))
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		value := fmt.Sprintf("unknown %T", attrs[name])
		for _, k := range kinds {
			if s, ok := k.write(attrs[name]); ok {
				value = k.word + " " + s
				break
			}
		}
		words = append(words, text.Name(name)+" = "+value)
	}
	return "{" + strings.Join(words, ", ") + "}"
}

// ReadAttributes parses the output of Attributes.
func ReadAttributes(s *text.Scanner) map[string]any {
	attrs := map[string]any{}
	s.List("{", "}", func() {
		name := s.Name()
		if _, twice := attrs[name]; twice {
			s.Failf("attribute %s is given twice", text.Name(name))
		}
		s.Expect("=")
		found, word := s.Found(), s.Must(text.Word)
		for _, k := range kinds {
			if k.word == word && s.Err() == nil {
				attrs[name] = k.read(s)
				return
			}
		}
		s.Failf("%s is no kind of attribute", found)
	})
	return attrs
}
