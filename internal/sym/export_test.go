package sym

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
)

// exported are extents as exporters write them, for dimensions of 1 to 1000, and what they are.
var exported = [][2]string{
	{"min(d, 1000000000)", "d"}, {"min(max(d, 0), 1000000)", "d"}, {"max(min(d, 9223372036854775807), 0)", "d"},
	{"max(0, min(a, b))", "min(a, b)"}, {"min(a, min(b, 1000000000))", "min(a, b)"}, {"max(a, max(0, b))", "max(a, b)"},
	{"min(max(a, 1), max(b, 1))", "min(a, b)"}, {"max(a - 5, -10)", "a - 5"}, {"max(0, a - 1)", "a - 1"},
	{"max(a, a + b)", "a + b"}, {"min(a*b, a)", "a"}, {"min(3*a, 2*a)", "2*a"}, {"min(2*a, a + 1000)", "2*a"},
	{"min(a, 1000) - a", "0"}, {"min(a, 0)", "0"}, {"max(1, 1//a)", "1"},
	{"(288*a*b)//(72*a*b)", "4"}, {"(288*a*b)//(72*b)", "4*a"}, {"ceildiv(288*a*b, 72*a*b)", "4"},
	{"(288*a*b)%(72*a*b)", "0"}, {"((288*a*b)//(72*a*b))*a", "4*a"}, {"(64*a*b*c)//(8*b*c)", "8*a"},
	{"(16*a*b)//(4*a)//4", "b"}, {"(12*a*a)//(4*a)", "3*a"}, {"(a*b + b)//b", "a + 1"},
	{"((a + 1)*(b + 1))//(a + 1)", "b + 1"}, {"(2*a*b + 2*a*c)//(b + c)", "2*a"}, {"(a + b)//(a + b)", "1"},
	{"(3*a)//(2*a)", "1"}, {"a//(2*a)", "0"}, {"(7*a)//(2*a)", "3"}, {"(a*b*4 - a*b)//(3*a)", "b"},
	{"((a//2)*2*b)//(2*b)", "a//2"}, {"(a*(b//2)*2)//(2*a)", "b//2"}, {"(a*b)%b", "0"}, {"(a*(2*b + 1))%a", "0"},
	{"(4*a + 3)%4", "3"}, {"(4*a + b)%4", "b%4"}, {"4*(a//4) + a%4", "a"}, {"ceildiv(8*a - 1, 8)", "a"},
	{"(a + 2 - 3)//2 + 1", "(a + 1)//2"}, {"(((a - 1)//2 + 1) - 1)//2 + 1", "(a + 3)//4"},
	{"(32*((a - 1)//32 + 1))//32", "(a + 31)//32"}, {"max((a + 2*1 - 3)//1 + 1, 0)", "a"},
	{"(9223372036854775807*a)//9223372036854775807", "a"}, {"max(a, a//2)", "a"}, {"min(a, (a + 1)//2)", "(a + 1)//2"},
}

