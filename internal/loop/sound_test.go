package loop

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/sym"
)

// accessKernel makes a random kernel that stores to one element of a buffer from a nest of loops, with indices near its
// bounds.
func accessKernel(r *rand.Rand) *Kernel {
	b := NewBuilder("access")
	names := []sym.Expr{s("n"), s("m")}
	var integer func(depth int) sym.Expr
	integer = func(depth int) sym.Expr {
		small := n(r.Int64N(5))
		if depth == 0 {
			return names[r.IntN(len(names))]
		}
		x := integer(depth - 1)
		switch r.IntN(9) {
		case 0:
			return x.Add(integer(depth - 1))
		case 1:
			return x.Mul(small)
		case 2:
			return x.FloorDiv(small.Add(n(1)))
		case 3:
			return x.Mod(small.Add(n(1)))
		case 4:
			return x.CeilDiv(small.Add(n(2)))
		case 5:
			return x.Min(integer(depth - 1))
		case 6:
			return x.Max(small)
		case 7:
			return x.Sub(small)
		}
		return x
	}
	extents := []sym.Expr{integer(2).Add(n(r.Int64N(3)))}
	if r.IntN(2) == 0 {
		extents = append(extents, integer(1))
	}
	y := b.Param("y", Update, dtype.F32, extents)
	var nest func(depth int)
	nest = func(depth int) {
		if depth > 0 {
			extent := integer(r.IntN(3))
			if r.IntN(3) == 0 {
				extent = extents[r.IntN(len(extents))].Sub(n(r.Int64N(2)))
			}
			b.Serial("i", extent, func(i sym.Expr) {
				names = append(names, i, i)
				nest(depth - 1)
			})
			return
		}
		index := make([]sym.Expr, len(extents))
		var mask Expr
		for d := range index {
			index[d] = integer(r.IntN(3))
			switch r.IntN(4) {
			case 0:
				inside := Inside(index[d], n(0), extents[d])
				if mask == nil {
					mask = inside
				} else {
					mask = Apply2(And, mask, inside)
				}
			case 1:
				index[d] = index[d].Mod(extents[d].Max(n(1)))
			}
		}
		b.StoreIf(mask, y, index, Number(dtype.F32, 1))
	}
	nest(1 + r.IntN(3))
	k := b.Kernel
	k.Dims = []sym.Name{sym.User("m"), sym.User("n")}
	return k
}

// TestVerifyIsSound runs 1,500 random kernels with all small extents: if Verify proves a kernel's accesses, none is
// outside its buffer, and if it refuses a kernel, some access is.
func TestVerifyIsSound(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	proved, refused, open := 0, 0, 0
	for range 1500 {
		k := accessKernel(r)
		low := r.Int64N(3)
		dims := sym.NewDims()
		dims.Set(sym.User("n"), sym.Range{Min: low, Max: 5})
		dims.Set(sym.User("m"), sym.Range{Min: 0, Max: sym.NoMax})
		unproved, err := Verify(k, dims)
		var wrong *VerifyError
		if err != nil && !errors.As(err, &wrong) {
			t.Fatal(err)
		}
		outside := false
		for m := range int64(6) {
			for n := low; n < 6; n++ {
				outside = runsOutside(t, k, m, n) || outside
			}
		}
		switch {
		case err != nil:
			refused++
			if !outside {
				t.Fatalf("%v, and no access is outside:\n%s", err, k)
			}
		case unproved == nil:
			proved++
			if outside {
				t.Fatalf("proved, and an access is outside:\n%s", k)
			}
		default:
			open++
		}
	}
	if proved < 300 || refused < 10 {
		t.Errorf("%d proved, %d refused, %d open: the kernels test nothing", proved, refused, open)
	}
	t.Logf("%d proved, %d refused, %d open", proved, refused, open)
}

// runsOutside reports whether a run of the kernel with these dimensions accesses an element outside a buffer.
func runsOutside(t *testing.T, k *Kernel, m, n int64) (outside bool) {
	defer func() {
		if r := recover(); r != nil {
			err, ok := r.(error)
			if !ok || !strings.Contains(err.Error(), "outside its shape") {
				t.Fatalf("%v\n%s", r, k)
			}
			outside = true
		}
	}()
	x := NewInterpreter(k)
	count := int64(1)
	for _, extent := range k.Params[0].Shape {
		v, err := extent.Eval(func(name sym.Name) (int64, bool) {
			if name == sym.User("n") {
				return n, true
			}
			return m, name == sym.User("m")
		})
		if err != nil {
			t.Fatal(err)
		}
		count *= max(v, 0)
	}
	if err := x.Run([]Data{{dtype.F32, make([]byte, 4*count)}}, []int64{m, n}, nil); err != nil {
		t.Fatal(err)
	}
	return false
}
