package onnx

import (
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/convert"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/tensor"
)

// single returns a model of one node at a version of its domain; its inputs are constants, its outputs y, y1, …
func single(n *wire.NodeProto, version int64, in ...*tensor.Tensor) *Model {
	g := &wire.GraphProto{Node: []*wire.NodeProto{n}}
	n.Input, n.Output = nil, []string{"y"}
	for i, t := range in {
		if t == nil {
			n.Input = append(n.Input, "")
			continue
		}
		p := wire.FromTensor(string(rune('a'+i)), t)
		n.Input = append(n.Input, p.Name)
		g.Initializer = append(g.Initializer, p)
	}
	m := newModel(noClaim(), &wire.ModelProto{Graph: g})
	m.Outputs = []convert.Port{{Name: "y"}}
	m.Opsets[""], m.Opsets[n.Domain] = version, version
	return m
}

// evaluate returns the results of a model without inputs.
func evaluate(m *Model) ([]*tensor.Tensor, error) {
	module, _, err := m.Build(nil)
	if err != nil {
		return nil, err
	}
	if err := ir.Verify(module); err != nil {
		return nil, err
	}
	return ir.Evaluate(module, nil, nil)
}

func floats(shape []int64, x ...float32) *tensor.Tensor {
	return tensor.Must(tensor.Of(x...).Reshape(shape...))
}

// firstVersion is a node at an old version of its operator, with its first output, or a substring of the refusal.
type firstVersion struct {
	op      string
	version int64
	in      []*tensor.Tensor
	attrs   []*wire.AttributeProto
	want    *tensor.Tensor
	refused string
}

