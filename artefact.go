package weir

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/report"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// artefact is a model that was compiled before.
type artefact struct {
	*compiler.Artefact
	about about
	block *mem.Block // the file's mapping, or nil
}

// about describes, in an artefact, the model that it was compiled from.
type about struct {
	Target      Target               `json:"target"`
	Description Description          `json:"description"`
	Metadata    map[string]string    `json:"metadata"`
	Proved      []Condition          `json:"proved"`
	Extents     [][]signature.Extent `json:"extents"` // of the outputs, as the model declares them
	Inputs      []signature.Edge     `json:"inputs"`  // the program's ports as the user sees them
	Outputs     []signature.Edge     `json:"outputs"`
	Savings     []Saving             `json:"savings,omitempty"`
	Exhausted   bool                 `json:"exhausted,omitempty"` // see Memory
	// the first values of states, by input; zeros are left out
	Initial map[string][]byte `json:"initial,omitempty"`
}

// WriteTo writes the program as an artefact, a .weir file, which Load reads: its text, its scheduled loops, its
// certificate and its weights, without machine code. Load verifies it and generates the code in a moment; its results
// are equal to the bit.
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
	a := about{Target: p.target, Description: p.model.Describe(), Metadata: p.model.Metadata(), Proved: p.Proved(),
		Inputs: p.session.Inputs, Outputs: p.session.Outputs, Savings: p.Savings(), Exhausted: p.exhausted}
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

// mapArtefact maps and reads the artefact in a file.
func mapArtefact(f *os.File) (*artefact, error) {
	block, err := mem.MapFile(f, filepath.Base(f.Name()))
	if err != nil {
		return nil, err
	}
	a, err := readArtefact(block.Bytes())
	if err != nil {
		block.Close()
		return nil, err
	}
	a.block = block
	return a, nil
}

