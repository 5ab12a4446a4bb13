package sym

import (
	"math/rand/v2"
	"testing"
)

// TestJoinedRemainders shows that a quotient and the remainder beside it become their dividend, also if the remainder
// has lost multiples of the divisor.
func TestJoinedRemainders(t *testing.T) {
	for from, want := range map[string]string{
		"14*(u//14) + u%14":                             "u",
		"14336*((u + 384*a)//14) + 1024*((u + 6*a)%14)": "1024*u + 393216*a",
		"401408*((u + 384*a)//3136) + 7168*(((u + 384*a)//56)%56) + 128*((u + 48*a)%56)": "128*u + 49152*a",
		"n*(14*((u + 30*a)//14) + (u + 2*a)%14)":                                         "n*u + 30*n*a",
		"14*((u + 30*a)//14) + (u + 3*a)%14": "14*((u + 30*a)//14) + (u + " +
			"3*a)%14",
		"14*((u + 30*a)//7) + (u + 2*a)%14": "14*((u + 30*a)//7) + (u + 2*a)%14",
	} {
		if got := testDims().Simplify(parse(t, from)); !got.Equal(parse(t, want)) {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
}

// TestPresences shows that a quotient by max(b, 1) of a multiple of b comes out even, and that a factor min(b, 1) goes
// if the others are 0 whenever b is.
func TestPresences(t *testing.T) {
	for from, want := range map[string]string{
		"21*a*(b + 6)//max(21*a, 1)":              "(b + 6)*min(a, 1)",
		"(126*a*b + 21*a)//max(21*a, 1)*a":        "6*a*b + a",
		"(126*a*b + 20*a)//max(21*a, 1)":          "(126*a*b + 20*a)//max(21*a, 1)",
		"z*b//max(z, 1)":                          "z*b//max(z, 1)", // z may be negative
		"(5*a*b + 7)//8*min(5*a, 1)":              "(5*a*b + 7)//8",
		"(5*a*b + 9)//8*min(5*a, 1)":              "(5*a*b + 1)//8 + min(a, 1)",
		"3*a*b*min(a*b, 1) + 2*b*min(a*b, 1) + c": "3*a*b + 2*b*min(a*b, 1) + c",
		"min(a*n, 1)*a":                           "a",
		"min(z, 1)*z":                             "min(z, 1)*z",
	} {
		if got := testDims().Simplify(parse(t, from)); !got.Equal(parse(t, want)) {
			t.Errorf("%s becomes %s, want %s", from, got, want)
		}
	}
	r := rand.New(rand.NewPCG(3, 4))
	names, ranges := []string{"x", "y", "w"}, []Range{{0, 3}, {-2, 2}, {1, 3}}
	dims := NewDims()
	for i, name := range names {
		dims.Set(User(name), ranges[i])
	}
	changed := 0
	for range 3000 {
		b, q := randomExpr(r, names, 2), randomExpr(r, names, 2)
		e := randomExpr(r, names, 1).Mul(q.Mul(b).FloorDiv(b.Max(Const(1))))
		switch r.IntN(3) {
		case 0:
			e = e.Mul(b.Min(Const(1)))
		case 1:
			e = e.Mul(b.Mul(randomExpr(r, names, 1)).Min(Const(1))).Add(randomExpr(r, names, 1))
		}
		simple := dims.Simplify(e)
		if !simple.Equal(e) {
			changed++
		}
		each(names, ranges, func(binding map[string]int64) {
			v, err := e.Eval(lookup(binding))
			if err != nil {
				return
			}
			if s, err := simple.Eval(lookup(binding)); err != nil || s != v {
				t.Fatalf("%v: simplified to %v, which is %d (%v) and not %d at %v", e, simple, s, err, v, binding)
			}
		})
	}
	if changed < 1000 {
		t.Errorf("%d of the random expressions change", changed)
	}
}
