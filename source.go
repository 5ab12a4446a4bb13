package weir

import (
	"context"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// source is what a model was read from: an ONNX file, a text, a program of torch.export, an artefact. The rest of the
// package asks it, and does not know which it is.
type source interface {
	inputs() []Info
	outputs() []Info // as far as the model declares them
	metadata() map[string]string
	// describe tells what the file holds; read has all of the files mapped until done is called.
	describe(read func() (done func(), err error)) Description
	// blocks are the files, mapped or read; close gives them back.
	blocks() []*mem.Block
	close() error
	// compile makes a program's parts.
	compile(ctx context.Context, p *Program, o Options, choices compiler.Choices) error
	// module is the source as one that modules are built of; nil for an artefact, which was compiled before.
	module() moduleSource
	// fixed reports whether an input has a value in the file, which is compiled in.
	fixed(input string) bool
	// first writes the first value of a state that has one (Info.Initial).
	first(input string, to *tensor.Tensor) error
}

// moduleSource is a source that modules are built of.
type moduleSource interface {
	source
	// build makes a module, whose results have the names. takes and gives say what its ports are to the user.
	build(ctx context.Context, o Options) (m *ir.Module, names []string, takes, gives []edge, err error)
	// written reports whether the user wrote the module, so that what it says of memory holds.
	written() bool
	// origins calls add with every tensor that the main graph's nodes compute, in order.
	origins(add func(name string, o origins))
}

// cutter is a source that can make a model of some of its nodes.
type cutter interface {
	// cut is a model of a graph, which gets the initializers that it uses.
	cut(g *wire.GraphProto, used map[string]bool) *wire.ModelProto
}
