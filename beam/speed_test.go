package beamweir

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/weirml/weir/batch"
)

// The elements of BenchmarkRunInference.
const perBundle, bundles = 64, 4

func init() {
	register.DoFn2x0[int, func(int, []float32)](&images{})
	register.Function2x0(sentences)
	register.Function2x2(oneFloat)
	register.Function2x2(noText)
	register.Function2x0(end)
	register.Emitter2[int, []float32]()
	register.Emitter2[int, string]()
}

// images is a DoFn that makes the images of a bundle.
type images struct{ Size int }

func (d *images) ProcessElement(first int, emit func(int, []float32)) {
	for i := range perBundle {
		emit(first+i, imageOf(first+i, d.Size))
	}
}

func imageOf(number, size int) []float32 {
	v := make([]float32, size)
	for i := range v {
		v[i] = float32((number*31+i*17)&255) / 255
	}
	return v
}

// sentences is a DoFn that makes the texts of a bundle.
func sentences(first int, emit func(int, string)) {
	for i := range perBundle {
		emit(first+i, sentence(first+i))
	}
}

func sentence(number int) string {
	_, text := textOf(Picture{Number: number})
	return text
}

// oneFloat and noText are what runs in the place of a model.
func oneFloat(number int, v []float32) (int, []float32) { return number, v[:1] }
func noText(number int, _ string) (int, []float32)      { return number, []float32{1} }

// end is the end of a pipeline.
func end(int, []float32) {}

// BenchmarkRunInference compares three times: of a process that only calls batch.Each, of a pipeline on Prism, and of
// the pipeline without a model. The model is loaded beforehand. WEIR_IMAGES is an ONNX file with one input and one
// output of f32; WEIR_MODELS has the model of texts.
func BenchmarkRunInference(b *testing.B) {
	b.Run("images", func(b *testing.B) {
		path := os.Getenv("WEIR_IMAGES")
		if path == "" {
			b.Skip("WEIR_IMAGES is not set")
		}
		l := kept(b, Floats{}, path, Options{Rows: 16})
		size := 1
		for _, n := range l.resource.(*tensors).rowShape {
			size *= n
		}
		alone(b, Floats{}, l.resource, func(i int) []float32 { return imageOf(i, size) })
		pipelines(b, &images{size}, oneFloat, Model{Path: path}, Options{Rows: 16})
	})
	b.Run("texts", func(b *testing.B) {
		found, err := filepath.Glob(filepath.Join(os.Getenv("WEIR_MODELS"), "all-minilm*"))
		if os.Getenv("WEIR_MODELS") == "" || err != nil || len(found) != 1 {
			b.Skip("WEIR_MODELS has no all-minilm")
		}
		l := kept(b, Texts{}, found[0], Options{})
		alone(b, Texts{}, l.resource, sentence)
		pipelines(b, sentences, noText, Model{Path: found[0]}, Options{})
	})
}

// kept loads a model, which the process keeps until the benchmark ends.
func kept(b *testing.B, w opener, path string, o Options) *loaded {
	slot, err := ours.hold(w, travelingOf(o))
	if err != nil {
		b.Fatal(err)
	}
	l, err := slot.use(b.Context(), path, w, o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		slot.done(l)
		slot.leave()
	})
	return l
}

// alone runs the elements by batch.Each.
func alone[E, R any](b *testing.B, w worker[E, R], r resource, element func(int) E) {
	b.Run("batch", func(b *testing.B) {
		for b.Loop() {
			elements := func(yield func(E) bool) {
				for i := range perBundle * bundles {
					if !yield(element(i)) {
						return
					}
				}
			}
			for _, err := range batch.Each(b.Context(), elements, r.most(), func(ctx context.Context, e E) (R, error) {
				return w.run(ctx, r, e, "")
			}) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(perBundle*bundles*b.N)/b.Elapsed().Seconds(), "rows/s")
	})
}

// pipelines runs the elements on Prism, with the model and without.
func pipelines(b *testing.B, elements, nothing any, m Model, o Options) {
	for _, name := range []string{"beam", "no-model"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, s := beam.NewPipelineWithRoot()
				var firsts []int
				for i := range bundles {
					firsts = append(firsts, perBundle*i)
				}
				col := beam.ParDo(s, elements, beam.Reshuffle(s, beam.CreateList(s, firsts)))
				if name == "beam" {
					col, _ = RunInference(s, col, m, o)
				} else {
					col = beam.ParDo(s, nothing, col)
				}
				beam.ParDo0(s, end, col)
				run(b, p)
			}
			b.ReportMetric(float64(perBundle*bundles*b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
