package oip

import (
	"fmt"
	"math"

	"github.com/weirml/weir"
)

// Parameters are the parameters of a request, a response or a tensor: values are string, bool, int64 and float64.
type Parameters map[string]any

// Text returns a parameter that is a string; ok is false if it is missing or of another type.
func (p Parameters) Text(name string) (value string, ok bool) {
	value, ok = p[name].(string)
	return value, ok
}

// Flag returns a parameter that is a boolean; ok is false if it is missing or of another type.
func (p Parameters) Flag(name string) (value, ok bool) {
	value, ok = p[name].(bool)
	return value, ok
}

// Int returns a parameter that is a whole number; ok is false if it is missing or of another type.
func (p Parameters) Int(name string) (value int64, ok bool) {
	switch v := p[name].(type) {
	case int64:
		return v, true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	}
	return 0, false
}

// Tensor is an input of a request or an output of a response.
type Tensor struct {
	Name  string
	DType weir.DType
	Shape []int
	// Data has the elements in row-major order, little-endian. Types below eight bits are packed as weir.Tensor.Bytes is.
	// A string (BYTES) is its length in four bytes, and its bytes.
	Data       []byte
	Parameters Parameters
	Region     *Region // the shared memory that has, or gets, the elements; nil: Data has them
	Binary     bool    // of an output: REST writes its elements after the JSON text, not in it
}

// Region is a range of a registered shared memory.
type Region struct {
	Name         string
	Offset, Size int64
}

// Wanted is an output that a request asks for.
type Wanted struct {
	Name       string
	Parameters Parameters
	Region     *Region
	Binary     bool
	Classes    int // the number of classes to rank instead of the elements; 0: the elements
}

// Request is a request for inference.
type Request struct {
	Model, Version, ID string
	Parameters         Parameters
	Inputs             []Tensor
	Outputs            []Wanted // empty: all outputs
	AllBinary          bool     // if Outputs is empty: REST writes all elements after the JSON text
}

// Response is the answer to a Request.
type Response struct {
	Model, Version, ID string
	Parameters         Parameters
	Outputs            []Tensor
}

// Allocate returns memory for a tensor's elements, which the caller of a decoder owns. The bytes are undefined, and
// aligned for every element type.
type Allocate func(bytes int64) ([]byte, error)

// Error is a request that is not the protocol's: the client's fault.
type Error struct{ Text string }

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Errorf returns an Error.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Count returns the number of elements of a shape, or an error if an extent is negative or the number exceeds 2⁴⁷.
func Count(shape []int) (int64, error) {
	count, empty := int64(1), false
	for _, extent := range shape {
		if extent < 0 {
			return 0, Errorf("shape %v has a negative extent", shape)
		}
		if extent == 0 {
			empty = true
			continue
		}
		if int64(extent) > mostElements/count {
			return 0, Errorf("shape %v has more than 2^47 elements", shape)
		}
		count *= int64(extent)
	}
	if empty {
		return 0, nil
	}
	return count, nil
}

const mostElements = 1 << 47

// Bytes returns the size of a tensor's elements; it is not for strings.
func (t *Tensor) Bytes() (int64, error) {
	count, err := Count(t.Shape)
	if err != nil {
		return 0, fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	return t.DType.Bytes(count)
}

// regionOf returns the shared memory that parameters name, nil if they name none.
func (p Parameters) regionOf(tensor string) (*Region, error) {
	name, ok := p.Text("shared_memory_region")
	if !ok {
		if p["shared_memory_region"] != nil {
			return nil, Errorf("tensor %s: shared_memory_region is not a string", tensor)
		}
		return nil, nil
	}
	r := &Region{Name: name}
	if r.Size, ok = p.Int("shared_memory_byte_size"); !ok || r.Size < 0 {
		return nil, Errorf("tensor %s: shared_memory_byte_size is missing or not a number of bytes", tensor)
	}
	if p["shared_memory_offset"] != nil {
		if r.Offset, ok = p.Int("shared_memory_offset"); !ok || r.Offset < 0 {
			return nil, Errorf("tensor %s: shared_memory_offset is not a number of bytes", tensor)
		}
	}
	return r, nil
}

// wantedOf returns the output that a request asks for with these parameters.
func wantedOf(name string, p Parameters, binary bool) (w Wanted, err error) {
	w = Wanted{Name: name, Parameters: p, Binary: binary}
	if w.Region, err = p.regionOf(name); err != nil {
		return w, err
	}
	if p["binary_data"] != nil {
		var ok bool
		if w.Binary, ok = p.Flag("binary_data"); !ok {
			return w, Errorf("output %s: binary_data is not a boolean", name)
		}
	}
	if p["classification"] != nil {
		classes, ok := p.Int("classification")
		if !ok || classes < 0 || classes > math.MaxInt32 {
			return w, Errorf("output %s: classification is not a number of classes", name)
		}
		if w.Classes = int(classes); w.Classes > 0 && w.Region != nil {
			return w, Errorf("output %s: classes are not written to shared memory", name)
		}
	}
	return w, nil
}

// shapeOf converts a shape.
func shapeOf(tensor string, extents []int64) ([]int, error) {
	if len(extents) > mostAxes {
		return nil, Errorf("tensor %s: %d axes are more than %d", tensor, len(extents), mostAxes)
	}
	shape := make([]int, len(extents))
	for i, e := range extents {
		if shape[i] = int(e); e < 0 || int64(shape[i]) != e {
			return nil, Errorf("tensor %s: shape %v has an extent that is negative or too large", tensor, extents)
		}
	}
	_, err := Count(shape)
	return shape, err
}

const (
	mostAxes    = 64
	mostTensors = 4096 // inputs, or outputs, of a request
)

// typeOf returns the element type with a name of the protocol, or an error that lists the names.
func typeOf(tensor, name string) (weir.DType, error) {
	dt, ok := Parse(name)
	if !ok {
		return 0, Errorf("tensor %s: datatype %q is none of BOOL, UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, "+
			"FP16, FP32, FP64, BF16, BYTES, and no type of Weir in capital letters, such as F8E4M3FN", tensor, name)
	}
	return dt, nil
}

// CheckData returns an error unless Data has exactly the bytes that the type and the shape need.
func (t *Tensor) CheckData() error {
	count, err := Count(t.Shape)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if t.DType == weir.StringType {
		found := int64(0)
		for range Texts(t.Data) {
			found++
		}
		if rest := textsEnd(t.Data); rest != len(t.Data) || found != count {
			return Errorf("tensor %s: its %d bytes are %d strings with their lengths before them and %d other bytes; shape %v "+
				"has %d elements", t.Name, len(t.Data), found, len(t.Data)-rest, t.Shape, count)
		}
		return nil
	}
	want, err := t.DType.Bytes(count)
	if err != nil {
		return fmt.Errorf("tensor %s: %w", t.Name, err)
	}
	if int64(len(t.Data)) != want {
		return Errorf("tensor %s: %d bytes of data, and %s%v has %d", t.Name, len(t.Data), Name(t.DType), t.Shape, want)
	}
	return nil
}
