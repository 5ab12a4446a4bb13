package texts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// memoryBug is a kind of bug that compilers with explicit memory have had.
type memoryBug struct {
	name, dims, params, body string
	refused                  string   // part of why; "": it is accepted
	requires                 []string // the conditions of the program
}

// memoryBugs are the kinds, each with a text.
var memoryBugs = []memoryBug{
	// Memory is reused while an alias is live: silent wrong numbers.
	{"reshape alias", "dim m in [1, inf]", "%x: f32[m]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%v: f32[m, 1] = reshape(%t) {shape = syms [m, 1]}
		release %t
		%u: f32[m] = neg(%x) carve %s
		%y: f32[m, 1] = neg(%v)
		return %y, %u`, "%v lies in %t, and is used after the release of %t in line 7", nil},
	{"alias of an alias", "dim m in [1, inf]", "%x: f32[m]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%v: f32[m, 1] = reshape(%t) {shape = syms [m, 1]}
		%w: f32[1, m] = reshape(%v) {shape = syms [1, m]}
		release %t
		%y: f32[1, m] = neg(%w)
		return %y`, "%w lies in %t", nil},
	{"a shape that is only asserted", "dim m in [1, inf] dim n in [1, inf]", "%x: f32[m], %z: f32[n]", `
		assert m == n "the same rows"
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%v: f32[n] = reshape(%t) {shape = syms [n]}
		release %t
		%y: f32[n] = add(%v, %z)
		return %y`, "%v lies in %t", nil},
	{"part of a tensor", "dim m in [8, inf]", "%x: f32[m]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%v: f32[4] = slice(%t) {begin = syms [2], extent = syms [4], step = ints [1]}
		release %t
		%y: f32[4] = neg(%v)
		return %y`, "%v lies in %t", nil},
	{"an operator that only expands to a view", "dim m in [1, inf]", "%x: f32[m]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%v: f32[m] = cast(%t) {to = dtype f32}
		release %t
		%y: f32[m] = neg(%v)
		return %y`, "%v lies in %t", nil},
	{"in place on one of two views", "dim m in [1, inf]", "%x: f32[m, 2]", `
		storage %s: 8*m bytes
		%t: f32[m, 2] = exp(%x) carve %s
		%a: f32[2*m] = reshape(%t) {shape = syms [2*m]}
		%b: f32[2, m] = reshape(%t) {shape = syms [2, m]}
		%c: f32[2*m] = mul(%a, %a) carve %s
		%y: f32[2, m] = neg(%b)
		return %y, %c`, "beside %t: neither", nil},
	{"in place on one of two views, elsewhere", "dim m in [1, inf]", "%x: f32[m, 2]", `
		storage %s: 16*m bytes
		%t: f32[m, 2] = exp(%x) carve %s
		%a: f32[2*m] = reshape(%t) {shape = syms [2*m]}
		%b: f32[2, m] = reshape(%t) {shape = syms [2, m]}
		%c: f32[2*m] = mul(%a, %a) carve %s at 8*m
		%y: f32[2, m] = neg(%b)
		return %y, %c`, "", nil},
	// One branch makes the plan invalid: a crash.
	{"storage that does not dominate the other branch", "dim m in [1, inf]", "%x: f32[m], %c: bool[]", `
		%y: f32[m] = if(%c) region () {
		storage %s: 4*m bytes
		%a: f32[m] = exp(%x) carve %s
		return %a
		} region () {
		%b: f32[m] = neg(%x) carve %s
		return %b
		}
		return %y`, "storage %s is declared in line 5, which is later or in a block that does not contain this line", nil},
	{"storage that does not dominate what follows", "dim m in [1, inf]", "%x: f32[m], %c: bool[]", `
		%y: f32[m] = if(%c) region () {
		storage %s: 4*m bytes
		%a: f32[m] = exp(%x) carve %s
		return %a
		} region () {
		return %x
		}
		%z: f32[m] = neg(%y) carve %s
		return %z`, "storage %s is declared in line 5", nil},
	{"released in a body that runs again", "dim m in [1, inf] dim trip in [0, inf] dim step in [0, inf] limit trip", "%x: f32[m], %n: i64[] bound [trip]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%y: f32[m] = loop(%n, none, %x) region (%i: i64[] known [step], %go: bool[], %state: f32[m]) {
		%next: f32[m] = add(%state, %t)
		release %t
		return %go, %next
		}
		return %y`, "in a body that may run any number of times", nil},
	// Sizes overflow.
	{"2^32 + 1 elements", "dim m in [1, inf]", "%x: f32[1]", `
		storage %s: 16 bytes
		%t: f32[4294967297] = expand(%x) {shape = syms [4294967297]} carve %s
		return %x`, "17179869188 <= 16 never holds", nil},
	{"2^62 + 1 elements", "dim m in [1, inf]", "%x: f32[1]", `
		storage %s: 16 bytes
		%t: f32[4611686018427387905] = expand(%x) {shape = syms [4611686018427387905]} carve %s
		return %x`, "<= 16 never holds", nil},
	{"a negative extent", "dim m in [0, inf]", "%x: f32[m]", `
		storage %s: 64 bytes
		%t: f32[m - 4] = slice(%x) {begin = syms [4], extent = syms [m - 4], step = ints [1]} carve %s at 48
		%y: f32[m - 4] = neg(%t)
		return %y`, "", []string{"0 <= m - 4", "m <= 8"}},
	{"a storage of no size", "dim m in [0, inf]", "%x: f32[m]", `
		storage %s: 4*m - 64 bytes
		%t: f32[16] = slice(%x) {begin = syms [0], extent = syms [16], step = ints [1]} carve %s
		%y: f32[16] = neg(%t)
		return %y`, "", []string{"15 < m", "32 <= m"}},
	// Nothing computes a dimension that a size needs.
	{"a dimension that nothing gives a value", "dim m in [1, inf] dim k in [1, inf]", "%x: f32[2*m]", `
		storage %s: 8*m bytes
		%t: f32[2*m] = exp(%x) carve %s
		%y: f32[2*m] = neg(%t)
		return %y`, "needs the value of m", nil},
	{"a size that is decided later", "dim m in [1, inf] dim k in [0, inf] limit m", "%x: f32[m]", `
		storage %s: 8*k bytes
		%z: i64[1, k] = nonzero(%x) {found = string "k"}
		%t: i64[1, k] = neg(%z) carve %s
		%y: i64[1, k] = neg(%t)
		return %y`, "storage %s needs the value of k", nil},
	// The stated bound does not bound the size.
	{"only a lower bound", "dim m in [4, inf]", "%x: f32[m]", `
		storage %s: 16 bytes
		%t: f32[m] = exp(%x) carve %s
		%y: f32[m] = neg(%t)
		return %y`, "", []string{"m <= 4"}},
	{"one of two dimensions is bounded", "dim m in [1, 8] dim n in [1, inf]", "%x: f32[m, n]", `
		storage %s: 256 bytes
		%t: f32[m, n] = exp(%x) carve %s
		%y: f32[m, n] = neg(%t)
		return %y`, "", []string{"m*n <= 64"}},
	// A pool rounds sizes up, and the excess goes unnoticed.
	{"sizes that a page would hide", "dim m in [1, 1024]", "%x: f32[m]", `
		storage %s: 64 bytes
		%t: f32[m] = exp(%x) carve %s
		%y: f32[m] = neg(%t)
		return %y`, "", []string{"m <= 16"}},
	// Units.
	{"bytes, not elements", "dim m in [1, inf]", "%x: f32[m]", `
		storage %s: m bytes
		%t: f32[m] = exp(%x) carve %s
		%y: f32[m] = neg(%t)
		return %y`, "4*m <= m never holds", nil},
	{"types share bytes", "dim m in [1, inf]", "%x: f32[m]", `
		storage %s: 4*m bytes
		%t: f32[m] = exp(%x) carve %s
		%a: f32[m] = neg(%t)
		release %t
		%k: i32[m] = cast(%a) {to = dtype i32} carve %s
		%y: i32[m] = neg(%k)
		return %y`, "", nil},
}

// TestMemoryBugs: texts with which other compilers computed wrong numbers or crashed are refused, or their conditions
// are checked.
func TestMemoryBugs(t *testing.T) {
	for _, b := range memoryBugs {
		source := fmt.Sprintf("weir 1\nir @bug { %s\nmain @main(%s) {\n", b.dims, b.params) + strings.TrimLeft(b.body, "\n") +
			" } }"
		p, err := weirtest.CompileText(t, source, weir.Options{})
		if b.refused != "" {
			if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), b.refused) {
				t.Errorf("%s: %v\n%s", b.name, err, source)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v\n%s", b.name, err, source)
			continue
		}
		var got []string
		for _, r := range p.Requires() {
			got = append(got, r.Condition)
		}
		if fmt.Sprint(got) != fmt.Sprint(b.requires) {
			t.Errorf("%s: %v, want %v", b.name, got, b.requires)
		}
	}
}

// TestExtendedLiveRanges: rewriting could replace %b by %t, whose bytes belong to another tensor by then; the compiler
// does not.
func TestExtendedLiveRanges(t *testing.T) {
	for _, rewritten := range []string{
		"%a: f32[m] = neg(%t)\n %b: f32[m] = neg(%a)",
		"const %zero: f32[1] = [0]",
		"%b: f32[m] = exp(%x)",
	} {
		first := ""
		if strings.HasPrefix(rewritten, "const") {
			first, rewritten = rewritten, "%b: f32[m] = sub(%t, %zero)"
		}
		source := "weir 1\nir @m { dim m in [1, inf]\n main @main(%x: f32[m]) {\n " + first +
			"\n storage %s: 4*m bytes\n %t: f32[m] = exp(%x) carve %s\n " + rewritten +
			"\n %u: f32[m] = neg(%t)\n release %t\n %v: f32[m] = abs(%x) carve %s\n %y: f32[m] = add(%v, %b)\n %z: f32[m] = " +
			"add(%y, %u)\n return %z, %y } }"
		for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
			p, err := weirtest.CompileText(t, source, weir.Options{Target: target})
			if err != nil {
				t.Fatal(err)
			}
			x, err := weir.FromSlice([]float32{0, -1, 2}, 3)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(context.Background(), weir.Inputs{"x": x})
			if err != nil {
				t.Fatal(err)
			}
			z, _ := weir.Copy[float32](r.Get("z"))
			for i, want := range []float32{0, 1, 2} {
				if z[i]-want > 1e-5 || want-z[i] > 1e-5 {
					t.Errorf("%s: %s: %v", target, rewritten, z)
				}
			}
			r.Close()
		}
	}
}

// TestDecidedByData: a condition on sizes that the data decide is checked by the step that computes them; a run that
// breaks it leaves no memory, and the next one works.
func TestDecidedByData(t *testing.T) {
	source := "weir 1\nir @m { dim m in [1, inf]\n dim k in [0, inf] limit m\n main @main(%x: f32[m]) {\n storage %s: " +
		"24 bytes\n %z: i64[1, k] = nonzero(%x) {found = string \"k\"}\n" +
		" %t: i64[1, k] = neg(%z) carve %s\n %y: i64[1, k] = neg(%t)\n assert k != 2 \"not two\"\n return %y } }"
	p, err := weirtest.CompileText(t, source, weir.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(p.Requires()); got != `[{k != 2 assert "not two", line 9} {k <= 3 carve %t of %s, line 7}]` {
		t.Error(got)
	}
	for _, c := range []struct {
		x    []float32
		want string // "": accepted
	}{{[]float32{1, 0, 3, 4}, ""}, {[]float32{1, 2, 3, 4}, "tensor t: dimension k"}, {[]float32{0, 0, 3}, ""},
		{[]float32{1, 0, 3}, "not two"}, {[]float32{0, 0, 3}, ""}} {
		x, err := weir.FromSlice(c.x, len(c.x))
		if err != nil {
			t.Fatal(err)
		}
		before := weir.Usage().Outputs
		r, err := p.Run(context.Background(), weir.Inputs{"x": x})
		if c.want != "" {
			if !errors.Is(err, weir.ErrInput) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: %v", c.x, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%v: %v", c.x, err)
			continue
		}
		r.Close()
		if now := weir.Usage().Outputs; now > before+1<<12 {
			t.Errorf("%v: %d bytes, then %d", c.x, before, now)
		}
	}
}
