package mem

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestMapCode: code of several sizes is readable and executable, not writable, and counted in the ledger and the
// kernel.
func TestMapCode(t *testing.T) {
	if !executable {
		if _, err := MapCode("k", []byte{0xC3}); !errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("got %v", err)
		}
		return
	}
	for _, size := range []int64{1, pageSize - 1, pageSize, 3*pageSize + 5} {
		before := Usage()
		code := make([]byte, size)
		FillBytes(code, 0xC3)
		b, err := MapCode("matmul", code)
		if err != nil {
			t.Fatal(err)
		}
		if b.Kind() != Code || b.Size() != size || b.Mapped() != roundUp(size) || !bytes.Equal(b.Bytes(), code) {
			t.Errorf("%d bytes: %+v", size, b.Record())
		}
		now := Usage()
		if got := now.Current[Code] - before.Current[Code]; got != size {
			t.Errorf("%d bytes: the ledger says %d", size, got)
		}
		if full, ok := KernelBytes(b); ok && full.Size != b.Mapped() {
			t.Errorf("%d bytes: the kernel says %+v of %d", size, full, b.Mapped())
		}
		if runtime.GOOS == "linux" {
			if got := permissions(t, b); got != "r-xp" {
				t.Errorf("%d bytes: the pages are %s", size, got)
			}
		}
		if err := b.Protect(true); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if after := Usage(); after.Current != before.Current || after.MappedCurrent != before.MappedCurrent ||
			after.Blocks != before.Blocks {
			t.Errorf("%d bytes: before %+v, after %+v", size, before, after)
		}
	}
}

// permissions returns the kernel's permissions of the mapping at a block's beginning.
func permissions(t *testing.T, b *Block) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("the kernel lists no mappings: ", err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, fmt.Sprintf("%x-", uintptr(b.Pointer()))) {
			return strings.Fields(line)[1]
		}
	}
	t.Fatal("the block is in no mapping")
	return ""
}

// TestMapCodeRefused: a system without executable pages and a lack of memory give different errors, and leave nothing.
func TestMapCodeRefused(t *testing.T) {
	before := Usage()
	restore := RefuseCode()
	_, err := MapCode("k", []byte{0xC3})
	restore()
	var refused *Refusal
	if !errors.Is(err, diag.ErrUnsupported) || errors.Is(err, diag.ErrMemory) || !errors.As(err, &refused) ||
		refused.Wanted.Kind != Code {
		t.Errorf("no executable pages: %v", err)
	}
	if executable {
		restore = FailAfter(0)
		_, err = MapCode("k", []byte{0xC3})
		restore()
		if !errors.Is(err, diag.ErrMemory) || errors.Is(err, diag.ErrUnsupported) {
			t.Errorf("no memory: %v", err)
		}
	}
	if after := Usage(); after.Current != before.Current || after.Blocks != before.Blocks {
		t.Errorf("before %+v, after %+v", before, after)
	}
}
