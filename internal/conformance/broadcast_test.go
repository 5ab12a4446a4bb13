package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// broadcastCase is a model whose extents a run decides to be 1 or equal: the shapes of its inputs over the names a, b
// and c, and its nodes, of which the last computes y.
type broadcastCase struct {
	name   string
	inputs [][]any
	nodes  []*wire.NodeProto
}

var broadcastCases = []broadcastCase{
	{"vectors", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Add", "x0,x1", "y")}},
	{"rows", [][]any{{"a", 3}, {"b", 3}}, []*wire.NodeProto{operation("Sub", "x0,x1", "y")}},
	{"two axes", [][]any{{"a", "b"}, {"c", "a"}}, []*wire.NodeProto{operation("Mul", "x0,x1", "y")}},
	{"three operands", [][]any{{"a", 2}, {"b", 1}, {"c", 2}},
		[]*wire.NodeProto{operation("Sum", "x0,x1,x2", "y")}},
	{"ranks", [][]any{{"a", 1, "c"}, {"b", "a"}}, []*wire.NodeProto{operation("Max", "x0,x1", "y")}},
	{"again", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Add", "x0,x1", "t"), operation("Mul", "t,x0", "u"),
		operation("Softmax", "u", "v"), operation("Sub", "x1,v", "y")}},
	{"where", [][]any{{"a", 2}, {"b", 1}, {"c", 2}}, []*wire.NodeProto{operation("Less", "x0,x1", "t"),
		operation("Where", "t,x2,x1", "y")}},
	{"expand", [][]any{{"a", 1}, {"b", 2}}, []*wire.NodeProto{operation("Shape", "x1", "s"),
		operation("Expand", "x0,s", "y")}},
	{"matrix products", [][]any{{"a", 2, 3}, {"b", 3, 2}}, []*wire.NodeProto{operation("MatMul", "x0,x1", "y")}},
	{"bias", [][]any{{"a", 2}, {2, "b"}, {"c", "b"}}, []*wire.NodeProto{operation("Gemm", "x0,x1,x2", "y")}},
	{"slope", [][]any{{"a", "b"}, {"c"}}, []*wire.NodeProto{operation("PRelu", "x0,x1", "y")}},
	{"mask", [][]any{{"a", 2, 3}, {"a", "b", 3}, {"c", 1, "b"}}, []*wire.NodeProto{
		operation("Transpose", "x1", "k", wire.IntsAttribute("perm", 0, 2, 1)), operation("MatMul", "x0,k", "t"),
		operation("Add", "t,x2", "u"), operation("Softmax", "u", "v"), operation("MatMul", "v,x1", "y")}},
	{"after it", [][]any{{"a", 2}, {"b", 2}}, []*wire.NodeProto{operation("Add", "x0,x1", "t"),
		operation("Concat", "t,x0", "u", wire.IntAttribute("axis", 0)), operation("ReduceMean", "u", "m"),
		operation("Sub", "t,m", "y")}},
	{"a number", [][]any{{"a", 3}, {"c", "b"}}, []*wire.NodeProto{operation("Sub", "x0,x1", "y")}},
	{"two numbers", [][]any{{"a", 3, "c"}, {2, "b", "c"}}, []*wire.NodeProto{operation("Sub", "x0,x1", "y")}},
	{"data", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Less", "x0,x0", "none"), operation("Not", "none", "all"),
		operation("Compress", "x0,all", "t"), operation("Add", "t,x1", "y")}},
	{"loop", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Add", "x0,x1", "t"), adding("t")}},
	{"carried", [][]any{{"a", 2}, {"b", "c"}}, []*wire.NodeProto{adding("x0")}},
	{"scan", [][]any{{2, "a"}, {"b"}}, []*wire.NodeProto{operation("Scan", "x0", "y",
		wire.IntAttribute("num_scan_inputs", 1), wire.GraphAttribute("body", &wire.GraphProto{Name: "body",
			Node:  []*wire.NodeProto{operation("Add", "e,x1", "w")},
			Input: []*wire.ValueInfoProto{{Name: "e"}}, Output: []*wire.ValueInfoProto{{Name: "w"}}}))}},
}

