package sources

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// Value is a tensor, a sequence of tensors, or no value, with the name of a port.
type Value = wire.Value

// Kind is the kind of an input or output.
type Kind = onnx.Kind

// The kinds, in the order of weir.Kind.
const (
	Tensor           = onnx.Tensor
	Sequence         = onnx.Sequence
	Optional         = onnx.Optional
	OptionalSequence = onnx.OptionalSequence
)

// Form describes how tensors of numbers, its components, represent a value: a tensor by itself; strings by byte ranges
// and a pool of bytes; a sequence by elements and extents, and a pool if it is of strings; an optional also by a flag
// that says whether it has a value. A tensor of AnyRank is represented as a sequence of it alone.
type Form struct {
	Kind  Kind
	DType dtype.DType
	Rank  int
}

// AnyRank is the rank of a tensor whose rank a run decides.
const AnyRank = -1

// Optional reports whether the value may be absent.
func (f Form) Optional() bool { return f.Kind == onnx.Optional || f.Kind == onnx.OptionalSequence }

// Sequence reports whether a value that is present is a list of tensors.
func (f Form) Sequence() bool { return f.Kind == onnx.Sequence || f.Kind == onnx.OptionalSequence }

// Simple reports whether the value is one tensor of numbers, its only component.
func (f Form) Simple() bool {
	return f.Kind == onnx.Tensor && f.DType != dtype.String && f.Rank != AnyRank
}

// listed reports whether elements and extents represent the value.
func (f Form) listed() bool { return f.Sequence() || f.Kind == onnx.Tensor && f.Rank == AnyRank }

// ComponentTypes returns the element types of the components, in order.
func (f Form) ComponentTypes() []dtype.DType {
	var out []dtype.DType
	if f.Optional() {
		out = append(out, dtype.Bool)
	}
	value := f.DType
	if value == dtype.String {
		value = dtype.I64
	}
	out = append(out, value)
	if f.listed() {
		out = append(out, dtype.I64)
	}
	if f.DType == dtype.String {
		out = append(out, dtype.U8)
	}
	return out
}

// ComponentRank returns the rank of a component: 0 for the flag, 1 for elements and pools, 2 for extents, the tensor's
// own rank for a tensor or its byte ranges.
func (f Form) ComponentRank(component int) int {
	if f.Optional() {
		if component--; component < 0 {
			return 0
		}
	}
	switch {
	case f.listed():
		return []int{1, 2, 1}[component]
	case component == 1:
		return 1
	}
	return f.Rank
}

// Pack makes the components of a value that has these tensors, in memory from allocate. If nothing is true, the value
// is an absent optional; unless it is a sequence, list then has one tensor that represents it.
func (f Form) Pack(allocate tensor.Allocate, nothing bool, list []*tensor.Tensor) (components []*tensor.Tensor,
	err error) {
	if f.Optional() {
		has, err := allocate(dtype.Bool)
		if err != nil {
			return nil, err
		}
		if components = append(components, has); !nothing {
			has.SetInt(0, 1)
		}
	}
	dt := f.DType
	var pool *tensor.Tensor
	if dt == dtype.String {
		if list, pool, err = tensor.PackStrings(allocate, list...); err != nil {
			return nil, err
		}
		dt = dtype.I64
	}
	if f.Sequence() {
		elements, extents, err := tensor.PackSequence(allocate, dt, list...)
		if err != nil {
			return nil, err
		}
		components = append(components, elements, extents)
	} else {
		components = append(components, list[0])
	}
	if pool != nil {
		components = append(components, pool)
	}
	return components, nil
}

// Unpack returns the tensors that the components represent: strings as copies, numbers as views. absent reports an
// optional without a value.
func (f Form) Unpack(components []*tensor.Tensor) (list []*tensor.Tensor, absent bool, err error) {
	if f.Optional() {
		if components[0].Int(0) == 0 {
			return nil, true, nil
		}
		components = components[1:]
	}
	list = slices.Clone(components[:1])
	if f.listed() {
		if list, err = tensor.UnpackSequence(components[0], components[1]); err != nil {
			return nil, false, err
		}
	}
	if !f.Sequence() && len(list) != 1 {
		return nil, false, diag.Inputf("%d tensors, where there is one", len(list))
	}
	if f.DType == dtype.String {
		for i := range list {
			if list[i], err = tensor.UnpackStrings(list[i], components[len(components)-1].Bytes()); err != nil {
				return nil, false, err
			}
		}
	}
	return list, false, nil
}

// ValueOf returns the port's value from its components among tensors, as copies.
func (p Port) ValueOf(tensors []*tensor.Tensor) (v Value, err error) {
	components := make([]*tensor.Tensor, len(p.Components))
	for i, component := range p.Components {
		components[i] = tensors[component]
	}
	f := Form{Kind: p.Kind, DType: p.Type.DType}
	if f.Kind == onnx.Tensor && p.Type.Shape == nil {
		f.Rank = AnyRank
	}
	v.Name, v.Sequence, v.Optional = p.Name, f.Sequence(), f.Optional()
	v.Tensors, v.Absent, err = f.Unpack(components)
	for i := range v.Tensors { // they may be views of memory that is released
		v.Tensors[i] = v.Tensors[i].Clone()
	}
	return v, err
}
