// Package beamweir runs models over collections of Apache Beam:
//
//	labels, failures := beamweir.RunInference(s, images, beamweir.Model{Path: "digits.onnx", Codec: digits{}},
//		beamweir.Options{})
//
// One process has one program of a model, however many bundles it works on at once: the elements of all its bundles
// share runs. What a program takes is known before it runs: Hint makes it the pipeline's resource hint.
//
// It is a module of its own, so that only those who import it depend on Beam.
package beamweir

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
)

// Model is what RunInference runs.
type Model struct {
	// Path is the model's file or folder, which every worker can read. A path with "://" is a file of one of Beam's file
	// systems, whose package the program must import: gs://bucket/model.onnx is in package gcs.
	Path string
	// Versions, if valid, is a collection of strings: paths of models that replace Path while the pipeline runs. It is a
	// side input: an element is run by the greatest path of its window, in byte order, and by Path if there is none. A
	// process loads a version before it releases the one before. A streaming pipeline puts both collections into windows.
	Versions beam.PCollection
	// Codec is a registered Codec, Floats or Texts. nil: Texts for a collection of strings, and Floats for another.
	Codec any
}

// Options are the settings of RunInference. The zero value works.
type Options struct {
	// Compile are the options of the program: threads, precision, calls, ranges of dimensions. Budget is the most bytes
	// of the program, the joined inputs of its runs and the inputs of its elements together: a run has as many rows as
	// fit. Logger, Account and Stage cannot be sent to workers, and must be nil.
	Compile weir.Options
	// Rows is the most rows of a run, 2 at least; 0 stands for the upper bound in Compile.Dims or, without one, for 32.
	// Runs of texts have as many texts as Budget allows.
	Rows int
	// Wait is the longest time that an element waits for others to fill its run; 0 stands for 5 ms. Less suits streams
	// of few elements, whose bundles end sooner. Texts do not wait.
	Wait time.Duration
}

// RunInference runs a model over a collection of elements, or of pairs of keys and elements. results has an element for
// each that has run; if the collection has keys, they are the results' keys. failures has the others: pairs of an
// element, or of its key if there are keys, and a Failure. Results keep the time and the windows of their elements. It
// panics as beam.ParDo does: TryRunInference returns the error instead.
//
// An element whose fault it is, or for which the codec returns an error, is a failure. If memory is refused or a model
// cannot be loaded, the bundle fails, and Beam's runner decides whether it is tried again.
func RunInference(s beam.Scope, col beam.PCollection, m Model, o Options) (results, failures beam.PCollection) {
	results, failures, err := TryRunInference(s, col, m, o)
	if err != nil {
		panic(err)
	}
	return results, failures
}

// TryRunInference is RunInference, but returns its error.
func TryRunInference(s beam.Scope, col beam.PCollection, m Model, o Options) (results, failures beam.PCollection,
	err error) {
	if !s.IsValid() || !col.IsValid() {
		return results, failures, diag.Inputf("the scope or the collection is not valid")
	}
	if m.Path == "" && !m.Versions.IsValid() {
		return results, failures, diag.Inputf("no model").WithFix("set Model.Path or Model.Versions")
	}
	spec, err := specOf(m, o)
	if err != nil {
		return results, failures, err
	}
	r, codec, err := registrationOf(m.Codec, col.Type())
	if err != nil {
		return results, failures, err
	}
	s = s.Scope("beamweir.RunInference")
	var side []beam.Option
	if m.Versions.IsValid() {
		side = append(side, beam.SideInput{Input: m.Versions})
	}
	out, err := beam.TryParDo(s, r.make(codec, spec, len(side) > 0), col, side...)
	if err != nil {
		return results, failures, err
	}
	return out[0], out[1], nil
}

// Failure says why an element has no result.
type Failure struct {
	Kind   string // input, unsupported, budget or internal: a kind of weir's errors; input for a codec's own errors
	Detail string // the fault
	Fix    string // the remedy, if one is known
	Tensor string // the tensor at fault, if it is known
	Dim    string // the dimension at fault, if it is known
	Text   string // the whole error
	Model  string // the path of the model
}

// String returns the whole error.
func (f Failure) String() string { return f.Text }

// failureOf describes an error.
func failureOf(err error, model string) Failure {
	f := Failure{Kind: "input", Detail: err.Error(), Text: err.Error(), Model: model}
	for _, kind := range []error{weir.ErrInput, weir.ErrUnsupported, weir.ErrBudget, weir.ErrInternal} {
		if errors.Is(err, kind) {
			f.Kind = diag.KindName(kind)
			break
		}
	}
	if e, ok := errors.AsType[*weir.Error](err); ok {
		f.Detail, f.Fix, f.Tensor, f.Dim = e.Detail, e.Fix, e.Tensor, e.Dim
	}
	return f
}

// isElements reports whether an error is the fault of an element. Other errors fail its bundle.
func isElements(err error) bool {
	for _, other := range []error{weir.ErrMemory, weir.ErrClosed, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// spec is what travels to the workers beside the codec.
type spec struct {
	Path    string
	Options traveling
}

// traveling are Options as JSON, without the fields that have no JSON.
type traveling struct {
	Compile struct {
		weir.Options
		Logger, Account, Stage *struct{}  `json:",omitempty"`
		Precision, Cache       weir.DType `json:",omitempty"` // whose zero value has no text that can be read back
	}
	Rows int
	Wait time.Duration
}

// travelingOf returns options as they travel.
func travelingOf(o Options) (t traveling) {
	t.Compile.Options, t.Rows, t.Wait = o.Compile, o.Rows, o.Wait
	t.Compile.Precision, t.Compile.Cache = o.Compile.Precision, o.Compile.Cache
	return t
}

// options returns the options of the program.
func (t traveling) options() Options {
	o := Options{Compile: t.Compile.Options, Rows: t.Rows, Wait: t.Wait}
	o.Compile.Precision, o.Compile.Cache = t.Compile.Precision, t.Compile.Cache
	return o
}

// specOf checks options, and returns what travels.
func specOf(m Model, o Options) (text string, err error) {
	if o.Compile.Logger != nil || o.Compile.Account != nil || o.Compile.Stage != nil {
		return "", diag.Inputf("Options.Compile has a Logger, an Account or a Stage, which cannot be sent to workers").
			WithFix("leave them nil")
	}
	if o.Rows < 0 || o.Wait < 0 {
		return "", diag.Inputf("runs of %d rows, and a wait of %v", o.Rows, o.Wait)
	}
	data, err := json.Marshal(spec{Path: m.Path, Options: travelingOf(o)})
	return string(data), err
}

// elementType returns the type of a collection's elements, and of their keys; nil if they have none.
func elementType(t typex.FullType) (key, element reflect.Type, err error) {
	switch {
	case typex.IsKV(t) && !typex.IsComposite(t.Components()[0].Type()) && !typex.IsComposite(t.Components()[1].Type()):
		return t.Components()[0].Type(), t.Components()[1].Type(), nil
	case typex.IsComposite(t.Type()):
		return nil, nil, diag.Unsupportedf("a collection of %v", t).
			WithFix("make it one of elements, or of pairs of keys and elements")
	}
	return nil, t.Type(), nil
}
