package sym

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestCanonical parses several texts of the same expression, which must print alike.
func TestCanonical(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"0", "0"}, {"-0", "0"}, {"-9223372036854775808", "-9223372036854775808"}, {"2 + 3*4", "14"}, {"(2 + 3)*4", "20"},
		{"n", "n"}, {"-n", "-n"}, {"n + n", "2*n"}, {"n - n", "0"}, {"m*n", "m*n"}, {"n*m", "m*n"}, {"1 + n", "n + 1"},
		{"1 - n", "-n + 1"},
		{"(n + 1)*(n - 1)", "n*n - 1"}, {"(a + b)*(a - b)", "a*a - b*b"}, {"b + a*a + 3 + a", "a*a + a + b + 3"},
		{"2*(n + m) - 2*m", "2*n"},
		{"\"odd name\" + x.0", `"odd name" + x.0`}, {`"x"`, "x"}, {`"1"`, `"1"`}, {`""`, `""`}, {"max + min", "max + min"},
		{"7//2", "3"}, {"-7//2", "-4"}, {"7//-2", "-4"}, {"-7//-2", "3"}, {"7%2", "1"}, {"-7%2", "1"}, {"7%-2", "-1"},
		{"-7%-2", "-1"},
		{"7 % 3 * 2", "2"}, {"2 * 7 % 3", "2"}, {"2*n//3*4", "4*((2*n)//3)"}, {"-n//2", "-((n + 1)//2)"},
		{"-(n//2)", "-(n//2)"}, {"--n", "n"}, {"+n", "n"},
		{"ceildiv(7, 2)", "4"}, {"ceildiv(-7, 2)", "-3"}, {"ceildiv(7, -2)", "-3"}, {"ceildiv(n, 1)", "n"},
		{"ceildiv(4*n, 4)", "n"}, {"ceildiv(n, 64)", "(n + 63)//64"},
		{"ceildiv(n, m)", "ceildiv(n, m)"}, {"n//1", "n"}, {"n//-1", "-n"}, {"n//-2", "-((n + 1)//2)"}, {"4*n//4", "n"},
		{"(4*n + 3)//4", "n"}, {"(4*n + 5)//4", "n + 1"},
		{"(4*n - 1)//4", "n - 1"}, {"(4*n + m)//4", "n + m//4"}, {"(n - 1)//2 + 1", "(n + 1)//2"},
		{"(6*n + 4)//8", "(3*n + 2)//4"}, {"(2*n + 1)//4", "n//2"},
		{"n//2//3", "n//6"}, {"(n//2 + m)//3", "(2*m + n)//6"}, {"(n//2 + m//2)//3", "(m//2 + n//2)//3"},
		{"-((-n)//64)", "(n + 63)//64"}, {"(1 - n)//2", "-(n//2)"},
		{"n%1", "0"}, {"4*n%4", "0"}, {"(4*n + 3)%4", "3"}, {"9*n%8", "n%8"}, {"(n + 9)%8", "(n + 1)%8"},
		{"6*n%4", "2*(n%2)"}, {"2*n%4", "2*(n%2)"}, {"(2*n + 1)%4", "2*(n%2) + 1"},
		{"n%8%4", "n%4"}, {"n%4%8", "(n%4)%8"}, {"(n%8 + m)%4", "(m + n)%4"}, {"n%-8", "-((-n)%8)"}, {"(-n)%8", "(-n)%8"},
		{"1//0", "1//0"}, {"n//0", "n//0"}, {"n%0", "n%0"}, {"ceildiv(n, 0)", "ceildiv(n, 0)"}, {"0//n", "0//n"},
		{"n//n", "n//n"}, {"n//(m//2)", "n//(m//2)"}, {"n//m//k", "(n//m)//k"},
		{"max(n)", "n"}, {"max(n, n)", "n"}, {"max(n, n + 1)", "n + 1"}, {"min(n, n + 1)", "n"},
		{"max(2, n, 3)", "max(n, 3)"}, {"max(m, n)", "max(m, n)"}, {"max(n, m)", "max(m, n)"},
		{"max(n, max(m, 4), 5)", "max(m, n, 5)"}, {"min(n, min(m, 4), 5)", "min(m, n, 4)"}, {"max(n, min(m, n))", "n"},
		{"min(n, max(m, n), 3)", "min(n, 3)"}, {"max(2*n + 1, 2*n - 5)", "2*n + 1"},
		{"max(n, m) - max(m, n)", "0"}, {"max(n, 1)*2", "2*max(n, 1)"}, {"(n//2)*m", "m*(n//2)"}, {"n - m//2", "n - m//2"},
		{"-2*(n%3) + 1", "-2*(n%3) + 1"},
		{"9223372036854775807 + 1", "(1 + 9223372036854775807)"}, {"9223372036854775807*2", "(2*9223372036854775807)"},
		{"9223372036854775807 + 1 - 1", "9223372036854775807"},
		{"-(-9223372036854775808)", "((-9223372036854775808)*(-1))"},
		{"2*(n*9223372036854775807)", "((9223372036854775807*n)*2)"},
		{"-9223372036854775808//-1", "((-9223372036854775808)*(-1))"},
		{"huge()", "huge()"}, {"huge() - huge()", "huge()"}, {"0*huge()", "huge()"}, {"max(huge(), 1)//2 + n", "huge()"},
	} {
		want := strings.NewReplacer("((-9223372036854775808)*(-1))", "((-9223372036854775808)*(-1))").Replace(test.want)
		e := parse(t, test.text)
		if test.text == "n*9223372036854775807*2" { // the grouping decides
			continue
		}
		if e.String() != want {
			t.Errorf("%s: %s, want %s", test.text, e, want)
		}
		if back := parse(t, e.String()); !back.Equal(e) || back.Key() != e.Key() {
			t.Errorf("%s: %s is read back as %s", test.text, e, back)
		}
	}
}

