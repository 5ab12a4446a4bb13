// Package literal is how the languages' texts write tensors, their types, and attribute values.
//
// A type is f32[n, 3]; elements are a list in row-major order, [1, 2.5, nan]; an attribute's value follows a word that
// says what it is, as in ints [1, 2]. Everything written is read back the same, to the bit.
package literal

import (
	"fmt"
	"math"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/text"
)

// InlineElements is the largest number of elements of a tensor that a text has in readable form.
const InlineElements = 16

// Inline reports whether a tensor is printed by its elements: if it is small, or its elements are strings, which have
// no other form.
func Inline(t *tensor.Tensor) bool { return t.DType() == dtype.String || t.Len() <= InlineElements }

// Index prints a list of symbolic integers: [n, 3].
func Index(list []sym.Expr) string { return List(list, sym.Expr.String) }

// List prints a list, each item by format.
func List[T any](list []T, format func(T) string) string {
	words := make([]string, len(list))
	for i, x := range list {
		words[i] = format(x)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// Type prints an element type and a shape.
func Type(dt dtype.DType, shape []sym.Expr) string { return dt.String() + Index(shape) }

// Elements prints a tensor's elements.
func Elements(t *tensor.Tensor) string {
	words := make([]string, t.Len())
	for i := range words {
		words[i] = element(t, int64(i))
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// element prints element i; a complex number as (real, imaginary).
func element(t *tensor.Tensor, i int64) string {
	dt := t.DType()
	if dt.IsComplex() {
		component := componentOf(dt)
		return "(" + number(component, t.Bytes(), 2*i) + ", " + number(component, t.Bytes(), 2*i+1) + ")"
	}
	if dt.IsFloat() {
		return number(dt, t.Bytes(), i)
	}
	return t.Format(i)
}

// componentOf returns the type of a complex number's two components.
func componentOf(dt dtype.DType) dtype.DType {
	if dt == dtype.C64 {
		return dtype.F32
	}
	return dtype.F64
}

// number prints a floating-point number; a NaN whose bits parsing would not restore as bits(…).
func number(dt dtype.DType, data []byte, i int64) string {
	x, have := dtype.LoadFloat(dt, data, i), bits(dt, data, i)
	again := make([]byte, 8)
	dtype.StoreFloat(dt, again, 0, x)
	switch {
	case math.IsNaN(x):
		dtype.StoreFloat(dt, again, 0, math.NaN())
		if bits(dt, again, 0) == have {
			return "nan"
		}
		fallthrough
	case bits(dt, again, 0) != have:
		return fmt.Sprintf("bits(%#x)", have)
	case dt == dtype.F64:
		return text.Float(x)
	}
	return text.FormatFloat(x, 32)
}

// bits returns an element's representation of at most 64 bits, zero-extended.
func bits(dt dtype.DType, data []byte, i int64) uint64 {
	width := int64(dt.Bits())
	if width < 8 {
		at := i * width
		return uint64(data[at/8]>>(at%8)) & (1<<width - 1)
	}
	x := uint64(0)
	for k := range width / 8 {
		x |= uint64(data[i*width/8+k]) << (8 * k)
	}
	return x
}

// setBits sets an element's representation, as bits returns it.
func setBits(dt dtype.DType, data []byte, i int64, x uint64) {
	width := int64(dt.Bits())
	if width < 8 {
		at := i * width
		mask := byte(1<<width-1) << (at % 8)
		data[at/8] = data[at/8]&^mask | byte(x)<<(at%8)&mask
		return
	}
	for k := range width / 8 {
		data[i*width/8+k] = byte(x >> (8 * k))
	}
}

// ReadList parses items in square brackets.
func ReadList[T any](s *text.Scanner, item func() T) []T {
	list := []T{}
	s.List("[", "]", func() { list = append(list, item()) })
	return list
}

// ReadIndex parses a list of symbolic integers.
func ReadIndex(s *text.Scanner) []sym.Expr { return ReadList(s, s.Expr) }

// ReadDType parses an element type's name.
func ReadDType(s *text.Scanner) dtype.DType {
	found := s.Found()
	dt, ok := dtype.Parse(s.Must(text.Word))
	if !ok && s.Err() == nil {
		s.Failf("%s is no element type", found)
	}
	return dt
}

// ReadType parses an element type and a shape.
func ReadType(s *text.Scanner) (dtype.DType, []sym.Expr) { return ReadDType(s), ReadIndex(s) }

// Fixed returns a shape whose extents must all be numbers, with a possible count; other shapes are an error of the
// scanner.
func Fixed(s *text.Scanner, shape []sym.Expr) []int64 {
	fixed := make([]int64, len(shape))
	for i, e := range shape {
		v, ok := e.Const()
		if !ok {
			s.Failf("contents of an extent that is not fixed, %s", e)
		}
		fixed[i] = v
	}
	if _, err := tensor.Count(fixed); err != nil {
		s.Failf("%v", err)
	}
	return fixed
}

// ReadElements parses a tensor's elements; it returns nil after an error.
func ReadElements(s *text.Scanner, dt dtype.DType, shape []int64) *tensor.Tensor {
	count, err := tensor.Count(shape)
	if err != nil || dt == dtype.Invalid {
		s.Failf("no tensor of %v%v", dt, shape)
		return nil
	}
	var words []string
	var low, high []uint64 // for complex numbers: both components
	s.List("[", "]", func() {
		switch {
		case int64(len(words)+len(low)) == count:
			s.Failf("more than %d elements", count)
		case dt == dtype.String:
			words = append(words, s.Must(text.Quoted))
		case dt.IsComplex():
			s.Expect("(")
			low = append(low, readBits(s, componentOf(dt)))
			s.Expect(",")
			high = append(high, readBits(s, componentOf(dt)))
			s.Expect(")")
		default:
			low = append(low, readBits(s, dt))
		}
	})
	if n := int64(len(words) + len(low)); n != count {
		s.Failf("%d elements, want %d", n, count)
	}
	if s.Err() != nil {
		return nil
	}
	if dt == dtype.String {
		return must(s)(tensor.OverStrings(shape, words))
	}
	t := must(s)(tensor.New(dt, shape...))
	for i, x := range low {
		switch {
		case t == nil:
		case dt.IsComplex():
			setBits(componentOf(dt), t.Bytes(), 2*int64(i), x)
			setBits(componentOf(dt), t.Bytes(), 2*int64(i)+1, high[i])
		default:
			setBits(dt, t.Bytes(), int64(i), x)
		}
	}
	return t
}

// must records an error as one of the scanner, and returns nil then.
func must(s *text.Scanner) func(*tensor.Tensor, error) *tensor.Tensor {
	return func(t *tensor.Tensor, err error) *tensor.Tensor {
		if err != nil {
			s.Failf("%v", err)
			return nil
		}
		return t
	}
}

// readBits parses an element of a type that is neither a string nor complex, and returns its representation.
func readBits(s *text.Scanner, dt dtype.DType) uint64 {
	data := make([]byte, 8)
	switch {
	case dt == dtype.Bool:
		return uint64(max(0, s.Choice("false", "true")))
	case dt == dtype.U64:
		return s.Uint()
	case dt.IsInt():
		x := s.Int()
		dtype.StoreInt(dt, data, 0, x)
		if dtype.LoadInt(dt, data, 0) != x {
			s.Failf("%d is no %s", x, dt)
		}
		return bits(dt, data, 0)
	case s.Accept("bits"):
		s.Expect("(")
		x := s.Uint()
		s.Expect(")")
		if width := dt.Bits(); width < 64 && x>>width != 0 {
			s.Failf("%#x has more than the %d bits of %s", x, width, dt)
		}
		return x
	}
	width := 32
	if dt == dtype.F64 {
		width = 64
	}
	dtype.StoreFloat(dt, data, 0, s.Float(width))
	return bits(dt, data, 0)
}
