//go:build unix

package onnx

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// TestExternalDevices refuses files that are not regular. Opening the pipe would never return.
func TestExternalDevices(t *testing.T) {
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, x := range []*external{externalIn(noClaim(), folder),
		externalFS(noClaim(), os.DirFS(folder), "m.onnx")} {
		for _, location := range []string{"pipe", "folder"} {
			_, err := x.Tensor(externalTensor(wire.FloatType, []int64{1}, "location", location))
			if err == nil || !strings.Contains(err.Error(), "regular file") {
				t.Errorf("%s: %v", location, err)
			}
		}
		x.Close()
	}
}
