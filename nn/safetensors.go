package nn

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/weirml/weir"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/safetensors"
)

// WriteSafetensors writes the parameters and buffers as a safetensors file with the names and layouts of PyTorch's
// modules: a linear layer's weight is [out, in]. A tied parameter is written once, under its name in Names.
func (p *Params) WriteSafetensors(w io.Writer) error {
	list := make([]safetensors.Entry, len(p.list))
	for i, s := range p.list {
		list[i] = safetensors.Entry{Name: s.name, DType: s.dtype, Shape: wide(s.inFile())}
	}
	if err := safetensors.WriteTable(w, list, map[string]string{"format": "pt"}); err != nil {
		return err
	}
	for _, s := range p.list {
		t := s.array.Tensor()
		if t == nil {
			return diag.New(weir.ErrClosed, "the store is closed")
		}
		if _, err := w.Write(s.toFile(t.Bytes())); err != nil {
			return err
		}
	}
	return nil
}

// wide converts extents to int64.
func wide(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, e := range shape {
		out[i] = int64(e)
	}
	return out
}

// ReadOption is a setting of ReadSafetensors.
type ReadOption func(o *reading)

// reading holds the settings of ReadSafetensors.
type reading struct {
	rename  func(name string) string
	lenient *Missing
}

// Missing lists the differences between a file and a store.
type Missing struct {
	InFile  []string // parameters of the store that the file does not have: they keep their elements
	InStore []string // tensors of the file that the store does not have: they are not read
}

// Lenient reads the tensors that the file and the store both have, and lists all others in m. Without it, such a
// difference is an error. Another type or shape is an error in any case, unless the types can be converted.
func Lenient(m *Missing) ReadOption { return func(o *reading) { o.lenient = m } }

// Rename maps the file's names to the store's; "" skips a tensor.
func Rename(f func(name string) string) ReadOption { return func(o *reading) { o.rename = f } }

// Under reads only the tensors whose names in the file begin with a prefix, such as "model.encoder.", and removes the
// prefix.
func Under(prefix string) ReadOption {
	return Rename(func(name string) string {
		if !strings.HasPrefix(name, prefix) {
			return ""
		}
		return name[len(prefix):]
	})
}

// ReadSafetensors reads the parameters and buffers from a safetensors file with the names and layouts of PyTorch's
// modules. Floats are converted to the parameter's float type, integers to its integer type. After an error the store
// is unchanged. PyTorch's batch counters, num_batches_tracked, are skipped.
func (p *Params) ReadSafetensors(r io.Reader, options ...ReadOption) error {
	o := reading{rename: func(name string) string { return name }}
	for _, option := range options {
		option(&o)
	}
	list, _, err := safetensors.ReadTable(r)
	if err != nil {
		return err
	}
	targets, err := p.match(list, &o)
	if err != nil {
		return err
	}
	read := make([][]byte, len(list))
	for i, e := range list {
		if read[i], err = elements(r, e, targets[i] != nil); err != nil {
			return err
		}
	}
	if n, _ := io.ReadFull(r, make([]byte, 1)); n > 0 {
		return diag.Inputf("the file goes on after its last tensor")
	}
	for i, s := range targets {
		if s != nil {
			s.write(read[i], list[i].DType)
		}
	}
	return nil
}

// elements reads a tensor's bytes, or skips them unless keep is true.
func elements(r io.Reader, e safetensors.Entry, keep bool) (data []byte, err error) {
	size := e.End - e.Begin
	if !keep {
		_, err = io.CopyN(io.Discard, r, size)
	} else {
		data = make([]byte, size)
		_, err = io.ReadFull(r, data)
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil, diag.Inputf("the file ends within the elements of %s", e.Name).AtTensor(e.Name)
	}
	if err != nil {
		return nil, diag.Inputf("reading %s: %v", e.Name, err).WithCause(err).AtTensor(e.Name)
	}
	return data, nil
}

// match returns the parameter of each of the file's tensors; nil for a tensor that is not read.
func (p *Params) match(list []safetensors.Entry, o *reading) ([]*slot, error) {
	targets, found := make([]*slot, len(list)), map[*slot]string{}
	var m Missing
	for i, e := range list {
		name := o.rename(e.Name)
		if name == "" {
			continue
		}
		s := p.entry(name)
		if s == nil {
			if !strings.HasSuffix(name, "num_batches_tracked") {
				m.InStore = append(m.InStore, e.Name)
			}
			continue
		}
		if err := s.accepts(e); err != nil {
			return nil, err
		}
		if _, twice := found[s]; !twice || name == s.name { // among tied parameters, the name in Names
			for k, t := range targets {
				if t == s {
					targets[k] = nil
				}
			}
			targets[i], found[s] = s, e.Name
		}
	}
	for _, s := range p.list {
		if _, ok := found[s]; !ok {
			m.InFile = append(m.InFile, s.name)
		}
	}
	if o.lenient != nil {
		*o.lenient = m
		return targets, nil
	}
	if len(m.InFile)+len(m.InStore) > 0 {
		return nil, diag.Inputf("the file does not have %s; the store does not have %s", some(m.InFile), some(m.InStore)).
			WithFix("nn.Lenient reads what both have, nn.Rename and nn.Under map names")
	}
	return targets, nil
}

// some lists names, at most the first eight.
func some(names []string) string {
	switch {
	case len(names) == 0:
		return "nothing else"
	case len(names) > 8:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	return strings.Join(names, ", ")
}

// accepts returns an error unless a file's tensor can become the parameter.
func (s *slot) accepts(e safetensors.Entry) error {
	convertible := e.DType == s.dtype || e.DType.IsFloat() && s.dtype.IsFloat() || e.DType.IsInt() && s.dtype.IsInt()
	if !convertible || !slices.Equal(e.Shape, wide(s.inFile())) {
		return diag.Inputf("%s is %v%v in the file, and %v%v in the store", e.Name, e.DType, e.Shape, s.dtype, s.inFile()).
			AtTensor(s.name)
	}
	return nil
}

// write converts a file's elements and stores them in the parameter.
func (s *slot) write(data []byte, dt dtype.DType) {
	to := s.array.Tensor()
	if dt != s.dtype {
		converted := make([]byte, len(to.Bytes()))
		for i := range int64(to.Len()) {
			if dt.IsFloat() {
				dtype.StoreFloat(s.dtype, converted, i, dtype.LoadFloat(dt, data, i))
			} else {
				dtype.StoreInt(s.dtype, converted, i, dtype.LoadInt(dt, data, i))
			}
		}
		data = converted
	}
	s.fromFile(to.Bytes(), data)
}
