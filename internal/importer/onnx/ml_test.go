package onnx

import (
	"math"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// mlNode returns a model of one node of ai.onnx.ml over constants.
func mlNode(op string, version int64, in []*tensor.Tensor, attrs ...*wire.AttributeProto) *Model {
	n := &wire.NodeProto{OpType: op, Domain: "ai.onnx.ml", Attribute: attrs}
	m := single(n, version, in...)
	if strings.HasSuffix(op, "Classifier") {
		n.Output = append(n.Output, "scores")
	}
	return m
}

// stump returns the attributes of one tree, x[0] <= 2 ? leaf 1 : leaf 2, with some attributes changed.
func stump(changed ...*wire.AttributeProto) []*wire.AttributeProto {
	attrs := []*wire.AttributeProto{
		wire.IntsAttribute("nodes_treeids", 0, 0, 0), wire.IntsAttribute("nodes_nodeids", 0, 1, 2),
		wire.IntsAttribute("nodes_featureids", 0, 0, 0),
		wire.FloatsAttribute("nodes_values", 2, 0, 0), wire.StringsAttribute("nodes_modes", "BRANCH_LEQ", "LEAF", "LEAF"),
		wire.IntsAttribute("nodes_truenodeids", 1, 0, 0), wire.IntsAttribute("nodes_falsenodeids", 2, 0, 0),
		wire.IntsAttribute("target_treeids", 0, 0), wire.IntsAttribute("target_nodeids", 1, 2),
		wire.IntsAttribute("target_ids", 0, 0), wire.FloatsAttribute("target_weights", 5, 7),
		wire.IntAttribute("n_targets", 1),
	}
	for _, a := range changed {
		for i := range attrs {
			if attrs[i].Name == a.Name {
				attrs[i] = a
				a = nil
				break
			}
		}
		if a != nil {
			attrs = append(attrs, a)
		}
	}
	return attrs
}

// TestTreeRules converts a tree, and refuses invalid trees.
func TestTreeRules(t *testing.T) {
	ints := wire.IntsAttribute
	for name, c := range map[string]struct {
		changed []*wire.AttributeProto
		refused string // if empty, the results are 5 and 7
	}{
		"as it is": {nil, ""},
		"base":     {[]*wire.AttributeProto{wire.FloatsAttribute("base_values", 0)}, ""},
		"cycle": {[]*wire.AttributeProto{wire.StringsAttribute("nodes_modes", "BRANCH_LEQ", "BRANCH_LEQ", "LEAF")},
			"leads back"},
		"itself":   {[]*wire.AttributeProto{ints("nodes_truenodeids", 0, 0, 0)}, "leads back"},
		"no child": {[]*wire.AttributeProto{ints("nodes_truenodeids", 9, 0, 0)}, "no node 9"},
		"twice":    {[]*wire.AttributeProto{ints("nodes_nodeids", 0, 1, 1)}, "two nodes 1"},
		"lengths":  {[]*wire.AttributeProto{ints("nodes_featureids", 0)}, "describe the same nodes"},
		"mode": {[]*wire.AttributeProto{wire.StringsAttribute("nodes_modes", "BRANCH_ODD", "LEAF", "LEAF")},
			"BRANCH_ODD"},
		"target":         {[]*wire.AttributeProto{ints("target_ids", 0, 1)}, "target 1 of 1"},
		"targets":        {[]*wire.AttributeProto{ints("target_ids", 0)}, "target_ids"},
		"feature":        {[]*wire.AttributeProto{ints("nodes_featureids", 1<<20, 0, 0)}, "can never hold"},
		"feature below":  {[]*wire.AttributeProto{ints("nodes_featureids", -1, 0, 0)}, "feature -1"},
		"feature beyond": {[]*wire.AttributeProto{ints("nodes_featureids", 1<<32, 0, 0)}, "feature 4294967296"},
		"transform":      {[]*wire.AttributeProto{wire.StringAttribute("post_transform", "ODD")}, "ODD"},
		"aggregate":      {[]*wire.AttributeProto{wire.StringAttribute("aggregate_function", "MEDIAN")}, "MEDIAN"},
	} {
		x := floats([]int64{2, 1}, 2, 3)
		out, err := evaluate(mlNode("TreeEnsembleRegressor", 3, []*tensor.Tensor{x}, stump(c.changed...)...))
		switch {
		case c.refused == "" && (err != nil || out[0].Float(0) != 5 || out[0].Float(1) != 7):
			t.Errorf("%s: %v, %v", name, out, err)
		case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
	}
}

func words(list ...string) *tensor.Tensor {
	return tensor.Must(tensor.OverStrings([]int64{int64(len(list))}, list))
}

// TestLearned compares the results of operators with numbers that were worked out by hand.
func TestLearned(t *testing.T) {
	ints, number, list, str := wire.IntsAttribute, wire.FloatAttribute, wire.FloatsAttribute, wire.StringAttribute
	strs, nan := wire.StringsAttribute, float32(math.NaN())
	x := floats([]int64{2, 3}, 1, -2, 0, nan, 4, 3)
	for _, c := range []struct {
		op    string
		in    []*tensor.Tensor
		attrs []*wire.AttributeProto
		want  *tensor.Tensor
	}{
		{"Binarizer", []*tensor.Tensor{x}, []*wire.AttributeProto{number("threshold", 0.5)},
			floats([]int64{2, 3}, 1, 0, 0, 0, 1, 1)},
		{"Binarizer", []*tensor.Tensor{tensor.Of[int64](0, 1)}, []*wire.AttributeProto{number("threshold", 0.5)},
			tensor.Of[int64](0, 1)},
		{"Imputer", []*tensor.Tensor{x}, []*wire.AttributeProto{list("imputed_value_floats", 7, 8, 9),
			number("replaced_value_float", nan)}, floats([]int64{2, 3}, 1, -2, 0, 7, 4, 3)},
		{"Imputer", []*tensor.Tensor{tensor.Of[int64](1, 2)}, []*wire.AttributeProto{ints("imputed_value_int64s", 9),
			wire.IntAttribute("replaced_value_int64", 2)}, tensor.Of[int64](1, 9)},
		{"Scaler", []*tensor.Tensor{tensor.Of[int64](3, 5)}, []*wire.AttributeProto{list("offset", 1), list("scale", 2, 0.5)},
			tensor.Of[float32](4, 2)},
		{"Normalizer", []*tensor.Tensor{floats([]int64{2, 2}, 3, -4, 0, 0)}, []*wire.AttributeProto{str("norm", "L2")},
			floats([]int64{2, 2}, 0.6, -0.8, 0, 0)},
		{"Normalizer", []*tensor.Tensor{floats([]int64{2, 2}, 3, -4, -1, -2)}, nil, floats([]int64{2, 2}, 1, -4.0/3, 1, 2)},
		{"FeatureVectorizer", []*tensor.Tensor{floats([]int64{2, 2}, 1, 2, 3, 4), tensor.Of[float32](5, 6)},
			[]*wire.AttributeProto{ints("inputdimensions", 1, 2)}, floats([]int64{2, 3}, 1, 5, 0, 3, 6, 0)},
		{"ArrayFeatureExtractor", []*tensor.Tensor{tensor.Of[float32](1, 2, 3), tensor.Of[int64](2, 0)}, nil,
			floats([]int64{1, 2}, 3, 1)},
		{"OneHotEncoder", []*tensor.Tensor{tensor.Of[int64](5, 2, 7)}, []*wire.AttributeProto{ints("cats_int64s", 7, 5)},
			floats([]int64{3, 2}, 0, 1, 0, 0, 1, 0)},
		{"LabelEncoder", []*tensor.Tensor{tensor.Of[float32](2, nan, 3)},
			[]*wire.AttributeProto{list("keys_floats", nan, 2, 2), ints("values_int64s", 10, 20, 30)},
			tensor.Of[int64](20, 10, -1)},
		{"LabelEncoder", []*tensor.Tensor{tensor.Of[int64](9, -9)},
			[]*wire.AttributeProto{ints("keys_int64s", 4, -9), list("values_floats", 1, 2), number("default_float", 0.5)},
			tensor.Of[float32](0.5, 2)},
		{"CategoryMapper", []*tensor.Tensor{words("b", "c", "a")},
			[]*wire.AttributeProto{strs("cats_strings", "a", "b"), ints("cats_int64s", 5, 6),
				wire.IntAttribute("default_int64", 9)}, tensor.Of[int64](6, 9, 5)},
		{"OneHotEncoder", []*tensor.Tensor{words("b", "c", "a")}, []*wire.AttributeProto{strs("cats_strings", "a", "b")},
			floats([]int64{3, 2}, 0, 1, 0, 0, 1, 0)},
		{"LabelEncoder", []*tensor.Tensor{words("b", "c", "a")}, []*wire.AttributeProto{strs("keys_strings", "a", "b"),
			list("values_floats", 5, 6)}, tensor.Of[float32](6, 0, 5)},
		{"LinearRegressor", []*tensor.Tensor{floats([]int64{1, 2}, 3, 4)},
			[]*wire.AttributeProto{list("coefficients", 1, 2, 0, -1), list("intercepts", 0.5, 1),
				wire.IntAttribute("targets", 2)}, floats([]int64{1, 2}, 11.5, -3)},
		{"LinearRegressor", []*tensor.Tensor{floats([]int64{1, 2}, 3, 4)},
			[]*wire.AttributeProto{list("coefficients", 0, 0, 1, 0), wire.IntAttribute("targets", 2),
				str("post_transform", "SOFTMAX_ZERO")}, floats([]int64{1, 2}, 0, 1)},
		{"LinearClassifier", []*tensor.Tensor{floats([]int64{2, 1}, 3, -4)},
			[]*wire.AttributeProto{list("coefficients", 1), list("intercepts", 0), ints("classlabels_ints", 8, 9)},
			tensor.Of[int64](9, 8)},
		{"SVMRegressor", []*tensor.Tensor{floats([]int64{2, 1}, 1, 3)},
			[]*wire.AttributeProto{list("coefficients", 2, -1), list("support_vectors", 1, 2), list("rho", 4),
				wire.IntAttribute("n_supports", 2)}, floats([]int64{2, 1}, 4, 4)},
		{"ZipMap", []*tensor.Tensor{floats([]int64{1, 2}, 0.25, 0.75)},
			[]*wire.AttributeProto{ints("classlabels_int64s", 3, 4)}, floats([]int64{1, 2}, 0.25, 0.75)},
	} {
		out, err := evaluate(mlNode(c.op, 2, c.in, c.attrs...))
		if err != nil {
			t.Errorf("%s: %v", c.op, err)
		} else if err := tensor.Compare(out[0], c.want, 1e-6, 1e-6); err != nil {
			t.Errorf("%s: %v: %v, want %v", c.op, err, out[0], c.want)
		}
	}
	if _, err := evaluate(mlNode("OneHotEncoder", 1, []*tensor.Tensor{tensor.Of[int64](5)}, ints("cats_int64s", 7),
		wire.IntAttribute("zeros", 0))); err == nil {
		t.Error("an element of no category passes where it may not")
	}
}