// TestParseErrors shows the offset and the message for each kind of malformed expression.
func TestParseErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "offset 0: expected an expression, found end of text"},
		{"n +", "offset 3: expected an expression, found end of text"}, {"n n", "offset 2: unexpected 'n'"},
		{"(n", "offset 2: expected , or ), found end of text"}, {"()", "offset 2: a list where one expression belongs"},
		{"(n, m)", "offset 6: a list where one expression belongs"},
		{"max()", "offset 0: max of 0 arguments"}, {"ceildiv(n)", "offset 0: ceildiv of 1 arguments"},
		{"huge(1)", "offset 0: huge of 1 arguments"}, {"9223372036854775808", "offset 0: an integer beyond 64 bits"},
		{"n / m", "offset 2: unexpected '/'"}, {"n ** m", "offset 3: expected an expression, found '*'"},
		{"2n", "offset 1: a number runs into 'n'"}, {"1.5", "offset 1: a number runs into '.'"},
		{`"n`, "offset 0: a quoted name that does not end"}, {"max(n,)", "offset 6: expected an expression, found ')'"},
		{"n)", "offset 1: unexpected ')'"}, {"é", "offset 0: expected an expression, found 'é'"},
		{"n\xff", `offset 1: unexpected '�'`}, {strings.Repeat("(", 1000), "offset 600: nested more than 600 deep"},
		{strings.Repeat(" ", longestText+1), "offset 0: an expression of more than 1048576 bytes"},
		{"# n", "offset 0: expected an expression, found '#'"},
	} {
		e, err := Parse(test.text)
		var syntax *SyntaxError
		if err == nil || err.Error() != test.want || !errors.As(err, &syntax) || !e.Equal(Expr{}) {
			t.Errorf("%.20q: %v (%v), want %s", test.text, err, e, test.want)
		}
	}
}

