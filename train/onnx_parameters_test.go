package train_test

import (
	"math"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/nn"
	"github.com/weirml/weir/train"
)

// parameterCases are models of an input x, [n, 4], by their property, with the initializers that are parameters.
//
//weir:table
var parameterCases = map[string]struct {
	build func(f *file)
	want  []string
	o     array.ModelOptions
}{
	"tied": {func(f *file) {
		f.weight("w", normal(1, 1, 4, 4))
		f.node("MatMul", []string{"x", "w"}, []string{"a"})
		f.node("MatMul", []string{"a", "w"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
	"identities": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.node("Mul", []string{"a", "second"}, []string{"y"})
		f.node("Identity", []string{"first"}, []string{"second"})
		f.node("Identity", []string{"w"}, []string{"first"})
		f.node("Add", []string{"x", "first"}, []string{"a"})
	}, []string{"w"}, array.ModelOptions{}},
	"untied": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.node("Mul", []string{"a", "second"}, []string{"y"})
		f.node("Identity", []string{"first"}, []string{"second"})
		f.node("Identity", []string{"w"}, []string{"first"})
		f.node("Add", []string{"x", "first"}, []string{"a"})
	}, []string{"first", "second"}, array.ModelOptions{Untie: true}},
	"settings": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.weight("scale", number(1))
		f.weight("bound", tensor.Must(tensor.FromSlice([]float32{2}, 1)))
		f.weight("two", tensor.Must(tensor.FromSlice([]float32{2}, 1)))
		f.node("Mul", []string{"x", "w"}, []string{"a"})
		f.node("Mul", []string{"a", "scale"}, []string{"b"})
		f.node("Pow", []string{"b", "two"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
	"scalars": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.weight("scale", tensor.Must(tensor.FromSlice([]float32{3}, []int64{}...)))
		f.node("Mul", []string{"x", "w"}, []string{"a"})
		f.node("Mul", []string{"a", "scale"}, []string{"y"})
	}, []string{"w", "scale"}, array.ModelOptions{Scalars: true}},
	"shapes": {func(f *file) { // floats that the converted model needs as constants
		f.weight("w", normal(1, 1, 4))
		f.weight("extents", tensor.Must(tensor.FromSlice([]float32{2, 2}, 2)))
		f.node("Mul", []string{"x", "w"}, []string{"a"})
		f.node("Cast", []string{"extents"}, []string{"integers"}, wire.IntAttribute("to", 7))
		f.node("Shape", []string{"w"}, []string{"four"})
		f.node("Expand", []string{"a", "four"}, []string{"b"})
		f.node("Unsqueeze", []string{"b", "axis"}, []string{"c"})
		f.weight("axis", tensor.Of(int64(0)))
		f.node("Tile", []string{"b", "integers"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
	"masks": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.weight("mask", tensor.Must(tensor.FromSlice([]float32{0, float32(math.Inf(-1)), 0, 0}, 4)))
		f.weight("least", tensor.Must(tensor.FromSlice([]float32{0, -math.MaxFloat32, 0, 0}, 4)))
		f.node("Mul", []string{"x", "w"}, []string{"a"})
		f.node("Add", []string{"a", "mask"}, []string{"b"})
		f.node("Add", []string{"b", "least"}, []string{"c"})
		f.node("Softmax", []string{"c"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
	"dead ends": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.weight("unread", normal(1, 1, 4))
		f.weight("rounded", normal(1, 1, 4))
		f.node("Mul", []string{"x", "w"}, []string{"a"})
		f.node("Round", []string{"rounded"}, []string{"whole"})
		f.node("Add", []string{"a", "whole"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
	"half": {func(f *file) {
		f.weight("w", halves(normal(1, 1, 4)))
		f.node("Cast", []string{"x"}, []string{"h"}, wire.IntAttribute("to", 10))
		f.node("Mul", []string{"h", "w"}, []string{"a"})
		f.node("Cast", []string{"a"}, []string{"y"}, wire.IntAttribute("to", 1))
	}, []string{"w"}, array.ModelOptions{}},
	"branches": {func(f *file) {
		f.weight("w", normal(1, 1, 4))
		f.weight("v", normal(2, 1, 4))
		f.weight("zero", tensor.Must(tensor.FromSlice([]float32{-1000}, 1)))
		f.node("ReduceSum", []string{"x"}, []string{"sum"}, wire.IntAttribute("keepdims", 0))
		f.node("Greater", []string{"sum", "zero"}, []string{"positive"})
		f.node("If", []string{"positive"}, []string{"y"},
			wire.GraphAttribute("then_branch", body("then", nil, []string{"t"},
				&wire.NodeProto{OpType: "Mul", Input: []string{"x", "w"}, Output: []string{"t"}})),
			wire.GraphAttribute("else_branch", body("else", nil, []string{"e"},
				&wire.NodeProto{OpType: "Mul", Input: []string{"x", "v"}, Output: []string{"e"}})))
	}, []string{"w", "v"}, array.ModelOptions{}},
	"loops": {func(f *file) {
		f.weight("w", normal(1, 0.5, 4))
		f.weight("trips", tensor.Must(tensor.FromSlice([]int64{3}, []int64{}...)))
		turn := []*wire.ValueInfoProto{
			wire.TensorValue("i", wire.DataTypeOf(dtype.I64)), wire.TensorValue("go", wire.DataTypeOf(dtype.Bool)),
			wire.TensorValue("state", wire.DataTypeOf(dtype.F32), wire.Dim("n"), wire.Size(4))}
		loop := body("body", turn, []string{"on", "next"},
			&wire.NodeProto{OpType: "Identity", Input: []string{"go"}, Output: []string{"on"}},
			&wire.NodeProto{OpType: "Mul", Input: []string{"state", "w"}, Output: []string{"next"}})
		f.node("Loop", []string{"trips", "", "x"}, []string{"y"}, wire.GraphAttribute("body", loop))
	}, []string{"w"}, array.ModelOptions{}},
	"functions": {func(f *file) {
		for _, name := range []string{"s", "b", "m", "v"} {
			f.weight(name, positive(4))
		}
		in := []string{"p", "q", "r", "t", "u"}
		f.functions = []*wire.FunctionProto{{Name: "Norm", Domain: "local", Input: in, Output: []string{"z"},
			OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}},
			Node:        []*wire.NodeProto{{OpType: "BatchNormalization", Input: in, Output: []string{"z"}}}}}
		f.node("Norm", []string{"x", "s", "b", "m", "v"}, []string{"y"})
		f.Node[0].Domain = "local"
	}, []string{"s", "b"}, array.ModelOptions{}},
	"quantised inputs": {func(f *file) {
		f.weight("w", normal(1, 1, 4, 4))
		f.weight("scale", tensor.Must(tensor.FromSlice([]float32{0.1}, 1)))
		f.weight("before", normal(1, 1, 4))
		f.weight("zero", tensor.Must(tensor.FromSlice([]int8{0}, 1)))
		f.node("Mul", []string{"x", "before"}, []string{"a"})
		f.node("QuantizeLinear", []string{"a", "scale", "zero"}, []string{"q"}, wire.IntAttribute("axis", 0))
		f.node("DequantizeLinear", []string{"q", "scale", "zero"}, []string{"d"}, wire.IntAttribute("axis", 0))
		f.node("MatMul", []string{"d", "w"}, []string{"y"})
	}, []string{"w"}, array.ModelOptions{}},
}

// TestONNXParameters: the parameters of a model are those that parameterCases lists, and each has a derivative that is
// not zero.
func TestONNXParameters(t *testing.T) {
	for name, c := range parameterCases {
		t.Run(name, func(t *testing.T) {
			f := &file{}
			f.input("x", wire.Dim("n"), wire.Size(4))
			c.build(f)
			if name == "quantised inputs" {
				for _, w := range f.Initializer {
					if len(w.Dims) == 1 && w.Dims[0] == 1 {
						w.Dims = nil
					}
				}
			}
			net, p := mustParse(t, f.bytes("y"), c.o)
			if !slices.Equal(p.Names(), c.want) {
				t.Fatalf("parameters are %v, not %v", p.Names(), c.want)
			}
			derived(t, net, p, name == "branches")
		})
	}
}

// derived checks that each parameter has a derivative that is not zero, and that the written model computes the same.
func derived(t *testing.T, net *train.ONNX, p *nn.Params, oneBranch bool) {
	t.Helper()
	s := array.NewScope("test")
	defer s.Close()
	x := array.From(s, []float32{1, 2, 3, 4, -1, 0.5, 0.25, 2}, 2, 4)
	var weights []*array.Array
	for _, name := range p.Names() {
		weights = append(weights, p.Get(name))
	}
	zeros := 0
	for _, g := range array.Grad(func(s *array.Scope, w ...*array.Array) []*array.Array {
		c := nn.Inference(s, p)
		for i, name := range p.Names() {
			c.Bind(name, w[i])
		}
		y := nn.One(c, net, x)
		return []*array.Array{s.Sum(s.Mul(y, s.Cast(y, weir.F32)))}
	})(s, weights...) {
		if !slices.ContainsFunc(view(t, g), func(x float32) bool { return x != 0 }) {
			zeros++
		}
	}
	if zeros > 0 && !(oneBranch && zeros == 1) {
		t.Errorf("%d of %v have no derivative", zeros, p.Names())
	}
	sameAsWritten(t, s, net, p, x)
}
