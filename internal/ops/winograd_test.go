package ops

import (
	"fmt"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
)

// inTiles is the convolution of x, [1, H, W, C], with w, [3, 3, C, O], in tiles and padded by 1, as the lowering
// computes it.
func inTiles(t *testing.T, x, w *tensor.Tensor, tile int64) *tensor.Tensor {
	t.Helper()
	channels, filters := w.Shape()[2], w.Shape()[3]
	weights, _ := tensor.Data[float32](w)
	transformed := make([]float32, (tile+2)*(tile+2)*channels*filters)
	WinogradWeights(transformed, weights, channels, filters, tile)
	u := tensor.Must(tensor.FromSlice(transformed, (tile+2)*(tile+2), channels, filters))
	pad := ir.Constants([]int64{1, 1})
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
	winogradBlocks(k, n)
	got := tensor.Must(tensor.New(dtype.F32, 1, x.Shape()[1], x.Shape()[2], filters))
	var data []loop.Data
	for _, v := range []*tensor.Tensor{x, u, w, got} {
		data = append(data, loop.Data{DType: dtype.F32, Bytes: v.Bytes()})
	}
	if err := loop.Interpret(k.Finish(), data, nil); err != nil {
		t.Fatal(err)
	}
	return got
}

// winogradOutliers are what the elements of a picture are multiplied by, or replaced with, at places that hit few
// windows.
var winogradOutliers = []float64{1, 1e4, 1e6, 1e30, 3e38, 1e-30, 1e-44, 0, math.Inf(1), math.Inf(-1), math.NaN()}

// TestWinogradBound holds results in tiles to WinogradBound · Σ|x| · max|w| over their own windows, and to plain
// arithmetic where that gives infinities and NaN: with normal data, with outliers, wide ranges, zeros, subnormal
// numbers and sums that cancel, in whole tiles and ragged ones.
func TestWinogradBound(t *testing.T) {
	const channels, filters = 16, 4
	r := rand.New(rand.NewSource(3))
	worst := map[int64]float64{}
	for round := range 6 * len(winogradOutliers) {
		outlier, form := winogradOutliers[round%len(winogradOutliers)], round/len(winogradOutliers)
		height, width := int64(8+r.Intn(5)), int64(8+r.Intn(5))
		x, w := sampleNormal(r, dtype.F32, 1, height, width, channels), sampleNormal(r, dtype.F32, 3, 3, channels, filters)
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
		for tile, bound := range WinogradBound {
			got := inTiles(t, x, w, tile)
			e, err := windowErrors(got, x, w)
			if err != nil {
				t.Fatalf("tiles of %d, outlier %g, form %d: %v", tile, outlier, form, err)
			}
			if worst[tile] = max(worst[tile], e); e > bound {
				t.Errorf("tiles of %d, outlier %g, form %d: an error of %.3g of the sum of magnitudes times the greatest weight, more than %g", tile, outlier, form, e, bound)
			}
		}
	}
	t.Logf("worst, by tile: %v", worst)
	for tile := range WinogradBound {
		t.Logf("tiles of %d: proved for %d channels: %.3g", tile, channels, WinogradProved(tile, channels))
	}
}

// windowErrors is the greatest error of a convolution padded by 1, relative to Σ|x| · max|w| over its window; err says
// where an infinity or NaN is not the plain sum's.
func windowErrors(got, x, w *tensor.Tensor) (worst float64, err error) {
	size, channels, filters := x.Shape(), w.Shape()[2], w.Shape()[3]
	flat := int64(-1)
	tensor.Each(got.Shape(), func(o []int64) {
		flat++
		sum, magnitude, greatest := 0.0, 0.0, 0.0
		tensor.Each([]int64{3, 3, channels}, func(at []int64) {
			v := w.Float(((at[0]*3+at[1])*channels+at[2])*filters + o[3])
			greatest = max(greatest, math.Abs(v))
			if y, z := o[1]+at[0]-1, o[2]+at[1]-1; y >= 0 && y < size[1] && z >= 0 && z < size[2] {
				e := x.Float((y*size[2]+z)*channels + at[2])
				sum, magnitude = sum+e*v, magnitude+math.Abs(e)
			}
		})
		y := got.Float(flat)
		switch limit := magnitude * greatest; {
		case limit > math.MaxFloat32/2: // of an infinity, or where a sum may overflow on its way
			if s := math.Abs(sum); (math.IsInf(limit, 0) || limit != limit) && (math.IsNaN(y) != math.IsNaN(sum) || s == s && y != sum) {
				err = fmt.Errorf("result %v is %g, not %g", o, y, sum)
			}
		case limit == 0 && y != 0:
			err = fmt.Errorf("result %v is %g, not 0", o, y)
		case limit > 0:
			// Sums of products that are subnormal round by 2⁻¹⁵⁰ each.
			if e := math.Abs(y-sum) - 9*float64(channels)*0x1p-150; !(e/limit <= worst) {
				worst = e / limit
			}
		case limit != limit && y == y:
			err = fmt.Errorf("result %v is %g, not NaN", o, y)
		}
	})
	return worst, err
}
