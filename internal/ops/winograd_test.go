package ops

import (
	"fmt"
	"math"
	"math/rand"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/schedule/recipes"
	"github.com/weirml/weir/internal/target"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/winograd"
)

// inTiles returns the convolution of x, [1, H, W, C] or [1, D, H, W, C], with w, [3, 3, C, O] or [K, 3, 3, C, O],
// padded by 1, as the recipe computes it.
func inTiles(t *testing.T, x, w *tensor.Tensor, tile int64) *tensor.Tensor {
	t.Helper()
	shape := w.Shape()
	rank := len(shape)
	channels, filters, planes := shape[rank-2], shape[rank-1], int64(1)
	padding, size := []int64{1, 1}, slices.Clone(x.Shape())
	if size[rank-1] = filters; rank == 5 {
		planes, padding = shape[0], []int64{1, 1, 1}
		size[1] += 3 - planes
	}
	weights, _ := tensor.Data[float32](w)
	elements := (tile + 2) * (tile + 2)
	transformed := make([]float32, planes*elements*channels*filters)
	for k, each := int64(0), channels*filters; k < planes; k++ {
		winograd.Weights(transformed[k*elements*each:], weights[k*9*each:], channels, filters, tile)
	}
	u := tensor.Must(tensor.FromSlice(transformed, planes*elements, channels, filters))
	pad := ir.Constants(padding)
	s := newSampled(Sample{Inputs: []*tensor.Tensor{x, u, w}}, false)
	op, _ := ir.Lookup("winograd")
	n, err := s.node(op.(*Def), Sample{Attrs: ir.Attrs{"tile": tile, "begin": pad, "end": pad}})
	if err != nil {
		t.Fatal(err)
	}
	k := &Nest{Builder: loop.NewBuilder("w"), D: s.module.Dims}
	for _, v := range n.Inputs {
		k.In = append(k.In, k.Param("x", loop.Read, v.Type.DType, v.Type.Shape))
	}
	k.Out = append(k.Out, k.Param("y", loop.Write, dtype.F32, n.Outputs[0].Type.Shape))
	Of(n).Lowerings[0].Lower(k, n)
	kernel := recipes.For(k.Finish(), s.module.Dims, target.Portable(1))
	if kernel == nil {
		t.Fatal("no recipe applies")
	}
	got := tensor.Must(tensor.New(dtype.F32, size...))
	var data []loop.Data
	for _, v := range []*tensor.Tensor{x, u, w, got} {
		data = append(data, loop.Data{DType: dtype.F32, Bytes: v.Bytes()})
	}
	if err := loop.Interpret(kernel, data, nil); err != nil {
		t.Fatal(err)
	}
	return got
}

// winogradOutliers are factors for a few elements of a picture, or replacements for them.
var winogradOutliers = []float64{1, 1e4, 1e6, 1e30, 3e38, 1e-30, 1e-44, 0, math.Inf(1), math.Inf(-1), math.NaN()}

// TestWinogradBound compares results with winograd.Bound · Σ|x| · max|w| over their own windows, and with direct sums
// if these are infinities or NaN: for normal data, outliers, wide ranges, zeros, subnormal numbers and sums that
// cancel, in full tiles and ragged ones.
func TestWinogradBound(t *testing.T) {
	for _, shape := range [][]int64{nil, {2, 3}, {3, 2}} { // planes of the input and of the kernel
		testWinogradBound(t, shape, inTiles)
	}
}

