package hostop

import "testing"

// TestWhy: each host operator has a reason to be one, and no reason is left over.
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
			t.Errorf("the reason of %s is no host operator's", name)
		}
	}
	if Why("convolution") != "" {
		t.Error("what is no host operator has a reason to be one")
	}
}
