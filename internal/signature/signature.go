// Package signature describes the inputs and outputs of a model as its user sees them, with their ports: the tensors of
// numbers that represent each of them, as parameters or results of a module and of the program that is compiled from
// it. The package applies the options that change inputs and outputs: states, caches of narrow elements, and layouts.
package signature

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/sym"
)

// Extent is the size of an axis: the number Size; or, if Dim is not empty, a named dimension or an expression over
// named dimensions (Size is then −1).
type Extent struct {
	Size int64
	Dim  string
}

// String returns the number, or the name or expression.
func (e Extent) String() string {
	if e.Dim != "" {
		return e.Dim
	}
	return fmt.Sprint(e.Size)
}

// ExtentOf returns a formula as an extent: a number if the formula is constant.
func ExtentOf(e sym.Expr) Extent {
	if v, ok := e.Const(); ok {
		return Extent{Size: v}
	}
	return Extent{Size: -1, Dim: e.String()}
}

// Info describes an input or output, with the fields of weir.Info. Artefacts contain it as JSON.
type Info struct {
	Name    string
	DType   dtype.DType
	Shape   []Extent
	Kind    sources.Kind
	State   string `json:",omitempty"` // of an input that is a state: the output that is its new value
	Initial bool   `json:",omitempty"` // whether the model's file has the first value of the state
	Layout  string `json:",omitempty"` // the order of its axes in memory, in the syntax of weir.Layout; "": row-major
}

// InfoOf describes an input or output that package sources has read.
func InfoOf(p sources.Port) Info {
	info := Info{Name: p.Name, DType: p.Type.DType, Kind: p.Kind, State: p.State, Initial: p.Initial}
	if p.Type.Shape != nil {
		info.Shape = []Extent{}
	}
	for _, e := range p.Type.Shape {
		info.Shape = append(info.Shape, ExtentOf(e))
	}
	return info
}

// InfosOf describes inputs or outputs that package sources has read.
func InfosOf(ports []sources.Port) []Info {
	out := make([]Info, len(ports))
	for i, p := range ports {
		out[i] = InfoOf(p)
	}
	return out
}

// Form returns the form that determines how tensors of numbers represent the input or output.
func (i Info) Form() sources.Form {
	f := sources.Form{Kind: i.Kind, DType: i.DType, Rank: len(i.Shape)}
	if i.Kind == sources.Tensor && i.Shape == nil {
		f.Rank = sources.AnyRank
	}
	return f
}

// Simple reports whether an input or output is one tensor of numbers, with one port.
func (i Info) Simple() bool { return i.Form().Simple() }

// Order returns Layout as an order of the axes.
func (i Info) Order() (strided.Order, error) { return strided.Parse(i.Layout, len(i.Shape)) }

// Fixed returns the shape of an input whose extents are all numbers, such as a state with a first value.
func (i Info) Fixed() []int64 {
	shape := make([]int64, len(i.Shape))
	for axis, e := range i.Shape {
		shape[axis] = e.Size
	}
	return shape
}

// String returns the name, type and shape, such as "image: f32[batch,1,8,8]", "words: seq(string[n])" or "state:
// optional(f32[2,128])". The shape of tensors of unknown rank is [...].
func (i Info) String() string {
	axes := make([]string, len(i.Shape))
	for k, e := range i.Shape {
		axes[k] = e.String()
	}
	text := fmt.Sprintf("%s[%s]", i.DType, strings.Join(axes, ","))
	if i.Shape == nil && (i.Form().Sequence() || i.Form().Rank == sources.AnyRank) {
		text = i.DType.String() + "[...]"
	}
	if i.Form().Sequence() {
		text = "seq(" + text + ")"
	}
	if i.Form().Optional() {
		text = "optional(" + text + ")"
	}
	if i.State != "" {
		text += " updated to " + i.State
		if i.Initial {
			text += ", first as in the file"
		}
	}
	if i.Layout != "" {
		text += " lying as " + i.Layout
	}
	return i.Name + ": " + text
}

// Edge is an input or output as the user sees it. Parts are the indices of its ports, in the order of
// sources.Form.ComponentTypes: the tensor itself; for strings, byte ranges and a pool of bytes; for a sequence,
// elements and extents, and the pool if it is of strings; for an optional, first a flag that says whether it has a
// value.
type Edge struct {
	Info  Info  `json:"info"`
	Parts []int `json:"parts"`
}

// EdgesOf returns inputs or outputs that package sources has read as edges.
func EdgesOf(ports []sources.Port) (edges []Edge) {
	for _, p := range ports {
		edges = append(edges, Edge{InfoOf(p), p.Components})
	}
	return edges
}

// Infos returns the descriptions of edges.
func Infos(edges []Edge) (infos []Info) {
	for _, e := range edges {
		infos = append(infos, e.Info)
	}
	return infos
}

// Port returns the input or output as package sources represents it, without its shape.
func (e Edge) Port() sources.Port {
	p := sources.Port{Name: e.Info.Name, Type: ir.Type{DType: e.Info.DType}, Kind: e.Info.Kind, Components: e.Parts}
	if e.Info.Shape != nil {
		p.Type.Shape = []sym.Expr{}
	}
	return p
}

