package sources

import (
	"slices"

	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/importer/onnx"
	"github.com/weirml/weir/internal/importer/onnx/wire"
	"github.com/weirml/weir/internal/tensor"
)

// Value is a tensor, a sequence of tensors, or no value, with the name of a port.
type Value = wire.Value

// Kind is what an input or output is.
type Kind = onnx.Kind

// Form is the representation of a value by tensors of numbers, its parts: the tensor itself; for strings, byte ranges
// and a pool of bytes; for a sequence, elements and extents, and the pool if it is of strings; for an optional, also a
// flag that says whether it has a value.
type Form struct {
	Kind  Kind
	DType dtype.DType
	Rank  int
}

// Optional reports whether the value may be absent.
func (f Form) Optional() bool { return f.Kind == onnx.Optional || f.Kind == onnx.OptionalSequence }

// Sequence reports whether a value that is present is a list of tensors.
func (f Form) Sequence() bool { return f.Kind == onnx.Sequence || f.Kind == onnx.OptionalSequence }

// Simple reports whether the value is one tensor of numbers, its only part.
func (f Form) Simple() bool { return f.Kind == onnx.Tensor && f.DType != dtype.String }

// PartTypes returns the element types of the parts, in order.
func (f Form) PartTypes() []dtype.DType {
	var out []dtype.DType
	if f.Optional() {
		out = append(out, dtype.Bool)
	}
	value := f.DType
	if value == dtype.String {
		value = dtype.I64
	}
	out = append(out, value)
	if f.Sequence() {
		out = append(out, dtype.I64)
	}
	if f.DType == dtype.String {
		out = append(out, dtype.U8)
	}
	return out
}

// PartRank returns the rank of a part: 0 for the flag, 1 for elements and pools, 2 for extents, the tensor's own rank
// for a tensor or its byte ranges.
func (f Form) PartRank(part int) int {
	if f.Optional() {
		if part--; part < 0 {
			return 0
		}
	}
	switch {
	case f.Sequence():
		return []int{1, 2, 1}[part]
	case part == 1:
		return 1
	}
	return f.Rank
}

// Pack makes the parts of a value with these tensors, in memory from allocate. If nothing is set, the value is an
// absent optional; unless it is a sequence, list then has one tensor that represents it.
func (f Form) Pack(allocate tensor.Allocate, nothing bool, list []*tensor.Tensor) (parts []*tensor.Tensor, err error) {
	if f.Optional() {
		has, err := allocate(dtype.Bool)
		if err != nil {
			return nil, err
		}
		if parts = append(parts, has); !nothing {
			has.SetInt(0, 1)
		}
	}
	dt := f.DType
	var pool *tensor.Tensor
	if dt == dtype.String {
		if list, pool, err = tensor.PackTexts(allocate, list...); err != nil {
			return nil, err
		}
		dt = dtype.I64
	}
	if f.Sequence() {
		elements, extents, err := tensor.PackSequence(allocate, dt, list...)
		if err != nil {
			return nil, err
		}
		parts = append(parts, elements, extents)
	} else {
		parts = append(parts, list[0])
	}
	if pool != nil {
		parts = append(parts, pool)
	}
	return parts, nil
}

// Unpack returns the tensors in the parts: strings as copies, numbers as views. absent reports an optional without a
// value.
func (f Form) Unpack(parts []*tensor.Tensor) (list []*tensor.Tensor, absent bool, err error) {
	if f.Optional() {
		if parts[0].Int(0) == 0 {
			return nil, true, nil
		}
		parts = parts[1:]
	}
	list = slices.Clone(parts[:1])
	if f.Sequence() {
		if list, err = tensor.UnpackSequence(parts[0], parts[1]); err != nil {
			return nil, false, err
		}
	}
	if f.DType == dtype.String {
		for i := range list {
			if list[i], err = tensor.UnpackTexts(list[i], parts[len(parts)-1].Bytes()); err != nil {
				return nil, false, err
			}
		}
	}
	return list, false, nil
}

// ValueOf returns the port's value from its parts among tensors, as copies.
func (p Port) ValueOf(tensors []*tensor.Tensor) (v Value, err error) {
	parts := make([]*tensor.Tensor, len(p.Parts))
	for i, part := range p.Parts {
		parts[i] = tensors[part]
	}
	f := Form{Kind: p.Kind, DType: p.Type.DType}
	v.Name, v.Sequence, v.Optional = p.Name, f.Sequence(), f.Optional()
	v.Tensors, v.Absent, err = f.Unpack(parts)
	for i := range v.Tensors { // they may be views of memory that is given back
		v.Tensors[i] = v.Tensors[i].Clone()
	}
	return v, err
}
