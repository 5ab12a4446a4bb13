// Package gguftest writes the beginning of GGUF files, for tests.
package gguftest

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Writer collects the metadata of a file.
type Writer struct {
	data  []byte
	count uint64
}

// Uint32 writes a number by itself.
func (w *Writer) Uint32(n uint32) { w.data = binary.LittleEndian.AppendUint32(w.data, n) }

// Uint64 writes a number by itself.
func (w *Writer) Uint64(n uint64) { w.data = binary.LittleEndian.AppendUint64(w.data, n) }

// Text writes a text by itself.
func (w *Writer) Text(s string) { w.Uint64(uint64(len(s))); w.data = append(w.data, s...) }

// Add writes a key and its value: a text, true or false, a number of 32 bits, or a list of texts, floats, numbers or
// bytes.
func (w *Writer) Add(key string, value any) {
	const typeUint8, typeUint32, typeInt32, typeFloat32, typeBool, typeText, typeList = 0, 4, 5, 6, 7, 8, 9
	w.count++
	w.Text(key)
	list := func(kind uint32, n int) {
		w.Uint32(typeList)
		w.Uint32(kind)
		w.Uint64(uint64(n))
	}
	switch v := value.(type) {
	case string:
		w.Uint32(typeText)
		w.Text(v)
	case bool:
		w.Uint32(typeBool)
		if w.data = append(w.data, 0); v {
			w.data[len(w.data)-1] = 1
		}
	case int:
		w.Uint32(typeUint32)
		w.Uint32(uint32(v))
	case []string:
		list(typeText, len(v))
		for _, s := range v {
			w.Text(s)
		}
	case []float32:
		list(typeFloat32, len(v))
		for _, f := range v {
			w.Uint32(math.Float32bits(f))
		}
	case []int32:
		list(typeInt32, len(v))
		for _, n := range v {
			w.Uint32(uint32(n))
		}
	case []byte:
		list(typeUint8, len(v))
		w.data = append(w.data, v...)
	default:
		panic(fmt.Sprintf("%T", value))
	}
}

// File returns a file of version 3 with the metadata, and without tensors.
func (w *Writer) File() []byte {
	head := Writer{data: []byte("GGUF")}
	head.Uint32(3)
	head.Uint64(0)
	head.Uint64(w.count)
	return append(head.data, w.data...)
}
