package sym

import "testing"

// parse returns the expression of a text, which must be well formed.
func parse(t testing.TB, text string) Expr {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

// testDims returns the ranges of the tests: n, m, k ≥ 1; a, b, c ≥ 0; p in 1..4, q in 0..7; z in −5..5; u has no range.
func testDims() *Dims {
	d := NewDims()
	for _, name := range []string{"n", "m", "k"} {
		d.Set(User(name), Range{1, NoMax})
	}
	for _, name := range []string{"a", "b", "c"} {
		d.Set(User(name), Range{0, NoMax})
	}
	d.Set(User("p"), Range{1, 4})
	d.Set(User("q"), Range{0, 7})
	d.Set(User("z"), Range{-5, 5})
	return d
}

// everyday has conditions that always hold for testDims, of the kinds that shapes, bounds and memory plans need.
var everyday = []string{
	"a <= a + b", "n <= m*n", "4*n <= 8*n", "0 <= n", "1 <= n*m", "a*b <= a*b + c", "n + m <= 2*n*m", "n + m - 1 <= n*m",
	"n <= n*n", "2*n <= n*n + 1", "a <= a*a", "n*m <= n*m*k", "0 <= a//3", "a//3 <= a", "a//4*4 <= a", "a < a//4*4 + 4",
	"a <= ceildiv(a, 64)*64", "ceildiv(a, 64)*64 < a + 64", "ceildiv(a, 64) <= ceildiv(a + b, 64)", "0 <= a % 8",
	"a % 8 < 8", "a % 8 <= a",
	"a//8*8 + a%8 == a", "a % 8 == a - a//8*8", "ceildiv(4*n*m, 64)*64 <= 64*n*m",
	"ceildiv(4*n, 64)*64 <= ceildiv(8*n, 64)*64",
	"ceildiv(4*n, 64)*64 <= ceildiv(4*n*m, 64)*64", "ceildiv(4*n*m, 64)*64 + 4*n <= ceildiv(8*n*m, 64)*64 + 4*n*m",
	"ceildiv(4*n, 64)*64 <= 4*n + 63", "ceildiv(12*n, 64)*64 + ceildiv(4*n, 64)*64 <= ceildiv(16*n, 64)*64 + 64",
	"ceildiv(16*n, 64)*64 <= ceildiv(12*n, 64)*64 + ceildiv(4*n, 64)*64", "a <= max(a, b)", "min(a, b) <= a",
	"min(a, b) <= max(a, b)",
	"max(a, b) <= a + b", "max(n, m) <= n*m", "max(a, b) + min(a, b) == a + b", "max(n, 1) == n", "max(4*n, 2*n) == 4*n",
	"max(n, n*m) == n*m",
	"max(n, m) <= max(n, m, k)", "max(n, m) <= max(2*n, m + 1)", "max(n + 64, m) <= max(n, m) + 64",
	"min(n, m) <= min(n + 1, m*k)",
	"max(a + b, a + c) == a + max(b, c)", "2*max(a, b) == max(2*a, 2*b)", "p <= 4", "p*n <= 4*n", "n <= p*n", "p*q <= 28",
	"16 - p*p >= 0", "q//2 <= 3",
	"z*z <= 25", "0 <= z + 5", "z*n <= 5*n", "-5*n <= z*n", "p*q*n <= 28*n", "(n + 1)//2 <= n", "(n - 1)//2 + 1 <= n",
	"(n - 1)//2 + 1 >= 1",
	"n//2 + (n + 1)//2 == n", "n//2*2 <= n", "n//4 <= n//2", "n//6 <= n//2", "(n//2)//3 == n//6", "(2*n + 1)//2 == n",
	"a//n <= a", "a//n*n <= a", "a < a//n*n + n",
	"a % n < n", "a % n <= a", "a//n*n + a%n == a", "ceildiv(a, n)*n >= a", "ceildiv(a, n)*n < a + n",
	"ceildiv(n*m, m) == n", "n*m//m == n",
	"n*m % m == 0", "(n*m + m)//m == n + 1", "a*n//(b*n + n) == a//(b + 1)", "((n - 1)//2 + 1)*((m - 1)//2 + 1) <= n*m",
	"((n - 1)//2 + 1)*((n - 1)//2 + 1) <= n*n", "1 <= ((n - 1)//2 + 1)*((m - 1)//2 + 1)", "4*((n + 1)//2)*m <= 4*n*m",
	"n*m*((k + 3)//4) <= n*m*k",
	"n != n + 1", "2*n != 2*m + 1", "4*n + 2 != 6*m*k + 1 + 2*k", "n < n + 1", "n*m < n*m + n", "0 < n*m + a",
	"2*n + 1 != 0", "a*b + 1 > 0",
	"ceildiv(n, 8)*8*ceildiv(m, 8)*8 >= n*m", "ceildiv(n*m*4, 64)*64*k >= n*m*k*4",
	"ceildiv(n, 16)*ceildiv(m, 16)*256 <= (n + 15)*(m + 15)",
	"min(a, 7) <= 7", "max(min(a, 7), 3) <= 7", "max(min(a, 7), 3) >= 3", "min(q, 100) == q", "max(q - 7, 0) == 0",
	"max(0, min(n - 1, n)) == n - 1",
	"n*64 + ceildiv(m, 2)*64 <= n*64 + m*64", "a - a//2 == (a + 1)//2", "3*a//2 >= a", "3*a//2 <= 2*a",
	"(a + 7)//8*8 - a <= 7", "a//2 + b//2 <= (a + b)//2",
	"(a + b)//2 <= a//2 + b//2 + 1", "max(a//2, b//2) == max(a, b)//2",
	"max(ceildiv(4*n, 64)*64, ceildiv(4*m, 64)*64) <= ceildiv(4*n + 4*m, 64)*64",
	"max(4*n*m + 64, 8*n) + 128*k <= max(8*n*m + 64, 8*n*m + 128*k) + 128*k", "a + max(0, b - a) >= b",
	"a + max(0, b - a) == max(a, b)", "n - min(n, m) >= 0",
	"n - min(n, m) == max(0, n - m)", "u*u >= 0", "u <= u + a", "u//8*8 <= u", "u % 8 >= 0", "(u + 8)//8 == u//8 + 1",
	"u < u//8*8 + 8",
	"min(n*((a + 3)//4)*((b + 3)//4) - 384*c, 384) <= n*((a + 3)//4)*((b + 3)//4)",
	"384*c + min(n*(a//4)*(b//4) - 384*c, 384) <= n*(a//4)*(b//4)",
	"min(4*((b + 3)//4) - 384*c, 384) <= 4*((b + 3)//4)", "max(384 - n*(a//4), c) + n*(a//4) >= 384",
	"(-u) // 8 == -ceildiv(u, 8)",
}

// TestEveryday proves every everyday condition.
func TestEveryday(t *testing.T) {
	d := testDims()
	var open []string
	for _, text := range everyday {
		c, err := ParseCond(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		switch d.Prove(c) {
		case No:
			t.Errorf("%s: refuted", text)
		case Unknown:
			open = append(open, text)
		}
	}
	t.Logf("%d of %d not proved: %q", len(open), len(everyday), open)
	if len(open) > 0 {
		t.Errorf("%d of %d not proved", len(open), len(everyday))
	}
}