// firstVersions returns nodes whose results are worked out by hand from the operators' documentation.
//
//weir:table
func firstVersions() []firstVersion {
	ints, number, str, list := wire.IntsAttribute, wire.FloatAttribute, wire.StringAttribute, wire.FloatsAttribute
	flag := func(name string) *wire.AttributeProto { return wire.IntAttribute(name, 1) }
	x := floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6)
	image := floats([]int64{1, 2, 2, 2}, 1, 2, 3, 4, 5, 6, 7, 8)
	return []firstVersion{
		{op: "Add", version: 6, in: []*tensor.Tensor{x, tensor.Of[float32](10, 20)},
			attrs: []*wire.AttributeProto{flag("broadcast"), wire.IntAttribute("axis", 0)},
			want:  floats([]int64{2, 3}, 11, 12, 13, 24, 25, 26)},
		{op: "Sub", version: 1, in: []*tensor.Tensor{x, tensor.Of[float32](1, 2, 3)},
			attrs: []*wire.AttributeProto{flag("broadcast"), ints("consumed_inputs", 0, 0)},
			want:  floats([]int64{2, 3}, 0, 0, 0, 3, 3, 3)},
		{op: "Mul", version: 6, in: []*tensor.Tensor{x, tensor.Of[float32](1, 10)},
			attrs: []*wire.AttributeProto{flag("broadcast"), wire.IntAttribute("axis", -2)},
			want:  floats([]int64{2, 3}, 1, 2, 3, 40, 50, 60)},
		{op: "Add", version: 6, in: []*tensor.Tensor{x, x}, attrs: []*wire.AttributeProto{flag("broadcast"),
			wire.IntAttribute("axis", 1)}, refused: "axis 1"},
		{op: "Add", version: 7, in: []*tensor.Tensor{x, x}, attrs: []*wire.AttributeProto{flag("broadcast")},
			refused: `no attribute "broadcast"`},
		{op: "Pow", version: 1, in: []*tensor.Tensor{x, tensor.Of[float32](2, 3)},
			attrs: []*wire.AttributeProto{flag("broadcast"), wire.IntAttribute("axis", 0)},
			want:  floats([]int64{2, 3}, 1, 4, 9, 64, 125, 216)},
		{op: "PRelu", version: 6, in: []*tensor.Tensor{floats([]int64{1, 2, 2}, -1, -2, -3, -4), tensor.Of[float32](2, 10)},
			want: floats([]int64{1, 2, 2}, -2, -4, -30, -40)},
		{op: "Reshape", version: 1, in: []*tensor.Tensor{x}, attrs: []*wire.AttributeProto{ints("shape", -1, 2),
			ints("consumed_inputs", 0)}, want: floats([]int64{3, 2}, 1, 2, 3, 4, 5, 6)},
		{op: "Reshape", version: 4, in: []*tensor.Tensor{x}, refused: "attribute shape is missing"},
		{op: "Reshape", version: 21, in: []*tensor.Tensor{x, tensor.Of[float32](6)},
			refused: "input 1 is of f32, and must be integers"},
		{op: "Unsqueeze", version: 21, in: []*tensor.Tensor{x, tensor.Of[float32](0)},
			refused: "input 1 is of f32, and must be integers"},
		{op: "Gather", version: 21, in: []*tensor.Tensor{x, tensor.Of[float32](0)},
			refused: "input 1 is of f32, and must be integers"},
		{op: "Concat", version: 3, in: []*tensor.Tensor{x, x}, want: floats([]int64{2, 6}, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5,
			6)},
		{op: "Cast", version: 5, in: []*tensor.Tensor{tensor.Of[float32](1.5, -2.5)},
			attrs: []*wire.AttributeProto{str("to", "INT32")}, want: tensor.Of[int32](1, -2)},
		{op: "Cast", version: 5, in: []*tensor.Tensor{x}, attrs: []*wire.AttributeProto{str("to", "INTEGER")},
			refused: `"INTEGER"`},
		{op: "Pad", version: 1, in: []*tensor.Tensor{tensor.Of[float32](1, 2)},
			attrs: []*wire.AttributeProto{ints("paddings", 1, 2), number("value", 7)}, want: tensor.Of[float32](7, 1, 2, 7, 7)},
		{op: "Tile", version: 5, in: []*tensor.Tensor{floats([]int64{1, 2}, 1, 2), tensor.Scalar(int64(2)),
			tensor.Scalar(int64(-1))}, want: floats([]int64{1, 4}, 1, 2, 1, 2)},
		{op: "Split", version: 1, in: []*tensor.Tensor{tensor.Of[float32](1, 2, 3), tensor.Of(int64(1), 2)},
			attrs: []*wire.AttributeProto{wire.IntAttribute("axis", 0)}, want: tensor.Of[float32](1)},
		{op: "Clip", version: 1, in: []*tensor.Tensor{x}, attrs: []*wire.AttributeProto{number("max", 2),
			ints("consumed_inputs", 0)}, want: floats([]int64{2, 3}, 1, 2, 2, 2, 2, 2)},
		{op: "Upsample", version: 1, in: []*tensor.Tensor{floats([]int64{1, 1, 1, 2}, 1, 2)},
			attrs: []*wire.AttributeProto{number("height_scale", 1), number("width_scale", 2)},
			want:  floats([]int64{1, 1, 1, 4}, 1, 1, 2, 2)},
		{op: "GlobalLpPool", version: 1, in: []*tensor.Tensor{floats([]int64{1, 1, 2}, 3, 4)},
			attrs: []*wire.AttributeProto{number("p", 2)}, want: floats([]int64{1, 1, 1}, 5)},
		{op: "GlobalLpPool", version: 1, in: []*tensor.Tensor{image}, attrs: []*wire.AttributeProto{number("p", 2.5)},
			refused: "2.5"},
		{op: "Dropout", version: 6, in: []*tensor.Tensor{x}, attrs: []*wire.AttributeProto{flag("is_test")}, want: x},
		{op: "Dropout", version: 6, in: []*tensor.Tensor{x}, refused: "is_test is 0"},
		{op: "Selu", version: 1, in: []*tensor.Tensor{tensor.Of[float32](2)}, want: tensor.Of[float32](2.1014)},
		// Operators on trial: alpha·x + beta, the hyperbolic tangent's limits, ln(1 + eˣ) far from 0, and so on.
		{op: "Affine", version: 1, in: []*tensor.Tensor{tensor.Of[float32](1, 2)},
			attrs: []*wire.AttributeProto{number("alpha", 3), number("beta", 1)}, want: tensor.Of[float32](4, 7)},
		{op: "ScaledTanh", version: 1, in: []*tensor.Tensor{x}, attrs: []*wire.AttributeProto{number("alpha", 3)},
			refused: "attribute beta is missing"},
		{op: "Affine", version: 10, in: []*tensor.Tensor{x}, refused: "operators Affine"},
		{op: "Scale", version: 1, in: []*tensor.Tensor{tensor.Of[float32](1, 2)},
			attrs: []*wire.AttributeProto{number("scale", 3)}, want: tensor.Of[float32](3, 6)},
		{op: "ScaledTanh", version: 1, in: []*tensor.Tensor{tensor.Of[float32](0, 100)},
			attrs: []*wire.AttributeProto{number("alpha", 3), number("beta", 2)}, want: tensor.Of[float32](0, 3)},
		{op: "ParametricSoftplus", version: 1, in: []*tensor.Tensor{tensor.Of[float32](-100, 100)},
			attrs: []*wire.AttributeProto{number("alpha", 3), number("beta", 2)}, want: tensor.Of[float32](0, 600)},
		{op: "ImageScaler", version: 1, in: []*tensor.Tensor{image},
			attrs: []*wire.AttributeProto{number("scale", 2), list("bias", 1, -1)},
			want:  floats([]int64{1, 2, 2, 2}, 3, 5, 7, 9, 9, 11, 13, 15)},
		{op: "Crop", version: 1, in: []*tensor.Tensor{image}, attrs: []*wire.AttributeProto{ints("border", 1, 0, 0, 1)},
			want: floats([]int64{1, 2, 1, 1}, 2, 6)},
		{op: "Crop", version: 1, in: []*tensor.Tensor{image}, attrs: []*wire.AttributeProto{ints("border", 0, 1, 0, 0),
			ints("scale", 1, 2)}, want: floats([]int64{1, 2, 1, 2}, 3, 4, 7, 8)},
		{op: "Crop", version: 1, in: []*tensor.Tensor{image}, attrs: []*wire.AttributeProto{ints("border", 2, 2, 1, 1)},
			refused: "what a crop leaves"},
		{op: "DynamicSlice", version: 1, in: []*tensor.Tensor{x, tensor.Of(int64(1)), tensor.Of(int64(2)),
			tensor.Of(int64(1))}, want: floats([]int64{2, 1}, 2, 5)},
		{op: "GivenTensorFill", version: 1, attrs: []*wire.AttributeProto{list("values", 1, 2), ints("shape", 2, 1)},
			want: floats([]int64{2, 1}, 1, 2)},
		{op: "ConstantFill", version: 1, in: []*tensor.Tensor{tensor.Of(int64(2))},
			attrs: []*wire.AttributeProto{flag("input_as_shape"), number("value", 3), ints("extra_shape", 1)},
			want:  floats([]int64{2, 1}, 3, 3)},
		{op: "MeanVarianceNormalization", version: 1, in: []*tensor.Tensor{image},
			attrs: []*wire.AttributeProto{wire.IntAttribute("normalize_variance", 0)},
			want:  floats([]int64{1, 2, 2, 2}, -1.5, -.5, .5, 1.5, -1.5, -.5, .5, 1.5)},
		{op: "GRUUnit", version: 1, in: []*tensor.Tensor{x}, refused: "operators GRUUnit"},
		{op: "ATen", version: 1, in: []*tensor.Tensor{x}, refused: "operators ATen"},
	}
}

// TestFirstVersions compares the oldest versions of operators with results that follow from their documentation.
func TestFirstVersions(t *testing.T) {
	for _, c := range firstVersions() {
		n := &wire.NodeProto{OpType: c.op, Attribute: c.attrs}
		m := single(n, c.version, c.in...)
		if c.op == "Split" {
			n.Output = append(n.Output, "rest")
		}
		out, err := evaluate(m)
		switch {
		case c.refused != "":
			if err == nil || !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%s at version %d: %v, want a refusal that says %q", c.op, c.version, err, c.refused)
			}
		case err != nil:
			t.Errorf("%s at version %d: %v", c.op, c.version, err)
		default:
			if err := tensor.Compare(out[0], c.want, 1e-4, 1e-5); err != nil {
				t.Errorf("%s at version %d: %v", c.op, c.version, err)
			}
		}
	}
}

// TestRowsOfVersions shows that the version that a model imports selects the rule.
func TestRowsOfVersions(t *testing.T) {
	if rules.Rule("Crop", 9) == nil || rules.Rule("Crop", 10) != nil || rules.Rule("Nothing", 1) != nil {
		t.Error("Crop is an operator of versions 1 to 9")
	}
}
