package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// span is a JSON value that is left as text: a range of the text that is decoded.
type span []byte

// UnmarshalJSON keeps the range. encoding/json passes a slice of its input.
func (s *span) UnmarshalJSON(text []byte) error {
	*s = text
	return nil
}

// UnmarshalJSON reads parameters, whose values are strings, booleans and numbers, from valid JSON.
func (p *Parameters) UnmarshalJSON(text []byte) error {
	n := numbers{text: text}
	if *p = nil; n.next() == 'n' { // null
		return nil
	}
	if n.next() != '{' {
		return fmt.Errorf("parameters are %.20s, which is no object", text)
	}
	*p = Parameters{}
	for n.at++; n.next() != '}'; {
		name, err := scalar(n.token())
		if err != nil {
			return err
		}
		n.next()
		n.at++ // the colon
		n.space()
		if (*p)[name.(string)], err = scalar(n.token()); err != nil {
			return fmt.Errorf("parameter %q %w", name, err)
		}
		if n.next() == ',' {
			n.at++
		}
	}
	return nil
}

// token returns the string, number or word that is next in valid JSON, or what opens an object or an array.
func (n *numbers) token() span {
	from := n.at
	for n.at++; n.at < len(n.text); n.at++ {
		c := n.text[n.at]
		switch {
		case n.text[from] != '"':
			if c == ',' || c == '}' || c == ' ' || c == '\n' || c == '\t' || c == '\r' {
				return span(n.text[from:n.at])
			}
		case c == '\\':
			n.at++
		case c == '"':
			n.at++
			return span(n.text[from:n.at])
		}
	}
	return span(n.text[from:])
}

// scalar reads a string, boolean or number of valid JSON text. A number is an int64 if it is one.
func scalar(text span) (any, error) {
	switch {
	case len(text) == 0 || text[0] == '{' || text[0] == '[' || text[0] == 'n':
		return nil, errors.New("is no string, boolean or number")
	case text[0] == '"':
		if plain(string(text[1 : len(text)-1])) {
			return string(text[1 : len(text)-1]), nil
		}
		var s string
		err := json.Unmarshal(text, &s)
		return s, err
	case text[0] == 't' || text[0] == 'f':
		return text[0] == 't', nil
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return nil, fmt.Errorf("is %s, which is out of range", text)
	}
	return f, nil
}

