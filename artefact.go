package weir

import (
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/weirml/weir/internal/artefact"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
)

// artefactFile is an artefact that was read, with the description of its model as users see it.
type artefactFile = artefact.File[Description, Condition, Saving]

// compiledModel is a source that is an artefact.
type compiledModel struct{ *artefactFile }

func (a compiledModel) inputs() []signature.Info  { return signature.Infos(a.Inputs()) }
func (a compiledModel) outputs() []signature.Info { return a.Declared() }
func (a compiledModel) module() sources.Model     { return nil }

func (a compiledModel) describe(func() (func(), error)) Description { return a.About.Description }

// WriteTo writes the program as an artefact, a .weir file, which Load reads: its text, its scheduled loops, its
// certificate and its weights, without machine code. Load and Compile verify the artefact, and generate its
// code in a moment; results are equal to the bit.
func (p *Program) WriteTo(w io.Writer) (n int64, err error) {
	defer diag.Recover(&err, "writing an artefact")
	if p.target == Reference && p.model.source.module() != nil {
		return 0, diag.Unsupportedf(
			"an artefact of the reference, which interprets the model's nodes; an artefact has loops").
			WithFix("compile for --target cpu")
	}
	if _, err := p.session.Enter(); err != nil {
		return 0, err
	}
	defer p.session.Leave()
	defer diag.Faults(diag.Faults(true)) // the weights may lie in a file
	a := artefact.About[Description, Condition, Saving]{Target: string(p.target), Description: p.model.Describe(),
		Metadata: p.model.Metadata(), Proved: p.Proved(), Inputs: p.session.Inputs, Outputs: p.session.Outputs,
		Savings: p.Savings(), Exhausted: p.exhausted, Joined: p.joined}
	a.Description.Tuned = p.tuned
	declared := map[string][]signature.Extent{}
	for _, info := range p.model.source.outputs() {
		declared[info.Name] = info.Shape
	}
	for _, e := range p.session.Outputs {
		info := e.Info
		if shape, ok := declared[info.Name]; ok {
			info.Shape = shape
		}
		a.Extents = append(a.Extents, info.Shape)
	}
	if a.Initial, err = p.session.FirstValues(); err != nil {
		return 0, err
	}
	text, err := json.Marshal(a)
	if err != nil {
		return 0, err
	}
	return p.compiled.WriteTo(w, text)
}

// mayCompile returns an error if options other than the machine's differ from those that the artefact was compiled
// with.
func (a compiledModel) mayCompile(o Options) error {
	other := func(what string) *Error {
		return diag.Unsupportedf("an artefact with other %s than it was compiled with", what)
	}
	if outputs := a.Outputs(); o.Outputs != nil && !sameNames(o.Outputs, outputs) {
		e := other("outputs")
		e.Detail += ": " + signature.List(outputs)
		for _, name := range o.Outputs {
			if !slices.ContainsFunc(outputs, func(e signature.Edge) bool { return e.Info.Name == name }) {
				return e.AtTensor(name).WithFix("weir compile MODEL --keep %s makes an artefact that has it", name)
			}
		}
		return e.WithFix("compile the model again with these outputs")
	}
	has := func(fits func(i signature.Info) bool) bool { return slices.ContainsFunc(a.inputs(), fits) }
	for in, out := range o.States {
		if !has(func(i signature.Info) bool { return i.Name == in && i.State == out }) {
			return other("states").AtTensor(in).WithFix("compile the model again with these states")
		}
	}
	for in, layout := range o.Layouts {
		if !has(func(i signature.Info) bool { return i.Name == in && i.Layout == string(layout) }) {
			return other("layouts").AtTensor(in).WithFix("compile the model again with these layouts")
		}
	}
	if o.Precision == BF16 || o.Precision == I8 {
		return diag.Unsupportedf("an artefact in another precision than it was compiled with").
			WithFix("weir compile MODEL --precision bf16, or int8")
	}
	if o.Cache != InvalidDType && o.Cache != F32 {
		return other("caches").WithFix("weir compile MODEL --cache bf16, or int8")
	}
	return nil
}

// compile makes a program of the artefact.
func (a compiledModel) compile(ctx context.Context, p *Program, o Options, _ compiler.Choices) error {
	if err := a.mayCompile(o); err != nil {
		return err
	}
	if o.Target == Best {
		p.target = Target(a.About.Target)
	}
	if a.Machine.HasBlocks() != (p.target == Vulkan) {
		return diag.Unsupportedf("an artefact for %s as one for %s", a.About.Target, p.target).
			WithFix("weir compile MODEL --target %s", p.target)
	}
	if o.Limits != "" {
		return diag.Unsupportedf("an artefact with other limits than it was compiled with: %s", o.Limits).
			WithFix("weir compile MODEL --target vulkan --limits %s", o.Limits)
	}
	here := a.Machine
	if p.target == Vulkan {
		p.runWithin(&here, o)
	}
	switch made := a.Machine.CPU; o.CPU {
	case "", "native", string(Portable), made:
	default:
		return diag.Unsupportedf("an artefact for %s as one for %s", made, o.CPU).WithFix("weir compile MODEL --cpu %s",
			o.CPU)
	}
	dims := map[sym.Name]sym.Range{}
	known := report.LabelsOf(a.Program)
	for label, r := range o.Dims {
		name, ok := known.Find(label)
		if !ok {
			return diag.Inputf("the model has no dimension %q", label).AtDim(label)
		}
		dims[name] = sym.Range{Min: r.Min, Max: r.Max}
	}
	p.session.Inputs, p.session.Outputs = a.Inputs(), a.Outputs()
	p.exhausted, p.joined = a.About.Exhausted, a.About.Joined
	p.proved, p.tuned, p.saved = a.About.Proved, a.About.Description.Tuned, a.About.Savings
	budget, err := p.budget(o)
	if err != nil {
		return err
	}
	return mem.CatchFaults(func() (err error) {
		p.compiled, err = a.Compile(compiler.Options{Machine: here, Reference: p.target == Reference,
			Portable: o.CPU == string(Portable), Cross: o.Cross, Budget: budget, Folder: o.PageFolder, Files: p.model.files,
			Planned: func(c *compiler.Compiled) error { return p.planned(ctx, c) }, After: o.Stage}, dims, ctx.Err)
		return err
	})
}

// sameNames reports whether names are those of the edges, in order.
func sameNames(names []string, edges []signature.Edge) bool {
	return slices.EqualFunc(names, edges, func(name string, e signature.Edge) bool { return name == e.Info.Name })
}
