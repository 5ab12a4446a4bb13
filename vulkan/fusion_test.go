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

// fusion is a graph from an issue of IREE on which a compiler failed that fuses first and checks shared memory later.
type fusion struct {
	issue   string
	dynamic bool // the rows of some inputs are dynamic
	build   func(g *fusionGraph)
}

// fusionGraph is a graph under construction. Extents are those of the issue, or smaller ones for a run.
type fusionGraph struct {
	graph  *wire.GraphProto
	inputs map[string]*tensor.Tensor
	small  bool
	random *rand.Rand
	count  int
}

// size returns an extent: the issue's, or a smaller one.
func (g *fusionGraph) size(of, small int64) int64 {
	if g.small {
		return small
	}
	return of
}

// input adds an input. A negative extent is dynamic, and has the absolute value when the graph runs.
func (g *fusionGraph) input(name string, dt dtype.DType, shape ...int64) string {
	var dims []*wire.Dimension
	for i, n := range shape {
		if n < 0 {
			shape[i] = -n
			dims = append(dims, wire.Dim("rows"))
			continue
		}
		dims = append(dims, wire.Size(n))
	}
	g.graph.Input = append(g.graph.Input, wire.TensorValue(name, wire.DataTypeOf(dt), dims...))
	if !g.small {
		return name
	}
	x := tensor.Must(tensor.New(dt, shape...))
	for i := range x.Len() {
		if dt.IsInt() {
			x.SetInt(i, g.random.Int64N(15)-7)
		} else {
			x.SetFloat(i, g.random.NormFloat64()/2)
		}
	}
	g.inputs[name] = x
	return name
}

// constant adds a constant of integers.
func (g *fusionGraph) constant(values ...int64) string {
	return g.weight(tensor.Must(tensor.FromSlice(values, int64(len(values)))))
}

// weight adds a constant.
func (g *fusionGraph) weight(x *tensor.Tensor) string {
	g.count++
	name := fmt.Sprintf("c%d", g.count)
	g.graph.Initializer = append(g.graph.Initializer, wire.FromTensor(name, x))
	return name
}

// node adds a node with one output, whose name it returns.
func (g *fusionGraph) node(op string, inputs []string, attributes ...*wire.AttributeProto) string {
	g.count++
	out := fmt.Sprintf("%s%d", op, g.count)
	g.graph.Node = append(g.graph.Node, &wire.NodeProto{OpType: op, Input: inputs, Output: []string{out},
		Attribute: attributes})
	return out
}

func (g *fusionGraph) cast(x string, to dtype.DType) string {
	return g.node("Cast", []string{x}, wire.IntAttribute("to", int64(wire.DataTypeOf(to))))
}

func (g *fusionGraph) output(x string, dt dtype.DType) {
	g.graph.Output = append(g.graph.Output, wire.TensorValue(x, wire.DataTypeOf(dt)))
}

