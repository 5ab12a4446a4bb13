package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// attackNode returns a node with its output's name.
func attackNode(op string, inputs []string, output string, attributes ...*wire.AttributeProto) *wire.NodeProto {
	return &wire.NodeProto{OpType: op, Name: output, Input: inputs, Output: []string{output}, Attribute: attributes}
}

// attackModel returns a model of x: f32[2,3], rows: f32[n,3] and many: f32[n,m], whose output is y.
func attackModel(constants map[string]*tensor.Tensor, nodes ...*wire.NodeProto) *wire.ModelProto {
	g := &wire.GraphProto{Name: "g", Node: nodes,
		Input: []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(2), wire.Size(3)),
			wire.TensorValue("rows", 1, wire.Dim("n"), wire.Size(3)),
			wire.TensorValue("many", 1, wire.Dim("n"), wire.Dim("m"))}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	for _, name := range sortedKeys(constants) {
		g.Initializer = append(g.Initializer, wire.FromTensor(name, constants[name]))
	}
	return &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
}

// sortedKeys returns the keys of m in order.
func sortedKeys(m map[string]*tensor.Tensor) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// chain returns a model of count nodes in sequence, from one value to y.
func chain(count int, from string, constants map[string]*tensor.Tensor,
	make func(in, out string) *wire.NodeProto) *wire.ModelProto {
	var nodes []*wire.NodeProto
	for i := range count {
		out := fmt.Sprint("v", i)
		if i == count-1 {
			out = "y"
		}
		nodes = append(nodes, make(from, out))
		from = out
	}
	return attackModel(constants, nodes...)
}

type constants = map[string]*tensor.Tensor

func integers(values ...int64) *tensor.Tensor { return tensor.Of(values...) }
func integer(value int64) *tensor.Tensor      { return tensor.Scalar(value) }

// branches returns an If with depth nested Ifs.
func branches(depth int) *wire.NodeProto {
	n := attackNode("Identity", []string{"x"}, "y")
	for i := range depth {
		body := &wire.GraphProto{Name: "b", Node: []*wire.NodeProto{n}, Output: []*wire.ValueInfoProto{{Name: n.Output[0]}}}
		n = attackNode("If", []string{"yes"}, fmt.Sprint("y", i), wire.GraphAttribute("then_branch", body),
			wire.GraphAttribute("else_branch", &wire.GraphProto{Name: "e",
				Node:   []*wire.NodeProto{attackNode("Neg", []string{"x"}, fmt.Sprint("e", i))},
				Output: []*wire.ValueInfoProto{{Name: fmt.Sprint("e", i)}}}))
	}
	n.Output[0] = "y"
	return n
}

// nested returns a file with thousands of nested graphs: graphs within attributes within nodes within graphs.
func nested(depth int) []byte {
	var tags []byte
	size := 0
	var heads [][]byte
	for i := range depth {
		tag := []byte{0x0a, 0x2a, 0x32}[i%3] // graph.node, node.attribute, attribute.g
		head := binary.AppendUvarint([]byte{tag}, uint64(size))
		heads, size = append(heads, head), size+len(head)
	}
	for _, head := range slices.Backward(heads) {
		tags = append(tags, head...)
	}
	return append(binary.AppendUvarint([]byte{0x3a}, uint64(len(tags))), tags...)
}

// function is a model-local function f of x that calls others.
func function(name string, calls ...string) *wire.FunctionProto {
	f := &wire.FunctionProto{Name: name, Domain: "d", Input: []string{"a"}, Output: []string{"b"},
		OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}, {Domain: "d", Version: 1}}}
	from := "a"
	for i, call := range calls {
		out := fmt.Sprint("t", i)
		if i == len(calls)-1 {
			out = "b"
		}
		n := attackNode(call, []string{from}, out)
		if strings.HasPrefix(call, "f") {
			n.Domain = "d"
		}
		f.Node = append(f.Node, n)
		from = out
	}
	return f
}

// withFunctions returns a model that calls the first of a list of functions.
func withFunctions(list ...*wire.FunctionProto) *wire.ModelProto {
	n := attackNode("f0", []string{"x"}, "y")
	n.Domain = "d"
	m := attackModel(nil, n)
	m.OpsetImport = append(m.OpsetImport, &wire.OperatorSetIDProto{Domain: "d", Version: 1})
	m.Functions = list
	return m
}

// raw returns a model with an initializer of the given extents and bytes, which need not agree.
func raw(dims []int64, bytes int) *wire.ModelProto {
	m := attackModel(nil, attackNode("Identity", []string{"w"}, "y"))
	m.Graph.Initializer = []*wire.TensorProto{{Name: "w", DataType: 1, Dims: dims, RawData: make([]byte, bytes),
		RawOffset: -1}}
	return m
}

