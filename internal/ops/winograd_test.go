package ops

import (
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/loop"
	"github.com/weirml/weir/internal/tensor"
)

// TestWinogradError measures how far the results in tiles, computed in f32, are from sums of products in f64, relative to the sum of the products' magnitudes: the stated bounds.
func TestWinogradError(t *testing.T) {
	const channels, filters, size = 64, 4, 12
	r := rand.New(rand.NewSource(3))
	for tile, bound := range map[int64]float64{2: 1e-6, 4: 1e-5} {
		x, w := sampleNormal(r, dtype.F32, 1, size, size, channels), sampleNormal(r, dtype.F32, 3, 3, channels, filters)
		weights, _ := tensor.Data[float32](w)
		transformed := make([]float32, (tile+2)*(tile+2)*channels*filters)
		WinogradWeights(transformed, weights, channels, filters, tile)
		u, err := tensor.FromSlice(transformed, (tile+2)*(tile+2), channels, filters)
		if err != nil {
			t.Fatal(err)
		}
		pad := ir.Constants([]int64{1, 1})
		s := newSampled(Sample{Inputs: []*tensor.Tensor{x, u}}, false)
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
		got := tensor.Must(tensor.New(dtype.F32, 1, size, size, filters))
		data := []loop.Data{{DType: dtype.F32, Bytes: x.Bytes()}, {DType: dtype.F32, Bytes: u.Bytes()}, {DType: dtype.F32, Bytes: got.Bytes()}}
		if err := loop.Interpret(k.Finish(), data, nil); err != nil {
			t.Fatal(err)
		}
		worst, flat := 0.0, int64(0)
		tensor.Each(got.Shape(), func(o []int64) {
			sum, magnitude := 0.0, 0.0
			tensor.Each([]int64{3, 3, channels}, func(at []int64) {
				y, z := o[1]+at[0]-1, o[2]+at[1]-1
				if y >= 0 && y < size && z >= 0 && z < size {
					p := x.Float((y*size+z)*channels+at[2]) * w.Float(((at[0]*3+at[1])*channels+at[2])*filters+o[3])
					sum, magnitude = sum+p, magnitude+math.Abs(p)
				}
			})
			worst = max(worst, math.Abs(got.Float(flat)-sum)/magnitude)
			flat++
		})
		t.Logf("tiles of %d: %.2g", tile, worst)
		if worst > bound {
			t.Errorf("tiles of %d: an error of %g, more than %g", tile, worst, bound)
		}
	}
}
