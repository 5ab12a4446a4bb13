package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// TestFileNames: outputs get distinct file names, also if they differ only in case or in replaced characters.
func TestFileNames(t *testing.T) {
	for _, row := range []struct{ names, want []string }{
		{[]string{"y", "z"}, []string{"y", "z"}},
		{[]string{"y", "Y", "y"}, []string{"y", "Y.2", "y.3"}},
		{[]string{"a/b", "a b", "a_b.2"}, []string{"a_b", "a_b.2", "a_b.2.2"}},
		{[]string{"y.2", "y", "y"}, []string{"y.2", "y", "y.3"}},
		{[]string{"outputs", "ü"}, []string{"outputs", "_"}},
	} {
		if got := fileNames(row.names); !slices.Equal(got, row.want) {
			t.Errorf("%q become %q, want %q", row.names, got, row.want)
		}
	}
}

// TestWrite writes results, reads them back, and checks that a failed write leaves no file.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	half, err := tensor.New(dtype.BF16, 2)
	if err != nil {
		t.Fatal(err)
	}
	single, err := tensor.New(dtype.F32, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, []Value{Of("x:0", half), Of("outputs", single)}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "outputs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var files map[string]string
	if err := json.Unmarshal(text, &files); err != nil || files["x:0"] != "x_0.pb" || files["outputs"] != "outputs.npy" {
		t.Errorf("outputs.json is %s, %v", text, err)
	}
	for name, dt := range map[string]weir.DType{"x_0.pb": weir.BF16, "outputs.npy": weir.F32} {
		info := weir.Info{Name: "x", DType: dt, Shape: []weir.Extent{{Size: -1, Dim: "n"}}}
		if name == "outputs.npy" {
			info.Shape = []weir.Extent{{Size: -1, Dim: "n"}, {Size: 3}}
		}
		r := &Reader{Dims: weir.Dims{}}
		x, err := r.Tensor(filepath.Join(dir, name), info)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Dims["n"] != 2 {
			t.Errorf("%s: the value binds %v", name, r.Dims)
		}
		x.Close()
		if _, err := (&Reader{Dims: weir.Dims{"n": 5}}).Tensor(filepath.Join(dir, name), info); err == nil {
			t.Errorf("%s: a value of another size than a bound dimension was taken", name)
		}
	}
	failing := errors.New("full")
	before, _ := os.ReadDir(dir)
	if err := WriteAtomic(filepath.Join(dir, "late"), func(w io.Writer) error {
		w.Write([]byte("half"))
		return failing
	}); !errors.Is(err, failing) {
		t.Errorf("a failed write: %v", err)
	}
	if after, _ := os.ReadDir(dir); len(after) != len(before) {
		t.Errorf("a failed write left something: %v", after)
	}
}

// TestRandomKeepsToItsRange: random integers cover their input's range, or the range in the value, and do not leave it.
func TestRandomKeepsToItsRange(t *testing.T) {
	info := weir.Info{Name: "i", DType: weir.I64, Shape: []weir.Extent{{Size: 200}}}
	for _, row := range []struct {
		value  string
		lo, hi int64
	}{{"random", 0, 6}, {"random:-3..4", -3, 4}} {
		r := &Reader{Dims: weir.Dims{}, Range: func(string) (int64, int64, bool) { return 0, 6, true }}
		x, err := r.Tensor(row.value, info)
		if err != nil {
			t.Fatal(err)
		}
		list, err := weir.Copy[int64](x)
		if err != nil || slices.Min(list) != row.lo || slices.Max(list) != row.hi {
			t.Errorf("%s gives %d to %d, %v", row.value, slices.Min(list), slices.Max(list), err)
		}
		x.Close()
	}
	if _, err := (&Reader{Dims: weir.Dims{}}).Tensor("random:4..x", info); err == nil {
		t.Error("random:4..x was taken")
	}
}

// TestWriteAtomicInPlace writes to what is there already: a file and the file behind a link are replaced, a pipe is
// written to, and a folder stays.
func TestWriteAtomicInPlace(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	write := func(path, text string) error {
		return WriteAtomic(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
	}
	if err := write(file, "first"); err != nil {
		t.Fatal(err)
	}
	to := file
	if err := os.Symlink("file", link); err == nil {
		to = link
	}
	if err := write(to, "second"); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "second" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if r, w, err := os.Pipe(); err != nil {
		t.Fatal(err)
	} else if pipe := fmt.Sprintf("/proc/self/fd/%d", w.Fd()); runtime.GOOS == "linux" {
		err := write(pipe, "third")
		w.Close()
		if text, _ := io.ReadAll(r); err != nil || string(text) != "third" {
			t.Errorf("the pipe got %q, %v", text, err)
		}
		r.Close()
	}
	for path, want := range map[string]string{dir: "it is a folder",
		filepath.Join(dir, "none", "file"): "folder " + filepath.Join(dir, "none") + ": "} {
		if err := write(path, "fourth"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, not %q", path, err, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".weir-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
