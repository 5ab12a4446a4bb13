package sym

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// randomExpr returns an expression over names with at most depth levels.
func randomExpr(r *rand.Rand, names []string, depth int) Expr {
	if depth == 0 || r.IntN(5) == 0 {
		if r.IntN(3) == 0 {
			return Const(int64(r.IntN(12)) - 3)
		}
		return Dim(names[r.IntN(len(names))])
	}
	x := randomExpr(r, names, depth-1)
	positive := Const(int64(r.IntN(8)) + 1)
	switch r.IntN(11) {
	case 0, 1:
		return x.Add(randomExpr(r, names, depth-1))
	case 2:
		return x.Sub(randomExpr(r, names, depth-1))
	case 3:
		return x.Mul(randomExpr(r, names, depth-1))
	case 4:
		return x.Mul(positive)
	case 5:
		return x.FloorDiv(positive)
	case 6:
		return x.CeilDiv(positive)
	case 7:
		return x.Mod(positive)
	case 8:
		return x.Max(randomExpr(r, names, depth-1))
	case 9:
		return x.Min(randomExpr(r, names, depth-1))
	}
	y := randomExpr(r, names, depth-1)
	return [...]func(Expr) Expr{x.FloorDiv, x.CeilDiv, x.Mod}[r.IntN(3)](y)
}

var smallRanges = []Range{{0, 5}, {1, 6}, {1, 4}, {-3, 3}, {2, 2}, {0, 9}}

// each calls f with every binding of the names within their ranges.
func each(names []string, ranges []Range, f func(map[string]int64)) {
	binding := map[string]int64{}
	var walk func(i int)
	walk = func(i int) {
		if i == len(names) {
			f(binding)
			return
		}
		for v := ranges[i].Min; v <= ranges[i].Max; v++ {
			binding[names[i]] = v
			walk(i + 1)
		}
	}
	walk(0)
}

func lookup(binding map[string]int64) func(Name) (int64, bool) {
	return func(name Name) (int64, bool) { v, ok := binding[name.Text()]; return v, ok && name.User() }
}

// users returns the names that a user gave.
func users(texts ...string) []Name {
	var names []Name
	for _, text := range texts {
		names = append(names, User(text))
	}
	return names
}

// TestProverAgainstBruteForce compares every result with all bindings, and counts the results that brute force finds
// and the prover does not.
func TestProverAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{"x", "y", "w"}
	var always, missed int
	for i := range 20000 {
		d := NewDims()
		var ranges []Range
		for _, name := range names {
			small := smallRanges[r.IntN(len(smallRanges))]
			ranges = append(ranges, small)
			if i%4 == 3 { // the prover may know less than brute force finds
				small = [...]Range{{small.Min, NoMax}, {math.MinInt64, small.Max}, {math.MinInt64, NoMax}, small}[r.IntN(4)]
			}
			d.Set(User(name), small)
		}
		a, b := randomExpr(r, names, 3), randomExpr(r, names, 3)
		le, eq := d.LE(a, b), d.EQ(a, b)
		lo, hi := d.Bounds(a)
		simple := d.Simplify(a)
		allLE, noLE, values := true, true, 0
		each(names, ranges, func(binding map[string]int64) {
			x, err := a.Eval(lookup(binding))
			if err != nil {
				return
			}
			if s, err := simple.Eval(lookup(binding)); err != nil || s != x {
				t.Fatalf("%v: simplified to %v, which is %d (%v) and not %d at %v", a, simple, s, err, x, binding)
			}
			if x < lo || x > hi {
				t.Fatalf("%v is %d, beyond %d..%d, at %v", a, x, lo, hi, binding)
			}
			y, err := b.Eval(lookup(binding))
			if err != nil {
				return
			}
			values++
			allLE, noLE = allLE && x <= y, noLE && x > y
			if le == Yes && x > y || le == No && x <= y {
				t.Fatalf("%v <= %v: %v, but %d and %d at %v of %v", a, b, le, x, y, binding, ranges)
			}
			if eq == Yes && x != y || eq == No && x == y {
				t.Fatalf("%v == %v: %v, but %d and %d at %v", a, b, eq, x, y, binding)
			}
		})
		if i%4 != 3 && values > 0 && (allLE || noLE) {
			always++
			if le == Unknown {
				missed++
			}
		}
	}
	t.Logf("of %d comparisons with one answer everywhere, %d were not decided", always, missed)
	if missed*100 > always*12 {
		t.Errorf("of %d comparisons with one answer everywhere, %d were not decided", always, missed)
	}
}

