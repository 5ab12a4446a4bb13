package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
)

var kills = flag.Int("kills", 4, "how often TestEachKilled kills a run")

// pictures writes an .npy file of n random pictures for the digits model.
func pictures(t *testing.T, name string, n int) {
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
	if err := os.WriteFile(name, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
}

// scores reads the scores of all parts of a folder, by element. An element that is in two parts is a failure.
func scores(t *testing.T, folder string) map[int64][]float64 {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(folder, "part-*.npz"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64][]float64{}
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
		rows, err := a.Read("scores")
		if err != nil {
			t.Fatal(err)
		}
		for i := range elements.Len() {
			e := elements.Int(i)
			if all[e] != nil {
				t.Fatalf("element %d is in two parts", e)
			}
			for k := range int64(10) {
				all[e] = append(all[e], rows.Float(i*10+k))
			}
		}
	}
	return all
}

// TestEachKilled kills a job at random until it ends by itself: its results are those of a job that nothing ended, and
// no element is lost or there twice.
func TestEachKilled(t *testing.T) {
	const n = 8_000
	folder := t.TempDir()
	in := filepath.Join(folder, "in.npy")
	pictures(t, in, n)
	once, often := filepath.Join(folder, "once"), filepath.Join(folder, "often")
	args := []string{"run", digits, "--each", in, "--part", "100", "--json", "--output"}
	begin := time.Now()
	r := weirRun(t, append(args, once)...)
	took := time.Since(begin)
	var report map[string]any
	if err := json.Unmarshal([]byte(r.out), &report); err != nil || r.code != 0 || report["elements"] != float64(n) ||
		report["parts_written"] != 80.0 || report["joined"] != true {
		t.Fatalf("%+v, %v", r, err)
	}
	killed := 0
	for range *kills {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Float64()*float64(took)/float64(1+*kills/2)))
		cmd := exec.CommandContext(ctx, binary, append(args, often)...)
		if err := cmd.Run(); err != nil {
			killed++
		} else if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Fatal(err)
		}
		cancel()
	}
	if killed == 0 {
		t.Error("no run was killed")
	}
	if r := weirRun(t, append(args, often)...); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	got, want := scores(t, often), scores(t, once)
	if len(got) != n || len(want) != n {
		t.Fatalf("%d and %d elements of %d", len(got), len(want), n)
	}
	for e, row := range want {
		for k, x := range row {
			if d := got[e][k] - x; d*d > 1e-12 {
				t.Fatalf("element %d differs by %g", e, d)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(often, "*.tmp*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
}

// TestEach: elements that fail make the command fail, and say where they are; the results are those of single runs.
func TestEach(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	folder := filepath.Dir(strings.TrimPrefix(image, "image="))
	r := weirRun(t, "run", digits, "--each", folder, "--output", out)
	if r.code != 0 || !strings.HasPrefix(r.out, "20 elements in ") || !strings.Contains(r.out, "into 1 parts\nmemory ") {
		t.Fatalf("%+v", r)
	}
	one := weirRun(t, "run", digits, "--input", image, "--json", "--values")
	var want struct {
		Outputs struct{ Scores struct{ Values []float64 } }
	}
	if err := json.Unmarshal([]byte(one.out), &want); err != nil {
		t.Fatal(err)
	}
	got := scores(t, out)
	for k, x := range want.Outputs.Scores.Values {
		if d := got[7][k] - x; d*d > 1e-12 {
			t.Errorf("score %d is %g, alone %g", k, got[7][k], x)
		}
	}
	lines := filepath.Join(t.TempDir(), "in.jsonl")
	row := strings.TrimSuffix(strings.Repeat("["+strings.TrimSuffix(strings.Repeat("0,", 8), ",")+"],", 8), ",")
	text := fmt.Sprintf("{\"image\": [[%s]]}\n{\"image\": 3}\n", row)
	if err := os.WriteFile(lines, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	r = weirRun(t, "run", digits, "--each", lines, "--output", out+"2", "--part", "1")
	if r.code != 1 || !strings.Contains(r.err, "1 elements failed, the first: ") ||
		!strings.Contains(r.err, "part-*.errors.jsonl") {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{2, "add --output", []string{"--each", folder}},
		{2, "--part is for --each", []string{"--part", "3", "--input", image}},
		{2, "--each has no --input", []string{"--each", folder, "--output", out, "--input", image}},
		{2, "write INDEX/COUNT", []string{"--each", folder, "--output", out, "--shard", "4/4"}},
		{2, "it is jsonl or npz", []string{"--each", folder, "--output", out, "--format", "csv"}},
		{1, "results of other inputs", []string{"--each", folder + "/0*.png", "--output", out}},
		{1, "fits this pattern", []string{"--each", folder + "/nothing", "--output", out}},
		{1, "a budget of ", []string{"--each", folder, "--output", out, "--budget", "100KiB"}},
	} {
		if r := weirRun(t, append([]string{"run", digits}, c.args...)...); r.code != c.code ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("%q: %+v", c.args, r)
		}
	}
	peak := weirRun(t, "run", digits, "--each", folder, "--output", out+"3", "--budget", "200KiB", "--json")
	var report struct {
		Certificate int64 `json:"certificate_bytes"`
		Rows        int
	}
	if err := json.Unmarshal([]byte(peak.out), &report); err != nil || report.Certificate > 200<<10 || report.Rows > 16 ||
		report.Rows < 1 {
		t.Errorf("%+v, %v", peak, err)
	}
}

// TestJob: the manifest of a Job has the memory of a run of so many rows, and arguments that weir run takes.
func TestJob(t *testing.T) {
	r := weirRun(t, "plan", digits, "--dim", "batch=1..16", "--calls", "2", "--kubernetes=job", "--shards", "4", "--each",
		"in.npy", "--json")
	var out plannedManifest
	if err := json.Unmarshal([]byte(r.out), &out); err != nil || r.code != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	var args []string
	_, list, _ := strings.Cut(out.Manifest, "          args:\n")
	list, _, _ = strings.Cut(list, "          env:\n")
	for line := range strings.Lines(list) {
		args = append(args, strings.TrimPrefix(strings.TrimSpace(line), "- "))
	}
	want := fmt.Sprintf("              memory: \"%d\"\n", (out.Memory+4095)&^4095)
	if strings.Count(out.Manifest, want) != 2 {
		t.Errorf("%q is not twice in %s", want, out.Manifest)
	}
	var limit struct {
		Limit int64 `json:"limit_bytes"`
	}
	p := weirRun(t, "plan", digits, "--dim", "batch=1..16", "--calls", "2", "--threads", "2", "--json")
	if err := json.Unmarshal([]byte(p.out), &limit); err != nil || out.Terms[0].Bytes != limit.Limit {
		t.Errorf("the certificate's limit is %d, not %d, %v", out.Terms[0].Bytes, limit.Limit, err)
	}
	folder := t.TempDir()
	pictures(t, filepath.Join(folder, "in.npy"), 100)
	replace := strings.NewReplacer("/mnt/models", filepath.Dir(digits), "/mnt/data", folder, "$(JOB_COMPLETION_INDEX)",
		"0", `"`, "")
	for i, a := range args {
		args[i] = replace.Replace(a)
	}
	if r := weirRun(t, args...); r.code != 0 || !strings.HasPrefix(r.out, "100 elements in ") {
		t.Errorf("%q: %+v", args, r)
	}
	for _, c := range []struct{ want, args string }{
		{"no bound", "--kubernetes=job"},
		{"--shards and --each are for", "--kubernetes --shards 2 --dim batch=1"},
		{"pvc://CLAIM", "--kubernetes=job --dim batch=1 --storage s3://a"},
		{"seldon and job", "--kubernetes=helm"},
	} {
		if r := weirRun(t, append([]string{"plan", digits}, strings.Fields(c.args)...)...); r.code == 0 ||
			!strings.Contains(r.err, c.want) {
			t.Errorf("%s: %+v", c.args, r)
		}
	}
}
