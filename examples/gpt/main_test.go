package main

import (
	"strings"
	"testing"
)

// TestWrites: the network learns the poem well enough to continue its first words.
func TestWrites(t *testing.T) {
	var out strings.Builder
	loss, written, err := run(t.Context(), &out, 200, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(out.String())
	if loss > 0.6 || !strings.HasPrefix(written,
		"'Twas brillig, and the slithy toves\nDid gyre and gimble in the wabe;\n") {
		t.Errorf("the loss is %v; written was %q", loss, written)
	}
}
