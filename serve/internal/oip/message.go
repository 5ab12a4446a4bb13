package oip

import (
	"math"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MarshalJSON returns a message as JSON with the fields' own names. Unlike protobuf's JSON it writes 64-bit integers as
// numbers, as Triton does, and fields without a value, except those of a oneof and messages.
func MarshalJSON(m proto.Message) []byte { return appendMessage(nil, m.ProtoReflect()) }

func appendMessage(to []byte, m protoreflect.Message) []byte {
	to = append(to, '{')
	first := true
	list := m.Descriptor().Fields()
	for i := range list.Len() {
		f := list.Get(i)
		if !m.Has(f) && (f.ContainingOneof() != nil || f.Message() != nil && !f.IsList() && !f.IsMap()) {
			continue
		}
		if !first {
			to = append(to, ',')
		}
		first = false
		to = append(strconv.AppendQuote(to, string(f.Name())), ':')
		value := m.Get(f)
		switch {
		case f.IsList():
			to = append(to, '[')
			for j := range value.List().Len() {
				if j > 0 {
					to = append(to, ',')
				}
				to = appendValue(to, f, value.List().Get(j))
			}
			to = append(to, ']')
		case f.IsMap():
			to = append(to, '{')
			begun := false
			value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				if begun {
					to = append(to, ',')
				}
				begun = true
				to = append(AppendJSON(to, k.String()), ':')
				to = appendValue(to, f.MapValue(), v)
				return true
			})
			to = append(to, '}')
		default:
			to = appendValue(to, f, value)
		}
	}
	return append(to, '}')
}

func appendValue(to []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(to, v.Message())
	case protoreflect.BoolKind:
		return strconv.AppendBool(to, v.Bool())
	case protoreflect.StringKind:
		return AppendJSON(to, v.String())
	case protoreflect.BytesKind:
		return AppendJSON(to, v.Bytes())
	case protoreflect.EnumKind:
		if e := f.Enum().Values().ByNumber(v.Enum()); e != nil {
			return AppendJSON(to, string(e.Name()))
		}
		return strconv.AppendInt(to, int64(v.Enum()), 10)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		if x := v.Float(); !math.IsNaN(x) && !math.IsInf(x, 0) {
			return strconv.AppendFloat(to, x, 'g', -1, 64)
		}
		return append(to, "null"...)
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(to, v.Uint(), 10)
	}
	return strconv.AppendInt(to, v.Int(), 10)
}
