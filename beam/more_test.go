package beamweir

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/filesystem/memfs"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/weirml/weir"
	"github.com/weirml/weir/embed"
	"github.com/weirml/weir/examples/digits/data"
)

func init() {
	register.Function1x2(textOf)
	register.Function2x1(vectorText)
	register.Function1x2(fails)
}

// roundTrip returns options as a worker reads them.
func roundTrip(o Options) (Options, error) {
	text, err := specOf(Model{Path: "x"}, o)
	if err != nil {
		return Options{}, err
	}
	var s spec
	err = json.Unmarshal([]byte(text), &s)
	return s.Options.options(), err
}

// textOf makes a text of a number.
func textOf(p Picture) (int, string) { return p.Number, strings.Repeat("river bread ", p.Number%7+1) }

func vectorText(number int, v []float32) string { return fmt.Sprintf("%d %.4f", number, v[:3]) }

// TestTexts runs texts, and compares their vectors with package embed's.
func TestTexts(t *testing.T) {
	defer settled(t)
	const folder = "../embed/testdata/models/bert"
	m, err := embed.Load(t.Context(), folder, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var want []any
	for i := range hundred {
		_, text := textOf(Picture{Number: i})
		v, err := m.Embed(t.Context(), []string{text})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, vectorText(i, v[0]))
	}
	m.Close()
	p, s := beam.NewPipelineWithRoot()
	results, failures := RunInference(s, beam.ParDo(s, textOf, firsts(s, 1)), Model{Path: folder}, Options{})
	passert.Equals(s, beam.ParDo(s, vectorText, results), want...)
	passert.Empty(s, failures)
	run(t, p)
}

// TestFileSystem loads a model from a file system of Beam's.
func TestFileSystem(t *testing.T) {
	memfs.Write("memfs://digits.onnx", data.Model)
	m, err := load(t.Context(), "memfs://digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	for _, path := range []string{"memfs://other.onnx", "none://digits.onnx"} {
		if _, err := load(t.Context(), path); !errors.Is(err, weir.ErrInput) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestHint adds up the hints of two models, and leaves a user's hint alone.
func TestHint(t *testing.T) {
	before := jobopts.ResourceHints
	defer func() { jobopts.ResourceHints = before }()
	const urn = "beam:resources:min_ram_bytes:v1"
	m := Model{Path: modelFile(t, "digits.onnx"), Codec: digits{}}
	first, err := Hint(t.Context(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Hint(t.Context(), m, Options{Rows: 64})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(jobopts.GetPipelineResourceHints().Payloads()[urn]); got != fmt.Sprint(first+second) ||
		second <= first {
		t.Errorf("the hint is %s, of %d and %d bytes", got, first, second)
	}
	jobopts.ResourceHints = nil
	jobopts.ResourceHints.Set("min_ram=5GiB")
	if _, err := Hint(t.Context(), m, Options{}); err != nil {
		t.Fatal(err)
	}
	if got := string(jobopts.GetPipelineResourceHints().Payloads()[urn]); got != fmt.Sprint(5<<30) {
		t.Errorf("the user's hint has become %s", got)
	}
}

// fails is a DoFn of a later step that fails.
func fails(l Label) (string, error) {
	if l.Number == 150 {
		return "", errors.New("a later step fails")
	}
	return digitOf(l), nil
}

// TestLaterFails: a bundle that fails after the transform leaves no model in the process.
func TestLaterFails(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	results, _ := RunInference(s, firsts(s, 5), Model{Path: modelFile(t, "digits.onnx"), Codec: digits{-1, -1}},
		Options{})
	beam.ParDo(s, fails, results)
	if _, err := prism.Execute(context.Background(), p); err == nil {
		t.Error("the pipeline has not failed")
	}
}

// TestMissing: a model that cannot be loaded fails the bundle.
func TestMissing(t *testing.T) {
	defer settled(t)
	p, s := beam.NewPipelineWithRoot()
	RunInference(s, firsts(s, 1), Model{Path: "none.onnx", Codec: digits{}}, Options{})
	if _, err := prism.Execute(context.Background(), p); err == nil || !strings.Contains(err.Error(), "none.onnx") {
		t.Errorf("the pipeline's error is %v", err)
	}
}

// other is a codec that nobody registers.
type other struct{}

// TestRefused has pipelines that cannot be built.
func TestRefused(t *testing.T) {
	_, s := beam.NewPipelineWithRoot()
	pictures, texts := beam.CreateList(s, []Picture{{}}), beam.CreateList(s, []string{"a"})
	for _, c := range []struct {
		name string
		col  beam.PCollection
		m    Model
		o    Options
		says string
	}{
		{"no model", pictures, Model{Codec: digits{}}, Options{}, "Model.Path"},
		{"unknown codec", pictures, Model{Path: "x", Codec: other{}}, Options{}, "beamweir.Register("},
		{"unknown key", beam.ParDo(s, textOf, pictures), Model{Path: "x", Codec: digits{}}, Options{},
			"beamweir.RegisterKeyed[int]("},
		{"no floats", pictures, Model{Path: "x"}, Options{}, "Picture"},
		{"no texts", texts, Model{Path: "x", Codec: digits{}}, Options{}, "string"},
		{"groups", beam.GroupByKey(s, beam.ParDo(s, textOf, pictures)), Model{Path: "x"}, Options{}, "a collection of"},
		{"negative rows", pictures, Model{Path: "x", Codec: digits{}}, Options{Rows: -1}, "-1 rows"},
		{"a logger", pictures, Model{Path: "x", Codec: digits{}}, Options{Compile: weir.Options{Logger: slog.Default()}},
			"Logger"},
	} {
		if _, _, err := TryRunInference(s, c.col, c.m, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
