package convert

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/ir"
	"github.com/weirml/weir/internal/ops"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Port is an input or output as the file declares it. For a sequence, Type is the type of its tensors, without a Shape
// if their rank is not declared, and with a new name for each extent that may differ. An output may be declared without
// a type.
type Port struct {
	Name string
	Kind Kind
	Type ir.Type
	// AnyRank says of an output that a run decides its rank: its components are those of a sequence of it alone.
	AnyRank bool
}

// extentsWidth is the length of a row of a sequence's extents.
const extentsWidth = 1 + tensor.SequenceRank

// Edge is an input or output of a built model: a port, and the indices of its components among the module's parameters
// or results, in the order of composite.go.
type Edge struct {
	Port
	Components []int
}

// Signature describes the parameters and results of a built module.
type Signature struct {
	Inputs, Outputs []Edge
	Results         []string // the results' names
}

// PortOf reads a declaration. strict demands a known type; named are the dimensions that the model names.
func PortOf(v *wire.ValueInfoProto, strict bool, named map[string]bool) (Port, error) {
	p := Port{Name: v.Name}
	inner := *v
	unwrap := func(of *wire.ElementTypeProto, kind Kind) bool {
		if of == nil {
			return false
		}
		p.Kind, inner.Type = p.Kind|kind, of.ElemType
		return true
	}
	if inner.Type != nil && unwrap(inner.Type.OptionalType, Optional) && inner.Type != nil {
		unwrap(inner.Type.SequenceType, Sequence)
	} else if inner.Type != nil {
		unwrap(inner.Type.SequenceType, Sequence)
	}
	var err error
	if p.Type, err = typeOf(&inner, strict && p.Kind.Unwrapped() == Tensor, named); err != nil {
		return p, err
	}
	if p.Kind.Unwrapped() == Sequence && p.Type.DType != dtype.String && p.Type.DType.Bits() < 8 {
		return p, diag.Unsupportedf("%s is a sequence of tensors of %s, whose elements are smaller than a byte", v.Name,
			p.Type.DType).AtTensor(v.Name)
	}
	return p, nil
}

// Form returns the form of the port, as far as a run can rely on it.
func (p Port) Form() Form {
	f := Form{Kind: p.Kind, Of: p.Type}
	if p.Kind.Unwrapped() == Sequence {
		f.Of.Shape = slices.Clone(f.Of.Shape)
		for i, e := range f.Of.Shape {
			if _, fixed := e.Const(); !fixed {
				f.Of.Shape[i] = Differing
			}
		}
	}
	return f
}

// inputs adds the parameters of the model's inputs.
func (g *Scope) inputs(s *Signature) {
	dims := g.Build.Dims()
	for _, p := range g.Source.Inputs {
		for _, e := range p.Type.Shape {
			for _, name := range e.Vars() {
				if p.Kind.Unwrapped() == Tensor {
					dims.Set(name, g.Attempt.rangeOf(name))
				}
			}
		}
	}
	for _, p := range g.Source.Inputs {
		edge, first := Edge{Port: p}, len(g.Build.Block.Params)
		g.names[p.Name] = g.bound(g.Parameter(p))
		for i := first; i < len(g.Build.Block.Params); i++ {
			edge.Components = append(edge.Components, i)
		}
		s.Inputs = append(s.Inputs, edge)
	}
	g.Build.Module.Requires = append(g.Build.Module.Requires, g.Attempt.conditions...)
}

// Parameter adds the parameters of an input, one for each component, and returns the input's value.
func (g *Scope) Parameter(p Port) *ir.Value {
	f := p.Form()
	var components []*ir.Value
	for _, component := range f.componentNames() {
		components = append(components, g.Build.Param(p.Name+component, g.componentType(p, f, component)))
	}
	return g.From(f, components)
}

// componentType returns the type of a component of an input.
func (g *Scope) componentType(p Port, f Form, component string) ir.Type {
	dt := f.Of.DType
	if dt == dtype.String {
		dt = dtype.I64
	}
	switch component {
	case ".has":
		return ir.Type{DType: dtype.Bool}
	case ".pool":
		return ir.Type{DType: dtype.U8, Shape: []sym.Expr{g.dimension(p.Name+".bytes", ops.TextLimit)}}
	case ".elements":
		return ir.Type{DType: dt, Shape: []sym.Expr{g.dimension(p.Name+".total", sym.NoMax)}}
	case ".extents":
		return ir.Type{DType: dtype.I64, Shape: []sym.Expr{g.dimension(p.Name+".length", sym.NoMax), sym.Const(extentsWidth)}}
	}
	return ir.Type{DType: dt, Shape: f.Of.Shape}
}

// dimension adds a dimension that a component of an input binds, of at most most.
func (g *Scope) dimension(hint string, most int64) sym.Expr {
	dims, name := g.Build.Dims(), sym.Made(hint)
	for _, taken := dims.Get(name); taken; _, taken = dims.Get(name) {
		name = sym.Made(name.Text() + "_")
	}
	dims.Set(name, sym.Range{Min: 0, Max: most})
	return sym.Var(name)
}

// output adds an output of the model to the module's results, in the declared form if its value can take it.
func (g *Scope) output(s *Signature, name string, v *ir.Value) {
	f := g.FormOf(v)
	edge := Edge{Port: Port{Name: name, Kind: f.Kind, Type: f.Of, AnyRank: f.AnyRank}}
	at := slices.IndexFunc(g.Source.Outputs, func(p Port) bool { return p.Name == name && p.Type.DType != dtype.Invalid })
	if at >= 0 {
		p := g.Source.Outputs[at]
		if declared := p.Form(); f.Of.DType == dtype.Invalid {
			f.Of = declared.Of
		} else if declared.Kind.Unwrapped() != f.Kind.Unwrapped() {
			g.Build.Fail(diag.Inputf("output %q is declared as %s and is %s", name, declared, f).AtTensor(name))
		}
		if f.Kind = p.Kind; f.AnyRank && p.Kind != Tensor {
			g.Build.Fail(diag.Unsupportedf("output %q is an optional of a rank that a run decides", name).AtTensor(name))
		}
		edge.Kind, edge.Type.DType = p.Kind, f.Of.DType
		if p.Kind.Unwrapped() == Sequence {
			edge.Type.Shape = p.Type.Shape
		}
	}
	if f.Of.DType == dtype.Invalid {
		g.Build.Fail(diag.Unsupportedf("output %q is an optional of an unknown type", name).AtTensor(name))
	}
	names := f.componentNames()
	for i, component := range g.As(v, f) {
		edge.Components = append(edge.Components, len(g.Build.Block.Results))
		g.Build.Block.Results = append(g.Build.Block.Results, component)
		s.Results = append(s.Results, name+names[i])
	}
	s.Outputs = append(s.Outputs, edge)
}
