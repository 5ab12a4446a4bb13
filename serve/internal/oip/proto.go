package oip

import (
	"encoding/binary"
	"math"
	"slices"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/weirml/weir"
)

// field is one field of an encoded message.
type field struct {
	number protowire.Number
	kind   protowire.Type
	value  uint64 // of a varint, fixed32 or fixed64
	bytes  []byte // of a field with a length
}

// fields calls each for every field of a message, and ends with the first error.
func fields(message []byte, each func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return Errorf("the message is not protobuf's: %v", protowire.ParseError(n))
		}
		message = message[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(message)
			f.value = uint64(v)
		case protowire.Fixed64Type:
			f.value, n = protowire.ConsumeFixed64(message)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return Errorf("the message is not protobuf's: field %d: %v", number, protowire.ParseError(n))
		}
		message = message[n:]
		if err := each(f); err != nil {
			return err
		}
	}
	return nil
}

// input is an input of a message whose elements are not read yet.
type input struct {
	Tensor
	typed []byte // an InferTensorContents, nil if there is none
}

// DecodeProto reads an encoded ModelInferRequest. The request refers to the message, whose raw contents may lie at any
// alignment; typed contents are written to memory of allocate.
func DecodeProto(message []byte, allocate Allocate) (*Request, error) {
	r := &Request{AllBinary: true}
	var inputs []input
	var raw [][]byte
	err := fields(message, func(f field) error {
		if f.kind != protowire.BytesType {
			return nil
		}
		switch f.number {
		case 1:
			r.Model = string(f.bytes)
		case 2:
			r.Version = string(f.bytes)
		case 3:
			r.ID = string(f.bytes)
		case 4:
			return r.Parameters.decode(f.bytes)
		case 5:
			if len(inputs) == mostTensors {
				return Errorf("more than %d inputs", mostTensors)
			}
			in, err := decodeInput(f.bytes)
			inputs = append(inputs, in)
			return err
		case 6:
			if len(r.Outputs) == mostTensors {
				return Errorf("more than %d outputs", mostTensors)
			}
			var name string
			var p Parameters
			if err := fields(f.bytes, func(g field) error {
				switch {
				case g.number == 1:
					name = string(g.bytes)
				case g.number == 2 && g.kind == protowire.BytesType:
					return p.decode(g.bytes)
				}
				return nil
			}); err != nil {
				return err
			}
			w, err := wantedOf(name, p, true)
			r.Outputs = append(r.Outputs, w)
			return err
		case 7:
			if len(raw) == mostTensors {
				return Errorf("more than %d raw contents", mostTensors)
			}
			raw = append(raw, f.bytes)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return r, r.fill(inputs, raw, allocate)
}

// RawStart returns the offset of the first raw contents in a message, of which at least the beginning is there; 0 if
// the beginning has none.
func RawStart(beginning []byte) int {
	for at := 0; at < len(beginning); {
		number, kind, n := protowire.ConsumeTag(beginning[at:])
		if n < 0 {
			return 0
		}
		if number == 7 && kind == protowire.BytesType {
			_, m := protowire.ConsumeVarint(beginning[at+n:])
			if m < 0 {
				return 0
			}
			return at + n + m
		}
		m := protowire.ConsumeFieldValue(number, kind, beginning[at+n:])
		if m < 0 {
			return 0
		}
		at += n + m
	}
	return 0
}

// Align moves the inputs' elements, which lie in a buffer in the order of the inputs, to addresses that are aligned for
// their types, if the buffer has room for all of them behind the last. Otherwise, or if some lie elsewhere, all stay.
func (r *Request) Align(buffer []byte) {
	type move struct {
		input    int
		from, to int
	}
	var moves []move
	base, shift := uintptr(unsafe.Pointer(unsafe.SliceData(buffer))), 0
	for i := range r.Inputs {
		t := &r.Inputs[i]
		if len(t.Data) == 0 || t.DType == weir.StringType && shift == 0 {
			continue
		}
		from := int(uintptr(unsafe.Pointer(&t.Data[0])) - base)
		if from < 0 || from >= len(buffer) || len(moves) > 0 && from < moves[len(moves)-1].from {
			return
		}
		size := max(1, t.DType.Size())
		shift += (size - int(base+uintptr(from+shift))%size) % size
		if from+shift+len(t.Data) > len(buffer) {
			return // an input that moved would be written over those that stay
		}
		moves = append(moves, move{i, from, from + shift})
	}
	for _, m := range slices.Backward(moves) {
		t := &r.Inputs[m.input]
		if n := len(t.Data); m.from != m.to {
			copy(buffer[m.to:m.to+n], t.Data)
			t.Data = buffer[m.to : m.to+n : m.to+n]
		}
	}
}

// fill gives the inputs their elements: raw ones for all inputs that have neither shared memory nor typed contents.
func (r *Request) fill(inputs []input, raw [][]byte, allocate Allocate) error {
	for _, in := range inputs {
		t := in.Tensor
		var err error
		if t.Region, err = t.Parameters.regionOf(t.Name); err != nil {
			return err
		}
		switch {
		case t.Region != nil:
			if in.typed != nil {
				return Errorf("tensor %s has shared memory, and contents too", t.Name)
			}
		case in.typed != nil && len(raw) > 0:
			return Errorf("tensor %s has typed contents, and the request raw ones too", t.Name)
		case in.typed != nil:
			if err := t.decodeContents(in.typed, allocate); err != nil {
				return err
			}
		default:
			if len(raw) > 0 {
				t.Data, raw = raw[0], raw[1:]
			}
			if err := t.CheckData(); err != nil {
				return err
			}
		}
		r.Inputs = append(r.Inputs, t)
	}
	if len(raw) > 0 {
		return Errorf("%d raw contents belong to no input", len(raw))
	}
	return nil
}

// decodeInput reads an InferInputTensor.
func decodeInput(message []byte) (in input, err error) {
	var shape []int64
	name := ""
	err = fields(message, func(f field) error {
		switch {
		case f.number == 1 && f.kind == protowire.BytesType:
			in.Name = string(f.bytes)
		case f.number == 2 && f.kind == protowire.BytesType:
			name = string(f.bytes)
		case f.number == 3:
			return varints(f, func(x uint64) error {
				if shape = append(shape, int64(x)); len(shape) > mostAxes {
					return Errorf("tensor %s has more than %d axes", in.Name, mostAxes)
				}
				return nil
			})
		case f.number == 4 && f.kind == protowire.BytesType:
			return in.Parameters.decode(f.bytes)
		case f.number == 5 && f.kind == protowire.BytesType:
			in.typed = f.bytes
			if in.typed == nil {
				in.typed = []byte{}
			}
		}
		return nil
	})
	if err != nil {
		return in, err
	}
	if in.DType, err = typeOf(in.Name, name); err != nil {
		return in, err
	}
	in.Shape, err = shapeOf(in.Name, shape)
	return in, err
}

// varints calls each for the elements of a repeated varint field, packed or not.
func varints(f field, each func(uint64) error) error {
	if f.kind == protowire.VarintType {
		return each(f.value)
	}
	for list := f.bytes; len(list) > 0; {
		x, n := protowire.ConsumeVarint(list)
		if n < 0 {
			return Errorf("the message is not protobuf's: %v", protowire.ParseError(n))
		}
		if err := each(x); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// decode adds an entry of an encoded map of InferParameters.
func (p *Parameters) decode(entry []byte) error {
	name, value := "", &InferParameter{}
	err := fields(entry, func(f field) error {
		switch {
		case f.number == 1:
			name = string(f.bytes)
		case f.number == 2:
			if err := proto.Unmarshal(f.bytes, value); err != nil {
				return Errorf("parameter %s: %v", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if *p == nil {
		*p = Parameters{}
	}
	switch v := value.ParameterChoice.(type) {
	case *InferParameter_BoolParam:
		(*p)[name] = v.BoolParam
	case *InferParameter_Int64Param:
		(*p)[name] = v.Int64Param
	case *InferParameter_StringParam:
		(*p)[name] = v.StringParam
	case *InferParameter_DoubleParam:
		(*p)[name] = v.DoubleParam
	case *InferParameter_Uint64Param:
		if v.Uint64Param > math.MaxInt64 {
			return Errorf("parameter %s is %d, more than 63 bits", name, v.Uint64Param)
		}
		(*p)[name] = int64(v.Uint64Param)
	}
	return nil
}

// contentsField returns the field of InferTensorContents that has the elements of a type, 0 if none has.
func contentsField(dt weir.DType) protowire.Number {
	switch {
	case dt == weir.Bool:
		return 1
	case dt == weir.I64:
		return 3
	case dt == weir.U64:
		return 5
	case dt == weir.F32:
		return 6
	case dt == weir.F64:
		return 7
	case dt == weir.StringType:
		return 8
	case dt.IsSubByte():
		return 0
	case dt.IsSigned():
		return 2
	case dt.IsUnsigned():
		return 4
	}
	return 0
}

// decodeContents reads an InferTensorContents into memory of allocate.
func (t *Tensor) decodeContents(message []byte, allocate Allocate) error {
	want := contentsField(t.DType)
	if want == 0 {
		return Errorf("tensor %s: contents have no field for %s; send raw_input_contents", t.Name, Name(t.DType))
	}
	count, err := Count(t.Shape)
	if err != nil {
		return err
	}
	if count > int64(len(message)) {
		return Errorf("tensor %s: shape %v has %d elements, and its contents fewer", t.Name, t.Shape, count)
	}
	size := int64(len(message)) + 4*count
	if t.DType != weir.StringType {
		size = count * int64(t.DType.Size())
	}
	memory, err := allocate(size)
	if err != nil {
		return err
	}
	to, found := memory[:0], int64(0)
	add := func(x uint64, bytes int) error {
		if found++; found > count {
			return Errorf("tensor %s: its contents have more than the %d elements of shape %v", t.Name, count, t.Shape)
		}
		for range bytes {
			to = append(to, byte(x))
			x >>= 8
		}
		return nil
	}
	err = fields(message, func(f field) error {
		switch {
		case f.number != want:
			return Errorf("tensor %s is %s, and its contents are in field %d of InferTensorContents, not %d", t.Name,
				Name(t.DType), f.number, want)
		case t.DType == weir.StringType && f.kind == protowire.BytesType:
			if found++; found > count || len(to)+4+len(f.bytes) > cap(to) {
				return Errorf("tensor %s: its contents have more than the %d elements of shape %v", t.Name, count, t.Shape)
			}
			to = append(binary.LittleEndian.AppendUint32(to, uint32(len(f.bytes))), f.bytes...)
			return nil
		case want == 6 || want == 7: // floats, packed or not
			if f.kind != protowire.BytesType {
				return add(f.value, t.DType.Size())
			}
			found += int64(len(f.bytes) / t.DType.Size())
			if len(f.bytes)%t.DType.Size() != 0 || found > count {
				return Errorf("tensor %s: its contents do not have the %d elements of shape %v", t.Name, count, t.Shape)
			}
			to = append(to, f.bytes...)
			return nil
		}
		return varints(f, func(x uint64) error { return t.addInteger(x, add) })
	})
	if err != nil {
		return err
	}
	if found != count {
		return Errorf("tensor %s: its contents have %d elements, and shape %v has %d", t.Name, found, t.Shape, count)
	}
	t.Data = to
	return nil
}

// addInteger adds an integer of a field that may be wider than the tensor's type, if the type has it.
func (t *Tensor) addInteger(x uint64, add func(uint64, int) error) error {
	size := t.DType.Size()
	fits := true
	switch {
	case t.DType == weir.Bool:
		fits = x <= 1
	case size < 8 && t.DType.IsSigned():
		fits = int64(x) >= t.DType.MinInt() && int64(x) <= int64(t.DType.MaxInt())
	case size < 8:
		fits = x <= t.DType.MaxInt()
	}
	if !fits {
		return Errorf("tensor %s: its contents have %d, which is no %s", t.Name, int64(x), Name(t.DType))
	}
	return add(x, size)
}

// EncodeProto returns an encoded ModelInferResponse in pieces: everything but the elements of outputs, and the
// elements, which are the outputs' data.
func (r *Response) EncodeProto() [][]byte {
	head := appendField(nil, 1, r.Model)
	head = appendField(head, 2, r.Version)
	head = appendField(head, 3, r.ID)
	head = r.Parameters.append(head, 4)
	for i := range r.Outputs {
		t := &r.Outputs[i]
		out := appendField(nil, 1, t.Name)
		out = appendField(out, 2, Name(t.DType))
		if len(t.Shape) > 0 {
			var shape []byte
			for _, extent := range t.Shape {
				shape = protowire.AppendVarint(shape, uint64(extent))
			}
			out = protowire.AppendBytes(protowire.AppendTag(out, 3, protowire.BytesType), shape)
		}
		p := t.parameters()
		delete(p, "binary_data_size")
		out = p.append(out, 4)
		head = protowire.AppendBytes(protowire.AppendTag(head, 5, protowire.BytesType), out)
	}
	pieces := [][]byte{}
	for i := range r.Outputs {
		t := &r.Outputs[i]
		head = protowire.AppendTag(head, 6, protowire.BytesType)
		if t.Region != nil { // clients count the outputs to find an output's contents
			head = protowire.AppendVarint(head, 0)
			continue
		}
		head = protowire.AppendVarint(head, uint64(len(t.Data)))
		pieces, head = append(pieces, head, t.Data), nil
	}
	if head != nil {
		pieces = append(pieces, head)
	}
	return pieces
}

// appendField appends a field of text, nothing if it is empty.
func appendField(to []byte, number protowire.Number, text string) []byte {
	if text == "" {
		return to
	}
	return protowire.AppendString(protowire.AppendTag(to, number, protowire.BytesType), text)
}

// append appends the parameters as a field of a message.
func (p Parameters) append(to []byte, number protowire.Number) []byte {
	for name, value := range p {
		encoded, err := proto.Marshal(ParameterOf(value))
		if err != nil {
			continue // a string that is not UTF-8, which no decoder lets in
		}
		entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
		entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), encoded)
		to = protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), entry)
	}
	return to
}

// ParameterOf returns the message for a parameter's value.
func ParameterOf(value any) *InferParameter {
	switch v := value.(type) {
	case bool:
		return &InferParameter{ParameterChoice: &InferParameter_BoolParam{BoolParam: v}}
	case int64:
		return &InferParameter{ParameterChoice: &InferParameter_Int64Param{Int64Param: v}}
	case float64:
		return &InferParameter{ParameterChoice: &InferParameter_DoubleParam{DoubleParam: v}}
	case string:
		return &InferParameter{ParameterChoice: &InferParameter_StringParam{StringParam: v}}
	}
	return &InferParameter{}
}
