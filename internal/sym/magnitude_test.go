package sym

import (
	"math/big"
	"math/rand/v2"
	"testing"
)

// TestMeasure compares a measure with every binding: no value is outside the range, and no partial sum, in any order,
// exceeds the size.
func TestMeasure(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	names := []string{"x", "y", "w"}
	bounded := 0
	for range 3000 {
		m := NewMeasure()
		var ranges []Range
		for _, name := range names {
			small := smallRanges[r.IntN(len(smallRanges))]
			ranges = append(ranges, small)
			m.Set(User(name), small)
		}
		e := randomExpr(r, names, 3)
		value, size := m.Of(e)
		if size < 1<<60 {
			bounded++
		}
		each(names, ranges, func(binding map[string]int64) {
			v, err := e.Eval(lookup(binding))
			if err != nil {
				return
			}
			if v < value.Min || v > value.Max {
				t.Fatalf("%s is %d at %v, outside %s", e, v, binding, value)
			}
			up, down := new(big.Int), new(big.Int)
			constant, terms := e.Terms()
			for _, x := range append([]Expr{Const(constant)}, exprsOf(terms)...) {
				v, err := x.Eval(lookup(binding))
				if err != nil {
					return
				}
				if v > 0 {
					up.Add(up, big.NewInt(v))
				} else {
					down.Sub(down, big.NewInt(v))
				}
			}
			if limit := big.NewInt(size); up.Cmp(limit) > 0 || down.Cmp(limit) > 0 {
				t.Fatalf("%s: partial sums reach %d and -%d at %v, beyond %d", e, up, down, binding, size)
			}
		})
	}
	if bounded < 2900 {
		t.Errorf("%d of 3000 expressions are bounded: the test shows little", bounded)
	}
}

// exprsOf returns terms as expressions.
func exprsOf(terms []Term) (list []Expr) {
	for _, t := range terms {
		list = append(list, t.Expr())
	}
	return list
}

// TestMeasureLimits shows that magnitudes beyond 2^61 are reported as unbounded, and that coefficients count even if
// the factor beside them is 0.
func TestMeasureLimits(t *testing.T) {
	m := NewMeasure()
	m.Set(User("z"), Range{0, 0})
	m.Set(User("k"), Range{1<<31 - 1, 1<<31 - 1})
	m.Set(User("n"), Range{0, 1 << 40})
	for text, want := range map[string]bool{
		"n":                            true,
		"n*n":                          false,
		"1048576*n":                    true,
		"2097153*n":                    false,
		"4611686018427387904*z":        false,
		"4611686018427387904":          false,
		"-4611686018427387904":         false,
		"n - n":                        true,
		"n*n//n":                       false,
		"(n*n + 1)//n":                 false,
		"min(n*n, 3)":                  false,
		"min(k*k, 3)":                  true,
		"min(max(2 - k*k, z), 3)":      true,
		"min(k*k*k, 3)":                false,
		"max(k*k, 3)":                  false,
		"(n*n + 1)%16":                 false,
		"max(n, 7)*1048000":            true,
		"unknown":                      false,
		"2305843009213693951":          true,
		"2305843009213693951 + n":      false,
		"2305843009213693951*z + n":    false,
		"ceildiv(n, 8)*8*1024":         true,
		"(n*1048576 + 1)//1048576*n*8": false,
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, size := m.Of(e); (size <= 1<<61) != want {
			t.Errorf("%s: %d, bounded should be %v", text, size, want)
		}
	}
}
