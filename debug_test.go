package weir

import (
	"os"
	"strings"
	"testing"
)

// TestTroubleshooting checks that docs/troubleshooting.md has every word of WEIR_DEBUG and every kind of error.
func TestTroubleshooting(t *testing.T) {
	text, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	words := []string{"`without:STEP`", "`ErrInput`", "`ErrUnsupported`", "`ErrBudget`", "`ErrMemory`", "`ErrClosed`",
		"`ErrDeviceLost`", "`ErrInternal`"}
	for word := range debugWords {
		words = append(words, "| `"+word+"` |")
	}
	for _, w := range words {
		if !strings.Contains(string(text), w) {
			t.Errorf("docs/troubleshooting.md does not have %s", w)
		}
	}
}
