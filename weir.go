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
// A program's peak is weights + code + calls × (arena + outputs + workers × scratch), where calls is how many runs may
// be active at once or have results that are not closed. The formula is exact for every binding of the model's named
// dimensions (Program.Memory). The memory lies outside Go's heap: Usage gives the process's totals, and GOMEMLIMIT
// should be set to the container's limit less the peaks.
//
// # Texts, sequences, optionals
//
// A tensor of texts has the DType StringType, and its elements are Go's strings (FromSlice, Copy). Inputs and outputs
// of other kinds than a tensor say so in Info.Kind: Sequence makes the argument for a sequence, Absent stands for an
// optional that has nothing, and Results.Sequence gives the tensors of a sequence.
//
// # Ownership
//
// Arguments are borrowed for the run; Consume and Donate part with them, Update has them updated in place. Results
// belong to whoever called Run, until closed. What View returns is dead after Close; what Copy returns is Go's own
// memory.
package weir

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/weirml/weir/internal/compiler"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/traced"
)

// Error is what the package returns: its kind, where it happened, and what would mend it. errors.Is finds the kind.
type Error = diag.Error

// The kinds of error.
var (
	ErrInput       = diag.ErrInput       // the file, an input or a setting is at fault
	ErrUnsupported = diag.ErrUnsupported // Weir cannot do it; also errors.ErrUnsupported
	ErrBudget      = diag.ErrBudget      // it does not fit the budget
	ErrMemory      = diag.ErrMemory      // the system refused memory
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

// Range is the values that a dimension may have, both ends included.
type Range struct{ Min, Max int64 }

// Extent is the size of an axis: a number, or, where Dim is not empty, a named dimension (Size is then −1), or an
// expression over such.
type Extent struct {
	Size int64
	Dim  string
}

// String is the number or the name.
func (e Extent) String() string {
	if e.Dim != "" {
		return e.Dim
	}
	return fmt.Sprint(e.Size)
}

// Info describes an input or output. Of a sequence, DType and Shape are its tensors': Shape is nil if not even their
// rank is declared, and a named extent may differ among them.
type Info struct {
	Name  string
	DType DType
	Shape []Extent
	Kind  Kind
	// of an input that a run updates in place (see Update): the output that is its new value; else empty
	State string `json:",omitempty"`
	// Initial says that the model's file has the first value of a state. A run that is given nothing for it updates the
	// program's own tensor, which begins with that value and is in the certificate: see Program.Initial.
	Initial bool `json:",omitempty"`
	// Layout is how an input lies in memory: see Options.Layouts.
	Layout Layout `json:",omitempty"`
}

// infoOf describes a port.
func infoOf(p sources.Port) Info {
	info := Info{Name: p.Name, DType: p.Type.DType, Kind: Kind(p.Kind), State: p.State, Initial: p.Initial}
	if p.Type.Shape != nil {
		info.Shape = []Extent{}
	}
	for _, e := range p.Type.Shape {
		info.Shape = append(info.Shape, extentOf(e))
	}
	return info
}

func extentOf(e sym.Expr) Extent {
	if v, ok := e.Const(); ok {
		return Extent{Size: v}
	}
	return Extent{Size: -1, Dim: e.String()}
}

// Model is a loaded model. Its weights stay in its file's mapping until it and every program compiled from it are
// closed.
type Model struct {
	file   string
	source source
	files  *sources.Files
}

// Load reads the model at path: ONNX, a .pt2 file that torch.export.save of torch 2.9 or later wrote, an artefact that
// Program.WriteTo wrote, or Weir's own text; the contents tell which. External data is read from the model's own folder
// only.
func Load(path string) (m *Model, err error) {
	defer diag.Recover(&err, "loading "+path)
	f, err := mem.Open(path)
	if err != nil {
		return nil, inFile(err, path)
	}
	defer f.Close()
	var head []byte // of what is neither a folder nor a device, which onnx refuses by name
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		if head, err = sources.Head(f); err != nil {
			return nil, inFile(err, path)
		}
	}
	if compiler.IsArtefact(head) {
		a, err := mapArtefact(f)
		return loaded(a, err, path)
	}
	s, err := sources.Open(f, path, head)
	return loaded(modules{s}, err, path)
}

// LoadFS reads the model of that name from fsys, with external data beside it.
func LoadFS(fsys fs.FS, name string) (m *Model, err error) {
	defer diag.Recover(&err, "loading "+name)
	f, err := mem.OpenFS(fsys, name)
	if err != nil {
		return nil, inFile(err, name)
	}
	defer f.Close()
	head, err := sources.Head(f)
	if err != nil {
		return nil, inFile(err, name)
	}
	if compiler.IsArtefact(head) {
		data, err := sources.Rest(head, f)
		if err != nil {
			return nil, inFile(err, name)
		}
		a, err := readArtefact(data)
		return loaded(a, err, name)
	}
	s, err := sources.OpenIn(fsys, name, head, f)
	return loaded(modules{s}, err, name)
}

// LoadBytes reads a model from memory, which it borrows until the model and its programs are closed: for go:embed.
// There is no external data.
func LoadBytes(data []byte) (m *Model, err error) {
	defer diag.Recover(&err, "loading a model")
	if compiler.IsArtefact(data) {
		a, err := readArtefact(data)
		return loaded(a, err, "")
	}
	s, err := sources.Parse(data)
	return loaded(modules{s}, err, "")
}

func init() {
	traced.Load = func(where string, module *ir.Module) (model any, err error) {
		defer diag.Recover(&err, "loading what code built")
		s, err := sources.OfModule("Go code, traced", module)
		return loaded(modules{s}, err, where)
	}
}

// loaded is a model that was read from a file, or why it was not.
func loaded(s source, err error, file string) (*Model, error) {
	if err != nil {
		return nil, inFile(err, file)
	}
	return &Model{file: file, source: s, files: sources.NewFiles(s)}, nil
}

// inFile names the file in an error that does not name one.
func inFile(err error, path string) error {
	var e *Error
	if errors.As(err, &e) && e.File == "" {
		return e.AtFile(path)
	}
	return err
}

// Inputs describes what a run is given, in the model's order.
func (m *Model) Inputs() []Info { return m.source.inputs() }

// Outputs describes what a run gives, in the model's order, as far as the model declares it.
func (m *Model) Outputs() []Info { return m.source.outputs() }

// Metadata is the model's own: producer, licence, and whatever else its maker wrote.
func (m *Model) Metadata() map[string]string { return m.source.Metadata() }

// Close ends the model's own use of its file; closing twice is fine. Programs compiled from it go on: each keeps mapped
// what it reads of the file in place, and the last of them to be closed gives that back.
func (m *Model) Close() error { return m.files.Shut() }

// read has all of the model's files mapped until done is called.
func (m *Model) read() (done func(), err error) {
	done, err = m.files.Read()
	return done, inFile(err, m.file)
}

// Target names where a program runs.
type Target string

// The targets: the best here (the zero value), the processor, the processor by portable code, and the slow reference.
//
// The reference interprets the model as it was imported, before any pass: node by node, each operator by its plain
// meaning, whose results are rounded to the type that the model gives them. What it works with lies on Go's heap, in no
// certificate: Memory counts its results alone, and a budget is refused. It makes no artefact. Of an artefact, which
// has no nodes, it interprets the loops.
const (
	Best      Target = ""
	CPU       Target = "cpu"
	Portable  Target = "portable"
	Reference Target = "reference"
	// Vulkan is a GPU, through Vulkan: a program has it if it imports github.com/weirml/weir/vulkan for its effect.
	Vulkan Target = "vulkan"
)