// forever is a Loop without a limit whose condition stays true; its body has a node of its own.
func forever(inner ...*wire.NodeProto) *wire.NodeProto {
	body := &wire.GraphProto{Name: "body", Node: inner, Input: []*wire.ValueInfoProto{wire.TensorValue("i", 7),
		wire.TensorValue("c", 9), wire.TensorValue("s", 1, wire.Size(2), wire.Size(3))},
		Output: []*wire.ValueInfoProto{{Name: "c"}, {Name: inner[len(inner)-1].Output[0]}}}
	return &wire.NodeProto{OpType: "Loop", Name: "n", Input: []string{"", "yes", "x"}, Output: []string{"y"},
		Attribute: []*wire.AttributeProto{wire.GraphAttribute("body", body)}}
}

// attacks are well-formed models that are meant to do harm, by the field that carries it. Each is refused, or takes
// time but no memory.
var attacks = []struct {
	field, attack string
	build         func() *wire.ModelProto
}{
	{"constants", "ConstantOfShape of 2⁴⁰", func() *wire.ModelProto {
		return attackModel(constants{"s": integers(1 << 40)}, attackNode("ConstantOfShape", []string{"s"}, "y"))
	}},
	{"constants", "doubled 40 times by Concat", func() *wire.ModelProto {
		return chain(40, "c", constants{"c": tensor.Of[float32](1, 2)}, func(in, out string) *wire.NodeProto {
			return attackNode("Concat", []string{in, in}, out, wire.IntAttribute("axis", 0))
		})
	}},
	{"constants", "doubled 30 times by Tile", func() *wire.ModelProto {
		return chain(30, "c", constants{"c": tensor.Of[float32](1, 2), "two": integers(2)},
			func(in, out string) *wire.NodeProto {
				return attackNode("Tile", []string{in, "two"}, out)
			})
	}},
	{"constants", "doubled 20 times by Pad", func() *wire.ModelProto {
		k := constants{"c": tensor.Of[float32](1, 2)}
		i := 0
		return chain(20, "c", k, func(in, out string) *wire.NodeProto {
			i++
			k[fmt.Sprint("p", i)] = integers(0, 1<<i)
			return attackNode("Pad", []string{in, fmt.Sprint("p", i)}, out)
		})
	}},
	{"constants", "an axis more by Expand, 8 times", func() *wire.ModelProto {
		k := constants{"c": tensor.Of[float32](1)}
		shape := []int64{1}
		return chain(8, "c", k, func(in, out string) *wire.NodeProto {
			shape = append([]int64{64}, shape...)
			k["s"+out] = integers(shape...)
			return attackNode("Expand", []string{in, "s" + out}, out)
		})
	}},
	{"constants", "Range to 2⁴⁰", func() *wire.ModelProto {
		return attackModel(constants{"a": integer(0), "b": integer(1 << 40), "d": integer(1)},
			attackNode("Range", []string{"a", "b", "d"}, "y"))
	}},
	{"constants", "Range by a delta of 0", func() *wire.ModelProto {
		return attackModel(constants{"a": integer(0), "b": integer(9), "d": integer(0)},
			attackNode("Range", []string{"a", "b", "d"}, "y"))
	}},
	{"constants", "OneHot of 2⁴⁰", func() *wire.ModelProto {
		return attackModel(constants{"a": integers(0), "d": integer(1 << 40), "v": tensor.Of[float32](0, 1)},
			attackNode("OneHot", []string{"a", "d", "v"}, "y"))
	}},
	{"constants", "Resize to 2³¹ by 2³¹", func() *wire.ModelProto {
		return attackModel(constants{"s": integers(1<<31, 1<<31)}, attackNode("Resize", []string{"x", "", "", "s"}, "y"))
	}},
	{"constants", "EyeLike of 2²⁰ by 2²⁰", func() *wire.ModelProto {
		return attackModel(constants{"s": integers(1<<20, 1<<20)}, attackNode("ConstantOfShape", []string{"s"}, "v"),
			attackNode("EyeLike", []string{"v"}, "y"))
	}},
	{"constants", "a matrix of 2¹² by 2¹², multiplied 9 times", func() *wire.ModelProto {
		m := chain(9, "c", constants{"s": integers(1<<12, 1<<12)}, func(in, out string) *wire.NodeProto {
			return attackNode("MatMul", []string{in, in}, out)
		})
		m.Graph.Node = append([]*wire.NodeProto{attackNode("ConstantOfShape", []string{"s"}, "c")}, m.Graph.Node...)
		return m
	}},
	{"loops", "2⁶² constant iterations without a result", func() *wire.ModelProto {
		m := attackModel(constants{"k": integer(1 << 62), "yes": tensor.Scalar(true)},
			forever(attackNode("Neg", []string{"s"}, "s2")))
		m.Graph.Node[0].Input[0] = "k"
		return m
	}},
	{"loops", "2⁶² rows to be stacked", func() *wire.ModelProto {
		n := forever(attackNode("Neg", []string{"s"}, "s2"))
		n.Input[0] = "k"
		n.Output = []string{"v", "y"}
		n.Attribute[0].G.Output = append(n.Attribute[0].G.Output, &wire.ValueInfoProto{Name: "s2"})
		return attackModel(constants{"k": integer(1 << 62), "yes": tensor.Scalar(true)}, n)
	}},
	{"loops", "a body that grows what it carries", func() *wire.ModelProto {
		n := forever(attackNode("Concat", []string{"s", "s"}, "s2", wire.IntAttribute("axis", 0)))
		n.Input[0] = "k"
		return attackModel(constants{"k": integer(60), "yes": tensor.Scalar(true)}, n)
	}},
	{"nesting", "20 Ifs", func() *wire.ModelProto {
		return attackModel(constants{"yes": tensor.Scalar(true)}, branches(19))
	}},
	{"nesting", "40 Ifs", func() *wire.ModelProto {
		return attackModel(constants{"yes": tensor.Scalar(true)}, branches(40))
	}},
	{"nesting", "18 Ifs whose conditions a run decides", func() *wire.ModelProto {
		m := attackModel(nil, branches(18))
		m.Graph.Input = append(m.Graph.Input, wire.TensorValue("yes", 9))
		return m
	}},
	{"functions", "one that calls itself", func() *wire.ModelProto { return withFunctions(function("f0", "f0")) }},
	{"functions", "two that call each other", func() *wire.ModelProto {
		return withFunctions(function("f0", "f1"), function("f1", "f0"))
	}},
	{"functions", "30 that each call the next twice", func() *wire.ModelProto {
		var list []*wire.FunctionProto
		for i := range 30 {
			next := fmt.Sprint("f", i+1)
			list = append(list, function(fmt.Sprint("f", i), next, next))
		}
		return withFunctions(append(list, function("f30", "Neg"))...)
	}},
	{"functions", "10 that each call the next 8 times", func() *wire.ModelProto {
		var list []*wire.FunctionProto
		for i := range 10 {
			list = append(list, function(fmt.Sprint("f", i), slices.Repeat([]string{fmt.Sprint("f", i+1)}, 8)...))
		}
		return withFunctions(append(list, function("f10", "Neg"))...)
	}},
	{"functions", "one that is not there", func() *wire.ModelProto { return withFunctions() }},
	{"functions", "two of one name", func() *wire.ModelProto {
		return withFunctions(function("f0", "Neg"), function("f0", "Abs"))
	}},
	{"functions", "one whose output nothing computes", func() *wire.ModelProto {
		f := function("f0", "Neg")
		f.Output = []string{"nothing"}
		return withFunctions(f)
	}},
	{"dims", "Reshape to rank 1,000", func() *wire.ModelProto {
		return attackModel(constants{"s": integers(slices.Repeat([]int64{1}, 1000)...)},
			attackNode("Reshape", []string{"x", "s"}, "y"))
	}},
	{"dims", "Unsqueeze by 1,000 axes", func() *wire.ModelProto {
		axes := make([]int64, 1000)
		for i := range axes {
			axes[i] = int64(i)
		}
		return attackModel(constants{"s": integers(axes...)}, attackNode("Unsqueeze", []string{"x", "s"}, "y"))
	}},
	{"dims", "an input of rank 100,000", func() *wire.ModelProto {
		m := attackModel(nil, attackNode("Neg", []string{"z"}, "y"))
		m.Graph.Input = append(m.Graph.Input, wire.TensorValue("z", 1,
			slices.Repeat([]*wire.Dimension{wire.Size(1)}, 100_000)...))
		return m
	}},
	{"dims", "an initializer of rank 100,000", func() *wire.ModelProto {
		return raw(slices.Repeat([]int64{1}, 100_000), 4)
	}},
	{"dims", "a product past 64 bits", func() *wire.ModelProto { return raw([]int64{1 << 32, 1 << 32}, 0) }},
	{"dims", "a product past 64 bits, to 4", func() *wire.ModelProto { return raw([]int64{1 << 62, 4, 1}, 4) }},
	{"dims", "negative", func() *wire.ModelProto { return raw([]int64{-1}, 4) }},
	{"dims", "two negative ones", func() *wire.ModelProto { return raw([]int64{-1, -1}, 4) }},
	{"dims", "more than there are bytes", func() *wire.ModelProto { return raw([]int64{1 << 30}, 4) }},
	{"dims", "huge beside 0", func() *wire.ModelProto { return raw([]int64{1 << 62, 0}, 0) }},
	{"dims", "huge beside 0, added up", func() *wire.ModelProto {
		m := raw([]int64{2, 1 << 40, 0}, 0)
		m.Graph.Node = []*wire.NodeProto{attackNode("ReduceSum", []string{"w"}, "y")}
		return m
	}},
	{"attributes", "a permutation of a million", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Transpose", []string{"x"}, "y",
			wire.IntsAttribute("perm", make([]int64, 1<<20)...)))
	}},
	{"attributes", "pads of a million", func() *wire.ModelProto {
		return attackModel(nil, attackNode("MaxPool", []string{"x"}, "y", wire.IntsAttribute("kernel_shape", 1, 1),
			wire.IntsAttribute("pads", make([]int64, 1<<20)...)))
	}},
	{"attributes", "10,000 of one name", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Softmax", []string{"x"}, "y",
			slices.Repeat([]*wire.AttributeProto{wire.IntAttribute("axis", 0)}, 10_000)...))
	}},
	{"attributes", "an equation of 100,000 letters", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Einsum", []string{"x", "x"}, "y",
			wire.StringAttribute("equation", strings.Repeat("ij", 50_000)+",ij->ij")))
	}},
	{"attributes", "a window of 2⁶³−1 channels", func() *wire.ModelProto {
		return attackModel(nil, attackNode("LRN", []string{"x"}, "y", wire.IntAttribute("size", math.MaxInt64)))
	}},
	{"attributes", "2⁶² outputs of Split", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Split", []string{"x"}, "y", wire.IntAttribute("num_outputs", 1<<62)))
	}},
	{"attributes", "a hidden size of 2⁴⁰", func() *wire.ModelProto {
		return attackModel(constants{"w": tensor.Of[float32](1), "s": integers(1, 1, 1)},
			attackNode("Reshape", []string{"w", "s"}, "w3"), attackNode("LSTM", []string{"w3", "w3", "w3"}, "y",
				wire.IntAttribute("hidden_size", 1<<40)))
	}},
	{"shapes", "a size squared 40 times", func() *wire.ModelProto {
		m := chain(40, "s", constants{}, func(in, out string) *wire.NodeProto {
			return attackNode("Mul", []string{in, in}, out)
		})
		m.Graph.Node = append([]*wire.NodeProto{attackNode("Shape", []string{"rows"}, "s")}, m.Graph.Node...)
		m.Graph.Node[40].Output[0] = "e"
		m.Graph.Node = append(m.Graph.Node, attackNode("ConstantOfShape", []string{"e"}, "y"))
		return m
	}},
	{"shapes", "a sum of sizes squared 20 times", func() *wire.ModelProto {
		m := chain(20, "s", constants{"no": integers(0), "axis": integers(0)}, func(in, out string) *wire.NodeProto {
			return attackNode("Mul", []string{in, in}, out)
		})
		m.Graph.Node[19].Output[0] = "e"
		m.Graph.Node = append([]*wire.NodeProto{attackNode("Shape", []string{"many"}, "both"),
			attackNode("ReduceSum", []string{"both", "axis"}, "s")}, m.Graph.Node...)
		m.Graph.Node = append(m.Graph.Node, attackNode("ConstantOfShape", []string{"e"}, "y"))
		return m
	}},
	{"shapes", "sizes divided and multiplied 30 times", func() *wire.ModelProto {
		i := 0
		k := constants{"three": integers(3, 5)}
		m := chain(30, "s", k, func(in, out string) *wire.NodeProto {
			i++
			return attackNode([]string{"Div", "Mul", "Add", "Mod"}[i%4], []string{in, []string{"three", "s"}[i%2]}, out)
		})
		m.Graph.Node[29].Output[0] = "e"
		m.Graph.Node = append([]*wire.NodeProto{attackNode("Shape", []string{"many"}, "s")}, m.Graph.Node...)
		m.Graph.Node = append(m.Graph.Node, attackNode("ConstantOfShape", []string{"e"}, "y"))
		return m
	}},
	{"shapes", "flattened and joined 16 times", func() *wire.ModelProto {
		k := constants{"flat": integers(-1)}
		var nodes []*wire.NodeProto
		from := "many"
		for i := range 16 {
			a, b, out := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("c", i)
			nodes = append(nodes, attackNode("Reshape", []string{from, "flat"}, a),
				attackNode("Reshape", []string{"rows", "flat"}, b),
				attackNode("Concat", []string{a, b, a}, out, wire.IntAttribute("axis", 0)))
			from = out
		}
		return attackModel(k, append(nodes, attackNode("Identity", []string{from}, "y"))...)
	}},
	{"shapes", "a broadcast of 12 sizes by 12", func() *wire.ModelProto {
		var nodes []*wire.NodeProto
		m := attackModel(nil)
		from := "in0"
		for i := range 12 {
			m.Graph.Input = append(m.Graph.Input, wire.TensorValue(fmt.Sprint("in", i), 1, wire.Dim(fmt.Sprint("d", i)),
				wire.Dim(fmt.Sprint("e", i))))
			out := fmt.Sprint("v", i)
			nodes = append(nodes, attackNode("Add", []string{from, fmt.Sprint("in", i)}, out))
			from = out
		}
		m.Graph.Node = append(nodes, attackNode("Identity", []string{from}, "y"))
		return m
	}},
	{"names", "two nodes compute one", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"x"}, "y"), attackNode("Abs", []string{"x"}, "y"))
	}},
	{"names", "one node computes one twice", func() *wire.ModelProto {
		n := attackNode("Split", []string{"x"}, "y", wire.IntAttribute("num_outputs", 2))
		n.Output = []string{"y", "y"}
		return attackModel(nil, n)
	}},
	{"names", "a node computes an input", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"x"}, "x"), attackNode("Neg", []string{"x"}, "y"))
	}},
	{"names", "a node computes an initializer", func() *wire.ModelProto {
		return attackModel(constants{"c": integers(1)}, attackNode("Neg", []string{"x"}, "c"),
			attackNode("Neg", []string{"x"}, "y"))
	}},
	{"names", "two inputs of one", func() *wire.ModelProto {
		m := attackModel(nil, attackNode("Neg", []string{"x"}, "y"))
		m.Graph.Input = append(m.Graph.Input, m.Graph.Input[0])
		return m
	}},
	{"names", "two initializers of one", func() *wire.ModelProto {
		m := attackModel(constants{"c": integers(1)}, attackNode("Neg", []string{"c"}, "y"))
		m.Graph.Initializer = append(m.Graph.Initializer, m.Graph.Initializer[0])
		return m
	}},
	{"names", "two outputs of one", func() *wire.ModelProto {
		m := attackModel(nil, attackNode("Neg", []string{"x"}, "y"))
		m.Graph.Output = append(m.Graph.Output, m.Graph.Output[0])
		return m
	}},
	{"names", "outputs that differ by what a file's name cannot hold", func() *wire.ModelProto {
		m := attackModel(nil, attackNode("Neg", []string{"x"}, "../y"), attackNode("Neg", []string{"x"}, "..\\y"))
		m.Graph.Output = []*wire.ValueInfoProto{{Name: "../y"}, {Name: "..\\y"}}
		return m
	}},
	{"names", "a body's node computes an outer value", func() *wire.ModelProto {
		m := attackModel(constants{"yes": tensor.Scalar(true)}, branches(1))
		m.Graph.Node[0].Attribute[0].G.Node[0].Output[0] = "x"
		m.Graph.Node[0].Attribute[0].G.Output[0].Name = "x"
		return m
	}},
	{"names", "a megabyte long", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Nonsense", []string{strings.Repeat("x", 1<<20)}, "y"))
	}},
	{"names", "with control characters", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"\x1b[31m\r\n"}, "y"))
	}},
	{"edges", "a node that needs itself", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"y"}, "y"))
	}},
	{"edges", "two nodes that need each other", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"y"}, "a"), attackNode("Neg", []string{"a"}, "y"))
	}},
	{"edges", "an output that nothing computes", func() *wire.ModelProto {
		return attackModel(nil, attackNode("Neg", []string{"x"}, "z"))
	}},
	{"edges", "an output that is an input", func() *wire.ModelProto {
		m := attackModel(nil)
		m.Graph.Output[0].Name = "x"
		return m
	}},
	{"edges", "no node, no output", func() *wire.ModelProto {
		m := attackModel(nil)
		m.Graph.Output = nil
		return m
	}},
	{"edges", "2,000 nodes in a row", func() *wire.ModelProto {
		return chain(2000, "x", nil, func(in, out string) *wire.NodeProto { return attackNode("Neg", []string{in}, out) })
	}},
}
