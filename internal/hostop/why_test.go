package hostop

import "testing"

// TestWhy checks that each host operator has a reason, and that each reason belongs to a host operator.
func TestWhy(t *testing.T) {
	used := map[string]bool{}
	for _, name := range Names() {
		reason := Why(name)
		if reason == "" {
			t.Errorf("%s has no reason to be a host operator", name)
		}
		used[reason] = true
	}
	for name, reason := range whys {
		if !used[reason] {
			t.Errorf("the reason of %s belongs to no host operator", name)
		}
	}
	if Why("convolution") != "" {
		t.Error("an operator that is not a host operator has a reason to be one")
	}
}