// TestExported: Simplify reduces the arithmetic of exporters to what it is within the ranges.
func TestExported(t *testing.T) {
	d := NewDims()
	for _, name := range []string{"a", "b", "c", "d"} {
		d.Set(User(name), Range{Min: 1, Max: 1000})
	}
	for _, c := range exported {
		e, err := Parse(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Simplify(e); got.String() != c[1] {
			t.Errorf("%s becomes %s, want %s", c[0], got, c[1])
		}
	}
}

// numbered is an expression as text, and its value by integers of any size: nil if a divisor is 0 or negative.
type numbered struct {
	text  string
	value func(at []int64) *big.Int
}

// drawExported draws an expression as the extents of views, windows, pieces and slices have.
func drawExported(r *rand.Rand, depth int) numbered {
	if depth == 0 || r.IntN(6) == 0 {
		if r.IntN(3) == 0 {
			n := []int64{-1, 0, 1, 2, 3, 4, 7, 8, 32, 72, 288, 1000000000, 1<<31 - 1, 1<<63 - 1}[r.IntN(14)]
			return numbered{fmt.Sprint(n), func([]int64) *big.Int { return big.NewInt(n) }}
		}
		i := r.IntN(4)
		return numbered{"abcd"[i : i+1], func(at []int64) *big.Int { return big.NewInt(at[i]) }}
	}
	x, y := drawExported(r, depth-1), drawExported(r, depth-1)
	by := y
	if r.IntN(2) == 0 { // a divisor that has a factor of the dividend
		x = joinedBy("(%s)*(%s)", x, y, (*big.Int).Mul)
	}
	switch r.IntN(9) {
	case 0:
		return joinedBy("(%s)+(%s)", x, y, (*big.Int).Add)
	case 1:
		return joinedBy("(%s)-(%s)", x, y, (*big.Int).Sub)
	case 2:
		return joinedBy("(%s)*(%s)", x, y, (*big.Int).Mul)
	case 3:
		return joinedBy("min(%s, %s)", x, y, func(z, x, y *big.Int) *big.Int {
			if x.Cmp(y) < 0 {
				return z.Set(x)
			}
			return z.Set(y)
		})
	case 4:
		return joinedBy("max(%s, %s)", x, y, func(z, x, y *big.Int) *big.Int {
			if x.Cmp(y) > 0 {
				return z.Set(x)
			}
			return z.Set(y)
		})
	case 5, 6:
		return joinedBy("(%s)//(%s)", x, by, divided((*big.Int).Div))
	case 7:
		return joinedBy("(%s)%%(%s)", x, by, divided((*big.Int).Mod))
	}
	return joinedBy("ceildiv(%s, %s)", x, by, divided(func(z, x, y *big.Int) *big.Int {
		z.Add(x, y)
		return z.Div(z.Sub(z, big.NewInt(1)), y)
	}))
}

// divided returns a division that has no value if the divisor is not positive.
func divided(f func(z, x, y *big.Int) *big.Int) func(z, x, y *big.Int) *big.Int {
	return func(z, x, y *big.Int) *big.Int {
		if y.Sign() <= 0 {
			return nil
		}
		return f(z, x, y)
	}
}

// joinedBy applies an operation to two expressions.
func joinedBy(format string, x, y numbered, f func(z, x, y *big.Int) *big.Int) numbered {
	return numbered{fmt.Sprintf(format, x.text, y.text), func(at []int64) *big.Int {
		a, b := x.value(at), y.value(at)
		if a == nil || b == nil {
			return nil
		}
		return f(new(big.Int), a, b)
	}}
}

// TestExportedNumbers compares simplified expressions with integers of any size, within ranges.
func TestExportedNumbers(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	compared, wrong := 0, 0
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 37))
		x := drawExported(r, 1+r.IntN(4))
		e, err := Parse(x.text)
		if err != nil {
			continue // too large
		}
		d, ranges := NewDims(), [4]Range{}
		for i, name := range names {
			low := []int64{0, 1, 2, 5}[r.IntN(4)]
			ranges[i] = Range{Min: low, Max: low + []int64{0, 1, 62, 1000, 1<<31 - 6}[r.IntN(5)]}
			d.Set(User(name), ranges[i])
		}
		simple := d.Simplify(e)
		for range 12 {
			at := make([]int64, 4)
			for i, r2 := range ranges {
				switch at[i] = r2.Min + r.Int64N(r2.Max-r2.Min+1); r.IntN(4) {
				case 0:
					at[i] = r2.Min
				case 1:
					at[i] = r2.Max
				}
			}
			want := x.value(at)
			if want == nil || !want.IsInt64() {
				continue
			}
			got, err := simple.Eval(func(n Name) (int64, bool) {
				for i, name := range names {
					if n == User(name) {
						return at[i], true
					}
				}
				return 0, false
			})
			if err != nil { // a step beyond 64 bits
				continue
			}
			if compared++; got != want.Int64() {
				if wrong++; wrong < 10 {
					t.Errorf("seed %d: %s, simplified to %s, is %d at %v, want %s", seed, x.text, simple, got, at, want)
				}
			}
		}
	}
	if t.Logf("%d values of 2,000 expressions are compared, %d differ", compared, wrong); compared < 8000 {
		t.Errorf("only %d values are compared", compared)
	}
}
