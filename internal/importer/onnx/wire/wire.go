package wire

import (
	"context"
	"io"

	"github.com/weirml/weir/internal/mem"
)

// parse reads a message of the table's type, with a claim of its own; it borrows data.
func parse[T any](s *message[T], data []byte) (*T, error) {
	return parseOn(mem.NewClaim(context.Background(), int64(len(data))), s, data)
}

// parseOn is parse with the claim of the file that has the message.
func parseOn[T any](c *mem.Claim, s *message[T], data []byte) (*T, error) {
	d := newDecoder(data, s.info.Name, c)
	m := new(T)
	if err := s.decode(d, m); err != nil {
		return nil, err
	}
	return m, nil
}

// ParseModel reads a model. The result borrows data, as the package's documentation says, and must not outlive it.
// Bytes that are not a message, or exceed a limit, are an ErrInput that names the field. An empty input is a model of
// zero values: the importer decides whether a model makes sense.
func ParseModel(data []byte) (*ModelProto, error) { return parse(&modelTable, data) }

// ParseModelOn is ParseModel with the file's claim, to which it charges the model's records. It ends with the error of
// the claim's context.
func ParseModelOn(c *mem.Claim, data []byte) (*ModelProto, error) {
	return parseOn(c, &modelTable, data)
}

// ParseTensor reads a tensor, such as input_0.pb of ONNX's test data. It borrows data.
func ParseTensor(data []byte) (*TensorProto, error) { return parse(&tensorTable, data) }

// ParseSequence reads a sequence. It borrows data.
func ParseSequence(data []byte) (*SequenceProto, error) { return parse(&sequenceTable, data) }

// ParseOptional reads an optional value. It borrows data.
func ParseOptional(data []byte) (*OptionalProto, error) { return parse(&optionalTable, data) }

// ParseMap reads a map. It borrows data.
func ParseMap(data []byte) (*MapProto, error) { return parse(&mapTable, data) }

// WriteTo writes the model in the order of its fields' numbers, and does not copy its tensors. Fields that ParseModel
// skips are not written. It returns the bytes written and w's error.
func (m *ModelProto) WriteTo(w io.Writer) (int64, error) { return encodeTo(w, &modelTable, m) }

// Marshal returns the model's bytes; they are the same on every call and every machine.
func (m *ModelProto) Marshal() []byte { return marshal(&modelTable, m) }

// WriteTo writes the tensor, and does not copy its data.
func (t *TensorProto) WriteTo(w io.Writer) (int64, error) { return encodeTo(w, &tensorTable, t) }

// Marshal returns the tensor's bytes.
func (t *TensorProto) Marshal() []byte { return marshal(&tensorTable, t) }

// Marshal returns the sequence's bytes.
func (m *SequenceProto) Marshal() []byte { return marshal(&sequenceTable, m) }

// Marshal returns the optional value's bytes.
func (m *OptionalProto) Marshal() []byte { return marshal(&optionalTable, m) }

// Marshal returns the map's bytes.
func (m *MapProto) Marshal() []byte { return marshal(&mapTable, m) }
