package sym

import (
	"fmt"
	"testing"
	"time"
)

// TestHostileIsBounded asks every question about expressions that are as costly as the limits allow.
func TestHostileIsBounded(t *testing.T) {
	nested := Dim("n")
	for i := range 200 {
		k := Const(int64(i%7 + 2))
		nested = nested.FloorDiv(k).Add(nested.Mod(k)).Min(nested.Add(Dim("m")).FloorDiv(Dim("k")))
		if nested.size() > largestTree/8 {
			break
		}
	}
	wide, rounded, greatest, remainders, power := Const(0), Const(1), Const(0), Const(0), Const(1)
	var list []Expr
	for i := range 2000 {
		x := Dim(fmt.Sprint("x", i))
		list = append(list, x.Mul(Dim("n")).Mod(Const(int64(i+2))).Sub(Dim("m").Mul(x).FloorDiv(Const(int64(i+2)))))
		if i < 300 {
			greatest = greatest.Max(x.FloorDiv(Const(3)).Min(Dim("n").Mul(Const(int64(i)))))
			remainders = remainders.Add(x.Mod(Dim("n")).Mul(Dim("n")))
		}
		if i < 12 {
			rounded = rounded.Mul(x.Add(Const(63)).FloorDiv(Const(64)).Sub(Dim("m")))
			power = power.Mul(Dim("n").Sub(x))
		}
	}
	wide = Sum(list...)
	d := testDims()
	for name, e := range map[string]Expr{"nested": nested, "wide": wide, "rounded": rounded, "greatest": greatest,
		"remainders": remainders, "power": power} {
		start := time.Now()
		other := e.Subst(func(name Name) (Expr, bool) { return Var(name).Add(Const(1)), name == User("n") })
		d.LE(e, other)
		d.EQ(e, other)
		d.Bounds(e)
		d.Simplify(e)
		if _, err := e.Compile(e.Vars()); err != nil {
			t.Fatal(err)
		}
		text := e.String()
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s, of size %d: %v", name, e.size(), took)
		} else {
			t.Logf("%s, of size %d, %d bytes of text: %v", name, e.size(), len(text), took)
		}
	}
}