// adding returns a loop that adds x1 to a tensor, twice.
func adding(to string) *wire.NodeProto {
	return operation("Loop", "trips,,"+to, "y", wire.GraphAttribute("body", &wire.GraphProto{Name: "body",
		Node: []*wire.NodeProto{operation("Identity", "c", "d"), operation("Add", "v,x1", "w")},
		Input: []*wire.ValueInfoProto{wire.TensorValue("i", wire.Int64Type), wire.TensorValue("c", wire.BoolType),
			{Name: "v"}},
		Output: []*wire.ValueInfoProto{{Name: "d"}, {Name: "w"}}}))
}

// model returns the model, without the shape of its output.
func (c broadcastCase) model() *wire.ModelProto {
	g := &wire.GraphProto{Name: "broadcast", Node: c.nodes, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	if c.nodes[len(c.nodes)-1].OpType == "Loop" {
		g.Initializer = []*wire.TensorProto{wire.FromTensor("trips", tensor.Scalar(int64(2)))}
	}
	for i, shape := range c.inputs {
		var dims []*wire.Dimension
		for _, e := range shape {
			if size, fixed := e.(int); fixed {
				dims = append(dims, wire.Size(int64(size)))
			} else {
				dims = append(dims, wire.Dim(e.(string)))
			}
		}
		g.Input = append(g.Input, wire.TensorValue(fmt.Sprintf("x%d", i), wire.FloatType, dims...))
	}
	return &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}
}

// TestBroadcasts compares programs with open dimensions, at extents of 0 to 3, with programs compiled for these
// extents, and their predicted memory with what they take.
func TestBroadcasts(t *testing.T) {
	for _, c := range broadcastCases {
		t.Run(c.name, func(t *testing.T) {
			model, err := weir.LoadBytes(c.model().Marshal())
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			open := map[weir.Target]*weir.Program{}
			for _, target := range []weir.Target{weir.Best, weir.Portable, weir.Reference} {
				if open[target], err = weir.Compile(t.Context(), model, weir.Options{Target: target, Threads: 1}); err != nil {
					t.Fatal(err)
				}
				defer open[target].Close()
			}
			ran, r := 0, rand.New(rand.NewPCG(1, 2))
			for n := range 64 {
				at := map[string]int64{"a": int64(n % 4), "b": int64(n / 4 % 4), "c": int64(n / 16)}
				if c.name == "mask" && at["b"] == 0 { // softmax of no scores
					continue
				}
				if !c.uses("c") && at["c"] != 0 || n%16 != 0 && r.IntN(2) == 0 {
					continue
				}
				if c.name == "bias" && at["c"] != at["a"] && at["c"] != 1 { // it would enlarge the product
					continue
				}
				if c.compare(t, model, open, at) {
					ran++
				}
			}
			if ran < 3 {
				t.Errorf("%d runs", ran)
			}
		})
	}
}

