package weir

import (
	"context"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/tensor"
)

// source is the origin of a model: a file of a format that modules are built from, or an artefact, which was compiled
// before. The rest of the package does not know which it is.
type source interface {
	inputs() []signature.Info
	outputs() []signature.Info // as far as the model declares them
	// describe describes the contents of the file; read maps all of the files until done is called.
	describe(read func() (done func(), err error)) Description
	// compile sets the compiled code of p, its inputs and outputs, and its proved conditions.
	compile(ctx context.Context, p *Program, o Options, choices compiler.Choices) error
	// module returns the model that modules are built from; nil for an artefact.
	module() sources.Model

	Metadata() map[string]string
	Blocks() []*mem.Block                        // the files, mapped or read
	Close() error                                // releases the files
	Fixed(input string) bool                     // whether an input has a value in the file, which is compiled in
	First(input string, to *tensor.Tensor) error // writes the first value of a state that has one (Info.Initial)
}

// modules is a source that modules are built from.
type modules struct{ sources.Model }

func (m modules) inputs() []signature.Info  { return signature.InfosOf(m.Inputs()) }
func (m modules) outputs() []signature.Info { return signature.InfosOf(m.Outputs()) }
func (m modules) module() sources.Model     { return m.Model }

func (m modules) compile(ctx context.Context, p *Program, o Options, choices compiler.Choices) error {
	return p.compileModule(ctx, m.Model, o, choices)
}

func (m modules) describe(read func() (done func(), err error)) Description {
	from := m.Describe(read)
	d := Description{Format: from.Format, Producer: from.Producer, Opsets: from.Opsets, Ops: from.Ops,
		Parameters: []ParameterInfo{}, Nodes: []NodeInfo{}, Unsupported: []string{}}
	for _, i := range m.inputs() {
		d.Inputs = append(d.Inputs, i.String())
	}
	for _, o := range m.outputs() {
		d.Outputs = append(d.Outputs, o.String())
	}
	for _, p := range from.Parameters {
		d.Parameters = append(d.Parameters, ParameterInfo(p))
	}
	for _, n := range from.Nodes {
		d.Nodes = append(d.Nodes, NodeInfo(n))
	}
	d.Unsupported = append(d.Unsupported, from.Unsupported...)
	return d
}

// asked returns the options that the module depends on.
func (o Options) asked() sources.Asked {
	return sources.Asked{Outputs: o.Outputs, States: o.States, Dims: o.ranges()}
}
