package wire

// Kind is the declared type of a field.
type Kind uint8

// The kinds of fields.
const (
	Int32 Kind = iota
	Int64
	Uint64
	Float32
	Float64
	String // string: UTF-8
	Bytes  // bytes
	Nested // a message
)

// Field describes one field of a message type.
type Field struct {
	Number   int32
	Name     string
	Kind     Kind
	Repeated bool
	Message  *Message // of a Nested field
	Skipped  bool     // the reader counts it and passes over it
}

// Message describes a message type by its fields, in the order of onnx.proto. Tools that walk the bytes of any message
// use it, and so does the decoder.
type Message struct {
	Name   string
	Fields []Field
}

// Model describes ModelProto. Model, Sequence, Optional and Map are the messages that a file can hold.
func Model() *Message    { return &modelTable.info }
func Sequence() *Message { return &sequenceTable.info }
func Optional() *Message { return &optionalTable.info }
func Map() *Message      { return &mapTable.info }

// Presence is the set of a message's fields that the input had, by number.
type Presence uint32

// Has reports whether the field with this number was in the input, or was set by a constructor of this package.
func (p Presence) Has(number int32) bool { return p>>number&1 == 1 }
