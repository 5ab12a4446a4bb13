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

// TestConvolutionBound compiles a convolution for which Winograd's algorithm is chosen, and holds its results to the
// bound of docs/accuracy.md on data with which such algorithms lose accuracy: an infinity or NaN reaches only the
// windows that contain it, and an outlier costs no digits elsewhere.
func TestConvolutionBound(t *testing.T) {
	const channels, size = 32, 24
	r := rand.New(rand.NewSource(7))
	weights := make([]float64, channels*channels*9)
	var list strings.Builder
	for i := range weights {
		weights[i] = float64(float32(r.NormFloat64()))
		fmt.Fprintf(&list, ", %g", weights[i])
	}
	source := fmt.Sprintf(`weir 1
ir @convolution {
main @main(%%x: f32[1, %d, %d, %d]) {
  const %%w: f32[%d, %d, 3, 3] = [%s]
  %%y: f32[1, %d, %d, %d] = convolution(%%x, %%w) {begin = syms [1, 1], dilations = ints [1, 1], end = syms [1, 1], groups = int 1, kernel = ints [3, 3], strides = ints [1, 1]}
  return %%y
}
}`, channels, size, size, channels, channels, list.String()[2:], channels, size, size)
	for _, cpu := range []string{"avx2", "avx512", "portable"} {
		t.Run(cpu, func(t *testing.T) {
			m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
			defer m.Close()
			p, err := weir.Compile(t.Context(), m, weir.Options{CPU: cpu})
			if errors.Is(err, weir.ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if held := weirtest.Must[int64](t)(p.Memory().Weights.At(nil)); held < 4*36*channels*channels {
				t.Fatalf("weights of %d bytes: the convolution is not computed in tiles", held)
			}
			for _, outlier := range []float64{1, 1e4, 1e6, 1e30, 1e-30, 1e-44, 0, math.Inf(1), math.NaN()} {
				x := make([]float32, channels*size*size)
				for i := range x {
					x[i] = float32(r.NormFloat64())
				}
				for range 3 {
					x[r.Intn(len(x))] = float32(outlier)
				}
				if outlier == 0 { // dark except for a corner
					for i := range x {
						if i%size > 7 {
							x[i] = 0
						}
					}
				}
				input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, 1, channels, size, size))
				results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
				y := weirtest.Copy[float32](t, results.Get("y"))
				if worst, err := convolutionError(y, x, weights, convolved{channels, size, size, [2]int{1, 1}, size,
					size}); err != nil || worst > 1e-5 {
					t.Errorf("outlier %g: an error of %.3g of the sum of magnitudes times the greatest weight; %v", outlier, worst,
						err)
				}
				results.Close()
				input.Close()
			}
		})
	}
}

// convolved is the extents of a convolution of 3 × 3, and its padding before the first row and column.
type convolved struct {
	channels, height, width int
	begin                   [2]int
	rows, columns           int // of the output
}

// convolutionError returns the greatest error of y, relative to the sum of |x| in its window times the filter's
// greatest |w|. err names an element whose window has an infinity or NaN and whose value is not the one of direct
// arithmetic.
func convolutionError(y, x []float32, w []float64, of convolved) (worst float64, err error) {
	if filters := len(w) / of.channels / 9; len(y) != filters*of.rows*of.columns {
		return 0, fmt.Errorf("%d results of %d filters of %v", len(y), filters, of)
	}
	for at, got := range y {
		o, row, column := at/of.columns/of.rows, at/of.columns%of.rows, at%of.columns
		sum, magnitude, greatest := 0.0, 0.0, 0.0
		for k := range of.channels * 9 {
			v := w[o*of.channels*9+k]
			greatest = max(greatest, math.Abs(v))
			i, j := row+k%9/3-of.begin[0], column+k%3-of.begin[1]
			if i >= 0 && i < of.height && j >= 0 && j < of.width {
				e := float64(x[(k/9*of.height+i)*of.width+j])
				sum, magnitude = sum+e*v, magnitude+math.Abs(e)
			}
		}
		limit := magnitude * greatest
		switch number := float64(got); {
		case limit != limit || math.IsInf(limit, 0):
			if math.IsNaN(sum) != math.IsNaN(number) || !math.IsNaN(sum) && sum != number {
				err = fmt.Errorf("element %d is %g, not %g", at, number, sum)
			}
		case limit == 0 && number != 0:
			err = fmt.Errorf("element %d is %g, not 0", at, number)
		case limit > 0:
			if e := math.Abs(number-sum) - float64(of.channels)*9*0x1p-149; !(e/limit <= worst) {
				worst = e / limit
			}
		}
	}
	return worst, err
}

