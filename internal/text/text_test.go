package text

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// tokens returns the tokens of a text, as kind:text, and its error.
func tokens(source string) string {
	s := NewScanner(source)
	var list []string
	for s.Peek().Kind != End {
		t := s.Next()
		list = append(list, fmt.Sprintf("%s:%s", [...]string{"end", "word", "local", "global", "number", "string",
			"mark"}[t.Kind], t.Text))
	}
	if s.Err() != nil {
		list = append(list, "error:"+s.Err().Error())
	}
	return strings.Join(list, " ")
}

// TestTokens cuts texts into tokens of every kind, and shows the errors of malformed ones.
func TestTokens(t *testing.T) {
	for _, test := range []struct{ source, want string }{
		{"", ""},
		{" \t\r\n# all comment", ""},
		{"a.b_1 c", "word:a.b_1 word:c"},
		{"%x %\"odd \\\"name\" @main", `local:x local:odd "name global:main`},
		{"%8 % x n%m", "mark:% number:8 mark:% word:x word:n local:m"},
		{"1 -2.5e-3 0x1p-4 0xff 1..5 7...",
			"number:1 mark:- number:2.5e-3 number:0x1p-4 number:0xff number:1 mark:.. number:5 number:7 mark:..."},
		{"0xe+1 1e+5", "number:0xe mark:+ number:1 number:1e+5"},
		{"a->b:=c<=d!=e", "word:a mark:-> word:b mark::= word:c mark:<= word:d mark:!= word:e"},
		{"x # y\nz", "word:x word:z"},
		{`"a\n\"b"`, "string:a\n\"b"},
		{`x "ab`, "word:x error:1:3: a string that does not end or is not well formed"},
		{"a\n  %\"", "word:a error:2:4: a string that does not end or is not well formed"},
		{"é\xff", "mark:é mark:\xff"},
		{"@ %", "mark:@ mark:%"},
	} {
		if got := tokens(test.source); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.source, got, test.want)
		}
	}
}

// TestSymbolicIntegers reads expressions and conditions between tokens, also over several lines.
func TestSymbolicIntegers(t *testing.T) {
	s := NewScanner(`[n + 1, max(n, 2)*m //  4 % 3] %x "odd name" - 1 -> k # z
 %y n <= 4*m -> (
 a # comment
 + b) += 1`)
	var got []string
	s.List("[", "]", func() { got = append(got, s.Expr().String()) })
	got = append(got, s.Must(Local), s.Expr().String())
	s.Expect("->")
	got = append(got, s.Expr().String(), s.Must(Local), s.Cond().String())
	s.Expect("->")
	got = append(got, s.Expr().String())
	s.Expect("+=")
	got = append(got, fmt.Sprint(s.Int()))
	s.Done()
	want := `n + 1; (m*max(n, 2)//4)%3; x; "odd name" - 1; k; y; n <= 4*m; a + b; 1`
	want = strings.ReplaceAll(want, "(m*max(n, 2)//4)%3", "((m*max(n, 2))//4)%3")
	if s.Err() != nil || strings.Join(got, "; ") != want {
		t.Errorf("got %s (%v)\nwant %s", strings.Join(got, "; "), s.Err(), want)
	}
}

// TestFloats prints and parses floats: every value returns to the bit, with 64 and with 32 bits.
func TestFloats(t *testing.T) {
	values := []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1),
		math.Inf(-1), math.NaN(),
		math.Float64frombits(0xfff8000000000001), math.Float64frombits(0x7ff0000000000001), 1e300, 123456789,
		float64(float32(0.1))}
	for _, x := range values {
		s := NewScanner(Float(x))
		if got := s.Float(64); s.Err() != nil || math.Float64bits(got) != math.Float64bits(x) {
			t.Errorf("%s: read as %s (%v)", Float(x), Float(got), s.Err())
		}
		if y := float64(float32(x)); !math.IsNaN(y) {
			s := NewScanner(FormatFloat(y, 32))
			if got := s.Float(32); s.Err() != nil || math.Float64bits(got) != math.Float64bits(y) {
				t.Errorf("%s: read as %s (%v)", FormatFloat(y, 32), Float(got), s.Err())
			}
		}
	}
	if got := NewScanner("0x1.8p1").Float(64); got != 3 {
		t.Errorf("hexadecimal: %v", got)
	}
}

