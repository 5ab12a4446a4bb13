package onnx

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

// Port is an input or output as the file declares it. Of a sequence, Type is its tensors', without a Shape where not even their rank is declared, and
// with names of its own for extents that may differ. An output may be declared without a type.
type Port struct {
	Name string
	Kind Kind
	Type ir.Type
}

// extentsWidth is the length of a row of a sequence's extents.
const extentsWidth = 1 + tensor.SequenceRank

// Edge is an input or output of a built model: a port, and which of the module's parameters or results are its parts, in the order that composite.go has.
type Edge struct {
	Port
	Parts []int
}

// Signature says what the parameters and results of a built module are.
type Signature struct {
	Inputs, Outputs []Edge
	Results         []string // the results' names
}

// portOf reads a declaration. strict demands a known type; named are the dimensions that the model names.
func portOf(v *wire.ValueInfoProto, strict bool, named map[string]bool) (Port, error) {
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
	if p.Type, err = typeOf(&inner, strict && p.Kind.plain() == Tensor, named); err != nil {
		return p, err
	}
	if p.Kind.plain() == Sequence && p.Type.DType != dtype.String && p.Type.DType.Bits() < 8 {
		return p, diag.Unsupportedf("%s is a sequence of tensors of %s, whose elements are smaller than a byte", v.Name, p.Type.DType).AtTensor(v.Name)
	}
	return p, nil
}

// form is the port's, as far as a run can rely on it.
func (p Port) form() form {
	f := form{kind: p.Kind, of: p.Type}
	if p.Kind.plain() == Sequence {
		f.of.Shape = slices.Clone(f.of.Shape)
		for i, e := range f.of.Shape {
			if _, fixed := e.Const(); !fixed {
				f.of.Shape[i] = differing
			}
		}
	}
	return f
}

// inputs makes the parameters of the model's inputs, and what stands for them.
func (g *graph) inputs(s *Signature) {
	dims := g.build.Dims()
	for _, p := range g.model.Inputs {
		for _, e := range p.Type.Shape {
			for _, name := range e.Vars() {
				if p.Kind.plain() == Tensor {
					dims.Set(name, g.attempt.rangeOf(name))
				}
			}
		}
	}
	for _, p := range g.model.Inputs {
		edge, parts := Edge{Port: p}, []*ir.Value{}
		f := p.form()
		for _, part := range f.partNames() {
			edge.Parts = append(edge.Parts, len(g.build.Block.Params))
			parts = append(parts, g.build.Param(p.Name+part, g.partType(p, f, part)))
		}
		g.names[p.Name] = g.from(f, parts)
		s.Inputs = append(s.Inputs, edge)
	}
}

// rangeOf is the range that a dimension of an input begins with.
func (a *attempt) rangeOf(name sym.Name) sym.Range {
	if slices.Contains(a.ones, name.Text()) {
		return sym.Range{Min: 1, Max: 1}
	}
	return sym.Range{Min: 0, Max: sym.NoMax}
}

// partType is the type of a part of an input.
func (g *graph) partType(p Port, f form, part string) ir.Type {
	dt := f.of.DType
	if dt == dtype.String {
		dt = dtype.I64
	}
	switch part {
	case ".has":
		return ir.Type{DType: dtype.Bool}
	case ".pool":
		return ir.Type{DType: dtype.U8, Shape: []sym.Expr{g.dimension(p.Name+".bytes", ops.TextLimit)}}
	case ".elements":
		return ir.Type{DType: dt, Shape: []sym.Expr{g.dimension(p.Name+".total", sym.NoMax)}}
	case ".extents":
		return ir.Type{DType: dtype.I64, Shape: []sym.Expr{g.dimension(p.Name+".length", sym.NoMax), sym.Const(extentsWidth)}}
	}
	return ir.Type{DType: dt, Shape: f.of.Shape}
}

// dimension is a dimension of the module's own that a part of an input binds.
func (g *graph) dimension(hint string, most int64) sym.Expr {
	dims, name := g.build.Dims(), sym.Made(hint)
	for _, taken := dims.Get(name); taken; _, taken = dims.Get(name) {
		name = sym.Made(name.Text() + "_")
	}
	dims.Set(name, sym.Range{Min: 0, Max: most})
	return sym.Var(name)
}

// output adds an output of the model to the module's results, in the form that the model declares where it can take that.
func (g *graph) output(s *Signature, name string, v *ir.Value) {
	f := g.formOf(v)
	edge := Edge{Port: Port{Name: name, Kind: f.kind, Type: f.of}}
	at := slices.IndexFunc(g.model.Outputs, func(p Port) bool { return p.Name == name && p.Type.DType != dtype.Invalid })
	if at >= 0 {
		p := g.model.Outputs[at]
		if declared := p.form(); f.of.DType == dtype.Invalid {
			f.of = declared.of
		} else if declared.kind.plain() != f.kind.plain() {
			g.build.Fail(diag.Inputf("output %q is declared as %s and is %s", name, declared, f).AtTensor(name))
		}
		f.kind = p.Kind
		edge.Kind, edge.Type.DType = p.Kind, f.of.DType
		if p.Kind.plain() == Sequence {
			edge.Type.Shape = p.Type.Shape
		}
	}
	if f.of.DType == dtype.Invalid {
		g.build.Fail(diag.Unsupportedf("output %q is an optional of a type that nothing tells", name).AtTensor(name))
	}
	names := f.partNames()
	for i, part := range g.as(v, f) {
		edge.Parts = append(edge.Parts, len(g.build.Block.Results))
		g.build.Block.Results = append(g.build.Block.Results, part)
		s.Results = append(s.Results, name+names[i])
	}
	s.Outputs = append(s.Outputs, edge)
}