// program returns the expression that bytes encode, and a function that computes its value in unbounded integers by the
// definition of each operation; the function returns nil if a divisor is zero.
func program(code []byte) (Expr, func(values map[string]int64) *big.Int) {
	type pair struct {
		e     Expr
		value func(map[string]int64) *big.Int
	}
	var stack []pair
	push := func(e Expr, value func(map[string]int64) *big.Int) { stack = append(stack, pair{e, value}) }
	constant := func(c int64) {
		push(Const(c), func(map[string]int64) *big.Int { return big.NewInt(c) })
	}
	for i := 0; i < len(code) && i < 40; i++ {
		op := code[i]
		if op < 64 || len(stack) < 2 {
			switch {
			case op%2 == 0:
				name := string('a' + rune(op/2%4))
				push(Dim(name), func(values map[string]int64) *big.Int { return big.NewInt(values[name]) })
			case op%32 == 31:
				constant([]int64{math.MaxInt64, math.MinInt64, 1 << 40, -1 << 62}[op/32%4])
			default:
				constant(int64(op/2%16) - 4)
			}
			continue
		}
		x, y := stack[len(stack)-2], stack[len(stack)-1]
		stack = stack[:len(stack)-2]
		o := operations[int(op)%len(operations)]
		push(o.symbolic(x.e, y.e), func(values map[string]int64) *big.Int {
			v, w := x.value(values), y.value(values)
			if v == nil || w == nil {
				return nil
			}
			return o.exact(v, w)
		})
	}
	if len(stack) == 0 {
		constant(0)
	}
	top := stack[len(stack)-1]
	return top.e, top.value
}

var operations = []struct {
	symbolic func(x, y Expr) Expr
	exact    func(x, y *big.Int) *big.Int
}{
	{Expr.Add, func(x, y *big.Int) *big.Int { return new(big.Int).Add(x, y) }},
	{Expr.Sub, func(x, y *big.Int) *big.Int { return new(big.Int).Sub(x, y) }},
	{Expr.Mul, func(x, y *big.Int) *big.Int { return new(big.Int).Mul(x, y) }},
	{Expr.FloorDiv, bigFloor},
	{Expr.CeilDiv, func(x, y *big.Int) *big.Int {
		if q := bigFloor(new(big.Int).Neg(x), y); q != nil {
			return q.Neg(q)
		}
		return nil
	}},
	{Expr.Mod, func(x, y *big.Int) *big.Int {
		if q := bigFloor(x, y); q != nil {
			return new(big.Int).Sub(x, q.Mul(q, y))
		}
		return nil
	}},
	{Expr.Min, func(x, y *big.Int) *big.Int {
		if x.Cmp(y) < 0 {
			return x
		}
		return y
	}},
	{Expr.Max, func(x, y *big.Int) *big.Int {
		if x.Cmp(y) > 0 {
			return x
		}
		return y
	}},
}

