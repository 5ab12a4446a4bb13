package command

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
)

var rewrite = flag.Bool("rewrite", false, "rewrite testdata/keys.txt and the documents")

// binary is the path of the command, built once.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir-command-*")
	if err == nil {
		binary = filepath.Join(dir, "weir.exe")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, "../../cmd/weir").CombinedOutput(); err != nil {
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

const (
	digits = "../../examples/digits/data/digits.onnx"
	image  = "image=../../examples/digits/data/images/07.png"
	models = "../../testdata/onnx/"
)

// result is the output and the exit code of a run of the command.
type result struct {
	out, err string
	code     int
}

// weirIn runs the command with an input and additional environment variables.
func weirIn(t *testing.T, stdin []byte, env []string, args ...string) result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		t.Fatal(err)
	}
	return result{out.String(), errs.String(), cmd.ProcessState.ExitCode()}
}

// weirRun runs the command.
func weirRun(t *testing.T, args ...string) result {
	t.Helper()
	return weirIn(t, nil, nil, args...)
}

// artefact compiles a model into a .weir file.
func artefact(t *testing.T, model string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "m.weir")
	if r := weirRun(t, "compile", model, "-o", file); r.code != 0 {
		t.Fatalf("compile: %d %s", r.code, r.err)
	}
	return file
}

// TestCompileFixes fixes a dimension while compiling: the artefact accepts only that size.
func TestCompileFixes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "three.weir")
	if r := weirRun(t, "compile", digits, "-o", file, "--dim", "batch=3"); r.code != 0 {
		t.Fatalf("compile: %d %s", r.code, r.err)
	}
	if r := weirRun(t, "run", file, "--input", "zeros"); r.code != 0 {
		t.Errorf("run: %d %s", r.code, r.err)
	}
	if r := weirRun(t, "run", file, "--input", "zeros", "--dim", "batch=4"); r.code != 1 ||
		!strings.Contains(r.err, "batch") {
		t.Errorf("another size: %d %s", r.code, r.err)
	}
	if r := weirRun(t, "dump", file, "--lang", "program"); r.code != 0 ||
		strings.Contains(strings.ReplaceAll(r.out, "dim batch in [3, 3]", ""), "*batch") {
		t.Errorf("sizes are formulas of batch: %d %s", r.code, r.out)
	}
}

// keys lists the paths of a JSON value's keys.
func keys(prefix string, v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if open[prefix] {
				k = "*"
			}
			into[prefix+k] = true
			keys(prefix+k+".", x, into)
		}
	case []any:
		for _, x := range v {
			keys(prefix+"[].", x, into)
		}
	}
}

// table is the path of a small table of buffers.
const table = "../../internal/memplan/testdata/minimalloc/input.12.csv"

// open are the objects whose keys are names of the model or the machine.
var open = map[string]bool{"outputs.": true, "dims.": true, "ops.": true, "metadata.": true, "settings.": true}

// TestCompletion: a shell gets values of flags, and names in the model.
func TestCompletion(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"run " + digits + " --input ", "image=\n"}, {"plan " + digits + " --dim ", "batch=\n"},
		{"run " + digits + " --expect ", "scores=\n"},
		{"run --target ", "vulkan\n"}, {"dump --lang ", "spirv\n"}, {"run ", "onnx\n"}, {"run missing.onnx --input ", ":0\n"},
	} {
		if r := weirRun(t, append([]string{"__complete"}, strings.Split(row.args, " ")...)...); r.code != 0 ||
			!strings.Contains(r.out, row.want) {
			t.Errorf("%q: %d, %s%s, not %q", row.args, r.code, r.out, r.err, row.want)
		}
	}
}

