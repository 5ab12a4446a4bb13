package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/tensor/npy"
	"github.com/weirml/weir/parquet/internal/parquet"
	"github.com/weirml/weir/parquet/internal/parquettest"
)

var kills = flag.Int("kills", 4, "how often TestKilled kills a run")

const (
	digits = "../../../examples/digits/data/digits.onnx"
	bert   = "../../../embed/testdata/models/bert"
	data   = "../../internal/parquet/testdata/"
)

// binary is the command.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir-parquet-*")
	if err == nil {
		binary = filepath.Join(dir, "weir-parquet.exe")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot build the command:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// run runs the command, and returns its output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(binary, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return string(out)
}

// pictures writes the same random pictures as a .npy file, and as a Parquet file whose rows are flat lists.
func pictures(t *testing.T, folder string, n int) (array, parquet string) {
	t.Helper()
	x := tensor.Must(tensor.New(tensor.Of(float32(0)).DType(), int64(n), 1, 8, 8))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range x.Len() {
		x.SetFloat(i, r.Float64())
	}
	var b bytes.Buffer
	if err := npy.Write(&b, x); err != nil {
		t.Fatal(err)
	}
	rows, err := (&parquettest.File{Column: "image", Rows: n, Width: 64, PerPage: 70, Pages: 30,
		Value: func(row, i int) float32 { return float32(x.Float(int64(row*64 + i))) }}).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	array, parquet = filepath.Join(folder, "in.npy"), filepath.Join(folder, "in.parquet")
	for name, text := range map[string][]byte{array: b.Bytes(), parquet: rows} {
		if err := os.WriteFile(name, text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return array, parquet
}

// parts fails unless two folders have the same so many parts, byte for byte.
func parts(t *testing.T, got, want string, n int) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(want, "part-*"))
	if err != nil || len(list) != n {
		t.Fatalf("%d parts, not %d, %v", len(list), n, err)
	}
	for _, name := range list {
		a, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(got, filepath.Base(name)))
		if err != nil || !bytes.Equal(a, b) {
			t.Fatalf("%s differs, %v", name, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(got, "*")); err != nil || len(left) != n+1 { // and the manifest
		t.Errorf("there are the files %q, %v", left, err)
	}
}

// TestKilled: the rows of a Parquet file have the results that the rows of a .npy file have, in one run, in shards, and
// in runs that are killed and begun again.
func TestKilled(t *testing.T) {
	n := 100_000
	if testing.Short() {
		n = 20_000
	}
	folder := t.TempDir()
	array, table := pictures(t, folder, n)
	args := func(in, out string, more ...string) []string {
		all := []string{"run", digits, "--each", in, "--output", filepath.Join(folder, out), "--json", "--part", "1000"}
		return append(all, more...)
	}
	run(t, args(array, "array")...)
	begin := time.Now()
	var report map[string]any
	if err := json.Unmarshal([]byte(run(t, args(table, "once")...)), &report); err != nil ||
		report["elements"] != float64(n) || report["joined"] != true {
		t.Fatalf("%v, %v", report, err)
	}
	took := time.Since(begin)
	for shard := range 3 {
		run(t, args(table, "shards", "--shard", fmt.Sprintf("%d/3", shard))...)
	}
	killed := 0
	for range *kills {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Float64()*float64(took)/float64(1+*kills/2)))
		if err := exec.CommandContext(ctx, binary, args(table, "often")...).Run(); err != nil && ctx.Err() != nil {
			killed++
		} else if err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if killed == 0 {
		t.Error("no run was killed")
	}
	run(t, args(table, "often")...)
	for _, out := range []string{"once", "shards", "often"} {
		parts(t, filepath.Join(folder, out), filepath.Join(folder, "array"), n/1000)
	}
}

// TestTexts: a column of texts has the results of the same texts as lines.
func TestTexts(t *testing.T) {
	source, err := parquet.Open([]string{data + "snappy.parquet"})
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	for e, err := range source.Elements([]string{"text"}, func(int64) bool { return true }) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := json.Marshal(map[string]string{"text": e.Arrays["text"].Strings()[0]})
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	folder := t.TempDir()
	in := filepath.Join(folder, "in.jsonl")
	if err := os.WriteFile(in, lines.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	for out, each := range map[string]string{"lines": in, "rows": data + "snappy.parquet"} {
		run(t, "run", bert, "--each", each, "--output", filepath.Join(folder, out), "--format", "jsonl")
	}
	got, want := vectors(t, filepath.Join(folder, "rows")), vectors(t, filepath.Join(folder, "lines"))
	if len(got) != 250 || len(want) != 250 {
		t.Fatalf("%d and %d vectors", len(got), len(want))
	}
	for i, v := range want { // texts are joined by the time at which they come, which decides the order of sums
		for k, x := range v {
			if d := got[i][k] - x; d*d > 1e-10 {
				t.Fatalf("text %d differs by %g", i, d)
			}
		}
	}
}

// vectors reads the vectors of a folder's only part, by element.
func vectors(t *testing.T, folder string) [][]float64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "part-000000.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var list [][]float64
	for line := range strings.Lines(string(text)) {
		var one struct {
			Element int
			Outputs struct{ Vector [][]float64 }
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil || one.Element != len(list) {
			t.Fatalf("element %d at %d, %v", one.Element, len(list), err)
		}
		list = append(list, one.Outputs.Vector[0])
	}
	return list
}

// TestLacking: rows without values are in the errors of their part, with their kind.
func TestLacking(t *testing.T) {
	folder := t.TempDir()
	model := filepath.Join(folder, "double.weir")
	text := `weir 1
ir @double {
  dim n in [1, 64]
  main @main(%x: f32[n, 2, 2]) {
    %y: f32[n, 2, 2] = add(%x, %x)
    return %y
  }
}
`
	if err := os.WriteFile(model, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(folder, "out")
	told, err := exec.Command(binary, "run", model, "--each", data+"lacking.parquet", "--output", out).CombinedOutput()
	if err == nil || !strings.Contains(string(told), "2 elements in ") ||
		!strings.Contains(string(told), "6 elements failed") {
		t.Errorf("%v: %s", err, told)
	}
	failed, err := os.ReadFile(filepath.Join(out, "part-000000.errors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for line := range strings.Lines(string(failed)) {
		var one struct {
			Element int
			Error   struct{ Kind, Tensor string }
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fmt.Sprint(one.Element, one.Error.Kind, one.Error.Tensor))
	}
	if got, want := strings.Join(kinds, " "), "1inputx 2inputx 3inputx 4inputx 5inputx 6inputx"; got != want {
		t.Errorf("the errors are %s, not %s: %s", got, want, failed)
	}
}
