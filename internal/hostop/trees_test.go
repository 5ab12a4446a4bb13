package hostop

import (
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// stump is x[0] <= 1 ? leaf 0 : (x[1] == 2 or missing ? leaf 1 : leaf 2), over three targets, and the operands of it as they may be changed.
func stump() []*tensor.Tensor {
	return []*tensor.Tensor{
		tensor.Must(tensor.FromSlice([]float32{1, 0, 2, 2, 2, 3, float32(math.NaN()), float32(math.NaN())}, 4, 2)),
		tensor.Of(int32(0)), tensor.Of[int32](0, 1), tensor.Of[uint8](TreeLE, TreeEQ|TreeMissing), tensor.Of[float32](1, 2),
		tensor.Must(tensor.FromSlice([]int32{^0, 1, ^1, ^2}, 2, 2)),
		tensor.Of[int32](0, 1, 3, 3), tensor.Of[int32](0, 1, 2), tensor.Of[float32](10, 20, 30),
	}
}

func TestTrees(t *testing.T) {
	attrs := map[string]any{"targets": int64(3), "aggregate": "sum"}
	out, err := Apply("trees", attrs, stump(), []dtype.DType{dtype.F32})
	if err != nil {
		t.Fatal(err)
	}
	want := tensor.Must(tensor.FromSlice([]float32{10, 0, 0, 0, 20, 30, 0, 0, 0, 0, 20, 30}, 4, 3))
	if !out[0].Equal(want) {
		t.Errorf("%v, want %v", out[0], want)
	}
}

// TestTreesRefuse: tables that lead astray end in an error, whatever they say.
func TestTreesRefuse(t *testing.T) {
	for name, c := range map[string]struct {
		input int
		to    *tensor.Tensor
		want  string
	}{
		"root":     {1, tensor.Of(int32(2)), "looks for node 2 of 2"},
		"leaf":     {1, tensor.Of(int32(-9)), "ends at leaf 8 of 3"},
		"feature":  {2, tensor.Of[int32](0, 2), "feature beyond the 2"},
		"negative": {2, tensor.Of[int32](-1, 0), "feature beyond the 2"},
		"cycle":    {5, tensor.Must(tensor.FromSlice([]int32{1, 1, 0, 0}, 2, 2)), "leads back to 0"},
		"itself":   {5, tensor.Must(tensor.FromSlice([]int32{0, 0, 0, 0}, 2, 2)), "leads back to 0"},
		"child":    {5, tensor.Must(tensor.FromSlice([]int32{9, 9, 0, 0}, 2, 2)), "looks for node 9"},
		"range":    {6, tensor.Of[int32](0, 9, 9, 9), "ends at leaf 0"},
		"before":   {6, tensor.Of[int32](-4, 1, 3, 3), "ends at leaf 0"},
		"target":   {7, tensor.Of[int32](3, 1, 2), "target 3 of 3"},
		"lengths":  {4, tensor.Of[float32](1), "disagree"},
		"weights":  {8, tensor.Of[float32](1), "disagree"},
		"base":     {9, tensor.Of[float32](1), "values to begin with"},
	} {
		in := append(stump(), nil)
		in[c.input] = c.to
		_, err := Apply("trees", map[string]any{"targets": int64(3), "aggregate": "sum"}, in, []dtype.DType{dtype.F32})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