// bigFloor returns ⌊x/y⌋; nil if y is 0.
func bigFloor(x, y *big.Int) *big.Int {
	if y.Sign() == 0 {
		return nil
	}
	q, r := new(big.Int).QuoRem(x, y, new(big.Int))
	if r.Sign() != 0 && (r.Sign() < 0) != (y.Sign() < 0) {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

// checkProgram compares, at one binding, the expression with the definition and compiled code with Eval, and parses its
// text again.
func checkProgram(t *testing.T, code []byte, values map[string]int64, small bool) {
	e, exact := program(code)
	want := exact(values)
	got, err := e.Eval(lookup(values))
	names := []string{"d", "b", "a", "c", "unused"}
	list := make([]int64, len(names))
	for i, name := range names {
		list[i] = values[name]
	}
	compiled, failed := e.Compile(users(names...))
	if failed != nil {
		t.Fatal(failed)
	}
	if v, err2 := compiled.Eval(list); v != got || (err == nil) != (err2 == nil) {
		t.Fatalf("%s at %v: compiled %d, %v; evaluated %d, %v", e, values, v, err2, got, err)
	}
	if want != nil {
		if err == nil && (!want.IsInt64() || want.Int64() != got) {
			t.Fatalf("%s at %v is %d, want %s", e, values, got, want)
		}
		if err != nil && (!errors.Is(err, ErrOverflow) || small) {
			t.Fatalf("%s at %v: %v, want %s", e, values, err, want)
		}
	}
	back, err := Parse(e.String())
	if err != nil || !back.Equal(e) || back.String() != e.String() || back.hash() != e.hash() {
		t.Fatalf("%s is read back as %s, %v", e, back, err)
	}
}

// TestArithmeticAgainstBig compares random expressions with their definition in unbounded integers.
func TestArithmeticAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range 40000 {
		code := make([]byte, r.IntN(14)+1)
		for j := range code {
			code[j] = byte(r.IntN(256))
			if i%2 == 0 && code[j]%32 == 31 {
				code[j]-- // no large constants
			}
		}
		values := map[string]int64{}
		for _, name := range []string{"a", "b", "c", "d"} {
			values[name] = int64(r.IntN(15)) - 5
			if i%2 == 1 && r.IntN(3) == 0 {
				values[name] = int64(r.Uint64()) >> r.IntN(64)
			}
		}
		checkProgram(t, code, values, i%2 == 0)
	}
}

// FuzzArithmetic compares expressions with their definition in unbounded integers.
func FuzzArithmetic(f *testing.F) {
	f.Add([]byte{0, 2, 64, 9, 67, 4, 70}, int64(3), int64(-4), int64(math.MaxInt64))
	f.Add([]byte{0, 31, 66, 63, 64, 2, 68}, int64(-1), int64(math.MinInt64), int64(7))
	f.Fuzz(func(t *testing.T, code []byte, a, b, c int64) {
		checkProgram(t, code, map[string]int64{"a": a, "b": b, "c": c, "d": a ^ b}, false)
	})
}

// FuzzParse checks that parsing never panics, and that a parsed expression is printed and parsed back.
func FuzzParse(f *testing.F) {
	for _, text := range everyday {
		f.Add(text)
	}
	f.Add(`max("a b", -9223372036854775808)//0 % (n*n)`)
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := ParseCond(text); err == nil {
			if back, err := ParseCond(c.String()); err != nil || !back.A.Equal(c.A) || !back.B.Equal(c.B) || back.Rel != c.Rel {
				t.Fatalf("%s is read back as %s, %v", c, back, err)
			}
		}
		e, err := Parse(text)
		if err != nil {
			return
		}
		if back, err := Parse(e.String()); err != nil || !back.Equal(e) || back.String() != e.String() {
			t.Fatalf("%s is read back as %s, %v", e, back, err)
		}
		if p, n, err := ParsePrefix(e.String()); err != nil || n != len(e.String()) || !p.Equal(e) {
			t.Fatalf("%s is read as %s, %d bytes, %v", e, p, n, err)
		}
	})
}

// BenchmarkProver proves the everyday conditions, each time without remembered results.
func BenchmarkProver(b *testing.B) {
	var list []Cond
	for _, text := range everyday {
		c, err := ParseCond(text)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, c)
	}
	base := testDims()
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		if i%len(list) == 0 {
			base.Set(User("fresh"), Range{int64(i), NoMax}) // forgets the results
		}
		base.Prove(list[i%len(list)])
		i++
	}
}

// BenchmarkShape computes the extents of a convolution and their aligned product.
func BenchmarkShape(b *testing.B) {
	n, h := Dim("n"), Dim("h")
	b.ReportAllocs()
	for b.Loop() {
		out := h.Add(Const(2)).Sub(Const(3)).FloorDiv(Const(2)).Add(Const(1))
		Product(n, Const(64), out, out, Const(4)).CeilDiv(Const(64)).Mul(Const(64))
	}
}

