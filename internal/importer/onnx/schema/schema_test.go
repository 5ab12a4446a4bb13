package schema

import (
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
)

// TestTable checks the table: versions ascend, attributes are sorted, every type is known, and the counts are those of
// ONNX 1.23.
func TestTable(t *testing.T) {
	versions := 0
	for k, list := range table() {
		for i, o := range list {
			versions++
			if k.domain == "" && o.Since > Newest || o.Since < 1 {
				t.Errorf("%s has version %d", k.name, o.Since)
			}
			if i > 0 && list[i-1].Since >= o.Since {
				t.Errorf("%s: version %d follows %d", k.name, o.Since, list[i-1].Since)
			}
			if !slices.IsSortedFunc(o.Attributes, func(a, b Attribute) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("%s %d: attributes are not sorted", k.name, o.Since)
			}
			for _, p := range slices.Concat(o.Inputs, o.Outputs) {
				for _, accepted := range o.Accepts(&p) {
					if len(o.Types[p.Type]) == 0 && strings.ToUpper(accepted) == accepted {
						t.Errorf("%s %d: %s has the type %s, which is none", k.name, o.Since, p.Name, accepted)
					}
				}
			}
		}
	}
	if n := len(Names("")); n != 203 {
		t.Errorf("%d operators of ai.onnx", n)
	}
	if versions != 817 {
		t.Errorf("%d versions in all", versions)
	}
}

// TestLookup finds the newest version of an operator that is not newer than the requested one.
func TestLookup(t *testing.T) {
	for _, c := range []struct {
		domain, name   string
		version, since int64 // since 0: there is none
	}{
		{"", "Conv", 1, 1}, {"", "Conv", 10, 1}, {"ai.onnx", "Conv", 11, 11}, {"", "Conv", 27, 22},
		{"", "Conv", math.MaxInt64, 22},
		{"", "Conv", 0, 0}, {"", "Conv", -1, 0}, {"", "Gelu", 19, 0}, {"", "Gelu", 20, 20}, {"", "conv", 20, 0},
		{"", "", 20, 0},
		{"ai.onnx.ml", "Scaler", 3, 1}, {"", "Scaler", 3, 0}, {"com.microsoft", "Conv", 3, 0},
		{"com.microsoft", "FusedConv", 1, 1},
		{"", "SwiGLU", 27, 0}, {"", "SwiGLU", 28, 28}, {"", "Attention", 25, 25}, {"", "Crop", 9, 1},
		{"", "LayerNormalization", 13, 1},
	} {
		o, ok := Lookup(c.domain, c.name, c.version)
		if ok != (c.since > 0) || ok && o.Since != c.since {
			t.Errorf("%s:%s at %d is %+v, want version %d", c.domain, c.name, c.version, o, c.since)
		}
	}
	if got := Versions("", "Softmax"); !slices.Equal(got, []int64{1, 11, 13}) {
		t.Errorf("Softmax has versions %v", got)
	}
}

// TestDefaults compares the defaults of some attributes, and their types, with expected ones.
func TestDefaults(t *testing.T) {
	for _, c := range []struct {
		name      string
		version   int64
		attribute string
		want      *wire.AttributeProto
	}{
		{"Softmax", 11, "axis", wire.IntAttribute("axis", 1)},
		{"Softmax", 13, "axis", wire.IntAttribute("axis", -1)},
		{"Conv", 22, "auto_pad", wire.StringAttribute("auto_pad", "NOTSET")},
		{"Conv", 22, "pads", nil},
		{"Selu", 22, "alpha", wire.FloatAttribute("alpha", 1.67326319217681884765625)},
		{"BatchNormalization", 15, "epsilon", wire.FloatAttribute("epsilon", 1e-5)},
		{"Upsample", 7, "mode", wire.StringAttribute("mode", "nearest")},
	} {
		o, _ := Lookup("", c.name, c.version)
		a := o.Attribute(c.attribute)
		if a == nil {
			t.Fatalf("%s has no %s", c.name, c.attribute)
		}
		switch got := a.Default; {
		case (got == nil) != (c.want == nil):
			t.Errorf("%s.%s: default %+v", c.name, c.attribute, got)
		case got != nil && (got.I != c.want.I || got.F != c.want.F || string(got.S) != string(c.want.S) ||
			got.Type != c.want.Type || a.Kind != got.Type):
			t.Errorf("%s.%s: default %+v, want %+v", c.name, c.attribute, got, c.want)
		}
	}
}

