package main

import (
	"strings"
	"testing"
)

// TestLearns: from judgements alone the tables find the tastes.
func TestLearns(t *testing.T) {
	var out strings.Builder
	share, err := run(t.Context(), &out, 5)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if share < 0.85 {
		t.Errorf("%.1f %% of the judgements are right", 100*share)
	}
}
