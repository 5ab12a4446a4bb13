package oip

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
	"unsafe"

	"github.com/weirml/weir"
)

// decodeNumbers reads a tensor's elements from JSON text, a flat array or arrays nested as the shape is, into memory of
// allocate. The text is valid JSON, or nil.
func (t *Tensor) decodeNumbers(text []byte, allocate Allocate) error {
	if text == nil {
		return Errorf("tensor %s has no data", t.Name)
	}
	if err := textual(t); err != nil {
		return err
	}
	count, err := Count(t.Shape)
	if err != nil {
		return err
	}
	// Each element takes at least a digit and a comma, so a shape cannot ask for more than the text has.
	if count > int64(len(text)) {
		return Errorf("tensor %s: shape %v has %d elements, and its data fewer", t.Name, t.Shape, count)
	}
	size := count * int64(t.DType.Size())
	if t.DType == weir.StringType {
		size = 4*count + int64(len(text)) // escapes are longer than what they stand for
	}
	memory, err := allocate(size)
	if err != nil {
		return err
	}
	n := numbers{tensor: t, text: text, to: memory[:0], count: count}
	n.space()
	if n.nested() {
		err = n.array(t.Shape)
	} else {
		err = n.array([]int{int(count)})
	}
	if err != nil {
		return err
	}
	t.Data = n.to
	return n.flush()
}

// numbers reads a tensor's elements.
type numbers struct {
	tensor *Tensor
	text   []byte
	at     int
	to     []byte
	count  int64

	// Floats that are not computed here are converted by a tensor, many at once.
	waiting []float32
}

// nested reports whether an array of at least one array comes next.
func (n *numbers) nested() bool {
	for i, open := n.at, 0; i < len(n.text); i++ {
		switch n.text[i] {
		case ' ', '\t', '\n', '\r':
		case '[':
			if open++; open == 2 {
				return true
			}
		default:
			return false
		}
	}
	return false
}

func (n *numbers) space() {
	for n.at < len(n.text) && (n.text[n.at] == ' ' || n.text[n.at] == '\n' || n.text[n.at] == '\t' ||
		n.text[n.at] == '\r') {
		n.at++
	}
}

// next returns the next byte after spaces, 0 at the end.
func (n *numbers) next() byte {
	if n.space(); n.at < len(n.text) {
		return n.text[n.at]
	}
	return 0
}

// array reads an array of the shape.
func (n *numbers) array(shape []int) error {
	t := n.tensor
	if n.next() != '[' {
		return Errorf("tensor %s: its data are not arrays as shape %v needs, at %q", t.Name, t.Shape, n.rest())
	}
	n.at++
	for i := range shape[0] {
		if i > 0 {
			if n.next() != ',' {
				return n.wrong()
			}
			n.at++
		} else if n.next() == ']' {
			return n.wrong()
		}
		var err error
		if len(shape) > 1 {
			err = n.array(shape[1:])
		} else {
			err = n.element()
		}
		if err != nil {
			return err
		}
	}
	if n.next() != ']' {
		return n.wrong()
	}
	n.at++
	return nil
}

// wrong returns the error for arrays that are not the shape's.
func (n *numbers) wrong() error {
	return Errorf("tensor %s: its data do not have the %d elements of shape %v, flat or nested as the shape is; at %q",
		n.tensor.Name, n.count, n.tensor.Shape, n.rest())
}

// rest returns the beginning of the text that is left.
func (n *numbers) rest() []byte { return n.text[n.at:min(len(n.text), n.at+20)] }

