package conformancetest

import (
	"math/rand/v2"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// SmallModel is a short graph from a slice of x, which may be empty though x is not, to y.
type SmallModel struct {
	Name  string
	nodes func(d *drawing, s drawn) []*wire.NodeProto
	shape []any // of x; a string is a dimension
}

// last returns the node of the output y.
func last(op string, attributes []*wire.AttributeProto, in ...string) *wire.NodeProto {
	return &wire.NodeProto{OpType: op, Name: "y", Input: in, Output: []string{"y"}, Attribute: attributes}
}

// between returns a node whose result has a name.
func between(name, op string, attributes []*wire.AttributeProto, in ...string) *wire.NodeProto {
	n := last(op, attributes, in...)
	n.Name, n.Output[0] = name, name
	return n
}

func attributes(list ...*wire.AttributeProto) []*wire.AttributeProto { return list }

// SmallModels are operators whose kernels need scratch or repacked weights, or which become several kernels.
var SmallModels = []SmallModel{
	{Name: "convolution", shape: []any{"n", 3, 6, 6}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Conv", attributes(wire.IntsAttribute("pads", 1, 1, 1, 1)), s.name,
			d.floats(4, 3, 3, 3).name)}
	}},
	{Name: "convolution of points, padded", shape: []any{"n", 3, 9, 11},
		nodes: func(d *drawing, s drawn) []*wire.NodeProto {
			return []*wire.NodeProto{last("Conv", attributes(wire.IntsAttribute("pads", 2, 2, 2, 2)), s.name,
				d.floats(8, 3, 1, 1).name)}
		}},
	{Name: "matmul", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("MatMul", nil, s.name, d.floats(8, 12).name)}
	}},
	{Name: "gram", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("t", "Transpose", attributes(wire.IntsAttribute("perm", 1, 0)), s.name),
			last("MatMul", nil, s.name, "t")}
	}},
	{Name: "softmax across", shape: []any{"n", 8}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Softmax", attributes(wire.IntAttribute("axis", 0)), s.name)}
	}},
	{Name: "softmax", shape: []any{"n", 40}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("Softmax", attributes(wire.IntAttribute("axis", 1)), s.name)}
	}},
	{Name: "sum", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("ReduceSum", nil, s.name, d.ints(0).name)}
	}},
	{Name: "top", shape: []any{"n", 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		n := last("TopK", attributes(wire.IntAttribute("axis", 1)), s.name, d.ints(3).name)
		n.Output = append(n.Output, "at")
		return []*wire.NodeProto{n}
	}},
	{Name: "concatenation", shape: []any{"n", 8}, nodes: func(_ *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("e", "Exp", nil, "x"), last("Concat", attributes(wire.IntAttribute("axis", 0)),
			s.name, "e", s.name)}
	}},
	{Name: "recurrent", shape: []any{"n", 3, 8}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{last("GRU", attributes(wire.IntAttribute("hidden_size", 5)), s.name, d.floats(1, 15, 8).name,
			d.floats(1, 15, 5).name)}
	}},
	{Name: "mean, padded", shape: []any{"n", "m"}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("mean", "ReduceMean", nil, s.name, d.ints(-1).name),
			between("c", "Sub", nil, s.name, "mean"), last("Pad", nil, "c", d.ints(2, 0, 1, 3).name)}
	}},
	{Name: "least, put back", shape: []any{"n", 7}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("least", "ArgMin", attributes(wire.IntAttribute("axis", 1),
			wire.IntAttribute("keepdims", 0)), s.name), last("Unsqueeze", nil, "least", d.ints(1).name)}
	}},
	{Name: "added to 17", shape: []any{"n", 4}, nodes: func(d *drawing, s drawn) []*wire.NodeProto {
		return []*wire.NodeProto{between("z", "Slice", nil, "x", d.ints(0).name, d.ints(17).name, d.ints(0).name),
			last("Add", nil, "z", d.floats(17, 4).name)}
	}},
}

// floats returns a constant of small numbers.
func (d *drawing) floats(shape ...int64) drawn { return d.constant(d.filled(dtype.F32, shape, false)) }

// SmallSlices are slices of x along its first axis that are empty for some extents.
var SmallSlices = [][]int64{nil, {20, 30}, {3, 1 << 40}, {-5, -9}}

// Build returns the graph over a slice of x.
func (p *SmallModel) Build(slice []int64) *wire.ModelProto {
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
		d.graph.Node = append(d.graph.Node, between("s", "Slice", nil, "x", d.ints(slice[0]).name, d.ints(slice[1]).name,
			d.ints(0).name))
	}
	d.graph.Node = append(d.graph.Node, p.nodes(d, s)...)
	d.graph.Output = []*wire.ValueInfoProto{{Name: "y"}}
	return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: d.graph}
}

// Input returns x with n as the extent n, and 7 as m.
func (p *SmallModel) Input(n int64) *tensor.Tensor {
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

// ConvolvedByItself returns a convolution with one value of the given shape as picture and as weights.
func ConvolvedByItself(shape ...int64) *RandomModel {
	var dims []*wire.Dimension
	for _, s := range shape {
		dims = append(dims, wire.Size(s))
	}
	d := &drawing{Rand: rand.New(rand.NewPCG(1, 2))}
	g := &wire.GraphProto{Name: "itself", Node: []*wire.NodeProto{last("Conv", nil, "x", "x")},
		Output: []*wire.ValueInfoProto{{Name: "y"}},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", wire.DataTypeOf(dtype.F32), dims...)}}
	return &RandomModel{Inputs: []*tensor.Tensor{d.filled(dtype.F32, shape, false)},
		Model: &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}}
}
