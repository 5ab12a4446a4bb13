package values

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
)

// FileName is an output's name as a file's, without extension: every character outside A–Z a–z 0–9 . _ - becomes _.
func FileName(output string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, output)
}

// Write puts each output into a file of dir, which it makes, and the map of names to files into outputs.json. Types that .npy lacks are
// written as .pb. Files appear whole or not at all.
func Write(dir string, names []string, outputs []*tensor.Tensor) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files, taken := map[string]string{}, map[string]int{"outputs": 1}
	for i, name := range names {
		base := FileName(name)
		taken[strings.ToLower(base)]++
		if n := taken[strings.ToLower(base)]; n > 1 {
			base = fmt.Sprintf("%s.%d", base, n)
		}
		t := outputs[i]
		ext, write := ".npy", func(f *os.File) error { return npy.Write(f, t) }
		if !npy.Supports(t.DType()) {
			ext, write = ".pb", func(f *os.File) error {
				_, err := wire.FromTensor(name, t).WriteTo(f)
				return err
			}
		}
		if err := whole(filepath.Join(dir, base+ext), write); err != nil {
			return err
		}
		files[name] = base + ext
	}
	return whole(filepath.Join(dir, "outputs.json"), func(f *os.File) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(files)
	})
}

// whole writes a file under another name and then gives it its own.
func whole(path string, write func(f *os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".weir-*")
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Chmod(0o644); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
