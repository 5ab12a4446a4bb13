package sym

import (
	"math/rand/v2"
	"testing"
	"time"
)

// randomOffset returns an expression such as memory plans compare: a sum of sizes, most rounded up to 64 bytes, or the
// maximum of some.
func randomOffset(r *rand.Rand, depth int) Expr {
	size := func() Expr {
		bytes := Const([]int64{1, 2, 4, 12, 40, 64, 256, 400, 4096}[r.IntN(9)])
		n, m := Dim("n"), Dim("m")
		switch r.IntN(8) {
		case 0:
		case 1:
			bytes = bytes.Mul(n).Mul(m)
		case 2:
			bytes = bytes.Mul(m)
		case 3:
			bytes = bytes.Mul(n).Mul(m.Add(Const(1)).FloorDiv(Const(2)))
		case 4:
			bytes = bytes.Mul(n).Mul(m.Sub(Const(1)))
		default:
			bytes = bytes.Mul(n)
		}
		if r.IntN(5) == 0 {
			return bytes
		}
		return bytes.CeilDiv(Const(64)).Mul(Const(64))
	}
	if depth > 0 && r.IntN(2) == 0 {
		return randomOffset(r, depth-1).Max(randomOffset(r, depth-1)).Add(size())
	}
	e := size()
	for range r.IntN(4) {
		e = e.Add(size())
	}
	return e
}

// TestProverOnPlans compares results for offsets with a grid of bindings, and counts the Unknown results for which the
// whole grid agrees.
func TestProverOnPlans(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	d := NewDims()
	d.Grant(1 << 20) // this tests what can be proved, not its cost
	d.Set(User("n"), Range{1, NoMax})
	d.Set(User("m"), Range{1, NoMax})
	grid := []int64{1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1000, 12345}
	var always, missed, asked int
	var took time.Duration
	for i := range 4000 {
		a, b := randomOffset(r, i%3), randomOffset(r, i%3)
		start := time.Now()
		le := d.LE(a, b)
		took += time.Since(start)
		asked++
		allLE, noLE := true, true
		for _, n := range grid {
			for _, m := range grid {
				value := lookup(map[string]int64{"n": n, "m": m})
				x, err := a.Eval(value)
				y, err2 := b.Eval(value)
				if err != nil || err2 != nil {
					t.Fatal(err, err2)
				}
				allLE, noLE = allLE && x <= y, noLE && x > y
				if le == Yes && x > y || le == No && x <= y {
					t.Fatalf("%v <= %v: %v, but %d and %d at n = %d, m = %d", a, b, le, x, y, n, m)
				}
			}
		}
		if allLE || noLE {
			if always++; le == Unknown {
				missed++
			}
		}
	}
	t.Logf("%d of %d comparisons with one answer on the grid were not decided; %v each", missed, always,
		took/time.Duration(asked))
	if missed*100 > always*5 {
		t.Errorf("%d of %d comparisons with one answer on the grid were not decided", missed, always)
	}
}
