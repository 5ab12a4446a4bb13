package conformance

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// attackNode is a node called after its output.
func attackNode(op string, inputs []string, output string, attributes ...*wire.AttributeProto) *wire.NodeProto {
	return &wire.NodeProto{OpType: op, Name: output, Input: inputs, Output: []string{output}, Attribute: attributes}
}

// attackModel is a model of x: f32[2,3], rows: f32[n,3] and many: f32[n,m], whose output is y.
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

func sortedKeys(m map[string]*tensor.Tensor) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// chain is a model of one node after the other, from one value to y.
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

// branches are Ifs within one another, as deep as that.
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

// nested is a file of graphs within attributes within nodes within graphs, thousands deep.
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

func withFunctions(list ...*wire.FunctionProto) *wire.ModelProto {
	n := attackNode("f0", []string{"x"}, "y")
	n.Domain = "d"
	m := attackModel(nil, n)
	m.OpsetImport = append(m.OpsetImport, &wire.OperatorSetIDProto{Domain: "d", Version: 1})
	m.Functions = list
	return m
}

// raw is an initializer that says what it likes.
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

// attacks are models that are well-formed messages and mean harm, by the field that carries it. Each is refused, or
// takes its time and no memory.
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

// spent runs f, and says what is wrong with the time and the memory it took, or "".
func spent(f func()) string {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	mem.ResetPeaks()
	held := weir.Usage().Current
	start := time.Now()
	f()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	now := weir.Usage()
	switch {
	case took > mostTime:
		return fmt.Sprintf("took %v", took)
	case after.TotalAlloc-before.TotalAlloc > mostBytes:
		return fmt.Sprintf("allocated %d bytes", after.TotalAlloc-before.TotalAlloc)
	case now.Peak-held > mostBytes:
		return fmt.Sprintf("mapped %d bytes", now.Peak-held)
	case now.Current != held:
		return fmt.Sprintf("%d bytes are held after it", now.Current-held)
	}
	return ""
}

// endings are how an attack may end.
var endings = []string{"runs", "input", "unsupported", "budget", "memory", "context"}

// TestAttacks gives models that mean harm, by the field that carries it: each ends in a typed error, runs, or is
// stopped by its context, within a second and 64 MiB. testdata/attacks.txt holds the lines.
func TestAttacks(t *testing.T) {
	rows := newTable()
	add := func(field, attack string, f func() string) {
		line, fault := "", ""
		for range 3 { // a busy machine makes anything slow once
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				fault = spent(func() { line = f() })
			}()
			select {
			case <-ended:
			case <-time.After(20 * mostTime):
				t.Fatalf("%s: %s: no end in sight", field, attack)
			}
			if !strings.HasPrefix(fault, "took") {
				break
			}
		}
		if fault != "" {
			t.Errorf("%s: %s: %s: %.300s", field, attack, fault, line)
		}
		kind, _, _ := strings.Cut(line, ":")
		if !slices.Contains(endings, kind) || strings.ContainsAny(line, "\n\r\x1b") {
			t.Errorf("%s: %s: %.600s", field, attack, line)
		}
		rows.add(field, attack, peaks.ReplaceAllString(line, "$1 … bytes:"))
	}
	for _, a := range attacks {
		data := a.build().Marshal()
		add(a.field, a.attack, func() string { return outcome(t, fstest.MapFS{"model.onnx": {Data: data}}) })
	}
	for _, depth := range []int{100, 100_000} {
		data := nested(depth)
		add("nesting", fmt.Sprintf("%d messages", depth), func() string {
			return outcome(t, fstest.MapFS{"model.onnx": {Data: data}})
		})
	}
	for _, a := range foreignFiles {
		path := a.place(t)
		add("external_data", a.attack, func() string { return ending(guard(func() error { return loadAndRun(t, path) })) })
	}
	for _, a := range wrongValues {
		add("values of "+a.node.OpType, a.what, func() string { return a.run(t) })
	}
	var text strings.Builder
	rows.print(&text)
	compareGolden(t, filepath.Join("testdata", "attacks.txt"), text.String())
}

// compareGolden compares a text with a file's, or writes it.
func compareGolden(t *testing.T, path, text string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got, old := strings.Split(text, "\n"), strings.Split(string(want), "\n")
	for i := range got {
		if i >= len(old) || got[i] != old[i] {
			t.Fatalf("line %d of %s is\n%s\nrun with -rewrite and read the difference", i+1, path, got[i])
		}
	}
	if len(got) != len(old) {
		t.Fatalf("%s has lines of cases that are gone", path)
	}
}

