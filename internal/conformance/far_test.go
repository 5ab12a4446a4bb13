package conformance

import (
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/target"
)

// TestFarOperands: products whose operands have long strides between steps, which are copied or summed in blocks of
// steps, give the correct sums, for any remainder at the edges, and the same bits on one thread and several.
func TestFarOperands(t *testing.T) {
	copied := map[string]int{}
	for _, c := range []struct {
		k, m, n int
		turned  bool // the left operand
	}{
		{300, 257, 300, true}, {513, 300, 261, true}, {1024, 256, 260, true}, {264, 700, 264, true}, {257, 384, 1024, true},
		{256, 256, 33, true}, {2100, 260, 96, true},
		{300, 70, 300, false}, {600, 50, 1000, false}, {1, 256, 256, true}, {64, 1025, 1024, true}, {770, 1030, 100, true},
		{640, 70, 1100, true}, {2100, 70, 300, false},
		{512, 130, 1999, false}, {1500, 60, 200, false}, {700, 49, 521, false}, {130, 390, 3070, true},
	} {
		for _, named := range []bool{false, true} {
			var first []float32
			for _, threads := range []int{1, 2} {
				got := farProduct(t, c.k, c.m, c.n, c.turned, named, threads, copied)
				if first == nil {
					first = got
				}
				for i := range got {
					if math.Float32bits(got[i]) != math.Float32bits(first[i]) {
						t.Fatalf("%v: element %d is %v on %d threads, and %v on one", c, i, got[i], threads, first[i])
					}
				}
			}
		}
	}
	if target.Host(1).Name == target.AMD64Name && (copied["local %panel"] < 8 || copied["local %block"] < 15 ||
		copied["local %rows"] < 8 || copied["for $b"] < 20) {
		t.Errorf("%v are copied", copied)
	}
}

// farProduct computes x·y and compares it with sums in f64. x may be stored transposed, scaled and added to a state.
func farProduct(t *testing.T, k, m, n int, turned, named bool, threads int, copied map[string]int) []float32 {
	t.Helper()
	depth, dim := fmt.Sprint(k), ""
	if named {
		depth, dim = "k", "dim k in [0, 2200]\n"
	}
	left := fmt.Sprintf("f32[%d, %s]", m, depth)
	if turned {
		left = fmt.Sprintf("f32[%s, %d]", depth, m)
	}
	out := fmt.Sprintf("f32[%d, %d]", m, n)
	source := fmt.Sprintf("weir 1\nir @m {\n%s main @main(%%x: %s, %%y: f32[%s, %d], %%w: %s) {\n state %%w -> %%u\n "+
		"const %%c: f32[] = [0.5]\n"+
		"%%p: %s = matmul(%%x, %%y) {transpose_a = bool %v, transpose_b = bool false}\n%%s: %s = mul(%%p, %%c)\n%%u: %s = "+
		"sub(%%w, %%s)\nreturn %%u\n}\n}\n",
		dim, left, depth, n, out, out, turned, out, out)
	model, err := weir.LoadBytes([]byte(source))
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	defer model.Close()
	p, err := weir.Compile(t.Context(), model, weir.Options{Threads: threads, Stage: func(name, text string) {
		for _, form := range []string{"local %panel", "local %block", "local %rows", "for $b"} {
			if name == "schedule" && strings.Contains(text, form) {
				copied[form]++
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	r := rand.New(rand.NewSource(int64(k*m + n)))
	in, data := weir.Inputs{}, map[string][]float32{}
	for name, shape := range map[string][]int{"x": {m, k}, "y": {k, n}, "w": {m, n}} {
		if name == "x" && turned {
			shape = []int{k, m}
		}
		x, err := weir.New(weir.F32, shape...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		data[name], _ = weir.View[float32](x)
		in[name] = x
	}
	for _, name := range []string{"x", "y", "w"} {
		for i := range data[name] {
			data[name][i] = r.Float32() - 0.5
		}
	}
	data["x"][len(data["x"])/2] = float32(math.Inf(1))
	before := append([]float32{}, data["w"]...)
	w := in["w"].(*weir.Tensor)
	in["w"] = weir.Update(w)
	results, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	results.Close()
	for i := range m {
		for j := i % 17; j < n; j += 17 { // some of each row and column
			sum := 0.0
			for d := range k {
				at := i*k + d
				if turned {
					at = d*m + i
				}
				sum += float64(data["x"][at]) * float64(data["y"][d*n+j])
			}
			want, got := float64(before[i*n+j])-sum/2, float64(data["w"][i*n+j])
			if off := math.Abs(got - want); got != want && !(math.IsNaN(got) && math.IsNaN(want)) && !(off <= 1e-4) {
				t.Fatalf("%d × %d × %d, %v: element %d, %d is %v, not %v", m, k, n, turned, i, j, got, want)
			}
		}
	}
	return append([]float32{}, data["w"]...)
}
