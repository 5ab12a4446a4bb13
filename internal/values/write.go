package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor/npy"
)

// FileName returns an output's name as a file name without extension: each character outside A–Z a–z 0–9 . _ - becomes
// _.
func FileName(output string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, output)
}

// fileNames returns a unique file name for each output, case ignored: the first with a FileName gets it, the next ones
// get it with .2, .3 and so on.
func fileNames(outputs []string) []string {
	names, taken := make([]string, len(outputs)), map[string]bool{}
	for i, output := range outputs {
		base := FileName(output)
		for n := 2; taken[strings.ToLower(base)]; n++ {
			base = fmt.Sprintf("%s.%d", FileName(output), n)
		}
		names[i], taken[strings.ToLower(base)] = base, true
	}
	return names
}

// Write writes each output to a file of dir, which it creates if necessary, and the map of names to files to
// outputs.json. Types that .npy does not have, and strings, which .npy would pad, are written as .pb. Each file is
// complete or absent.
func Write(dir string, outputs []Value) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	files := map[string]string{}
	names := make([]string, len(outputs))
	for i, v := range outputs {
		names[i] = v.Name
	}
	for i, base := range fileNames(names) {
		name, v := names[i], outputs[i]
		ext, write := ".pb", func(w io.Writer) error {
			_, err := v.WriteTo(w)
			return err
		}
		if !v.Sequence && !v.Optional && npy.Supports(v.Tensors[0].DType()) && v.Tensors[0].DType() != dtype.String {
			ext, write = ".npy", func(w io.Writer) error { return npy.Write(w, v.Tensors[0]) }
		}
		if err := WriteAtomic(filepath.Join(dir, base+ext), write); err != nil {
			return err
		}
		files[name] = base + ext
	}
	return WriteAtomic(filepath.Join(dir, "outputs.json"), func(f io.Writer) error {
		e := json.NewEncoder(f)
		e.SetIndent("", "  ")
		return e.Encode(files)
	})
}

// WriteAtomic writes a file under a temporary name, and renames it to path when it is complete. A link stays, and what
// it points to is replaced. A device or a pipe is written to as it is.
func WriteAtomic(path string, write func(w io.Writer) error) error {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return errors.New("it is a folder")
	} else if err == nil && !info.Mode().IsRegular() {
		return writeInto(path, write)
	}
	var written error
	err := mem.Replace(path, false, func(w io.Writer) error { written = write(w); return written })
	if e := (*fs.PathError)(nil); written == nil && errors.As(err, &e) {
		return fmt.Errorf("folder %s: %w", filepath.Dir(path), e.Err)
	}
	return err
}

// writeInto writes to what is at path already.
func writeInto(path string, write func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