// TestKeys compares the keys of every --json output with testdata/keys.txt; -rewrite writes the file.
func TestKeys(t *testing.T) {
	m := artefact(t, digits)
	var b strings.Builder
	for _, row := range []string{
		"run " + digits + " --input zeros", "run " + digits + " --input zeros --compare reference",
		"run " + digits + " --each ../../examples/digits/data/images --output " + filepath.Join(t.TempDir(), "each"),
		"plan " + digits,
		"plan " + digits + " --dim batch=3 --budget 1GiB", "plan " + m + " --dim batch=3", "plan " + table,
		"plan " + digits + " --actual", "plan " + digits + " --diff " + models + "two_dims/model.onnx",
		"plan " + models + "tied_table/model.onnx --dim n=40 --budget 220KiB",
		"plan " + models + "two_dims/model.onnx --layout x=1,0", "plan ../../testdata/states/training.weir",
		"plan " + digits + " --budget 1MiB", "plan " + models + "texts/model.onnx",
		"plan " + digits + " --kubernetes --dim batch=8", "pack " + filepath.Dir(digits) + " --node 1GiB",
		"pack " + filepath.Dir(digits) + " --node 1GiB --dim batch=8",
		"check " + models + "gemm_matmul/model.onnx", "check " + models + "gather_family/model.onnx", "info " + digits,
		"info " + m, "dump " + digits, "bench " + digits + " --seconds 0.01 --profile --threads 2",
		"bench " + digits + " --seconds 0.01 --pauses", "kernels " + models + "sequences/model.onnx",
		"test " + models + "logic --kernels", "test " + models + "logic --pauses", "kernels " + digits + " --all",
		"test " + models + "logic",
		"compile " + digits + " -o " + filepath.Join(t.TempDir(), "k.weir"), "env", "demo", "run missing.onnx", "run --loud",
		"run model.mlir",
	} {
		args := strings.Fields(row)
		r := weirRun(t, append(args, "--json")...)
		var v any
		d := json.NewDecoder(strings.NewReader(r.out))
		if err := d.Decode(&v); err != nil || d.More() {
			t.Errorf("%s: printed no JSON value, or more than one (%v): %s%s", row, err, r.out, r.err)
			continue
		}
		found := map[string]bool{}
		keys("", v, found)
		var list []string
		for k := range found {
			list = append(list, k)
		}
		sort.Strings(list)
		name := args[0]
		for _, a := range args[1:] {
			if a == args[1] && !strings.HasPrefix(a, "-") {
				a = filepath.Base(a)
			}
			if a == filepath.Base(a) && (a == filepath.Base(args[1]) || strings.HasPrefix(a, "--")) {
				name += " " + a
			}
		}
		fmt.Fprintf(&b, "%s: exit %d\n", name, r.code)
		for _, k := range list {
			fmt.Fprintf(&b, "\t%s\n", k)
		}
	}
	file := filepath.Join("testdata", "keys.txt")
	if *rewrite {
		if err := os.MkdirAll("testdata", 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != b.String() {
		t.Errorf("the keys are not those of %s (%v), but\n%s", file, err, b.String())
	}
}

// TestArtefactPrintsTheSame compares the commands' output for a model and for its artefact.
func TestArtefactPrintsTheSame(t *testing.T) {
	for _, model := range []string{digits, models + "two_dims/model.onnx", models + "loop_scan_outputs/model.onnx",
		models + "gather_family/model.onnx"} {
		m := artefact(t, model)
		for _, args := range [][]string{{"plan"}, {"plan", "--json", "--calls", "3"}, {"check"}, {"info", "--nodes"},
			{"dump", "--lang", "program"}} {
			x, y := weirRun(t, append(args, model)...), weirRun(t, append(args, m)...)
			if x.out != y.out || x.code != y.code {
				t.Errorf("%s %v prints\n%s\nits artefact\n%s%s", model, args, x.out, y.out, y.err)
			}
		}
	}
	m := artefact(t, digits)
	x, y := t.TempDir(), t.TempDir()
	for dir, model := range map[string]string{x: digits, y: m} {
		if r := weirRun(t, "run", model, "--input", "random", "--dim", "batch=5", "--output", dir); r.code != 0 {
			t.Fatal(r.err)
		}
	}
	a, err1 := os.ReadFile(filepath.Join(x, "scores.npy"))
	b, err2 := os.ReadFile(filepath.Join(y, "scores.npy"))
	if err1 != nil || err2 != nil || !bytes.Equal(a, b) || len(a) < 200 {
		t.Errorf("the results of the model and of its artefact differ: %d and %d bytes, %v, %v", len(a), len(b), err1, err2)
	}
}

// TestFiles writes and reads all kinds of files by run.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	if r := weirRun(t, "run", digits, "--input", image, "--output", dir); r.code != 0 || r.out != "" {
		t.Fatalf("%d %s %s", r.code, r.out, r.err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v, %v", entries, err)
	}
	var files map[string]string
	text, err := os.ReadFile(filepath.Join(dir, "outputs.json"))
	if err != nil || json.Unmarshal(text, &files) != nil || files["scores"] != "scores.npy" || len(files) != 1 {
		t.Errorf("outputs.json is %s, %v", text, err)
	}
	scores := filepath.Join(dir, "scores.npy")
	if r := weirRun(t, "run", digits, "--input", image, "--expect", "scores="+scores); r.code != 0 ||
		!strings.Contains(r.out, "as expected") {
		t.Errorf("what was written is not as expected: %d %s", r.code, r.err)
	}
	if r := weirRun(t, "run", digits, "--input", "zeros", "--expect", "scores="+scores); r.code != 1 ||
		!strings.Contains(r.err, "not as expected") {
		t.Errorf("other input, same expectation: %d %s", r.code, r.err)
	}
	npy, err := os.ReadFile(scores)
	if err != nil {
		t.Fatal(err)
	}
	if r := weirIn(t, npy, nil, "run", digits, "--input", "-"); r.code != 1 || !strings.Contains(r.err, "image") {
		t.Errorf("scores as an image on standard input: %d %s", r.code, r.err)
	}
	kept := filepath.Join(dir, "kept")
	name := first(strings.Fields(strings.SplitN(weirRun(t, "info", digits, "--nodes").out, "(Conv): ", 2)[1])[2:]...)
	if r := weirRun(t, "run", digits, "--input", image, "--keep", name, "--keep", "scores", "--output",
		kept); r.code != 0 {
		t.Fatal(r.err)
	}
	text, _ = os.ReadFile(filepath.Join(kept, "outputs.json"))
	files = nil
	if json.Unmarshal(text, &files) != nil || len(files) != 2 || files[name] == "" {
		t.Errorf("with --keep %s, outputs.json is %s", name, text)
	}
}

// TestEnvironment: environment variables set the defaults of flags.
func TestEnvironment(t *testing.T) {
	for _, row := range []struct {
		env  []string
		args []string
		code int
		want string
	}{
		{[]string{"WEIR_TARGET=reference"}, []string{"bench", digits, "--seconds", "0.01", "--json"}, 0,
			`"target":"reference"`},
		{[]string{"WEIR_TARGET=reference"}, []string{"bench", digits, "--seconds", "0.01", "--json", "--target", "cpu",
			"--cpu", "portable"}, 0, `"target":"portable"`},
		{[]string{"WEIR_CPU=portable"}, []string{"bench", digits, "--seconds", "0.01", "--json"}, 0,
			`"cpu":"portable","target":"portable"`},
		{[]string{"WEIR_THREADS=1"}, []string{"plan", digits, "--json"}, 0, `"workers":1`},
		{[]string{"WEIR_THREADS=1"}, []string{"plan", digits, "--json", "--threads", "3"}, 0, `"workers":3`},
		{[]string{"WEIR_THREADS=many"}, []string{"plan", digits}, 2, "WEIR_THREADS=many"},
		{[]string{"WEIR_DEBUG=guards"}, []string{"plan", digits}, 1, "WEIR_DEBUG"},
		{[]string{"WEIR_DEBUG=without:expand"}, []string{"plan", digits}, 1, "without:expand"},
		{[]string{"WEIR_DEBUG=without:layout,without:fold,without:vectors"},
			[]string{"run", digits, "--input", image, "--top", "1"}, 0, "3 ("},
		{[]string{"WEIR_CPU=avx9"}, []string{"plan", digits}, 3, "avx9"},
		{[]string{"WEIR_MAP=off", "WEIR_DEBUG=poison,guard"}, []string{"run", digits, "--input", image, "--top", "1"}, 0,
			"3 ("},
		{nil, []string{"run", digits, "--input", "zeros"}, 0, "batch is free: taken as 1"},
		{nil, []string{"bench", digits, "--seconds", "0.01"}, 0, "batch is free: taken as 1"},
		{nil, []string{"run", "-v", digits, "--input", "zeros"}, 0, "stage=schedule"},
	} {
		if r := weirIn(t, nil, row.env, row.args...); r.code != row.code || !strings.Contains(r.out+r.err, row.want) {
			t.Errorf("%v weir %v: exit code %d, want %d and %q\n%s%s", row.env, row.args, r.code, row.code, row.want, r.out,
				r.err)
		}
	}
}

// TestInterrupt interrupts a command at work: it soon ends with 130, and reports the interrupt.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no way here to send another process an interrupt")
	}
	cmd := exec.CommandContext(t.Context(), binary, "bench", digits, "--seconds", "60", "--json", "-v")
	var out bytes.Buffer
	cmd.Stdout = &out
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	first := make([]byte, 1)
	if _, err := log.Read(first); err != nil { // its log has begun: it handles signals
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, log)
	cmd.Wait()
	var v struct{ Error map[string]any }
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || json.Unmarshal(out.Bytes(), &v) != nil ||
		v.Error == nil {
		t.Errorf("exit code %d, printed %s", code, out.String())
	}
}

