package loop

import "testing"

// TestAccesses: the accesses of random kernels are their loads and stores, and a loop may end after any of them.
func TestAccesses(t *testing.T) {
	for seed := range uint64(60) {
		m, _ := randomModule(seed)
		for _, k := range m.Kernels {
			want := map[string]int{}
			WalkValues(k.Body, func(e Expr) {
				if l, ok := e.(*Load); ok {
					want[l.From]++
				}
			})
			Walk(k.Body, func(s Stmt) bool {
				switch s := s.(type) {
				case *Store:
					want[s.To]++
				case *Contract:
					want[s.A.Buffer]++
					want[s.B.Buffer]++
					want[s.C.Buffer]++
				}
				return true
			})
			list := Accesses(k.Body)
			for _, a := range list {
				want[a.Buffer]--
			}
			for name, left := range want {
				if left != 0 {
					t.Fatalf("seed %d: %d accesses of %s are missing in\n%s", seed, left, name, k)
				}
			}
			for end := range list {
				at := 0
				for a := range EachAccess(k.Body) {
					if a.Buffer != list[at].Buffer || a.Stmt != list[at].Stmt || len(a.Loops) != len(list[at].Loops) {
						t.Fatalf("seed %d: access %d is %v, want %v", seed, at, a, list[at])
					}
					if at++; at > end {
						break
					}
				}
			}
		}
	}
}
