package conformance

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// plainModel is a short graph: node joins a slice of x, which may be empty though x is not, to y.
type plainModel struct {
	name  string
	nodes func(d *drawing, s drawn) []*wire.NodeProto
	shape []any // of x; a text is a dimension
}

func last(op string, attributes []*wire.AttributeProto, in ...string) *wire.NodeProto {
	return &wire.NodeProto{OpType: op, Name: "y", Input: in, Output: []string{"y"}, Attribute: attributes}
}

// between is a node whose result is called name.
func between(name, op string, attributes []*wire.AttributeProto, in ...string) *wire.NodeProto {
	n := last(op, attributes, in...)
	n.Name, n.Output[0] = name, name
	return n
}

func attributes(list ...*wire.AttributeProto) []*wire.AttributeProto { return list }

// plainModels are operators whose kernels want scratch, or weights laid out anew, or are several.
var plainModels = []plainModel{
	{name: "convolution", shape: []any{"n", 3, 6, 6}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Conv", attributes(wire.IntsAttribute("pads", 1, 1, 1, 1)), s.name, d.floats(4, 3, 3, 3).name)}
	}},
	{name: "convolution of points, padded", shape: []any{"n", 3, 9, 11}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Conv", attributes(wire.IntsAttribute("pads", 2, 2, 2, 2)), s.name, d.floats(8, 3, 1, 1).name)}
	}},
	{name: "matmul", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("MatMul", nil, s.name, d.floats(8, 12).name)}
	}},
	{name: "gram", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("t", "Transpose", attributes(wire.IntsAttribute("perm", 1, 0)), s.name), last("MatMul", nil, s.name, "t")}
	}},
	{name: "softmax across", shape: []any{"n", 8}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Softmax", attributes(wire.IntAttribute("axis", 0)), s.name)}
	}},
	{name: "softmax", shape: []any{"n", 40}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Softmax", attributes(wire.IntAttribute("axis", 1)), s.name)}
	}},
	{name: "sum", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("ReduceSum", nil, s.name, d.ints(0).name)}
	}},
	{name: "top", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		n := last("TopK", attributes(wire.IntAttribute("axis", 1)), s.name, d.ints(3).name)
		n.Output = append(n.Output, "at")
		return []*wire.NodeProto{n}
	}},
	{name: "concatenation", shape: []any{"n", 8}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("e", "Exp", nil, "x"), last("Concat", attributes(wire.IntAttribute("axis", 0)), s.name, "e", s.name)}
	}},
	{name: "recurrent", shape: []any{"n", 3, 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("GRU", attributes(wire.IntAttribute("hidden_size", 5)), s.name, d.floats(1, 15, 8).name, d.floats(1, 15, 5).name)}
	}},
	{name: "mean, padded", shape: []any{"n", "m"}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("mean", "ReduceMean", nil, s.name, d.ints(-1).name), between("c", "Sub", nil, s.name, "mean"), last("Pad", nil, "c", d.ints(2, 0, 1, 3).name)}
	}},
	{name: "least, put back", shape: []any{"n", 7}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("least", "ArgMin", attributes(wire.IntAttribute("axis", 1), wire.IntAttribute("keepdims", 0)), s.name), last("Unsqueeze", nil, "least", d.ints(1).name)}
	}},
	{name: "added to 17", shape: []any{"n", 4}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("z", "Slice", nil, "x", d.ints(0).name, d.ints(17).name, d.ints(0).name), last("Add", nil, "z", d.floats(17, 4).name)}
	}},
}

// floats is a constant.
func (d *drawing) floats(shape ...int64) drawn { return d.constant(d.filled(dtype.F32, shape, false)) }

// plainSlices are slices of x along its first axis that some extents make empty.
var plainSlices = [][]int64{nil, {20, 30}, {3, 1 << 40}, {-5, -9}}

