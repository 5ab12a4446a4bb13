package mem

import (
	"bytes"
	"testing"
)

// TestMove: Move copies all bytes and leaves none of the file resident; Forget leaves none either.
func TestMove(t *testing.T) {
	contents := make([]byte, 2*movePiece+5*int(pageSize)+3)
	for i := range contents {
		contents[i] = byte(i>>8) ^ byte(i)
	}
	b, err := MapFile(file(t, contents), "model")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for _, from := range [][]byte{nil, contents[3:9], b.Bytes()[:0], b.Bytes(), b.Bytes()[7 : 3*pageSize+1]} {
		to := make([]byte, len(from))
		Move(to, from)
		if !bytes.Equal(to, from) {
			t.Errorf("%d bytes: the copy differs", len(from))
		}
	}
	Move(make([]byte, len(contents)), b.Bytes())
	Forget(contents)
	if e, ok := KernelBytes(b); ok {
		if e.Resident != 0 {
			t.Errorf("after Move %d bytes of the file are resident", e.Resident)
		}
		sum := byte(0)
		for _, x := range b.Bytes() {
			sum ^= x
		}
		Forget(b.Bytes()[pageSize:])
		// The kernel may also drop the first page, if one large page-table entry maps all of them.
		if e, _ := KernelBytes(b); e.Resident > pageSize {
			t.Errorf("after Forget %d bytes of the file are resident (%d)", e.Resident, sum)
		}
	}
}

// TestFileOf: data at the edges of a file are found in it, other data are not.
func TestFileOf(t *testing.T) {
	b, err := MapFile(file(t, make([]byte, 100)), "model")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	data := b.Bytes()
	for _, test := range []struct {
		data []byte
		at   int64
		in   bool
	}{
		{data, 0, true}, {data[99:], 99, true}, {data[10:20], 10, true}, {data[:0], 0, false}, {make([]byte, 8), 0, false},
		{make([]byte, 4096), 0, false},
	} {
		got, at := fileOf(test.data)
		if (got == b) != test.in || test.in && at != test.at {
			t.Errorf("%d bytes: found %v at %d, want %v at %d", len(test.data), got == b, at, test.in, test.at)
		}
	}
}
