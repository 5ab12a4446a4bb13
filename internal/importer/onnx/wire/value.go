package wire

import (
	"io"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/tensor"
)

// Value is a tensor, a sequence of tensors, or an optional of either, as the files of ONNX's test data hold them.
type Value struct {
	Name               string
	Tensors            []*tensor.Tensor // one, unless the value is a sequence
	Sequence, Optional bool
	Absent             bool // an optional without a value
}

// ParseValue reads a file that holds a value whose type is declared: a sequence or a tensor, optional or not.
func ParseValue(data []byte, sequence, optional bool) (v Value, err error) {
	v.Sequence, v.Optional = sequence, optional
	var one *TensorProto
	var several *SequenceProto
	switch {
	case optional:
		p, err := ParseOptional(data)
		if err != nil {
			return v, err
		}
		v.Name, one, several = p.Name, p.TensorValue, p.SequenceValue
		if p.SparseTensorValue != nil || p.MapValue != nil || p.OptionalValue != nil {
			return v, diag.Unsupportedf("an optional of a sparse tensor, a map or an optional").AtTensor(p.Name)
		}
		if v.Absent = one == nil && several == nil; v.Absent {
			return v, nil
		}
	case sequence:
		if several, err = ParseSequence(data); err != nil {
			return v, err
		}
		v.Name = several.Name
	default:
		if one, err = ParseTensor(data); err != nil {
			return v, err
		}
		v.Name = one.Name
	}
	if sequence != (several != nil) {
		return v, diag.Inputf("it holds a sequence where a tensor is declared, or a tensor where a sequence is").
			AtTensor(v.Name)
	}
	list := []*TensorProto{one}
	if sequence {
		if len(several.SparseTensorValues)+len(several.SequenceValues)+len(several.MapValues)+
			len(several.OptionalValues) > 0 {
			return v, diag.Unsupportedf("a sequence of other things than tensors").AtTensor(v.Name)
		}
		list = several.TensorValues
	}
	for _, p := range list {
		t, _, err := p.Tensor()
		if err != nil {
			return v, err
		}
		v.Tensors = append(v.Tensors, t)
	}
	return v, nil
}

// WriteTo writes the value as a message of its type.
func (v Value) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(v.Marshal())
	return int64(n), err
}

// Marshal returns the value as a message of its type.
func (v Value) Marshal() []byte {
	var one *TensorProto
	var several *SequenceProto
	switch {
	case v.Absent:
	case v.Sequence:
		several = &SequenceProto{Name: v.Name, ElemType: ValueTensor}
		for _, t := range v.Tensors {
			several.TensorValues = append(several.TensorValues, FromTensor("", t))
		}
	default:
		one = FromTensor(v.Name, v.Tensors[0])
	}
	switch {
	case !v.Optional && v.Sequence:
		return several.Marshal()
	case !v.Optional:
		return one.Marshal()
	}
	o := &OptionalProto{Name: v.Name, TensorValue: one, SequenceValue: several}
	switch {
	case one != nil:
		o.ElemType = ValueTensor
	case several != nil:
		o.ElemType = ValueSequence
	}
	return o.Marshal()
}

// Declaration returns the declaration of a model's input that may have this value; dt is the type of its tensors.
func (v Value) Declaration(dt dtype.DType) *ValueInfoProto {
	info := TensorValue(v.Name, DataTypeOf(dt))
	if len(v.Tensors) == 1 && !v.Sequence {
		var dims []*Dimension
		for _, s := range v.Tensors[0].Shape() {
			dims = append(dims, Size(s))
		}
		info = TensorValue(v.Name, DataTypeOf(dt), dims...)
	} else {
		info.Type.TensorType.Shape = nil
	}
	if v.Sequence {
		info.Type = &TypeProto{SequenceType: &ElementTypeProto{ElemType: info.Type}}
	}
	if v.Optional {
		info.Type = &TypeProto{OptionalType: &ElementTypeProto{ElemType: info.Type}}
	}
	return info
}
