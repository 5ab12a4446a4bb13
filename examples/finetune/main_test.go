package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLearns: features of five digits serve five others, and the written file recognises them.
func TestLearns(t *testing.T) {
	var out strings.Builder
	accuracy, err := run(t.Context(), &out, t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	screen(t, out.String())
	if accuracy < 0.93 {
		t.Errorf("%.2f %% of the test images are read", 100*accuracy)
	}
}

// screen fails t unless the README shows the program's output, up to numbers.
func screen(t *testing.T, out string) {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```\n")
	shown, _, _ = strings.Cut(shown, "```")
	plain := func(text string) string { return regexp.MustCompile(`[0-9]+(\.[0-9]+)?`).ReplaceAllString(text, "N") }
	if plain(shown) != plain(out) {
		t.Errorf("README.md shows\n%sand the program prints\n%s", shown, out)
	}
}
