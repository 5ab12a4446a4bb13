package main

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, "  right\n") != 20 || !strings.Contains(got, "\n20 of 20 right\n") {
		t.Errorf("printed\n%s", got)
	}
	out.Reset()
	if err := run(t.Context(), &out, []string{filepath.Join("data", "images", "07.png")}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.HasPrefix(got, filepath.Join("data", "images", "07.png")+"  3 ") {
		t.Errorf("printed\n%s", got)
	}
	if err := run(t.Context(), &out, []string{"missing.png"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: error %v", err)
	}
	if err := run(t.Context(), &out, []string{"main.go"}); err == nil {
		t.Error("a file that is no picture gave no error")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(cancelled, &out, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}

// TestScores compares the scores with onnxruntime's, alone and in batches.
func TestScores(t *testing.T) {
	model, err := weir.LoadBytes(data.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	program, err := weir.Compile(t.Context(), model, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	pictures := data.Pictures()
	for _, batch := range []int{1, 3, 20} {
		for from := 0; from < len(pictures); from += batch {
			part := pictures[from:min(from+batch, len(pictures))]
			scores, err := classify(t.Context(), program, part)
			if err != nil {
				t.Fatal(err)
			}
			for i, p := range part {
				for digit, want := range p.Scores {
					if got := scores[i][digit]; math.Abs(float64(got-want)) > 1e-5 {
						t.Errorf("%s in a batch of %d: digit %d scores %v, want %v", p.Name, batch, digit, got, want)
					}
				}
			}
		}
	}
}
