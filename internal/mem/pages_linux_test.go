package mem

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirml/weir/internal/diag"
)

// TestFullDisk fills a tmpfs of 1 MiB, in a process that has a mount of its own: a file that does not fit is refused
// when the file is made, and no write to a block that was granted faults.
func TestFullDisk(t *testing.T) {
	folder := os.Getenv("WEIR_TEST_TMPFS")
	if folder == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestFullDisk$", "-test.count=1", "-test.v")
		again.Env = append(os.Environ(), "WEIR_TEST_TMPFS="+t.TempDir())
		again.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
		out, err := again.CombinedOutput()
		if failed := (*exec.ExitError)(nil); err != nil && !errors.As(err, &failed) {
			t.Skipf("this system does not give a process a mount of its own: %v", err)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("this system does not mount for this user:\n%s", out)
		}
		return
	}
	if err := unix.Mount("none", folder, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	if _, inMemory := Folder(folder); !inMemory {
		t.Error("a tmpfs is not told as memory")
	}
	if b, err := MapPages(folder, "weights", 2<<20); !errors.Is(err, diag.ErrMemory) || !errors.Is(err, unix.ENOSPC) ||
		!strings.Contains(err.Error(), folder) {
		t.Errorf("2 MiB of a folder with 1: %v, %v", b, err)
	}
	if s, err := NewSpill(folder, "results", 2<<20); !errors.Is(err, diag.ErrMemory) || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("2 MiB of a folder with 1: %v, %v", s, err)
	}
	first, err := MapPages(folder, "weights", 600<<10)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := MapPages(folder, "more", 600<<10); !errors.Is(err, diag.ErrMemory) {
		t.Errorf("600 KiB more: %v, %v", b, err)
	}
	fill, err := os.Create(folder + "/others")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil { // fill the remaining space
		_, err = fill.Write(make([]byte, 64<<10))
	}
	if err := CatchFaults(func() error { Fill(first, 1); return nil }); err != nil {
		t.Errorf("writing what was granted: %v", err)
	}
	part := [][]byte{first.Bytes()[:100]}
	if err := first.Keep(part); err != nil { // the space of the other pages is freed
		t.Fatal(err)
	}
	second, err := MapPages(folder, "more", 500<<10)
	if err != nil {
		t.Fatal(err)
	}
	Fill(second, 2)
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
}
