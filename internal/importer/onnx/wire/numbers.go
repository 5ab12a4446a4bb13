package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Numbers is a typed data field of a TensorProto as the input has it; it is decoded only when it is read. The zero
// value is the empty list.
type Numbers struct {
	runs []run
}

// run is a run of consecutive elements: one packed payload, or adjacent unpacked records including their tags.
type run struct {
	data   []byte
	offset int64 // data's offset in the input; −1 for numbers that did not come from an input
	tagged bool
}

// Empty reports whether there is no element; it decodes nothing.
func (n *Numbers) Empty() bool { return len(n.runs) == 0 }

// Payload returns the packed payload and its offset in the input, −1 if it did not come from one; ok is false unless
// the elements form one payload.
func (n *Numbers) Payload() (data []byte, offset int64, ok bool) {
	if len(n.runs) != 1 || n.runs[0].tagged {
		return nil, 0, false
	}
	return n.runs[0].data, n.runs[0].offset, true
}

// each calls visit with the bits of every element until visit returns false.
func (n *Numbers) each(w wireType, visit func(bits uint64) bool) error {
	for _, r := range n.runs {
		data := r.data
		for len(data) > 0 {
			if r.tagged {
				_, size := readVarint(data)
				data = data[size:]
			}
			var bits uint64
			size := 0
			switch w {
			case fixed32Type:
				bits, size = uint64(binary.LittleEndian.Uint32(data)), 4
			case fixed64Type:
				bits, size = binary.LittleEndian.Uint64(data), 8
			default:
				if bits, size = readVarint(data); size <= 0 {
					return diag.Inputf("%s", varintFault(size))
				}
			}
			if !visit(bits) {
				return nil
			}
			data = data[size:]
		}
	}
	return nil
}

// Varints packs integers as int32_data, int64_data and uint64_data hold them.
func Varints(values ...int64) Numbers {
	var data []byte
	for _, v := range values {
		data = binary.AppendUvarint(data, uint64(v))
	}
	return packedNumbers(data)
}

// Floats packs numbers as float_data holds them.
func Floats(values ...float32) Numbers {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
	}
	return packedNumbers(data)
}

// Doubles packs numbers as double_data holds them.
func Doubles(values ...float64) Numbers {
	var data []byte
	for _, v := range values {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
	}
	return packedNumbers(data)
}

// packedNumbers returns the numbers that are packed in data.
func packedNumbers(data []byte) Numbers {
	if len(data) == 0 {
		return Numbers{}
	}
	return Numbers{runs: []run{{data: data, offset: -1}}}
}

// numberKinds has the wire type of each kind of number, and the bytes of an element if they are fixed.
var numberKinds = map[Kind]struct {
	wire wireType
	size int // of a fixed-width element
}{Int32: {varintType, 0}, Int64: {varintType, 0}, Uint64: {varintType, 0}, Float32: {fixed32Type, 4},
	Float64: {fixed64Type, 8}}

// numbersField is a repeated field of numbers that stay undecoded in the input.
func numbersField[T any](number int32, name string, kind Kind, at func(*T) *Numbers) field[T] {
	form := numberKinds[kind]
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: kind, Repeated: true},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			if w == bytesType {
				payload, err := d.bytes()
				if err != nil || len(payload) == 0 {
					return err
				}
				if form.size > 0 && len(payload)%form.size != 0 {
					return d.fail("%d packed bytes are no whole number of %d-byte elements", len(payload), form.size)
				}
				return list.add(d, number, run{data: payload, offset: int64(d.pos - len(payload))})
			}
			if err := d.want(w, form.wire); err != nil {
				return err
			}
			if err := d.skip(w); err != nil {
				return err
			}
			return list.add(d, number, run{data: d.data[d.start:d.pos:d.pos], offset: int64(d.start), tagged: true})
		},
		write: func(e *encoder, m *T) {
			for _, r := range at(m).runs {
				if r.tagged {
					e.write(r.data)
				} else {
					e.bytes(number, r.data)
				}
			}
		},
	}
}

// add appends a run, and joins it with the last one if both are adjacent unpacked records.
func (n *Numbers) add(d *decoder, number int32, r run) error {
	if last := len(n.runs) - 1; last >= 0 && r.tagged {
		p := &n.runs[last]
		if p.tagged && p.offset+int64(len(p.data)) == r.offset {
			p.data = d.data[p.offset:d.pos:d.pos]
			return nil
		}
	}
	if err := d.charge(int64(unsafe.Sizeof(r))); err != nil {
		return err
	}
	if len(n.runs) == cap(n.runs) && len(n.runs) > 0 {
		n.runs = slices.Grow(n.runs, d.records(number))
	}
	n.runs = append(n.runs, r)
	return nil
}
