package ops

import (
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestWork compares the work of an operator with its results on ones: each result is then its number of products.
// Products with padding and holes do not count. With named extents, the work of windows with strides is an estimate.
func TestWork(t *testing.T) {
	for _, op := range []string{"convolution", "winograd"} {
		found, _ := ir.Lookup(op)
		def := found.(*Def)
		checked := 0
		for i, s := range def.Samples(rand.New(rand.NewSource(3))) {
			weights := 1
			if op == "winograd" {
				weights = 2
			}
			in := append([]*tensor.Tensor{}, s.Inputs...)
			for j := range in {
				if in[j] == nil {
					continue
				}
				ones := tensor.Must(tensor.New(in[j].DType(), in[j].Shape()...))
				for e := range ones.Len() {
					hole := s.Attrs.Bool("holes") && j == 1 && in[j].Float(e) == 0 && !math.Signbit(in[j].Float(e))
					switch {
					case hole || j > weights:
					case ones.DType().IsInt():
						ones.SetInt(e, 1)
					default:
						ones.SetFloat(e, 1)
					}
				}
				in[j] = ones
			}
			s.Inputs = in
			for _, symbolic := range []bool{false, true} {
				x := newSampled(s, symbolic)
				n, err := x.node(def, s)
				if err != nil {
					continue
				}
				x.module.Main.Body.Results = n.Outputs
				e := ir.NewEvaluation(x.dims)
				out, err := e.Run(x.module.Main.Body, x.args)
				if err != nil {
					t.Fatal(err)
				}
				want := int64(0)
				for i := range out[0].Len() {
					if out[0].DType().IsInt() {
						want += 2 * out[0].Int(i)
					} else {
						want += 2 * int64(out[0].Float(i))
					}
				}
				got, err := def.Work(n).Eval(func(name sym.Name) (int64, bool) { v, ok := e.Dims[name]; return v, ok })
				if err != nil {
					t.Fatal(err)
				}
				if symbolic && estimated(n, e) {
					continue
				}
				if checked++; got != want && out[0].DType() != dtype.U8 && out[0].DType() != dtype.I8 {
					t.Errorf("%s, sample %d, %v: work of %d, but %d operations", op, i, s.Attrs, got, want)
				}
			}
		}
		if checked < 12 {
			t.Errorf("%s: %d samples", op, checked)
		}
	}
}

// estimated reports whether the work of a node with named extents is an estimate: with strides, with inputs shorter
// than the window, and with holes in weights that are not constant.
func estimated(n *ir.Node, e *ir.Evaluation) bool {
	size, err := e.Ints(planar(n, n.Inputs[0].Type.Shape))
	if err != nil || HasHoles(n) {
		return true
	}
	w := Window{Kernel: []int64{3, 3}, Strides: []int64{1, 1}, Dilations: []int64{1, 1}}
	if n.Op.Name() == "convolution" {
		if w, err = windowOf(n, len(size)-2); err != nil {
			return true
		}
	} else {
		size = []int64{0, 0, size[1], size[2]}
		if xs, err := e.Ints(n.Inputs[0].Type.Shape); err == nil {
			size = []int64{0, 0, xs[1], xs[2]}
		}
	}
	for i := range w.Kernel {
		if w.Strides[i] > 1 || size[2+i] < w.Extent(i) {
			return true
		}
	}
	return false
}
