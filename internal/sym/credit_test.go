package sym

import (
	"fmt"
	"testing"
)

// TestCredit shows that questions that take the prover to the limits of each query end together, by their credit.
func TestCredit(t *testing.T) {
	d := NewDims()
	var names []Expr
	for i := range 4 {
		name := fmt.Sprint("d", i)
		d.Set(User(name), Range{Min: 0, Max: 1 << 40})
		names = append(names, Dim(name))
	}
	intricate := func(k int64) Expr {
		e := Const(k)
		for i, x := range names {
			e = MaxOf(e.Sub(x), MinOf(names[(i+1)%len(names)].Mul(x), e.Add(Const(k))))
		}
		return e
	}
	if d.LE(Const(0), names[0].Mul(names[1])) != Yes {
		t.Fatal("a product of sizes may be negative")
	}
	d.credit.Store(20_000)
	for k := range int64(200) {
		d.LE(intricate(k), intricate(k+7))
	}
	if !d.Exhausted() {
		t.Fatalf("%d of the credit is left", d.credit.Load())
	}
	if d.Clone().Exhausted() != true || d.Empty().Exhausted() != true {
		t.Error("a copy has credit of its own")
	}
	// Obvious facts are still shown, and no result is wrong.
	if d.LE(Const(-1), names[0]) != Yes || d.LE(names[0], Const(3)) == Yes {
		t.Error("an exhausted set answers wrongly")
	}
	d.Grant(100)
	if !d.Exhausted() {
		t.Error("credit was granted to a set that had used it up")
	}
}
