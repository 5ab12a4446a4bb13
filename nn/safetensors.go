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

// WriteSafetensors writes the parameters and buffers as a safetensors file, with the names and layouts of PyTorch's
// modules: a linear layer's weight is [out, in]. A tied parameter is written once, by the name that Names has.
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

func wide(shape []int) []int64 {
	out := make([]int64, len(shape))
	for i, e := range shape {
		out[i] = int64(e)
	}
	return out
}

// ReadOption is a setting of ReadSafetensors.
type ReadOption func(o *reading)

type reading struct {
	rename  func(name string) string
	lenient *Missing
}

// Missing is what a file and a store do not have in common.
type Missing struct {
	InFile  []string // that the store has and the file has not: they keep their elements
	InStore []string // that the file has and the store has not: they are not read
}

// Lenient reads what a file and the store have in common, and lists the rest. Without it, a difference is an error.
// Elements of another type or shape are an error in any case.
func Lenient(m *Missing) ReadOption { return func(o *reading) { o.lenient = m } }

// Rename gives the file's names as the store has them; "" leaves a tensor out.
func Rename(f func(name string) string) ReadOption { return func(o *reading) { o.rename = f } }

// Under reads the tensors whose names in the file begin with a prefix, such as "model.encoder.", which is taken off.
func Under(prefix string) ReadOption {
	return Rename(func(name string) string {
		if !strings.HasPrefix(name, prefix) {
			return ""
		}
		return name[len(prefix):]
	})
}

// ReadSafetensors reads the parameters and buffers from a safetensors file with the names and layouts of PyTorch's
// modules. Floats of other types are converted. After an error the store is as it was before. PyTorch's counts of
// batches, which nothing here reads, are passed over.
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

// elements reads a tensor's bytes, or passes over them.
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

// match finds the parameter of each of the file's tensors; nil for those that are not read.
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
		if _, twice := found[s]; !twice || name == s.name { // of tied ones, the one that Names has
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

// some lists names, if they are many the first few.
func some(names []string) string {
	switch {
	case len(names) == 0:
		return "nothing else"
	case len(names) > 8:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	return strings.Join(names, ", ")
}

// accepts checks that a file's tensor can become the parameter.
func (s *slot) accepts(e safetensors.Entry) error {
	convertible := e.DType == s.dtype || e.DType.IsFloat() && s.dtype.IsFloat() || e.DType.IsInt() && s.dtype.IsInt()
	if !convertible || !slices.Equal(e.Shape, wide(s.inFile())) {
		return diag.Inputf("%s is %v%v in the file, and %v%v in the store", e.Name, e.DType, e.Shape, s.dtype, s.inFile()).
			AtTensor(s.name)
	}
	return nil
}

// write makes a file's elements the parameter's.
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