// guard turns a panic that crosses the API into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("PANIC %v", p)
		}
	}()
	return f()
}

// noMemory is the ending of a run whose sizes are more than the machine has.
const noMemory = "memory: more than the machine has"

// said is a node with its operator, or a node alone, as sentences of errors name them.
var said = regexp.MustCompile(`(?:^|: )node (\S+?)(?: \((\S+)\))?: |(?:read by|from) (\S+) \(([\w.:]+)\)`)

// unnamed is what an error's sentence names and its JSON does not: a node, or an operator.
func unnamed(e *weir.Error) string {
	var keys struct{ Node, Op string }
	if text, err := json.Marshal(e); err != nil || json.Unmarshal(text, &keys) != nil {
		return "all"
	}
	parts := said.FindStringSubmatch(e.Error())
	switch {
	case parts == nil:
		return ""
	case parts[1]+parts[3] != "" && keys.Node == "":
		return "the node"
	case parts[2]+parts[4] != "" && keys.Op == "":
		return "the operator"
	}
	return ""
}

// ending is how something ended, in one line.
func ending(err error) string {
	var e *weir.Error
	switch {
	case err == nil:
		return "runs"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "context: " + err.Error()
	case !errors.As(err, &e):
		return "UNTYPED " + err.Error()
	case errors.Is(err, weir.ErrInternal), errors.Is(err, weir.ErrClosed):
		return strings.ToUpper(diag.KindName(err)) + ": " + err.Error()
	}
	if errors.Is(err, weir.ErrMemory) {
		return noMemory // by how much depends on the machine
	}
	text := err.Error()
	if lack := unnamed(e); lack != "" {
		return "UNNAMED " + lack + " in the JSON of " + text
	}
	if _, after, ok := strings.Cut(text, "model.onnx: "); ok {
		text = after
	}
	return diag.KindName(err) + ": " + text
}

// peaks are formulas of memory, which the code for the processor is a part of.
var peaks = regexp.MustCompile(`^(input:) .* bytes:`)

func loadAndRun(t *testing.T, path string) error {
	m, err := weir.Load(path)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
	if err != nil {
		return err
	}
	defer p.Close()
	return runOnZeros(t, p)
}

// valueAttack is one operator whose input a run finds out to be impossible. The node's inputs are x: f32[4,3], wide:
// f32[1,2,3,3], and v: i64 of a length.
type valueAttack struct {
	what   string
	node   *wire.NodeProto
	values []int64
	scalar bool
	legal  bool // ONNX gives the value a meaning
}

func (a valueAttack) run(t *testing.T) string {
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{a.node}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	dims := []*wire.Dimension{wire.Size(int64(len(a.values)))}
	v := tensor.Of(a.values...)
	if a.scalar {
		dims, v = nil, tensor.Scalar(a.values[0])
	}
	used := func(name string) bool { return slices.Contains(a.node.Input, name) }
	add := func(name string, dt int64, dims ...*wire.Dimension) {
		if used(name) {
			g.Input = append(g.Input, wire.TensorValue(name, wire.DataType(dt), dims...))
		}
	}
	add("x", 1, wire.Size(4), wire.Size(3))
	add("wide", 1, wire.Size(1), wire.Size(2), wire.Size(3), wire.Size(3))
	add("signal", 1, wire.Size(1), wire.Size(4), wire.Size(1))
	add("same", 7, wire.Size(4), wire.Size(3))
	add("v", 7, dims...)
	g.Initializer = []*wire.TensorProto{wire.FromTensor("one", tensor.Of[float32](1)),
		wire.FromTensor("two", tensor.Of[float32](0, 1)), wire.FromTensor("zero", tensor.Scalar(int64(0))),
		wire.FromTensor("three", tensor.Scalar(int64(3))), wire.FromTensor("zero1", integers(0)),
		wire.FromTensor("three1", integers(3))}
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	kinds := map[string]string{}
	line := ""
	for _, target := range []weir.Target{weir.Reference, weir.Portable} {
		line = ending(guard(func() error { return a.runOn(t, m.Marshal(), target, v) }))
		// the reference interprets the model as it was imported, and has words of its own
		if kind, _, _ := strings.Cut(line, ":"); line != noMemory {
			kinds[kind] = line
		}
		switch {
		case line == "runs" && !a.legal:
			t.Errorf("%s: %s: it runs", a.node.OpType, a.what)
		case line != "runs" && line != noMemory && !strings.Contains(line, "n (") && !strings.Contains(line, "node n") &&
			!strings.Contains(line, "v[0] ="):
			t.Errorf("%s: %s: %s: neither the node is named nor the input that holds the value: %s", a.node.OpType, a.what,
				target, line)
		case strings.Contains(line, "?") || strings.Contains(line, "v."):
			t.Errorf("%s: %s: %s: a name that nobody but the compiler knows: %s", a.node.OpType, a.what, target, line)
		}
	}
	if len(kinds) > 1 {
		t.Errorf("%s: %s: the targets differ: %v", a.node.OpType, a.what, kinds)
	}
	return line
}

