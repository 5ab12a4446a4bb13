package conformance

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// guardsFile lists the kernels of the official cases, as portable code, that have accesses which are checked because they are not proved: the case, the kernel, and how many. No access is
// unproved without a check: the compiler panics where one is left.
const guardsFile = "testdata/guards.txt"

// compareChecks holds the number of checks against the file, so that none is added unseen.
func compareChecks(t *testing.T, cpu string, results []Result) {
	if cpu != "portable" {
		return
	}
	var lines []string
	for _, r := range results {
		for _, k := range r.Checks {
			if k.Accesses > 0 {
				lines = append(lines, fmt.Sprintf("%s %s %d\n", r.Name, k.Kernel, k.Accesses))
			}
		}
	}
	slices.Sort(lines)
	text := strings.Join(lines, "")
	if *rewrite {
		if err := os.WriteFile(guardsFile, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if data, err := os.ReadFile(guardsFile); err != nil || string(data) != text {
		t.Errorf("%s is not what the kernels have (%v): go test ./internal/conformance -run TestOfficial -rewrite\n%s", guardsFile, err, text)
	}
}
