package texts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// unread are texts in which the data decide a dimension that only a condition reads. A run that breaks the condition
// must be refused, even if little of the rest is computed.
var unread = map[string]string{
	"nonzero": `%z: i64[1, k] = nonzero(%x) {found = string "k"}
    assert 1 <= k "something is found"`,
	"nonzero, copied": `%a: f32[m] = neg(%x)
    %b: f32[m] = neg(%a)
    %z: i64[1, k] = nonzero(%b) {found = string "k"}
    assert 1 <= k "something is found"`,
	"nonzero, and a view that nothing reads": `%z: i64[1, k] = nonzero(%x) {found = string "k"}
    %r: i64[k] = reshape(%z) {shape = syms [k]}
    assert 1 <= k "something is found"`,
	"nonzero, turned twice": `%z: i64[1, k] = nonzero(%x) {found = string "k"}
    %t: i64[k, 1] = transpose(%z) {perm = ints [1, 0]}
    %u: i64[1, k] = transpose(%t) {perm = ints [1, 0]}
    assert 1 <= k "something is found"`,
	"nonzero, of two dimensions": `%z: i64[1, k] = nonzero(%x) {found = string "k"}
    assert m <= 64*k "enough is found"`,
}

// TestUnread runs texts with conditions on dimensions that the data decide and nothing else reads.
func TestUnread(t *testing.T) {
	for name, text := range unread {
		m, err := weir.LoadBytes([]byte("weir 1\nir @m {\n  dim m in [1, 64]\n  dim k in [0, 64] limit m\n  main @main(%x: " +
			"f32[m]) {\n    " + text + "\n    %y: f32[m] = exp(%x)\n    return %y\n  }\n}\n"))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, target := range []weir.Target{weir.CPU, weir.Reference} {
			p, err := weir.Compile(t.Context(), m, weir.Options{Target: target})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if target == weir.CPU && len(p.Requires()) == 0 {
				t.Errorf("%s: no condition is listed as checked", name)
			}
			for value, breaks := range map[float32]bool{0: true, 1: false} {
				x, err := weir.FromSlice([]float32{value, value, value, value, value}, 5)
				if err != nil {
					t.Fatal(err)
				}
				r, err := p.Run(t.Context(), weir.Inputs{"x": x})
				if breaks && !errors.Is(err, weir.ErrInput) || !breaks && err != nil {
					t.Errorf("%s, %v, all %v: %v", name, target, value, err)
				}
				if breaks && err != nil && !strings.Contains(err.Error(), "found") {
					t.Errorf("%s: %v: without the words of the assertion", name, err)
				}
				if r != nil {
					r.Close()
				}
				x.Close()
			}
			p.Close()
		}
		m.Close()
	}
}

// TestBroken breaks every condition of the texts in testdata/memory: Check and NewCall refuse values that break it,
// with a typed error that names each dimension's value and the line, and accept others.
func TestBroken(t *testing.T) {
	files, _ := filepath.Glob("testdata/memory/*/*.weir")
	broken := 0
	for _, file := range files {
		if strings.Contains(file, "refused") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := weir.LoadBytes(data)
		if err != nil {
			t.Fatal(file, err)
		}
		p, err := weir.Compile(t.Context(), m, weir.Options{Target: weir.Reference})
		if err != nil {
			t.Fatal(file, err)
		}
		for a := int64(1); a <= 64; a += 3 {
			for b := int64(1); b <= 64; b += 9 {
				d := weir.Dims{}
				for i, dim := range p.Dims() {
					d[dim.Name] = []int64{a, b}[i%2]
				}
				err := p.Check(d)
				c, again := p.NewCall(d)
				if again == nil {
					c.Close()
				}
				if fmt.Sprint(err) != fmt.Sprint(again) {
					t.Errorf("%s at %v: Check says %v, NewCall %v", file, d, err, again)
				}
				if err == nil {
					continue
				}
				broken++
				if !errors.Is(err, weir.ErrInput) {
					t.Errorf("%s at %v: %v", file, d, err)
				}
				if !strings.Contains(err.Error(), ", outside ") && (!strings.Contains(err.Error(), "(from ") ||
					!strings.Contains(err.Error(), "does not hold: ")) {
					t.Errorf("%s at %v: %v: no reason", file, d, err)
				}
			}
		}
		p.Close()
		m.Close()
	}
	if broken < 100 {
		t.Errorf("only %d refusals", broken)
	}
}
