package weir_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// refusals is the most models of testdata whose artefacts may be refused. For one binding, two facts about kernels are
// not proved: the bounds of a halved index, and a pad in a branch that is not taken.
const refusals = 2

// TestArtefactEqualsModel runs models and their artefacts on the same inputs: results are equal to the bit, and the
// certificates are equal.
func TestArtefactEqualsModel(t *testing.T) {
	dirs, err := filepath.Glob("testdata/onnx/*/model.onnx")
	if err != nil || len(dirs) < 30 {
		t.Fatalf("%d models, %v", len(dirs), err)
	}
	compiled, same := 0, 0
	for _, path := range dirs {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			m, err := weir.Load(path)
			if err != nil {
				t.Skipf("refused, which other tests are about: %v", err)
			}
			defer m.Close()
			if p, err := weir.Compile(t.Context(), m, weir.Options{}); err == nil {
				compiled++
				p.Close()
			}
			p, file := weirtest.ArtefactOf(t, m)
			defer p.Close()
			sets, _ := filepath.Glob(filepath.Join(dir, "test_data_set_*"))
			if len(sets) == 0 {
				t.Fatal("no inputs")
			}
			in := weir.Inputs{}
			for i, info := range p.Inputs() {
				in[info.Name] = weirtest.Stored(t, filepath.Join(sets[0], fmt.Sprintf("input_%d.pb", i)), info)
			}
			sameAsModel(t, m, p, file, in)
			same++
		})
	}
	if same < compiled-refusals || same < 30 {
		t.Errorf("%d of %d models have an artefact that equals them", same, compiled)
	}
}

