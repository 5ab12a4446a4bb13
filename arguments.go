package weir

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// Inputs are the arguments of a run by name.
type Inputs map[string]Arg

// bindInputs checks the arguments against the program's inputs, makes the tensors of its ports, and reads the
// dimensions' values. The caller releases the packing, also after an error.
func (p *Program) bindInputs(in Inputs) (*packing, []int64, error) {
	args := &packing{parts: make([]*tensor.Tensor, len(p.compiled.Program.Inputs))}
	list := make([]given, len(p.inputs))
	used := 0
	for i, info := range p.inputs {
		a, ok := in[info.Name]
		if ok {
			used++
		}
		if t, tensor := a.(*Tensor); a != nil && !(tensor && t == nil) {
			list[i] = a.given()
		} else if list[i], ok = p.ownState(i); !ok {
			return args, nil, diag.Inputf("no value is given for input %s", info).AtTensor(info.Name).
				WithFix("add Inputs{%q: …}", info.Name)
		}
		for _, t := range list[i].tensors {
			if t == nil {
				return args, nil, diag.Inputf("a tensor given for it is nil").AtTensor(info.Name)
			}
			inner, ok := t.enter()
			if !ok {
				return args, nil, diag.New(ErrClosed, "the tensor given for it is closed, or was given away").AtTensor(info.Name)
			}
			args.entered, list[i].data = append(args.entered, t), append(list[i].data, inner)
		}
	}
	if used != len(in) {
		for name := range in {
			if _, ok := p.input(name); !ok {
				return args, nil, p.noInput(name)
			}
		}
	}
	for i, e := range p.takes {
		var nothing []int64
		if list[i].kind == OptionalKind {
			nothing = p.nothing(e.Info, list)
		}
		pack := func() error { return args.pack(e, list[i], nothing) }
		if list[i].lent != nil || e.Info.Layout != "" {
			pack = func() error { return p.lie(args, e, list[i]) }
		}
		if err := pack(); err != nil {
			var known *Error
			if errors.As(err, &known) {
				return args, nil, known.AtTensor(e.Info.Name)
			}
			return args, nil, err
		}
	}
	dims, err := p.dimsOf(args.parts)
	if err == nil {
		err = p.repeats(list, dims)
	}
	if err == nil {
		err = p.mayPart(args, list)
	}
	return args, dims, err
}

// nothing returns the shape of the tensor that represents an absent optional: a named dimension has the size that other
// arguments give it, or 0.
func (p *Program) nothing(info Info, list []given) []int64 {
	shape := make([]int64, len(info.Shape))
	for axis, e := range info.Shape {
		if shape[axis] = e.Size; e.Dim == "" {
			continue
		}
		shape[axis] = 0
		for i, other := range p.inputs {
			for k, size := range other.Shape {
				if size.Dim == e.Dim && !other.Kind.sequence() && k < len(list[i].shape()) {
					shape[axis] = list[i].shape()[k]
				}
			}
		}
	}
	return shape
}

// input returns the index of the input with this name.
func (p *Program) input(name string) (int, bool) {
	for i, info := range p.inputs {
		if info.Name == name {
			return i, true
		}
	}
	return 0, false
}

// noInput returns the error for a name that is not an input. An input's default value is a weight of the program: a run
// cannot replace it.
func (p *Program) noInput(name string) error {
	if p.model.source.Fixed(name) {
		return diag.Unsupportedf("%q has a value in the model's file, which is part of the program; a run cannot give "+
			"another", name).AtTensor(name).WithFix("take it out of the file's initializers")
	}
	return diag.Inputf("the program has no input %q", name).AtTensor(name).WithFix("its inputs are %s", infoList(p.inputs))
}

// infoList joins descriptions with commas, for errors.
func infoList(infos []Info) string {
	list := make([]string, len(infos))
	for i, info := range infos {
		list[i] = info.String()
	}
	return strings.Join(list, ", ")
}

// dimsOf reads the dimensions' values from the arguments' shapes and elements, and checks every extent.
func (p *Program) dimsOf(args []*tensor.Tensor) ([]int64, error) {
	prog := p.compiled.Program
	dims := make([]int64, len(prog.Dims))
	known := make([]bool, len(dims))
	for i, d := range prog.Dims {
		if !d.Data && d.Range.Min == d.Range.Max { // shapes may have its value in its stead
			dims[i] = d.Range.Min
		}
	}
	index := func(name sym.Name) int {
		for i := range prog.Dims {
			if prog.Dims[i].Name == name {
				return i
			}
		}
		return -1
	}
	for i, d := range prog.Dims {
		if !d.Data && d.Range.Min == d.Range.Max { // the tensors' shapes may have the number in its place
			dims[i], known[i] = d.Range.Min, true
		}
	}
	for i, a := range args {
		t := &prog.Tensors[prog.Inputs[i].Tensor]
		if a.DType() != t.DType || a.Rank() != len(t.Shape) {
			return nil, diag.Inputf("%s%s is given, %s is expected", a.DType(), tensor.ShapeString(a.Shape()), p.owner(i)).
				AtTensor(p.owner(i).Name)
		}
		for axis, extent := range t.Shape {
			if name, ok := extent.Name(); ok {
				if d := index(name); d >= 0 && !known[d] {
					dims[d], known[d] = a.Shape()[axis], true
				}
			}
		}
		for k, d := range prog.Inputs[i].Elements {
			if int64(k) < a.Len() {
				dims[d], known[d] = a.Int(int64(k)), true
			}
		}
	}
	get := func(name sym.Name) (int64, bool) {
		d := index(name)
		if d < 0 {
			return 0, false
		}
		return dims[d], known[d]
	}
	for i, a := range args {
		for axis, extent := range prog.Tensors[prog.Inputs[i].Tensor].Shape {
			want, err := extent.Eval(get)
			if err != nil {
				return nil, err
			}
			if got := a.Shape()[axis]; got != want {
				of := fmt.Sprintf("of %s%s, axis %d is %d", a.DType(), tensor.ShapeString(a.Shape()), axis, got)
				name, named := extent.Name()
				if _, fixed := extent.Const(); fixed {
					return nil, diag.Inputf("%s, and the input's is %d", of, want).AtTensor(p.owner(i).Name)
				}
				e := diag.Inputf("%s, and %s is %d by what the other axes and inputs say", of, p.labels.Show(extent), want).
					AtTensor(p.owner(i).Name)
				if named {
					return nil, e.AtDim(p.labels.Of[name])
				}
				return nil, e
			}
		}
	}
	return dims, nil
}

// owner returns the input that a port belongs to.
func (p *Program) owner(port int) Info {
	for _, e := range p.takes {
		if slices.Contains(e.Parts, port) {
			return e.Info
		}
	}
	return Info{}
}
