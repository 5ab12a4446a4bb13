package sym

import "testing"

// TestTerms shows that an expression is the sum of its terms and constant.
func TestTerms(t *testing.T) {
	for _, text := range []string{"0", "7", "x", "3*x*y - 2*z + 5", "(x // 4)*7 + x % 4 + ceildiv(x, y)",
		"min(x, y, 3) + max(x*y, 2)*z", "x*x + 1"} {
		e, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		constant, terms := e.Terms()
		sum := Const(constant)
		for _, term := range terms {
			sum = sum.Add(term.Expr())
		}
		if !sum.Equal(e) {
			t.Errorf("%s came apart into %s", e, sum)
		}
	}
}
