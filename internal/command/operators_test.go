package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// indexModel writes a model whose run fails at its input, an index out of range: of a gather whose kernel includes a
// negation, of a host operator, or of a scatter.
func indexModel(t *testing.T, nodes ...*wire.NodeProto) string {
	t.Helper()
	g := &wire.GraphProto{Name: "g", Node: nodes,
		Input: []*wire.ValueInfoProto{wire.TensorValue("index", wire.Int64Type, wire.Size(2))},
		Initializer: []*wire.TensorProto{wire.FromTensor("table", tensor.Of[float32](1, 2, 3, 4)),
			wire.FromTensor("rows", tensor.Of[float32](1, 2))},
		Output: []*wire.ValueInfoProto{{Name: "y"}}}
	m := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := os.WriteFile(path, m.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRunErrorsNameOperators runs models whose kernels find a bad index. The error names the operators of the kernel's
// nodes, as the model does, for the model and for its artefact.
func TestRunErrorsNameOperators(t *testing.T) {
	node := func(op, name, out string, in ...string) *wire.NodeProto {
		return &wire.NodeProto{OpType: op, Name: name, Input: in, Output: []string{out}}
	}
	for _, row := range []struct {
		nodes    []*wire.NodeProto
		node, op string
	}{
		{[]*wire.NodeProto{node("ScatterElements", "scattered", "y", "table", "index", "rows")}, "scattered",
			"ScatterElements"},
		{[]*wire.NodeProto{node("Gather", "gathered", "y", "table", "index")}, "gathered", "Gather"},
		{[]*wire.NodeProto{node("Gather", "gathered", "z", "table", "index"), node("Exp", "exponents", "y", "z")},
			"gathered, exponents", "Gather, Exp"},
		{[]*wire.NodeProto{node("Gather", "same", "z", "table", "index"), node("Exp", "same", "y", "z")}, "same", ""},
	} {
		file := indexModel(t, row.nodes...)
		for _, m := range []string{file, artefact(t, file)} {
			r := weirRun(t, "run", m, "--input", "index=[1, 9]", "--json")
			var v struct {
				Error struct{ Kind, Node, Op, Detail string }
			}
			if err := json.Unmarshal([]byte(r.out), &v); err != nil || r.code != 1 || v.Error.Kind != "input" ||
				v.Error.Node != row.node || v.Error.Op != row.op {
				t.Errorf("%s of %s: exit code %d, %v: %s%s", row.node, filepath.Base(m), r.code, err, r.out, r.err)
			}
		}
	}
}