// BenchmarkCode evaluates a compiled formula of a memory plan.
func BenchmarkCode(b *testing.B) {
	e, err := Parse("max(64*((4*n*m + 63)//64) + 128*k, 64*((12*n*m + 63)//64), 4*n*m*k) + 1024")
	if err != nil {
		b.Fatal(err)
	}
	code, err := e.Compile(users("k", "m", "n"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	values := []int64{3, 5, 7}
	for b.Loop() {
		if _, err := code.Eval(values); err != nil {
			b.Fatal(err)
		}
	}
}

// TestCodeAllocatesNothing evaluates compiled expressions, short and long, without allocation, and compares them with
// Eval.
func TestCodeAllocatesNothing(t *testing.T) {
	long := Const(0)
	for i := range 200 {
		long = long.Max(Dim("n").Mul(Const(int64(i))).Add(Dim("m").FloorDiv(Const(int64(i + 2)))))
	}
	for _, e := range []Expr{parse(t, "n*m//3 + max(n, 5)"), long} {
		code, err := e.Compile(users("m", "n"))
		if err != nil {
			t.Fatal(err)
		}
		values := []int64{100, 7}
		if n := testing.AllocsPerRun(100, func() { code.Eval(values) }); n > 0.5 {
			t.Errorf("%v allocations", n)
		}
		want, _ := e.Eval(lookup(map[string]int64{"m": 100, "n": 7}))
		if got, err := code.Eval(values); got != want || err != nil {
			t.Errorf("%d, %v, want %d", got, err, want)
		}
	}
}

// TestProverAgainstBig compares results for expressions with large coefficients, which need more than 64 bits, with
// their definition.
func TestProverAgainstBig(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	names := []string{"a", "b", "c", "d"}
	for range 8000 {
		d := NewDims()
		ranges := map[string]Range{}
		for _, name := range names {
			low := int64(r.IntN(7)) - 3
			if r.IntN(4) == 0 {
				low = int64(r.Uint64()) >> r.IntN(64)
			}
			ranges[name] = [...]Range{{low, NoMax}, {math.MinInt64, low}, {low, min(low, NoMax-5) + 5},
				{math.MinInt64, NoMax}}[r.IntN(4)]
			d.Set(User(name), ranges[name])
		}
		code := make([]byte, 2+r.IntN(16))
		for i := range code {
			code[i] = byte(r.IntN(256))
		}
		a, exactA := program(code[:len(code)/2])
		b, exactB := program(code[len(code)/2:])
		le, eq := d.LE(a, b), d.EQ(a, b)
		lo, hi := d.Bounds(a)
		for range 8 {
			values := map[string]int64{}
			for _, name := range names {
				step := int64(r.IntN(6))
				if r.IntN(3) == 0 {
					step = int64(r.Uint64()>>1) >> r.IntN(63)
				}
				switch x := ranges[name]; {
				case x.Min != math.MinInt64:
					values[name] = min(x.Max-step%6, max(x.Min, x.Min+step)) // x.Min + step may wrap
					values[name] = max(values[name], x.Min)
				default:
					values[name] = min(x.Max, x.Max-step)
				}
			}
			x, y := exactA(values), exactB(values)
			if x == nil {
				continue
			}
			if lo != math.MinInt64 && x.Cmp(big.NewInt(lo)) < 0 || hi != math.MaxInt64 && x.Cmp(big.NewInt(hi)) > 0 {
				t.Fatalf("%v is %v, beyond %d..%d, at %v", a, x, lo, hi, values)
			}
			if y == nil {
				continue
			}
			if c := x.Cmp(y); le == Yes && c > 0 || le == No && c <= 0 || eq == Yes && c != 0 || eq == No && c == 0 {
				t.Fatalf("%v and %v: %v and %v, but %v and %v at %v of %v", a, b, le, eq, x, y, values, ranges)
			}
		}
	}
}

// TestNegative compares Negative with the upper end that Bounds finds, for random expressions over various ranges.
func TestNegative(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	names := []string{"a", "b", "c"}
	count := map[bool]int{}
	for range 4000 {
		one, other := NewDims(), NewDims()
		for _, name := range names {
			low := r.Int64N(5) - 2
			high := []int64{low, low + r.Int64N(9), NoMax}[r.IntN(3)]
			one.Set(User(name), Range{low, high})
			other.Set(User(name), Range{low, high})
		}
		e := randomExpr(r, names, 3)
		if r.IntN(2) == 0 {
			e = Const(-1 - r.Int64N(9)).Sub(e.Mul(e))
		}
		_, high := one.Bounds(e)
		if got := other.Negative(e); got != (high < 0) {
			t.Fatalf("%s with %v: Negative is %v, the upper bound %d", e, other.ranges, got, high)
		}
		if got := one.Negative(e); got != (high < 0) {
			t.Fatalf("%s with %v: after Bounds, Negative is %v, the upper bound %d", e, other.ranges, got, high)
		}
		count[high < 0]++
	}
	if count[true] < 400 || count[false] < 400 {
		t.Errorf("%v", count)
	}
}
