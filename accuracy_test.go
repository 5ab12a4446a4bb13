package weir_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"testing"

	"github.com/weirml/weir"
)

// TestConvolutionBound compiles a convolution for which Winograd's algorithm is chosen and holds its results to the bound of
// docs/accuracy.md, on data that such algorithms are bad at: an infinity or NaN stays in the windows that hold it, and an
// outlier costs no digits elsewhere.
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
			m := must[*weir.Model](t)(weir.LoadBytes([]byte(source)))
			defer m.Close()
			p, err := weir.Compile(t.Context(), m, weir.Options{CPU: cpu})
			if errors.Is(err, weir.ErrUnsupported) {
				t.Skip(err)
			} else if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if held := must[int64](t)(p.Memory().Weights.At(nil)); held < 4*36*channels*channels {
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
				if outlier == 0 { // dark but for a corner
					for i := range x {
						if i%size > 7 {
							x[i] = 0
						}
					}
				}
				input := must[*weir.Tensor](t)(weir.FromSlice(x, 1, channels, size, size))
				results := must[*weir.Results](t)(p.Run(t.Context(), weir.Inputs{"x": input}))
				y := must[[]float32](t)(weir.Copy[float32](results.Get("y")))
				if worst, err := convolutionError(y, x, weights, channels, size); err != nil || worst > 1e-5 {
					t.Errorf("outlier %g: an error of %.3g of the sum of magnitudes times the greatest weight; %v", outlier, worst, err)
				}
				results.Close()
				input.Close()
			}
		})
	}
}

// convolutionError is the greatest error of y, relative to the sum of |x| in its window times the filter's greatest |w|. What a window with an infinity or NaN gives must be
// what plain arithmetic gives: err says where it is not.
func convolutionError(y, x []float32, w []float64, channels, size int) (worst float64, err error) {
	for at, got := range y {
		o, row, column := at/size/size, at/size%size, at%size
		sum, magnitude, greatest := 0.0, 0.0, 0.0
		for k := range channels * 9 {
			v := w[o*channels*9+k]
			greatest = max(greatest, math.Abs(v))
			if i, j := row+k%9/3-1, column+k%3-1; i >= 0 && i < size && j >= 0 && j < size {
				e := float64(x[(k/9*size+i)*size+j])
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
			if e := math.Abs(number-sum) - float64(channels)*9*0x1p-149; !(e/limit <= worst) {
				worst = e / limit
			}
		}
	}
	return worst, err
}