// TestParsePrefix parses the expression at the beginning of a text in one of the three languages.
func TestParsePrefix(t *testing.T) {
	for _, test := range []struct {
		text, want string
		length     int
	}{
		{"n -> m", "n", 1}, {"n - 1 ]", "n - 1", 5}, {"n %x", "n", 1}, {`n %"x"`, "n", 1}, {"n%x", "n%x", 3},
		{"n % x", "n%x", 5}, {"n %8", "n%8", 4}, {"n += 1", "n", 1}, {"n *= 1", "n", 1}, {"n -= 1", "n", 1},
		{"n // m, k", "n//m", 6}, {"n # + 1", "n", 1}, {"n + # comment\n 1 = 2", "n + 1", 16},
		{"max (n, 2) x", "max(n, 2)", 10}, {"  n  ", "n", 3},
	} {
		e, n, err := ParsePrefix(test.text)
		if err != nil || e.String() != test.want || n != test.length {
			t.Errorf("%q: %s, %d, %v; want %s, %d", test.text, e, n, err, test.want, test.length)
		}
	}
	budget := int64(60)
	if _, _, err := ParseWithin("(a + b)*(c + d)*(e + f)*(g + h)", &budget); err == nil ||
		!strings.Contains(err.Error(), "too long to multiply out") {
		t.Errorf("a small budget: %v", err)
	}
	c, n, err := ParseCondPrefix("n + 1 > m -> x")
	if err != nil || c.String() != "m < n + 1" || n != 9 {
		t.Errorf("%s, %d, %v", c, n, err)
	}
}

// TestCond parses, prints and evaluates conditions of every relation.
func TestCond(t *testing.T) {
	for _, test := range []struct {
		text, want string
		holds      bool // for n = 3, m = 4
	}{
		{"n <= 3", "n <= 3", true}, {"n<m", "n < m", true}, {"n > m", "m < n", false}, {"n >= m", "m <= n", false},
		{"n == m - 1", "n == m - 1", true}, {"n != m", "n != m", true}, {"n + m == 8", "m + n == 8", false},
	} {
		c, err := ParseCond(test.text)
		if err != nil || c.String() != test.want {
			t.Errorf("%s: %s, %v; want %s", test.text, c, err, test.want)
		}
		holds, err := c.Eval(lookup(map[string]int64{"n": 3, "m": 4}))
		if err != nil || holds != test.holds {
			t.Errorf("%s: %v, %v", test.text, holds, err)
		}
	}
	for _, text := range []string{"n", "n < m < k", "n = m", "<"} {
		if _, err := ParseCond(text); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
	if _, err := (Cond{Dim("n"), NE, Dim("x")}).Eval(lookup(map[string]int64{"n": 1})); err == nil ||
		err.Error() != `no value for dimension "x"` {
		t.Errorf("unbound: %v", err)
	}
}

// TestEvalErrors shows when an evaluation overflows, divides by zero or lacks a name, with Eval and with compiled
// code.
func TestEvalErrors(t *testing.T) {
	values := map[string]int64{"n": math.MaxInt64, "m": math.MinInt64, "z": 0, "o": -1, "two": 2}
	for _, test := range []struct {
		text string
		want error
	}{
		{"n + 1", ErrOverflow}, {"2*n", ErrOverflow}, {"n*n", ErrOverflow}, {"m//o", ErrOverflow},
		{"ceildiv(m, o)", ErrOverflow}, {"n//z", ErrDivide}, {"n%z", ErrDivide}, {"1//0", ErrDivide},
		{"ceildiv(n, z)", ErrDivide}, {"-m", ErrOverflow}, {"9223372036854775807 + 1", ErrOverflow},
		{"9223372036854775807*2", ErrOverflow}, {"huge()", ErrTooLarge}, {"huge()", ErrOverflow},
		{"n*n*z", nil}, {"n + two + m", nil}, {"m%o", nil}, {"n - two*n + n", ErrOverflow}, {"max(n + 1, z)", ErrOverflow},
	} {
		e := parse(t, test.text)
		_, err := e.Eval(lookup(values))
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.text, err, test.want)
		}
		names := e.Vars()
		code, failed := e.Compile(names)
		if failed != nil {
			t.Fatal(failed)
		}
		list := make([]int64, len(names))
		for i, name := range names {
			list[i] = values[name.Text()]
		}
		if _, compiled := code.Eval(list); !errors.Is(compiled, test.want) {
			t.Errorf("%s compiled: %v, want %v", test.text, compiled, test.want)
		}
	}
	var unbound *UnboundError
	if _, err := Dim("q").Add(Const(1)).Eval(lookup(values)); !errors.As(err, &unbound) || unbound.Name != User("q") {
		t.Errorf("unbound: %v", err)
	}
	if _, err := Dim("q").Compile(users("n")); !errors.As(err, &unbound) || unbound.Name != User("q") {
		t.Errorf("unbound in Compile: %v", err)
	}
}

