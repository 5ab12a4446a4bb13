package ops

import (
	"math"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// TestPaddingIsNotMultiplied computes convolutions by every lowering; all elements of their kernel but one read only
// padding, and are infinite: their product with padding would be NaN.
func TestPaddingIsNotMultiplied(t *testing.T) {
	const channels = 16
	for _, size := range [][]int64{{5, 6}, {1, 5, 6}} {
		axes := len(size)
		w := Window{}
		for axis := range axes {
			far := int64(1) // the first of three axes is one plane
			if axes-axis <= 2 {
				far = 100
			}
			w.Kernel, w.Strides, w.Dilations = append(w.Kernel, 3), append(w.Strides, 1), append(w.Dilations, far)
			w.Begin, w.End = append(w.Begin, ir.Constants([]int64{far})...), append(w.End, ir.Constants([]int64{far})...)
		}
		attrs := w.Attrs()
		attrs["groups"], attrs["last"] = int64(1), true
		x := tensor.Must(tensor.New(dtype.F32, append(append([]int64{1}, size...), channels)...))
		weights := tensor.Must(tensor.New(dtype.F32, append(append([]int64{}, w.Kernel...), channels, 2)...))
		for i := range x.Len() {
			x.SetFloat(i, 1)
		}
		each := int64(channels * 2)
		for i := range weights.Len() {
			weights.SetFloat(i, 1)
			if i/each != weights.Len()/each/2 {
				weights.SetFloat(i, math.Inf(1))
			}
		}
		s := Sample{Attrs: attrs, Inputs: []*tensor.Tensor{x, weights}, Constant: []int{1}}
		for _, symbolic := range []bool{false, true} {
			if err := checkSample(defOf(t, "convolution"), s, symbolic); err != nil {
				t.Errorf("%v, symbolic %v: %v", size, symbolic, err)
			}
		}
	}
}

// defOf returns the definition of an operator, and fails the test if there is none.
func defOf(t *testing.T, name string) *Def {
	for _, op := range ir.Ops() {
		if def, ok := op.(*Def); ok && def.Op == name {
			return def
		}
	}
	t.Fatalf("no operator %s", name)
	return nil
}
