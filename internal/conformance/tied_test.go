package conformance

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// tied are products that read one weight w, f32[size, size], in several ways; x is f32[n, size], and y the result.
var tied = map[string][]*wire.NodeProto{
	"there and back": {operation("Gemm", "x,w", "h", wire.IntAttribute("transB", 1)), operation("Gemm", "h,w", "y")},
	"back and there": {operation("Gemm", "x,w", "h"), operation("Gemm", "h,w", "y", wire.IntAttribute("transB", 1))},
	"left and right": {operation("Transpose", "x", "xt"), operation("MatMul", "w,xt", "h"),
		operation("Transpose", "h", "ht"),
		operation("Gemm", "ht,w", "y", wire.IntAttribute("transB", 1))},
	"rows, and columns": {operation("Gather", "w,rows", "h"),
		operation("Gemm", "h,w", "g", wire.IntAttribute("transB", 1)),
		operation("Gemm", "g,w", "i"), operation("Add", "x,i", "y")},
	"by itself": {operation("Gemm", "w,w", "g", wire.IntAttribute("transB", 1)), operation("Gemm", "x,g", "y")},
	"twice in one place": {operation("Gemm", "x,w", "g", wire.IntAttribute("transB", 1)), operation("Gemm", "x,w", "h"),
		operation("Mul", "g,h", "y")},
}

// TestTiedWeights: products that read one weight in several ways run as machine code, and give portable code's results.
func TestTiedWeights(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int64{1, 5, 40, 130} {
		weight := tensor.Must(tensor.New(weir.F32, size, size))
		for i := range weight.Len() {
			weight.SetFloat(i, random.NormFloat64()/math.Sqrt(float64(size)))
		}
		for name, nodes := range tied {
			rows := tensor.Must(tensor.FromSlice([]int64{size - 1, 0, size / 2}, 3))
			g := &wire.GraphProto{Name: "tied", Node: nodes,
				Input:       []*wire.ValueInfoProto{wire.TensorValue("x", wire.FloatType, wire.Dim("n"), wire.Size(size))},
				Output:      []*wire.ValueInfoProto{wire.TensorValue("y", wire.FloatType, wire.Dim("n"), wire.Size(size))},
				Initializer: []*wire.TensorProto{wire.FromTensor("w", weight), wire.FromTensor("rows", rows)}}
			opset := []*wire.OperatorSetIDProto{{Version: 17}}
			data := (&wire.ModelProto{IRVersion: 8, OpsetImport: opset, Graph: g}).Marshal()
			x := make([]float32, 3*size)
			for i := range x {
				x[i] = float32(random.NormFloat64())
			}
			want := tiedResult(t, data, x, size, weir.Options{Target: weir.Portable, Threads: 1})
			for _, cpu := range []string{"", "avx2"} {
				got := tiedResult(t, data, x, size, weir.Options{Threads: 1, CPU: cpu})
				for i := range want {
					if math.Abs(float64(got[i]-want[i])) > 1e-4 {
						t.Fatalf("%s, %d, %q: element %d is %v, not %v", name, size, cpu, i, got[i], want[i])
					}
				}
			}
		}
	}
}

// tiedResult returns y of a model for three rows. If machine code is asked for and the processor has it, every kernel
// must be machine code.
func tiedResult(t *testing.T, data []byte, rows []float32, size int64, o weir.Options) []float32 {
	t.Helper()
	m, err := weir.LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil && o.CPU != "" {
		t.Skip(err) // this processor has no such level
	} else if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, k := range p.Kernels() {
		if o.Target != weir.Portable && p.CPU() != "portable" && k.Backend == "portable" {
			t.Errorf("%d: %s is portable: %v", size, k.Kernel, k.Why)
		}
	}
	x, err := weir.FromSlice(rows, 3, int(size))
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	r, err := p.Run(t.Context(), weir.Inputs{"x": x})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	y, err := weir.Copy[float32](r.Get("y"))
	if err != nil {
		t.Fatal(err)
	}
	return y
}
