package main

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// TestRun prints the languages of the embedded sentences.
func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(out.String(), "\n")
	for i, want := range []string{"English", "German", "French", "Spanish", "Italian", "Dutch"} {
		if !strings.HasPrefix(lines[i], want+" ") {
			t.Errorf("line %q, want %s", lines[i], want)
		}
	}
	if err := run(t.Context(), &out, []string{"", strings.Repeat("ça va ", 1000)}); err != nil {
		t.Error(err)
	}
}

// TestScores compares the held-out sentences' scores with onnxruntime's, for several shapes: single sentences, without
// padding, and batches, in which padding must not matter.
func TestScores(t *testing.T) {
	content, err := os.ReadFile("data/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Text, Language string
		Scores         []float64
	}
	if err := json.Unmarshal(content, &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 60 {
		t.Fatalf("%d sentences, want 60", len(rows))
	}
	program, err := compile(t.Context(), len(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	for _, batch := range []int{1, 7, 60} {
		for from := 0; from < len(rows); from += batch {
			var sentences []string
			for _, row := range rows[from:min(from+batch, len(rows))] {
				sentences = append(sentences, row.Text)
			}
			scores, err := identify(t.Context(), program, sentences)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range scores {
				for j, want := range rows[from+i].Scores {
					if math.Abs(float64(got[j])-want) > 1e-4 {
						t.Errorf("%q in a batch of %d: %s scores %v, want %v", sentences[i], batch, languages[j], got[j], want)
					}
				}
			}
		}
	}
}
