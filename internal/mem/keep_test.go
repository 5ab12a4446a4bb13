package mem

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestKeep keeps random ranges of a mapped file, and then maps the entire file again: the contents and the ledger's
// counts are right each time. A limit on memory and a file that was cut are errors.
func TestKeep(t *testing.T) {
	if !outsideHeap {
		t.Skip("no mappings here")
	}
	r := rand.New(rand.NewSource(1))
	want := make([]byte, 37*pageSize+123)
	r.Read(want)
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, want, 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := Usage().MappedAll
	b, err := MapFile(f, "f")
	if err != nil {
		t.Fatal(err)
	}
	if b.keep == nil {
		t.Skip("this system does not map a file in part")
	}
	for range 200 {
		var data [][]byte
		pages := map[int64]bool{}
		for range r.Intn(6) {
			at := r.Int63n(b.size)
			n := 1 + r.Int63n(min(b.size-at, 3*pageSize))
			data = append(data, b.Bytes()[at:at+n])
			for p := at / pageSize; p <= (at+n-1)/pageSize; p++ {
				pages[p] = true
			}
		}
		data = append(data, want[:10]) // not in the mapping
		if kept := b.Kept(data); kept != int64(len(pages))*pageSize {
			t.Fatalf("%d bytes would be kept, not %d pages", kept, len(pages))
		}
		if err := b.Keep(data); err != nil {
			t.Fatal(err)
		}
		if now := Usage().MappedAll - before; now != int64(len(pages))*pageSize || b.Mapped() != now {
			t.Fatalf("%d bytes counted, %d of the block, for %d pages", now, b.Mapped(), len(pages))
		}
		for p := range pages {
			end := min((p+1)*pageSize, b.size)
			if !bytes.Equal(b.Bytes()[p*pageSize:end], want[p*pageSize:end]) {
				t.Fatalf("page %d is not the file's", p)
			}
		}
	}
	if err := b.Keep(nil); err != nil {
		t.Fatal(err)
	}
	limit := SetLimit(Usage().Held + b.size - pageSize)
	b.reclaimable = false // as if the file lay in memory
	if err := b.KeepAll(); !errors.Is(err, diag.ErrMemory) {
		t.Errorf("mapped again beyond the limit: %v", err)
	}
	SetLimit(limit)
	b.reclaimable = true
	held := Usage().Held
	for pages, data := range [][][]byte{nil, {b.Bytes()[:1]}, {b.Bytes()[:pageSize], b.Bytes()[5:9],
		b.Bytes()[pageSize:][:1]}, nil} {
		b.Pin(data)
		if got := Usage().Held - held; got != int64(pages%3)*pageSize || b.Held() != got {
			t.Errorf("%d bytes are pinned, %d of the block, not %d pages", got, b.Held(), pages%3)
		}
	}
	if err := b.KeepAll(); err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("the whole again: %v", err)
	}
	if err := b.Keep(nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, want[1:], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := b.KeepAll(); !errors.Is(err, diag.ErrInput) {
		t.Errorf("a file that was cut: %v", err)
	}
	b.Close()
	if now := Usage().MappedAll; now != before {
		t.Errorf("%d bytes are left", now-before)
	}
}