// TestErrors shows the position of errors, and that no token follows an error.
func TestErrors(t *testing.T) {
	for _, test := range []struct {
		source string
		parse  func(s *Scanner)
		want   string
	}{
		{"a\n b", func(s *Scanner) { s.Expect("a"); s.Expect("c") }, `1:2: expected "c", found "b"`},
		{"a", func(s *Scanner) { s.Next(); s.Must(Local) }, "1:2: expected a %name, found the end"},
		{"a b", func(s *Scanner) { s.Next(); s.Done() }, `1:3: unexpected "b"`},
		{"[n,, m]", func(s *Scanner) { s.List("[", "]", func() { s.Expr() }) }, "1:4: expected an expression, found ','"},
		{"[n m]", func(s *Scanner) { s.List("[", "]", func() { s.Expr() }) }, `1:4: expected ",", found "m"`},
		{"[n", func(s *Scanner) { s.List("[", "]", func() { s.Expr() }) }, `1:3: expected ",", found the end`},
		{"[", func(s *Scanner) { s.List("[", "]", func() { s.Expr() }) }, "1:2: expected an expression, found end of text"},
		{"9223372036854775808", func(s *Scanner) { s.Int() }, "1:1: 9223372036854775808 is no integer of 64 bits"},
		{"-1", func(s *Scanner) { s.Uint() }, `1:1: expected a number, found "-"`},
		{"1_0", func(s *Scanner) { s.Int() }, "1:1: 1_0 is no integer of 64 bits"},
		{"0x1_0", func(s *Scanner) { s.Int() }, "1:1: 0x1_0 is no integer of 64 bits"},
		{"010", func(s *Scanner) {
			if s.Int() != 10 {
				t.Error("010 is not ten")
			}
			s.Int()
		}, "1:4: expected a number, found the end"},
		{"1e999", func(s *Scanner) { s.Float(64) }, "1:1: 1e999 is no number of 64 bits"},
		{"1e39", func(s *Scanner) { s.Float(32) }, "1:1: 1e39 is no number of 32 bits"},
		{"nan(0x10)", func(s *Scanner) { s.Float(64) }, "1:1: a NaN whose bits are a number's"},
		{"x", func(s *Scanner) { s.Choice("a", "b") }, `1:1: expected one of a, b, found "x"`},
		{"=", func(s *Scanner) { s.Name() }, `1:1: expected a name, found "="`},
		{"n = m", func(s *Scanner) { s.Cond() }, "1:3: expected a comparison, found '='"},
	} {
		s := NewScanner(test.source)
		test.parse(s)
		err := s.Err()
		if err == nil || err.Error() != test.want || !errors.Is(err, diag.ErrInput) {
			t.Errorf("%q: %v, want %s", test.source, err, test.want)
		}
		if s.Next().Kind != End || s.Peek().Kind != End || s.Accept("a") {
			t.Errorf("%q: tokens after an error", test.source)
		}
	}
}

// TestNesting shows that Enter stops a recursive parser on a deeply nested text.
func TestNesting(t *testing.T) {
	s := NewScanner(strings.Repeat("(", 100000))
	var parse func()
	parse = func() {
		if !s.Enter() {
			return
		}
		defer s.Leave()
		s.List("(", ")", parse)
	}
	parse()
	if err := s.Err(); err == nil || !strings.Contains(err.Error(), "nested more than") {
		t.Errorf("%v", err)
	}
}

// TestLinear scans texts that would be slow if the time were not linear.
func TestLinear(t *testing.T) {
	binomial := "1"
	wide := "0"
	for i := range 12 {
		binomial += fmt.Sprintf("*(a%d + b%d)", i, i)
	}
	for i := range 1 << 14 {
		wide += fmt.Sprintf(" + x%d", i)
	}
	for name, source := range map[string]string{
		"deep":      strings.Repeat("(", 1<<20),
		"minus":     strings.Repeat("-", 1<<20) + "n",
		"sum":       strings.Repeat("a + ", 1<<18) + "a",
		"distinct":  func() string { return strings.Repeat("x, ", 1<<18) }(),
		"power":     strings.Repeat("a*", 1<<18) + "a",
		"quotients": strings.Repeat("a//3*", 1<<17) + "a",
		"binomials": strings.Repeat(binomial+", ", 1<<12),
		"nested":    strings.Repeat("-(", 500) + wide + strings.Repeat(")", 500),
		"quotes":    strings.Repeat("\"", 1<<20),
	} {
		start := time.Now()
		s := NewScanner(source)
		for s.Peek().Kind != End {
			s.Expr()
			s.Accept(",")
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: %v for %d bytes", name, took, len(source))
		} else {
			t.Logf("%s: %v for %d bytes: %.60v", name, took, len(source), s.Err())
		}
	}
}

// TestPrinter prints lines and an indented block, and quotes names that need it.
func TestPrinter(t *testing.T) {
	var p Printer
	p.Line("module %s", GlobalName("a b"))
	p.Block("func "+GlobalName("f"), func() { p.Line("%s = %s", LocalName("x.1"), Name("1x")) })
	want := "module @\"a b\"\nfunc @f {\n  %x.1 = \"1x\"\n}\n"
	if p.String() != want {
		t.Errorf("got %s", p.String())
	}
}

// FuzzScanner checks that any text ends in tokens or in an error, that offsets are within the text, and that names are
// printed and parsed back.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{"%x = add(%\"y z\", 1.5e-3) # c\n", "[n + 1, max(n, m)//2] -> x", "\"",
		"0x1p-3 nan(0x7ff8000000000002)", "a %b%c"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		s := NewScanner(source)
		last := 0
		for s.Peek().Kind != End {
			token := s.Next()
			if token.Start < last || token.End <= token.Start || token.End > len(source) {
				t.Fatalf("token %q at %d to %d after %d", token.Text, token.Start, token.End, last)
			}
			last = token.End
			for _, name := range []string{Name(token.Text), LocalName(token.Text), GlobalName(token.Text)} {
				again := NewScanner(name)
				if got := again.Next(); got.Text != token.Text || again.Err() != nil || again.Peek().Kind != End {
					t.Fatalf("%q is read as %q (%v)", name, got.Text, again.Err())
				}
			}
		}
		again := NewScanner(source)
		for again.Peek().Kind != End {
			before := again.Peek().Start
			if e := again.Expr(); again.Err() == nil {
				text := NewScanner(e.String())
				if back := text.Expr(); !back.Equal(e) || text.Err() != nil {
					t.Fatalf("%s is read as %s (%v)", e, back, text.Err())
				}
				if again.Peek().Start <= before && again.Peek().Kind != End {
					t.Fatalf("no progress at %d", before)
				}
			}
			again.Next()
		}
	})
}
