// Package weir compiles a model and tells, before it runs, exactly how much memory it will take; then it takes exactly
// that.
//
// Load reads a model, Compile plans and prepares it, Program.Run runs it:
//
//	m, err := weir.Load("model.onnx")
//	…
//	p, err := weir.Compile(ctx, m, weir.Options{})
//	…
//	fmt.Println(p.Memory())
//	x, err := weir.FromSlice(pixels, 1, 1, 8, 8)
//	…
//	r, err := p.Run(ctx, weir.Inputs{"image": x})
//	…
//	defer r.Close()
//	scores, err := weir.Copy[float32](r.Get("scores"))
//
// # Memory
//
// A program's peak is weights + code + calls × (arena + outputs + workers × scratch): calls is the number of runs that
// may be active at once or have results that are not closed. The formula is exact for every binding of the model's
// named dimensions (Program.Memory). The memory lies outside Go's heap: Usage gives the process's totals, and
// GOMEMLIMIT should be set to the container's limit less the peaks.
//
// # Strings, sequences, optionals
//
// A tensor of strings has the DType StringType, and its elements are Go's strings (FromSlice, Copy). Inputs and outputs
// that are not tensors say so in Info.Kind: Sequence makes the argument for a sequence, Absent stands for an
// optional without a value, and Results.Sequence returns the tensors of a sequence.
//
// # Ownership
//
// A run borrows its arguments; Consume and Donate give them away, Update lets the run change them in place. Results
// belong to the caller of Run, who closes them. A slice from View is invalid after Close; a slice from Copy is Go's own
// memory.
package weir

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirml/weir/internal/artefact"
	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/traced"
)

// Error is the type of the package's errors: the kind, the place (file, node, tensor, dimension), and a fix. errors.Is
// finds the kind.
type Error = diag.Error

// The kinds of error.
var (
	ErrInput       = diag.ErrInput       // the file, an input or a setting is at fault
	ErrUnsupported = diag.ErrUnsupported // Weir cannot do it; also errors.ErrUnsupported
	ErrBudget      = diag.ErrBudget      // the program does not fit the budget
	ErrMemory      = diag.ErrMemory      // the system, or the limit of SetLimit, refused memory
	ErrClosed      = diag.ErrClosed      // the program, call or tensor was closed
	ErrInternal    = diag.ErrInternal    // a bug in Weir
)

// DType is an element type.
type DType = dtype.DType

// The element types.
const (
	Bool         = dtype.Bool
	U2           = dtype.U2
	I2           = dtype.I2
	U4           = dtype.U4
	I4           = dtype.I4
	U8           = dtype.U8
	I8           = dtype.I8
	U16          = dtype.U16
	I16          = dtype.I16
	U32          = dtype.U32
	I32          = dtype.I32
	U64          = dtype.U64
	I64          = dtype.I64
	F4E2M1       = dtype.F4E2M1
	F8E4M3FN     = dtype.F8E4M3FN
	F8E4M3FNUZ   = dtype.F8E4M3FNUZ
	F8E5M2       = dtype.F8E5M2
	F8E5M2FNUZ   = dtype.F8E5M2FNUZ
	F8E8M0       = dtype.F8E8M0
	F16          = dtype.F16
	BF16         = dtype.BF16
	F32          = dtype.F32
	F64          = dtype.F64
	C64          = dtype.C64
	C128         = dtype.C128
	StringType   = dtype.String
	InvalidDType = dtype.Invalid
)

// Range is an interval of sizes of a dimension, both ends included.
type Range struct{ Min, Max int64 }

// Extent is the size of an axis: the number Size; or, if Dim is not empty, a named dimension or an expression over
// named dimensions (Size is then −1).
type Extent struct {
	Size int64
	Dim  string
}

// String returns the number, or the name or expression.
func (e Extent) String() string { return signature.Extent(e).String() }

