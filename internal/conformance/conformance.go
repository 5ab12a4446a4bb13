// Package conformance runs test cases in ONNX's layout through all of Weir: a folder with model.onnx and
// test_data_set_*/{input,output}_N.pb, on disk or in an archive.
package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/values"
)

// The tolerances of ONNX's own runner.
const (
	Relative = 1e-3
	Absolute = 1e-7
)

// Verdict is the outcome of a case.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Fail    Verdict = "fail"
	Refused Verdict = "refused" // not supported, by a typed error
)

// Case is a folder, of a file system or of an archive; Find makes it.
type Case struct {
	Name string
	Dir  string // its path, for messages
	// Rtol and Atol, if not 0, override Relative and Absolute and the case's own data.json.
	Rtol, Atol float64
	// Measure runs each data set again and reports the measured bytes and the predicted ones.
	Measure bool
	// Slow lists the kernels that have a reason to be slow.
	Slow bool

	files  fs.FS
	folder string // in files
	model  string // the model's file, in files; see configure
	load   func(model string) (*weir.Model, error)
	ramps  bool // its inputs are ramps, and its outputs lie beside its model
}

// Memory is the predicted and the measured bytes of one run.
type Memory struct {
	Predicted int64 `json:"predicted_bytes"`
	Observed  int64 `json:"observed_bytes"` // predicted, with the dimensions that the data decided
	Measured  int64 `json:"measured_bytes"`
}

// Result is the outcome of a case, with the facts that were asked for.
type Result struct {
	Name    string              `json:"name"`
	Verdict Verdict             `json:"verdict"`
	Why     string              `json:"why"`
	Ops     []string            `json:"ops,omitempty"`
	Memory  []Memory            `json:"memory,omitempty"`  // one for each data set of a Case with Measure
	Checks  []weir.KernelChecks `json:"-"`                 // of its machine code
	Kernels []weir.KernelTime   `json:"kernels,omitempty"` // that may be slow, of a Case with Slow
	OnHost  []weir.OnHost       `json:"on_host,omitempty"` // of a program for a device
	// DataDecide says that the memory of a run depends on elements or on executed steps, and not only on its inputs'
	// shapes.
	DataDecide bool `json:"data_decide,omitempty"`
}

// Run loads, compiles and runs a case, and compares every output of every data set.
func (c Case) Run(ctx context.Context, o weir.Options) Result {
	r := Result{Name: c.Name}
	if err := c.configure(); err != nil {
		return r.end(err)
	}
	m, err := c.load(c.model)
	if err != nil {
		return r.end(err)
	}
	defer m.Close()
	for op := range m.Describe().Ops {
		r.Ops = append(r.Ops, op)
	}
	r.Ops = Sorted(r.Ops)
	o.Stage = watchData(o.Stage, &r.DataDecide)
	p, err := weir.Compile(ctx, m, o)
	if err != nil {
		return r.end(err)
	}
	defer p.Close()
	r.Checks, r.OnHost = p.Checks(), p.OnHost()
	if c.Slow {
		r.Kernels = slices.DeleteFunc(p.Kernels(), func(k weir.KernelTime) bool { return len(k.Why) == 0 })
	}
	sets, err := c.sets(p)
	if err != nil {
		return r.end(err)
	}
	for _, set := range sets {
		if err := c.runSet(ctx, p, set, &r); err != nil {
			return r.end(err)
		}
	}
	r.Verdict = Pass
	return r
}

// end sets the verdict of an error.
func (r Result) end(err error) Result {
	r.Verdict, r.Why = Fail, err.Error()
	if errors.Is(err, weir.ErrUnsupported) {
		r.Verdict = Refused
	}
	return r
}

// runSet runs a data set, compares its outputs, and adds its memory to result.
func (c Case) runSet(ctx context.Context, p *weir.Program, set dataSet, result *Result) error {
	in := weir.Inputs{}
	for i, info := range p.Inputs() {
		v, err := set.input(i, info)
		if err != nil {
			return err
		}
		arg, tensors, err := values.ToArg(v)
		for _, t := range tensors {
			defer t.Close()
		}
		if err != nil {
			return err
		}
		in[info.Name] = arg
	}
	if set.more(len(in)) {
		return diag.Unsupportedf("the data give another value than the default of an input, and an initializer's value is " +
			"part of the program")
	}
	r, err := p.Run(ctx, in)
	if err != nil {
		return err
	}
	defer r.Close()
	for i, info := range p.Outputs() {
		want, err := set.output(i, info)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		got, err := values.FromResults(r, i, info)
		if err != nil {
			return err
		}
		if err := values.CompareValues(got, want, cmp.Or(c.Rtol, Relative), cmp.Or(c.Atol, Absolute)); err != nil {
			return otherText(c.Name, otherDraws(result.Ops, got, want, fmt.Errorf("output %s: %w", info.Name, err)))
		}
	}
	if !c.Measure {
		return nil
	}
	m, err := MemoryOf(ctx, p, in)
	if err == nil {
		result.Memory = append(result.Memory, m)
	}
	return err
}

// MemoryOf measures a run of a program, and returns its bytes and the predicted bytes for the inputs' shapes.
func MemoryOf(ctx context.Context, p *weir.Program, in weir.Inputs) (Memory, error) {
	dims, err := p.Bind(in)
	if err != nil {
		return Memory{}, err
	}
	seen, err := p.Measure(ctx, in)
	if err != nil {
		return Memory{}, err
	}
	for _, d := range p.Decided() {
		dims[d.Name] = seen.Decided[d.Name]
	}
	predicted, err := p.Memory().Peak(1, dims)
	if err != nil {
		return Memory{}, err
	}
	observed, err := p.Memory().PeakWith(1, dims, seen)
	return Memory{Predicted: predicted, Observed: observed, Measured: seen.Peak(1)}, err
}

// watchData returns a weir.Options.Stage that sets decide if data decide the memory of a run, and calls next.
func watchData(next func(name, text string), decide *bool) func(name, text string) {
	return func(name, text string) {
		if name == "program" {
			*decide = dataDecides.MatchString(text)
		}
		if next != nil {
			next(name, text)
		}
	}
}

// dataDecides matches a dimension with a limit, a branch or a loop in the text of a program.
var dataDecides = regexp.MustCompile(`(?m)^ *(dim .* data limit |if |loop )`)

// Sorted returns a list's distinct members in order.
func Sorted(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
