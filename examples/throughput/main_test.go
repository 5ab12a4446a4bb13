package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDivisions: divisions use all cores, except a remainder of the calls.
func TestDivisions(t *testing.T) {
	for cores, want := range map[int][]division{1: {{1, 1}}, 2: {{1, 2}, {2, 1}}, 6: {{1, 6}, {2, 3}, {4, 1}}} {
		if got := divisions(cores); !slices.Equal(got, want) {
			t.Errorf("%d cores are %v, want %v", cores, got, want)
		}
	}
}

// TestMeasures prints a line for each division; more calls have a larger certificate.
func TestMeasures(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, 4, 8, 20*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 {
		t.Fatalf("printed was\n%s", out.String())
	}
	before := int64(0)
	for i, line := range lines[1:] {
		var calls, threads int
		var rate, run float64
		var certificate int64
		if _, err := fmt.Sscanf(line, "%d %d %f %f %d bytes", &calls, &threads, &rate, &run, &certificate); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if want := divisions(4)[i]; calls != want.calls || threads != want.threads || rate <= 0 || run <= 0 {
			t.Errorf("%q, want %v", line, want)
		}
		if certificate <= before {
			t.Errorf("the certificate of %d calls is %d, of fewer calls it is %d", calls, certificate, before)
		}
		before = certificate
	}
}
