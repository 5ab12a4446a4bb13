package sym

import (
	"math/rand/v2"
	"testing"
)

// TestExact compares the interval of polynomials whose interval is said to be exact with their values at all bindings,
// and what is decided of them with what holds at all bindings.
func TestExact(t *testing.T) {
	names := []Name{User("a"), User("b"), User("c"), User("d")}
	r := rand.New(rand.NewPCG(1, 2))
	exact := 0
	for range 3000 {
		d, ranges := NewDims(), map[Name]Range{}
		for _, n := range names {
			low := int64(r.IntN(7) - 4)
			ranges[n] = Range{low, low + int64(r.IntN(4))}
			d.Set(n, ranges[n])
		}
		e := Const(int64(r.IntN(9) - 4))
		for range 1 + r.IntN(3) {
			term := Const(int64(r.IntN(7) - 3))
			for range 1 + r.IntN(2) {
				term = term.Mul(Var(names[r.IntN(len(names))]))
			}
			e = e.Add(term)
		}
		q := query{dims: d}
		if !q.exact(e) {
			continue
		}
		exact++
		low, high := least(e, names, ranges)
		if v := q.interval(e); v.lo != low || v.hi != high {
			t.Fatalf("%s with %v: the interval is %v, the values lie from %d to %d", e, ranges, v, low, high)
		}
		if lo, hi := d.Bounds(e); lo != low || hi != high {
			t.Fatalf("%s with %v: bounds %d to %d, want %d to %d", e, ranges, lo, hi, low, high)
		}
		if got := d.NotNegative(e, false); got != (low >= 0) {
			t.Fatalf("%s with %v: not negative: %t", e, ranges, got)
		}
		want := map[bool]Truth{true: Yes, false: Unknown}[low >= 0]
		if high < 0 {
			want = No
		}
		if got := d.LE(Const(0), e); got != want {
			t.Fatalf("0 <= %s with %v: %s, want %s", e, ranges, got, want)
		}
	}
	if exact < 1000 {
		t.Fatalf("only %d of the polynomials are exact", exact)
	}
}

// least returns the least and the greatest value of e at all bindings.
func least(e Expr, names []Name, ranges map[Name]Range) (low, high int64) {
	low, high = 1<<62, -1<<62
	binding := map[Name]int64{}
	var bind func(i int)
	bind = func(i int) {
		if i < len(names) {
			for v := ranges[names[i]].Min; v <= ranges[names[i]].Max; v++ {
				binding[names[i]] = v
				bind(i + 1)
			}
			return
		}
		v, err := e.Eval(func(name Name) (int64, bool) { return binding[name], true })
		if err != nil {
			panic(err)
		}
		low, high = min(low, v), max(high, v)
	}
	bind(0)
	return low, high
}
