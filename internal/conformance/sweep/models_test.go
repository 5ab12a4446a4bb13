package sweep

import (
	"os"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/weirtest"
)

// swept is a model of the sweeps.
type swept struct {
	name    string // of testdata/onnx, or of the file that write makes
	options weir.Options
	write   func(t *testing.T, path string) // makes the file, if it is not in testdata
	inputs  func(t *testing.T, m *weir.Model) weir.Inputs
	compare bool    // it is compared with the reference too, which is fast enough
	budget  float64 // if not 0, the budget's position between the smallest that works and the unconstrained peak
	tune    bool    // it is tuned too: it has choices, and compiles quickly
}

// sweptModels cover all ways of taking memory: files beside the model; weights that are copied, packed, computed,
// paged; loops and branches; sizes that data decide, bounded and not; strings and sequences; savings for a budget;
// artefacts and text.
var sweptModels = []swept{
	{name: "digits", write: copyOf("examples/digits/data/digits.onnx"), inputs: drawn(2)},
	{name: "artefact", write: writeArtefact, inputs: drawn(2)},
	{name: "text", write: writeText, inputs: drawn(5)},
	{name: "late", write: writeLate, inputs: countsTo(3000)},
	{name: "long_skips", budget: 0.001, inputs: drawn(2)},
	{name: "training_step", budget: 0.3, inputs: drawn(64)},
	{name: "tied_table", budget: 0.001, inputs: drawn(4)},
	{name: "external_data", compare: true},
	{name: "unaligned_weights"},
	{name: "typed_weights"},
	{name: "tied_embedding_int8", compare: true},
	{name: "conv_kinds"},
	{name: "lstm_bidirectional"},
	{name: "attention_two_dims"},
	{name: "kv_cache", tune: true},
	{name: "if_in_loop", compare: true},
	{name: "loop_dynamic_trips"},
	{name: "loop_scan_outputs"},
	{name: "nonzero_use", compare: true},
	{name: "compress_unique"},
	{name: "sequences", compare: true},
	{name: "texts", compare: true},
	{name: "optionals"},
}

// copyOf returns a function that copies a file.
func copyOf(path string) func(*testing.T, string) {
	return func(t *testing.T, to string) {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// writeArtefact writes the artefact of a model.
func writeArtefact(t *testing.T, path string) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	p, file := weirtest.ArtefactOf(t, m)
	defer p.Close()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeText writes a model as text that lays out its own memory.
func writeText(t *testing.T, path string) {
	if err := os.WriteFile(path, []byte(weirtest.Story("[0, inf]", "64")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// writeLate writes a model of squares whose number nothing bounds.
func writeLate(t *testing.T, path string) {
	number := func(name string, v float32) *wire.TensorProto { return wire.FromTensor(name, tensor.Scalar(v)) }
	g := &wire.GraphProto{Initializer: []*wire.TensorProto{number("zero", 0), number("one", 1)},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("limit", wire.DataTypeOf(weir.F32), wire.Size(1))},
		Output: []*wire.ValueInfoProto{wire.TensorValue("y", wire.DataTypeOf(weir.F32), &wire.Dimension{Param: "n"})},
		Node: []*wire.NodeProto{weirtest.NodeOf("Range zero,limit,one r"), weirtest.NodeOf("Mul r,r s"),
			weirtest.NodeOf("Add s,r t"),
			weirtest.NodeOf("CumSum t,axis u"), weirtest.NodeOf("Softmax u y")}}
	g.Initializer = append(g.Initializer, wire.FromTensor("axis", tensor.Scalar(int64(0))))
	m := &wire.ModelProto{IRVersion: 8, OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}}, Graph: g}
	if err := os.WriteFile(path, m.Marshal(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// countsTo returns a function that makes inputs with the limit n.
func countsTo(n float32) func(*testing.T, *weir.Model) weir.Inputs {
	return func(t *testing.T, _ *weir.Model) weir.Inputs {
		return weir.Inputs{"limit": weirtest.Must[*weir.Tensor](t)(weir.FromSlice([]float32{n}))}
	}
}

// drawn returns a function that draws inputs whose free dimensions are n.
func drawn(n int64) func(*testing.T, *weir.Model) weir.Inputs {
	return func(t *testing.T, m *weir.Model) weir.Inputs {
		in, drop := weirtest.Random(t, m, n)
		t.Cleanup(drop)
		return in
	}
}