// Info describes an input or output. For a sequence, DType and Shape are those of its tensors: Shape is nil if the
// model does not declare their rank, and a named extent may differ among them. Shape is also nil for an output of a
// program whose rank a run decides, such as that of a Squeeze without axes.
type Info struct {
	Name  string
	DType DType
	Shape []Extent
	Kind  Kind
	// State is the name of the output that is the new value of an input that runs update in place (see Update); empty for
	// other inputs.
	State string `json:",omitempty"`
	// Initial reports whether the model's file has the first value of a state. If a run gets no argument for such a
	// state, it updates a tensor of the program, which starts with that value and is in the certificate: see
	// Program.Initial.
	Initial bool `json:",omitempty"`
	// Layout is the order of an input's elements in memory: see Options.Layouts.
	Layout Layout `json:",omitempty"`
}

// Kind is the kind of an input or output.
type Kind uint8

// The kinds. A TensorKind holds numbers, or strings if its DType is StringType.
const (
	TensorKind           Kind = iota
	SequenceKind              // any number of tensors of one element type
	OptionalKind              // a tensor or no value
	OptionalSequenceKind      // a sequence or no value
)

// infosOf returns descriptions as the public type.
func infosOf(list []signature.Info) []Info {
	return each(list, func(i signature.Info) Info {
		info := Info{i.Name, i.DType, nil, Kind(i.Kind), i.State, i.Initial, Layout(i.Layout)}
		if i.Shape != nil {
			info.Shape = each(i.Shape, func(e signature.Extent) Extent { return Extent(e) })
		}
		return info
	})
}

// inner returns the description as package signature has it.
func (i Info) inner() signature.Info {
	info := signature.Info{Name: i.Name, DType: i.DType, Kind: sources.Kind(i.Kind), State: i.State, Initial: i.Initial,
		Layout: string(i.Layout)}
	if i.Shape != nil {
		info.Shape = each(i.Shape, func(e Extent) signature.Extent { return signature.Extent(e) })
	}
	return info
}

// String returns the name, type and shape, such as "image: f32[batch,1,8,8]", "words: seq(string[n])" or "state:
// optional(f32[2,128])". The shape of tensors of unknown rank is [...].
func (i Info) String() string { return i.inner().String() }

// Model is a loaded model. Its weights stay in its file's mapping until it and every program compiled from it are
// closed.
type Model struct {
	file   string
	source source
	files  *sources.Files
}

// Load reads the model at path. The contents tell the format: ONNX, a .pt2 file of torch.export.save (torch 2.9 or
// later), an artefact of Program.WriteTo, or Weir's own text. External data is read from the model's folder only. A
// folder is one of Hugging Face's transformers or of sentence-transformers, with safetensors files or an ONNX file:
// docs/text.md lists the kinds.
//
// A file must be a regular one: a pipe, a device or a socket is ErrInput, and is not opened. What a file
// says that it needs is checked before it is taken: it may claim 16 MiB, and 32 bytes for each byte of the file and
// of its external data. A file that claims more is ErrInput. Go's heap may grow to twice what is decoded on it.
func Load(path string) (m *Model, err error) { return LoadContext(context.Background(), path) }

// LoadContext is Load until ctx ends: the error then wraps ctx.Err(), and nothing of the model stays in memory. The
// context is looked at while the file is read and decoded; it does not end the model.
func LoadContext(ctx context.Context, path string) (m *Model, err error) {
	defer diag.Recover(&err, "loading "+path)
	f, err := mem.Open(path)
	if err != nil {
		if info, e := os.Stat(path); e == nil && info.IsDir() {
			s, err := sources.OpenFolder(ctx, path)
			return loaded(modules{s}, err, path)
		}
		return nil, inFile(err, path)
	}
	defer f.Close()
	return opened(ctx, f, path, func(b *mem.Block) (sources.Model, error) {
		return sources.Open(ctx, b, filepath.Dir(path))
	})
}

