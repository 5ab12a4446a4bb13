package conformance

import (
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// TestOneSize: a dimension whose only value is 1 broadcasts as an extent of 1 does, even if a pass has removed the node
// that made it an extent of 1.
func TestOneSize(t *testing.T) {
	ints := func(name string, x ...int64) *wire.TensorProto {
		return wire.FromTensor(name, tensor.Must(tensor.FromSlice(x, int64(len(x)))))
	}
	float := func(name string, shape ...*wire.Dimension) *wire.ValueInfoProto {
		return wire.TensorValue(name, wire.FloatType, shape...)
	}
	g := &wire.GraphProto{Name: "expanded",
		Input: []*wire.ValueInfoProto{float("x", wire.Dim("n"), wire.Dim("m")),
			wire.TensorValue("s", wire.Int64Type, wire.Size(1))},
		Output: []*wire.ValueInfoProto{float("y", wire.Dim("p"), wire.Dim("q")),
			float("z", wire.Dim("n"), wire.Dim("q"))},
		Initializer: []*wire.TensorProto{ints("zero", 0), ints("one", 1), ints("two", 2)},
		Node: []*wire.NodeProto{operation("Slice", "x,zero,one,zero", "head"), operation("Add", "s,two", "rows"),
			operation("Concat", "rows,one", "shape", wire.IntAttribute("axis", 0)),
			operation("Expand", "head,shape", "y"), operation("Mul", "x,head", "square"), operation("Add", "square,x", "z")}}
	data := (&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 16}}, Graph: g}).Marshal()
	fixed := weir.Range{Min: 1, Max: 1}
	for _, dims := range []map[string]weir.Range{nil, {"n": fixed}, {"m": fixed}, {"n": fixed, "m": fixed}} {
		for _, target := range []weir.Target{weir.Portable, weir.Best} {
			m, err := weir.LoadBytes(data)
			if err != nil {
				t.Fatal(err)
			}
			p, err := weir.Compile(t.Context(), m, weir.Options{Target: target, Threads: 1, Dims: dims})
			m.Close()
			if err != nil {
				t.Fatalf("%v: %v", dims, err)
			}
			x, err := weir.FromSlice([]float32{3}, 1, 1)
			if err != nil {
				t.Fatal(err)
			}
			s, err := weir.FromSlice([]int64{2}, 1)
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Run(t.Context(), weir.Inputs{"x": x, "s": s})
			if err != nil {
				t.Fatalf("%v: %v", dims, err)
			}
			for name, want := range map[string][]float32{"y": {3, 3, 3, 3}, "z": {12}} {
				if got, err := weir.Copy[float32](r.Get(name)); err != nil || !slices.Equal(got, want) {
					t.Errorf("%v: %s is %v, not %v; %v", dims, name, got, want, err)
				}
			}
			r.Close()
			s.Close()
			x.Close()
			p.Close()
		}
	}
}

// TestOneSizeTold: a dimension to which the model leaves one value says what leaves it, one that the caller binds does
// not.
func TestOneSizeTold(t *testing.T) {
	state := wire.FromTensor("h", tensor.Must(tensor.FromSlice(make([]float32, 4), 1, 1, 4)))
	g := &wire.GraphProto{Name: "fixed",
		Input: []*wire.ValueInfoProto{
			wire.TensorValue("x", wire.FloatType, wire.Dim("time"), wire.Dim("batch"), wire.Size(2)),
			wire.TensorValue("w", wire.FloatType, wire.Size(1), wire.Size(12), wire.Size(2)),
			wire.TensorValue("r", wire.FloatType, wire.Size(1), wire.Size(12), wire.Size(4))},
		Output:      []*wire.ValueInfoProto{{Name: "y"}},
		Initializer: []*wire.TensorProto{state},
		Node:        []*wire.NodeProto{operation("GRU", "x,w,r,,,h", "y", wire.IntAttribute("hidden_size", 4))}}
	m, err := weir.LoadBytes((&wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}},
		Graph: g}).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Dims: map[string]weir.Range{"time": {Min: 3, Max: 3}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const from = "y (recurrent): the extents of a recurrent layer's operands"
	want := []weir.Dimension{{Name: "batch", Min: 1, Max: 1, From: from}, {Name: "time", Min: 3, Max: 3}}
	if got := p.Dims(); !slices.Equal(got, want) {
		t.Errorf("the dimensions are %+v, not %+v", got, want)
	}
}
