package executor

import (
	"errors"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// greedy is a kernel that asks for 64 bytes of scratch and writes a given number of bytes.
type greedy struct {
	nothing
	writes int
}

// Run writes nonzero bytes from the beginning of the scratch, also beyond its end.
func (k *greedy) Run(_ *target.Args, _, _ int64, scratch []byte) error {
	all := unsafe.Slice(unsafe.SliceData(scratch), k.writes)
	for i := range all {
		all[i] = byte(i) | 1
	}
	return nil
}

// TestScratchIsWatched finds the highest byte of scratch that a kernel wrote, and names a kernel that wrote more than
// it asked for.
func TestScratchIsWatched(t *testing.T) {
	for _, writes := range []int{0, 1, 40, 64, 65, 100, 4096} {
		c := chain(t, 2, Options{Threads: 1}, func(name string) target.Kernel { return &greedy{nothing{name, 1}, writes} })
		c.Watch(0x5a)
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		m := c.Measured(0x5a)
		if m.ScratchWritten != int64(writes) {
			t.Errorf("%d bytes written, %d found", writes, m.ScratchWritten)
		}
		if over := writes > 64; over != (m.Beyond != nil) || over &&
			(!errors.Is(m.Beyond, diag.ErrInternal) || !strings.Contains(m.Beyond.Error(), "asked for 64")) {
			t.Errorf("%d bytes written of 64: %v", writes, m.Beyond)
		}
		c.Close()
	}
}
