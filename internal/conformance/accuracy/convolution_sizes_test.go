package accuracy

import (
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/weirtest"
)

// TestConvolutionOfNamedSizes compiles convolutions in tiles whose rows and columns are named dimensions, and holds the
// results of many sizes to the bound of docs/accuracy.md: none, fewer than a tile, ragged last tiles, rows of tiles
// that blocks do not divide, odd padding, an outlier, and extents that are known multiples of a tile. Each run takes
// the memory that the program's formulas say.
func TestConvolutionOfNamedSizes(t *testing.T) {
	const channels, filters = 32, 33
	r := rand.New(rand.NewSource(9))
	weights := make([]float64, filters*channels*9)
	var list strings.Builder
	for i := range weights {
		weights[i] = float64(float32(r.NormFloat64()))
		fmt.Fprintf(&list, ", %g", weights[i])
	}
	sizes := [][2]int{{0, 7}, {7, 0}, {1, 1}, {2, 3}, {4, 4}, {5, 66}, {3, 69}, {18, 70}, {33, 17}, {1, 133}}
	for _, c := range []struct {
		title, before, height, width string
		times                        int // repeats of the input along both axes before the convolution
		begin, end                   [2]int
		dims                         map[string]weir.Range
	}{
		{"padded", "%x2: f32[1, 32, h, w] = relu(%x)", "h", "w", 1, [2]int{1, 1}, [2]int{1, 1}, nil},
		{"padded oddly", "%x2: f32[1, 32, h, w] = relu(%x)", "h + 1", "w", 1, [2]int{1, 0}, [2]int{2, 2}, nil},
		{"of a range", "%x2: f32[1, 32, h, w] = relu(%x)", "h", "w", 1, [2]int{1, 1}, [2]int{1, 1},
			map[string]weir.Range{"h": {Min: 0, Max: 512}, "w": {Min: 0, Max: 512}}},
		{"of multiples", `%r: f32[1, 32, h, w] = relu(%x)
  %a: f32[1, 32, 2*h, w] = concat(%r, %r) {axis = int 2}
  %b: f32[1, 32, 4*h, w] = concat(%a, %a) {axis = int 2}
  %c: f32[1, 32, 4*h, 2*w] = concat(%b, %b) {axis = int 3}
  %x2: f32[1, 32, 4*h, 4*w] = concat(%c, %c) {axis = int 3}`, "4*h", "4*w", 4, [2]int{1, 1}, [2]int{1, 1}, nil},
	} {
		source := fmt.Sprintf(`weir 1
ir @convolution {
dim h in [0, inf]
dim w in [0, inf]
main @main(%%x: f32[1, %d, h, w]) {
  const %%w: f32[%d, %d, 3, 3] = [%s]
  %s
  %%y: f32[1, %d, %s, %s] = convolution(%%x2, %%w) {begin = syms [%d, %d], dilations = ints [1, 1],
    end = syms [%d, %d], groups = int 1, kernel = ints [3, 3], strides = ints [1, 1]}
  return %%y
}
}`, channels, filters, channels, list.String()[2:], c.before, filters, c.height, c.width,
			c.begin[0], c.begin[1], c.end[0], c.end[1])
		for _, cpu := range []string{"avx2", "avx512", "portable"} {
			t.Run(c.title+" "+cpu, func(t *testing.T) {
				m := weirtest.Must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{CPU: cpu, Dims: c.dims})
				if errors.Is(err, weir.ErrUnsupported) {
					t.Skip(err)
				} else if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				if held := weirtest.Must[int64](t)(p.Memory().Weights.At(nil)); held < 4*36*channels*filters {
					t.Fatalf("weights of %d bytes: the convolution is not computed in tiles", held)
				}
				for i, size := range sizes {
					if c.times > 1 {
						size[0], size[1] = size[0]/4, (size[1]+3)/4
					}
					checkConvolution(t, p, r, weights, i, convolved{channels, size[0], size[1], c.begin,
						size[0]*c.times + c.begin[0] + c.end[0] - 2, size[1]*c.times + c.begin[1] + c.end[1] - 2}, c.times)
				}
			})
		}
	}
}

// checkConvolution runs a convolution of an input that is repeated along rows and columns, and holds its results to the
// bound.
func checkConvolution(t *testing.T, p *weir.Program, r *rand.Rand, weights []float64, round int, of convolved,
	times int) {
	t.Helper()
	x := make([]float32, of.channels*of.height*of.width)
	for i := range x {
		x[i] = max(float32(r.NormFloat64()), 0)
	}
	if len(x) > 0 && round%3 == 1 {
		x[r.Intn(len(x))] = 1e6
	}
	input := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(x, 1, of.channels, of.height, of.width))
	defer input.Close()
	results := weirtest.Must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
	defer results.Close()
	y := weirtest.Copy[float32](t, results.Get("y"))
	seen := of
	seen.height, seen.width = of.height*times, of.width*times
	all := make([]float32, of.channels*seen.height*seen.width)
	for i := range all {
		plane, row, column := i/seen.width/seen.height, i/seen.width%seen.height, i%seen.width
		all[i] = x[(plane*of.height+row%of.height)*of.width+column%of.width]
	}
	if worst, err := convolutionError(y, all, weights, seen); err != nil || worst > 1e-5 {
		t.Errorf("%v: an error of %.3g of the sum of magnitudes times the greatest weight; %v", seen, worst, err)
	}
	if of.height*of.width == 0 {
		return
	}
	measured := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), weir.Inputs{"x": input}))
	predicted, err := p.Memory().Peak(1, weir.Dims{"h": int64(of.height), "w": int64(of.width)})
	if err != nil || measured.Peak(1) != predicted {
		t.Errorf("%v: %d bytes are predicted, %d measured: %v", of, predicted, measured.Peak(1), err)
	}
}
