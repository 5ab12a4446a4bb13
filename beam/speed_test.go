package beamweir

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/transforms/stats"

	"github.com/weirml/weir"
	"github.com/weirml/weir/batch"
)

// perBundle is the number of elements of a bundle of BenchmarkRunInference.
const perBundle = 64

var bundles = flag.Int("bundles", 4, "bundles of 64 elements of BenchmarkRunInference")

func init() {
	RegisterKeyed[int](rgb{})
	register.Function2x0(images)
	register.Function2x0(sentences)
	register.Function2x1(noImage)
	register.Function2x1(noText)
	register.Function2x1(bestClass)
	register.Function2x1(firstFloat)
	register.Emitter2[int, []byte]()
	register.Emitter2[int, string]()
}

// rgb is the codec of square images: bytes, for a model that takes floats.
type rgb struct {
	Input string
	Side  int
}

// pixels is the size of an image of BenchmarkRunInference, in bytes.
var pixels int

func (c rgb) Inputs(image []byte) (weir.Inputs, error) {
	x, err := weir.New(weir.F32, 1, 3, c.Side, c.Side)
	if err != nil {
		return nil, err
	}
	v, err := weir.View[float32](x)
	if err != nil {
		x.Close()
		return nil, err
	}
	for i, b := range image {
		v[i] = float32(b) / 255
	}
	return weir.Inputs{c.Input: x}, nil
}

func (rgb) Result(_ []byte, out weir.Outputs, _ string) (int, error) {
	scores, err := weir.View[float32](out.At(0))
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return best, err
}

// images is a DoFn that makes the images of a bundle.
func images(first int, emit func(int, []byte)) {
	for i := range perBundle {
		emit(first+i, imageOf(first+i))
	}
}

func imageOf(number int) []byte {
	v := make([]byte, pixels)
	for i := range v {
		v[i] = byte(number*31 + i*17)
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

// noImage and noText are what runs in the place of a model.
func noImage(number int, image []byte) int { return number + len(image) }
func noText(number int, text string) int   { return number + len(text) }

// bestClass and firstFloat are numbers of results.
func bestClass(number int, class int) int         { return number + class }
func firstFloat(number int, vector []float32) int { return number + len(vector) }

// BenchmarkRunInference compares three times: of a process that only calls batch.Each, of a pipeline on Prism, and of
// the pipeline without a model. The model is loaded beforehand. WEIR_IMAGES is an ONNX file of square images;
// WEIR_MODELS has the model of texts.
func BenchmarkRunInference(b *testing.B) {
	b.Run("images", func(b *testing.B) {
		path := os.Getenv("WEIR_IMAGES")
		if path == "" {
			b.Skip("WEIR_IMAGES is not set")
		}
		l := kept(b, coded[rgb, []byte, int]{}, path, Options{Rows: 16})
		input := l.resource.(*tensors).program.Inputs()[0]
		codec := rgb{input.Name, int(input.Shape[3].Size)}
		pixels = 3 * codec.Side * codec.Side
		alone(b, coded[rgb, []byte, int]{codec}, l.resource, imageOf)
		pipelines(b, l.resource, images, noImage, bestClass, Model{Path: path, Codec: codec}, Options{Rows: 16})
	})
	b.Run("texts", func(b *testing.B) {
		found, err := filepath.Glob(filepath.Join(os.Getenv("WEIR_MODELS"), "all-minilm*"))
		if os.Getenv("WEIR_MODELS") == "" || err != nil || len(found) != 1 {
			b.Skip("WEIR_MODELS has no all-minilm")
		}
		l := kept(b, Texts{}, found[0], Options{})
		alone(b, Texts{}, l.resource, sentence)
		pipelines(b, l.resource, sentences, noText, firstFloat, Model{Path: found[0]}, Options{})
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
		before, _ := r.runs()
		for b.Loop() {
			elements := func(yield func(E) bool) {
				for i := range perBundle * *bundles {
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
		report(b, r, before)
	})
}

// report reports the rows in a second, and the program's runs.
func report(b *testing.B, r resource, before int64) {
	b.ReportMetric(float64(perBundle**bundles*b.N)/b.Elapsed().Seconds(), "rows/s")
	runs, _ := r.runs()
	b.ReportMetric(float64(runs-before)/float64(b.N), "runs")
}

// pipelines runs the elements on Prism, with the model and without.
func pipelines(b *testing.B, r resource, elements, nothing, number any, m Model, o Options) {
	for _, name := range []string{"beam", "no-model"} {
		b.Run(name, func(b *testing.B) {
			before, _ := r.runs()
			for b.Loop() {
				p, s := beam.NewPipelineWithRoot()
				var firsts []int
				for i := range *bundles {
					firsts = append(firsts, perBundle*i)
				}
				col := beam.ParDo(s, elements, beam.Reshuffle(s, beam.CreateList(s, firsts)))
				if name == "beam" {
					col, _ = RunInference(s, col, m, o)
					col = beam.ParDo(s, number, col)
				} else {
					col = beam.ParDo(s, nothing, col)
				}
				stats.Sum(s, col)
				run(b, p)
			}
			report(b, r, before)
		})
	}
}
