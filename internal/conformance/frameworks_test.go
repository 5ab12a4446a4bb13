package conformance

import (
	"math"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
	"github.com/weirml/weir/internal/values"
)

// framed is a model of one node whose results onnxruntime gives too.
type framed struct {
	node    *wire.NodeProto
	x       *tensor.Tensor
	initial map[string]*tensor.Tensor
	want    map[string][]float32
}

// of returns a tensor.
func of[T tensor.Element](shape []int64, data ...T) *tensor.Tensor {
	return tensor.Must(tensor.FromSlice(data, shape...))
}

// withDomain sets a node's domain.
func withDomain(n *wire.NodeProto, domain string) *wire.NodeProto { n.Domain = domain; return n }

// framework are results of onnxruntime 1.31.1; of Resize, also of PyTorch and OpenVINO.
var framework = map[string]framed{
	"Resize, align_corners, a scale whose product is not whole": {
		node: operation("Resize", "x,,s", "y", wire.StringAttribute("mode", "linear"),
			wire.StringAttribute("coordinate_transformation_mode", "align_corners")),
		x:       of([]int64{1, 1, 1, 3}, float32(0), 1, 2),
		initial: map[string]*tensor.Tensor{"s": of([]int64{4}, float32(1), 1, 1, 1.5)},
		want:    map[string][]float32{"y": {0, 2. / 3, 4. / 3, 2}},
	},
	"DynamicQuantizeLSTM, both directions, lengths": {
		node: withDomain(operation("DynamicQuantizeLSTM", "x,w,r,,n,,,,ws,wz,rs,rz", "y,h,c",
			wire.IntAttribute("hidden_size", 1), wire.StringAttribute("direction", "bidirectional")), "com.microsoft"),
		x: of([]int64{3, 2, 2}, float32(1), -2, .5, 3, -1, .25, 2, -.5, .75, 1.5, -3, 1),
		initial: map[string]*tensor.Tensor{
			"w": of([]int64{2, 2, 4}, int8(10), -20, 30, 40, 5, 15, -25, 35, -10, 20, 33, -40, 25, -15, 12, 3),
			"r": of([]int64{2, 1, 4}, int8(7), -9, 11, 13, -5, 14, 6, -8), "n": of([]int64{2}, int32(3), 2),
			"ws": of([]int64{2}, float32(.02), .03), "rs": of([]int64{2}, float32(.04), .05),
			"wz": of([]int64{2}, int8(0), 0), "rz": of([]int64{2}, int8(0), 0)},
		want: map[string][]float32{
			"y": {-0.07152952, 0.35388705, 0.09346568, -0.09424932, -0.20617644, 0.19749486, 0.11763078, -0.2128965,
				0.19840766, 0, -0.19070373, 0},
			"h": {0.19840766, 0.19749486, 0.09346568, -0.09424932},
			"c": {0.3733187, 1.0364377, 0.11328563, -0.43118683}},
	},
}

// TestFrameworks: a node gives the numbers that the frameworks give.
func TestFrameworks(t *testing.T) {
	for name, f := range framework {
		g := &wire.GraphProto{Name: "one", Node: []*wire.NodeProto{f.node},
			Input: []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, sizes(f.x.Shape())...)}}
		for _, out := range f.node.Output {
			g.Output = append(g.Output, &wire.ValueInfoProto{Name: out})
		}
		for name, x := range f.initial {
			g.Initializer = append(g.Initializer, wire.FromTensor(name, x))
		}
		proto := &wire.ModelProto{IRVersion: 8, Graph: g,
			OpsetImport: []*wire.OperatorSetIDProto{{Version: 17}, {Domain: "com.microsoft", Version: 1}}}
		m, err := weir.LoadBytes(proto.Marshal())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { m.Close() })
		p, err := weir.Compile(t.Context(), m, weir.Options{Threads: 1})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { p.Close() })
		x, err := values.ToWeir(f.x)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { x.Close() })
		r, err := p.Run(t.Context(), weir.Inputs{"x": x})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		t.Cleanup(func() { r.Close() })
		for out, want := range f.want {
			got, err := weir.Copy[float32](r.Get(out))
			if err != nil || len(got) != len(want) {
				t.Fatalf("%s: %s has %d elements, want %d (%v)", name, out, len(got), len(want), err)
			}
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-5 {
					t.Errorf("%s: %s is %v, want %v", name, out, got, want)
					break
				}
			}
		}
	}
}

// sizes returns a shape as a declaration has it.
func sizes(shape []int64) (out []*wire.Dimension) {
	for _, n := range shape {
		out = append(out, wire.Size(n))
	}
	return out
}