// fusions are the cases, by the number of the issue.
var fusions = []fusion{
	{"20498", false, func(g *fusionGraph) { // a transposed convolution in groups
		x := g.input("x", dtype.F32, g.size(128, 2), 384, g.size(24, 5), g.size(48, 7))
		w := g.input("w", dtype.F32, 384, 128, 1, 3)
		g.output(g.node("ConvTranspose", []string{x, w}, wire.IntAttribute("group", 3),
			wire.IntsAttribute("pads", 0, 1, 0, 1)), dtype.F32)
	}},
	{"18254", false, func(g *fusionGraph) { // a transpose, a conversion and slices
		x := g.input("x", dtype.F32, 1, g.size(4608, 96), 24, 128)
		transposed := g.node("Transpose", []string{x}, wire.IntsAttribute("perm", 0, 2, 1, 3))
		half := g.cast(transposed, dtype.F16)
		a := g.node("Slice", []string{half, g.constant(0), g.constant(64), g.constant(3)})
		b := g.node("Slice", []string{half, g.constant(64), g.constant(128), g.constant(3)})
		g.output(g.node("Concat", []string{g.node("Neg", []string{b}), a}, wire.IntAttribute("axis", 3)), dtype.F16)
	}},
	{"20875", false, func(g *fusionGraph) { // mean and variance of long rows
		x := g.input("x", dtype.F32, 32, g.size(262144, 70000))
		mean := g.node("ReduceMean", []string{x, g.constant(1)})
		off := g.node("Sub", []string{x, mean})
		g.output(g.node("ReduceMean", []string{g.node("Mul", []string{off, off}), g.constant(1)}), dtype.F32)
		g.output(mean, dtype.F32)
	}},
	{"19353", false, func(g *fusionGraph) { // a product of gathered rows and a matrix
		table, at := g.input("table", dtype.F16, g.size(50000, 99), 1280),
			g.weight(tensor.Must(tensor.FromSlice([]int64{7}, 1)))
		w := g.input("w", dtype.F16, 1280, 1280)
		g.output(g.node("MatMul", []string{g.node("Gather", []string{table, at}), w}), dtype.F16)
	}},
	{"17669", false, func(g *fusionGraph) { // a product with a transposed operand
		x, w := g.input("x", dtype.F32, g.size(16384, 100), 512), g.input("w", dtype.F32, 512, 512)
		g.output(g.node("MatMul", []string{x, g.node("Transpose", []string{w}, wire.IntsAttribute("perm", 1, 0))}), dtype.F32)
	}},
	{"18195", false, func(g *fusionGraph) { // a product with an epilogue
		x, w, b := g.input("x", dtype.F32, 1024, g.size(1024, 64)), g.input("w", dtype.F32, g.size(1024, 64), 196),
			g.input("b", dtype.F32, 1024, 196)
		sum := g.node("Add", []string{g.node("MatMul", []string{x, w}), b})
		g.output(g.node("Relu", []string{sum}), dtype.F32)
	}},
	{"18905", false, func(g *fusionGraph) { // a pointwise convolution with an epilogue
		x, w := g.input("x", dtype.F32, 1, 64, g.size(112, 30), g.size(112, 30)), g.input("w", dtype.F32, 256, 64, 1, 1)
		y := g.node("Conv", []string{x, w})
		g.output(g.node("Mul", []string{y, g.node("Sigmoid", []string{y})}), dtype.F32)
	}},
	{"22957", false, func(g *fusionGraph) { // a convolution in groups
		x, w, b := g.input("x", dtype.F32, 1, 128, g.size(56, 12), g.size(56, 12)), g.input("w", dtype.F32, 256, 64, 3, 3),
			g.input("b", dtype.F32, 256)
		g.output(g.node("Relu", []string{g.node("Conv", []string{x, w, b}, wire.IntAttribute("group", 2),
			wire.IntsAttribute("pads", 1, 1, 1, 1))}), dtype.F32)
	}},
	{"22053", true, func(g *fusionGraph) { // a product of f8, and the means of its rows
		x, w := g.input("x", dtype.F8E4M3FNUZ, -g.size(64, 33), g.size(4096, 256)),
			g.input("w", dtype.F8E4M3FNUZ, g.size(4096, 256), g.size(4096, 192))
		y := g.node("MatMul", []string{g.cast(x, dtype.F32), g.cast(w, dtype.F32)})
		g.output(y, dtype.F32)
		g.output(g.node("ReduceMean", []string{y, g.constant(1)}), dtype.F32)
	}},
	{"21487", true, func(g *fusionGraph) { // attention of one query to pages
		heads, width, page := int64(8), int64(128), int64(32)
		pages := g.size(2048, 12)
		keys, values := g.input("keys", dtype.F16, pages, heads, page, width),
			g.input("values", dtype.F16, pages, heads, page, width)
		query := g.input("query", dtype.F16, heads, 1, width)
		g.graph.Input = append(g.graph.Input, wire.TensorValue("table", wire.DataTypeOf(dtype.I64), wire.Dim("rows")))
		if g.small {
			g.inputs["table"] = tensor.Must(tensor.FromSlice([]int64{3, 11, 0, 5, 7}, 5))
		}
		gathered := func(x string) string {
			y := g.node("Transpose", []string{g.node("Gather", []string{x, "table"})}, wire.IntsAttribute("perm", 1, 0, 2, 3))
			return g.node("Reshape", []string{y, g.constant(heads, -1, width)})
		}
		k := g.node("Transpose", []string{gathered(keys)}, wire.IntsAttribute("perm", 0, 2, 1))
		scores := g.node("Softmax", []string{g.node("MatMul", []string{query, k})}, wire.IntAttribute("axis", -1))
		g.output(g.node("MatMul", []string{scores, gathered(values)}), dtype.F16)
	}},
	{"14920", false, func(g *fusionGraph) { // a product of a row and four-bit weights
		rows := g.size(4096, 160)
		x := g.input("x", dtype.F16, 1, rows)
		w, scale := g.input("w", dtype.I4, rows, g.size(4096, 130)), g.input("scale", dtype.F16, rows/32, g.size(4096, 130))
		dequantized := g.node("DequantizeLinear", []string{w, scale}, wire.IntAttribute("axis", 0),
			wire.IntAttribute("block_size", 32))
		g.output(g.node("MatMul", []string{x, dequantized}), dtype.F16)
	}},
	{"23555", true, func(g *fusionGraph) { // a map of a transpose
		x := g.input("x", dtype.F32, -g.size(64, 9), 180, g.size(4096, 77))
		y := g.node("Transpose", []string{g.node("Gelu", []string{x})}, wire.IntsAttribute("perm", 0, 2, 1))
		g.output(g.node("Add", []string{y, g.input("b", dtype.F32, 180)}), dtype.F32)
	}},
	{"21252", true, func(g *fusionGraph) { // a product of f8
		x, w := g.input("x", dtype.F8E4M3FNUZ, -g.size(64, 20), g.size(14336, 500)),
			g.input("w", dtype.F8E4M3FNUZ, g.size(4096, 70), g.size(14336, 500))
		transposed := g.node("Transpose", []string{g.cast(w, dtype.F16)}, wire.IntsAttribute("perm", 1, 0))
		g.output(g.node("MatMul", []string{g.cast(x, dtype.F16), transposed}), dtype.F16)
	}},
	{"24725", true, func(g *fusionGraph) { // a scatter
		x := g.input("x", dtype.F16, -g.size(64, 6), 32, 32, 100)
		g.graph.Input = append(g.graph.Input, wire.TensorValue("at", wire.DataTypeOf(dtype.I64), wire.Size(2), wire.Size(1)))
		if g.small {
			g.inputs["at"] = tensor.Must(tensor.FromSlice([]int64{4, 1}, 2, 1))
		}
		g.output(g.node("ScatterND", []string{x, "at", g.input("updates", dtype.F16, 2, 32, 32, 100)}), dtype.F16)
	}},
}

