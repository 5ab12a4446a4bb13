package mem

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirml/weir/internal/diag"
)

// TestKernelAgrees: the kernel's count of blocks equals the ledger's, also after Protect; closed blocks count nothing.
func TestKernelAgrees(t *testing.T) {
	var blocks []*Block
	var want Extent
	for i, size := range []int64{1, pageSize, pageSize + 1, 10 * pageSize, 0, 3} {
		b := mustMap(t, Outputs, "k", size) // its pages become resident when they are touched
		blocks = append(blocks, b)
		want.Size += b.Mapped()
		touched := int64(0)
		for p := int64(0); p < size && touched < int64(i); p += pageSize {
			b.Bytes()[p] = 1
			touched++
		}
		want.Resident += touched * pageSize
	}
	got, ok := KernelBytes(blocks...)
	if !ok {
		t.Fatal("the kernel does not tell")
	}
	if got != want {
		t.Errorf("the kernel says %+v, the ledger %+v", got, want)
	}
	// A change of protection must not merge a block with its neighbours.
	for _, b := range blocks {
		if err := b.Protect(true); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := KernelBytes(blocks...); got != want {
		t.Errorf("read-only, the kernel says %+v, the ledger %+v", got, want)
	}
	if size, ok := KernelSize(blocks...); !ok || size != want.Size {
		t.Errorf("the kernel's list says %d bytes, the ledger %d", size, want.Size)
	}
	for _, b := range blocks {
		b.Close()
	}
	if got, _ := KernelBytes(blocks...); got != (Extent{}) {
		t.Errorf("closed, the kernel says %+v", got)
	}
}

// TestKernelNamed: the kernel's counts by name equal the ledger's by kind, also for labels with odd characters.
func TestKernelNamed(t *testing.T) {
	before, ok := KernelNamed()
	if !ok {
		t.Skip("this kernel keeps no names of anonymous mappings (CONFIG_ANON_VMA_NAME)")
	}
	b := mustMap(t, Scratch, "worker [0]\\ $x `y` \u00e4"+strings.Repeat("z", 200), 5*pageSize-1)
	b.Bytes()[0] = 1
	other := mustMap(t, Outputs, "", 1)
	after, _ := KernelNamed()
	if got := after[Scratch].Size - before[Scratch].Size; got != b.Mapped() {
		t.Errorf("scratch: the kernel says %d, the ledger %d", got, b.Mapped())
	}
	if got := after[Scratch].Resident - before[Scratch].Resident; got != pageSize {
		t.Errorf("scratch: the kernel says %d bytes are resident", got)
	}
	if got := after[Outputs].Size - before[Outputs].Size; got != other.Mapped() {
		t.Errorf("outputs: the kernel says %d, the ledger %d", got, other.Mapped())
	}
	poison := SetPoison(true)
	b.Close()
	other.Close()
	last, _ := KernelNamed()
	SetPoison(poison)
	if last != before {
		t.Errorf("after Close the kernel says %+v, before %+v", last, before)
	}
}

// TestDontNeedDropsPages: after DontNeed the kernel counts no resident pages of the file.
func TestDontNeedDropsPages(t *testing.T) {
	f := file(t, make([]byte, 64*pageSize))
	b, err := MapFile(f, "model")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	sum := 0
	for p := int64(0); p < b.Size(); p += pageSize {
		sum += int(b.Bytes()[p])
	}
	full, ok := KernelBytes(b)
	if !ok || full.Size != b.Mapped() || full.Resident != b.Mapped() {
		t.Fatalf("all read: the kernel says %+v of %d (sum %d)", full, b.Mapped(), sum)
	}
	b.DontNeed(0, b.Size())
	if empty, _ := KernelBytes(b); empty.Resident != 0 || empty.Size != b.Mapped() {
		t.Errorf("after DontNeed the kernel says %+v", empty)
	}
}

// TestReadAtLeavesNoPages: ReadAt maps no page of the file.
func TestReadAtLeavesNoPages(t *testing.T) {
	f := file(t, make([]byte, 1<<20))
	b := mustMap(t, Weights, "w", 1<<20)
	if err := b.ReadAt(f, 0, 0, 1<<20); err != nil {
		t.Fatal(err)
	}
	err := eachMapping(residentList, func(m *kernelMapping) {
		if strings.HasPrefix(m.name, f.Name()) {
			t.Errorf("the file is mapped: %+v", m)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTruncatedFileIsAnError: reading a mapped file that was cut short is an ErrInput with its name, not a crash.
func TestTruncatedFileIsAnError(t *testing.T) {
	f := file(t, make([]byte, 8*pageSize))
	b, err := MapFile(f, "model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := f.Truncate(pageSize); err != nil {
		t.Fatal(err)
	}
	into := make([]byte, b.Size())
	err = CatchFaults(func() error { copy(into, b.Bytes()); return nil })
	if !errors.Is(err, diag.ErrInput) || !strings.HasPrefix(err.Error(), "model.onnx: the file was cut short") {
		t.Errorf("got %v", err)
	}
}

// TestPipeIsRefused: mapping a pipe is an ErrInput.
func TestPipeIsRefused(t *testing.T) {
	path := t.TempDir() + "/pipe"
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	pipe := os.NewFile(uintptr(fd), path)
	defer pipe.Close()
	if _, err := MapFile(pipe, "pipe"); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), "is a pipe") {
		t.Errorf("got %v", err)
	}
}

// TestProcessPeak: the process's peak grows by a block that was written and closed.
func TestProcessPeak(t *testing.T) {
	p, ok := ProcessBytes()
	if !ok || p.Resident <= 0 || p.Peak < p.Resident/2 {
		t.Fatalf("got %+v, %v", p, ok)
	}
	if !ResetProcessPeak() {
		t.Skip("this kernel does not let the peak be reset")
	}
	base, _ := ProcessBytes()
	const size = 64 << 20
	b := mustMap(t, Arena, "a", size)
	Fill(b, 1)
	b.Close()
	after, _ := ProcessBytes()
	// The kernel gathers its counts per processor before it adds them up, so they lag by some pages.
	if grown := after.Peak - base.Peak; grown < size-(1<<20) || grown > size+(8<<20) {
		t.Errorf("the peak grew by %d for a block of %d", grown, size)
	}
}
