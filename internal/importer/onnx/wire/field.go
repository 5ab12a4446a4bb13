package wire

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"
)

// field reads and writes one field of the message type T. The functions below construct fields; the tables in tables.go
// describe the rest of the format.
type field[T any] struct {
	Field
	alone func(*T) // clears the other members before a member of a oneof is read; nil for other fields
	read  func(d *decoder, m *T, w wireType) error
	write func(e *encoder, m *T)
}

// message is the table of one message type. init fills it, because messages refer to each other in cycles.
type message[T any] struct {
	info   Message
	fields [32]*field[T] // by number
	mark   func(*T) *Presence
}

// fill adds the fields of a message; two fields with the same number are a bug.
func (s *message[T]) fill(name string, fields ...field[T]) {
	s.info.Name = name
	for i := range fields {
		f := &fields[i]
		if s.fields[f.Number] != nil {
			panic("wire: two fields of " + name + " have one number")
		}
		s.fields[f.Number] = f
		s.info.Fields = append(s.info.Fields, f.Field)
	}
}

// decode reads the current message and merges it into m.
func (s *message[T]) decode(d *decoder, m *T) error {
	for d.pos < d.end {
		number, w, err := d.tag()
		if err != nil {
			return err
		}
		if int(number) >= len(s.fields) || s.fields[number] == nil {
			if err := d.skip(w); err != nil {
				return err
			}
			continue
		}
		f := s.fields[number]
		if f.alone != nil {
			f.alone(m)
		}
		d.path = append(d.path, step{f.Name, -1})
		if err := f.read(d, m, w); err != nil {
			return err
		}
		d.path = d.path[:len(d.path)-1]
		if s.mark != nil {
			*s.mark(m) |= 1 << number
		}
	}
	return nil
}

// nested reads one length-delimited message and merges it into m.
func (s *message[T]) nested(d *decoder, m *T, w wireType) error {
	if err := d.want(w, bytesType); err != nil {
		return err
	}
	if d.depth++; d.depth > MaxDepth {
		return d.fail("messages nest deeper than %d", MaxDepth)
	}
	payload, err := d.bytes()
	if err != nil {
		return err
	}
	after, end := d.pos, d.end
	d.pos, d.end = after-len(payload), after
	if err := s.decode(d, m); err != nil {
		return err
	}
	d.pos, d.end = after, end
	d.depth--
	return nil
}

// encode writes m's fields in the order of their numbers.
func (s *message[T]) encode(e *encoder, m *T) {
	for _, f := range s.fields {
		if f != nil && f.write != nil {
			f.write(e, m)
		}
	}
}

// stringField is a singular UTF-8 string, which is copied.
func stringField[T any](number int32, name string, at func(*T) *string) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: String},
		read: func(d *decoder, m *T, w wireType) error {
			if err := d.want(w, bytesType); err != nil {
				return err
			}
			s, err := d.readString()
			*at(m) = s
			return err
		},
		write: func(e *encoder, m *T) {
			if s := *at(m); s != "" {
				e.writeString(number, s)
			}
		},
	}
}

// stringsField is a list of UTF-8 strings, which are copied.
func stringsField[T any](number int32, name string, at func(*T) *[]string) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: String, Repeated: true},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			if err := next(d, list, number, w); err != nil {
				return err
			}
			s, err := d.readString()
			*list = append(*list, s)
			return err
		},
		write: func(e *encoder, m *T) {
			for _, s := range *at(m) {
				e.writeString(number, s)
			}
		},
	}
}

// next prepares a list for one more element of a field that is never packed: it checks the wire type, charges the
// element and grows the list.
func next[E any](d *decoder, list *[]E, number int32, w wireType) error {
	d.element(len(*list))
	if err := d.want(w, bytesType); err != nil {
		return err
	}
	var e E
	if err := d.charge(int64(unsafe.Sizeof(e))); err != nil {
		return err
	}
	if len(*list) == cap(*list) {
		*list = slices.Grow(*list, d.records(number))
	}
	return nil
}

