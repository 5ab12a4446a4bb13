package beamweir

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/weirml/weir"
	"github.com/weirml/weir/examples/digits/data"
	"github.com/weirml/weir/internal/mem"
)

func TestMain(m *testing.M) {
	beam.Init()
	switch part, port, _ := strings.Cut(os.Getenv("WEIR_TEST_BEAM"), " "); part {
	case "prism":
		servePrism(port)
	case "worker":
		serveWorker(port)
	}
	os.Exit(m.Run())
}

// Picture and Label are the elements and results of the digits' codec.
type Picture struct {
	Number int
	Pixels []float32
}

type Label struct {
	Number int
	Digit  int
	Score  float32
	Model  string
}

// begun is called once, at the first element after a model is loaded.
var (
	begun func()
	once  sync.Once
)

// digits is the codec of the digits model. An element whose number is Poison fails, and one of Panic panics.
type digits struct{ Poison, Panic int }

func (d digits) Inputs(p Picture) (weir.Inputs, error) {
	if begun != nil {
		once.Do(begun)
	}
	switch p.Number {
	case d.Poison:
		return nil, fmt.Errorf("picture %d is torn", p.Number)
	case d.Panic:
		panic("a torn picture")
	}
	x, err := weir.FromSlice(p.Pixels, 1, 1, 8, len(p.Pixels)/8)
	return weir.Inputs{"image": x}, err
}

func (digits) Result(p Picture, out weir.Outputs, model string) (Label, error) {
	scores, err := weir.View[float32](out.Get("scores"))
	if err != nil {
		return Label{}, err
	}
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return Label{p.Number, best, scores[best], filepath.Base(model)}, nil
}

func init() {
	Register(digits{})
	RegisterKeyed[string](digits{})
	register.Function2x0(numbered)
	register.Function2x0(spread)
	register.Function1x1(digitOf)
	register.Function2x1(failureText)
	register.Function2x1(keyedFailure)
	register.Function2x1(keyedDigit)
	register.Function1x1(shortened)
	register.Emitter1[Picture]()
	register.Emitter2[beam.EventTime, Picture]()
	register.Function3x1(placed)
	register.Function4x1(placedFailure)
	register.Function2x0(appears)
	register.Emitter2[beam.EventTime, string]()
	register.Function1x1(versionOf)
	register.Function2x1(keyedVersion)
	register.Function1x2(pixelsOf)
	register.Function2x1(bestOf)
	register.Function1x2(keyOf)
	beam.RegisterType(reflect.TypeFor[Picture]())
	beam.RegisterType(reflect.TypeFor[Label]())
}

// pictures are those of the test set.
var pictures = data.Pictures()

// picture returns the picture of a number: one of the test set's, with noise.
func picture(number int) Picture {
	p := Picture{Number: number, Pixels: append([]float32(nil), pictures[number%len(pictures)].Pixels...)}
	r := rand.New(rand.NewPCG(1, uint64(number)))
	for i := range p.Pixels {
		p.Pixels[i] += r.Float32() / 8
	}
	return p
}

// numbered is a DoFn that makes pictures [first, first + 100) of first.
func numbered(first int, emit func(Picture)) {
	for i := range hundred {
		emit(picture(first + i))
	}
}

const hundred = 100

// spread is a DoFn that gives the pictures of numbered times a second apart.
func spread(p Picture, emit func(beam.EventTime, Picture)) {
	emit(mtime.FromTime(time.Unix(int64(p.Number), 0)), p)
}

func digitOf(l Label) string { return fmt.Sprintf("%d %d %.5f", l.Number, l.Digit, l.Score) }

func failureText(p Picture, f Failure) string {
	return fmt.Sprintf("%d %s %s|%s", p.Number, f.Kind, f.Detail, f.Fix)
}

func keyedFailure(key string, f Failure) string { return key + " " + f.Kind }

func keyedDigit(key string, l Label) string { return key + " " + digitOf(l) }

// firsts returns the collection of 0, 100, 200, …, of which a reshuffle makes elements of several bundles.
func firsts(s beam.Scope, hundreds int) beam.PCollection {
	var list []int
	for i := range hundreds {
		list = append(list, hundred*i)
	}
	return beam.ParDo(s, numbered, beam.Reshuffle(s, beam.CreateList(s, list)))
}

