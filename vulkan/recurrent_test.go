package vulkan_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// layer is a recurrent layer of a model: y and the last state are the results.
type layer struct {
	cell      string
	gates     int64
	units     int64
	direction string
	reset     int64 // linear_before_reset of a GRU
	lengths   bool  // of sequences are an input
}

// model returns the layer's file with random weights, over x of steps × sequences × 7; the first two extents have names
// if named.
func (l layer) model(r *rand.Rand, steps, sequences int64, named bool) []byte {
	float, directions := wire.DataTypeOf(dtype.F32), int64(1)
	if l.direction == "bidirectional" {
		directions = 2
	}
	extents := []*wire.Dimension{wire.Size(steps), wire.Size(sequences), wire.Size(7)}
	if named {
		extents[0], extents[1] = wire.Dim("steps"), wire.Dim("sequences")
	}
	weight := func(name string, shape ...int64) *wire.TensorProto {
		w := normal(r, shape...)
		for i := range w.Len() {
			w.SetFloat(i, w.Float(i)/16)
		}
		return wire.FromTensor(name, w)
	}
	attributes := []*wire.AttributeProto{wire.IntAttribute("hidden_size", l.units),
		wire.StringAttribute("direction", l.direction)}
	if l.cell == "GRU" {
		attributes = append(attributes, wire.IntAttribute("linear_before_reset", l.reset))
	}
	g := &wire.GraphProto{Name: "layer", Input: []*wire.ValueInfoProto{wire.TensorValue("x", float, extents...)},
		Initializer: []*wire.TensorProto{weight("w", directions, l.gates*l.units, 7),
			weight("r", directions, l.gates*l.units, l.units), weight("b", directions, 2*l.gates*l.units)},
		Node: []*wire.NodeProto{{OpType: l.cell, Input: []string{"x", "w", "r", "b"}, Output: []string{"y", "last"},
			Attribute: attributes}},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", float), wire.TensorValue("last", float)},
	}
	if l.lengths {
		g.Input = append(g.Input, wire.TensorValue("lengths", wire.DataTypeOf(dtype.I32), extents[1]))
		g.Node[0].Input = append(g.Node[0].Input, "lengths")
	}
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}
	return m.Marshal()
}

// TestRecurrent: recurrent layers run step by step over blocks, with the results of the processor and the predicted
// memory, for one sequence and several, no step, one and several; and small ones run in one block for each sequence.
func TestRecurrent(t *testing.T) {
	available(t)
	r := rand.New(rand.NewPCG(8, 9))
	for i, c := range []struct {
		layer
		steps, sequences int64
		named, whole     bool
	}{
		{layer{cell: "LSTM", gates: 4, units: 91, direction: "forward"}, 5, 1, false, false},
		{layer{cell: "LSTM", gates: 4, units: 97, direction: "bidirectional"}, 3, 2, true, false},
		{layer{cell: "GRU", gates: 3, units: 131, direction: "reverse"}, 4, 5, false, false},
		{layer{cell: "GRU", gates: 3, units: 111, direction: "bidirectional", reset: 1}, 2, 3, true, false},
		{layer{cell: "RNN", gates: 1, units: 151, direction: "forward"}, 70, 1, false, false},
		{layer{cell: "RNN", gates: 1, units: 161, direction: "reverse"}, 6, 17, true, false},
		{layer{cell: "LSTM", gates: 4, units: 17, direction: "bidirectional"}, 3, 2, true, true},
		{layer{cell: "LSTM", gates: 4, units: 23, direction: "bidirectional", lengths: true}, 6, 5, false, true},
		{layer{cell: "GRU", gates: 3, units: 33, direction: "reverse", lengths: true}, 4, 3, true, true},
	} {
		t.Run(fmt.Sprintf("%d %s %s", i, c.cell, c.direction), func(t *testing.T) {
			data := c.model(r, c.steps, c.sequences, c.named)
			device, reference := must(t, data, weir.Options{Target: weir.Vulkan}), must(t, data, weir.Options{Exact: true})
			defer device.Close()
			defer reference.Close()
			for _, h := range device.OnHost() {
				t.Errorf("%s runs on the host: %s", h.Step, h.Reason)
			}
			entries := 0
			_, kernels := device.DeviceKernels()
			for _, k := range kernels {
				if k.Name == "recurrent" {
					entries++
				}
			}
			if entries > 2 == c.whole { // a block for each sequence: one entry for each direction
				t.Errorf("the layer has %d entries", entries)
			}
			sizes := [][2]int64{{c.steps, c.sequences}}
			if c.named {
				sizes = append(sizes, [2]int64{1, 1}, [2]int64{0, 2}, [2]int64{2, 0}, [2]int64{40, 3})
			}
			for _, size := range sizes {
				inputs := map[string]*tensor.Tensor{"x": normal(r, size[0], size[1], 7)}
				if c.lengths {
					of := tensor.Must(tensor.New(dtype.I32, size[1]))
					for j := range size[1] {
						of.SetInt(j, r.Int64N(size[0]+1))
					}
					inputs["lengths"] = of
				}
				got, want := results(t, device, inputs), results(t, reference, inputs)
				for j := range want {
					if err := tensor.Compare(got[j], want[j], 1e-5, 1e-5); err != nil {
						t.Errorf("%d steps, %d sequences, result %d: %v", size[0], size[1], j, err)
					}
				}
			}
		})
	}
}
