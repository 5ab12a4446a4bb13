package accuracy

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/weirtest"
)

// TestPrecision: weights in bf16 and int8 take about half and a quarter of the bytes; results stay near those of f32
// and of portable code, which may round weights only; the measured bytes are the predicted ones; and an artefact keeps
// its precision. By default, nothing is rounded.
func TestPrecision(t *testing.T) {
	m := weirtest.Must[*weir.Model](t)(weir.LoadBytes(weirtest.Digits(t)))
	defer m.Close()
	if _, err := weir.Compile(t.Context(), m, weir.Options{Precision: weir.F16}); !errors.Is(err, weir.ErrUnsupported) {
		t.Errorf("a precision that there is not: %v", err)
	}
	compiled := func(o weir.Options) *weir.Program {
		p := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), m, o))
		t.Cleanup(func() { p.Close() })
		return p
	}
	apart := func(a, b []float32) (d float64) {
		for i := range a {
			d = max(d, math.Abs(float64(a[i]-b[i])))
		}
		return d
	}
	full := compiled(weir.Options{})
	want := weirtest.Scored(t, full)
	for precision, share := range map[weir.DType][2]int64{weir.BF16: {4, 8}, weir.I8: {2, 6}} {
		least, most := share[0], share[1]
		exact := weirtest.Scored(t, compiled(weir.Options{Precision: precision, CPU: "portable", Threads: 1}))
		if d := apart(exact, want); d == 0 || d > 0.1 {
			t.Errorf("rounding to %s changes scores by %g", precision, d)
		}
		for _, cpu := range []string{"portable", ""} {
			p := compiled(weir.Options{Precision: precision, CPU: cpu})
			if d := apart(weirtest.Scored(t, p), exact); d > 0.1 {
				t.Errorf("for %q, scores differ from those of portable code by %g", cpu, d)
			}
			if less, more := weirtest.Must[int64](t)(p.Memory().Weights.At(nil)),
				weirtest.Must[int64](t)(full.Memory().Weights.At(nil)); cpu == "" && (less < more*least/10 || less > more*most/10) {
				t.Errorf("weights take %d bytes, in f32 %d", less, more)
			}
			image := weirtest.Must[*weir.Tensor](t)(weir.FromSlice(make([]float32, 3*64), 3, 1, 8, 8))
			dims, in := weir.Dims{"batch": 3}, weir.Inputs{"image": image}
			seen := weirtest.Must[weir.Measurement](t)(p.Measure(t.Context(), in))
			if predicted := weirtest.Must[int64](t)(p.Memory().Peak(1, dims)); predicted != seen.Peak(1) {
				t.Errorf("%s for %q: predicted %d bytes, measured %d", precision, cpu, predicted, seen.Peak(1))
			}
			image.Close()
			var file bytes.Buffer
			weirtest.Must[int64](t)(p.WriteTo(&file))
			a := weirtest.Must[*weir.Model](t)(weir.LoadBytes(file.Bytes()))
			q := weirtest.Must[*weir.Program](t)(weir.Compile(t.Context(), a, weir.Options{}))
			if d := apart(weirtest.Scored(t, q), weirtest.Scored(t, p)); d != 0 {
				t.Errorf("an artefact for %q gives other scores by %g", cpu, d)
			}
			if _, err := weir.Compile(t.Context(), a, weir.Options{Precision: precision}); !errors.Is(err, weir.ErrUnsupported) {
				t.Errorf("an artefact in another precision: %v", err)
			}
			q.Close()
			a.Close()
		}
	}
}

// TestTiedPrecision: an embedding whose rows are the columns of a product is stored once in each precision; its rows
// and its products are near those of f32.
func TestTiedPrecision(t *testing.T) {
	const words, size = 70, 40
	r := rand.New(rand.NewSource(2))
	w := weirtest.Roughly(r, "normal", words*size)
	g := &wire.GraphProto{Name: "g", Node: []*wire.NodeProto{
		{OpType: "Cast", Input: []string{"x"}, Output: []string{"i"},
			Attribute: []*wire.AttributeProto{wire.IntAttribute("to", 7)}},
		{OpType: "Gather", Input: []string{"w", "i"}, Output: []string{"rows"}},
		{OpType: "Transpose", Input: []string{"w"}, Output: []string{"turned"}},
		{OpType: "MatMul", Input: []string{"rows", "turned"}, Output: []string{"y"}},
	}, Initializer: []*wire.TensorProto{{Name: "w", DataType: wire.FloatType, Dims: []int64{words, size},
		RawData: weirtest.RawFloats(w)}},
		Input:  []*wire.ValueInfoProto{wire.TensorValue("x", 1, wire.Size(5), wire.Size(1))},
		Output: []*wire.ValueInfoProto{{Name: "y"}}}
	data := (&wire.ModelProto{IRVersion: 10, OpsetImport: []*wire.OperatorSetIDProto{{Version: 21}}, Graph: g}).Marshal()
	for precision, least := range map[weir.DType]float64{weir.F32: 1e-6, weir.BF16: 6e-3, weir.I8: 2e-2} {
		everyLevel(t, data, weir.Options{Precision: precision},
			func(cpu string, run func(map[string][]float32, map[string][]int) []float32) {
				y := run(map[string][]float32{"x": {5, 0, 69, 5, -1}}, map[string][]int{"x": {5, 1}})
				off, length := 0.0, 0.0
				for i, v := range y {
					want, row := 0.0, []int{5, 0, 69, 5, 69}[i/words]
					for c := range size {
						want += float64(w[row*size+c]) * float64(w[i%words*size+c])
					}
					off, length = off+(float64(v)-want)*(float64(v)-want), length+want*want
				}
				if distance := math.Sqrt(off / length); !(distance <= least) || precision != weir.F32 && distance == 0 {
					t.Errorf("%s, %s: results are %g of their length away", precision, cpu, distance)
				}
			})
	}
}
