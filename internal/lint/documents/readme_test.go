package documents

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadme compiles the README's program and runs it on the digits.
func TestReadme(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to compile it with")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(text), "```go\n")
	code, _, end := strings.Cut(code, "```\n")
	if !ok || !end {
		t.Fatal("README.md has no Go program")
	}
	// A folder of this module, so that the program compiles against this tree.
	dir, err := os.MkdirTemp(".", "readme-*.tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./"+dir, "examples/digits/data/digits.onnx").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "peak:") || !strings.Contains(string(out), "[0.0") {
		t.Fatalf("%v\n%s", err, out)
	}
}
