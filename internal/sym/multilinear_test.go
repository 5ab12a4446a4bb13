package sym

import (
	"testing"
)

// TestMultilinear compares Multilinear with Linear in every name, and expressions with the sum of their terms.
func TestMultilinear(t *testing.T) {
	for _, text := range []string{"0", "7", "n", "2*n + 3*m - 1", "n*m", "n*n", "n*n*m", "n // 2", "3*(n % 4) + m",
		"min(n, m)", "n*m + n*k", "n*m*m + k"} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		want := true
		for _, name := range e.Vars() {
			_, _, linear := e.Linear(name)
			want = want && linear
		}
		if got := e.Multilinear(); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
		constant, terms := e.Terms()
		sum := Const(constant)
		for _, term := range terms {
			product := Const(term.Coef)
			for _, f := range term.Factors {
				product = product.Mul(f.Expr())
			}
			if !product.Equal(term.Expr()) {
				t.Errorf("%s: the term %s is not the product %s of its factors", text, term.Expr(), product)
			}
			sum = sum.Add(product)
		}
		if !sum.Equal(e) {
			t.Errorf("%s: its terms come to %s", text, sum)
		}
	}
}