// TestShares finds no subnormal numbers among the softmax of elements that a mask of −100 lowers: a product with
// subnormal numbers takes a hundred times as long.
func TestShares(t *testing.T) {
	source := `weir 1
ir @shares {
main @main(%x: f32[40, 64]) {
  %y: f32[40, 64] = softmax(%x) {axis = int 1}
  return %y
}
}
`
	x := make([]float32, 40*64)
	for i := range x {
		if x[i] = float32(i%7) / 10; i%64 >= 8 {
			x[i] -= 85 + 20*float32(i/64)/40
		}
	}
	everyLevel(t, []byte(source), weir.Options{},
		func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
			for i, y := range run(map[string][]float32{"x": x}, map[string][]int{"x": {40, 64}}) {
				if y < 0 || y > 0 && y < 0x1p-130 { // 2⁻¹²⁶ is divided by a sum of at most 8
					t.Fatalf("%s: the share of %g is %g", cpu, x[i], y)
				}
			}
		})
}

// TestRowsBound holds sums, running sums, softmax, its logarithm and normalisation of a row to the bounds of
// docs/accuracy.md. The data are normal, far from 0, of a wide range, with one outlier, equal, or subnormal.
func TestRowsBound(t *testing.T) {
	const n = 1000
	source := `weir 1
ir @rows {
main @main(%x: f32[1, 1000]) {
  %sum: f32[1, 1] = reduce_sum(%x) {axes = ints [1], keep = bool true}
  %running: f32[1, 1000] = cumsum(%x) {axis = int 1, exclusive = bool false, reverse = bool false}
  %softmax: f32[1, 1000] = softmax(%x) {axis = int 1}
  %log: f32[1, 1000] = log_softmax(%x) {axis = int 1}
  %normal: f32[1, 1000] = normalize(%x) {axes = ints [1], centered = bool true, epsilon = float 1e-5}
  return %sum, %running, %softmax, %log, %normal
}
}
`
	r := rand.New(rand.NewSource(9))
	rows := map[string]func(i int) float64{
		"normal":     func(int) float64 { return r.NormFloat64() },
		"far from 0": func(int) float64 { return 1e4 + r.NormFloat64() },
		"wide":       func(int) float64 { return r.NormFloat64() * math.Exp(r.NormFloat64()*5) },
		"outlier": func(i int) float64 {
			if i == 777 {
				return 1e6
			}
			return r.NormFloat64()
		},
		"equal":     func(int) float64 { return 12345.678 },
		"subnormal": func(int) float64 { return 1e-40 * r.NormFloat64() },
	}
	for _, cpu := range []string{"avx2", "avx512", "portable"} {
		p, err := weirtest.CompileText(t, source, weir.Options{CPU: cpu})
		if errors.Is(err, weir.ErrUnsupported) {
			t.Logf("%s: %v", cpu, err)
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for name, row := range rows {
			x, top, sum, size, largest := make([]float32, n), math.Inf(-1), 0.0, 0.0, 0.0
			for i := range x {
				x[i] = float32(row(i))
				v := float64(x[i])
				top, sum, size, largest = max(top, v), sum+v, size+math.Abs(v), max(largest, math.Abs(v))
			}
			total, variance, mean := 0.0, 0.0, sum/n
			for _, v := range x {
				total += math.Exp(float64(v) - top)
				variance += (float64(v) - mean) * (float64(v) - mean) / n
			}
			deviation := math.Sqrt(variance + 1e-5)
			input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, 1, n))
			results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
			read := func(output string) []float32 {
				return weirtest.Copy[float32](t, results.Get(output))
			}
			hold := func(what string, i int, got float32, want, limit float64) {
				if e := math.Abs(float64(got) - want); !(e <= limit) {
					t.Errorf("%s, %s, %s[%d] is %g, not %g: %.3g away, at most %.3g", cpu, name, what, i, got, want, e, limit)
				}
			}
			hold("sum", 0, read("sum")[0], sum, n*unit*size)
			running, softmax, log, normal, so, magnitude := read("running"), read("softmax"), read("log"), read("normal"), 0.0,
				0.0
			for i, v := range x {
				v := float64(v)
				so, magnitude = so+v, magnitude+math.Abs(v)
				hold("running", i, running[i], so, float64(i+1)*unit*magnitude)
				y := math.Exp(v-top) / total
				hold("softmax", i, softmax[i], y, (n+(top-v)+8)*unit*y+0x1p-126)
				hold("log", i, log[i], v-top-math.Log(total), (n+4+2*math.Abs(v)+2*math.Abs(top))*unit)
				hold("normal", i, normal[i], (v-mean)/deviation, 4*unit*(n*size/n+math.Abs(v))/deviation+n*unit*math.Abs(v-mean)/
					deviation)
			}
			results.Close()
			input.Close()
		}
	}
}