// readArtefact reads an artefact from memory that it borrows.
func readArtefact(data []byte) (a *artefact, err error) {
	err = mem.CatchFaults(func() error {
		read, err := compiler.ReadArtefact(data)
		if err != nil {
			return err
		}
		a = &artefact{Artefact: read}
		if err := json.Unmarshal(read.About, &a.about); err != nil {
			return diag.Inputf("what the artefact says of its model: %v", err)
		}
		if err := signature.Check(a.about.Inputs, read.Program.Inputs, read.Program.Tensors); err != nil {
			return err
		}
		if err := signature.Check(a.about.Outputs, read.Program.Outputs, read.Program.Tensors); err != nil {
			return err
		}
		return a.checkInitial()
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// takes returns the inputs, with the shapes of tensors of numbers as the program has them.
func (a *artefact) takes() []signature.Edge {
	return signature.Typed(a.about.Inputs, a.Program.Inputs, a.Program.Tensors)
}

// gives returns the outputs likewise.
func (a *artefact) gives() []signature.Edge {
	return signature.Typed(a.about.Outputs, a.Program.Outputs, a.Program.Tensors)
}

func (a *artefact) inputs() []signature.Info {
	list := signature.Infos(a.takes())
	for i, e := range a.about.Inputs {
		if o := a.Program.NewValue(e.Parts[0]); o >= 0 {
			list[i].State = a.about.Outputs[slices.IndexFunc(a.about.Outputs, func(e signature.Edge) bool {
				return slices.Contains(e.Parts, o)
			})].Info.Name
		}
	}
	return list
}

// results describes the outputs as the program has them.
func (a *artefact) results() []signature.Info { return signature.Infos(a.gives()) }

// outputs describes the outputs as the model declares them.
func (a *artefact) outputs() []signature.Info {
	out := a.results()
	for i := range out {
		if i < len(a.about.Extents) && len(a.about.Extents[i]) == len(out[i].Shape) {
			out[i].Shape = slices.Clone(a.about.Extents[i])
		}
	}
	return out
}

func (a *artefact) Metadata() map[string]string { return maps.Clone(a.about.Metadata) }

func (a *artefact) describe(func() (func(), error)) Description { return a.about.Description }

func (a *artefact) Blocks() []*mem.Block {
	if a.block == nil {
		return nil
	}
	return []*mem.Block{a.block}
}

func (a *artefact) Close() error {
	if a.block == nil {
		return nil
	}
	return a.block.Close()
}

func (a *artefact) module() sources.Model { return nil }
func (a *artefact) Fixed(string) bool     { return false }

// First writes a state's first value into a tensor; a value that was left out is zeros.
func (a *artefact) First(input string, to *tensor.Tensor) error {
	copy(to.Bytes(), a.about.Initial[input])
	return nil
}

// compile makes a program of the artefact.
func (a *artefact) compile(ctx context.Context, p *Program, o Options, _ compiler.Choices) error {
	for _, name := range o.Outputs {
		if !slices.ContainsFunc(a.results(), func(info signature.Info) bool { return info.Name == name }) {
			return diag.Unsupportedf("an artefact with other outputs than it was compiled with, %s", signature.List(a.gives())).
				AtTensor(name).
				WithFix("weir compile MODEL --keep %s makes an artefact that has it", name)
		}
	}
	if o.Outputs != nil && !sameNames(o.Outputs, a.results()) {
		return diag.Unsupportedf("other outputs than those that the artefact was compiled with: %s",
			signature.List(a.gives())).
			WithFix("compile the model again with the outputs wanted")
	}
	for in, out := range o.States {
		if !slices.ContainsFunc(a.inputs(), func(info signature.Info) bool { return info.Name == in && info.State == out }) {
			return diag.Unsupportedf("an artefact with other states than it was compiled with").AtTensor(in).
				WithFix("compile the model again with the states wanted")
		}
	}
	for in, layout := range o.Layouts {
		if !slices.ContainsFunc(a.inputs(), func(info signature.Info) bool {
			return info.Name == in && info.Layout == string(layout)
		}) {
			return diag.Unsupportedf("an artefact with other layouts than it was compiled with").AtTensor(in).
				WithFix("compile the model again with the layouts wanted")
		}
	}
	if o.Precision == BF16 || o.Precision == I8 {
		return diag.Unsupportedf("an artefact in another precision than it was compiled with").
			WithFix("weir compile MODEL --precision bf16, or int8")
	}
	if o.Cache != InvalidDType && o.Cache != F32 {
		return diag.Unsupportedf("an artefact with other caches than it was compiled with").
			WithFix("weir compile MODEL --cache bf16, or int8")
	}
	if o.Target == Best {
		p.target = a.about.Target
	}
	if a.Machine.HasBlocks() != (p.target == Vulkan) {
		return diag.Unsupportedf("an artefact for %s as one for %s", a.about.Target, p.target).
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
	p.session.Inputs, p.session.Outputs = a.takes(), a.gives()
	p.exhausted = a.about.Exhausted
	p.proved, p.tuned, p.saved = a.about.Proved, a.about.Description.Tuned, a.about.Savings
	budget, err := p.budget(o)
	if err != nil {
		return err
	}
	return mem.CatchFaults(func() (err error) {
		p.compiled, err = a.Compile(compiler.Options{Machine: here, Reference: p.target == Reference,
			Portable: o.CPU == string(Portable) || o.Cross, Budget: budget, Folder: o.PageFolder, Files: p.model.files,
			After: o.Stage}, dims, ctx.Err)
		return err
	})
}

func sameNames(names []string, infos []signature.Info) bool {
	if len(names) != len(infos) {
		return false
	}
	for i, info := range infos {
		if names[i] != info.Name {
			return false
		}
	}
	return true
}

// checkInitial returns an error unless each first value in an artefact has a state of its size.
func (a *artefact) checkInitial() error {
	found := 0
	for _, e := range a.takes() {
		data, given := a.about.Initial[e.Info.Name]
		if !e.Info.Initial {
			continue
		}
		open := func(x signature.Extent) bool { return x.Dim != "" || x.Size < 0 }
		if !e.Info.Simple() || slices.ContainsFunc(e.Info.Shape, open) {
			return diag.Inputf("a first value of %s, whose shape runs decide", e.Info).AtTensor(e.Info.Name)
		}
		size, err := strided.BytesOf(e.Info.DType, e.Info.Fixed())
		if err != nil {
			return err
		}
		if given {
			found++
			if int64(len(data)) != size {
				return diag.Inputf("a first value of %d bytes for %s of %d", len(data), e.Info, size).AtTensor(e.Info.Name)
			}
		}
	}
	if found != len(a.about.Initial) {
		return diag.Inputf("%d first values, of which %d are of inputs that have one", len(a.about.Initial), found)
	}
	return nil
}
