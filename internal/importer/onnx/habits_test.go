package onnx

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// parsed returns a model of version 17, written and read again.
func parsed(t *testing.T, format int64, g *wire.GraphProto) *Model {
	t.Helper()
	proto := &wire.ModelProto{IRVersion: format, Graph: g}
	if format >= 3 {
		proto.OpsetImport = []*wire.OperatorSetIDProto{{Version: 17}}
	}
	var b bytes.Buffer
	if _, err := proto.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	m, err := Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node returns a node; in and out are names separated by commas.
func node(op string, in, out string, attrs ...*wire.AttributeProto) *wire.NodeProto {
	names := func(s string) []string { return strings.Split(s, ",") }
	n := &wire.NodeProto{OpType: op, Output: names(out), Attribute: attrs}
	if in != "" {
		n.Input = names(in)
	}
	return n
}

// results returns declarations of outputs without types.
func results(names ...string) []*wire.ValueInfoProto {
	var out []*wire.ValueInfoProto
	for _, name := range names {
		out = append(out, &wire.ValueInfoProto{Name: name})
	}
	return out
}

// TestNamelessDimensions shows that every placeholder for an unknown extent becomes a dimension of its own.
func TestNamelessDimensions(t *testing.T) {
	x := wire.TensorValue("x", wire.FloatType, wire.Size(-1), wire.Dim("?"), wire.Dim(""), &wire.Dimension{},
		wire.Dim("-1"), wire.Dim("None"), wire.Dim("past + 1"), wire.Size(3))
	m := parsed(t, 8, &wire.GraphProto{Input: []*wire.ValueInfoProto{x}, Output: results("y"),
		Node: []*wire.NodeProto{node("Relu", "x", "y")}})
	if got, want := m.Inputs[0].Type.String(), `f32[x.0, x.1, x.2, x.3, x.4, x.5, "past + 1", 3]`; got != want {
		t.Errorf("the input is %s, want %s", got, want)
	}
	module, _, err := m.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := ir.Verify(module); err != nil {
		t.Error(err)
	}
	if again, err := ir.Parse(module.String(), ir.ParseOptions{}); err != nil || again.String() != module.String() {
		t.Errorf("the text of the model reads back as %v", err)
	}
}

// TestFormatVersions shows that a file of the first two format versions, which imports nothing, means operator version
// 1, and that a format newer than all known ones is refused.
func TestFormatVersions(t *testing.T) {
	x := wire.TensorValue("x", wire.FloatType, wire.Size(2))
	g := &wire.GraphProto{Input: []*wire.ValueInfoProto{x}, Output: results("y"),
		Node: []*wire.NodeProto{node("Relu", "x", "y", wire.IntsAttribute("consumed_inputs", 0))}}
	if _, _, err := parsed(t, 2, g).Build(nil); err != nil {
		t.Errorf("version 2: %v", err)
	}
	if _, _, err := parsed(t, 8, g).Build(nil); !errors.Is(err, diag.ErrInput) ||
		!strings.Contains(err.Error(), "consumed_inputs") {
		t.Errorf("consumed_inputs in version 17: %v", err)
	}
	if _, _, err := parsed(t, convert.NewestFormat+1, g).Build(nil); !errors.Is(err, diag.ErrUnsupported) ||
		!strings.Contains(err.Error(), "ir_version") {
		t.Errorf("version %d: %v", convert.NewestFormat+1, err)
	}
}

// TestInitializersAsInputs shows that an input that has an initializer is not an input of the model, in every version
// of the format, and that values in between need no declared type.
func TestInitializersAsInputs(t *testing.T) {
	for _, format := range []int64{3, 8} {
		m := parsed(t, format, &wire.GraphProto{
			Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Size(2)),
				wire.TensorValue("w", wire.FloatType, wire.Size(2))},
			Initializer: []*wire.TensorProto{wire.FromTensor("w", tensor.Of[float32](10, 20))},
			Output:      results("y"),
			Node: []*wire.NodeProto{node("Add", "x,w", "sum"), node("Clip", "sum,,", "between"),
				node("Neg", "between", "y")},
		})
		if len(m.Inputs) != 1 || m.Inputs[0].Name != "x" || !slices.Equal(m.Defaults, []string{"w"}) {
			t.Fatalf("inputs %v, defaults %v", m.Inputs, m.Defaults)
		}
		module, _, err := m.Build(nil)
		if err != nil {
			t.Fatal(err)
		}
		out, err := ir.Evaluate(module, []*tensor.Tensor{tensor.Of[float32](1, 2)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := tensor.Compare(out[0], tensor.Of[float32](-11, -22), 0, 0); err != nil {
			t.Error(err)
		}
	}
}

// TestConstants reads every attribute in which a Constant may hold its value.
func TestConstants(t *testing.T) {
	sparse := func(values, indices *tensor.Tensor, dims ...int64) *wire.AttributeProto {
		return &wire.AttributeProto{Name: "sparse_value", Type: wire.AttributeSparseTensor,
			SparseTensor: sparseTensor("", values, indices, dims...)}
	}
	for _, c := range []struct {
		a    *wire.AttributeProto
		want *tensor.Tensor
	}{
		{wire.TensorAttribute("value", wire.FromTensor("", tensor.Of[int32](1, 2))), tensor.Of[int32](1, 2)},
		{wire.FloatAttribute("value_float", 2.5), tensor.Scalar[float32](2.5)},
		{wire.FloatsAttribute("value_floats", 2.5, 3), tensor.Of[float32](2.5, 3)},
		{wire.IntAttribute("value_int", 7), tensor.Scalar[int64](7)},
		{wire.IntsAttribute("value_ints", 7, 8), tensor.Of[int64](7, 8)},
		{wire.StringAttribute("value_string", "a"), tensor.Must(tensor.OverStrings(nil, []string{"a"}))},
		{wire.StringsAttribute("value_strings", "a", "b"), tensor.Must(tensor.OverStrings([]int64{2}, []string{"a", "b"}))},
		{sparse(tensor.Of[float32](5, 6), tensor.Of[int64](1, 3), 2, 2), floats([]int64{2, 2}, 0, 5, 0, 6)},
	} {
		m := parsed(t, 8, &wire.GraphProto{Output: results("y"), Node: []*wire.NodeProto{node("Constant", "", "y", c.a)}})
		module, _, err := m.Build(nil)
		if err != nil {
			t.Errorf("%s: %v", c.a.Name, err)
			continue
		}
		results := module.Main.Body.Results
		got := results[0].Const
		if got != nil && len(results) == 2 {
			if got, err = tensor.UnpackStrings(got, results[1].Const.Bytes()); err != nil {
				t.Fatal(err)
			}
		}
		if got == nil || got.DType() != c.want.DType() || !slices.Equal(got.Shape(), c.want.Shape()) {
			t.Errorf("%s is %v", c.a.Name, got)
		} else if got.DType() == dtype.String && !slices.Equal(got.Strings(), c.want.Strings()) ||
			got.DType() != dtype.String && !bytes.Equal(got.Bytes(), c.want.Bytes()) {
			t.Errorf("%s is %v", c.a.Name, got)
		}
	}
}

// sparseTensor returns a sparse tensor of values at positions.
func sparseTensor(name string, values, indices *tensor.Tensor, dims ...int64) *wire.SparseTensorProto {
	s := &wire.SparseTensorProto{Values: wire.FromTensor(name, values), Dims: dims}
	if indices != nil {
		s.Indices = wire.FromTensor("", indices)
	}
	return s
}

// TestSparseInitializers reads positions as coordinates and as flat indices, and refuses wrong ones.
func TestSparseInitializers(t *testing.T) {
	matrix := func(rows int64, x ...int64) *tensor.Tensor {
		return tensor.Must(tensor.Of(x...).Reshape(rows, int64(len(x))/rows))
	}
	three := tensor.Of[float32](1, 2, 3)
	for _, c := range []struct {
		name    string
		s       *wire.SparseTensorProto
		want    *tensor.Tensor
		refused string
		kind    error
	}{
		{name: "flat", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 5), 2, 3),
			want: floats([]int64{2, 3}, 1, 0, 2, 0, 0, 3)},
		{name: "coordinates", s: sparseTensor("w", three, matrix(3, 0, 1, 1, 0, 1, 2), 2, 3),
			want: floats([]int64{2, 3}, 0, 1, 0, 2, 0, 3)},
		{name: "empty", s: sparseTensor("w", tensor.Of[float32](), nil, 2), want: tensor.Of[float32](0, 0)},
		{name: "outside", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 6), 2, 3), refused: "element 2",
			kind: diag.ErrInput},
		{name: "below 0", s: sparseTensor("w", three, matrix(3, 0, -1, 1, 0, 1, 2), 2, 3), refused: "element 0",
			kind: diag.ErrInput},
		{name: "twice", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 2), 2, 3), refused: "element 2",
			kind: diag.ErrInput},
		{name: "too few positions", s: sparseTensor("w", three, tensor.Of[int64](0, 2), 2, 3), refused: "positions",
			kind: diag.ErrInput},
		{name: "another rank", s: sparseTensor("w", three, matrix(3, 0, 1, 2), 2, 3), refused: "positions",
			kind: diag.ErrInput},
		{name: "no positions", s: sparseTensor("w", three, nil, 2, 3), refused: "without positions", kind: diag.ErrInput},
		{name: "no values", s: &wire.SparseTensorProto{Dims: []int64{2}}, refused: "without a name", kind: diag.ErrInput},
		{name: "floats for positions", s: sparseTensor("w", three, three, 2, 3), refused: "positions", kind: diag.ErrInput},
		{name: "a huge one", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 5), 1<<20, 1<<20),
			refused: "of which the file holds 3", kind: diag.ErrUnsupported},
		{name: "overflow", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 5), 1<<40, 1<<40), refused: "w",
			kind: diag.ErrInput},
		{name: "a negative extent", s: sparseTensor("w", three, tensor.Of[int64](0, 2, 5), -1, 3), refused: "w",
			kind: diag.ErrInput},
	} {
		m := parsed(t, 8, &wire.GraphProto{
			Input:             []*wire.ValueInfoProto{wire.TensorValue("w", wire.FloatType)},
			SparseInitializer: []*wire.SparseTensorProto{c.s},
			Output:            results("y"), Node: []*wire.NodeProto{node("Identity", "w", "y")},
		})
		if c.s.Values == nil {
			m.Inputs = nil
		}
		out, err := evaluate(m)
		switch {
		case c.refused != "":
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s: %v, want an error that says %q", c.name, err, c.refused)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		default:
			if err := tensor.Compare(out[0], c.want, 0, 0); err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestAnyOrder shows that nodes may be in any order, that subgraphs may read values that come later in the file, and
// that a cycle is an error.
func TestAnyOrder(t *testing.T) {
	branch := func(read string) *wire.GraphProto {
		return &wire.GraphProto{Node: []*wire.NodeProto{node("Add", read+",z", "sum")}, Output: results("sum")}
	}
	x := wire.TensorValue("x", wire.FloatType, wire.Size(2))
	choose := node("If", "flag", "chosen", wire.GraphAttribute("then_branch", branch("x")),
		wire.GraphAttribute("else_branch", branch("x")))
	m := parsed(t, 8, &wire.GraphProto{Input: []*wire.ValueInfoProto{x}, Output: results("y"), Node: []*wire.NodeProto{
		node("Neg", "chosen", "y"), choose, node("Mul", "x,x", "z"),
		node("Constant", "", "flag", wire.TensorAttribute("value", wire.FromTensor("", tensor.Scalar(true)))),
	}})
	module, _, err := m.Build(nil)
	if err != nil {
		t.Fatal(err)
	}
	out, err := ir.Evaluate(module, []*tensor.Tensor{tensor.Of[float32](2, 3)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Compare(out[0], tensor.Of[float32](-6, -12), 0, 0); err != nil {
		t.Error(err)
	}
	m = parsed(t, 8, &wire.GraphProto{Input: []*wire.ValueInfoProto{x}, Output: results("y"),
		Node: []*wire.NodeProto{node("Add", "x,b", "a"), node("Add", "x,a", "b"), node("Neg", "a", "y")}})
	if _, _, err := m.Build(nil); !errors.Is(err, diag.ErrInput) ||
		!strings.Contains(err.Error(), `"b", is computed by nothing before it`) {
		t.Errorf("a circle: %v", err)
	}
}
