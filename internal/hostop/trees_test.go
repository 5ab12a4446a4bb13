package hostop

import (
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// stump returns operands of a tree over three targets: x[0] <= 1 ? leaf 0 : (x[1] <= 2 or missing ? leaf 1 : leaf 2).
func stump() []*tensor.Tensor {
	inf := int32(math.Float32bits(float32(math.Inf(1))))
	bits := func(x float32) int32 { return int32(math.Float32bits(x)) }
	return []*tensor.Tensor{
		tensor.Must(tensor.FromSlice([]float32{1, 0, 2, 2, 2, 3, float32(math.NaN()), float32(math.NaN())}, 4, 2)),
		tensor.Of(int32(0)),
		tensor.Must(tensor.FromSlice([]int32{bits(1), 0, 1, 1, inf, 0, 1, 0, bits(2), 1, 3, 0, inf, 0, 3, 2, inf, 0, 4, 4}, 5,
			4)),
		tensor.Of[int32](0, 1, 3, 3), tensor.Of[int32](0, 1, 2), tensor.Of[float32](10, 20, 30),
	}
}

// TestTrees compares the sums of a small tree with the expected ones.
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

// TestTreesRefuse checks that tables with indices out of range, cycles or wrong lengths end in an error.
func TestTreesRefuse(t *testing.T) {
	nodes := func(change map[int]int32) *tensor.Tensor {
		x := stump()[2]
		for at, v := range change {
			x.SetInt(int64(at), int64(v))
		}
		return x
	}
	for name, c := range map[string]struct {
		input int
		to    *tensor.Tensor
		want  string
	}{
		"root":     {1, tensor.Of(int32(5)), "refers to node 5 of 5"},
		"below":    {1, tensor.Of(int32(-9)), "refers to node -9 of 5"},
		"feature":  {2, nodes(map[int]int32{1: 9}), "feature 9 of 2"},
		"negative": {2, nodes(map[int]int32{1: -1}), "feature -1 of 2"},
		"cycle":    {2, nodes(map[int]int32{2: 3, 14: 0}), "has a cycle"},
		"child":    {2, nodes(map[int]int32{2: 9}), "refers to node"},
		"far":      {2, nodes(map[int]int32{2: math.MaxInt32}), "refers to node"},
		"number":   {2, nodes(map[int]int32{7: -2}), "ends at leaf -1"},
		"leaf":     {2, nodes(map[int]int32{7: 16}), "ends at leaf 8 of 3"},
		"words":    {2, tensor.Must(tensor.FromSlice([]int32{1, 2, 3}, 1, 3)), "disagree"},
		"range":    {3, tensor.Of[int32](0, 9, 9, 9), "ends at leaf 0"},
		"before":   {3, tensor.Of[int32](-4, 1, 3, 3), "ends at leaf 0"},
		"target":   {4, tensor.Of[int32](3, 1, 2), "target 3 of 3"},
		"weights":  {5, tensor.Of[float32](1), "disagree"},
		"base":     {6, tensor.Of[float32](1), "base values"},
	} {
		for _, rows := range []int64{4, 40} { // rows one by one, and in lanes
			in := append(stump(), nil)
			in[0] = tensor.Must(tensor.New(dtype.F32, rows, 2))
			in[c.input] = c.to
			_, err := Apply("trees", map[string]any{"targets": int64(3), "aggregate": "sum"}, in, []dtype.DType{dtype.F32})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %d rows: %v, want %q", name, rows, err, c.want)
			}
		}
	}
}