func testWinogradBound(t *testing.T, planes []int64, compute func(t *testing.T, x, w *tensor.Tensor,
	tile int64) *tensor.Tensor) {
	channels, filters, room := int64(16), int64(4), 5
	if planes != nil {
		channels, room = 6, 2
	}
	r := rand.New(rand.NewSource(3))
	worst := map[int64]float64{}
	for round := range 6 * len(winogradOutliers) {
		outlier, form := winogradOutliers[round%len(winogradOutliers)], round/len(winogradOutliers)
		height, width := int64(8+r.Intn(room)), int64(8+r.Intn(room))
		shape, kernel := []int64{1, height, width, channels}, []int64{3, 3, channels, filters}
		if planes != nil {
			shape, kernel = slices.Insert(shape, 1, planes[0]), slices.Insert(kernel, 0, planes[1])
		}
		x, w := sampleNormal(r, dtype.F32, shape...), sampleNormal(r, dtype.F32, kernel...)
		for i := range x.Len() {
			v := x.Float(i)
			switch form {
			case 1: // after a ReLU
				v = max(v, 0)
			case 2: // a wide range
				v *= math.Exp(r.NormFloat64() * 12)
			case 3: // dark to one side
				if i/channels%width < width/2 {
					v = 0
				}
			case 4: // small and even
				v = 1e-35 * (1 + v/100)
			case 5: // neighbours cancel
				v = float64(1-2*(i/channels%2)) * 1e3 * (1 + v*1e-6)
			}
			x.SetFloat(i, v)
		}
		for range 2 {
			i := r.Int63n(x.Len())
			if v := x.Float(i) * outlier; outlier != 1 && !math.IsInf(outlier, 0) && outlier == outlier {
				x.SetFloat(i, max(min(v, math.MaxFloat32), -math.MaxFloat32))
			} else if outlier != 1 {
				x.SetFloat(i, outlier)
			}
		}
		for tile, bound := range winograd.Bound {
			got := compute(t, x, w, tile)
			e, err := windowErrors(got, x, w)
			if err != nil {
				t.Fatalf("planes %v, tiles of %d, outlier %g, form %d: %v", planes, tile, outlier, form, err)
			}
			if worst[tile] = max(worst[tile], e); e > bound {
				t.Errorf("planes %v, tiles of %d, outlier %g, form %d: an error of %.3g of the sum of magnitudes times the "+
					"greatest weight, more than %g",
					planes, tile, outlier, form, e, bound)
			}
		}
	}
	t.Logf("planes %v: worst, by tile: %v", planes, worst)
	for tile := range winograd.Bound {
		t.Logf("tiles of %d: proved for %d channels: %.3g", tile, channels, winograd.Proved(tile, channels))
	}
}

// windowErrors returns the greatest error of a convolution padded by 1, relative to Σ|x| · max|w| over its window; err
// is not nil if an infinity or NaN differs from the direct sum's.
func windowErrors(got, x, w *tensor.Tensor) (worst float64, err error) {
	size, last := x.Shape(), len(x.Shape())-1
	kernel, filters := w.Shape()[:last], w.Shape()[last]
	terms := float64(w.Len() / filters)
	flat := int64(-1)
	tensor.Each(got.Shape(), func(o []int64) {
		flat++
		sum, magnitude, greatest := 0.0, 0.0, 0.0
		tap := int64(-1)
		tensor.Each(kernel, func(at []int64) {
			tap++
			v := w.Float(tap*filters + o[last])
			greatest = max(greatest, math.Abs(v))
			from := o[0]
			for i, k := range at[:last-1] {
				y := o[1+i] + k - 1
				if y < 0 || y >= size[1+i] {
					return
				}
				from = from*size[1+i] + y
			}
			e := x.Float(from*size[last] + at[last-1])
			sum, magnitude = sum+e*v, magnitude+math.Abs(e)
		})
		y := got.Float(flat)
		switch limit := magnitude * greatest; {
		case limit > math.MaxFloat32/2: // an infinity, or a sum that may overflow on its way
			if s := math.Abs(sum); (math.IsInf(limit, 0) || limit != limit) &&
				(math.IsNaN(y) != math.IsNaN(sum) || s == s && y != sum) {
				err = fmt.Errorf("result %v is %g, not %g", o, y, sum)
			}
		case limit == 0 && y != 0:
			err = fmt.Errorf("result %v is %g, not 0", o, y)
		case limit > 0:
			// Each subnormal product rounds by up to 2⁻¹⁵⁰.
			if e := math.Abs(y-sum) - terms*0x1p-150; !(e/limit <= worst) {
				worst = e / limit
			}
		case limit != limit && y == y:
			err = fmt.Errorf("result %v is %g, not NaN", o, y)
		}
	})
	return worst, err
}
