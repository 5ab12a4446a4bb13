package train_test

import (
	"math"
	"testing"

	"github.com/weirml/weir/array"
	"github.com/weirml/weir/train"
)

// TestSettled: an optimiser's moments become 0 without further gradients, and are not subnormal on the way; infinities
// and NaN stay.
func TestSettled(t *testing.T) {
	least := float32(0x1p-126)
	for _, o := range []train.Optimiser{
		train.Adam(1e-3), train.AdamW(1e-3), train.RMSProp(1e-3, train.Centred(), train.Momentum(0.9)),
		train.SGD(1e-3, train.Momentum(0.9)), train.SGD(1e-3, train.Momentum(0.9), train.Nesterov()),
	} {
		s := array.NewScope("settled")
		shape := []int{8}
		u := train.Update{P: array.From(s, []float32{1, 2, 3, 4, 5, 6, 7, 8}, 8), G: array.From(s, make([]float32, 8), 8)}
		slots := o.Slots(shape)
		for range slots {
			u.Slots = append(u.Slots, array.From(s, []float32{0, least, 4 * least, 1e-20, 1, float32(math.Inf(1)),
				float32(math.NaN()), 1e-42}, 8))
		}
		scalars := make([]float32, o.Scalars())
		for step := range int64(5) {
			o.Fill(scalars, step+1, o.Rate())
			u.Scalars = nil
			for _, x := range scalars {
				u.Scalars = append(u.Scalars, array.From(s, []float32{x}))
			}
			u.P, u.Slots = o.Update(s, u)
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			for i, slot := range u.Slots {
				list, err := array.View[float32](slot)
				if err != nil {
					t.Fatal(err)
				}
				for k, x := range list {
					if a := math.Abs(float64(x)); a > 0 && a < 0x1p-126 {
						t.Errorf("%v: element %d of slot %d is %g after step %d", o, k, i, x, step+1)
					}
				}
				if list[0] != 0 || list[1] != 0 || list[7] != 0 || list[3] == 0 || list[4] == 0 {
					t.Errorf("%v: slot %d is %v after step %d", o, i, list, step+1)
				}
				if !math.IsInf(float64(list[5]), 1) && list[5] == list[5] || list[6] == list[6] {
					t.Errorf("%v: slot %d is %v after step %d: neither an infinity nor NaN stays", o, i, list, step+1)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
