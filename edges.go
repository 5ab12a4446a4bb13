package weir

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// Kind is the kind of an input or output.
type Kind uint8

// The kinds. A TensorKind holds numbers, or strings if its DType is StringType.
const (
	TensorKind           Kind = iota
	SequenceKind              // any number of tensors of one element type
	OptionalKind              // a tensor or no value
	OptionalSequenceKind      // a sequence or no value
)

// optional reports whether a value may be absent.
func (k Kind) optional() bool { return sources.Form{Kind: sources.Kind(k)}.Optional() }

// sequence reports whether a value is a list of tensors.
func (k Kind) sequence() bool { return sources.Form{Kind: sources.Kind(k)}.Sequence() }

// edge is an input or output as the user sees it, with the program's ports that represent it: the tensor itself; for
// strings, byte ranges and a pool of bytes; for a sequence, elements and extents, and the pool if it is of strings; for
// an optional, also a flag that says whether it has a value.
type edge struct {
	Info  Info  `json:"info"`
	Parts []int `json:"parts"`
}

// form returns the representation of an input or output by tensors of numbers.
func (i Info) form() sources.Form {
	return sources.Form{Kind: sources.Kind(i.Kind), DType: i.DType, Rank: len(i.Shape)}
}

// simple reports whether an input or output is one tensor of numbers, with one port.
func (i Info) simple() bool { return i.form().Simple() }

// port returns the edge as a port of a model, without its shape.
func (e edge) port() sources.Port {
	return sources.Port{Name: e.Info.Name, Type: ir.Type{DType: e.Info.DType}, Kind: sources.Kind(e.Info.Kind),
		Components: e.Parts}
}

// edgeInfos returns the descriptions of edges.
func edgeInfos(edges []edge) (infos []Info) {
	for _, e := range edges {
		infos = append(infos, e.Info)
	}
	return infos
}

// checkEdges returns an error unless the edges of an artefact use every port of the program exactly once.
func checkEdges(edges []edge, ports []program.Port, tensors []program.Tensor) error {
	seen := make([]bool, len(ports))
	for _, e := range edges {
		types := e.Info.form().ComponentTypes()
		if !e.Info.simple() && slices.ContainsFunc(e.Parts, func(i int) bool {
			return i >= 0 && i < len(ports) && ports[i].Ownership == program.State
		}) {
			return diag.Inputf("a part of it is a state").AtTensor(e.Info.Name)
		}
		if e.Info.Kind > OptionalSequenceKind {
			return diag.Inputf("there is no kind %d", e.Info.Kind).AtTensor(e.Info.Name)
		}
		if err := e.checkLayout(ports); err != nil {
			return err
		}
		if len(types) != len(e.Parts) {
			return diag.Inputf("%s of %d parts", e.Info, len(e.Parts)).AtTensor(e.Info.Name)
		}
		for i, part := range e.Parts {
			if part < 0 || part >= len(ports) || seen[part] || tensors[ports[part].Tensor].DType != types[i] {
				return diag.Inputf("part %d of %s is no %s of the program's own", i, e.Info, types[i]).AtTensor(e.Info.Name)
			}
			seen[part] = true
			if rank := e.Info.form().ComponentRank(i); len(tensors[ports[part].Tensor].Shape) != rank {
				return diag.Inputf("part %d of %s has not rank %d", i, e.Info, rank).AtTensor(e.Info.Name)
			}
		}
	}
	if at := slices.Index(seen, false); at >= 0 {
		return diag.Inputf("nothing is said of port %s", ports[at].Name).AtTensor(ports[at].Name)
	}
	return nil
}

// checkLayout returns an error unless the layout that an artefact gives an input is valid.
func (e edge) checkLayout(ports []program.Port) error {
	if e.Info.Layout == "" {
		return nil
	}
	_, err := e.Info.Layout.axes(len(e.Info.Shape))
	state := slices.ContainsFunc(e.Parts, func(i int) bool {
		return i >= 0 && i < len(ports) && ports[i].Ownership == program.State
	})
	if err != nil || !e.Info.simple() || e.Info.DType.IsSubByte() || state {
		return diag.Inputf("it cannot lie as %q", string(e.Info.Layout)).AtTensor(e.Info.Name)
	}
	return nil
}

// Arg is an argument of a run: a *Tensor, which the run borrows; the result of Donate, Consume, Update, Sequence or
// Strided; or Absent.
type Arg interface{ given() given }

// given is an argument: one tensor, several tensors, or no value.
type given struct {
	kind    Kind // TensorKind, SequenceKind, or OptionalKind for no value
	tensors []*Tensor
	lent    *strided.Memory  // memory with strides, instead of tensors
	data    []*tensor.Tensor // the tensors' elements, once a run has entered them
	owner   ownership
}

func (t *Tensor) given() given { return given{kind: TensorKind, tensors: t.list()} }

func (g given) given() given { return g }

// Sequence returns the argument for an input that is a sequence: the run borrows the tensors.
func Sequence(tensors ...*Tensor) Arg {
	return given{kind: SequenceKind, tensors: slices.Clone(tensors)}
}

