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

// TestConvolutionOfVolumes compiles convolutions of 3 × 3 × 3 and of 1 × 3 × 3 for which tiles are chosen, and holds
// their results to the bound of docs/accuracy.md: fewer and more planes than the kernel and a block have, ragged tiles,
// padding on one side, outliers, infinities and NaN, known and named extents. Each run takes the memory that the
// program's formulas say.
func TestConvolutionOfVolumes(t *testing.T) {
	const channels = 32
	r := rand.New(rand.NewSource(11))
	for _, c := range []struct {
		title      string
		kernel     int
		begin, end [3]int
		extents    [3]string
		sizes      [][3]int
	}{
		{title: "known", kernel: 3, begin: [3]int{1, 1, 1}, end: [3]int{1, 1, 1}, extents: [3]string{"5", "16", "24"},
			sizes: [][3]int{{5, 16, 24}}},
		{title: "known and ragged", kernel: 3, begin: [3]int{2, 1, 0}, end: [3]int{0, 1, 1},
			extents: [3]string{"1", "18", "23"}, sizes: [][3]int{{1, 18, 23}}},
		{title: "known planes of images", kernel: 1, begin: [3]int{0, 1, 1}, end: [3]int{0, 1, 1},
			extents: [3]string{"3", "16", "24"}, sizes: [][3]int{{3, 16, 24}}},
		{title: "named planes", kernel: 3, begin: [3]int{1, 1, 1}, end: [3]int{1, 1, 1}, extents: [3]string{"d", "20", "24"},
			sizes: [][3]int{{1, 20, 24}, {2, 20, 24}, {4, 20, 24}, {7, 20, 24}}},
		{title: "named", kernel: 3, begin: [3]int{1, 1, 1}, end: [3]int{1, 1, 1}, extents: [3]string{"d", "h", "w"},
			sizes: [][3]int{{1, 1, 1}, {3, 5, 9}, {6, 17, 33}, {2, 33, 70}, {0, 4, 4}}},
		{title: "named planes of images", kernel: 1, begin: [3]int{0, 1, 1}, end: [3]int{0, 1, 1},
			extents: [3]string{"d", "h", "w"},
			sizes:   [][3]int{{1, 4, 4}, {3, 18, 21}}},
	} {
		weights := make([]float64, channels*channels*9*c.kernel)
		var list strings.Builder
		for i := range weights {
			weights[i] = float64(float32(r.NormFloat64()))
			fmt.Fprintf(&list, ", %g", weights[i])
		}
		grown := func(i int) string {
			return fmt.Sprintf("%s + %d", c.extents[i], c.begin[i]+c.end[i]-[3]int{c.kernel - 1, 2, 2}[i])
		}
		source := fmt.Sprintf(`weir 1
ir @volumes {
dim d in [0, inf]
dim h in [0, inf]
dim w in [0, inf]
main @main(%%x: f32[1, 32, %s, %s, %s]) {
  const %%g: f32[32, 32, %d, 3, 3] = [%s]
  %%a: f32[1, 32, %s, %s, %s] = relu(%%x)
  %%y: f32[1, 32, %s, %s, %s] = convolution(%%a, %%g) {begin = syms [%d, %d, %d], dilations = ints [1, 1, 1],
    end = syms [%d, %d, %d], groups = int 1, kernel = ints [%d, 3, 3], strides = ints [1, 1, 1]}
  return %%y
}
}`, c.extents[0], c.extents[1], c.extents[2], c.kernel, list.String()[2:], c.extents[0], c.extents[1], c.extents[2],
			grown(0), grown(1), grown(2), c.begin[0], c.begin[1], c.begin[2], c.end[0], c.end[1], c.end[2], c.kernel)
		for _, cpu := range []string{"avx2", "avx512", "portable"} {
			t.Run(c.title+" "+cpu, func(t *testing.T) {
				m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{CPU: cpu})
				if errors.Is(err, weir.ErrUnsupported) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if held := weirtest.Must[int64](t)(p.Memory().Weights.At(nil)); held < 4*int64(len(weights))*16/9 {
					t.Fatalf("weights of %d bytes: the convolution is not computed in tiles", held)
				}
				for i, size := range c.sizes {
					v := volume{channels, size, c.kernel, c.begin, c.end}
					for round, outlier := range []float64{1, 1e6, math.Inf(1), math.NaN()} {
						if round == 0 || cpu != "portable" && i%2 == 0 {
							checkVolume(t, p, r, weights, outlier, v)
						}
					}
				}
			})
		}
	}
}