// LoadFS reads the model with this name from fsys, and its external data from the same folder of fsys.
func LoadFS(fsys fs.FS, name string) (m *Model, err error) {
	defer diag.Recover(&err, "loading "+name)
	f, err := mem.OpenFS(fsys, name)
	if err != nil {
		if info, e := fs.Stat(fsys, name); e == nil && info.IsDir() {
			s, err := sources.OpenFolderIn(context.Background(), fsys, name)
			return loaded(modules{s}, err, name)
		}
		return nil, inFile(err, name)
	}
	defer f.Close()
	return opened(context.Background(), f, name, func(b *mem.Block) (sources.Model, error) {
		return sources.OpenIn(context.Background(), b, fsys, name)
	})
}

// opened reads the model in an open file; read reads one that is no artefact, and owns the block.
func opened(ctx context.Context, f fs.File, name string, read func(*mem.Block) (sources.Model, error)) (*Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	block, err := mem.MapFS(f, filepath.Base(name))
	if err != nil {
		return nil, inFile(err, name)
	}
	compiled := false
	if err := mem.CatchFaults(func() error { compiled = compiler.IsArtefact(block.Bytes()); return nil }); err != nil {
		block.Close()
		return nil, inFile(err, name)
	}
	if compiled {
		a, err := artefact.Open[Description, Condition, Saving](ctx, block)
		return loaded(compiledModel{a}, err, name)
	}
	s, err := read(block)
	return loaded(modules{s}, err, name)
}

// LoadBytes reads a model from memory, for example of go:embed. It borrows data until the model and all programs
// compiled from it are closed. External data is not supported.
func LoadBytes(data []byte) (m *Model, err error) {
	defer diag.Recover(&err, "loading a model")
	if compiler.IsArtefact(data) {
		a, err := artefact.Read[Description, Condition, Saving](data)
		return loaded(compiledModel{a}, err, "")
	}
	s, err := sources.Parse(data)
	return loaded(modules{s}, err, "")
}

func init() {
	traced.Load = func(where string, module *ir.Module, once bool) (model any, err error) {
		defer diag.Recover(&err, "loading what code built")
		return loaded(modules{sources.OfModule("Go code, traced", module, once)}, nil, where)
	}
}

// loaded returns the model with a source that was read from file, or err with the file's name.
func loaded(s source, err error, file string) (*Model, error) {
	if err != nil {
		return nil, inFile(err, file)
	}
	return &Model{file: file, source: s, files: sources.NewFiles(s)}, nil
}

// inFile adds the file's name to an error that has none.
func inFile(err error, path string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		return e.AtFile(path)
	}
	return err
}

// Inputs describes the inputs of a run, in the model's order.
func (m *Model) Inputs() []Info { return infosOf(m.source.inputs()) }

// Outputs describes the outputs of a run, in the model's order, as far as the model declares them.
func (m *Model) Outputs() []Info { return infosOf(m.source.outputs()) }

// Metadata returns the metadata in the model's file: its producer, its licence and other entries, by name.
func (m *Model) Metadata() map[string]string { return m.source.Metadata() }

// Close ends the model's own use of its file; closing twice is allowed. Programs compiled from it still run: each keeps
// the parts of the file mapped that it reads in place, and the last program to close unmaps them.
func (m *Model) Close() error { return m.files.Shut() }

// read maps all of the model's files until done is called.
func (m *Model) read() (done func(), err error) {
	done, err = m.files.Read()
	return done, inFile(err, m.file)
}

// Target is the kind of machine that a program runs on.
type Target string

// The targets: the best on this machine (the zero value), the processor by machine code, the processor by portable Go
// code, and the slow reference.
//
// The reference interprets the model as it was imported, before any pass: node by node, each operator by its
// definition, with results rounded to the type that the model gives them. Its working memory is on Go's heap, outside
// the certificate: Memory counts its results only, and a budget is refused. It cannot write an artefact. If the model
// is an artefact, which has no nodes, the reference interprets the artefact's loops.
const (
	Best      Target = ""
	CPU       Target = "cpu"
	Portable  Target = "portable"
	Reference Target = "reference"
	// Vulkan is a GPU, through Vulkan. It is available in a build that imports github.com/weirml/weir/vulkan for its
	// effect.
	Vulkan Target = "vulkan"
)