// Absent is the argument for an optional input without a value.
var Absent Arg = given{kind: OptionalKind}

// String describes the argument for errors, such as "a sequence of 2 tensors".
func (g given) String() string {
	switch g.kind {
	case SequenceKind:
		return fmt.Sprintf("a sequence of %d tensors", len(g.tensors))
	case OptionalKind:
		return "nothing"
	}
	if g.lent != nil {
		return g.lent.String()
	}
	return g.tensors[0].String()
}

// shape returns the shape of an argument that is one tensor; nil for others.
func (g given) shape() []int64 {
	switch {
	case g.lent != nil:
		return g.lent.Shape
	case len(g.tensors) == 1:
		return g.tensors[0].shape
	}
	return nil
}

// packing holds the tensors of a run's ports while the run uses them. It makes copies where an argument is not in the
// form that the program reads; release frees them. The ledger counts the copies as the user's.
type packing struct {
	parts   []*tensor.Tensor // by port
	entered []*Tensor        // the arguments in use until release
	blocks  []*mem.Block
	parted  []*parted // the arguments that the caller gives away
	states  []state   // the tensors that the run updates
	held    int       // states[:held] are reserved for this run
	copies  []copying // the arguments that are copied when the run begins
	// by is the program whose budget the copies have taken reserved bytes from.
	by       *Program
	reserved int64
}

// state is a tensor that a run updates, and its input port.
type state struct {
	t    *Tensor
	data *tensor.Tensor
	port int
}

// release frees the copies, and ends the use of the arguments.
func (p *packing) release() {
	for _, b := range p.blocks {
		b.Close()
	}
	p.blocks, p.copies = nil, nil
	if p.by != nil {
		_ = p.by.reserve(-p.reserved)
		p.by, p.reserved = nil, 0
	}
	for _, a := range p.parted {
		a.done()
	}
	for _, s := range p.states[:p.held] {
		updated(s.data.Bytes())
	}
	for _, t := range p.entered {
		t.leave()
	}
	p.parted, p.states, p.held, p.entered = nil, nil, 0, nil
}

// allocate returns the allocator for copies with this name.
func (p *packing) allocate(name string) tensor.Allocate {
	return func(dt dtype.DType, shape ...int64) (*tensor.Tensor, error) {
		count, err := tensor.Count(shape)
		if err != nil {
			return nil, err
		}
		bytes, err := dt.Bytes(count)
		if err != nil {
			return nil, err
		}
		block, err := mem.Map(mem.Tensors, name, bytes)
		if err != nil {
			return nil, err
		}
		p.blocks = append(p.blocks, block)
		return tensor.Over(dt, shape, block.Bytes())
	}
}

// pack adds the tensors of an argument's ports. nothing is the shape of the tensor that represents an absent optional.
func (p *packing) pack(e edge, g given, nothing []int64) error {
	if e.Info.simple() && g.kind == TensorKind {
		p.parts[e.Parts[0]] = g.data[0]
		return nil
	}
	list := make([]*tensor.Tensor, len(g.tensors))
	for i, t := range g.tensors {
		if list[i] = g.data[i]; t.dtype != e.Info.DType {
			return diag.Inputf("tensor %d of it is %s, it must be %s", i, t, e.Info.DType)
		}
	}
	switch {
	case g.kind == OptionalKind && !e.Info.Kind.optional():
		return diag.Inputf("nothing is given, %s is expected", e.Info)
	case g.kind != OptionalKind && e.Info.Kind.sequence() != (g.kind == SequenceKind):
		return diag.Inputf("%s is given, %s is expected", g, e.Info)
	case g.kind == OptionalKind && !e.Info.Kind.sequence():
		t, err := tensor.New(e.Info.DType, nothing...)
		if err != nil {
			return err
		}
		list = append(list, t)
	}
	parts, err := e.Info.form().Pack(p.allocate(e.Info.Name), g.kind == OptionalKind, list)
	if err != nil {
		return err
	}
	for i, part := range parts {
		p.parts[e.Parts[i]] = part
	}
	return nil
}

// String returns the name, type and shape, such as "image: f32[batch,1,8,8]", "words: seq(string[n])" or "state:
// optional(f32[2,128])". The shape of a sequence of tensors of unknown rank is [...].
func (i Info) String() string {
	axes := make([]string, len(i.Shape))
	for k, e := range i.Shape {
		axes[k] = e.String()
	}
	text := fmt.Sprintf("%s[%s]", i.DType, strings.Join(axes, ","))
	if i.Kind.sequence() {
		if i.Shape == nil {
			text = i.DType.String() + "[...]"
		}
		text = "seq(" + text + ")"
	}
	if i.Kind.optional() {
		text = "optional(" + text + ")"
	}
	if i.State != "" {
		text += " updated to " + i.State
		if i.Initial {
			text += ", first as in the file"
		}
	}
	if i.Layout != "" {
		text += " lying as " + string(i.Layout)
	}
	return i.Name + ": " + text
}