// TestParts tests names, the linear form, substitution, the zero value, and sums and products of lists.
func TestParts(t *testing.T) {
	var none Expr
	if c, ok := none.Const(); c != 0 || !ok || none.String() != "0" || !none.Equal(Const(0)) {
		t.Error("the zero value is not 0")
	}
	e := parse(t, "4*n*m + 3*n*(k//2) + max(n, 2)*k + 7")
	if got := e.Vars(); !slices.Equal(got, users("k", "m", "n")) {
		t.Errorf("names %v", got)
	}
	if name, ok := Dim("a b").Name(); !ok || name != User("a b") {
		t.Errorf("name %s, %v", name, ok)
	}
	if _, ok := Dim("a").Add(Const(1)).Name(); ok {
		t.Error("a + 1 is a name")
	}
	for _, test := range []struct {
		name, coef, rest string
		ok               bool
	}{
		{"m", "4*n", "3*n*(k//2) + k*max(n, 2) + 7", true}, {"n", "", "", false}, {"k", "", "", false},
		{"x", "0", "4*m*n + 3*n*(k//2) + k*max(n, 2) + 7", true},
	} {
		coef, rest, ok := e.Linear(User(test.name))
		if ok != test.ok || ok && (!coef.Equal(parse(t, test.coef)) || !rest.Equal(parse(t, test.rest))) {
			t.Errorf("linear in %s: %s, %s, %v", test.name, coef, rest, ok)
		}
	}
	if coef, rest, ok := parse(t, "4*n + n*m - 1").Linear(User("n")); !ok || coef.String() != "m + 4" ||
		rest.String() != "-1" {
		t.Errorf("linear: %s, %s, %v", coef, rest, ok)
	}
	if _, _, ok := parse(t, "n*n").Linear(User("n")); ok {
		t.Error("n*n is linear")
	}
	swapped := e.Subst(func(name Name) (Expr, bool) {
		x, ok := map[string]Expr{"n": Dim("m"), "m": Dim("n"), "k": Const(8)}[name.Text()]
		return x, ok
	})
	if want := "4*m*n + 12*m + 8*max(m, 2) + 7"; swapped.String() != want {
		t.Errorf("substituted: %s, want %s", swapped, want)
	}
	if same := e.Subst(func(Name) (Expr, bool) { return Expr{}, false }); same != e {
		t.Error("substituting nothing makes another expression")
	}
	if Sum().String() != "0" || Product().String() != "1" || MaxOf().String() != "0" || MinOf().String() != "0" {
		t.Error("empty lists")
	}
	if got := Product(Const(2), Dim("n"), Dim("m"), Const(3)).String(); got != "6*m*n" {
		t.Errorf("product: %s", got)
	}
	if Sum(Const(math.MaxInt64), Const(1), Const(-1)).String() != "9223372036854775807" {
		t.Error("a sum that fits does not")
	}
}

