package leak_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/weirml/weir/cmd/weirvet/leak"
)

// TestDocument runs the examples of docs/weirvet.md: an example that is followed by messages has exactly these
// findings, every other one has none.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/weirvet.md")
	if err != nil {
		t.Fatal(err)
	}
	examples := strings.Split(string(text), "```go\n")[1:]
	data := t.TempDir()
	if err := os.CopyFS(filepath.Join(data, "src"), os.DirFS("testdata/src")); err != nil {
		t.Fatal(err)
	}
	var packages []string
	for i, example := range examples {
		code, _, _ := strings.Cut(example, "```\n")
		packages = append(packages, fmt.Sprintf("example%d", i))
		writeExample(t, filepath.Join(data, "src", packages[i]), code)
	}
	found := 0
	for i, r := range analysistest.Run(onlyResults{t}, data, leak.Analyzer, packages...) {
		code, after, _ := strings.Cut(examples[i], "```\n")
		var got, want []string
		for _, d := range r.Diagnostics {
			got = append(got, d.Message)
		}
		for line := range strings.Lines(strings.TrimLeft(after, "\n")) {
			message, ok := strings.CutPrefix(line, "    ")
			if !ok {
				break
			}
			want = append(want, strings.TrimSpace(message))
		}
		if found += len(want); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the example\n%s\nhas the findings\n%s\nnot\n%s", code, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if found < 6 {
		t.Errorf("only %d findings in the document", found)
	}
}

// writeExample writes a package with an example's functions; line numbers count from the example's first line.
func writeExample(t *testing.T, folder, code string) {
	head := ""
	for _, path := range []string{"context", "errors", "fmt", "github.com/weirml/weir", "github.com/weirml/weir/array"} {
		if strings.Contains(code, filepath.Base(path)+".") {
			head += fmt.Sprintf("import %q\n", path)
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	source := "// Package example is one of the document.\npackage example\n" + head + "\n//line example.go:1\n" + code
	if err := os.WriteFile(filepath.Join(folder, "example.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
}

// onlyResults ignores failures about findings without a comment that announces them.
type onlyResults struct{ *testing.T }

func (t onlyResults) Errorf(format string, args ...any) {
	if !strings.Contains(format, "unexpected") && !strings.Contains(format, "no diagnostic") {
		t.T.Errorf(format, args...)
	}
}