func (a valueAttack) runOn(t *testing.T, data []byte, target weir.Target, v *tensor.Tensor) error {
	m, err := weir.LoadBytes(data)
	if err != nil {
		return err
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Target: target})
	if err != nil {
		return err
	}
	defer p.Close()
	in := weir.Inputs{}
	for _, info := range p.Inputs() {
		given := v
		if info.Name != "v" {
			var shape []int64
			for _, e := range info.Shape {
				shape = append(shape, e.Size)
			}
			given = tensor.Must(tensor.New(info.DType, shape...))
		}
		x, err := values.ToWeir(given)
		if err != nil {
			return err
		}
		defer x.Close()
		in[info.Name] = x
	}
	ctx, cancel := context.WithTimeout(t.Context(), mostTime)
	defer cancel()
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	return r.Close()
}

// on is a node of inputs with spaces between them; "none" is left out.
func on(op string, inputs string, attributes ...*wire.AttributeProto) *wire.NodeProto {
	n := &wire.NodeProto{OpType: op, Name: "n", Input: strings.Split(inputs, " "), Output: []string{"y"},
		Attribute: attributes}
	for i, name := range n.Input {
		if name == "none" {
			n.Input[i] = ""
		}
	}
	return n
}

// giving is the node with more outputs, which nothing reads.
func giving(n *wire.NodeProto, outputs ...string) *wire.NodeProto {
	n.Output = append(n.Output, outputs...)
	return n
}

// wrongValues are what only a run can find out to be impossible.
var wrongValues = []valueAttack{
	{"an index past the end", on("Gather", "x v"), []int64{4}, false, false},
	{"an index before the beginning", on("Gather", "x v"), []int64{-5}, false, false},
	{"the least index", on("Gather", "x v"), []int64{math.MinInt64}, false, false},
	{"the greatest index", on("Gather", "x v"), []int64{1, math.MaxInt64}, false, false},
	{"an index past the end", on("GatherND", "x v"), []int64{4, 0}, false, false},
	{"the least index", on("GatherND", "x v"), []int64{0, math.MinInt64}, false, false},
	{"a depth of −1", on("OneHot", "zero v two"), []int64{-1}, true, false},
	{"a depth of 2⁴⁰", on("OneHot", "zero v two"), []int64{1 << 40}, true, false},
	{"repeats of −1", on("Tile", "x v"), []int64{-1, 1}, false, false},
	{"repeats of 2⁴⁰", on("Tile", "x v"), []int64{1 << 40, 1 << 40}, false, false},
	{"a step of 0", on("Slice", "x zero1 three1 zero1 v"), []int64{0}, false, false},
	{"an axis past the rank", on("CumSum", "x v"), []int64{2}, true, false},
	{"the least axis", on("CumSum", "x v"), []int64{math.MinInt64}, true, false},
	{"k past the extent", giving(on("TopK", "x v"), "i"), []int64{4}, false, false},
	{"k of −1", giving(on("TopK", "x v"), "i"), []int64{-1}, false, false},
	{"a delta of 0", on("Range", "zero three v"), []int64{0}, true, false},
	{"2⁴⁰ elements", on("Range", "zero v three"), []int64{1 << 40}, true, false},
	{"sizes of another product", on("Reshape", "x v"), []int64{5, 2}, false, false},
	{"two unknown sizes", on("Reshape", "x v"), []int64{-1, -1}, false, false},
	{"a size of −2", on("Reshape", "x v"), []int64{-2, 6}, false, false},
	{"a product past 64 bits", on("Reshape", "x v"), []int64{1 << 62, 12}, false, false},
	{"sizes that do not broadcast", on("Expand", "x v"), []int64{3, 3}, false, false},
	{"a size of −1", on("Expand", "x v"), []int64{-1, 3}, false, false},
	{"a size of 2⁴⁰", on("Expand", "x v"), []int64{1 << 40, 4, 3}, false, false},
	{"lengths past the extent", on("ReverseSequence", "x v"), []int64{5, 1, 1}, false, false},
	{"lengths of −1", on("ReverseSequence", "x v"), []int64{-1, 1, 1}, false, false},
	{"2⁴⁰ before", on("Pad", "x v"), []int64{1 << 40, 0, 0, 0}, false, false},
	{"more cut off than there is", on("Pad", "x v"), []int64{-5, 0, 0, 0}, false, false},
	{"the least pad", on("Pad", "x v"), []int64{math.MinInt64, 0, 0, 0}, false, false},
	{"a size of −1", on("ConstantOfShape", "v"), []int64{-1}, false, false},
	{"a size of 2⁴⁰", on("ConstantOfShape", "v"), []int64{1 << 40}, false, false},
	{"a product past 64 bits", on("ConstantOfShape", "v"), []int64{1 << 32, 1 << 32}, false, false},
	{"sizes of another sum", on("Split", "x v"), []int64{5}, false, false},
	{"an axis past the rank", on("Unsqueeze", "x v"), []int64{3}, false, false},
	{"an axis twice", on("Unsqueeze", "x v"), []int64{1, 1}, false, false},
	{"an axis that is not 1", on("Squeeze", "x v"), []int64{0}, false, false},
	{"an axis past the rank", on("ReduceSum", "x v"), []int64{2}, false, false},
	{"sizes of −1", on("Resize", "wide none none v"), []int64{1, 2, -1, 3}, false, false},
	{"sizes of 2⁴⁰", on("Resize", "wide none none v"), []int64{1, 2, 1 << 40, 3}, false, false},
	{"an extent of 2⁴⁰", on("CenterCropPad", "x v"), []int64{1 << 40, 3}, false, false},
	{"a diagonal of 2⁶²", on("Trilu", "x v"), []int64{1 << 62}, true, true},
	{"a size of −1", on("HannWindow", "v"), []int64{-1}, true, false},
	{"a size of 2⁴⁰", on("HannWindow", "v"), []int64{1 << 40}, true, false},
	{"a target past the classes", on("NegativeLogLikelihoodLoss", "x v"), []int64{0, 0, 0, 3}, false, false},
	{"a target of −2", on("NegativeLogLikelihoodLoss", "x v"), []int64{0, 0, 0, -2}, false, true},
	{"more than 2⁴⁰ samples of a length", on("DFT", "signal v"), []int64{1 << 40}, true, false},
}