// sameAsModel fails t unless an artefact of p has the results, the certificate and the requirements of p.
func sameAsModel(t *testing.T, m *weir.Model, p *weir.Program, file []byte, in weir.Inputs) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.anything")
	if err := os.WriteFile(path, file, 0o666); err != nil {
		t.Fatal(err)
	}
	again, err := weir.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	q, err := weir.Compile(t.Context(), again, weir.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if a, b := fmt.Sprint(p.Inputs(), p.Outputs(), m.Outputs(), p.Requires(), p.Proved(), p.Dims(), p.Target(),
		m.Metadata(), m.Describe()), fmt.Sprint(q.Inputs(), q.Outputs(), again.Outputs(), q.Requires(), q.Proved(), q.Dims(),
		q.Target(), again.Metadata(), again.Describe()); a != b {
		t.Errorf("the model says\n%s\nits artefact\n%s", a, b)
	}
	if a, b := p.Memory().String()+p.Operations().String(), q.Memory().String()+q.Operations().String(); a != b ||
		p.Memory().Proven != q.Memory().Proven {
		t.Errorf("the model's certificate is\n%s\nits artefact's\n%s", a, b)
	}
	want, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	got, err := q.Run(t.Context(), in)
	if errors.Is(err, weir.ErrUnsupported) {
		t.Skipf("refused by name: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer got.Close()
	for i, info := range p.Outputs() {
		if x, y := weirtest.Contents(t, want, i, info), weirtest.Contents(t, got, i, info); x != y {
			t.Errorf("%s is %.200s, and %.200s from the artefact", info.Name, x, y)
		}
	}
	x, err1 := p.Measure(t.Context(), in)
	y, err2 := q.Measure(t.Context(), in)
	if err1 != nil || err2 != nil || !reflect.DeepEqual(x, y) {
		t.Errorf("the model measures %+v (%v), its artefact %+v (%v)", x, err1, y, err2)
	}
	var twice bytes.Buffer
	if _, err := q.WriteTo(&twice); err != nil || !bytes.Equal(twice.Bytes(), file) {
		t.Errorf("an artefact's artefact is another: %d bytes for %d, %v", twice.Len(), len(file), err)
	}
}

// digitsArtefact returns an artefact of the digits model.
func digitsArtefact(t testing.TB) []byte {
	m, err := weir.LoadBytes(weirtest.Digits(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, file := weirtest.ArtefactOf(t, m)
	p.Close()
	return file
}

// TestArtefactOfDigits compares the digits' artefact with its model for several batches.
func TestArtefactOfDigits(t *testing.T) {
	m, err := weir.LoadBytes(weirtest.Digits(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, file := weirtest.ArtefactOf(t, m)
	defer p.Close()
	pixels := make([]float32, 3*8*8)
	for i := range pixels {
		pixels[i] = float32(i%7) / 7
	}
	x, err := weir.FromSlice(pixels, 3, 1, 8, 8)
	if err != nil {
		t.Fatal(err)
	}
	sameAsModel(t, m, p, file, weir.Inputs{"image": x})

	fsys := fstest.MapFS{"m.weir": {Data: file}}
	for name, load := range map[string]func() (*weir.Model, error){
		"LoadFS":             func() (*weir.Model, error) { return weir.LoadFS(fsys, "m.weir") },
		"LoadBytes":          func() (*weir.Model, error) { return weir.LoadBytes(file) },
		"LoadBytes, shifted": func() (*weir.Model, error) { return weir.LoadBytes(append([]byte{0}, file...)[1:]) },
	} {
		a, err := load()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q, err := weir.Compile(t.Context(), a, weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 4}}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a.Close()
		if _, err := q.Memory().Max(1); err != nil {
			t.Errorf("%s: a bounded dimension has no bound: %v", name, err)
		}
		r, err := q.Run(t.Context(), weir.Inputs{"image": x})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r.Close()
		q.Close()
	}
}

// reseal corrects the checksum of a changed artefact.
func reseal(file []byte) []byte {
	if len(file) < 64 {
		return file
	}
	texts := uint64(0)
	for i := range 3 {
		texts += min(binary.LittleEndian.Uint64(file[16+8*i:]), uint64(len(file)))
	}
	if end := 64 + texts; end <= uint64(len(file)) {
		binary.LittleEndian.PutUint32(file[12:], crc32.Checksum(file[64:end], crc32.MakeTable(crc32.Castagnoli)))
	}
	return file
}

// edit replaces a string by one of the same length in an artefact.
func edit(t *testing.T, file []byte, from, to string) []byte {
	t.Helper()
	if len(from) != len(to) || !bytes.Contains(file, []byte(from)) {
		t.Fatalf("%q does not stand in the artefact, or is not as long as %q", from, to)
	}
	return reseal(bytes.Replace(bytes.Clone(file), []byte(from), []byte(to), 1))
}

// TestArtefactRefused changes artefacts, and checks that each is refused with an error that names the fault.
func TestArtefactRefused(t *testing.T) {
	file := digitsArtefact(t)
	version := bytes.Clone(file)
	version[8] = 5
	damaged := bytes.Clone(file)
	damaged[80]++
	long := bytes.Clone(file)
	binary.LittleEndian.PutUint64(long[40:], 1<<63+5)
	const name = `"machine":{"Name":"`
	at := bytes.Index(file, []byte(name)) + len(name)
	for _, row := range []struct {
		name string
		file []byte
		want string
		kind error
	}{
		{"empty", file[:8], "ends before its header", weir.ErrInput},
		{"cut in the header", file[:40], "ends before its header", weir.ErrInput},
		{"cut in the text", file[:200], "cut off", weir.ErrInput},
		{"cut in the weights", file[:len(file)-1], "cut off", weir.ErrInput},
		{"more than there should be", append(bytes.Clone(file), 0), "follow the artefact's end", weir.ErrInput},
		{"another version", version, "version 5", weir.ErrUnsupported},
		{"a byte changed", damaged, "checksum", weir.ErrInput},
		{"a size beyond everything", long, "cut off", weir.ErrInput},
		{"another machine", edit(t, file, name+string(file[at]), name+"X"), `an artefact for "X`, weir.ErrUnsupported},
		{"text", []byte("weir 1\nprogram @f {}\n"), "written as text", weir.ErrUnsupported},
	} {
		t.Run(row.name, func(t *testing.T) {
			err := use(row.file)
			if err == nil || !strings.Contains(err.Error(), row.want) || !errors.Is(err, row.kind) {
				t.Errorf("the error is %v, want %q", err, row.want)
			}
		})
	}
	a, err := weir.LoadBytes(file)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, row := range []struct {
		name string
		o    weir.Options
		want string
	}{
		{"other outputs", weir.Options{Outputs: []string{"x"}}, "other outputs than it was compiled with"},
		{"no such dimension", weir.Options{Dims: map[string]weir.Range{"x": {}}}, "no dimension"},
		{"nothing left of a range", weir.Options{Dims: map[string]weir.Range{"batch": {Min: -4, Max: -1}}}, "leaves nothing"},
	} {
		if _, err := weir.Compile(t.Context(), a, row.o); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: the error is %v", row.name, err)
		}
	}
	if _, err := a.Compare(t.Context(), nil, 0, 0); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("comparing an artefact with the reference: %v", err)
	}
}

// use loads, compiles and runs an artefact, and returns the first error. A program that would take long is not run.
func use(file []byte) error {
	m, err := weir.LoadBytes(file)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1, Budget: 1 << 24, Dims: small(m)})
	if err != nil {
		return err
	}
	defer p.Close()
	dims := weir.Dims{}
	for _, d := range p.Dims() {
		dims[d.Name] = d.Min
	}
	if work, err := p.Operations().At(dims); err != nil || work > 1<<22 {
		return nil // it would take too long
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		shape := make([]int, len(info.Shape))
		for i, e := range info.Shape {
			if shape[i] = int(e.Size); e.Dim != "" {
				shape[i] = int(dims[e.Dim])
			}
			if shape[i] < 0 || shape[i] > 1<<12 {
				return nil
			}
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			return err
		}
		defer x.Close()
		in[info.Name] = x
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	return r.Close()
}

// small bounds every dimension by [0, 2].
func small(m *weir.Model) map[string]weir.Range {
	out := map[string]weir.Range{}
	for _, info := range m.Inputs() {
		for _, e := range info.Shape {
			if e.Dim != "" && !strings.ContainsAny(e.Dim, "+-*/%(, ") {
				out[e.Dim] = weir.Range{Min: 0, Max: 2}
			}
		}
	}
	return out
}

// FuzzArtefact changes bytes of an artefact, seals it again, and uses it: each gives an error or a result, never a
// panic or a fault.
func FuzzArtefact(f *testing.F) {
	whole := digitsArtefact(f)
	models := [][]byte{whole}
	for _, name := range []string{"views", "nonzero_use", "loop_scan_outputs", "if_captured", "two_dims"} {
		m, err := weir.Load(filepath.Join("testdata", "onnx", name, "model.onnx"))
		if err != nil {
			f.Fatal(err)
		}
		if p, err := weir.Compile(context.Background(), m, weir.Options{Threads: 1}); err == nil {
			var b bytes.Buffer
			if _, err := p.WriteTo(&b); err != nil {
				f.Fatal(err)
			}
			models = append(models, b.Bytes())
			p.Close()
		}
		m.Close()
	}
	for i := range models {
		f.Add(uint8(i), uint32(100), []byte("9"), uint32(3000), []byte("0"))
		f.Add(uint8(i), uint32(16), []byte{0xff}, uint32(5000), []byte("-1"))
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint32, put []byte, at2 uint32, put2 []byte) {
		file := bytes.Clone(models[int(which)%len(models)])
		copy(file[int(at)%len(file):], put)
		copy(file[int(at2)%len(file):], put2)
		if err := use(reseal(file)); errors.Is(err, weir.ErrInternal) {
			t.Logf("an internal error: %v", err)
		}
	})
}

// TestArtefactInOtherOrder lists the inputs of a program in another order than its ports: a run binds them by their
// names, and a call, which binds by position, is refused.
func TestArtefactInOtherOrder(t *testing.T) {
	m, err := weir.LoadBytes([]byte(`weir 1
ir @minus {
  main @main(%a: f32[2], %b: f32[2]) {
    %y: f32[2] = sub(%a, %b)
    return %y
  }
}
`))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, file := weirtest.ArtefactOf(t, m)
	defer p.Close()
	at := bytes.Index(file, []byte(`"inputs":[{"info":`))
	end := at + bytes.Index(file[at:], []byte(`"outputs":`))
	was := string(file[at:end])
	other := strings.NewReplacer(`"parts":[0]`, `"parts":[1]`, `"parts":[1]`, `"parts":[0]`).Replace(was)
	a, err := weir.LoadBytes(edit(t, file, was, other))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	q, err := weir.Compile(t.Context(), a, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if _, err := q.NewCall(nil); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("a call: %v", err)
	}
	one, err := weir.FromSlice([]float32{1, 1})
	if err != nil {
		t.Fatal(err)
	}
	two, err := weir.FromSlice([]float32{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	r, err := q.Run(t.Context(), weir.Inputs{"a": one, "b": two})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if y, err := weir.Copy[float32](r.At(0)); err != nil || !slices.Equal(y, []float32{1, 2}) {
		t.Errorf("b − a is %v, %v", y, err)
	}
}
