package main

import (
	"strings"
	"testing"
)

// TestLearns: features of five digits serve five others, and the file that is written reads them.
func TestLearns(t *testing.T) {
	var out strings.Builder
	accuracy, err := run(t.Context(), &out, t.TempDir(), 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if accuracy < 0.93 {
		t.Errorf("%.2f %% of the test images are read", 100*accuracy)
	}
}
