package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/conformance/conformancetest"
)

// exportedModel is a row of a table of models in a Python file: its name, and a function or a tuple that makes it.
var exportedModel = regexp.MustCompile(`(?m)^    "(\w+)": (lambda|\()`)

// namesIn returns the names of the models that Python files of the repository make.
func namesIn(t *testing.T, files ...string) (names []string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		found := exportedModel.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Fatalf("%s makes no models", file)
		}
		for _, m := range found {
			names = append(names, "`"+m[1]+"`")
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestModelsDocument writes the models that tests load into docs/models.md, from the tables that those tests read.
func TestModelsDocument(t *testing.T) {
	const file, begins = "../../docs/models.md",
		"<!-- generated from the tests' tables: go test ./internal/conformance -run TestModelsDocument -rewrite -->\n"
	var models realModels
	readJSON(t, "models.json", &models)
	origin := map[string]string{}
	for _, p := range models.Packages {
		for name := range p.Models {
			origin[name] = fmt.Sprintf("%s %s, %s", p.Package, p.Version, p.Licence)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## Of packages\n\n`make test` takes %d models out of pinned packages and runs them in %d cases "+
		"(`TestRealModels`), with free and with bound sizes, as artefacts, as machine code and as plain Go. It\n",
		len(origin), len(models.Cases))
	fmt.Fprintf(&b, "compares outputs with those recorded from onnxruntime, and each case's memory with the prediction.\n"+
		"\n| case | model's package | inputs | steps |\n|---|---|---|---:|\n")
	for _, c := range models.Cases {
		var inputs []string
		for name, fill := range c.Inputs {
			inputs = append(inputs, fmt.Sprintf("%s %v", name, fill.Shape))
		}
		slices.Sort(inputs)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %d |\n", c.Name, origin[c.Model], strings.Join(inputs, ", "), max(c.Steps, 1))
	}
	small, err := filepath.Glob("../../testdata/onnx/*/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(&b, "\n`go test ./...` runs %d small models of [testdata/onnx](../testdata/onnx) and the networks of "+
		"[examples](../examples) without any download; [examples/filetype](../examples/filetype) runs Magika, which "+
		"`make test` takes out of its package.\n", len(small))
	for _, s := range []struct {
		title, says string
		names       []string
	}{
		{"Exported from PyTorch to ONNX",
			"`make compare` exports them with random weights, and compares their outputs with PyTorch's, and measured " +
				"bytes with predicted ones.", namesIn(t, "bench/models.py")},
		{"Exported from PyTorch as .pt2",
			"`make torch` runs them as files and by `torch.compile`, forwards and backwards, with dynamic sizes.",
			namesIn(t, "python/tests_torch/models.py")},
		{"The sweep", "`bench/bench.py --parts sweep` runs them beside other engines and compares every output: " +
			"[benchmarks.md](benchmarks.md#the-sweep). Models whose name ends in `_dyn` have named sizes. The sweep also has\n" +
			"trees and classifiers from scikit-learn and LightGBM.",
			namesIn(t, "bench/sweep/other.py", "bench/sweep/quantised.py", "bench/sweep/text.py", "bench/sweep/vision.py")},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n%d: %s.\n", s.title, s.says, len(s.names), strings.Join(s.names, ", "))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, after, ok := strings.Cut(string(data), begins)
	if !ok {
		t.Fatalf("%s lacks the line %s", file, begins)
	}
	if after == b.String() {
		return
	}
	if !*rewrite {
		t.Fatalf("%s lists other models than the tests load: go test ./internal/conformance -run TestModelsDocument -rewrite",
			file)
	}
	if err := os.WriteFile(file, []byte(before+begins+b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestCounts compares the numbers of models, cases and mutants in docs/robustness.md with those of a test run.
func TestCounts(t *testing.T) {
	text, err := os.ReadFile("../../docs/robustness.md")
	if err != nil {
		t.Fatal(err)
	}
	var models realModels
	readJSON(t, "models.json", &models)
	count := 0
	for _, p := range models.Packages {
		count += len(p.Models)
	}
	for _, want := range []string{
		fmt.Sprintf("| %d models out of pinned packages (voice activity, text detection and recognition, pitch) in %d cases,",
			count, len(models.Cases)),
		fmt.Sprintf("TestSmallModels` | %d short models", len(conformancetest.SmallModels)),
		fmt.Sprintf("A test run has %d,%03d mutants.", someMutants/1000, someMutants%1000),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/robustness.md lacks %q", want)
		}
	}
}
