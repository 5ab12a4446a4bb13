package accuracy

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestHoles compiles convolutions whose weights get zeros that the model does not have: groups of few channels, which
// are computed together, and transposed convolutions whose stride does not divide the kernel. An infinity or NaN
// reaches the same results as in the imported model, and the model's own zeros are multiplied.
func TestHoles(t *testing.T) {
	const window = "{begin = syms [1%[1]s], dilations = ints [1%[2]s], end = syms [1%[1]s], groups = int %[3]d, kernel " +
		"= ints [3%[4]s], strides = ints [%[5]d%[6]s]}"
	line := func(op string, groups, stride, channels, inner, filters, places, results int) string {
		w := []int{filters, inner, 3}
		if op == "convolution_transpose" {
			w = []int{channels, filters, 3}
		}
		return holesModel(op, []int{2, channels, places}, w, []int{2, filters, results},
			fmt.Sprintf(window, "", "", groups, "", stride, ""))
	}
	plane := func(op string, groups, stride, channels, inner, filters, places, results int) string {
		w := []int{filters, inner, 3, 3}
		if op == "convolution_transpose" {
			w = []int{channels, filters, 3, 3}
		}
		return holesModel(op, []int{1, channels, places, places}, w, []int{1, filters, results, results},
			fmt.Sprintf(window, ", 1", ", 1", groups, ", 3", stride, fmt.Sprintf(", %d", stride)))
	}
	for name, source := range map[string]string{
		"groups of a line":         line("convolution", 4, 1, 12, 3, 8, 19, 19),
		"groups of a plane":        plane("convolution", 8, 1, 32, 4, 32, 14, 14),
		"groups of a wide plane":   plane("convolution", 4, 1, 8, 2, 8, 60, 60),
		"groups with a stride":     plane("convolution", 2, 2, 16, 8, 6, 15, 8),
		"transposed line":          line("convolution_transpose", 1, 2, 6, 0, 5, 11, 21),
		"transposed plane":         plane("convolution_transpose", 1, 2, 8, 0, 3, 9, 17),
		"transposed with a stride": plane("convolution_transpose", 1, 4, 8, 0, 3, 7, 25),
	} {
		t.Run(name, func(t *testing.T) {
			want, held := holesRun(t, source, weir.Options{Target: "reference"}), 0
			for _, cpu := range []string{"avx2", "avx512", "portable"} {
				got := holesRun(t, source, weir.Options{CPU: cpu})
				if got == nil {
					continue
				}
				for i, g := range got {
					w := float64(want[i])
					if g := float64(g); math.IsNaN(w) || math.IsInf(w, 0) {
						if held++; math.IsNaN(w) != math.IsNaN(g) || !math.IsNaN(w) && w != g {
							t.Fatalf("%s: element %d is %g, not %g", cpu, i, g, w)
						}
					} else if !(math.Abs(g-w) <= 1e-4*(1+math.Abs(w))) {
						t.Fatalf("%s: element %d is %g, not %g", cpu, i, g, w)
					}
				}
			}
			if held == 0 {
				t.Error("no element shows what infinities become")
			}
		})
	}
}

// holesModel returns the text of one convolution with weights, some of which are 0, and of a function of its result.
func holesModel(op string, x, w, y []int, attrs string) string {
	r := rand.New(rand.NewSource(3))
	shape := func(list []int) string { return "f32" + strings.ReplaceAll(fmt.Sprint(list), " ", ", ") }
	count := 1
	for _, n := range w {
		count *= n
	}
	var list []string
	for i := range count {
		v := r.NormFloat64()
		if i%7 == 3 {
			v = 0
		}
		list = append(list, fmt.Sprintf("%.4f", v))
	}
	return fmt.Sprintf("weir 1\nir @holes {\nmain @main(%%x: %s) {\n  const %%w: %s = [%s]\n  %%y: %s = %s(%%x, %%w) "+
		"%s\n  %%z: %s = neg(%%y)\n  return %%z\n}\n}",
		shape(x), shape(w), strings.Join(list, ", "), shape(y), op, attrs, shape(y))
}

// holesRun runs the text on normal data with two infinities and a NaN; nil if this processor cannot run the options.
func holesRun(t *testing.T, source string, options weir.Options) []float32 {
	t.Helper()
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, options)
	if errors.Is(err, weir.ErrUnsupported) {
		t.Logf("left out: %v", err)
		return nil
	} else if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var dims []int
	count := 1
	for _, e := range p.Inputs()[0].Shape {
		dims, count = append(dims, int(e.Size)), count*int(e.Size)
	}
	r := rand.New(rand.NewSource(5))
	x := make([]float32, count)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	x[count/3], x[count/2], x[count-1] = float32(math.Inf(1)), float32(math.NaN()), float32(math.Inf(-1))
	input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, dims...))
	defer input.Close()
	results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
	defer results.Close()
	return weirtest.Copy[float32](t, results.At(0))
}
