package train_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocument compiles and runs the program of docs/training.md: it prints an accuracy of at least 0.9, and its output
// equals the document's except for numbers.
func TestDocument(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command to compile it with")
	}
	text, err := os.ReadFile("../docs/training.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, ok := strings.Cut(string(text), "```go\n")
	code, _, end := strings.Cut(code, "```\n")
	if !ok || !end {
		t.Fatal("docs/training.md has no Go program")
	}
	dir, err := os.MkdirTemp(".", "document-*.tmp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(code), 0o666); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("go", "run", "./"+dir).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "accuracy 0.9") {
		t.Fatalf("%v\n%s", err, out)
	}
	_, screen, _ := strings.Cut(string(text), "```\n\n```\n")
	screen, _, _ = strings.Cut(screen, "```")
	plain := func(text string) string { return regexp.MustCompile(`[0-9.]+`).ReplaceAllString(text, "N") }
	if plain(screen) != plain(string(out)) {
		t.Errorf("the document shows\n%sand the program prints\n%s", screen, out)
	}
}
