package rows

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// kindsOfRows are networks of each kind; op is the operator that the refusal names, "" stands for a proof, and "-" for
// any refusal.
//
//weir:table
var kindsOfRows = []struct {
	name  string
	build func(n *network) string // returns the output
	op    string
}{
	{"elements", func(n *network) string { return n.op("Relu", []string{"x"}) }, ""},
	{"softmax of a row", func(n *network) string { return n.op("Softmax", []string{"x"}, number("axis", 1)) }, ""},
	{"softmax over rows", func(n *network) string {
		return n.op("Softmax", []string{"x"}, number("axis", 0))
	}, "softmax"},
	{"sums of a row", func(n *network) string { return n.op("CumSum", []string{"x", n.integers(true, 2)}) }, ""},
	{"sums over rows", func(n *network) string { return n.op("CumSum", []string{"x", n.integers(true, 0)}) }, "cumsum"},
	{"a mean over rows", func(n *network) string {
		return n.op("Sub", []string{"x", n.op("ReduceMean", []string{"x", n.integers(false, 0)})})
	}, "reduce_mean"},
	{"the number of rows", func(n *network) string {
		size := n.op("Gather", []string{n.op("Shape", []string{"x"}), n.integers(true, 0)})
		return n.op("Mul", []string{"x", n.op("Cast", []string{size}, number("to", 1))})
	}, "gather"},
	{"another axis's size", func(n *network) string {
		size := n.op("Gather", []string{n.op("Shape", []string{"x"}), n.integers(true, 1)})
		return n.op("Mul", []string{"x", n.op("Cast", []string{size}, number("to", 1))})
	}, ""},
	{"a product with another row", func(n *network) string {
		return n.op("MatMul", []string{n.op("MatMul", []string{"y", n.op("Transpose", []string{"y"})}), "y"})
	}, "matmul"},
	{"turned away and back", func(n *network) string {
		turned := n.op("Transpose", []string{"x"}, ints("perm", 1, 2, 0))
		return n.op("Transpose", []string{n.op("Tanh", []string{turned})}, ints("perm", 2, 0, 1))
	}, ""},
	{"turned away", func(n *network) string { return n.op("Transpose", []string{"y"}) }, "-"},
	{"heads split and joined", func(n *network) string {
		heads := n.op("Reshape", []string{"x", n.integers(false, 0, 2, 2, 6)})
		all := n.op("Reshape", []string{heads, n.integers(false, -1, 2, 6)})
		return n.op("Reshape", []string{n.op("Softmax", []string{all}), n.integers(false, -1, 4, 6)})
	}, ""},
	{"rows mixed by a reshape", func(n *network) string {
		first := n.op("Reshape", []string{"x", n.integers(false, 4, -1, 6)})
		return n.op("Transpose", []string{first}, ints("perm", 1, 0, 2))
	}, "reshape"},
	{"the last row", func(n *network) string {
		last := n.op("Gather", []string{"x", n.integers(false, -1)})
		return n.op("Add", []string{"x", last})
	}, "gather"},
	{"rows joined", func(n *network) string {
		return n.op("Slice", []string{n.op("Concat", []string{"x", "x"}, number("axis", 0)), n.integers(false, 1),
			n.integers(false, 5)})
	}, "concat"},
	{"a batch's own statistics", func(n *network) string {
		out := n.op("BatchNormalization", []string{"x", n.constant(4), n.constant(4), n.constant(4), n.constant(4)},
			number("training_mode", 1))
		n.graph.Node[len(n.graph.Node)-1].Output = []string{out, "m", "v"}
		return out
	}, "reduce_mean"},
	{"trained statistics", func(n *network) string {
		return n.op("BatchNormalization", []string{"x", n.constant(4), n.constant(4), n.constant(4),
			n.op("Abs", []string{n.constant(4)})})
	}, ""},
	{"what is not 0", func(n *network) string {
		return n.op("Transpose", []string{n.op("NonZero", []string{"y"})})
	}, "nonzero"},
	{"random numbers", func(n *network) string {
		return n.op("Add", []string{"x", n.op("RandomUniformLike", []string{"x"}, wire.FloatAttribute("seed", 1))})
	}, "draw_uniform"},
	{"the row's number", func(n *network) string {
		size := n.op("Gather", []string{n.op("Shape", []string{"y"}), n.integers(true, 0)})
		list := n.op("Range", []string{n.integers(true, 0), size, n.integers(true, 1)})
		floats := n.op("Cast", []string{list}, number("to", 1))
		return n.op("Add", []string{"y", n.op("Unsqueeze", []string{floats, n.integers(false, 1)})})
	}, "cast"},
	{"a layer over each row", func(n *network) string {
		turned := n.op("Transpose", []string{"x"}, ints("perm", 1, 0, 2))
		y := n.op("LSTM", []string{turned, n.constant(1, 8, 6), n.constant(1, 8, 2)}, number("hidden_size", 2))
		return n.op("Transpose", []string{n.op("Squeeze", []string{y, n.integers(false, 1)})}, ints("perm", 1, 0, 2))
	}, ""},
	{"a layer over rows", func(n *network) string {
		y := n.op("LSTM", []string{"x", n.constant(1, 8, 6), n.constant(1, 8, 2)}, number("hidden_size", 2))
		return n.op("Squeeze", []string{y, n.integers(false, 1)})
	}, "recurrent"},
	{"a scan over rows", func(n *network) string {
		body := &wire.GraphProto{Name: "body", Input: []*wire.ValueInfoProto{
			wire.TensorValue("s", wire.DataTypeOf(weir.F32), wire.Size(4)),
			wire.TensorValue("r", wire.DataTypeOf(weir.F32), wire.Size(4))},
			Node: []*wire.NodeProto{weirtest.NodeOf("Add s,r t"), weirtest.NodeOf("Identity t u")},
			Output: []*wire.ValueInfoProto{wire.TensorValue("t", wire.DataTypeOf(weir.F32), wire.Size(4)),
				wire.TensorValue("u", wire.DataTypeOf(weir.F32), wire.Size(4))}}
		out := n.op("Scan", []string{n.constant(4), "y"}, number("num_scan_inputs", 1),
			&wire.AttributeProto{Name: "body", Type: wire.AttributeGraph, G: body})
		n.graph.Node[len(n.graph.Node)-1].Output = []string{out + "s", out}
		return out
	}, "scan"},
}

