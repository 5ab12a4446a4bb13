package command

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// embedded is a tiny model of sentence-transformers.
const embedded = "../../embed/testdata/models/bert"

// TestEmbed prints, writes and reads texts' vectors, and refuses what does not fit.
func TestEmbed(t *testing.T) {
	r := weirRun(t, "embed", embedded, "a river", "the sea", "--json")
	var out struct {
		Vectors [][]float32 `json:"vectors"`
	}
	if err := json.Unmarshal([]byte(r.out), &out); r.code != 0 || err != nil || len(out.Vectors) != 2 {
		t.Fatalf("%d: %s %s %v", r.code, r.out, r.err, err)
	}
	texts, vectors := filepath.Join(t.TempDir(), "texts"), filepath.Join(t.TempDir(), "v.npy")
	if err := os.WriteFile(texts, []byte("a river\nthe sea\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if r := weirRun(t, "embed", embedded, "--input", texts, "--output", vectors); r.code != 0 {
		t.Fatalf("%d: %s", r.code, r.err)
	}
	size := len(out.Vectors[0])
	if info, err := os.Stat(vectors); err != nil || info.Size() != int64(128+2*4*size) {
		t.Errorf("%v: %v", info, err)
	}
	if r := weirRun(t, "embed", embedded, "a river", "the\tsea"); r.code != 0 ||
		!strings.Contains(r.out, "the sea ") || !strings.Contains(r.out, strconv.Itoa(size)+" elements") ||
		!strings.Contains(r.out, "\nmemory  ") {
		t.Errorf("%d: %s", r.code, r.out)
	}
	for _, c := range []struct {
		code int
		args []string
	}{
		{2, []string{}}, {2, []string{embedded}}, {2, []string{embedded, "a", "--input", texts}},
		{2, []string{embedded, "--input", "nothing.txt"}}, {2, []string{"nothing", "a"}},
		{2, []string{embedded, "a", "--dimensions", "-1"}}, {1, []string{embedded, "a", "--prompt-name", "x"}},
		{1, []string{embedded, "a", "--budget", "1KiB"}}, {1, []string{digits, "a"}},
	} {
		if r := weirRun(t, append([]string{"embed"}, c.args...)...); r.code != c.code {
			t.Errorf("%q: %d, not %d: %s", c.args, r.code, c.code, r.err)
		}
	}
}

// TestTextDocument runs the first lines of docs/text.md, from a package's name to a vector, on the model that
// testdata/models/fetch.py has taken out of the package: by the command and by Go.
func TestTextDocument(t *testing.T) {
	folder := os.Getenv("WEIR_MODELS")
	if folder == "" {
		t.Skip("WEIR_MODELS is not set: it names the folder that testdata/models/fetch.py fills with models of pinned " +
			"packages")
	}
	text, err := os.ReadFile("../../docs/text.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shell, ok := strings.Cut(string(text), "```sh\n")
	shell, _, ok2 := strings.Cut(shell, "```")
	lines := strings.Split(strings.TrimSpace(shell), "\n")
	_, program, ok3 := strings.Cut(string(text), "```go\n")
	program, _, ok4 := strings.Cut(program, "```")
	if !ok || !ok2 || !ok3 || !ok4 || len(lines) != 4 || strings.Count(program, "\n") != 3 {
		t.Fatal("docs/text.md does not begin with four lines of shell and three of Go")
	}
	var pinned struct {
		Packages []struct {
			Package, Version, Hash string
			Folders                map[string]string
		} `json:"packages"`
	}
	data, err := os.ReadFile("../../testdata/models/models.json")
	if err == nil {
		err = json.Unmarshal(data, &pinned)
	}
	if err != nil {
		t.Fatal(err)
	}
	model := ""
	for _, p := range pinned.Packages {
		for name, inner := range p.Folders {
			if strings.HasSuffix(lines[0], " "+p.Package+"=="+p.Version) && strings.Contains(lines[1], p.Version) &&
				strings.Contains(lines[2], inner) {
				model = filepath.Join(folder, name+"-"+p.Hash[:8])
			}
		}
	}
	if model == "" {
		t.Fatalf("testdata/models/models.json does not pin the package of %q", lines)
	}
	words := strings.SplitN(strings.TrimPrefix(lines[3], "weir "), " ", 3)
	texts := strings.Split(strings.Trim(words[2], `"`), `" "`)
	r := weirRun(t, append([]string{words[0], model, "--json"}, texts...)...)
	var out struct {
		Vectors [][]float32 `json:"vectors"`
	}
	if err := json.Unmarshal([]byte(r.out), &out); r.code != 0 || err != nil || len(out.Vectors) != 2 {
		t.Fatalf("%d: %s %v", r.code, r.err, err)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	program = "package main\n\nimport (\n\t\"context\"\n\t\"fmt\"\n\n\t\"github.com/weirml/weir/embed\"\n)\n\n" +
		"func main() {\nctx := context.Background()\n" +
		strings.Replace(program, `"model"`, strconv.Quote(model), 1) + "}\n"
	if err := os.WriteFile(file, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("go", "run", file)
	run.Dir = "../.."
	printed, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	var first [4]float32
	for i, field := range strings.Fields(strings.Trim(strings.SplitN(string(printed), "]", 2)[0], "[")) {
		x, err := strconv.ParseFloat(field, 32)
		if err != nil {
			t.Fatalf("%s: %v", printed, err)
		}
		first[i] = float32(x)
	}
	if want := [4]float32(out.Vectors[0][:4]); first != want || !strings.HasSuffix(string(printed), "<nil>\n") {
		t.Errorf("Go prints %s; the command %v", printed, want)
	}
}
