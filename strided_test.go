package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
)

// stridedText is a program that reads an input of every kind of consumer: a product, a sum, and element by element.
const stridedText = `weir 1
ir @strided {
  dim n in [0, 64]
  main @main(%x: f32[n, 3, 4], %y: f32[4, 5]) {
    %twice: f32[n, 3, 4] = add(%x, %x)
    %product: f32[n, 3, 5] = matmul(%x, %y)
    %sum: f32[n, 4] = reduce_sum(%x) {axes = ints [1], keep = bool false}
    return %twice, %product, %sum
  }
}
`

func compiledWith(t *testing.T, text string, o weir.Options) *weir.Program {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := weir.Compile(context.Background(), m, o)
	if err != nil {
		t.Fatal(errors.Join(err, m.Close()))
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), m.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

// spread lays the elements 0, 1, … of a shape out with strides, and returns the memory, the first element's index there
// and the elements in row-major order as memory then has them.
func spread(shape, strides []int) (memory []float32, at int, want []float32) {
	lowest, highest, count := 0, 0, 1
	for axis, stride := range strides {
		count *= shape[axis]
		far := max(0, shape[axis]-1) * stride
		lowest, highest = lowest+min(0, far), highest+max(0, far)
	}
	memory = make([]float32, highest-lowest+1)
	for i := range memory {
		memory[i] = float32(i%97) / 8
	}
	for i := range count {
		place, rest := -lowest, i
		for axis := len(shape) - 1; axis >= 0; axis-- {
			place, rest = place+rest%shape[axis]*strides[axis], rest/shape[axis]
		}
		want = append(want, memory[place])
	}
	return memory, -lowest, want
}

// stridesOfTests are strides of f32[n, 3, 4], at n = 2, with the layout that they are.
var stridesOfTests = []struct {
	name    string
	strides []int
	layout  weir.Layout // empty: none, or row-major
}{
	{"row-major", []int{12, 4, 1}, ""},
	{"the last axes turned", []int{12, 1, 3}, "0,2,1"},
	{"all axes turned", []int{1, 2, 6}, "2,1,0"},
	{"an axis backwards", []int{12, -4, 1}, "0,1-,2"},
	{"all axes backwards", []int{-12, -4, -1}, "0-,1-,2-"},
	{"turned and backwards", []int{12, 1, -3}, "0,2-,1"},
	{"an axis repeated", []int{4, 0, 1}, "1*,0,2"},
	{"another repeated", []int{3, 1, 0}, "2*,0,1"},
	{"turned, backwards and repeated", []int{-4, 0, 1}, "1*,0-,2"},
	{"one element", []int{0, 0, 0}, ""},
	{"every second element", []int{24, 8, 2}, ""},
	{"columns of more", []int{30, 10, 1}, ""},
	{"overlapping", []int{2, 1, 1}, ""},
	{"backwards with gaps", []int{-30, 9, -2}, ""},
}

// TestStrided runs programs on memory with every kind of strides, declared and not: the results are those of a copy in
// row-major order to the bit; what is declared is read in place, and what is not is one copy of the bytes that Copies says,
// which is given back.
func TestStrided(t *testing.T) {
	for _, target := range []weir.Target{weir.CPU, weir.Portable, weir.Reference} {
		plain := compiledWith(t, stridedText, weir.Options{Target: target})
		y, _ := weir.FromSlice(ramp(20), 4, 5)
		for _, c := range stridesOfTests {
			layout, err := weir.LayoutOf([]int{2, 3, 4}, c.strides)
			if layout != c.layout && !(err != nil && c.layout == "") && c.name != "one element" {
				t.Errorf("%s: layout %q, %v", c.name, layout, err)
			}
			declared := plain
			if layout != "" {
				o := weir.Options{Target: target, Layouts: map[string]weir.Layout{"x": layout}}
				if strings.Contains(string(layout), "0*") { // nothing would tell n
					refuses(t, c.name, stridedText, o, weir.ErrUnsupported)
					continue
				}
				declared = compiledWith(t, stridedText, o)
			}
			memory, at, want := spread([]int{2, 3, 4}, c.strides)
			row, _ := weir.FromSlice(want, 2, 3, 4)
			expected := runAll(t, plain, weir.Inputs{"x": row, "y": y})
			arg, err := weir.Strided(weir.F32, unsafe.Pointer(&memory[at]), []int{2, 3, 4}, c.strides)
			if err != nil {
				t.Fatal(c.name, err)
			}
			for _, in := range []weir.Arg{arg, row} {
				for _, p := range []*weir.Program{plain, declared} {
					if in == weir.Arg(row) && p != plain && strings.Contains(string(layout), "*") {
						if _, err := p.Run(t.Context(), weir.Inputs{"x": in, "y": y}); !errors.Is(err, weir.ErrInput) {
							t.Errorf("%s: elements that do not repeat: %v", c.name, err)
						}
						continue
					}
					before := weir.Usage()
					got := runAll(t, p, weir.Inputs{"x": in, "y": y})
					if !slices.Equal(got, expected) && !close6(got, expected) {
						t.Errorf("%s, %s: %v, not %v", target, c.name, got, expected)
					}
					if now := weir.Usage(); now.Tensors != before.Tensors {
						t.Errorf("%s: %d bytes of copies are left", c.name, now.Tensors-before.Tensors)
					}
				}
			}
		}
	}
}

// refuses checks that a program is refused with an error of a kind.
func refuses(t *testing.T, why, text string, o weir.Options, kind error) {
	t.Helper()
	m, err := weir.LoadBytes([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if p, err := weir.Compile(context.Background(), m, o); !errors.Is(err, kind) {
		t.Errorf("%s: %v", why, err)
		if err == nil {
			p.Close()
		}
	}
}

func ramp(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i) - 7
	}
	return list
}

// close6 reports whether results differ by no more than the order of sums makes.
func close6(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(y)))
	})
}

func runAll(t *testing.T, p *weir.Program, in weir.Inputs) (all []float32) {
	t.Helper()
	r, err := p.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range p.Outputs() {
		values, err := weir.Copy[float32](r.At(i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, values...)
	}
	return all
}

var _ = fmt.Sprint
var _ = rand.N[int]
