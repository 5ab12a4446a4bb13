package beamweir

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/examples/digits/data"
)

// TestExample: docs/scale.md shows the example, which reads the pictures of the digits, and a torn file.
func TestExample(t *testing.T) {
	document, err := os.ReadFile("../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("examples/digits/main.go")
	if err != nil {
		t.Fatal(err)
	}
	if _, program, _ := strings.Cut(string(code), "package main\n"); !strings.Contains(string(document),
		"```go\npackage main\n"+program+"```\n") {
		t.Error("docs/scale.md does not show examples/digits/main.go")
	}
	binary := filepath.Join(t.TempDir(), "digits.exe")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary, "./examples/digits")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := t.TempDir()
	var want []string
	for _, p := range data.Pictures() {
		name := filepath.Join(dir, p.Name)
		if err := os.WriteFile(name, p.PNG, 0o600); err != nil {
			t.Fatal(err)
		}
		want = append(want, name+": "+string(rune('0'+p.Label)))
	}
	torn := filepath.Join(dir, "torn.png")
	if err := os.WriteFile(torn, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	labels := filepath.Join(dir, "labels.txt")
	out, err := exec.Command(binary, "--input", filepath.Join(dir, "*.png"), "--model",
		"../examples/digits/data/digits.onnx", "--output", labels).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got := linesOf(t, labels); !slices.Equal(got, want) {
		t.Errorf("the labels are\n%s", strings.Join(got, "\n"))
	}
	if got := linesOf(t, labels+".failures"); len(got) != 1 || !strings.HasPrefix(got[0], torn+": ") {
		t.Errorf("the failures are %q", got)
	}
}

// linesOf returns a file's lines in order.
func linesOf(t *testing.T, name string) []string {
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	slices.Sort(lines)
	return lines
}
