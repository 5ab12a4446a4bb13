package mem

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestMapPages: a block that lies in a file keeps its contents when its pages are dropped and when it is kept in part,
// takes no anonymous memory, and leaves the folder empty.
func TestMapPages(t *testing.T) {
	folder := t.TempDir()
	before := Usage()
	const size = 24<<20 + 5
	b, err := MapPages(folder, "pages", size)
	if err != nil {
		t.Fatal(err)
	}
	if b.Kind() != File || int64(len(b.Bytes())) != size || b.InPages() != outsideHeap ||
		Usage().Current[File]-before.Current[File] != size {
		t.Errorf("%d bytes of kind %s, %d counted", len(b.Bytes()), b.Kind(), Usage().Current[File]-before.Current[File])
	}
	start, told := ProcessBytes()
	Fill(b, 0x5A)
	if now, _ := ProcessBytes(); told && outsideHeap && now.Anonymous-start.Anonymous > size/2 {
		t.Errorf("%d bytes of anonymous memory are for a file of %d", now.Anonymous-start.Anonymous, int64(size))
	}
	b.DontNeed(0, size)
	if err := b.Protect(true); err != nil {
		t.Fatal(err)
	}
	part := [][]byte{b.Bytes()[pageSize+1 : 2*pageSize], b.Bytes()[size-1:]}
	if err := b.Keep(part); err != nil {
		t.Fatal(err)
	}
	if b.keep != nil && b.Mapped() != 2*pageSize {
		t.Errorf("%d bytes stay mapped", b.Mapped())
	}
	for _, p := range part {
		if !bytes.Equal(p, bytes.Repeat([]byte{0x5A}, len(p))) {
			t.Error("what was written is not there any more")
		}
	}
	if err := b.Unchanged(); err != nil {
		t.Errorf("the process's own file: %v", err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || Usage().All != before.All ||
		Usage().MappedAll != before.MappedAll {
		t.Errorf("%v in the folder, %v; %d bytes held", left, err, Usage().All-before.All)
	}
}

// TestFolders makes files in folders that cannot hold them: the errors name the folder.
func TestFolders(t *testing.T) {
	if !outsideHeap {
		t.Skip("no files are mapped here")
	}
	plain := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plain, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(t.TempDir(), "missing"), plain, filepath.Join(plain, "below")}
	if closed := t.TempDir(); os.Chmod(closed, 0o555) == nil && os.Getuid() > 0 { // the superuser writes there
		folders = append(folders, closed)
	}
	for _, folder := range folders {
		_, mapped := MapPages(folder, "weights", 100)
		_, spilled := NewSpill(folder, "results", 100)
		for _, err := range []error{mapped, spilled, CheckFolder(folder, "results")} {
			var e *diag.Error
			if !errors.Is(err, diag.ErrInput) || !errors.As(err, &e) || e.File != folder || e.Fix == "" {
				t.Errorf("%s: %v", folder, err)
			}
		}
	}
	if err := CheckFolder("", "results"); err != nil {
		t.Error(err)
	}
}

// TestMapPagesRefused: if the memory or the space of a file is refused, MapPages returns ErrMemory and leaves neither a
// file nor a count.
func TestMapPagesRefused(t *testing.T) {
	if !outsideHeap {
		t.Skip("no files are mapped here")
	}
	folder := t.TempDir()
	before := Usage()
	for n := range int64(3) {
		restore := FailAfter(n)
		b, err := MapPages(folder, "weights", 100)
		restore()
		if err == nil {
			b.Close()
			t.Fatalf("granted after %d takings", n)
		}
		if !errors.Is(err, diag.ErrMemory) {
			t.Errorf("after %d takings: %v", n, err)
		}
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 || Usage().MappedAll != before.MappedAll ||
		Usage().Spilled != before.Spilled {
		t.Errorf("%v in the folder, %v", left, err)
	}
}

// TestGrowing fills blocks as they grow, in memory and in files, under a limit: only the pages that they have are
// counted.
func TestGrowing(t *testing.T) {
	for _, inPages := range []bool{false, true} {
		before, start := Usage(), live()
		ResetPeaks()
		size := 9*pageSize + 7
		b, err := MapGrowing(Weights, inPages, t.TempDir(), "growing", size)
		if err != nil {
			t.Fatal(err)
		}
		if counted := Usage().MappedAllPeak - before.MappedAll; inParts && counted != 0 || b.Mapped() != counted {
			t.Errorf("%d bytes counted at the start, %d of the block", counted, b.Mapped())
		}
		if b.InPages() != (inPages && outsideHeap) || len(live()) != len(start)+1 {
			t.Errorf("in pages %v: %v", inPages, b.InPages())
		}
		limit := SetLimit(before.Held + 4*pageSize)
		for _, to := range []int64{1, pageSize, 3*pageSize - 1, 2 * pageSize} {
			if err := b.Grow(to); err != nil {
				t.Fatal(err)
			}
			FillBytes(b.Bytes()[:to], byte(to))
		}
		if counted := Usage().MappedAll - before.MappedAll; inParts && (counted != 3*pageSize || b.Mapped() != counted) {
			t.Errorf("%d bytes counted, %d of the block, for 3 pages", counted, b.Mapped())
		}
		if held := Usage().Held - before.Held; inParts && b.reclaimable && held != 0 {
			t.Errorf("a limit counts %d bytes of a file", held)
		}
		if err := b.Grow(size); inParts && errors.Is(err, diag.ErrMemory) == b.reclaimable {
			t.Errorf("10 pages where 4 are allowed, in pages %v: %v", inPages, err)
		}
		SetLimit(limit)
		if err := b.Grow(size); err != nil {
			t.Fatal(err)
		}
		FillBytes(b.Bytes(), 7)
		if err := b.Protect(true); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if after := Usage(); after.All != before.All || after.MappedAll != before.MappedAll {
			t.Errorf("%d bytes held", after.MappedAll-before.MappedAll)
		}
	}
}