// Signature is the inputs and outputs of a model.
type Signature struct {
	Inputs, Outputs []Edge
	// Fixed reports whether an input has a value in the model's file, which is compiled in.
	Fixed func(name string) bool
}

// Input returns the index of the input with this name.
func (s *Signature) Input(name string) (int, bool) {
	for i := range s.Inputs {
		if s.Inputs[i].Info.Name == name {
			return i, true
		}
	}
	return 0, false
}

// Output returns the index of the output with this name; −1 if there is none.
func (s *Signature) Output(name string) int {
	return slices.IndexFunc(s.Outputs, func(e Edge) bool { return e.Info.Name == name })
}

// Owner returns the input that an input port belongs to.
func (s *Signature) Owner(port int) Info {
	for _, e := range s.Inputs {
		if slices.Contains(e.Parts, port) {
			return e.Info
		}
	}
	return Info{}
}

// NoInput returns the error for a name that is not an input. An input's default value is a weight of the program: a run
// cannot replace it.
func (s *Signature) NoInput(name string) error {
	if s.Fixed(name) {
		return diag.Unsupportedf("%q has a value in the model's file, which is part of the program; a run cannot give "+
			"another", name).AtTensor(name).WithFix("take it out of the file's initializers")
	}
	return diag.Inputf("the program has no input %q", name).AtTensor(name).WithFix("its inputs are %s", List(s.Inputs))
}

// FirstBytes returns the number of bytes that the first values of all states take together, each counted by count; nil
// counts the bytes themselves.
func (s *Signature) FirstBytes(count func(bytes int64) int64) (sum int64, err error) {
	for _, e := range s.Inputs {
		if !e.Info.Initial {
			continue
		}
		size, err := strided.BytesOf(e.Info.DType, e.Info.Fixed())
		if err != nil {
			return 0, err
		}
		if count != nil {
			size = count(size)
		}
		sum += size
	}
	return sum, nil
}

// List joins descriptions with commas, for errors.
func List(edges []Edge) string {
	list := make([]string, len(edges))
	for i, e := range edges {
		list[i] = e.Info.String()
	}
	return strings.Join(list, ", ")
}

// Check returns ErrInput unless the edges of an artefact use every port of the program exactly once, and each port has
// the element type and rank that its edge needs.
func Check(edges []Edge, ports []program.Port, tensors []program.Tensor) error {
	seen := make([]bool, len(ports))
	for _, e := range edges {
		types := e.Info.Form().ComponentTypes()
		if !e.Info.Simple() && e.hasState(ports) {
			return diag.Inputf("a part of it is a state").AtTensor(e.Info.Name)
		}
		if e.Info.Kind > sources.OptionalSequence {
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
			if rank := e.Info.Form().ComponentRank(i); len(tensors[ports[part].Tensor].Shape) != rank {
				return diag.Inputf("part %d of %s does not have rank %d", i, e.Info, rank).AtTensor(e.Info.Name)
			}
		}
	}
	if at := slices.Index(seen, false); at >= 0 {
		return diag.Inputf("no input or output uses port %s", ports[at].Name).AtTensor(ports[at].Name)
	}
	return nil
}

// hasState reports whether one of the edge's ports is a state.
func (e Edge) hasState(ports []program.Port) bool {
	return slices.ContainsFunc(e.Parts, func(i int) bool {
		return i >= 0 && i < len(ports) && ports[i].Ownership == program.State
	})
}

// checkLayout returns an error unless the layout that an artefact gives an input is valid.
func (e Edge) checkLayout(ports []program.Port) error {
	if e.Info.Layout == "" {
		return nil
	}
	if _, err := e.Info.Order(); err != nil || !e.Info.Simple() || e.Info.DType.IsSubByte() || e.hasState(ports) {
		return diag.Inputf("it cannot have the layout %q", e.Info.Layout).AtTensor(e.Info.Name)
	}
	return nil
}

// Typed returns a copy of an artefact's edges in which each tensor of numbers has the shape of its port, and no name of
// a new value. The extents of axes that a layout repeats stay, since the port does not have them.
func Typed(edges []Edge, ports []program.Port, tensors []program.Tensor) []Edge {
	edges = slices.Clone(edges)
	for i, e := range edges {
		if !e.Info.Simple() {
			continue
		}
		edges[i].Info.Shape, edges[i].Info.State = []Extent{}, ""
		for _, extent := range tensors[ports[e.Parts[0]].Tensor].Shape {
			edges[i].Info.Shape = append(edges[i].Info.Shape, ExtentOf(extent))
		}
		if order, err := e.Info.Order(); err == nil && e.Info.Layout != "" {
			memory := edges[i].Info.Shape
			edges[i].Info.Shape = slices.Clone(e.Info.Shape)
			for k, axis := range order {
				if !axis.Repeated {
					edges[i].Info.Shape[axis.Axis] = memory[k]
				}
			}
		}
	}
	return edges
}
