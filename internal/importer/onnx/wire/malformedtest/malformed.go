package malformedtest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// Case is one broken file.
type Case struct {
	Path   string // the field that is attacked, such as graph.node[0].input[1]
	Attack string // the name of the attack
	Data   []byte
}

// Options chooses the cases.
type Options struct {
	Every bool // attack every occurrence of a field; otherwise only the first on each path, indices aside
}

// attack replaces a record by the bytes that make returns; nil means that the attack does not apply.
type attack struct {
	name string
	make func(r *record) []byte
}

// Dangling replaces a name. No valid model should use it.
const Dangling = "nobody makes this"

var attacks = []attack{
	{"missing", func(*record) []byte { return []byte{} }},
	{"twice", func(r *record) []byte { return append(r.bytes(nil), r.bytes(nil)...) }},
	{"another wire type", func(r *record) []byte {
		if r.tag&7 == 2 && r.field.Kind >= wire.String {
			return binary.AppendUvarint(binary.AppendUvarint(nil, r.tag&^7), 1)
		}
		if r.field.Kind == wire.Float64 { // a packed list of bytes would be legal
			return binary.LittleEndian.AppendUint32(binary.AppendUvarint(nil, r.tag&^7|5), 1)
		}
		return binary.LittleEndian.AppendUint64(binary.AppendUvarint(nil, r.tag&^7|1), 1)
	}},
	{"a group", func(r *record) []byte { return binary.AppendUvarint(nil, r.tag&^7|3) }},
	{"length past the end", func(r *record) []byte {
		if r.tag&7 != 2 {
			return nil
		}
		return binary.AppendUvarint(binary.AppendUvarint(nil, r.tag), math.MaxInt64)
	}},
	{"endless varint", func(r *record) []byte {
		return append(binary.AppendUvarint(nil, r.tag), slices.Repeat([]byte{0xff}, 12)...)
	}},
	{"too large", func(r *record) []byte { return r.withNumbers(math.MaxInt64, infinity) }},
	{"too large for a product", func(r *record) []byte { return r.withNumbers(1<<40, math.MaxFloat64) }},
	{"too large by one", func(r *record) []byte { return r.shifted(1) }},
	{"too small by one", func(r *record) []byte { return r.shifted(-1) }},
	{"least", func(r *record) []byte { return r.withNumbers(math.MinInt64, -infinity) }},
	{"negative", func(r *record) []byte { return r.withNumbers(-1, -1) }},
	{"zero", func(r *record) []byte { return r.withNumbers(0, 0) }},
	{"not a number", func(r *record) []byte {
		if r.field.Kind != wire.Float32 && r.field.Kind != wire.Float64 {
			return nil
		}
		return r.withNumbers(0, math.NaN())
	}},
	{"one value more", func(r *record) []byte {
		if !r.field.Repeated || r.field.Kind >= wire.String {
			return nil
		}
		size := map[wire.Kind]int{wire.Float32: 4, wire.Float64: 8}[r.field.Kind]
		return append(r.bytes(nil), delimited(r, make([]byte, max(size, 1)))...)
	}},
	{"empty", func(r *record) []byte {
		if r.tag&7 != 2 {
			return nil
		}
		return delimited(r, nil)
	}},
	{"cut in half", func(r *record) []byte {
		if r.tag&7 != 2 || r.nested || len(r.payload) < 2 {
			return nil
		}
		return delimited(r, r.payload[:len(r.payload)/2])
	}},
	{"dangling", func(r *record) []byte { return r.withText(Dangling) }},
	{"not UTF-8", func(r *record) []byte { return r.withText("\xff\xfe") }},
	{"very long", func(r *record) []byte { return r.withText(strings.Repeat("long ", 20000)) }},
	{"with line breaks", func(r *record) []byte { return r.withText("a\nb\r\x00\x1b[31m") }},
}

// delimited returns r with another payload, length-delimited.
func delimited(r *record, payload []byte) []byte {
	out := binary.AppendUvarint(nil, r.tag&^7|2)
	return append(binary.AppendUvarint(out, uint64(len(payload))), payload...)
}

