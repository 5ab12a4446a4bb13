package conformance

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// valueAttack is one operator with an input that only a run finds invalid. The node's inputs are x: f32[4,3], wide:
// f32[1,2,3,3], and v: i64 of a length.
type valueAttack struct {
	what   string
	node   *wire.NodeProto
	values []int64
	scalar bool
	legal  bool // ONNX defines the value
}

// run returns the ending of the attack, which must be the same on each target.
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
		// the reference interprets the model as imported, and its messages differ
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

// runOn runs the model with v on a target.
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

// on returns a node with inputs, separated by spaces; "none" stands for an absent input.
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

// giving returns the node with more outputs, which nothing reads.
func giving(n *wire.NodeProto, outputs ...string) *wire.NodeProto {
	n.Output = append(n.Output, outputs...)
	return n
}

// wrongValues are inputs that only a run can find invalid.
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
