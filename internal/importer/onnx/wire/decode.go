package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// MaxDepth is the greatest depth to which messages may nest. A model's graph is at depth 1, and a subgraph adds 3
// (node, attribute, graph).
const MaxDepth = 64

// wireType says how a field's payload is delimited.
type wireType uint8

const (
	varintType  wireType = 0
	fixed64Type wireType = 1
	bytesType   wireType = 2
	fixed32Type wireType = 5
)

var wireNames = [8]string{"varint", "64 bits", "bytes", "start of a group", "end of a group", "32 bits", "wire type 6",
	"wire type 7"}

func (w wireType) String() string { return wireNames[w&7] }

// step is one field in the path to the current field; index is −1 for a singular field.
type step struct {
	name  string
	index int
}

// decoder is a cursor over the input: pos is an offset in data, and end is the offset at which the current message
// ends.
type decoder struct {
	data  []byte
	pos   int
	end   int
	start int    // where the current field's tag began
	root  string // the name of the outermost message
	path  []step
	depth int
	claim *mem.Claim // of the records, of which the smallest meaningful node takes 26 times its bytes
}

func newDecoder(data []byte, root string, claim *mem.Claim) *decoder {
	return &decoder{data: data, end: len(data), root: root, claim: claim}
}

// fail returns an error that names the current field and offset.
func (d *decoder) fail(format string, args ...any) error {
	var b strings.Builder
	for i, s := range d.path {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(s.name)
		if s.index >= 0 {
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	if len(d.path) == 0 {
		b.WriteString(d.root)
	}
	return diag.Inputf("%s: %s (byte %d)", b.String(), fmt.Sprintf(format, args...), d.pos)
}

// charge charges the bytes of a record to the file's claim.
func (d *decoder) charge(bytes int64) error {
	err := d.claim.Take(bytes)
	if e := (*diag.Error)(nil); errors.As(err, &e) {
		return d.fail("its records are too large: %s", e.Detail)
	}
	return err
}

// readVarint decodes the varint at the start of data. n is its length, 0 if data ends before the varint does, and −1 if
// it has more than 64 bits.
func readVarint(data []byte) (value uint64, n int) {
	for i, c := range data {
		if i == 9 && c > 1 {
			return 0, -1
		}
		value |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			return value, i + 1
		}
	}
	return 0, 0
}

// varint reads a varint within the current message.
func (d *decoder) varint() (uint64, error) {
	value, n := readVarint(d.data[d.pos:d.end])
	if n <= 0 {
		return 0, d.fail("%s", varintFault(n))
	}
	d.pos += n
	return value, nil
}

// varintFault describes the error for readVarint's n.
func varintFault(n int) string {
	if n < 0 {
		return "a varint has more than 64 bits"
	}
	return "a varint runs past the end"
}

// toInt32 narrows a varint to an int32 field; ok is false if it does not fit. Writers sign-extend negative numbers to
// 64 bits; the unsigned 32-bit form, which protobuf truncates to the same bits, is accepted too.
func toInt32(value uint64) (int32, bool) {
	signed := int64(value)
	return int32(uint32(value)), signed >= math.MinInt32 && signed <= math.MaxUint32
}

// tag reads a field's number and wire type.
func (d *decoder) tag() (int32, wireType, error) {
	d.start = d.pos
	value, err := d.varint()
	if err != nil {
		return 0, 0, err
	}
	number := value >> 3
	if number == 0 || number > 1<<29-1 {
		return 0, 0, d.fail("%d is no field number", number)
	}
	w := wireType(value & 7)
	switch w {
	case varintType, fixed64Type, bytesType, fixed32Type:
		return int32(number), w, nil
	}
	return 0, 0, d.fail("field %d is %s", number, [...]string{3: "the start of a group, which ONNX does not have",
		4: "the end of a group, which ONNX does not have", 6: "of wire type 6, which does not exist",
		7: "of wire type 7, which does not exist"}[w])
}

// bytes reads a length-delimited payload without touching it.
func (d *decoder) bytes() ([]byte, error) {
	length, err := d.varint()
	if err != nil {
		return nil, err
	}
	if length > uint64(d.end-d.pos) {
		return nil, d.fail("a length of %d runs past the end, %d bytes away", length, d.end-d.pos)
	}
	start := d.pos
	d.pos += int(length)
	return d.data[start:d.pos:d.pos], nil
}

// readFixed reads a payload of 4 or 8 bytes.
func (d *decoder) readFixed(size int) ([]byte, error) {
	if d.end-d.pos < size {
		return nil, d.fail("a number of %d bytes runs past the end, %d bytes away", size, d.end-d.pos)
	}
	d.pos += size
	return d.data[d.pos-size : d.pos], nil
}

// readString reads a UTF-8 string and charges its copy.
func (d *decoder) readString() (string, error) {
	payload, err := d.bytes()
	if err != nil {
		return "", err
	}
	if !utf8.Valid(payload) {
		return "", d.fail("a string is not UTF-8")
	}
	if err := d.charge(int64(len(payload))); err != nil {
		return "", err
	}
	return string(payload), nil
}

// skip passes over a payload of a wire type.
func (d *decoder) skip(w wireType) error {
	var err error
	switch w {
	case varintType:
		_, err = d.varint()
	case fixed64Type:
		_, err = d.readFixed(8)
	case fixed32Type:
		_, err = d.readFixed(4)
	case bytesType:
		_, err = d.bytes()
	}
	return err
}

// want returns an error unless the wire type is the field's.
func (d *decoder) want(got, want wireType) error {
	if got == want {
		return nil
	}
	return d.fail("the wire type is %s where the field has %s", got, want)
}

// records counts the records of the current field from this one to the end of the message, so that a list is allocated
// once, in its final size. It stops at a fault, which the decoder reports when it gets there.
func (d *decoder) records(number int32) int {
	ahead := decoder{data: d.data, pos: d.start, end: d.end}
	n := 0
	for ahead.pos < ahead.end {
		found, w, err := ahead.tag()
		if err != nil || ahead.skip(w) != nil {
			break
		}
		if found == number {
			n++
		}
	}
	return n
}

// element sets the index of the list element that is being read, for errors.
func (d *decoder) element(index int) { d.path[len(d.path)-1].index = index }