// plain reports whether a string is the same within the quotes of JSON text.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// jsonRequest is the JSON text of a Request.
type jsonRequest struct {
	ID         string     `json:"id"`
	Parameters Parameters `json:"parameters"`
	Inputs     []struct {
		Name       string     `json:"name"`
		Shape      []int64    `json:"shape"`
		Datatype   string     `json:"datatype"`
		Parameters Parameters `json:"parameters"`
		Data       span       `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string     `json:"name"`
		Parameters Parameters `json:"parameters"`
	} `json:"outputs"`
}

// DecodeJSON reads the body of a REST request: JSON text and, if textBytes is less than the body's size, the elements
// of the tensors that say so. Elements within the text are written to memory of allocate. The request refers to the
// body.
func DecodeJSON(body []byte, textBytes int, allocate Allocate) (*Request, error) {
	if textBytes < 0 || textBytes > len(body) {
		return nil, Errorf("Inference-Header-Content-Length is %d, and the body has %d bytes", textBytes, len(body))
	}
	var text jsonRequest
	if err := json.Unmarshal(body[:textBytes], &text); err != nil {
		return nil, Errorf("the request is not the protocol's JSON: %v", err)
	}
	if len(text.Inputs) > mostTensors || len(text.Outputs) > mostTensors {
		return nil, Errorf("%d inputs and %d outputs: the most are %d", len(text.Inputs), len(text.Outputs), mostTensors)
	}
	r := &Request{ID: text.ID, Parameters: text.Parameters}
	if text.Parameters["binary_data_output"] != nil {
		var ok bool
		if r.AllBinary, ok = text.Parameters.Flag("binary_data_output"); !ok {
			return nil, Errorf("binary_data_output is not a boolean")
		}
	}
	binary := body[textBytes:]
	for _, in := range text.Inputs {
		t := Tensor{Name: in.Name, Parameters: in.Parameters}
		var err error
		if t.DType, err = typeOf(t.Name, in.Datatype); err != nil {
			return nil, err
		}
		if t.Shape, err = shapeOf(t.Name, in.Shape); err != nil {
			return nil, err
		}
		if t.Region, err = in.Parameters.regionOf(t.Name); err != nil {
			return nil, err
		}
		if t.Region != nil {
			if in.Data != nil || in.Parameters["binary_data_size"] != nil {
				return nil, Errorf("tensor %s has shared memory, and other data too", t.Name)
			}
			r.Inputs = append(r.Inputs, t)
			continue
		}
		if in.Parameters["binary_data_size"] != nil {
			size, ok := in.Parameters.Int("binary_data_size")
			if !ok || size < 0 || size > int64(len(binary)) {
				return nil, Errorf("tensor %s: binary_data_size is %v, and %d bytes are left of the body", t.Name,
					in.Parameters["binary_data_size"], len(binary))
			}
			if in.Data != nil {
				return nil, Errorf("tensor %s has data in the text and after it", t.Name)
			}
			t.Data, binary = binary[:size:size], binary[size:]
			if err := t.CheckData(); err != nil {
				return nil, err
			}
		} else if err := t.decodeNumbers(in.Data, allocate); err != nil {
			return nil, err
		}
		r.Inputs = append(r.Inputs, t)
	}
	if len(binary) > 0 {
		return nil, Errorf("%d bytes are left after the tensors' data; binary_data_size says how many a tensor has",
			len(binary))
	}
	for _, out := range text.Outputs {
		w, err := wantedOf(out.Name, out.Parameters, r.AllBinary)
		if err != nil {
			return nil, err
		}
		r.Outputs = append(r.Outputs, w)
	}
	return r, nil
}

// EncodeJSON returns the JSON text of a response. The elements of outputs that are neither binary nor in shared memory
// are left out: split returns the pieces of the text between which they belong, in the outputs' order.
func (r *Response) EncodeJSON() (split [][]byte, err error) {
	text := []byte(`{"model_name":`)
	text = AppendJSON(text, r.Model)
	text = AppendJSON(append(text, `,"model_version":`...), r.Version)
	if r.ID != "" {
		text = AppendJSON(append(text, `,"id":`...), r.ID)
	}
	if len(r.Parameters) > 0 {
		text = AppendJSON(append(text, `,"parameters":`...), r.Parameters)
	}
	text = append(text, `,"outputs":[`...)
	for i := range r.Outputs {
		t := &r.Outputs[i]
		if i > 0 {
			text = append(text, ',')
		}
		text = AppendJSON(append(text, `{"name":`...), t.Name)
		text = AppendJSON(append(text, `,"datatype":`...), Name(t.DType))
		text = append(text, `,"shape":[`...)
		for axis, extent := range t.Shape {
			if axis > 0 {
				text = append(text, ',')
			}
			text = strconv.AppendInt(text, int64(extent), 10)
		}
		text = append(text, ']')
		if p := t.parameters(); len(p) > 0 {
			text = AppendJSON(append(text, `,"parameters":`...), p)
		}
		if t.InText() {
			if err := textual(t); err != nil {
				return nil, err
			}
			split = append(split, append(text, `,"data":`...))
			text = nil
		}
		text = append(text, '}')
	}
	return append(split, append(text, "]}"...)), nil
}

// InText reports whether REST writes the elements of an output in the JSON text.
func (t *Tensor) InText() bool { return !t.Binary && t.Region == nil }

// parameters returns the output's parameters with the size or the place of its elements.
func (t *Tensor) parameters() Parameters {
	p := Parameters{}
	for name, value := range t.Parameters {
		p[name] = value
	}
	switch {
	case t.Region != nil:
		p["shared_memory_region"], p["shared_memory_byte_size"] = t.Region.Name, t.Region.Size
		if t.Region.Offset != 0 {
			p["shared_memory_offset"] = t.Region.Offset
		}
	case t.Binary:
		p["binary_data_size"] = int64(len(t.Data))
	}
	return p
}

// textual returns an error if JSON text cannot have a tensor's elements.
func textual(t *Tensor) error {
	if t.DType.IsComplex() || t.DType.IsSubByte() {
		return Errorf("tensor %s: JSON text has no elements of %s; ask for binary data", t.Name, Name(t.DType))
	}
	return nil
}

// AppendJSON appends a value that encoding/json can encode, with the same text.
func AppendJSON(text []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		if plain(v) {
			return append(append(append(text, '"'), v...), '"')
		}
	case int64:
		return strconv.AppendInt(text, v, 10)
	case bool:
		return strconv.AppendBool(text, v)
	case Parameters:
		text = append(text, '{')
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				text = append(text, ',')
			}
			text = AppendJSON(append(AppendJSON(text, name), ':'), v[name])
		}
		return append(text, '}')
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err) // strings, and maps of strings, booleans and numbers
	}
	return append(text, encoded...)
}
