package conformance

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/values"
)

// exportedModels are the models in WEIR_EXPORTED, each a folder with model.onnx and its inputs, x0.npy, x1.npy, …. The
// bounds are of the distance of an output in bf16 and in int8 from f32's, relative to its length, and of the share of
// rows whose greatest element has another index.
var exportedModels = []struct {
	name        string
	output      string // a tensor of the model, if it is not the first output
	bf16, bytes float64
	others      float64
}{
	{name: "bert_base_s128", bf16: 0.01, bytes: 0.04, others: 0.05},
	{name: "gpt2_prefill_s128", bf16: 0.01, bytes: 0.04},
	{name: "gpt2_decode_p127", bf16: 0.01, bytes: 0.04},
	{name: "resnet50", bf16: 0.01, bytes: 0.04},
	{name: "mobilenet_v2", bf16: 0.01, bytes: 0.04},
	{name: "vgg16", bf16: 0.01, bytes: 0.04},
	{name: "vit_b_16", output: "select_36", bf16: 0.01, bytes: 0.04}, // the head's weights are zeros
}

// TestPrecisionOfModels holds exported models in bf16 and int8 to the bounds of docs/accuracy.md. WEIR_EXPORTED is
// their folder.
func TestPrecisionOfModels(t *testing.T) {
	folder := os.Getenv("WEIR_EXPORTED")
	if folder == "" {
		t.Skip("WEIR_EXPORTED names no folder of exported models")
	}
	for _, c := range exportedModels {
		t.Run(c.name, func(t *testing.T) {
			want, row, whole, err := exportedRun(t, filepath.Join(folder, c.name), c.output, weir.F32)
			if err != nil {
				t.Fatal(err)
			}
			for precision, bound := range map[weir.DType]float64{weir.BF16: c.bf16, weir.I8: c.bytes} {
				got, _, weights, err := exportedRun(t, filepath.Join(folder, c.name), c.output, precision)
				if err != nil {
					t.Fatal(err)
				}
				off, length, others := 0.0, 0.0, 0.0
				for i, v := range want {
					off, length = off+math.Pow(float64(got[i]-v), 2), length+float64(v)*float64(v)
				}
				for at := 0; at < len(want); at += row {
					if greatest(want[at:][:row]) != greatest(got[at:][:row]) {
						others += float64(row) / float64(len(want))
					}
				}
				distance := math.Sqrt(off / length)
				t.Logf("%s: distance %.4f, other greatest elements in %.3f of the rows, weights of %d bytes for %d", precision,
					distance, others, weights, whole)
				if !(distance <= bound) || others > c.others || weights >= whole {
					t.Errorf("%s: beyond %g and %g", precision, bound, c.others)
				}
			}
		})
	}
}

// exportedRun runs a model on the inputs beside it, and returns an output's elements, the length of its rows, and the
// bytes of the program's weights.
func exportedRun(t *testing.T, folder, output string, precision weir.DType) (y []float32, row int, weights int64,
	err error) {
	m, err := weir.Load(filepath.Join(folder, "model.onnx"))
	if err != nil {
		return nil, 0, 0, err
	}
	defer m.Close()
	o := weir.Options{Precision: precision}
	if output != "" {
		o.Outputs = []string{output}
	}
	p, err := weir.Compile(t.Context(), m, o)
	if err != nil {
		return nil, 0, 0, err
	}
	defer p.Close()
	in, reader := weir.Inputs{}, values.Reader{}
	for i, info := range p.Inputs() {
		x, err := reader.Tensor(filepath.Join(folder, fmt.Sprintf("x%d.npy", i)), info)
		if err != nil {
			return nil, 0, 0, err
		}
		defer x.Close()
		in[info.Name] = x
	}
	seen, err := p.Measure(t.Context(), in)
	if err != nil {
		return nil, 0, 0, err
	}
	dims, err := p.Bind(in)
	if err != nil {
		return nil, 0, 0, err
	}
	if predicted, err := p.Memory().Peak(1, dims); err != nil || predicted != seen.Peak(1) {
		return nil, 0, 0, fmt.Errorf("%s: predicted %d bytes, measured %d: %v", precision, predicted, seen.Peak(1), err)
	}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		return nil, 0, 0, err
	}
	defer r.Close()
	if weights, err = p.Memory().Weights.At(dims); err != nil {
		return nil, 0, 0, err
	}
	shape := r.At(0).Shape()
	y, err = weir.Copy[float32](r.At(0))
	return y, shape[len(shape)-1], weights, err
}

// greatest returns the index of the greatest element.
func greatest(x []float32) (at int) {
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return at
}
