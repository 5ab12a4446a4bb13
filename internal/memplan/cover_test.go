package memplan

import (
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir/internal/sym"
)

// TestCovered compares sums of sizes of an image that is halved repeatedly: no sum that is covered is greater at any
// binding, and of the sums of which every part is covered most are.
func TestCovered(t *testing.T) {
	dims := sym.NewDims()
	for _, name := range []string{"batch", "h", "w"} {
		dims.Set(sym.User(name), sym.Range{Min: 0, Max: sym.NoMax})
	}
	var sizes []sym.Expr
	for _, text := range []string{
		"1", "batch", "batch*((h + 7)//8)*((w + 7)//8)", "batch*((h + 15)//16)*((w + 15)//16)",
		"(3*batch*((h + 7)//8)*((w + 7)//8) + 7)//8", "(3*batch*((h + 15)//16)*((w + 15)//16) + 7)//8", "min(batch*h*w, 1)",
		"max(h - 1, 0)//16*(max(w - 1, 0)//16) + max(h - 1, 0)//16 + max(w - 1, 0)//16", "h*w",
	} {
		x, err := sym.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, x)
	}
	p := Problem{Steps: 2, Dims: dims}
	for _, x := range sizes {
		p.Buffers = append(p.Buffers, Buffer{Name: x.String(), Size: x, Align: 1, Last: 1})
	}
	pl, err := newPlanner(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var atoms []int32
	for _, x := range sizes {
		atoms = append(atoms, pl.atom(x))
	}
	r := rand.New(rand.NewPCG(5, 6))
	covered, same := 0, 0
	for range 3000 {
		var x, y []addend
		for _, at := range r.Perm(len(atoms))[:1+r.IntN(3)] {
			x = append(x, addend{atoms[at], 1 + r.Int64N(200)})
		}
		for _, at := range r.Perm(len(atoms))[:1+r.IntN(4)] {
			y = append(y, addend{atoms[at], 1 + r.Int64N(200)})
		}
		if !pl.covered(x, y) {
			continue
		}
		covered++
		for range 30 {
			far := int64(1) << r.IntN(10)
			values := map[string]int64{"batch": r.Int64N(4), "h": r.Int64N(far), "w": r.Int64N(far)}
			at := func(name sym.Name) (int64, bool) { return values[name.Text()], true }
			a, err := pl.expr(x).Eval(at)
			b, err2 := pl.expr(y).Eval(at)
			if err != nil || err2 != nil || a > b {
				t.Fatalf("%s is %d (%v), %s is %d (%v) at %v", pl.expr(x), a, err, pl.expr(y), b, err2, values)
			}
			if a == b {
				same++
			}
		}
	}
	if covered < 200 || same == 0 {
		t.Errorf("%d of the random sums are covered, and equal to the greater sum at %d bindings", covered, same)
	}
}