// TestKinds decides about each kind, also of an artefact.
func TestKinds(t *testing.T) {
	for _, row := range kindsOfRows {
		n := newNetwork(1)
		out := row.build(n)
		n.graph.Output = []*wire.ValueInfoProto{{Name: out}}
		proto := &wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: n.graph}
		m, err := weir.LoadBytes(proto.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		p, file := weirtest.ArtefactOf(t, m)
		holds(t, row.name, p, "b", row.op)
		p.Close()
		m.Close()
		again := weirtest.Must[*weir.Model](t)(weir.LoadBytes(file))
		p = weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), again, weir.Options{}))
		holds(t, row.name+", as an artefact", p, "b", row.op)
		if err := p.Rows("nobody"); !errors.Is(err, weir.ErrUnsupported) {
			t.Errorf("%s: an unknown dimension: %v", row.name, err)
		}
		p.Close()
		again.Close()
	}
}

// holds compares a program's verdict.
func holds(t *testing.T, name string, p *weir.Program, dim, op string) {
	t.Helper()
	err := p.Rows(dim)
	var known *weir.Error
	switch {
	case op == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case op != "" && !errors.As(err, &known) || op != "" && op != "-" && known.Op != op:
		t.Errorf("%s: %v, and %s joins rows", name, err, op)
	}
}

// TestModels proves popular models.
func TestModels(t *testing.T) {
	list := map[string]string{"examples/digits/data/digits.onnx": "batch"}
	for _, name := range []string{"attention_two_dims", "lstm_stacked", "microsoft_layers", "normalisations", "qdq_int8",
		"conv_kinds", "tied_table"} {
		list["testdata/onnx/"+name+"/model.onnx"] = ""
	}
	if folder := os.Getenv("WEIR_MODELS"); folder != "" {
		for _, pattern := range []string{"ppocr*", "rapid*", "basic_pitch*"} {
			files, _ := filepath.Glob(filepath.Join(folder, pattern+".onnx"))
			for _, f := range files {
				list[f] = ""
			}
		}
	}
	for file, dim := range list {
		m := weirtest.Must[*weir.Model](t)(weir.Load(file))
		if dim == "" {
			dim = m.Inputs()[0].Shape[0].Dim
		}
		var b bytes.Buffer
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, weir.Options{Target: weir.Portable, Threads: 2}))
		holds(t, file, p, dim, "")
		if strings.HasPrefix(file, "examples") {
			weirtest.Must[int64](t)(p.WriteTo(&b))
			if !bytes.Contains(b.Bytes(), []byte(`"joined":{"batch":{}}`)) {
				t.Error("the artefact does not say what is proved")
			}
		}
		p.Close()
		m.Close()
	}
	p := weirtest.CompileDigits(t, weir.Options{Target: weir.Reference})
	defer p.Close()
	holds(t, "the reference", p, "batch", "")
}