// build makes the graph over a slice of x.
func (p *plainModel) build(slice []int64) *wire.ModelProto {
	d := &drawing{Rand: rand.New(rand.NewPCG(1, 2)), graph: &wire.GraphProto{Name: "plain"}, count: new(int)}
	var dims []*wire.Dimension
	for _, e := range p.shape {
		if size, ok := e.(int); ok {
			dims = append(dims, wire.Size(int64(size)))
		} else {
			dims = append(dims, wire.Dim(e.(string)))
		}
	}
	d.graph.Input = append(d.graph.Input, wire.TensorValue("x", wire.DataTypeOf(dtype.F32), dims...))
	s := drawn{name: "x"}
	if slice != nil {
		s.name = "s"
		d.graph.Node = append(d.graph.Node, between("s", "Slice", nil, "x", d.ints(slice[0]).name, d.ints(slice[1]).name, d.ints(0).name))
	}
	d.graph.Node = append(d.graph.Node, p.nodes(d, s)...)
	d.graph.Output = []*wire.ValueInfoProto{{Name: "y"}}
	return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
}

// input is x for an extent of n; m is 7.
func (p *plainModel) input(n int64) *tensor.Tensor {
	d := &drawing{Rand: rand.New(rand.NewPCG(uint64(n), 3))}
	var shape []int64
	for _, e := range p.shape {
		switch e := e.(type) {
		case int:
			shape = append(shape, int64(e))
		case string:
			shape = append(shape, map[string]int64{"n": n, "m": 7}[e])
		}
	}
	return d.filled(dtype.F32, shape, false)
}

// TestPlainModels runs short models over slices that are empty for some extents, in every configuration, against the
// reference; and what each run takes is what was predicted, to the byte.
func TestPlainModels(t *testing.T) {
	for _, p := range plainModels {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, slice := range plainSlices {
				proto := p.build(slice)
				for _, how := range configurations {
					m := &RandomModel{Model: proto, Inputs: []*tensor.Tensor{p.input(21)}}
					if _, err := trialOf(m).compare(t.Context(), how); err != nil {
						t.Errorf("slice %v, %s: %v", slice, how.name, err)
					}
				}
				p.measure(t, proto, fmt.Sprint("slice ", slice))
			}
		})
	}
}

// measure compiles once for each target, and runs with extents about those at which the slices become empty.
func (p *plainModel) measure(t *testing.T, proto *wire.ModelProto, what string) {
	loaded, err := weir.LoadBytes(proto.Marshal())
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
		program, err := weir.Compile(t.Context(), loaded, weir.Options{Target: target, Threads: 2})
		if err != nil {
			t.Errorf("%s, %s: %v", what, target, err)
			continue
		}
		for _, n := range []int64{0, 1, 3, 4, 5, 17, 20, 21, 40} {
			x, err := values.ToWeir(p.input(n))
			if err != nil {
				t.Fatal(err)
			}
			memory, err := MemoryOf(t.Context(), program, weir.Inputs{"x": x})
			if err != nil && p.name != "added to 17" {
				t.Errorf("%s, %s, n = %d: %v", what, target, n, err)
			} else if memory.Measured != memory.Predicted {
				t.Errorf("%s, %s, n = %d: predicted %d bytes, measured %d", what, target, n, memory.Predicted, memory.Measured)
			}
			x.Close()
		}
		program.Close()
	}
}

// TestConvolvedByItself gives convolutions one value as picture and as weights.
func TestConvolvedByItself(t *testing.T) {
	for _, shape := range [][]int64{{1, 1, 1, 1}, {3, 3, 1, 1}, {2, 2, 2, 2}, {1, 1, 3}, {4, 4, 1}, {2, 2, 3, 1}} {
		var dims []*wire.Dimension
		for _, s := range shape {
			dims = append(dims, wire.Size(s))
		}
		d := &drawing{Rand: rand.New(rand.NewPCG(1, 2))}
		g := &wire.GraphProto{Name: "itself", Node: []*wire.NodeProto{last("Conv", nil, "x", "x")}, Output: []*wire.ValueInfoProto{{Name: "y"}},
			Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.DataTypeOf(dtype.F32), dims...)}}
		m := &RandomModel{Inputs: []*tensor.Tensor{d.filled(dtype.F32, shape, false)},
			Model: &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}}
		for _, how := range configurations {
			if _, err := trialOf(m).compare(t.Context(), how); err != nil {
				t.Errorf("%v, %s: %v", shape, how.name, err)
			}
		}
	}
}
