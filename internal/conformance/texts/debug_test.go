package texts

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestMemoryTextsUnderDebug runs texts that lay out their memory, of the tests and random ones, with released memory
// filled and guards after operands: their results equal the reference's.
func TestMemoryTextsUnderDebug(t *testing.T) {
	for _, words := range []string{"poison", "poison,guard"} {
		t.Run(words, func(t *testing.T) {
			if !weirtest.Under(t, words) {
				return
			}
			ran := 0
			for _, source := range acceptedTexts(t) {
				ran += runText(t, source)
				if t.Failed() {
					t.Fatalf("\n%s", source)
				}
			}
			if ran < 300 {
				t.Errorf("only %d runs", ran)
			}
			t.Logf("%d runs", ran)
		})
	}
}

// acceptedTexts returns all texts of the tests that may compile.
func acceptedTexts(t *testing.T) (list []string) {
	files, err := filepath.Glob("testdata/memory/*/*.weir")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d texts, %v", len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, string(data))
	}
	for _, b := range memoryBugs {
		list = append(list, fmt.Sprintf("weir 1\nir @bug { %s\nmain @main(%s) {\n", b.dims, b.params)+
			strings.TrimLeft(b.body, "\n")+" } }")
	}
	for seed := range int64(60) {
		_, source := newRandomText(seed)
		list = append(list, source)
	}
	return list
}

// runText runs a text on every target for some sizes that it admits, and returns the number of runs.
func runText(t *testing.T, source string) (ran int) {
	t.Helper()
	o := weir.Options{Threads: 1, Target: weir.Reference}
	reference, err := weirtest.CompileText(t, source, o)
	if errors.Is(err, weir.ErrInput) {
		return 0 // refused, which other tests check
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range []weir.Target{weir.Best, weir.Portable} {
		o.Target = target
		p, err := weirtest.CompileText(t, source, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int64{1, 4, 7, 12, 16, 33} {
			in, drop := anyOf(t, reference, n)
			want, err := reference.Run(t.Context(), in)
			if errors.Is(err, weir.ErrInput) { // a condition does not hold
				drop()
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Run(t.Context(), in)
			if err != nil {
				t.Fatalf("%s, %d: %v", target, n, err)
			}
			for i, info := range p.Outputs() {
				if a, b := got.At(i), want.At(i); a.String() != b.String() || !near(a, b) {
					t.Errorf("%s, %d: %s is not what the reference computes", target, n, info)
				}
			}
			got.Close()
			want.Close()
			drop()
			ran++
		}
	}
	return ran
}

// anyOf returns inputs for a program whose dimensions all are n, and a function that closes them.
func anyOf(t *testing.T, p *weir.Program, n int64) (weir.Inputs, func()) {
	t.Helper()
	in := weir.Inputs{}
	var made []*weir.Tensor
	for i, info := range p.Inputs() {
		shape := make([]int, len(info.Shape))
		for axis, e := range info.Shape {
			shape[axis] = int(max(e.Size, n*int64(min(1, len(e.Dim)))))
		}
		x, err := weir.New(info.DType, shape...)
		if err != nil {
			t.Fatal(err)
		}
		if data, err := weir.View[float32](x); err == nil {
			for k := range data {
				data[k] = float32((k*7+i)%11)/4 - 1
			}
		} else {
			for k, data := 0, x.Bytes(); k < len(data); k += info.DType.Size() {
				data[k] = byte(n) & 1 // false or true, 0 or 1
			}
		}
		in[info.Name] = x
		made = append(made, x)
	}
	return in, func() {
		for _, x := range made {
			x.Close()
		}
	}
}

// near reports whether two tensors have the same elements, floats up to rounding.
func near(a, b *weir.Tensor) bool {
	x, err := weir.View[float32](a)
	y, other := weir.View[float32](b)
	if err != nil || other != nil {
		return slices.Equal(a.Bytes(), b.Bytes())
	}
	for i := range x {
		if d := x[i] - y[i]; !(d <= 1e-5 && d >= -1e-5) && !(x[i] != x[i] && y[i] != y[i]) {
			return false
		}
	}
	return true
}
