package sym

import (
	"math"
	"testing"
)

// TestSpread shows that bindings are the same each time, are within the ranges, and reach both ends of short ranges.
func TestSpread(t *testing.T) {
	d := NewDims()
	ranges := []Range{{1, 1}, {0, 3}, {0, NoMax}, {-5, NoMax}, {math.MinInt64, 7}, {NoMax - 2, NoMax},
		{math.MinInt64, NoMax}, {math.MinInt64, math.MinInt64 + 1}, {3, 1 << 40}}
	var names []Name
	for i, r := range ranges {
		name := User(string(rune('a' + i)))
		names = append(names, name)
		d.Set(name, r)
	}
	first, again := d.Spread(names), d.Spread(names)
	for i, binding := range first {
		for k, v := range binding {
			if r := ranges[k]; v < r.Min || v > r.Max {
				t.Errorf("%s is %d in binding %d, outside %s", names[k].Text(), v, i, r)
			}
			if again[i][k] != v {
				t.Errorf("%s is %d in binding %d, and then %d", names[k].Text(), v, i, again[i][k])
			}
		}
	}
	if first[0][1] != 0 || first[1][1] != 3 {
		t.Errorf("the ends of 0..3 are %d and %d", first[0][1], first[1][1])
	}
}

// TestPresent compares sizes that count only if something is present with sizes that contain them.
func TestPresent(t *testing.T) {
	d := NewDims()
	d.Set(User("b"), Range{0, NoMax})
	d.Set(User("s"), Range{0, NoMax})
	for _, c := range []struct {
		text string
		want Truth
	}{
		{"576*b*s - 128*((b + 7)//8)*min(b*s, 1) - 64*((s + 7)//8)*min(b*s, 1) + s - 64*min(b*s, 1)", Yes},
		{"448*b*s + 512*b*min(b*s, 1) - 128*((b + 7)//8)*min(b*s, 1) - 64*min(b*s, 1)", Yes},
		{"64*b*s - 128*((b + 7)//8)*min(b*s, 1)", Unknown}, // below 0 if both are 1
		{"4096*b*s - s*s*min(b*s, 1)", Unknown},            // below 0 if b is 1 and s over 4096
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.LE(Const(0), e); got != c.want {
			t.Errorf("0 ≤ %s: %s, not %s", c.text, got, c.want)
		}
	}
}

// TestExtremumByWitnesses shows that of many arguments the same stay as if each is compared with each.
func TestExtremumByWitnesses(t *testing.T) {
	d := NewDims()
	d.Set(User("n"), Range{1, NoMax})
	d.Set(User("m"), Range{1, 64})
	for _, c := range [][2]string{
		{"max(n, m, n + 1, 2*n, n*m, 64*n, m + 3)", "max(64*n, m + 3)"},
		{"min(n, m, n + 1, 2*n, n*m, 64*n, m + 3)", "min(n, m)"},
		{"max(n, m, 64, 65, n//2, m//2)", "max(n, 65)"},
	} {
		e, _ := Parse(c[0])
		want, _ := Parse(c[1])
		if got := d.Simplify(e); !got.Equal(want) {
			t.Errorf("%s is %s, not %s", c[0], got, want)
		}
	}
}

// TestDiffer tells apart expressions that differ somewhere within the ranges, and no others.
func TestDiffer(t *testing.T) {
	d := NewDims()
	d.Set(User("n"), Range{0, 10})
	d.Set(User("m"), Range{0, NoMax})
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"n", "n", false},
		{"n + m", "n + m + 1", true},
		{"min(n, 10)", "n", false},
		{"min(n, 9)", "n", true},
		{"(n + m)//max(n + m, 1)*min(n + m, 1)", "min(n + m, 1)", false},
		{"(n + m)//max(n + m, 1)", "1", true},
		{"-9223372036854775808*-1 - 9223372036854775781", "27", false},
		{"m*m*m*m*m*m*m*m", "m*m*m*m*m*m*m*m", false},
	} {
		a, errA := Parse(c.a)
		b, errB := Parse(c.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if got := d.Differ(a, b); got != c.want {
			t.Errorf("%s and %s: %v, want %v", c.a, c.b, got, c.want)
		}
	}
}
