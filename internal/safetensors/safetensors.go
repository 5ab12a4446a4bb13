// Package safetensors reads and writes the tables of safetensors files. A file is eight bytes of length, a table in
// JSON that names tensors, and their elements.
package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
)

// Entry is a tensor of a file: its elements are the bytes from Begin to End after the table, row-major, little-endian.
type Entry struct {
	Name       string
	DType      dtype.DType
	Shape      []int64
	Begin, End int64
}

// maxTable is the longest table, the limit of the format's own library.
const maxTable = 100_000_000

// names maps the names of element types in files to the types.
var names = map[string]dtype.DType{"F64": dtype.F64, "F32": dtype.F32, "F16": dtype.F16, "BF16": dtype.BF16,
	"I64": dtype.I64, "I32": dtype.I32,
	"I16": dtype.I16, "I8": dtype.I8, "U64": dtype.U64, "U32": dtype.U32, "U16": dtype.U16, "U8": dtype.U8,
	"BOOL":    dtype.Bool,
	"F8_E4M3": dtype.F8E4M3FN, "F8_E5M2": dtype.F8E5M2, "C64": dtype.C64}

// nameOf returns an element type's name in files; "" if there is none.
func nameOf(dt dtype.DType) string {
	for name, t := range names {
		if t == dt {
			return name
		}
	}
	return ""
}

// fields are the table's fields for a tensor.
type fields struct {
	DType   string   `json:"dtype"`
	Shape   []int64  `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// ReadTable reads a file's table; r is then at the elements. The entries are in the order of their elements, which must
// be adjacent. A table that breaks a rule of the format is an ErrInput that names the tensor; memory is allocated only
// for data that the file has.
func ReadTable(r io.Reader) (list []Entry, metadata map[string]string, err error) {
	var length [8]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, nil, cut(err, "the length of the table")
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxTable {
		return nil, nil, diag.Inputf("a table of %d bytes, which is more than %d: this is no safetensors file", n, maxTable)
	}
	text, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err == nil && uint64(len(text)) < n {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, nil, cut(err, "the table")
	}
	list, metadata, err = parse(text)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(list, func(a, b Entry) int {
		if a.Begin != b.Begin {
			return order(a.Begin, b.Begin)
		}
		return order(a.End, b.End)
	})
	at := int64(0)
	for _, e := range list {
		if e.Begin != at {
			return nil, nil, diag.Inputf("%s begins at byte %d; the tensors before end at %d", e.Name, e.Begin, at).
				AtTensor(e.Name)
		}
		at = e.End
	}
	return list, metadata, nil
}

// order compares offsets; equal ones count as greater.
func order(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}

// cut returns the error for a file that ends too early.
func cut(err error, what string) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return diag.Inputf("the file ends within %s", what)
	}
	return diag.Inputf("reading %s: %v", what, err).WithCause(err)
}

// parse parses the table. encoding/json takes the last of repeated names; here they are an error.
func parse(text []byte) (list []Entry, metadata map[string]string, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, nil, diag.Inputf("the table is no JSON object")
	}
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		name, ok := key.(string)
		if err != nil || !ok {
			return nil, nil, diag.Inputf("the table is no JSON: %v", err)
		}
		if seen[name] {
			return nil, nil, diag.Inputf("the table names %s twice", name).AtTensor(name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := d.Decode(&metadata); err != nil {
				return nil, nil, diag.Inputf("the table's metadata: %v", err)
			}
			continue
		}
		var f fields
		if err := d.Decode(&f); err != nil {
			return nil, nil, diag.Inputf("the table's entry: %v", err).AtTensor(name)
		}
		e, err := f.entry(name)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, e)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, diag.Inputf("the table is no JSON: %v", err)
	}
	if rest, _ := io.ReadAll(io.MultiReader(d.Buffered())); len(bytes.TrimSpace(rest)) > 0 {
		return nil, nil, diag.Inputf("something follows the table's object")
	}
	return list, metadata, nil
}

// entry checks the table's fields for a tensor.
func (f fields) entry(name string) (Entry, error) {
	dt, known := names[f.DType]
	if !known {
		return Entry{}, diag.Unsupportedf("element type %q", f.DType).AtTensor(name)
	}
	count := int64(1)
	for _, extent := range f.Shape {
		if extent < 0 || extent > 0 && count > math.MaxInt64/16/extent {
			return Entry{}, diag.Inputf("the shape %v", f.Shape).AtTensor(name)
		}
		count *= extent
	}
	size, err := dt.Bytes(count)
	if err != nil || f.Offsets[0] < 0 || f.Offsets[1] < f.Offsets[0] || f.Offsets[1]-f.Offsets[0] != size {
		return Entry{}, diag.Inputf("bytes %d to %d for %s of shape %v, which has %d", f.Offsets[0], f.Offsets[1], f.DType,
			f.Shape, size).AtTensor(name)
	}
	return Entry{name, dt, f.Shape, f.Offsets[0], f.Offsets[1]}, nil
}

// WriteTable writes the table of tensors whose elements follow in this order; it ignores Begin and End.
func WriteTable(w io.Writer, list []Entry, metadata map[string]string) error {
	var b strings.Builder
	b.WriteString("{")
	if metadata != nil {
		text, err := json.Marshal(metadata)
		if err != nil {
			return err
		}
		b.WriteString(`"__metadata__":` + string(text))
	}
	at, seen := int64(0), map[string]bool{"__metadata__": true}
	for _, e := range list {
		f := fields{DType: nameOf(e.DType), Shape: e.Shape}
		if f.DType == "" {
			return diag.Unsupportedf("the format has no element type %s", e.DType).AtTensor(e.Name)
		}
		if seen[e.Name] {
			return diag.Inputf("a second tensor called %s", e.Name).AtTensor(e.Name)
		}
		seen[e.Name] = true
		count := int64(1)
		for _, extent := range e.Shape {
			count *= extent
		}
		size, err := e.DType.Bytes(count)
		if err != nil {
			return err
		}
		if f.Shape == nil {
			f.Shape = []int64{}
		}
		f.Offsets = [2]int64{at, at + size}
		at += size
		key, _ := json.Marshal(e.Name)
		value, err := json.Marshal(f)
		if err != nil {
			return err
		}
		if b.Len() > 1 {
			b.WriteString(",")
		}
		b.WriteString(string(key) + ":" + string(value))
	}
	b.WriteString("}")
	for (b.Len()+8)%8 != 0 { // elements are aligned
		b.WriteString(" ")
	}
	var length [8]byte
	binary.LittleEndian.PutUint64(length[:], uint64(b.Len()))
	if _, err := w.Write(length[:]); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}
