package weir

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// sumArtefact writes the artefact of a model that adds a large constant, and returns its path. Runs read the constant
// from the file, in place.
func sumArtefact(t *testing.T, count int) string {
	t.Helper()
	ones := make([]float32, count)
	for i := range ones {
		ones[i] = float32(i % 7)
	}
	constant, err := tensor.FromSlice(ones, int64(count))
	if err != nil {
		t.Fatal(err)
	}
	g := &wire.GraphProto{Initializer: []*wire.TensorProto{wire.FromTensor("c", constant)},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", wire.DataTypeOf(F32), wire.Size(int64(count)))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.DataTypeOf(F32), wire.Size(int64(count)))},
		Node:   []*wire.NodeProto{{OpType: "Add", Name: "sum", Input: []string{"x", "c"}, Output: []string{"y"}}}}
	m, err := LoadBytes((&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}).
		Marshal())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := Compile(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var b bytes.Buffer
	if _, err := p.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "sum.weir")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fileChange is a change of a model's file while a program reads weights from it.
type fileChange struct {
	name   string
	change func(t *testing.T, path string)
	o      Options
	blind  bool // the program does not check for the change
	fails  string
}

// changedCount is the number of elements of the constant in the file.
const changedCount = 1 << 18

// overwrite changes the constant in a file.
func overwrite(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(data) - 4*changedCount; i < len(data); i += 4 {
		data[i] ^= 1
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
}

// cutShort truncates a file.
func cutShort(t *testing.T, path string) {
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
}

// replace gives the name of a file to another file.
func replace(t *testing.T, path string) {
	if err := os.WriteFile(path+".new", []byte("another"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestFilesThatChange overwrites or truncates a model's file while a program reads weights from it: a run, by
// Program.Run and by a call, ends with an error that names the file. If the check comes before the change, the fault of
// the read, in Go's code and in machine code, is such an error. A private copy, and a file whose name another file
// took, give the same results as before.
func TestFilesThatChange(t *testing.T) {
	if !slices.Contains([]string{"linux", "darwin", "freebsd", "netbsd", "openbsd"}, runtime.GOOS) ||
		os.Getenv("WEIR_MAP") == "off" || !mem.OutsideHeap() {
		t.Skip("files are not mapped here, or cannot be looked at again")
	}
	for _, c := range []fileChange{
		{"written over", overwrite, Options{}, false, "was changed after it was loaded"},
		{"cut short", cutShort, Options{}, false, "was changed after it was loaded"},
		{"cut short, unseen", cutShort, Options{Threads: 2}, true, "cut short"},
		{"cut short, unseen, portable", cutShort, Options{Target: Portable, Threads: 2}, true, "cut short"},
		{"written over, private", overwrite, Options{Private: true}, false, ""},
		{"cut short, private", cutShort, Options{Private: true}, false, ""},
		{"renamed", replace, Options{}, false, ""},
	} {
		t.Run(c.name, c.check)
	}
}

// check changes the file of a program, and runs the program by a call and by Program.Run.
func (c fileChange) check(t *testing.T) {
	path := sumArtefact(t, changedCount)
	m, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := Compile(t.Context(), m, c.o)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if c.blind {
		p.session.Watch(nil)
	} else if watched := len(p.session.Watched()) > 0; watched == c.o.Private {
		t.Fatalf("the file is looked at: %v", watched)
	}
	x, err := New(F32, changedCount)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	call, err := p.NewCall(nil)
	if err == nil {
		err = call.Bind("x", x)
	}
	if err == nil {
		err = call.Run(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	want, err := Copy[float32](call.Output("y"))
	if err != nil {
		t.Fatal(err)
	}
	c.change(t, path)
	again := func() error { // by the call, then by Run
		p.session.Watch(p.session.Watched())
		return call.Run(t.Context())
	}
	for range 2 {
		err := again()
		if c.fails != "" {
			if !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), c.fails) ||
				!strings.Contains(err.Error(), "sum.weir") {
				t.Errorf("the error is %v", err)
			}
		} else if got, e := Copy[float32](call.Output("y")); err != nil || e != nil || !slices.Equal(got, want) {
			t.Errorf("the results are others, or %v, %v", err, e)
		}
		call.Close()
		again = func() error {
			p.session.Watch(p.session.Watched())
			r, err := p.Run(t.Context(), Inputs{"x": x})
			if err == nil {
				got, e := Copy[float32](r.Get("y"))
				if err = e; !slices.Equal(got, want) {
					t.Error("the results are others")
				}
				r.Close()
			}
			return err
		}
		if c.fails == "" { // the second round has no call that could notice it
			if err := again(); err != nil {
				t.Error(err)
			}
			return
		}
	}
}

// TestUnchangedAllocatesNothing checks a file without allocating in Go's heap.
func TestUnchangedAllocatesNothing(t *testing.T) {
	path := sumArtefact(t, 1<<10)
	m, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, b := range m.files.Blocks() {
		if n := testing.AllocsPerRun(20, func() {
			if err := b.Unchanged(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// BenchmarkUnchanged measures the check of a file.
func BenchmarkUnchanged(b *testing.B) {
	f, err := os.Open("examples/digits/data/digits.onnx")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block, err := mem.MapFile(f, "digits")
	if err != nil {
		b.Fatal(err)
	}
	defer block.Close()
	for b.Loop() {
		if err := block.Unchanged(); err != nil {
			b.Fatal(err)
		}
	}
}
