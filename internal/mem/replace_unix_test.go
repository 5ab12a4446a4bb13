//go:build unix

package mem

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirml/weir/internal/diag"
)

// TestUmask writes files with the permissions that the umask leaves.
func TestUmask(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	path := filepath.Join(t.TempDir(), "f")
	for _, mask := range []int{0o022, 0o027, 0o077, 0} {
		syscall.Umask(mask)
		if err := Replace(path, false, func(io.Writer) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || int(info.Mode().Perm()) != 0o666&^mask {
			t.Errorf("umask %o: %v, %v", mask, info.Mode(), err)
		}
	}
}

// TestOpenIrregular refuses what is no regular file, before it is opened: opening the pipe would never return.
func TestOpenIrregular(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, c := range []struct {
		name string
		open func() error
		says string
	}{
		{"a pipe", func() error { _, err := Open(pipe); return err }, "is a pipe"},
		{"a pipe in a folder", func() error { _, err := OpenIn(root, "pipe"); return err }, "is a pipe"},
		{"a pipe in a file system", func() error { _, err := OpenFS(os.DirFS(dir), "pipe"); return err }, "is a pipe"},
		{"all of a pipe", func() error { _, err := ReadFile(pipe); return err }, "is a pipe"},
		{"a folder", func() error { _, err := Open(dir); return err }, "is a directory"},
		{"a device", func() error { _, err := Open(os.DevNull); return err }, "is a device"},
	} {
		if err := c.open(); !errors.Is(err, diag.ErrInput) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