// TestPython has texts and their values in Python 3, with n = 37, m = 5 and ceildiv = lambda a, b: -(-a // b).
func TestPython(t *testing.T) {
	for _, test := range []struct {
		text string
		want int64
	}{
		{"n//4", 9},
		{"-(n//4)", -9},
		{"m - n//4", -4},
		{"n%4", 1},
		{"m*(n//4)", 45},
		{"(2*n)//3", 24},
		{"-((n + 1)//2)", -19},
		{"(n//m)//2", 3},
		{"n//(m//2)", 18},
		{"n%(m%3)", 1},
		{"-2*(n%3) + 1", -1},
		{"(-n)%8", 3},
		{"ceildiv(n, m)", 8},
		{"m*ceildiv(-n, m)", -35},
		{"max(m, n, 2)", 37},
		{"min(m - 7, -n)", -37},
		{"max(m*n, n%8 + 4)//m", 37},
		{"(m - n)//m", -7},
		{"(m - n)%m", 3},
		{"-n", -37},
		{"-n*n + 3", -1366},
		{"n*n*n - 4*m*n", 49913},
		{"64*((m*n + 15)//16) + max(4*m, 8*n)", 1064},
		{"-((n + 4)//5)", -8},
		{"(n//2)*min(n, m//2)", 36},
		{"-m*m + m*n", 160},
		{"-m*(n%m) + (m*n)%7", -7},
	} {
		e := parse(t, test.text)
		if e.String() != test.text {
			t.Errorf("%s prints as %s", test.text, e)
		}
		if got, err := e.Eval(lookup(map[string]int64{"n": 37, "m": 5})); err != nil || got != test.want {
			t.Errorf("%s is %d (%v), want %d", test.text, got, err, test.want)
		}
	}
}

// TestLimits shows that expressions beyond the limits become huge, which evaluates to an error and about which nothing
// is proved.
func TestLimits(t *testing.T) {
	factor := func(name string) Expr {
		e := Const(1)
		for i := range 20 {
			e = e.Add(Dim(fmt.Sprint(name, i)))
		}
		return e
	}
	product := factor("a").Mul(factor("b")).Mul(factor("c"))
	if len(product.terms()) > mostTerms {
		t.Errorf("%d terms", len(product.terms()))
	}
	ones := func(Name) (int64, bool) { return 1, true }
	if v, err := product.Eval(ones); v != 21*21*21 || err != nil {
		t.Errorf("an unexpanded product is %d, %v", v, err)
	}
	if back := parse(t, product.String()); !back.Equal(product) {
		t.Error("an unexpanded product is read back as another")
	}
	double, square, deep := Dim("n"), Dim("n"), Dim("n")
	for i := range 400 {
		double = double.FloorDiv(Const(3)).Mul(double.Mod(Const(5))).Max(Dim("m"))
		square = square.Mul(square)
		if deep = deep.FloorDiv(Dim(fmt.Sprint("d", i%7))); i < 200 && deep.huge() {
			t.Error("200 levels are too deep")
		}
	}
	for _, e := range []Expr{double, square, deep} {
		if _, err := e.Eval(ones); !errors.Is(err, ErrTooLarge) {
			t.Errorf("an endless expression: %v", err)
		}
		d := NewDims()
		if d.EQ(e, e) != Unknown || d.LE(e, e) != Unknown || !d.Simplify(e).Equal(e) {
			t.Error("something was proved about an expression that is too large")
		}
		if lo, hi := d.Bounds(e); lo != math.MinInt64 || hi != math.MaxInt64 {
			t.Errorf("its bounds are %d and %d", lo, hi)
		}
	}
}

// TestConcurrent proves and evaluates from several goroutines, for the race detector.
func TestConcurrent(t *testing.T) {
	d := testDims()
	e := parse(t, "ceildiv(4*n*m, 64)*64 + max(n, a)%7")
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := range 200 {
				x := e.Add(Const(int64(i % 5)))
				if d.LE(e, x) != Yes || x.String() == "" || len(x.Vars()) != 3 {
					t.Error("a wrong answer")
				}
				if i%50 == 0 {
					d.Set(User("extra"), Range{int64(i), NoMax})
				}
				d.Simplify(x)
				d.Bounds(x)
			}
		})
	}
	wait.Wait()
}