// bytesField is a payload that stays in the input.
func bytesField[T any](number int32, name string, at func(*T) *[]byte) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Bytes},
		read: func(d *decoder, m *T, w wireType) error {
			if err := d.want(w, bytesType); err != nil {
				return err
			}
			payload, err := d.bytes()
			*at(m) = payload
			return err
		},
		write: func(e *encoder, m *T) {
			if payload := *at(m); payload != nil {
				e.bytes(number, payload)
			}
		},
	}
}

// docField is a doc_string: declared as a string, but never used, so it stays in the input and is not read.
func docField[T any](number int32, at func(*T) *[]byte) field[T] {
	f := bytesField(number, "doc_string", at)
	f.Kind = String
	return f
}

// bytesListField is a list of payloads that stay in the input.
func bytesListField[T any](number int32, name string, at func(*T) *[][]byte) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Bytes, Repeated: true},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			if err := next(d, list, number, w); err != nil {
				return err
			}
			payload, err := d.bytes()
			*list = append(*list, payload)
			return err
		},
		write: func(e *encoder, m *T) {
			for _, payload := range *at(m) {
				e.bytes(number, payload)
			}
		},
	}
}

// int64Field is an integer; 0 is not written.
func int64Field[T any](number int32, name string, at func(*T) *int64) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Int64},
		read: func(d *decoder, m *T, w wireType) error {
			if err := d.want(w, varintType); err != nil {
				return err
			}
			value, err := d.varint()
			*at(m) = int64(value)
			return err
		},
		write: func(e *encoder, m *T) {
			if value := *at(m); value != 0 {
				e.int(number, value)
			}
		},
	}
}

// int32Field is an integer; one that does not fit 32 bits is refused, and 0 is not written.
func int32Field[T any](number int32, name string, at func(*T) *int32) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Int32},
		read: func(d *decoder, m *T, w wireType) error {
			if err := d.want(w, varintType); err != nil {
				return err
			}
			value, err := d.varint()
			if err != nil {
				return err
			}
			narrow, ok := toInt32(value)
			if !ok {
				return d.fail("%d does not fit an int32", int64(value))
			}
			*at(m) = narrow
			return nil
		},
		write: func(e *encoder, m *T) {
			if value := *at(m); value != 0 {
				e.int(number, int64(value))
			}
		},
	}
}

// float32Field is a float; only +0 is not written.
func float32Field[T any](number int32, name string, at func(*T) *float32) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Float32},
		read: func(d *decoder, m *T, w wireType) error {
			if err := d.want(w, fixed32Type); err != nil {
				return err
			}
			payload, err := d.readFixed(4)
			if err == nil {
				*at(m) = math.Float32frombits(binary.LittleEndian.Uint32(payload))
			}
			return err
		},
		write: func(e *encoder, m *T) {
			if value := *at(m); math.Float32bits(value) != 0 {
				e.float32(number, value)
			}
		},
	}
}

// int64sField is a list of integers, packed or not; it is written packed.
func int64sField[T any](number int32, name string, at func(*T) *[]int64) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Int64, Repeated: true},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			d.element(len(*list))
			if w != bytesType {
				if err := d.want(w, varintType); err != nil {
					return err
				}
				value, err := d.varint()
				if err != nil {
					return err
				}
				return push(d, list, number, int64(value))
			}
			payload, err := d.bytes()
			if err != nil {
				return err
			}
			count := 0
			for _, c := range payload {
				if c < 0x80 {
					count++
				}
			}
			if err := d.charge(8 * int64(count)); err != nil {
				return err
			}
			*list = slices.Grow(*list, count)
			for len(payload) > 0 {
				value, n := readVarint(payload)
				if n <= 0 {
					d.element(len(*list))
					return d.fail("%s", varintFault(n))
				}
				*list = append(*list, int64(value))
				payload = payload[n:]
			}
			return nil
		},
		write: func(e *encoder, m *T) {
			if list := *at(m); len(list) > 0 {
				e.packed(number, func(e *encoder) {
					for _, value := range list {
						e.varint(uint64(value))
					}
				})
			}
		},
	}
}

