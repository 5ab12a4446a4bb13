package wire

import (
	"strconv"
	"strings"
)

// ExternalEntry says where the bytes of an external tensor are.
type ExternalEntry struct {
	Location string // a path relative to the model's folder, as written and unchecked
	Offset   int64
	Length   int64 // −1 if the entry has none: then it is the size that dims need
}

// ExternalEntry returns the entry of a tensor whose External is true. Keys other than location, offset and length
// (checksum, basepath, unknown ones) are ignored, as onnx does. A key that occurs twice, an offset or length that is
// negative or not a number, and a missing location are ErrInput.
func (t *TensorProto) ExternalEntry() (ExternalEntry, error) {
	e := ExternalEntry{Length: -1}
	seen := map[string]bool{}
	for _, entry := range t.ExternalData {
		var number *int64
		switch entry.Key {
		case "location":
			e.Location = entry.Value
		case "offset":
			number = &e.Offset
		case "length":
			number = &e.Length
		default:
			continue
		}
		if seen[entry.Key] {
			return e, t.fail("external_data names %s twice", entry.Key)
		}
		seen[entry.Key] = true
		if number == nil {
			continue
		}
		value, err := strconv.ParseInt(strings.TrimSpace(entry.Value), 10, 64)
		if err != nil || value < 0 {
			return e, t.fail("external_data's %s %.40q is no byte count", entry.Key, entry.Value)
		}
		*number = value
	}
	if e.Location == "" {
		return e, t.fail("external_data names no location")
	}
	return e, nil
}