// withNumbers replaces every number of a numeric record by integer or float; nil for other records.
func (r *record) withNumbers(integer int64, float float64) []byte {
	return r.mapped(func(bits uint64, size int) uint64 {
		switch size {
		case 4:
			return uint64(math.Float32bits(float32(float)))
		case 8:
			return math.Float64bits(float)
		}
		return uint64(integer)
	})
}

// shifted adds by to every integer of a numeric record; nil for other records.
func (r *record) shifted(by int64) []byte {
	if r.field.Kind == wire.Float32 || r.field.Kind == wire.Float64 {
		return nil
	}
	return r.mapped(func(bits uint64, _ int) uint64 { return uint64(int64(bits) + by) })
}

// mapped replaces the numbers of a record by f of their bits; size is their width in bytes, 0 for a varint. It returns
// nil for records that are not numeric.
func (r *record) mapped(f func(bits uint64, size int) uint64) []byte {
	kind := r.field.Kind
	if kind >= wire.String {
		return nil
	}
	size := map[wire.Kind]int{wire.Float32: 4, wire.Float64: 8}[kind]
	put := func(out []byte, bits uint64) []byte {
		switch size {
		case 4:
			return binary.LittleEndian.AppendUint32(out, uint32(f(bits, 4)))
		case 8:
			return binary.LittleEndian.AppendUint64(out, f(bits, 8))
		}
		return binary.AppendUvarint(out, f(bits, 0))
	}
	if r.tag&7 != 2 {
		return put(binary.AppendUvarint(nil, r.tag), r.number)
	}
	var payload []byte
	for data := r.payload; len(data) > 0; {
		switch size {
		case 4:
			payload, data = put(payload, uint64(binary.LittleEndian.Uint32(data))), data[4:]
		case 8:
			payload, data = put(payload, binary.LittleEndian.Uint64(data)), data[8:]
		default:
			v, n := binary.Uvarint(data)
			payload, data = put(payload, v), data[max(n, 1):]
		}
	}
	return delimited(r, payload)
}

// withText replaces the payload of a record of strings or bytes; nil for other records.
func (r *record) withText(s string) []byte {
	if r.field.Kind != wire.String && r.field.Kind != wire.Bytes {
		return nil
	}
	return delimited(r, []byte(s))
}

// Fields yields a case for every attack on every field path of data, a valid message. Two fields are on one path if
// they differ in indices only; with Options.Every each occurrence counts. There are about twenty cases for each field,
// each as large as data.
func Fields(schema *wire.Message, data []byte, o Options) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		top, err := split(schema, data)
		if err != nil {
			panic(fmt.Sprintf("malformedtest: the valid message is not: %v", err))
		}
		seen := map[string]bool{}
		var walk func(prefix, plain string, records []*record) bool
		walk = func(prefix, plain string, records []*record) bool {
			index := map[int32]int{}
			for _, r := range records {
				if r.field == nil {
					continue
				}
				path, name := prefix+r.field.Name, plain+r.field.Name
				if r.field.Repeated {
					path += fmt.Sprintf("[%d]", index[r.field.Number])
					index[r.field.Number]++
				}
				if o.Every || !seen[name] {
					seen[name] = true
					for _, a := range attacks {
						with := a.make(r)
						if with == nil {
							continue
						}
						broken := join(top, func(other *record) ([]byte, bool) { return with, other == r })
						if !yield(Case{path, a.name, broken}) {
							return false
						}
					}
				}
				if !walk(path+".", name+".", r.children) {
					return false
				}
			}
			return true
		}
		walk("", "", top)
	}
}

// Cuts yields data cut short after every step-th byte.
func Cuts(data []byte, step int) iter.Seq[Case] {
	return func(yield func(Case) bool) {
		for n := 0; n < len(data); n += step {
			if !yield(Case{fmt.Sprintf("byte %d", n), "cut", data[:n:n]}) {
				return
			}
		}
	}
}