// push appends a number of an unpacked field and charges it.
func push[E any](d *decoder, list *[]E, number int32, value E) error {
	if err := d.charge(int64(unsafe.Sizeof(value))); err != nil {
		return err
	}
	if len(*list) == cap(*list) {
		*list = slices.Grow(*list, d.records(number))
	}
	*list = append(*list, value)
	return nil
}

// float32sField is a list of floats, packed or not; it is written packed.
func float32sField[T any](number int32, name string, at func(*T) *[]float32) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Float32, Repeated: true},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			d.element(len(*list))
			if w != bytesType {
				if err := d.want(w, fixed32Type); err != nil {
					return err
				}
				payload, err := d.readFixed(4)
				if err != nil {
					return err
				}
				return push(d, list, number, math.Float32frombits(binary.LittleEndian.Uint32(payload)))
			}
			payload, err := d.bytes()
			if err != nil {
				return err
			}
			if len(payload)%4 != 0 {
				return d.fail("%d packed bytes are no whole number of floats", len(payload))
			}
			if err := d.charge(int64(len(payload))); err != nil {
				return err
			}
			*list = slices.Grow(*list, len(payload)/4)
			for ; len(payload) > 0; payload = payload[4:] {
				*list = append(*list, math.Float32frombits(binary.LittleEndian.Uint32(payload)))
			}
			return nil
		},
		write: func(e *encoder, m *T) {
			if list := *at(m); len(list) > 0 {
				e.packed(number, func(e *encoder) {
					for _, value := range list {
						e.fixed32(math.Float32bits(value))
					}
				})
			}
		},
	}
}

// messageField is a nested message; a second record is merged into the first.
func messageField[T, C any](number int32, name string, child *message[C], at func(*T) **C) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Nested, Message: &child.info},
		read: func(d *decoder, m *T, w wireType) error {
			p := at(m)
			if *p == nil {
				var c C
				if err := d.charge(int64(unsafe.Sizeof(c))); err != nil {
					return err
				}
				*p = new(C)
			}
			return child.nested(d, *p, w)
		},
		write: func(e *encoder, m *T) {
			if c := *at(m); c != nil {
				e.message(number, func(e *encoder) { child.encode(e, c) })
			}
		},
	}
}

// messagesField is a list of nested messages.
func messagesField[T, C any](number int32, name string, child *message[C], at func(*T) *[]*C) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Nested, Repeated: true, Message: &child.info},
		read: func(d *decoder, m *T, w wireType) error {
			list := at(m)
			if err := next(d, list, number, w); err != nil {
				return err
			}
			c := new(C)
			if err := d.charge(int64(unsafe.Sizeof(*c))); err != nil {
				return err
			}
			*list = append(*list, c)
			return child.nested(d, c, w)
		},
		write: func(e *encoder, m *T) {
			for _, c := range *at(m) {
				e.message(number, func(e *encoder) { child.encode(e, c) })
			}
		},
	}
}

// countField is a repeated message that is skipped and counted.
func countField[T any](number int32, name string, at func(*T) *int) field[T] {
	return field[T]{
		Field: Field{Number: number, Name: name, Kind: Bytes, Repeated: true, Skipped: true},
		read: func(d *decoder, m *T, w wireType) error {
			d.element(*at(m))
			if err := d.want(w, bytesType); err != nil {
				return err
			}
			*at(m)++
			_, err := d.bytes()
			return err
		},
	}
}

// only makes a field a member of a oneof; alone clears the other members.
func only[T any](f field[T], alone func(*T)) field[T] {
	f.alone = alone
	return f
}

// always makes a scalar field whose value is zero be written if its presence bit is set.
func always[T any](f field[T], mark func(*T) *Presence, zero func(e *encoder)) field[T] {
	write := f.write
	f.write = func(e *encoder, m *T) {
		before := e.n
		write(e, m)
		if e.n == before && mark(m).Has(f.Number) {
			zero(e)
		}
	}
	return f
}