// model returns the graph's file, with the issue's sizes or, with inputs, small ones.
func (f fusion) model(small bool) ([]byte, map[string]*tensor.Tensor) {
	g := &fusionGraph{graph: &wire.GraphProto{Name: "fusion"}, inputs: map[string]*tensor.Tensor{}, small: small,
		random: rand.New(rand.NewPCG(7, 7))}
	f.build(g)
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g.graph}
	return m.Marshal(), g.inputs
}

// TestFusions compiles the graphs with the issues' sizes, for the issues' shared memory and for far less: no kernel may
// exceed it, and none may run on the host. With small sizes they run on the device, and must agree with the processor.
func TestFusions(t *testing.T) {
	for _, f := range fusions {
		t.Run(f.issue, func(t *testing.T) {
			data, _ := f.model(false)
			// The tests' driver does not have this feature, so that its own limits do not apply.
			for _, shared := range []int64{65536, 32768, 16384, 2048} {
				p, err := compile(t, data, weir.Options{Target: weir.Vulkan,
					Limits: fmt.Sprintf("gfx942,keeps-subnormal,shared=%d", shared)})
				if err != nil {
					t.Fatalf("%d shared bytes: %v", shared, err)
				}
				_, list := p.DeviceKernels()
				for _, k := range list {
					if k.Shared > shared || k.Threads > 1024 {
						t.Errorf("%d shared bytes: %s has %d, and %d threads", shared, k.Name, k.Shared, k.Threads)
					}
				}
				for _, h := range p.OnHost() {
					t.Errorf("%d shared bytes: %s runs on the host: %s", shared, h.Nodes, h.Reason)
				}
				p.Close()
			}
			available(t)
			data, inputs := f.model(true)
			want := f.run(t, data, inputs, weir.Options{})
			for _, limits := range []string{"", smallerLimits(t, 32768, 1024, 1024), smallerLimits(t, 2048, 256, 512),
				smallerLimits(t, 512, 32, 256)} {
				got := f.run(t, data, inputs, weir.Options{Target: weir.Vulkan, Limits: limits})
				for i := range want {
					if err := tensor.Compare(got[i], want[i], 2e-3, 2e-3); err != nil {
						t.Errorf("%q, output %d: %v", limits, i, err)
					}
				}
			}
		})
	}
}

// run compiles and runs a model's file.
func (f fusion) run(t *testing.T, data []byte, inputs map[string]*tensor.Tensor, o weir.Options) []*tensor.Tensor {
	t.Helper()
	p, err := compile(t, data, o)
	if err != nil {
		t.Fatalf("%+v: %v", o, err)
	}
	defer p.Close()
	return results(t, p, inputs)
}