// volume is the extents of a convolution of planes.
type volume struct {
	channels   int
	size       [3]int
	kernel     int // planes
	begin, end [3]int
}

// checkVolume runs a convolution of an input with an outlier, and holds its results to the bound.
func checkVolume(t *testing.T, p *weir.Program, r *rand.Rand, weights []float64, outlier float64, of volume) {
	t.Helper()
	x := make([]float32, of.channels*of.size[0]*of.size[1]*of.size[2])
	for i := range x {
		x[i] = max(float32(r.NormFloat64()), 0)
	}
	if len(x) > 0 && outlier != 1 {
		x[r.Intn(len(x))] = float32(outlier)
	}
	input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, 1, of.channels, of.size[0], of.size[1], of.size[2]))
	defer input.Close()
	results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
	defer results.Close()
	y := weirtest.Copy[float32](t, results.Get("y"))
	if worst, err := volumeError(y, x, weights, of); err != nil || worst > 1e-5 {
		t.Errorf("%v, outlier %g: an error of %.3g of the sum of magnitudes times the greatest weight; %v", of, outlier,
			worst, err)
	}
	if len(x) == 0 {
		return
	}
	measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), weir.Inputs{"x": input}))
	predicted, err := p.Memory().Peak(1, weir.Dims{"d": int64(of.size[0]), "h": int64(of.size[1]), "w": int64(of.size[2])})
	if err != nil || measured.Peak(1) != predicted {
		t.Errorf("%v: %d bytes are predicted, %d measured: %v", of, predicted, measured.Peak(1), err)
	}
}

// volumeError returns the greatest error of every seventh element of y, relative to the sum of |x| in its window times
// the filter's greatest |w|. err names an element whose infinity or NaN is not the one of direct arithmetic.
func volumeError(y, x []float32, w []float64, of volume) (worst float64, err error) {
	var places [3]int
	for i, kernel := range [3]int{of.kernel, 3, 3} {
		places[i] = of.size[i] + of.begin[i] + of.end[i] - kernel + 1
	}
	count, terms := places[0]*places[1]*places[2], of.channels*of.kernel*9
	if len(y) != count*len(w)/terms {
		return 0, fmt.Errorf("%d results of %v", len(y), of)
	}
	for at := 0; at < len(y); at += 7 {
		o, place := at/count, [3]int{at / places[2] / places[1] % places[0], at / places[2] % places[1], at % places[2]}
		sum, magnitude, greatest := 0.0, 0.0, 0.0
		for k := range terms {
			v := w[o*terms+k]
			greatest = max(greatest, math.Abs(v))
			from, inside := k/9/of.kernel, true
			for i, tap := range [3]int{k / 9 % of.kernel, k % 9 / 3, k % 3} {
				j := place[i] + tap - of.begin[i]
				inside = inside && j >= 0 && j < of.size[i]
				from = from*of.size[i] + j
			}
			if inside {
				e := float64(x[from])
				sum, magnitude = sum+e*v, magnitude+math.Abs(e)
			}
		}
		limit, number := magnitude*greatest, float64(y[at])
		switch {
		case limit != limit || math.IsInf(limit, 0):
			if math.IsNaN(sum) != math.IsNaN(number) || !math.IsNaN(sum) && sum != number {
				err = fmt.Errorf("element %d is %g, not %g", at, number, sum)
			}
		case limit == 0 && number != 0:
			err = fmt.Errorf("element %d is %g, not 0", at, number)
		case limit > 0:
			if e := math.Abs(number - sum); !(e/limit <= worst) {
				worst = e / limit
			}
		}
	}
	return worst, err
}
