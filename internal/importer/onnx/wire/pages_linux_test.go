package wire_test

import (
	"encoding/binary"
	"math"
	"slices"
	"syscall"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// TestWeightsAreNotTouched parses a model whose weights lie on pages that may not be read: a read of one byte of
// raw_data, of packed float_data or of a doc string ends the process.
func TestWeightsAreNotTouched(t *testing.T) {
	page := syscall.Getpagesize()
	memory, err := syscall.Mmap(-1, 0, 16*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	// Each payload ends where a page ends, and fills it and the page before.
	data := memory[:0]
	end := 0
	var hidden [][]byte
	graph := func(inner []byte, rest int) []byte { // a tag and a length that covers rest more bytes
		return append(binary.AppendUvarint([]byte{7<<3 | 2}, uint64(len(inner)+rest)), inner...)
	}
	payload := slices.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(1.5)), 2*page/4)
	for i, c := range []struct {
		name   string
		number int
	}{{"raw", 9}, {"floats", 4}, {"doc", 12}} {
		head := slices.Concat(varint(1, uint64(2*page/4)), varint(2, uint64(wire.FloatType)), text(8, c.name))
		head = append(binary.AppendUvarint(head, uint64(c.number)<<3|2), binary.AppendUvarint(nil, uint64(2*page))...)
		initializer := append(binary.AppendUvarint([]byte{5<<3 | 2}, uint64(len(head)+2*page)), head...)
		message := graph(initializer, 2*page)
		end = (4*i + 4) * page
		pad := end - 2*page - len(data) - len(message)
		filler := []byte(nil) // an unknown field
		for n := pad - 3; ; n-- {
			if filler = delimited(100, make([]byte, n)); len(filler) == pad {
				break
			}
		}
		data = append(append(append(data, filler...), message...), payload...)
		hidden = append(hidden, memory[end-2*page:end])
	}
	for _, pages := range hidden {
		if err := syscall.Mprotect(pages, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	m, err := wire.ParseModel(data)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range m.Graph.Initializer[:2] {
		v, borrowed, err := p.Tensor()
		if err != nil || !borrowed || v.Len() != int64(2*page/4) {
			t.Fatal(borrowed, err)
		}
		_, offset, ok, err := p.Stored()
		if want := int64((4*i + 2) * page); !ok || offset != want || err != nil {
			t.Errorf("%s lies at %d, want %d (%v)", p.Name, offset, want, err)
		}
	}
	for _, pages := range hidden {
		if err := syscall.Mprotect(pages, syscall.PROT_READ); err != nil {
			t.Fatal(err)
		}
	}
	if v, _, err := m.Graph.Initializer[0].Tensor(); err != nil || v.Float(1) != 1.5 {
		t.Error(v, err)
	}
}
