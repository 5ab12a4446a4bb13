package offline

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/internal/values"
)

// table looks up rows by ids, which must be below 5, and adds another input to them.
const table = `weir 1
ir @m {
  dim batch in [1, 64]
  dim columns in [1, 8]
  main @main(%ids: i64[batch, columns], %x: f32[batch, columns, 2]) {
    const %t: f32[5, 2] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    %rows: f32[batch, columns, 2] = gather(%t, %ids) {axis = int 0}
    %y: f32[batch, columns, 2] = add(%rows, %x)
    return %y
  }
}
`

// tensors returns a worker of the table, which joins up to 8 rows.
func tensors(t *testing.T, joins bool) *Tensors {
	m, err := weir.LoadBytes([]byte(table))
	if err != nil {
		t.Fatal(err)
	}
	p, err := weir.Compile(t.Context(), m, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &Tensors{Program: p, Calls: 1}
	if joins {
		if w.Batcher, err = batch.New(p, batch.Options{Rows: 8}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if joins {
			w.Batcher.Close()
		}
		p.Close()
		m.Close()
	})
	return w
}

// write writes a file of a test.
func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return name
}

// archive returns a .npz file with arrays of n rows of ids and x; element i has the id i % 5, and x = i. Where bad
// holds, the id is out of range.
func archive(t *testing.T, n int, deflated bool, bad func(i int) bool) []byte {
	t.Helper()
	ids, x := make([]int64, n*3), make([]float32, n*3*2)
	for i := range ids {
		ids[i] = int64(i / 3 % 5)
		if bad(i / 3) {
			ids[i] = 7
		}
	}
	for i := range x {
		x[i] = float32(i / 6)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, array := range map[string]*tensor.Tensor{
		"ids": tensor.Must(tensor.FromSlice(ids, int64(n), 3)),
		"x":   tensor.Must(tensor.FromSlice(x, int64(n), 3, 2)),
	} {
		method := zip.Store
		if deflated {
			method = zip.Deflate
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		if err := npy.Write(w, array); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// never holds for no element.
func never(int) bool { return false }

// results reads the rows of all parts of a folder: y by element.
func results(t *testing.T, folder string) map[int64][]float32 {
	t.Helper()
	all := map[int64][]float32{}
	list, err := filepath.Glob(filepath.Join(folder, "part-*.npz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range list {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		a, err := npy.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		elements, err := a.Read("element")
		if err != nil {
			t.Fatal(err)
		}
		if elements.Len() == 0 {
			continue
		}
		y, err := a.Read("y")
		if err != nil {
			t.Fatal(err)
		}
		each := y.Len() / elements.Len()
		for i := range elements.Len() {
			e := elements.Int(i)
			if all[e] != nil {
				t.Fatalf("element %d is in two parts", e)
			}
			for k := range each {
				all[e] = append(all[e], float32(y.Float(i*each+k)))
			}
		}
	}
	return all
}

// check compares results with the table, of elements for which there must be results.
func check(t *testing.T, got map[int64][]float32, n int, there func(i int) bool) {
	t.Helper()
	for i := range n {
		y, found := got[int64(i)]
		if found != there(i) {
			t.Fatalf("element %d: there is a result: %v", i, found)
		}
		id, x := float32(i%5), float32(i)
		if want := []float32{2*id + x, 2*id + 1 + x}; found && !slices.Equal(y[:2], want) {
			t.Fatalf("element %d is %v, not %v", i, y[:2], want)
		}
	}
	if len(got) > n {
		t.Fatalf("%d results of %d elements", len(got), n)
	}
}

// job returns the job of a source.
func job(t *testing.T, inputs string, w Worker, output string) *Job {
	t.Helper()
	s, err := Open(inputs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Job{Source: s, Work: w, Output: output, Format: "npz", Part: 10, Shards: 1}
}

// TestJob: joined and alone, elements have the results of the table, those that fail are in the errors of their part,
// and a second try computes what is not there.
func TestJob(t *testing.T) {
	const n = 137
	bad := func(i int) bool { return i%20 == 13 }
	name := write(t, filepath.Join(t.TempDir(), "in.npz"), archive(t, n, true, bad))
	for _, joins := range []bool{false, true} {
		w := tensors(t, joins)
		out := t.TempDir()
		j := job(t, name, w, out)
		report, err := j.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if report.Elements != n || report.Failed != 7 || report.Written != 14 || report.Kept != 0 {
			t.Errorf("joined %v: %+v", joins, report)
		}
		check(t, results(t, out), n, func(i int) bool { return !bad(i) })
		text, err := os.ReadFile(filepath.Join(out, "part-000003.errors.jsonl"))
		if err != nil || !strings.HasPrefix(string(text), `{"element":33,"error":{"kind":"input"`) {
			t.Errorf("joined %v: errors %s, %v", joins, text, err)
		}
		if _, err := os.Stat(filepath.Join(out, "part-000002.errors.jsonl")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("part 2 has errors: %v", err)
		}
		// A second try computes the part that is lost, and no other.
		if err := os.Remove(filepath.Join(out, "part-000004.npz")); err != nil {
			t.Fatal(err)
		}
		if report, err = j.Run(t.Context()); err != nil || report.Elements != 10 || report.Written != 1 ||
			report.Kept != 13 {
			t.Errorf("joined %v, again: %+v, %v", joins, report, err)
		}
		check(t, results(t, out), n, func(i int) bool { return !bad(i) })
	}
}

// TestShards: the parts of shards are those of one job, whatever order they run in.
func TestShards(t *testing.T) {
	const n = 95
	name := write(t, filepath.Join(t.TempDir(), "in.npz"), archive(t, n, false, never))
	w, out := tensors(t, true), t.TempDir()
	for _, shard := range []int64{3, 0, 2, 1} {
		j := job(t, name, w, out)
		j.Shard, j.Shards = shard, 4
		report, err := j.Run(t.Context())
		if err != nil || report.Kept != 0 {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	check(t, results(t, out), n, func(int) bool { return true })
}

// stopping is a worker whose context's end comes with its nth element.
type stopping struct {
	Worker
	left   *int
	cancel context.CancelCauseFunc
}

// Width returns 1: elements are computed in their order.
func (s stopping) Width() int { return 1 }

func (s stopping) Run(ctx context.Context, e Element) ([]values.Value, error) {
	if *s.left--; *s.left < 0 {
		s.cancel(errors.New("it is ended"))
	}
	return s.Worker.Run(ctx, e)
}

// TestEnded: jobs that are ended again and again write each part once, and lose no element.
func TestEnded(t *testing.T) {
	const n = 95
	name := write(t, filepath.Join(t.TempDir(), "in.npz"), archive(t, n, false, never))
	w, out := tensors(t, true), t.TempDir()
	tries, written := 0, int64(0)
	for ; ; tries++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		left := 17
		j := job(t, name, stopping{w, &left, cancel}, out)
		report, err := j.Run(ctx)
		cancel(nil)
		if written += report.Written; err == nil {
			break
		}
		if err.Error() != "it is ended" || report.Written != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
	}
	if tries != 8 || written != 10 {
		t.Errorf("%d tries, %d parts", tries, written)
	}
	check(t, results(t, out), n, func(int) bool { return true })
}

// TestRefused: a folder of other results is refused, and a first part that fails whole ends the job.
func TestRefused(t *testing.T) {
	folder := t.TempDir()
	name := write(t, filepath.Join(folder, "in.npz"), archive(t, 15, false, never))
	w, out := tensors(t, true), t.TempDir()
	if _, err := job(t, name, w, out).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(j *Job){
		"another model": func(j *Job) { j.Model = "another" },
		"other inputs": func(j *Job) {
			j.Source = job(t, write(t, filepath.Join(folder, "b.npz"), archive(t, 15, false, func(i int) bool {
				return i == 1
			})), w, out).Source
		},
		"in the format": func(j *Job) { j.Format = "jsonl" },
		"parts of 10":   func(j *Job) { j.Part = 11 },
		"the options":   func(j *Job) { j.Options = "bf16" },
	} {
		j := job(t, name, w, out)
		change(j)
		if _, err := j.Run(t.Context()); !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	write(t, name, archive(t, 15, false, func(int) bool { return true }))
	_, err := job(t, name, w, t.TempDir()).Run(t.Context())
	if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), "all 10 elements of the first part failed") {
		t.Error(err)
	}
	write(t, filepath.Join(out, manifestFile), []byte("{"))
	if _, err := job(t, name, w, out).Run(t.Context()); !errors.Is(err, weir.ErrInput) {
		t.Error(err)
	}
}

// TestSources: a source yields the elements that are wanted, and its digest tells others.
func TestSources(t *testing.T) {
	folder := t.TempDir()
	array := tensor.Must(tensor.FromSlice([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, 2))
	var plain bytes.Buffer
	if err := npy.Write(&plain, array); err != nil {
		t.Fatal(err)
	}
	// The same rows, column-major.
	columns := bytes.Replace(plain.Bytes(), []byte("'fortran_order': False, "), []byte("'fortran_order': True,  "), 1)
	for i, at := range []int{0, 2, 4, 6, 8, 1, 3, 5, 7, 9} {
		copy(columns[len(columns)-40+4*i:], plain.Bytes()[plain.Len()-40+4*at:plain.Len()-40+4*at+4])
	}
	for i := range 5 {
		write(t, filepath.Join(folder, "files", fmt.Sprint(i%2), fmt.Sprintf("%d.json", i)), []byte(fmt.Sprint(i)))
	}
	write(t, filepath.Join(folder, "files", ".hidden"), nil)
	write(t, filepath.Join(folder, "files", ".git", "config"), nil)
	for _, c := range []struct{ inputs, want string }{
		{write(t, filepath.Join(folder, "a.jsonl"), []byte("0\n\n1\r\n2\n  \n3\n4")), "0 1 2 3 4"},
		{write(t, filepath.Join(folder, "a.txt"), []byte("a\n\nb\r\n c\nd\n")), "a| |b| c|d"},
		{write(t, filepath.Join(folder, "empty.jsonl"), nil), ""},
		{write(t, filepath.Join(folder, "a.npy"), plain.Bytes()), "0,1 2,3 4,5 6,7 8,9"},
		{write(t, filepath.Join(folder, "b.npy"), columns), "0,1 2,3 4,5 6,7 8,9"},
		{filepath.Join(folder, "files"), "0/0.json 0/2.json 0/4.json 1/1.json 1/3.json"},
		{filepath.Join(folder, "files", "*", "*.json?scale=1"), "0/0.json 0/2.json 0/4.json 1/1.json 1/3.json"},
		{filepath.Join(folder, "files", "1", "3.json"), "3.json"},
	} {
		s, err := Open(c.inputs, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(c.want)
		if strings.Contains(c.want, "|") {
			want = strings.Split(strings.ReplaceAll(c.want, "| |", "||"), "|")
		}
		if n := s.Len(); n >= 0 && n != int64(len(want)) {
			t.Errorf("%s has %d elements", c.inputs, n)
		}
		for mask := range 1 << len(want) {
			at := 0
			for e, err := range s.Elements(nil, func(i int64) bool { return mask>>i&1 == 1 }) {
				if err != nil {
					t.Fatal(err)
				}
				for mask>>at&1 == 0 {
					at++
				}
				if got := shown(e); e.Index != int64(at) || strings.TrimPrefix(got, "files/") != want[at] {
					t.Errorf("%s, %b: element %d is %q", c.inputs, mask, e.Index, got)
				}
				at++
			}
		}
		again, err := Open(c.inputs, nil)
		if err != nil || again.Digest() != s.Digest() {
			t.Errorf("%s: another digest, %v", c.inputs, err)
		}
	}
	before, _ := Digest(folder)
	write(t, filepath.Join(folder, "a.txt"), []byte("a\n\nb\r\n c\ne\n"))
	if after, err := Digest(folder); err != nil || after == before {
		t.Errorf("the digest of a changed folder is the same, %v", err)
	}
}

// shown returns an element as text.
func shown(e Element) string {
	switch {
	case e.text != nil:
		return *e.text
	case e.line != nil:
		return string(e.line)
	case e.Arrays != nil:
		var list []string
		for _, a := range e.Arrays {
			for i := range a.Len() {
				list = append(list, a.Format(i))
			}
		}
		return strings.Join(list, ",")
	}
	return e.Name
}

// TestHostile: files that promise more than they have are refused by name, without memory for what they promise.
func TestHostile(t *testing.T) {
	folder := t.TempDir()
	whole := archive(t, 20, true, never)
	var long bytes.Buffer
	if err := npy.Write(&long, tensor.Must(tensor.New(weir.U8, 2, 3))); err != nil {
		t.Fatal(err)
	}
	promise := bytes.Replace(long.Bytes(), []byte("(2, 3), "), []byte("(2,3<<40"), 1)
	var none bytes.Buffer
	if err := npy.Write(&none, tensor.Must(tensor.New(weir.U8, 1<<40, 0))); err != nil {
		t.Fatal(err)
	}
	huge := bytes.Replace(long.Bytes(), []byte("(2, 3), }          "), []byte("(2, 99999999999), }"), 1)
	for what, data := range map[string][]byte{"cut.npz": whole[:len(whole)/2], "text.npz": []byte("text"),
		"empty.npy": nil, "cut.npy": long.Bytes()[:long.Len()-1], "odd.npy": promise, "huge.npy": huge,
		"none.npy": none.Bytes()} {
		s, err := Open(write(t, filepath.Join(folder, what), data), nil)
		if err == nil {
			for _, e := range s.Elements(nil, func(int64) bool { return true }) {
				err = e
			}
		}
		if !errors.Is(err, weir.ErrInput) && !errors.Is(err, weir.ErrMemory) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"nothing", "no*thing", "a.parquet", ""} {
		if name == "a.parquet" {
			write(t, filepath.Join(folder, name), nil)
		}
		if _, err := Open(filepath.Join(folder, name), nil); name != "" && !errors.Is(err, weir.ErrInput) &&
			!errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestLines: lines of JSON are rows, with and without the axis of rows, and bad lines get errors of their own.
func TestLines(t *testing.T) {
	name := write(t, filepath.Join(t.TempDir(), "in.jsonl"), []byte(`{"ids": [0, 1], "x": [[0, 0], [0, 0]]}
{"ids": [[2]], "x": [[[1, 1]]]}
{"ids": [[0], [1], [2]], "x": [[[1, 1]], [[2, 2]], [[3, 3]]]}
{"ids": [9], "x": [[0, 0]]}
{"ids": [1], "x": [[0, 0], [0, 0]]}
{"ids": [1]}
{"ids": ["a"], "x": [[0, 0]]}
[1]
{
{"ids": [1], "x": [["zeros", 0]]}
`))
	w, out := tensors(t, true), t.TempDir()
	j := job(t, name, w, out)
	j.Format = "jsonl"
	report, err := j.Run(t.Context())
	if err != nil || report.Elements != 10 || report.Failed != 7 {
		t.Fatalf("%+v, %v", report, err)
	}
	text, err := os.ReadFile(filepath.Join(out, "part-000000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"element":0,"outputs":{"y":[[[0,1],[2,3]]]}}
{"element":1,"outputs":{"y":[[[5,6]]]}}
{"element":2,"outputs":{"y":[[[1,2]],[[4,5]],[[7,8]]]}}
`
	if string(text) != want {
		t.Errorf("%s", text)
	}
	file, err := os.Open(filepath.Join(out, "part-000000.errors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for d, n := json.NewDecoder(file), int64(3); ; n++ {
		var line struct {
			Element int64 `json:"element"`
			Error   struct{ Kind, Detail string }
		}
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil || line.Element != n || line.Error.Kind != "input" || line.Error.Detail == "" {
			t.Errorf("element %d: %+v, %v", n, line, err)
		}
	}
}

// TestTexts: texts of lines, objects and files have the vectors of package embed.
func TestTexts(t *testing.T) {
	m, err := embed.Load(t.Context(), "../../embed/testdata/models/bert", embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	folder, w := t.TempDir(), &Texts{Embed: m}
	want, err := m.Embed(t.Context(), []string{"a text", "another one, which is longer"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "files", "a"), []byte("a text"))
	write(t, filepath.Join(folder, "files", "b"), []byte("another one, which is longer"))
	for _, inputs := range []string{
		filepath.Join(folder, "files"),
		write(t, filepath.Join(folder, "a.txt"), []byte("a text\nanother one, which is longer\n")),
		write(t, filepath.Join(folder, "a.jsonl"), []byte("\"a text\"\n{\"text\": \"another one, which is longer\"}\n")),
	} {
		out := t.TempDir()
		if report, err := job(t, inputs, w, out).Run(t.Context()); err != nil || report.Elements != 2 || report.Failed != 0 {
			t.Fatalf("%+v, %v", report, err)
		}
		data, err := os.ReadFile(filepath.Join(out, "part-000000.npz"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := npy.Open(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		v, err := a.Read(Vector)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range slices.Concat(want...) {
			if d := v.Float(int64(i)) - float64(x); d*d > 1e-10 {
				t.Fatalf("element %d of the vectors differs by %g", i, d)
			}
		}
	}
}

// TestNames: a file is read whatever its name is, also if the name reads as another kind of value.
func TestNames(t *testing.T) {
	t.Chdir(t.TempDir())
	w := tensors(t, true)
	for _, name := range []string{"zeros", "[1].npz", "a?scale=1.npz", "-.npz", "random:1..2.npz", "ü \n.npz"} {
		file := filepath.Join("in", name)
		write(t, file, archive(t, 1, false, never))
	}
	var list []string
	for _, inputs := range []string{"in", "in/*"} {
		out := t.TempDir()
		j := job(t, inputs, w, out)
		report, err := j.Run(t.Context())
		if err != nil || report.Elements != 6 || report.Failed != 1 { // a file without an extension has no format
			t.Errorf("%s: %+v, %v", inputs, report, err)
		}
		list = append(list, fmt.Sprint(report.First))
	}
	if !strings.Contains(list[0], "no extension") || list[0] != list[1] {
		t.Errorf("%q", list)
	}
	// A link to nothing is an element that fails, and the others have results.
	if err := os.Symlink("nothing", filepath.Join("in", "link.npz")); err != nil {
		t.Fatal(err)
	}
	report, err := job(t, "in", w, t.TempDir()).Run(t.Context())
	if err != nil || report.Elements != 7 || report.Failed != 2 {
		t.Errorf("with a broken link: %+v, %v", report, err)
	}
	t.Chdir("in")
	if _, err := job(t, "zeros", w, t.TempDir()).Run(t.Context()); err == nil || !strings.Contains(err.Error(),
		"no extension") {
		t.Errorf("a file with the name zeros: %v", err)
	}
}