// TestEndless: a context stops loops without an end, alone, within one another and around host operators; and a
// compilation.
func TestEndless(t *testing.T) {
	yes := constants{"yes": tensor.Scalar(true)}
	inside := forever(attackNode("Neg", []string{"s"}, "s3"))
	inside.Name, inside.Input[2], inside.Output[0] = "inner", "s", "s2"
	for i, name := range []string{"i2", "c2", "s1"} {
		inside.Attribute[0].G.Input[i].Name = name
	}
	inside.Attribute[0].G.Output[0].Name = "c2"
	inside.Attribute[0].G.Node[0].Input[0] = "s1"
	for _, tc := range []struct {
		name  string
		model *wire.ModelProto
	}{
		{"alone", attackModel(yes, forever(attackNode("Neg", []string{"s"}, "s2")))},
		{"one within another", attackModel(yes, forever(inside))},
		{"around a host operator", attackModel(yes, forever(attackNode("Unique", []string{"s"}, "u"),
			attackNode("Neg", []string{"s"}, "s2")))},
	} {
		for _, target := range []weir.Target{weir.Portable, weir.Reference} {
			t.Run(tc.name+" on "+string(target), func(t *testing.T) {
				m, err := weir.LoadBytes(tc.model.Marshal())
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close()
				p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1, Target: target})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				in := weir.Inputs{}
				for _, info := range p.Inputs() {
					x, err := weir.New(info.DType, 2, 3)
					if err != nil {
						t.Fatal(err)
					}
					defer x.Close()
					in[info.Name] = x
				}
				ctx, cancel := context.WithCancel(t.Context())
				stop := time.AfterFunc(30*time.Millisecond, cancel)
				defer stop.Stop()
				begin := time.Now()
				r, err := p.Run(ctx, in)
				if took := time.Since(begin); took > 300*time.Millisecond {
					t.Errorf("it took %v to stop", took)
				}
				if err == nil {
					r.Close()
				}
				if !errors.Is(err, context.Canceled) {
					t.Errorf("it ended with %v", err)
				}
			})
		}
	}
	t.Run("compiling", func(t *testing.T) {
		m, err := weir.LoadBytes(chain(20_000, "many", nil, func(in, out string) *wire.NodeProto {
			return attackNode("Softmax", []string{in}, out)
		}).Marshal())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		begin := time.Now()
		p, err := weir.Compile(ctx, m, weir.Options{Threads: 1})
		if err == nil {
			p.Close()
		}
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took > time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
