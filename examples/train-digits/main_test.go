package main

import (
	"strings"
	"testing"
)

// TestLearns: from nothing to 97 % of the images that training does not see, in seconds.
func TestLearns(t *testing.T) {
	var out strings.Builder
	accuracy, err := run(t.Context(), &out, 60)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if accuracy < 0.97 {
		t.Errorf("%.2f %% of the test images are read", 100*accuracy)
	}
}
