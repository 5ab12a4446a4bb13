package ownership

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/mem"
)

// stridedText is a program that reads an input with every kind of consumer: a product, a sum, and element by element.
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

// compiledWith compiles a text; the program is closed when the test ends.
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

// spread lays elements of a shape out with strides. It returns the memory, the first element's index in it, and the
// elements in row-major order.
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

// stridesOfTests are strides of f32[n, 3, 4], at n = 2, and their layouts.
var stridesOfTests = []struct {
	name    string
	strides []int
	layout  weir.Layout // empty if no layout has these strides, or if it is row-major
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

// TestStrided runs programs on memory with every kind of strides, declared and not: the results equal, to the bit,
// those of a copy in row-major order. Declared strides are read in place; others are one copy of Copies bytes, which is
// released.
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
				if strings.Contains(string(layout), "0*") { // no input would decide n
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

// refuses checks that compiling a text gives an error of a kind.
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

// ramp returns n small numbers in ascending steps.
func ramp(n int) []float32 {
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i) - 7
	}
	return list
}

// close6 reports whether results differ by no more than the order of sums explains.
func close6(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Abs(float64(x-y)) <= 1e-5*(1+math.Abs(float64(y)))
	})
}

// runAll returns the elements of all outputs of a run.
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

// TestStridedCopies: a copy has the bytes of Copies, declared memory is not copied, limits and budgets count copies,
// and a refused run leaves no memory.
func TestStridedCopies(t *testing.T) {
	text := strings.Replace(stridedText, "[0, 64]", "[0, 100000]", 1)
	plain, turned := compiledWith(t, text, weir.Options{}),
		compiledWith(t, text, weir.Options{Layouts: map[string]weir.Layout{"x": "0,2,1"}})
	memory, at, _ := spread([]int{100000, 3, 4}, []int{12, 1, 3})
	x, err := weir.Strided(weir.F32, unsafe.Pointer(&memory[at]), []int{100000, 3, 4}, []int{12, 1, 3})
	if err != nil {
		t.Fatal(err)
	}
	y, _ := weir.FromSlice(ramp(20), 4, 5)
	in, bytes := weir.Inputs{"x": x, "y": y}, int64(4*12*100000) // too much for the pool
	copies, err := plain.Memory().Copies("x")
	if v, err2 := copies.At(weir.Dims{"n": 100000}); err != nil || err2 != nil || v != bytes {
		t.Errorf("copies: %d, %v, %v", v, err, err2)
	}
	if _, err := plain.Memory().Copies("z"); !errors.Is(err, weir.ErrInput) {
		t.Errorf("copies of no input: %v", err)
	}
	for _, p := range []*weir.Program{plain, turned} {
		m, err := p.Measure(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if peak, err := p.Memory().Peak(1, weir.Dims{"n": 100000}); err != nil || peak != m.Peak(1) {
			t.Errorf("predicted %d, measured %d, %v", peak, m.Peak(1), err)
		}
		runAll(t, p, in)
		weir.Trim()
		before := weir.Usage()
		weir.SetLimit(mappedNow() + 4096) // a copy takes more
		r, err := p.Run(t.Context(), in)
		weir.SetLimit(0)
		if err == nil {
			r.Close()
		}
		if copied := p == plain; copied != errors.Is(err, weir.ErrMemory) || !copied && err != nil {
			t.Errorf("copied is %v; beyond the limit: %v", copied, err)
		}
		if now := weir.Usage(); now.Tensors != before.Tensors {
			t.Errorf("%d bytes of copies are left", now.Tensors-before.Tensors)
		}
	}
	peak, _ := plain.Memory().Peak(1, weir.Dims{"n": 100000})
	for budget, fits := range map[int64]bool{peak + bytes: true, peak + bytes - 1: false} {
		p := compiledWith(t, text, weir.Options{Budget: budget})
		for range 3 { // the budget gets the bytes of a copy back
			r, err := p.Run(t.Context(), in)
			if fits != (err == nil) || !fits && !errors.Is(err, weir.ErrBudget) {
				t.Errorf("a budget of %d, where %d and %d are needed: %v", budget, peak, bytes, err)
			}
			if err == nil {
				r.Close()
			}
		}
	}
	if laid := turned.Laid(); len(laid) != 1 || laid[0].Layout != "0,2,1" || laid[0].Input != "x" {
		t.Errorf("declared: %v", laid)
	}
}

// TestLaid: a transposed input is read in place by kernels, and is copied in the plan for a host operator.
func TestLaid(t *testing.T) {
	for _, c := range []struct {
		results, node string
		copied        bool
	}{
		{"%y", "%y: f32[64, 256] = softmax(%x) {axis = int 1}", false},
		{"%y", "%y: f32[64, 3], %i: i64[64, 3], %c: i64[512] = topk(%x) {k = sym 3, axis = int 1, largest = bool true}",
			true},
	} {
		text := fmt.Sprintf("weir 1\nir @laid {\n  main @main(%%x: f32[64, 256]) {\n    %s\n    return %s\n  }\n}\n", c.node,
			c.results)
		p := compiledWith(t, text, weir.Options{Layouts: map[string]weir.Layout{"x": "1,0"}})
		arena, err := p.Memory().Arena.At(nil)
		laid := p.Laid()
		bytes, err2 := laid[0].Bytes.At(nil)
		if err != nil || err2 != nil || len(laid) != 1 || laid[0].Copied != c.copied || bytes != 4*64*256 ||
			c.copied != (arena >= bytes) {
			t.Errorf("%s: %v, an arena of %d, %v, %v", c.node, laid, arena, err, err2)
		}
	}
}

// mappedNow returns a limit that the present memory just keeps.
func mappedNow() int64 {
	held := mem.Usage()
	return held.MappedAll + held.Cached
}

// TestStridedTypes reads a transposed matrix of every element type, at every alignment, in place and by a copy.
func TestStridedTypes(t *testing.T) {
	for dt := weir.Bool; dt < weir.C128; dt++ { // no kernel moves c128
		text := fmt.Sprintf("weir 1\nir @turned {\n  main @main(%%x: %[1]s[3, 5]) {\n    %%y: %[1]s[5, 3] = transpose(%%x) "+
			"{perm = ints [1, 0]}\n    return %%y\n  }\n}\n", dt)
		if dt.IsSubByte() {
			refuses(t, dt.String(), text, weir.Options{Layouts: map[string]weir.Layout{"x": "1,0"}}, weir.ErrUnsupported)
			data := make([]byte, 64)
			if _, err := weir.Strided(dt, unsafe.Pointer(&data[0]), []int{3, 5}, []int{1, 3}); !errors.Is(err,
				weir.ErrUnsupported) {
				t.Errorf("%s with strides: %v", dt, err)
			}
			continue
		}
		size := dt.Size()
		memory := make([]byte, 16*size+8)
		for i := range memory {
			memory[i] = byte(i) & 1
		}
		for _, layout := range []weir.Layout{"", "1,0"} {
			p := compiledWith(t, text, weir.Options{Layouts: map[string]weir.Layout{"x": layout}})
			for _, offset := range []int{0, 1, size} {
				x, err := weir.Strided(dt, unsafe.Pointer(&memory[offset]), []int{3, 5}, []int{1, 3})
				if err != nil {
					t.Fatal(err)
				}
				r, err := p.Run(t.Context(), weir.Inputs{"x": x})
				if err != nil {
					t.Fatal(dt, err)
				}
				if got := r.At(0).Bytes(); !slices.Equal(got, memory[offset:offset+15*size]) {
					t.Errorf("%s at %d, layout %q: %v", dt, offset, layout, got)
				}
				r.Close()
			}
		}
	}
}

// TestStridedRefused gives impossible memory: strides beyond all addresses, layouts of missing inputs.
func TestStridedRefused(t *testing.T) {
	data := make([]float32, 8)
	at := unsafe.Pointer(&data[0])
	for _, c := range []struct {
		why            string
		at             unsafe.Pointer
		shape, strides []int
	}{
		{"too few strides", at, []int{2, 3}, []int{1}},
		{"too many strides", at, []int{2}, []int{1, 1}},
		{"a negative extent", at, []int{-2}, []int{1}},
		{"no memory", nil, []int{2}, []int{1}},
		{"an endless stride", at, []int{2, 2}, []int{math.MaxInt, 1}},
		{"an endless stride backwards", at, []int{2, 2}, []int{math.MinInt, 1}},
		{"strides that overflow together", at, []int{3, 3, 3}, []int{math.MaxInt / 2, math.MaxInt / 2, math.MaxInt / 2}},
		{"more elements than there can be", at, []int{math.MaxInt, math.MaxInt}, []int{0, 0}},
		{"more bytes than there can be", at, []int{math.MaxInt}, []int{0}},
	} {
		if a, err := weir.Strided(weir.F32, c.at, c.shape, c.strides); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v, %v", c.why, a, err)
		}
	}
	if _, err := weir.Strided(weir.StringType, at, []int{1}, nil); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("strings: %v", err)
	}
	for _, layout := range []weir.Layout{"0", "0,1", "0,1,1", "0,1,3", "0,1,-2", "0,1,2-*", "a,b,c", "0,1,2,", "0,,1",
		"99999999999999999999,0,1"} {
		refuses(t, string(layout), stridedText, weir.Options{Layouts: map[string]weir.Layout{"x": layout}}, weir.ErrInput)
	}
	refuses(t, "no input", stridedText, weir.Options{Layouts: map[string]weir.Layout{"z": "0"}}, weir.ErrInput)
	p := compiledWith(t, stridedText, weir.Options{Layouts: map[string]weir.Layout{"x": "2,1,0"}})
	y, _ := weir.FromSlice(ramp(20), 4, 5)
	for _, shape := range [][]int{{2, 4, 3}, {4, 3}, {65, 3, 4}} {
		big := make([]float32, 1000)
		x, _ := weir.Strided(weir.F32, unsafe.Pointer(&big[0]), shape, nil)
		if _, err := p.Run(t.Context(), weir.Inputs{"x": x, "y": y}); !errors.Is(err, weir.ErrInput) {
			t.Errorf("shape %v: %v", shape, err)
		}
	}
	own, _ := weir.New(weir.F32, 2, 3, 4)
	defer own.Close()
	if _, err := p.Run(t.Context(), weir.Inputs{"x": weir.Consume(own), "y": y}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("consumed: %v", err)
	}
	for _, n := range []int{0, 1} {
		x, err := weir.Strided(weir.F32, at, []int{n, 3, 4}, []int{0, 0, 0})
		if err != nil {
			t.Fatal(err)
		}
		runAll(t, p, weir.Inputs{"x": x, "y": y})
	}
	if _, err := p.Memory().Peak(1, weir.Dims{"n": 2, "nothing": 3}); !errors.Is(err, weir.ErrInput) ||
		!strings.Contains(err.Error(), "its dimensions are n") {
		t.Errorf("a dimension that is none: %v", err)
	}
}

