package ops

import (
	"slices"
	"testing"

	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// TestMaxPoolNotNegative compares maxPoolNotNegative with results, for windows in all positions relative to inputs of
// ones, of known and of named extents: some windows lie in padding only, and give −∞.
func TestMaxPoolNotNegative(t *testing.T) {
	claims, refusals, negative := 0, 0, 0
	ones := func(*ir.Value) bool { return true }
	each := func(bounds []int64, visit func(v []int64)) {
		tensor.Each(bounds, func(v []int64) { visit(slices.Clone(v)) })
	}
	each([]int64{3, 3, 2, 4, 4, 2}, func(v []int64) {
		kernel, dilation, stride, before, after, ceil := v[0]+1, v[1]+1, v[2]+1, v[3], v[4], v[5] == 1
		w := Window{Kernel: []int64{kernel}, Strides: []int64{stride}, Dilations: []int64{dilation},
			Begin: ir.Constants([]int64{before}), End: ir.Constants([]int64{after})}
		attrs := w.Attrs()
		attrs["ceil"] = ceil
		for size := range int64(5) {
			x := tensor.Must(tensor.New(tensor.Of[float32]().DType(), 1, 1, size))
			for i := range x.Len() {
				x.SetFloat(i, 1)
			}
			_, n, got, err := applied("max_pool", Sample{Attrs: attrs, Inputs: []*tensor.Tensor{x}, Constant: []int{0}})
			if err != nil {
				continue // the window fits nowhere
			}
			least := float64(1)
			for i := range got.Len() {
				least = min(least, got.Float(i))
			}
			claimed := maxPoolNotNegative(n, ones)
			named := *n
			value := *n.Inputs[0]
			value.Type.Shape = []sym.Expr{one, one, sym.Var(sym.User("n"))}
			named.Inputs = []*ir.Value{&value}
			claimedOfAll := maxPoolNotNegative(&named, ones) && got.Len() > 0
			if least < 0 && (claimed || claimedOfAll) {
				t.Errorf("%v of an extent of %d, ceil %v: an element is %v; claimed %v, of named extents %v", w, size, ceil,
					least, claimed, claimedOfAll)
			}
			switch {
			case least < 0:
				negative++
			case claimed:
				claims++
			default:
				refusals++
			}
		}
	})
	t.Logf("%d claims, %d more could be, %d results are negative", claims, refusals, negative)
	if claims < 500 || negative < 100 || refusals > claims {
		t.Errorf("%d claims, %d more could be, %d results are negative", claims, refusals, negative)
	}
}
