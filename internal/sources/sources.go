// Package sources reads models of every format: ONNX files, programs of torch.export, folders of transformers and of
// sentence-transformers, Weir's own text, and modules that other code built. A Model does not reveal its format.
package sources

import (
	"bytes"
	"context"
	"io/fs"
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Model is a model that was read. Its constants are views of its files, which stay mapped until Close.
type Model interface {
	Inputs() []Port
	Outputs() []Port // as far as the model declares them
	Metadata() map[string]string
	// Describe describes the file's content; read maps all of the files until done is called.
	Describe(read func() (done func(), err error)) Description
	// Blocks returns the files, mapped or read into memory; Close releases them.
	Blocks() []*mem.Block
	Close() error
	// Build makes a new module at each call.
	Build(ctx context.Context, a Asked) (*Built, error)
	// Written reports whether the user wrote the module, so that its declarations of memory are followed.
	Written() bool
	// Fixed reports whether an input has a value in the file, which is compiled in.
	Fixed(input string) bool
	// First writes the first value of a state that has one (Port.Initial).
	First(input string, to *tensor.Tensor) error
	// Origins calls add with every tensor that the main graph's nodes compute, in order.
	Origins(add func(name string, o Origin))
}

// Port is an input or output as the user sees it.
type Port struct {
	Name       string
	Type       ir.Type // of a sequence: the type of its tensors
	Kind       Kind
	Components []int  // the indices of its components among the module's parameters or results
	State      string // for an input that a run updates: the output that is its new value
	Initial    bool   // the file has the state's first value
}

// Asked has the options on which a module depends.
type Asked struct {
	Outputs []string             // the values to return; nil: the model's own
	States  map[string]string    // the outputs that are new values of inputs, by the inputs' names
	Dims    map[string]sym.Range // the ranges of dimensions that the caller gives
}

// Built is a module with its ports as the user sees them.
type Built struct {
	Module  *ir.Module
	Results []string // the names of its results
	Inputs  []Port
	Outputs []Port
}

// Origin is the node that computes a tensor.
type Origin struct {
	Node, Op string
	Proto    *wire.NodeProto // of an ONNX model
}

// Cutter is a model that can save some of its nodes as a model.
type Cutter interface {
	// Cut returns a model of a graph, to which it adds the initializers that the graph uses.
	Cut(g *wire.GraphProto, used map[string]bool) *wire.ModelProto
}

// Description is the content of a model file.
type Description struct {
	Format, Producer string
	Opsets           []string
	Parameters       []Parameters
	Ops              map[string]int // nodes, by operator
	Nodes            []Node
	Unsupported      []string // operators
}

// Parameters counts the constants of one element type.
type Parameters struct {
	DType string
	Count int64
	Bytes int64
}

// Node is a node of the main graph or, if its name has a path, of a subgraph or a function.
type Node struct {
	Name    string
	Op      string
	Inputs  []string
	Outputs []string
}

// count adds elements of a type to the parameters.
func (d *Description) count(dt dtype.DType, count int64) {
	bytes, _ := dt.Bytes(count)
	at := slices.IndexFunc(d.Parameters, func(p Parameters) bool { return p.DType == dt.String() })
	if at < 0 {
		at = len(d.Parameters)
		d.Parameters = append(d.Parameters, Parameters{DType: dt.String()})
	}
	d.Parameters[at].Count += count
	d.Parameters[at].Bytes += bytes
}

// Open reads the model in a block, with external data in a folder; it owns the block, and closes it if it cannot read
// it. It ends with the context's error if the context ends meanwhile, but a text is read to its end.
func Open(ctx context.Context, block *mem.Block, folder string) (Model, error) {
	return open(ctx, block, func() (*onnx.Model, error) { return onnx.Open(ctx, block, folder) })
}

// OpenIn is Open for the file of that name in fsys, with external data beside it.
func OpenIn(ctx context.Context, block *mem.Block, fsys fs.FS, name string) (Model, error) {
	return open(ctx, block, func() (*onnx.Model, error) { return onnx.OpenIn(ctx, block, fsys, name) })
}

// open reads the model in a block, which is ONNX unless its first bytes tell another format.
func open(ctx context.Context, block *mem.Block, asONNX func() (*onnx.Model, error)) (m Model, err error) {
	known := false
	err = mem.CatchFaults(func() (err error) {
		m, known, err = recognized(ctx, block.Bytes(), block)
		return err
	})
	if err != nil {
		block.Close()
		return nil, err
	}
	if known {
		if t, ok := m.(*textModel); ok && t.held == nil {
			block.Close() // the model has copies of what it needs
		}
		return m, nil
	}
	of, err := asONNX()
	return some(onnxModel{of}, err)
}

// Parse reads a model from memory, which it borrows.
func Parse(data []byte) (Model, error) {
	if m, known, err := recognized(context.Background(), data, nil); known {
		return m, err
	}
	m, err := onnx.Parse(data)
	return some(onnxModel{m}, err)
}

// recognized reads a model whose first bytes tell that it is not ONNX; known is false for all others. file is what the
// data lies in, nil if that is memory; a model may keep it.
func recognized(ctx context.Context, data []byte, file *mem.Block) (m Model, known bool, err error) {
	switch {
	case isText(data):
		if err := ctx.Err(); err != nil {
			return nil, true, err
		}
		m, err = some(readText(data))
	case isExported(data):
		m, err = some(exported(ctx, data, file))
	default:
		return nil, false, nil
	}
	return m, true, err
}

// OfModule returns a model of a module that other code built, and that nobody changes any more; from names that code.
// If once is true, the first Build takes the module over, and there is no second one.
func OfModule(from string, module *ir.Module, once bool) Model {
	if once {
		return &textModel{parsed: module, from: from, once: true}
	}
	return built(from, module)
}

// some returns m as a Model; nil if there is an error.
func some[M Model](m M, err error) (Model, error) {
	if err != nil {
		return nil, err
	}
	return m, nil
}

// PortsOf returns values as ports, each its own only component. All of them have a shape.
func PortsOf(values []*ir.Value) []Port {
	out := make([]Port, len(values))
	for i, v := range values {
		out[i] = Port{Name: v.Name, Type: v.Type, Components: []int{i}}
		if v.Type.Shape == nil {
			out[i].Type.Shape = []sym.Expr{}
		}
	}
	return out
}

// writeFirst writes a state's first value into a tensor of the type in which the state is stored. A nil value leaves
// the tensor's zeros, as for the scales of a cache that is stored as bytes.
func writeFirst(from, to *tensor.Tensor, input string) error {
	switch {
	case from == nil:
	case from.DType() == to.DType():
		copy(to.Bytes(), from.Bytes())
	case AllZero(from.Bytes()):
	case to.DType() == dtype.BF16:
		for i := range from.Len() {
			to.SetFloat(i, from.Float(i))
		}
	default:
		return diag.Unsupportedf("a first value other than zeros for a cache that is stored as %s", to.DType()).
			AtTensor(input).
			WithFix("store it as f32 or bf16")
	}
	return nil
}

// AllZero reports whether all bytes are 0.
func AllZero(data []byte) bool {
	var zeros [4096]byte
	for len(data) > len(zeros) {
		if !bytes.Equal(data[:len(zeros)], zeros[:]) {
			return false
		}
		data = data[len(zeros):]
	}
	return bytes.Equal(data, zeros[:len(data)])
}