// TestLayoutArtefact writes a program with layouts and reads it back; Compare accepts its inputs too.
func TestLayoutArtefact(t *testing.T) {
	o := weir.Options{Layouts: map[string]weir.Layout{"x": "2-,0,1", "y": "1,0"}}
	p := compiledWith(t, stridedText, o)
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	back := compiledWith(t, file.String(), weir.Options{})
	if !slices.EqualFunc(p.Inputs(), back.Inputs(), func(a, b weir.Info) bool { return a.String() == b.String() }) {
		t.Errorf("%v, not %v", back.Inputs(), p.Inputs())
	}
	x, _ := weir.FromSlice(ramp(24), 2, 3, 4)
	y, _ := weir.FromSlice(ramp(20), 4, 5)
	in := weir.Inputs{"x": x, "y": y}
	if a, b := runAll(t, p, in), runAll(t, back, in); !slices.Equal(a, b) {
		t.Errorf("%v, not %v", b, a)
	}
	refuses(t, "another layout", file.String(), weir.Options{Layouts: map[string]weir.Layout{"x": "0,2,1"}},
		weir.ErrUnsupported)
	if d, err := p.Compare(t.Context(), in, 1e-5, 1e-5); err != nil || d != nil {
		t.Errorf("compared: %v, %v", d, err)
	}
}
