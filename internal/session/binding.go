package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/tensor"
)

// bindInputs checks the arguments against the model's inputs. It returns the tensors of the program's input ports and
// the dimensions' sizes. The account is asked for copies with ctx. The caller releases the packing, after an error too.
func (s *Session) bindInputs(ctx context.Context, in Arguments) (*packing, []int64, error) {
	args := &packing{ctx: ctx, account: s.options.Account, parts: make([]*tensor.Tensor, len(s.prog.Inputs))}
	list := make([]Argument, len(s.Inputs))
	used := 0
	for i, e := range s.Inputs {
		info := e.Info
		a, ok := in.Find(info.Name)
		if ok {
			used++
		}
		if a.missing() {
			a = s.ownState(i)
		}
		if a.missing() {
			return args, nil, diag.Inputf("no value is given for input %s", info).AtTensor(info.Name).
				WithFix("add Inputs{%q: …}", info.Name)
		}
		list[i] = a
		for _, t := range a.tensors {
			if t == nil {
				return args, nil, diag.Inputf("a tensor given for it is nil").AtTensor(info.Name)
			}
			inner, ok := t.enter()
			if !ok {
				return args, nil, diag.New(diag.ErrClosed, "the tensor given for it is closed, or was given away").
					AtTensor(info.Name)
			}
			args.entered, list[i].data = append(args.entered, t), append(list[i].data, inner)
			if err := s.fetchArgument(a.owner, e, t, inner); err != nil {
				return args, nil, err
			}
		}
	}
	if used != in.Len() {
		for _, name := range in.Names() {
			if _, ok := s.Input(name); !ok {
				return args, nil, s.NoInput(name)
			}
		}
	}
	for i, e := range s.Inputs {
		var nothing []int64
		if list[i].kind == sources.Optional {
			nothing = s.nothing(e.Info, list)
		}
		pack := func() error { return args.pack(e, list[i], nothing) }
		if list[i].lent != nil || e.Info.Layout != "" {
			pack = func() error { return s.lie(args, e, list[i]) }
		}
		if err := pack(); err != nil {
			var known *diag.Error
			if errors.As(err, &known) {
				return args, nil, known.AtTensor(e.Info.Name)
			}
			return args, nil, err
		}
	}
	dims, err := s.dimsOf(args.parts)
	if err == nil {
		err = s.repeats(list, dims)
	}
	if err == nil {
		err = s.mayPart(args, list)
	}
	return args, dims, err
}

// fetchArgument copies an argument's elements to the host, if they lie in a device's memory and are not to stay there.
func (s *Session) fetchArgument(owner ownership, e signature.Edge, t *Tensor, inner *tensor.Tensor) error {
	switch {
	case owner == lending:
		return t.stays.fetch(inner, reading)
	case owner == updating && e.Info.Simple() && s.prog.Inputs[e.Parts[0]].Device != "":
		return nil
	}
	return t.stays.fetch(inner, writing)
}

// nothing returns the shape of the tensor that represents an absent optional: a named dimension has the size that
// another argument gives it, or 0 if none does.
func (s *Session) nothing(info signature.Info, list []Argument) []int64 {
	shape := make([]int64, len(info.Shape))
	for axis, e := range info.Shape {
		if shape[axis] = e.Size; e.Dim == "" {
			continue
		}
		shape[axis] = 0
		for i, other := range s.Inputs {
			for k, size := range other.Info.Shape {
				if size.Dim == e.Dim && !other.Info.Form().Sequence() && k < len(list[i].shape()) {
					shape[axis] = list[i].shape()[k]
				}
			}
		}
	}
	return shape
}

// dimsOf reads the dimensions' sizes from the shapes and elements of args, the tensors by input port, and checks every
// extent.
func (s *Session) dimsOf(args []*tensor.Tensor) ([]int64, error) {
	prog := s.prog
	dims := make([]int64, len(prog.Dims))
	known := make([]bool, len(dims))
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
			return nil, diag.Inputf("%s%s is given, %s is expected", a.DType(), tensor.ShapeString(a.Shape()), s.Owner(i)).
				AtTensor(s.Owner(i).Name)
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
					return nil, diag.Inputf("%s, and the input's is %d", of, want).AtTensor(s.Owner(i).Name)
				}
				e := diag.Inputf("%s, and %s is %d according to the other axes and inputs", of, s.labels.Show(extent), want).
					AtTensor(s.Owner(i).Name)
				if named {
					return nil, e.AtDim(s.labels.Of[name])
				}
				return nil, e
			}
		}
	}
	return dims, nil
}
