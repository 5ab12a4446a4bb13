package array_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRules: the tests that docs/arrays.md names exist.
func TestRules(t *testing.T) {
	document, err := os.ReadFile("../docs/arrays.md")
	fine(t, err)
	there := map[string]bool{}
	for _, room := range []string{".", "../nn", "../train"} {
		files, err := filepath.Glob(filepath.Join(room, "*_test.go"))
		fine(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			fine(t, err)
			for _, found := range regexp.MustCompile(`(?m)^func (Test\w+)\(t `).FindAllStringSubmatch(string(text), -1) {
				there[found[1]] = true
			}
		}
	}
	names := regexp.MustCompile("`(Test[A-Z]\\w+)`").FindAllStringSubmatch(string(document), -1)
	for _, name := range names {
		if !there[name[1]] {
			t.Errorf("there is no %s", name[1])
		}
	}
	if rows := strings.Count(string(document), "| `Test"); rows < 20 || len(names) < rows {
		t.Errorf("%d rows and %d names of tests were read", rows, len(names))
	}
}