// TestCheck accepts nodes that fit their operator, and refuses each kind of mistake by an error that names it.
func TestCheck(t *testing.T) {
	node := func(op string, in, out int, attributes ...*wire.AttributeProto) *wire.NodeProto {
		names := func(n int) []string { return slices.Repeat([]string{"v"}, n) }
		return &wire.NodeProto{Name: "n", OpType: op, Input: names(in), Output: names(out), Attribute: attributes}
	}
	leaving := func(n *wire.NodeProto, i int) *wire.NodeProto { n.Input[i] = ""; return n }
	for _, c := range []struct {
		node    *wire.NodeProto
		version int64
		want    string
	}{
		{node("Conv", 2, 1), 22, ""},
		{node("Conv", 3, 1, wire.IntAttribute("group", 2), wire.IntsAttribute("pads", 1, 1)), 22, ""},
		{node("Conv", 1, 1), 22, "1 inputs where the operator has 2 to 3 (version 22)"},
		{node("Conv", 4, 1), 11, "4 inputs where the operator has 2 to 3 (version 11)"},
		{node("Conv", 2, 2), 22, "2 outputs where the operator has 1"},
		{node("Conv", 2, 0), 22, "0 outputs where the operator has 1"},
		{leaving(node("Conv", 3, 1), 2), 22, ""},
		{leaving(node("Conv", 3, 1), 1), 22, ""},
		{node("Concat", 9, 1, wire.IntAttribute("axis", 0)), 13, ""},
		{node("Concat", 0, 1, wire.IntAttribute("axis", 0)), 13, "0 inputs where the operator has at least 1"},
		{node("Concat", 2, 1), 13, "the attribute axis is missing"},
		{node("Concat", 2, 1, wire.FloatAttribute("axis", 0)), 13, "the attribute axis is of type float, not int"},
		{node("Concat", 2, 1, &wire.AttributeProto{Name: "axis"}), 13, "the attribute axis is of type undefined, not int"},
		{node("Concat", 2, 1, &wire.AttributeProto{Name: "axis", Present: 1 << wire.AttributeFieldI}), 13, ""},
		{node("Concat", 2, 1, &wire.AttributeProto{Name: "axis", Type: wire.AttributeInt, RefAttrName: "a"}), 13, ""},
		{node("Concat", 2, 1, wire.IntAttribute("axis", 0), wire.IntAttribute("axis", 0)), 13,
			"the attribute axis is given twice"},
		{node("Relu", 1, 1, wire.IntAttribute("alpha", 0)), 14, `the operator has no attribute "alpha"`},
		{node("Squeeze", 2, 1), 11, "2 inputs where the operator has 1"},
		{node("Squeeze", 2, 1), 13, ""},
		{node("Upsample", 2, 1), 10, "the operator is deprecated"},
		{node("Loop", 1, 1, wire.GraphAttribute("body", &wire.GraphProto{})), 21,
			"1 inputs where the operator has at least 2"},
		{leaving(leaving(node("Loop", 3, 1, wire.GraphAttribute("body", &wire.GraphProto{})), 0), 1), 21, ""},
		{node("LSTM", 3, 1, &wire.AttributeProto{Name: "activations"}), 7, ""},
	} {
		o, ok := Lookup("", c.node.OpType, c.version)
		if !ok {
			t.Fatal(c.node.OpType)
		}
		err := o.Check(c.node)
		switch {
		case c.want == "" && err != nil:
			t.Error(err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.node.OpType)):
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// TestOfficialNodes holds every node of ONNX's backend test data to the table. See TestOfficialData of package wire.
func TestOfficialNodes(t *testing.T) {
	root := os.Getenv("WEIR_ONNX_DATA")
	if root == "" {
		t.Skip("WEIR_ONNX_DATA is not set: it names the folder onnx/backend/test/data of the Python package onnx, which is " +
			"not part of this repository")
	}
	checked, used := 0, map[string]bool{}
	var walk func(path string, nodes []*wire.NodeProto, opsets map[string]int64)
	walk = func(path string, nodes []*wire.NodeProto, opsets map[string]int64) {
		for _, n := range nodes {
			version, imported := opsets[unaliased(n.Domain)]
			o, ok := Lookup(n.Domain, n.OpType, version)
			if !imported || !ok {
				t.Errorf("%s: no %s:%s at version %d", path, n.Domain, n.OpType, version)
				continue
			}
			if err := o.Check(n); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			checked++
			used[n.OpType] = true
			for _, a := range n.Attribute {
				if a.G != nil {
					walk(path, a.G.Node, opsets)
				}
			}
		}
	}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".onnx" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		m, err := wire.ParseModel(data)
		if err != nil {
			return err
		}
		opsets := map[string]int64{}
		for _, o := range m.OpsetImport {
			opsets[unaliased(o.Domain)] = o.Version
		}
		if len(m.Functions) == 0 {
			walk(path, m.Graph.Node, opsets)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes of %d operators", checked, len(used))
	if checked < 5000 {
		t.Errorf("%d nodes: the data is not complete", checked)
	}
}