// element reads an element.
func (n *numbers) element() error {
	t := n.tensor
	n.space()
	from := n.at
	if n.at < len(n.text) && n.text[n.at] == '"' {
		for n.at++; n.at < len(n.text) && n.text[n.at] != '"'; n.at++ {
			if n.text[n.at] == '\\' {
				n.at++
			}
		}
		n.at = min(n.at+1, len(n.text))
		return n.string(n.text[from:n.at])
	}
	for n.at < len(n.text) && n.text[n.at] != ',' && n.text[n.at] != ']' && n.text[n.at] > ' ' {
		n.at++
	}
	word := n.text[from:n.at]
	if len(word) == 0 {
		return n.wrong()
	}
	text := unsafe.String(&word[0], len(word)) // read only until the element is stored
	switch {
	case t.DType == weir.Bool:
		switch text {
		case "true", "1":
			n.to = append(n.to, 1)
		case "false", "0":
			n.to = append(n.to, 0)
		default:
			return n.not(word)
		}
	case t.DType.IsUnsigned():
		x, err := strconv.ParseUint(text, 10, t.DType.Bits())
		if err != nil {
			return n.not(word)
		}
		n.integer(x)
	case t.DType.IsSigned():
		x, err := strconv.ParseInt(text, 10, t.DType.Bits())
		if err != nil {
			return n.not(word)
		}
		n.integer(uint64(x))
	case t.DType.IsFloat():
		return n.float(word, text)
	default:
		return n.not(word)
	}
	return nil
}

// not returns the error for a value that is none of the tensor's type.
func (n *numbers) not(word []byte) error {
	return Errorf("tensor %s: %.40q is no %s", n.tensor.Name, word, Name(n.tensor.DType))
}

// integer appends the low bytes of x.
func (n *numbers) integer(x uint64) {
	for range n.tensor.DType.Size() {
		n.to = append(n.to, byte(x))
		x >>= 8
	}
}

// float reads a float: a number, which may round to an infinity, or null for NaN.
func (n *numbers) float(word []byte, text string) error {
	if text == "null" {
		n.storeFloat(math.NaN())
		return nil
	}
	if c := text[0]; c != '-' && (c < '0' || c > '9') {
		return n.not(word)
	}
	bits := 64
	if n.tensor.DType != weir.F64 {
		bits = 32
	}
	x, err := strconv.ParseFloat(text, bits) // out of range: an infinity
	if err != nil && !math.IsInf(x, 0) {
		return n.not(word)
	}
	n.storeFloat(x)
	if len(n.waiting) == cap(n.waiting) && len(n.waiting) > 0 {
		return n.flush()
	}
	return nil
}

// storeFloat appends a float, or lets it wait for its conversion.
func (n *numbers) storeFloat(x float64) {
	switch n.tensor.DType {
	case weir.F64:
		n.to = binary.LittleEndian.AppendUint64(n.to, math.Float64bits(x))
	case weir.F32:
		n.to = binary.LittleEndian.AppendUint32(n.to, math.Float32bits(float32(x)))
	default:
		if n.waiting == nil {
			n.waiting = make([]float32, 0, 512)
		}
		n.waiting = append(n.waiting, float32(x))
	}
}

// flush converts the floats that wait.
func (n *numbers) flush() error {
	count := len(n.waiting)
	if count == 0 {
		return nil
	}
	from := len(n.to)
	n.to = n.to[:from+count*n.tensor.DType.Size()]
	small, err := weir.Foreign(n.tensor.DType, unsafe.Pointer(&n.to[from]), weir.ReadWrite, nil, count)
	if err != nil {
		return err
	}
	defer small.Close()
	err = small.SetFloats(n.waiting)
	n.waiting = n.waiting[:0]
	n.tensor.Data = n.to
	return err
}

// string reads a string, quotes included.
func (n *numbers) string(quoted []byte) error {
	if n.tensor.DType != weir.StringType {
		return n.not(quoted)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return n.not(quoted)
	}
	n.to = AppendText(n.to, s)
	return nil
}

