package conformance

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/weirml/weir/internal/conformance/conformancetest"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// slicedByText returns the indices of a slice by the text of ONNX's Slice: starts lie in [0, extent] forwards and in
// [0, extent−1] backwards, ends in [0, extent] forwards and in [−1, extent−1] backwards.
func slicedByText(extent, start, end, step int64) (taken []float32) {
	if extent == 0 {
		return nil
	}
	if start < 0 {
		start += extent
	}
	if end < 0 {
		end += extent
	}
	if step > 0 {
		for i := min(max(start, 0), extent); i < min(max(end, 0), extent); i += step {
			taken = append(taken, float32(i))
		}
		return taken
	}
	for i := min(max(start, 0), extent-1); i > min(max(end, -1), extent-1); i += step {
		taken = append(taken, float32(i))
	}
	return taken
}

// sliceModel returns a Slice of a row, with numbers that are constants, inputs, or computed by the run.
func sliceModel(way string, extent, start, end, step int64) *conformancetest.RandomModel {
	g := &wire.GraphProto{Name: fmt.Sprint("slice ", way, " ", extent, start, end, step)}
	opset := []*wire.OperatorSetIDProto{{Version: 21}}
	m := &conformancetest.RandomModel{Model: &wire.ModelProto{IRVersion: 10, OpsetImport: opset, Graph: g}}
	input := func(name string, x *tensor.Tensor, dims ...*wire.Dimension) {
		g.Input = append(g.Input, wire.TensorValue(name, wire.DataTypeOf(x.DType()), dims...))
		m.Inputs = append(m.Inputs, x)
	}
	x := tensor.Must(tensor.New(dtype.F32, extent))
	for i := range extent {
		x.SetFloat(i, float64(i))
	}
	if way == "static" {
		input("x", x, wire.Size(extent))
	} else {
		input("x", x, wire.Dim("n"))
	}
	for i, v := range []int64{start, end, step} {
		name := [...]string{"start", "end", "step"}[i]
		switch {
		case way == "given" || way == "step given" && name == "step":
			input(name, tensor.Of(v), wire.Size(1))
		case way == "computed" && name != "step":
			v = min(max(v, -1<<40), 1<<40) // f64 has every digit of such an i64
			input(name+" as float", tensor.Of(float64(v)), wire.Size(1))
			g.Node = append(g.Node, &wire.NodeProto{OpType: "Cast", Input: []string{name + " as float"}, Output: []string{name},
				Attribute: []*wire.AttributeProto{wire.IntAttribute("to", int64(wire.DataTypeOf(dtype.I64)))}})
		default:
			g.Initializer = append(g.Initializer, wire.FromTensor(name, tensor.Of(v)))
		}
	}
	g.Initializer = append(g.Initializer, wire.FromTensor("axis", tensor.Of(int64(0))))
	inputs := []string{"x", "start", "end", "axis", "step"}
	g.Node = append(g.Node, &wire.NodeProto{OpType: "Slice", Input: inputs, Output: []string{"y"}})
	g.Output = append(g.Output, &wire.ValueInfoProto{Name: "y"})
	return m
}

// TestSlicesByText compares slices at and beyond the ends of an axis with ONNX's text, interpreted and compiled:
// with constants over fixed and named extents, and with starts, ends and steps that only the run knows.
func TestSlicesByText(t *testing.T) {
	ways := []string{"static", "named", "given", "step given", "computed"}
	positions := []int64{math.MinInt64, math.MinInt32, -9, -6, -5, -4, -2, -1, 0, 1, 3, 4, 5, 9,
		math.MaxInt32, math.MaxInt64}
	tried := 0
	for _, extent := range []int64{0, 1, 5} {
		for _, start := range positions {
			for _, end := range positions {
				for _, step := range []int64{-1, -2, -7, 1, 3} {
					name := fmt.Sprint(extent, start, end, step)
					if choice(name+"tried", weirtest.Trials(12, 48)) != 0 && !(extent == 5 && start == -9 && step == -2) {
						continue
					}
					way := ways[choice(name+"way", len(ways))]
					if extent == 5 && start == -9 {
						way = ways[tried%len(ways)]
					}
					tried++
					x := trialOf(sliceModel(way, extent, start, end, step))
					module, err := x.build()
					if err != nil {
						t.Fatalf("%s %s: %v", way, name, err)
					}
					want := slicedByText(extent, start, end, step)
					interpreted, _, err := x.reference(module, 0)
					if err != nil {
						t.Fatalf("%s %s: %v", way, name, err)
					}
					how := configurations[choice(name+"how", len(configurations))]
					how.budget = false
					compiled, err := x.compiled(t.Context(), how)
					if err != nil {
						t.Fatalf("%s %s: %v", way, name, err)
					}
					for _, out := range []*tensor.Tensor{interpreted[0], compiled[0]} {
						var got []float32
						for i := range out.Len() {
							got = append(got, float32(out.Float(i)))
						}
						if !slices.Equal(got, want) {
							t.Errorf("%s [%d:%d:%d] of %d is %v, not %v", way, start, end, step, extent, got, want)
						}
					}
				}
			}
		}
	}
	if tried < weirtest.Trials(300, 60) {
		t.Errorf("only %d slices were tried", tried)
	}
}
