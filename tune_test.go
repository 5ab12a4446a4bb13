package weir

import (
	"bytes"
	"context"
	"errors"
	"os"
	"reflect"
	"testing"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/schedule"
	"github.com/weirml/weir/internal/timing"
)

// digitsModel loads the digits model.
func digitsModel(t *testing.T) *Model {
	t.Helper()
	data, err := os.ReadFile("examples/digits/data/digits.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m, err := LoadBytes(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// resultsOf returns the bytes of a program's outputs for inputs of its own.
func resultsOf(t *testing.T, p *Program) (out [][]byte) {
	t.Helper()
	sample, err := timing.NewSample(p.timed())
	if err != nil {
		t.Fatal(err)
	}
	defer sample.Close()
	in := Inputs{}
	for name, a := range sample.Inputs {
		in[name] = given(a)
	}
	r, err := p.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i := range p.Outputs() {
		out = append(out, bytes.Clone(r.At(i).Bytes()))
	}
	seen, err := p.Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	dims, err := p.Bind(in)
	if err != nil {
		t.Fatal(err)
	}
	if predicted, err := p.Memory().Peak(1, dims); err != nil || predicted != seen.Peak(1) {
		t.Errorf("predicted %d bytes, measured %d: %v", predicted, seen.Peak(1), err)
	}
	return out
}

// TestChosenPrograms: chosen panels and tiles change the loops and no bit of the results, and an artefact keeps the
// loops.
func TestChosenPrograms(t *testing.T) {
	m := digitsModel(t)
	o := Options{CPU: "avx2", Cross: true, Exact: true, Threads: 1, Calls: 1}
	compile := func(m *Model, o Options, c compiler.Choices) *Program {
		t.Helper()
		p, err := compileWith(t.Context(), m, o, c)
		if errors.Is(err, ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { p.Close() })
		return p
	}
	usual := compile(m, o, compiler.Choices{})
	if len(usual.compiled.Candidates()) == 0 {
		t.Fatal("there is nothing to choose")
	}
	want := resultsOf(t, usual)
	for _, choice := range []compiler.Choice{{Choice: schedule.Choice{Vectors: 1}}, {Choice: schedule.Choice{Vectors: 3}},
		{Choice: schedule.Choice{Vectors: 4, Rows: -6}}} {
		p := compile(m, o, compiler.Choices{All: choice})
		if loops := p.compiled.Loop.String(); loops == usual.compiled.Loop.String() {
			t.Errorf("%s changes nothing", choice)
		}
		if !reflect.DeepEqual(resultsOf(t, p), want) {
			t.Errorf("%s changes the results", choice)
		}
		p.tuned = []Tuning{{"node", choice.String(), 2, 1}}
		var file bytes.Buffer
		if _, err := p.WriteTo(&file); err != nil {
			t.Fatal(err)
		}
		a, err := LoadBytes(file.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		again := compile(a, Options{Cross: p.Target() == Portable, Threads: 1, Calls: 1}, compiler.Choices{})
		if again.compiled.Loop.String() != p.compiled.Loop.String() || !reflect.DeepEqual(again.Tuned(), p.Tuned()) ||
			!reflect.DeepEqual(a.Describe().Tuned, p.Tuned()) {
			t.Errorf("%s is lost in the artefact", choice)
		}
		if !reflect.DeepEqual(resultsOf(t, again), want) {
			t.Errorf("%s changes the results of the artefact", choice)
		}
		a.Close()
	}
}

// TestTuneLeavesNothing: tuning releases its memory, whether or not it chose something, and a program that cannot be
// tuned is an error that says so.
func TestTuneLeavesNothing(t *testing.T) {
	m := digitsModel(t)
	before := mem.Usage()
	p, err := Compile(t.Context(), m, Options{Tune: true, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	resultsOf(t, p)
	var file bytes.Buffer
	if _, err := p.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	p.Close()
	if after := mem.Usage(); before.Current != after.Current || before.Blocks != after.Blocks ||
		before.Spilled != after.Spilled {
		t.Errorf("tuning left %+v, there was %+v", after, before)
	}
	a, err := LoadBytes(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := Compile(t.Context(), a, Options{Tune: true}); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an artefact is tuned: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Compile(ended, m, Options{Tune: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}