// TestBroadcastsEqual: extents of different names must be equal if a model has many pairs of them, or many nodes and
// declared outputs.
func TestBroadcastsEqual(t *testing.T) {
	pairs := broadcastCase{"pairs", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Add", "x0,x1", "t0")}}
	for i := range 8 {
		pairs.inputs = append(pairs.inputs, []any{fmt.Sprint("d", i)})
		pairs.nodes = append(pairs.nodes, operation("Add", fmt.Sprintf("t%d,x%d", i, i+2), fmt.Sprint("t", i+1)))
	}
	pairs.nodes = append(pairs.nodes, operation("Relu", "t8", "y"))
	nodes := broadcastCase{"nodes", [][]any{{"a"}, {"b"}}, []*wire.NodeProto{operation("Add", "x0,x1", "t0")}}
	for i := range 64 {
		nodes.nodes = append(nodes.nodes, operation("Relu", fmt.Sprint("t", i), fmt.Sprint("t", i+1)))
	}
	nodes.nodes[64].Output[0] = "y"
	for _, c := range []broadcastCase{pairs, nodes} {
		t.Run(c.name, func(t *testing.T) {
			proto := c.model()
			proto.Graph.Output = []*wire.ValueInfoProto{wire.TensorValue("y", wire.FloatType, wire.Dim("c"))}
			model, err := weir.LoadBytes(proto.Marshal())
			if err != nil {
				t.Fatal(err)
			}
			defer model.Close()
			p, err := weir.Compile(t.Context(), model, weir.Options{Target: weir.Portable, Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.Check(weir.Dims{"a": 3, "b": 3}); err != nil {
				t.Errorf("equal extents: %v", err)
			}
			if err := p.Check(weir.Dims{"a": 1, "b": 3}); err == nil || !strings.Contains(err.Error(), "a == b") {
				t.Errorf("extents of 1 and 3: %v", err)
			}
		})
	}
}

// uses reports whether an input has the dimension.
func (c broadcastCase) uses(name string) bool {
	return slices.ContainsFunc(c.inputs, func(shape []any) bool { return slices.Contains(shape, any(name)) })
}

// compare runs the programs at a binding, and reports whether the extents can be broadcast: otherwise all refuse.
func (c broadcastCase) compare(t *testing.T, model *weir.Model, open map[weir.Target]*weir.Program,
	at map[string]int64) bool {
	fixed, dims := map[string]weir.Range{}, weir.Dims{}
	for name, size := range at {
		if c.uses(name) {
			fixed[name], dims[name] = weir.Range{Min: size, Max: size}, size
		}
	}
	inputs := weir.Inputs{}
	for i, shape := range c.inputs {
		var sizes []int
		count := 1
		for _, e := range shape {
			size, number := e.(int)
			if !number {
				size = int(at[e.(string)])
			}
			sizes, count = append(sizes, size), count*size
		}
		elements := make([]float32, count)
		for k := range elements {
			elements[k] = float32((7*k+3*i)%11) - 4
		}
		x, err := weir.FromSlice(elements, sizes...)
		if err != nil {
			t.Fatal(err)
		}
		defer x.Close()
		inputs[fmt.Sprintf("x%d", i)] = x
	}
	var want *weir.Results
	p, err := weir.Compile(t.Context(), model, weir.Options{Target: weir.Portable, Threads: 1, Dims: fixed})
	if err == nil {
		defer p.Close()
		want, err = p.Run(t.Context(), inputs)
	}
	for target, p := range open {
		got, e := p.Run(t.Context(), inputs)
		if (e == nil) != (err == nil) {
			if e == nil {
				got.Close()
			}
			t.Errorf("%v on %s: %v, but for these extents alone: %v", at, target, e, err)
			continue
		}
		if err != nil {
			if !strings.Contains(e.Error(), "does not hold") {
				t.Errorf("%v: %v", at, e)
			}
			continue
		}
		x, err1 := weir.Copy[float32](got.Get("y"))
		y, err2 := weir.Copy[float32](want.Get("y"))
		if a, b := got.Get("y").Shape(), want.Get("y").Shape(); err1 != nil || err2 != nil || !slices.Equal(a, b) ||
			!slices.EqualFunc(x, y, func(x, y float32) bool { return x == y || x != x && y != y || max(x-y, y-x) < 1e-4 }) {
			t.Errorf("%v on %s: %v %v, want %v %v; %v, %v", at, target, a, x, b, y, err1, err2)
		}
		got.Close()
		if target == weir.Reference {
			continue
		}
		m, err1 := p.Measure(t.Context(), inputs)
		// A loop that repeats rows may carry none in the end: its first rows are the bound.
		over := c.name == "carried" && slices.Contains([]int64{at["a"], at["b"]}, 0)
		peak, err2 := p.Memory().Peak(1, dims)
		if err1 != nil || err2 != nil || peak != m.Peak(1) && !(over && peak > m.Peak(1)) {
			t.Errorf("%v on %s: predicted %d bytes, measured %d; %v, %v", at, target, peak, m.Peak(1), err1, err2)
		}
	}
	if err != nil {
		return false
	}
	want.Close()
	return true
}
