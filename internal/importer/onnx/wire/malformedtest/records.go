// Package malformedtest breaks valid files, to test their readers. For every field path of a message it yields the
// field missing, of another type, too large, negative or dangling; for a model's graph also cycles and clashes of
// names. It also prints a message as canonical text. It works on the bytes and on wire's description of the messages,
// not on wire's decoder, because it also tests that decoder.
package malformedtest

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"sort"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// record is one field occurrence of a message.
type record struct {
	field    *wire.Field // nil for a field that is not in the description
	tag      uint64
	number   uint64    // of wire types 0, 1 and 5
	payload  []byte    // of wire type 2, unless it has children
	children []*record // of a nested message
	nested   bool
}

// split reads the records of a message. It expects a valid message; it returns an error for others, and never panics.
func split(schema *wire.Message, data []byte) ([]*record, error) {
	var out []*record
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 {
			return nil, fmt.Errorf("a tag is cut short")
		}
		data = data[n:]
		r := &record{tag: tag}
		for i := range schema.Fields {
			if uint64(schema.Fields[i].Number) == tag>>3 {
				r.field = &schema.Fields[i]
			}
		}
		switch tag & 7 {
		case 0:
			if r.number, n = binary.Uvarint(data); n <= 0 {
				return nil, fmt.Errorf("a varint is cut short")
			}
			data = data[n:]
		case 1:
			if len(data) < 8 {
				return nil, fmt.Errorf("a number is cut short")
			}
			r.number, data = binary.LittleEndian.Uint64(data), data[8:]
		case 5:
			if len(data) < 4 {
				return nil, fmt.Errorf("a number is cut short")
			}
			r.number, data = uint64(binary.LittleEndian.Uint32(data)), data[4:]
		case 2:
			length, n := binary.Uvarint(data)
			if n <= 0 || length > uint64(len(data)-n) {
				return nil, fmt.Errorf("a payload is cut short")
			}
			r.payload, data = data[n:n+int(length)], data[n+int(length):]
			if r.field != nil && r.field.Message != nil {
				children, err := split(r.field.Message, r.payload)
				if err != nil {
					return nil, err
				}
				r.children, r.payload, r.nested = children, nil, true
			}
		default:
			return nil, fmt.Errorf("wire type %d", tag&7)
		}
		out = append(out, r)
	}
	return out, nil
}

// join encodes records. edit may return other bytes for a record, including its tag; if ok is false, the record stays.
func join(records []*record, edit func(*record) (bytes []byte, ok bool)) []byte {
	var out []byte
	for _, r := range records {
		if edit != nil {
			if bytes, ok := edit(r); ok {
				out = append(out, bytes...)
				continue
			}
		}
		out = append(out, r.bytes(edit)...)
	}
	return out
}

// bytes encodes the record; edit is applied to its children.
func (r *record) bytes(edit func(*record) ([]byte, bool)) []byte {
	out := binary.AppendUvarint(nil, r.tag)
	switch r.tag & 7 {
	case 0:
		return binary.AppendUvarint(out, r.number)
	case 1:
		return binary.LittleEndian.AppendUint64(out, r.number)
	case 5:
		return binary.LittleEndian.AppendUint32(out, uint32(r.number))
	}
	payload := r.payload
	if r.nested {
		payload = join(r.children, edit)
	}
	return append(binary.AppendUvarint(out, uint64(len(payload))), payload...)
}

// Text prints a message in a form that does not depend on its encoding: a line for each value, fields in the order of
// their numbers, packed and unpacked numbers alike, without singular zeros and without unknown and skipped fields.
// Floats are printed as bits; strings and bytes in hexadecimal or, past 32 bytes, as their length and SHA-256.
func Text(schema *wire.Message, data []byte) (string, error) {
	var b strings.Builder
	err := text(&b, "", schema, data)
	return b.String(), err
}

// text prints a message's fields below the path prefix.
func text(b *strings.Builder, prefix string, schema *wire.Message, data []byte) error {
	records, err := split(schema, data)
	if err != nil {
		return err
	}
	sort.SliceStable(records, func(i, j int) bool { return records[i].tag>>3 < records[j].tag>>3 })
	index := map[int32]int{}
	for _, r := range records {
		if r.field == nil || r.field.Skipped {
			continue
		}
		values, err := r.values()
		if err != nil {
			return err
		}
		for _, value := range values {
			path := prefix + r.field.Name
			if r.field.Repeated {
				path += fmt.Sprintf("[%d]", index[r.field.Number])
				index[r.field.Number]++
			} else if value.zero {
				continue
			}
			if !r.nested {
				fmt.Fprintf(b, "%s=%s\n", path, value.text)
				continue
			}
			fmt.Fprintf(b, "%s{}\n", path)
			if err := text(b, path+".", r.field.Message, join(r.children, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// value is one printed element of a record; zero reports the field's default.
type value struct {
	text string
	zero bool
}

// values returns the elements of the record; a nested message is one empty value.
func (r *record) values() ([]value, error) {
	if r.nested {
		return []value{{}}, nil
	}
	kind := r.field.Kind
	if kind == wire.String || kind == wire.Bytes {
		s := fmt.Sprintf("%x", r.payload)
		if len(r.payload) > 32 {
			s = fmt.Sprintf("%d:%x", len(r.payload), sha256.Sum256(r.payload))
		}
		return []value{{s, len(r.payload) == 0}}, nil
	}
	if r.tag&7 != 2 {
		return []value{number(kind, r.number)}, nil
	}
	var out []value
	for data := r.payload; len(data) > 0; {
		switch {
		case kind == wire.Float32 && len(data) >= 4:
			out, data = append(out, number(kind, uint64(binary.LittleEndian.Uint32(data)))), data[4:]
		case kind == wire.Float64 && len(data) >= 8:
			out, data = append(out, number(kind, binary.LittleEndian.Uint64(data))), data[8:]
		default:
			v, n := binary.Uvarint(data)
			if n <= 0 {
				return nil, fmt.Errorf("%s: a number is cut short", r.field.Name)
			}
			out, data = append(out, number(kind, v)), data[n:]
		}
	}
	return out, nil
}

// number prints a number of a kind from its bits.
func number(kind wire.Kind, bits uint64) value {
	s := ""
	switch kind {
	case wire.Float32:
		s = fmt.Sprintf("%08x", uint32(bits))
	case wire.Float64:
		s = fmt.Sprintf("%016x", bits)
	case wire.Uint64:
		s = fmt.Sprint(bits)
	case wire.Int32:
		s = fmt.Sprint(int32(bits))
	default:
		s = fmt.Sprint(int64(bits))
	}
	return value{s, bits == 0}
}

var infinity = math.Inf(1)