// modelFile writes the digits model into a folder of the test, and returns its path.
func modelFile(t testing.TB, name string) string {
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data.Model, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// expected returns the labels of pictures as one program computes them, as digitOf writes them.
func expected(t testing.TB, count int) (list []any) {
	m, err := weir.LoadBytes(data.Model)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	p, err := weir.Compile(context.Background(), m, weir.Options{Dims: map[string]weir.Range{"batch": {Min: 1, Max: 32}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range count {
		in, err := digits{-1, -1}.Inputs(picture(i))
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.Run(context.Background(), in)
		if err != nil {
			t.Fatal(err)
		}
		l, err := digits{}.Result(picture(i), out, "")
		if err != nil {
			t.Fatal(err)
		}
		out.Close()
		list = append(list, digitOf(l))
	}
	return list
}

// run runs a pipeline on Prism, in this process.
func run(t testing.TB, p *beam.Pipeline) beam.PipelineResult {
	t.Helper()
	r, err := prism.Execute(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// settled waits until all DoFns of pipelines that ended are garbage, and the process holds no model.
func settled(t testing.TB) {
	t.Helper()
	for range 500 {
		runtime.GC()
		ours.mu.Lock()
		n := len(ours.slots)
		ours.mu.Unlock()
		if n == 0 && weir.Usage().Weights == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the process still holds models: %+v, %d slots", weir.Usage(), len(ours.slots))
}

// TestEqual compares the results of several transforms, which run at the same time, with one program's, and the
// process's memory with the certificate: all bundles share one program.
func TestEqual(t *testing.T) {
	defer settled(t)
	const hundreds, branches = 20, 4
	p, s := beam.NewPipelineWithRoot()
	path := modelFile(t, "digits.onnx")
	var all []beam.PCollection
	for i := range branches {
		var list []int
		for first := i * hundreds / branches; first < (i+1)*hundreds/branches; first++ {
			list = append(list, hundred*first)
		}
		pictures := beam.ParDo(s, numbered, beam.Reshuffle(s, beam.CreateList(s, list)))
		results, failures := RunInference(s, pictures, Model{Path: path, Codec: digits{-1, -1}}, Options{Rows: 16})
		passert.Empty(s, failures)
		all = append(all, results)
	}
	passert.Equals(s, beam.ParDo(s, digitOf, beam.Flatten(s, all...)), expected(t, hundreds*hundred)...)
	begun = func() { mem.ResetPeaks() }
	result := run(t, p)
	begun = nil
	peak := mem.Usage().Peak
	most := peak[mem.Weights] + peak[mem.Code] + peak[mem.Arena] + peak[mem.Outputs] + peak[mem.Scratch]
	ours.mu.Lock()
	var err error
	var certificate, whole int64
	var padding int64 // the weights' block is of whole lines of 64 bytes
	var formula string
	models, dofns := 0, 0
	for _, slot := range ours.slots {
		dofns += slot.holders
		for _, l := range slot.models {
			models++
			r := l.resource.(*tensors)
			if padding, err = r.program.Memory().Weights.Max(); err != nil {
				t.Fatal(err)
			}
			padding = -padding & 63
			certificate, whole, formula = r.batcher.Memory().Program, l.bytes(), r.program.Memory().String()
		}
	}
	ours.mu.Unlock()
	if models != 1 {
		t.Errorf("the process has %d programs", models)
	}
	if dofns < branches {
		t.Errorf("the process had %d DoFns, fewer than transforms", dofns)
	}
	if most -= padding; most != certificate {
		t.Errorf("the process held %d bytes of the program, %v by kind; the certificate has %d: %s", most, peak,
			certificate, formula)
	}
	if most += peak[mem.Tensors]; most > whole {
		t.Errorf("the process held %d bytes with the inputs, the certificate has %d", most, whole)
	}
	m := metricsOf(result)
	t.Log(m)
	if m["elements"] != hundreds*hundred || m["rows"] > hundreds*hundred || m["runs"] == 0 {
		t.Errorf("metrics: %v", m)
	}
	if mean := float64(m["rows"]) / float64(m["runs"]); mean < 8 {
		t.Errorf("the elements share too few runs: %.1f rows a run", mean)
	}
}

// metricsOf returns the counters of the transform.
func metricsOf(r beam.PipelineResult) map[string]int64 {
	all := map[string]int64{}
	for _, c := range r.Metrics().AllMetrics().Counters() {
		if c.Namespace() == Namespace {
			all[c.Name()] += c.Result()
		}
	}
	for _, d := range r.Metrics().AllMetrics().Distributions() {
		if d.Namespace() == Namespace {
			all[d.Name()+" count"] += d.Result().Count
			all[d.Name()+" sum"] += d.Result().Sum
		}
	}
	return all
}

// TestFailures has one torn picture, one for which the codec panics and one of a wrong size: they are failures, and all
// others have results.
func TestFailures(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	wrong := Picture{Number: 100, Pixels: make([]float32, 56)}
	pictures := beam.Flatten(s, firsts(s, 1), beam.CreateList(s, []Picture{wrong}))
	results, failures := RunInference(s, pictures, Model{Path: modelFile(t, "digits.onnx"), Codec: digits{17, 42}},
		Options{})
	want := expected(t, hundred)
	want = append(append(append([]any{}, want[:17]...), want[18:42]...), want[43:]...)
	passert.Equals(s, beam.ParDo(s, digitOf, results), want...)
	text := beam.ParDo(s, failureText, failures)
	passert.Count(s, text, "failures", 3)
	passert.EqualsList(s, beam.ParDo(s, shortened, text),
		[]string{"17 input picture 17 is torn|", "42 internal", "100 input"})
	m := metricsOf(run(t, p))
	if m["failures"] != 3 || m["elements"] != hundred-2 {
		t.Errorf("metrics: %v", m)
	}
}

// shortened is a failure's text without what the test does not know of it.
func shortened(text string) string {
	if words := strings.Fields(text); words[1] == "internal" || words[0] == "100" {
		return words[0] + " " + words[1]
	}
	return text
}

// TestKeys runs pairs of keys and elements.
func TestKeys(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	keyed := beam.ParDo(s, keyOf, firsts(s, 1))
	results, failures := RunInference(s, keyed, Model{Path: modelFile(t, "digits.onnx"), Codec: digits{3, -1}},
		Options{})
	var want []any
	for i, text := range expected(t, hundred) {
		if i != 3 {
			want = append(want, fmt.Sprintf("key %d %s", i, text))
		}
	}
	passert.Equals(s, beam.ParDo(s, keyedDigit, results), want...)
	passert.Equals(s, beam.ParDo(s, keyedFailure, failures), "key 3 input")
	run(t, p)
}

// keyOf gives a picture its key.
func keyOf(p Picture) (string, Picture) { return fmt.Sprint("key ", p.Number), p }

// TestWindows has elements of several windows in a bundle: results and failures keep their element's time and windows,
// also if they are emitted with an element of another window, or at the end of the bundle.
func TestWindows(t *testing.T) {
	defer settled(t)
	for _, windows := range []struct {
		name string
		fn   *window.Fn
		of   func(second int) []int // the beginnings of the windows
		size int
	}{
		{"fixed", window.NewFixedWindows(7 * time.Second), func(s int) []int { return []int{s / 7 * 7} }, 7},
		{"sliding", window.NewSlidingWindows(5*time.Second, 10*time.Second), func(s int) []int {
			return []int{s / 5 * 5, s/5*5 - 5}
		}, 10},
	} {
		t.Run(windows.name, func(t *testing.T) {
			p, s := beam.NewPipelineWithRoot()
			pictures := beam.WindowInto(s, windows.fn, beam.ParDo(s, spread, firsts(s, 2)))
			results, failures := RunInference(s, pictures, Model{Path: modelFile(t, "digits.onnx"),
				Codec: digits{57, -1}}, Options{Rows: 16})
			var want []any
			for i := range 2 * hundred {
				for _, begin := range windows.of(i) {
					if i != 57 {
						want = append(want, fmt.Sprintf("%d at %d in [%d, %d)", i, i, begin, begin+windows.size))
					}
				}
			}
			passert.Equals(s, beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, placed, results)), want...)
			begin := windows.of(57)[0]
			torn := beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, placedFailure, failures))
			list := []any{fmt.Sprintf("57 at 57 in [%d, %d)", begin, begin+windows.size)}
			if windows.name == "sliding" {
				list = append(list, fmt.Sprintf("57 at 57 in [%d, %d)", begin-5, begin+5))
			}
			passert.Equals(s, torn, list...)
			run(t, p)
		})
	}
}

// at writes where an element is.
func at(w beam.Window, et beam.EventTime, number int) string {
	iw := w.(window.IntervalWindow)
	return fmt.Sprintf("%d at %d in [%d, %d)", number, et.Milliseconds()/1000, iw.Start.Milliseconds()/1000,
		iw.End.Milliseconds()/1000)
}

func placed(w beam.Window, et beam.EventTime, l Label) string { return at(w, et, l.Number) }

func placedFailure(w beam.Window, et beam.EventTime, p Picture, _ Failure) string {
	return at(w, et, p.Number)
}

// TestVersions replaces a model by a side input, window by window: results say which version has run them.
func TestVersions(t *testing.T) {
	defer settled(t)
	first, second := modelFile(t, "1.onnx"), modelFile(t, "2.onnx")
	p, s := beam.NewPipelineWithRoot()
	fn := window.NewFixedWindows(50 * time.Second)
	pictures := beam.WindowInto(s, fn, beam.ParDo(s, spread, firsts(s, 2)))
	versions := beam.WindowInto(s, fn, beam.ParDo(s, appears, beam.CreateList(s, []string{"0 " + first, "50 " + first,
		"50 " + second, "150 " + second})))
	third := modelFile(t, "default.onnx")
	results, failures := RunInference(s, pictures, Model{Path: third, Versions: versions, Codec: digits{-1, -1}},
		Options{Rows: 16})
	var want []any
	for i := range 2 * hundred {
		want = append(want, fmt.Sprint(i, " ", []string{"1.onnx", "2.onnx", "default.onnx", "2.onnx"}[i/50]))
	}
	// The paths' order is that of their folders, which the test makes in order.
	if first > second {
		t.Fatalf("%s is greater than %s", first, second)
	}
	passert.Equals(s, beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, versionOf, results)), want...)
	passert.Empty(s, beam.WindowInto(s, window.NewGlobalWindows(), beam.ParDo(s, failureText, failures)))
	run(t, p)
}

// TestKeyedVersions has no other model than those of the side input, and pairs.
func TestKeyedVersions(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	versions := beam.Create(s, modelFile(t, "1.onnx"), modelFile(t, "2.onnx"))
	results, failures := RunInference(s, beam.ParDo(s, keyOf, firsts(s, 1)), Model{Versions: versions,
		Codec: digits{3, -1}}, Options{})
	var want []any
	for i := range hundred {
		if i != 3 {
			want = append(want, fmt.Sprint("key ", i, " 2.onnx"))
		}
	}
	passert.Equals(s, beam.ParDo(s, keyedVersion, results), want...)
	passert.Equals(s, beam.ParDo(s, keyedFailure, failures), "key 3 input")
	run(t, p)
}

func keyedVersion(key string, l Label) string { return key + " " + l.Model }

// appears gives a path the time that its text begins with.
func appears(text string, emit func(beam.EventTime, string)) {
	second, path, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(second)
	if err != nil {
		panic(err)
	}
	emit(mtime.FromTime(time.Unix(int64(n), 0)), path)
}

func versionOf(l Label) string { return fmt.Sprint(l.Number, " ", l.Model) }

// TestFloats runs vectors without a codec of the user's.
func TestFloats(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	vectors := beam.ParDo(s, pixelsOf, firsts(s, 1))
	results, failures := RunInference(s, vectors, Model{Path: modelFile(t, "digits.onnx")}, Options{})
	var want []any
	for i, text := range expected(t, hundred) {
		if i != 9 {
			want = append(want, text)
		}
	}
	passert.Equals(s, beam.ParDo(s, bestOf, results), want...)
	passert.Equals(s, beam.ParDo(s, keyedFailure, failures), "9 input")
	run(t, p)
}

// pixelsOf gives a picture's number and pixels, of which the ninth's are torn.
func pixelsOf(p Picture) (string, []float32) {
	if p.Number == 9 {
		return "9", p.Pixels[:5]
	}
	return fmt.Sprint(p.Number), p.Pixels
}

func bestOf(number string, scores []float32) string {
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return fmt.Sprintf("%s %d %.5f", number, best, scores[best])
}
