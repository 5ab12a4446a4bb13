package sym

import (
	"math/rand/v2"
	"testing"
)

// TestGrid shows that sizes of an image that is halved repeatedly are compared without search, and that no false claim
// is shown.
func TestGrid(t *testing.T) {
	dims := NewDims()
	dims.Set(User("b"), Range{0, NoMax})
	dims.Set(User("h"), Range{1, NoMax})
	dims.Set(User("w"), Range{1, NoMax})
	dims.Set(User("v"), Range{0, NoMax})
	for _, text := range []string{
		"((h + 7)//8) - ((h + 15)//16)",
		"4*((h + 31)//32) - (h + 7)//8",
		"640*b*((h + 7)//8)*((w + 7)//8) + 512*b*((h + 15)//16)*((w + 15)//16) - 512*b*((h + 31)//32)*((w + 31)//32) - " +
			"64*((b*((h + 15)//16)*((w + 15)//16) + 3)//4) + 64",
		"752*b*((h + 7)//8)*((w + 7)//8) + 512*b*((h + 15)//16)*((w + 15)//16) - 64*((((h + 7)//8)*((w + 7)//8) + " +
			"7)//8)*min(b, 1) - 64*((h + 127)//128)*min(b, 1) - 64*((w + 127)//128)*min(b, 1)",
		"1024*b*((h + 31)//32)*((w + 31)//32) - 64*b*((h + 7)//8)*((w + 7)//8)",
		"h + 3 - 2*((h + 2)//2)",
		"((v + 15)//16) + ((v + 31)//32) - 2*((v + 63)//64)",
		"b*((v + 7)//8) - min(b, 1)*((v + 15)//16)",
		"((v + 15)//16) - max(v - 1, 0)//16",
		"(max(v - 1, 0)//16*b + max(v - 1, 0)//16 + b)//8 - (max(v - 1, 0)//64*b + max(v - 1, 0)//64 + b)//8",
		"64*((v + 15)//16*b//8) - 64*(max(v - 1, 0)//64*b//8)*min(b*v, 1)",
	} {
		e, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		q := query{dims: dims, steps: proofSteps, proving: true}
		if !q.grid(e) {
			t.Errorf("%s is not shown to be 0 or more", text)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	shown := 0
	for range 4000 {
		quotient := func(name string) Expr {
			k := int64(1) << random.IntN(5)
			if random.IntN(6) == 0 {
				k = 3 * (1 + random.Int64N(3))
			}
			return Var(User(name)).Add(Const(random.Int64N(2*k) - random.Int64N(3))).FloorDiv(Const(k))
		}
		e := Const(random.Int64N(9) - 2)
		for range 1 + random.IntN(5) {
			x := Const(random.Int64N(33) - 12).Mul(quotient("h"))
			switch random.IntN(4) {
			case 0:
				x = x.Mul(quotient("w"))
			case 1:
				x = x.Mul(quotient("v")).Mul(Var(User("b")))
			case 2:
				x = x.Mul(Var(User("b")).Min(Const(1)))
			}
			if random.IntN(4) == 0 {
				x = x.FloorDiv(Const(1 + random.Int64N(7)))
			}
			if random.IntN(6) == 0 { // two quotients by one divisor, of which one dividend may be the greater
				k := Const(2 + random.Int64N(7))
				y := quotient("h").Mul(Var(User("v")).Sub(Const(1)).Max(Const(0)).FloorDiv(Const(1 << random.IntN(4))))
				x = y.FloorDiv(k).Sub(quotient("h").Mul(quotient("v")).FloorDiv(k)).Mul(Var(User("b")))
			}
			e = e.Add(x)
		}
		q := query{dims: dims, steps: proofSteps, proving: true}
		if !q.grid(e) {
			continue
		}
		shown++
		for range 40 {
			far := int64(1) << (2 * random.IntN(4))
			b, v, h, w := random.Int64N(1+far), random.Int64N(3*far), 1+random.Int64N(3*far), 1+random.Int64N(3*far)
			x, err := e.Eval(func(name Name) (int64, bool) {
				return map[Name]int64{User("b"): b, User("v"): v, User("h"): h, User("w"): w}[name], true
			})
			if err != nil || x < 0 {
				t.Fatalf("%s is %d (%v) for b=%d v=%d h=%d w=%d", e, x, err, b, v, h, w)
			}
		}
	}
	if shown < 300 {
		t.Errorf("%d of the random expressions are shown", shown)
	}
}

// TestPresence shows that a quantity's presence is 1 if it is at least 1 and 0 if it is 0, and that Times omits it only
// if that changes nothing.
func TestPresence(t *testing.T) {
	dims := NewDims()
	for _, name := range []string{"a", "b"} {
		dims.Set(User(name), Range{0, NoMax})
	}
	dims.Set(User("h"), Range{1, NoMax})
	for _, c := range []struct{ of, want string }{
		{"512*b*((h + 7)//8)", "min(b, 1)"}, {"3*h + 2", "1"}, {"4*a*b", "min(a*b, 1)"}, {"6*a*b + 4*b*h", "min(b, 1)"},
		{"4*a + 4*b*h", "min(b*h + a, 1)"}, {"2*a*((b + 1)//2)", "min(a*b, 1)"}, {"b*b", "min(b, 1)"},
		{"64*((a*b*h + 3)//4)", "min(a*b, 1)"}, {"(a + 1)//4", "min((a + 1)//4, 1)"}, {"0", "0"},
		{"max(4*a - 3, 0)", "min(max(4*a - 3, 0), 1)"}, {"4*a*h - 4*a", "min(a*h - a, 1)"},
	} {
		of, err := Parse(c.of)
		if err != nil {
			t.Fatal(err)
		}
		p := dims.Presence(of)
		if p.X.String() != c.want {
			t.Errorf("the presence of %s is %s, want %s", c.of, p.X, c.want)
		}
		for i := range int64(64) {
			value := func(name Name) (int64, bool) {
				return map[Name]int64{User("a"): i % 4, User("b"): i / 4 % 4, User("h"): 1 + i/16}[name], true
			}
			v, _ := of.Eval(value)
			if got, err := p.X.Eval(value); err != nil || got != min(v, 1) {
				t.Errorf("the presence of %s, which is %d, is %d (%v)", c.of, v, got, err)
			}
			for _, x := range []string{"5", "3*b", "a*b + h", "(3*b*h + 3)//4", "a*b*h"} {
				x, _ := Parse(x)
				was, _ := x.Eval(value)
				if got, err := p.Times(x).Eval(value); err != nil || got != was*min(v, 1) {
					t.Errorf("%s where %s is present is %d, want %d", x, c.of, got, was*min(v, 1))
				}
			}
		}
	}
}