// countdown is a context that ends after it was asked a number of times.
type countdown struct {
	context.Context
	left atomic.Int64
	end  context.CancelFunc
}

func (c *countdown) Err() error {
	if c.left.Add(-1) <= 0 {
		c.end()
	}
	return c.Context.Err()
}

// TestInterruptAnywhere ends the context of commands at each of its checks in turn: the command ends by itself, with
// 130 unless it is already done, whatever it has open.
func TestInterruptAnywhere(t *testing.T) {
	for _, args := range [][]string{{"bench", digits, "--seconds", "0.01", "--calls", "2", "--json"},
		{"run", digits, "--input", "zeros", "-q", "--json"}} {
		for looks := int64(1); ; looks = looks*3/2 + 1 {
			inner, cancel := context.WithCancel(t.Context())
			ctx := &countdown{Context: inner, end: cancel}
			ctx.left.Store(looks)
			code := run(ctx, &cli{}, args)
			cancel()
			if ctx.left.Load() > 0 {
				break
			}
			if code != exitInterrupted && code != 0 {
				t.Errorf("%v, interrupted at look %d: exit code %d", args, looks, code)
			}
			if looks > 1<<30 {
				t.Fatal("it looks too often")
			}
		}
	}
}

// foreignModel writes a model with an operator that Weir does not have.
func foreignModel(t *testing.T) string {
	t.Helper()
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 18},
		{Domain: "com.example", Version: 1}}, Graph: &wire.GraphProto{
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Size(2))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.FloatType, wire.Size(2))},
		Node:   []*wire.NodeProto{{OpType: "Foreign", Domain: "com.example", Input: []string{"x"}, Output: []string{"y"}}},
	}}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, m.Marshal(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestErrorsAsJSON: with --json, an error is JSON on standard error.
func TestErrorsAsJSON(t *testing.T) {
	r := weirRun(t, "run", foreignModel(t), "--json")
	var v struct{ Error map[string]any }
	if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 3 || v.Error["kind"] != "unsupported" ||
		v.Error["file"] == "" {
		t.Errorf("printed %s, exit code %d, %v", r.out, r.code, err)
	}
	for _, key := range []string{"kind", "file", "node", "op", "tensor", "dim", "detail", "fix"} {
		if _, ok := v.Error[key]; !ok {
			t.Errorf("the error has no key %s", key)
		}
	}
}

// TestFormulaInPython evaluates the formula in Python, if there is one, and compares it with the bytes that the same
// command prints.
func TestFormulaInPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to ask")
	}
	for _, row := range []struct{ model, dims string }{{digits, "batch=7"}, {models + "two_dims/model.onnx", "m=5 n=9"},
		{models + "attention_two_dims/model.onnx", ""}} {
		args := []string{"plan", row.model, "--json", "--calls", "2"}
		for _, d := range strings.Fields(row.dims) {
			args = append(args, "--dim", d)
		}
		r := weirRun(t, args...)
		var p planned
		if err := json.Unmarshal([]byte(r.out), &p); err != nil {
			t.Errorf("%s: %v %s", row.model, err, r.err)
			continue
		}
		if row.dims == "" { // bound here, so that the formula shows the names
			for _, d := range p.Dims {
				args = append(args, "--dim", d.Name+"=3")
				row.dims += d.Python + "=3 "
			}
			if err := json.Unmarshal([]byte(weirRun(t, args...).out), &p); err != nil {
				t.Error(err)
				continue
			}
		}
		free := weirRun(t, "plan", row.model, "--json", "--calls", "2")
		var q planned
		if err := json.Unmarshal([]byte(free.out), &q); err != nil {
			t.Fatal(err)
		}
		script := "ceildiv = lambda a, b: -(-a // b)\n" + strings.ReplaceAll(row.dims, " ", "\n") + "\nprint(" +
			q.PeakFormula + ")"
		out, err := exec.Command(python, "-c", script).CombinedOutput()
		if p.Peak == nil || err != nil || strings.TrimSpace(string(out)) != fmt.Sprint(*p.Peak) {
			t.Errorf("%s: Python says %s (%v), plan says %v, of %s", row.model, out, err, r.out, q.PeakFormula)
		}
	}
	names := pythonNames([]weir.Dimension{{Name: "x.0"}, {Name: "x_0"}, {Name: "for"}, {Name: "3d"}, {Name: "ä b"},
		{Name: "max"}})
	if got := []string{names["x.0"], names["x_0"], names["for"], names["3d"], names["ä b"],
		names["max"]}; !slices.Equal(got, []string{"x_0", "x_0_", "_for", "_3d", "__b", "max_"}) {
		t.Errorf("the names are %v", got)
	}
}