// WriteElements writes a tensor's elements as a flat JSON array. NaN is null, and infinities are 1e999 and -1e999,
// which readers of JSON round to infinities. A string that is not UTF-8 is written in base64, as text after "base64:".
func (t *Tensor) WriteElements(w io.Writer) error {
	buffer := append(make([]byte, 0, 1<<14), '[')
	put := func() error {
		if len(buffer) < 1<<14-512 {
			return nil
		}
		_, err := w.Write(buffer)
		buffer = buffer[:0]
		return err
	}
	if t.DType == weir.StringType {
		first := true
		for text := range Texts(t.Data) {
			if !first {
				buffer = append(buffer, ',')
			}
			first = false
			if buffer = appendText(buffer, text); len(buffer) > 1<<14-512 {
				if err := put(); err != nil {
					return err
				}
			}
		}
		_, err := w.Write(append(buffer, ']'))
		return err
	}
	size := t.DType.Size()
	count := len(t.Data) / size
	append1, err := t.appender()
	if err != nil {
		return err
	}
	for i := range count {
		if i > 0 {
			buffer = append(buffer, ',')
		}
		if buffer, err = append1(buffer, i); err != nil {
			return err
		}
		if err := put(); err != nil {
			return err
		}
	}
	_, err = w.Write(append(buffer, ']'))
	return err
}

// appendText appends a string as JSON text.
func appendText(to, text []byte) []byte {
	if !utf8.Valid(text) {
		return append(base64.StdEncoding.AppendEncode(append(to, `"base64:`...), text), '"')
	}
	return AppendJSON(to, string(text))
}

// appender returns a function that appends the element at an index as JSON text.
func (t *Tensor) appender() (func(to []byte, i int) ([]byte, error), error) {
	data, little := t.Data, binary.LittleEndian
	switch t.DType {
	case weir.Bool:
		return func(to []byte, i int) ([]byte, error) { return strconv.AppendBool(to, data[i] != 0), nil }, nil
	case weir.F32:
		return func(to []byte, i int) ([]byte, error) {
			return appendFloat(to, float64(math.Float32frombits(little.Uint32(data[4*i:]))), 32), nil
		}, nil
	case weir.F64:
		return func(to []byte, i int) ([]byte, error) {
			return appendFloat(to, math.Float64frombits(little.Uint64(data[8*i:])), 64), nil
		}, nil
	}
	size := t.DType.Size()
	switch {
	case t.DType.IsInt():
		signed := t.DType.IsSigned()
		return func(to []byte, i int) ([]byte, error) {
			x := uint64(0)
			for b := range size {
				x |= uint64(data[i*size+b]) << (8 * b)
			}
			if signed {
				shift := 64 - 8*size
				return strconv.AppendInt(to, int64(x<<shift)>>shift, 10), nil
			}
			return strconv.AppendUint(to, x, 10), nil
		}, nil
	case t.DType.IsFloat():
		var some []float32
		const many = 512
		return func(to []byte, i int) ([]byte, error) {
			if i%many == 0 {
				part := data[i*size : min(len(data), (i+many)*size)]
				small, err := weir.Foreign(t.DType, unsafe.Pointer(&part[0]), weir.ReadOnly, nil, len(part)/size)
				if err != nil {
					return nil, err
				}
				defer small.Close()
				if some, err = small.Floats(); err != nil {
					return nil, err
				}
			}
			return appendFloat(to, float64(some[i%many]), 32), nil
		}, nil
	}
	return nil, textual(t)
}

// AppendFloats appends the elements of FP32 data, separated by commas, as JSON text.
func AppendFloats(to, data []byte) []byte {
	for i := 0; i+4 <= len(data); i += 4 {
		if i > 0 {
			to = append(to, ',')
		}
		to = appendFloat(to, float64(math.Float32frombits(binary.LittleEndian.Uint32(data[i:]))), 32)
	}
	return to
}

// appendFloat appends a float as JSON text, in the fewest digits that are read as the same float.
func appendFloat(to []byte, x float64, bits int) []byte {
	switch {
	case math.IsNaN(x):
		return append(to, "null"...)
	case math.IsInf(x, 1):
		return append(to, "1e999"...)
	case math.IsInf(x, -1):
		return append(to, "-1e999"...)
	case x == 0 && math.Signbit(x):
		return append(to, "-0.0"...) // many readers take -0 for an integer, which has no sign
	}
	return strconv.AppendFloat(to, x, 'g', -1, bits)
}
