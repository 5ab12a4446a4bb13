package array

import "testing"

// TestSidesOfOneHash looks up addresses that have one hash again and again: none displaces another, so the lookups
// allocate nothing.
func TestSidesOfOneHash(t *testing.T) {
	var list []uintptr
	for pc := uintptr(1); len(list) < sideWays/2; pc++ {
		if uint64(pc)*0x9e3779b97f4a7c15>>(64-10) == 5 {
			list = append(list, pc)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		for _, pc := range list {
			outside(pc)
		}
	}); n > 0 {
		t.Errorf("%d lookups allocate %v times", len(list), n)
	}
}
