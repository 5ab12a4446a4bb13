package wire

import (
	"bytes"
	"encoding/binary"
	"io"
	"math"
)

// encoder writes to w and counts the bytes; if w is nil, it only counts them, which gives the length of a nested
// message before it is written. A message is therefore measured once for every level between it and the outermost one,
// and nothing is buffered. err is the first error; nothing is written after it.
type encoder struct {
	w   io.Writer
	n   int64
	err error
}

// write writes data and counts it.
func (e *encoder) write(data []byte) {
	e.n += int64(len(data))
	if e.w != nil && e.err == nil {
		_, e.err = e.w.Write(data)
	}
}

// varint writes an integer of variable length.
func (e *encoder) varint(value uint64) {
	var buffer [binary.MaxVarintLen64]byte
	e.write(binary.AppendUvarint(buffer[:0], value))
}

// fixed32 writes 4 bytes, little-endian.
func (e *encoder) fixed32(bits uint32) {
	var buffer [4]byte
	binary.LittleEndian.PutUint32(buffer[:], bits)
	e.write(buffer[:])
}

func (e *encoder) tag(number int32, w wireType) { e.varint(uint64(number)<<3 | uint64(w)) }

// int writes a field of an integer.
func (e *encoder) int(number int32, value int64) {
	e.tag(number, varintType)
	e.varint(uint64(value))
}

// float32 writes a field of a float.
func (e *encoder) float32(number int32, value float32) {
	e.tag(number, fixed32Type)
	e.fixed32(math.Float32bits(value))
}

// bytes writes a length-delimited field.
func (e *encoder) bytes(number int32, payload []byte) {
	e.tag(number, bytesType)
	e.varint(uint64(len(payload)))
	e.write(payload)
}

func (e *encoder) writeString(number int32, s string) { e.bytes(number, []byte(s)) }

// message writes a length-delimited payload that body produces; it calls body twice, first to measure it.
func (e *encoder) message(number int32, body func(*encoder)) {
	var size encoder
	body(&size)
	e.tag(number, bytesType)
	e.varint(uint64(size.n))
	if e.w == nil {
		e.n += size.n
		return
	}
	body(e)
}

// packed writes a packed list of numbers.
func (e *encoder) packed(number int32, body func(*encoder)) { e.message(number, body) }

// encodeTo writes a message and returns the bytes that it wrote, and the writer's error.
func encodeTo[T any](w io.Writer, s *message[T], m *T) (int64, error) {
	e := encoder{w: w}
	s.encode(&e, m)
	if e.err != nil {
		return e.n, e.err
	}
	return e.n, nil
}

// marshal returns the bytes of a message.
func marshal[T any](s *message[T], m *T) []byte {
	var size encoder
	s.encode(&size, m)
	var out bytes.Buffer
	out.Grow(int(size.n))
	encodeTo(&out, s, m)
	return out.Bytes()
}
