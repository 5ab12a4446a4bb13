package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestLearns: the tables find the tastes from judgements alone.
func TestLearns(t *testing.T) {
	var out strings.Builder
	share, err := run(t.Context(), &out, 5)
	if err != nil {
		t.Fatal(err)
	}
	screen(t, out.String())
	if share < 0.85 {
		t.Errorf("%.1f %% of the judgements are right", 100*share)
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
