package sym

import (
	"math/rand/v2"
	"testing"
)

// randomExpr is an expression over names, of at most so many levels.
func randomExpr(r *rand.Rand, names []string, depth int) Expr {
	if depth == 0 || r.IntN(5) == 0 {
		if r.IntN(3) == 0 {
			return Const(int64(r.IntN(12)) - 3)
		}
		return Var(names[r.IntN(len(names))])
	}
	x := randomExpr(r, names, depth-1)
	positive := Const(int64(r.IntN(8)) + 1)
	switch r.IntN(11) {
	case 0, 1:
		return x.Add(randomExpr(r, names, depth-1))
	case 2:
		return x.Sub(randomExpr(r, names, depth-1))
	case 3:
		return x.Mul(randomExpr(r, names, depth-1))
	case 4:
		return x.Mul(positive)
	case 5:
		return x.FloorDiv(positive)
	case 6:
		return x.CeilDiv(positive)
	case 7:
		return x.Mod(positive)
	case 8:
		return x.Max(randomExpr(r, names, depth-1))
	case 9:
		return x.Min(randomExpr(r, names, depth-1))
	}
	y := randomExpr(r, names, depth-1)
	return [...]func(Expr) Expr{x.FloorDiv, x.CeilDiv, x.Mod}[r.IntN(3)](y)
}

var smallRanges = []Range{{0, 5}, {1, 6}, {1, 4}, {-3, 3}, {2, 2}, {0, 9}}

// each calls f with every binding of the names within their ranges.
func each(names []string, ranges []Range, f func(map[string]int64)) {
	binding := map[string]int64{}
	var walk func(i int)
	walk = func(i int) {
		if i == len(names) {
			f(binding)
			return
		}
		for v := ranges[i].Min; v <= ranges[i].Max; v++ {
			binding[names[i]] = v
			walk(i + 1)
		}
	}
	walk(0)
}

func lookup(binding map[string]int64) func(string) (int64, bool) {
	return func(name string) (int64, bool) { v, ok := binding[name]; return v, ok }
}

// TestProverAgainstBruteForce compares every answer with all bindings, and counts the answers that brute force knows and the prover does not.
func TestProverAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"x", "y", "w"}
	var always, missed int
	for range 30000 {
		d := NewDims()
		var ranges []Range
		for _, name := range names {
			ranges = append(ranges, smallRanges[r.IntN(len(smallRanges))])
			d.Set(name, ranges[len(ranges)-1])
		}
		a, b := randomExpr(r, names, 3), randomExpr(r, names, 3)
		le, eq := d.LE(a, b), d.EQ(a, b)
		lo, hi := d.Bounds(a)
		simple := d.Simplify(a)
		allLE, noLE, values := true, true, 0
		each(names, ranges, func(binding map[string]int64) {
			x, err := a.Eval(lookup(binding))
			if err != nil {
				return
			}
			if s, err := simple.Eval(lookup(binding)); err != nil || s != x {
				t.Fatalf("%v: simplified to %v, which is %d (%v) and not %d at %v", a, simple, s, err, x, binding)
			}
			if x < lo || x > hi {
				t.Fatalf("%v is %d, beyond %d..%d, at %v", a, x, lo, hi, binding)
			}
			y, err := b.Eval(lookup(binding))
			if err != nil {
				return
			}
			values++
			allLE, noLE = allLE && x <= y, noLE && x > y
			if le == Yes && x > y || le == No && x <= y {
				t.Fatalf("%v <= %v: %v, but %d and %d at %v of %v", a, b, le, x, y, binding, ranges)
			}
			if eq == Yes && x != y || eq == No && x == y {
				t.Fatalf("%v == %v: %v, but %d and %d at %v", a, b, eq, x, y, binding)
			}
		})
		if values > 0 && (allLE || noLE) {
			always++
			if le == Unknown {
				missed++
			}
		}
	}
	t.Logf("of %d comparisons with one answer everywhere, %d were not decided", always, missed)
	if missed*100 > always*15 {
		t.Errorf("of %d comparisons with one answer everywhere, %d were not decided", always, missed)
	}
}
