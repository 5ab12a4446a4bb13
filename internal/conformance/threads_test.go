package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// shared are nodes whose work is divided differently for several workers: convolutions of few rows or planes, products
// of few rows, and kernels that take some microseconds.
var shared = []struct {
	op      string
	x, w    []int64
	pads    []int64
	strides []int64
	groups  int64
}{
	{op: "Conv", x: []int64{1, 64, 17, 17}, w: []int64{64, 64, 1, 7}, pads: []int64{0, 3, 0, 3}},
	{op: "Conv", x: []int64{1, 64, 17, 17}, w: []int64{64, 64, 7, 1}, pads: []int64{3, 0, 3, 0}},
	{op: "Conv", x: []int64{2, 48, 13, 11}, w: []int64{40, 48, 3, 3}, strides: []int64{2, 2}, pads: []int64{1, 1, 1, 1}},
	{op: "Conv", x: []int64{1, 64, 19, 19}, w: []int64{72, 64, 3, 3}},
	{op: "Conv", x: []int64{1, 32, 8, 8}, w: []int64{64, 32, 5, 5}, pads: []int64{2, 2, 2, 2}},
	{op: "Conv", x: []int64{1, 64, 23, 9}, w: []int64{64, 16, 3, 3}, pads: []int64{1, 1, 1, 1}, groups: 4},
	{op: "Conv", x: []int64{1, 64, 8, 8}, w: []int64{64, 64, 3, 3}, pads: []int64{1, 1, 1, 1}},
	{op: "Conv", x: []int64{1, 64, 16, 16}, w: []int64{64, 64, 3, 3}, pads: []int64{1, 1, 1, 1}},
	{op: "Conv", x: []int64{1, 48, 8, 8, 8}, w: []int64{48, 48, 3, 3, 3}, pads: []int64{1, 1, 1, 1, 1, 1}},
	{op: "Conv", x: []int64{1, 32, 7, 8, 8}, w: []int64{64, 32, 3, 3, 3}, pads: []int64{1, 1, 1, 1, 1, 1}},
	{op: "Conv", x: []int64{1, 24, 5, 17, 5}, w: []int64{64, 24, 2, 3, 2}},
	{op: "MatMul", x: []int64{289, 192}, w: []int64{192, 64}},
	{op: "MatMul", x: []int64{100, 96}, w: []int64{96, 126}},
	{op: "Softmax", x: []int64{130, 100}},
	{op: "Tanh", x: []int64{3, 33, 65}},
	{op: "MaxPool", x: []int64{1, 20, 17, 19}},
	{op: "Transpose", x: []int64{70, 90, 3}},
}

// TestSharedWork: with any number of threads, results have the same bits, which are close to those of portable code,
// and the measured bytes are the predicted ones. A kernel with an activation at its end stays one kernel.
func TestSharedWork(t *testing.T) {
	for i, c := range shared {
		t.Run(fmt.Sprint(i, " ", c.op, c.x), func(t *testing.T) {
			model, in := sharedModel(t, i)
			run := func(target weir.Target, threads int) (bits []float32, kernels int) {
				p, err := weir.Compile(t.Context(), model, weir.Options{Threads: threads, Target: target})
				if err != nil {
					t.Fatal(err)
				}
				defer p.Close()
				for range 3 { // the first runs show how long tiles take
					r, err := p.Run(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					out, err := values.FromWeir(r.At(0))
					if err != nil {
						t.Fatal(err)
					}
					bits = bits[:0]
					for k := range out.Len() {
						bits = append(bits, float32(out.Float(k)))
					}
					r.Close()
				}
				memory, err := MemoryOf(t.Context(), p, in)
				if err != nil {
					t.Fatal(err)
				}
				if memory.Measured != memory.Predicted {
					t.Errorf("%d threads: predicted %d bytes, measured %d", threads, memory.Predicted, memory.Measured)
				}
				return bits, len(p.Kernels())
			}
			want, _ := run(weir.Portable, 1)
			one, kernels := run(weir.CPU, 1)
			for i := range want {
				if off := math.Abs(float64(one[i] - want[i])); !(off <= 1e-4*max(1, math.Abs(float64(want[i])))) {
					t.Fatalf("element %d is %v, and %v by portable code", i, one[i], want[i])
				}
			}
			for _, threads := range []int{2, 3, 8} {
				many, more := run(weir.CPU, threads)
				for i := range one {
					if math.Float32bits(many[i]) != math.Float32bits(one[i]) {
						t.Fatalf("element %d is %v on %d threads, and %v on one", i, many[i], threads, one[i])
					}
				}
				if more > kernels {
					t.Errorf("%d kernels for %d threads, and %d for one", more, threads, kernels)
				}
			}
		})
	}
}

// sharedModel returns a model of a node and an activation after it, and its input.
func sharedModel(t *testing.T, i int) (*weir.Model, weir.Inputs) {
	t.Helper()
	c, r := shared[i], rand.New(rand.NewPCG(uint64(i), 1))
	random := func(shape []int64) *tensor.Tensor {
		x, err := tensor.New(weir.F32, shape...)
		if err != nil {
			t.Fatal(err)
		}
		for k := range x.Len() {
			x.SetFloat(k, r.Float64()-0.5)
		}
		return x
	}
	n := &wire.NodeProto{OpType: c.op, Name: "n", Input: []string{"x"}, Output: []string{"z"}}
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{n, {OpType: "Relu", Name: "r", Input: []string{"z"},
		Output: []string{"y"}}}, Output: []*wire.ValueInfoProto{{Name: "y"}}}
	if c.w != nil {
		n.Input = append(n.Input, "w")
		g.Initializer = append(g.Initializer, wire.FromTensor("w", random(c.w)))
	}
	attributes := map[string][]int64{"pads": c.pads, "strides": c.strides}
	if c.op == "MaxPool" {
		attributes["kernel_shape"] = []int64{3, 3}
	}
	for name, list := range attributes {
		if list != nil {
			n.Attribute = append(n.Attribute, &wire.AttributeProto{Name: name, Type: wire.AttributeInts, Ints: list})
		}
	}
	if c.groups > 0 {
		n.Attribute = append(n.Attribute, &wire.AttributeProto{Name: "group", Type: wire.AttributeInt, I: c.groups})
	}
	var dims []*wire.Dimension
	for _, s := range c.x {
		dims = append(dims, wire.Size(s))
	}
	g.Input = append(g.Input, wire.TensorValue("x", wire.DataTypeOf(weir.F32), dims...))
	m, err := weir.LoadBytes((&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}},
		Graph: g}).Marshal())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	x, err := values.ToWeir(random(c.x))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.Close() })
	return m, weir.Inputs{"x": x}
}
