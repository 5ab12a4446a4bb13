package timing

import (
	"math/rand/v2"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/session"
	"github.com/weirml/weir/internal/tensor"
)

// sizeLeftOpen is the size of an open dimension, unless it is the first of an input's shape: that is 1.
const sizeLeftOpen = 64

// Sample is a set of inputs made for a program.
type Sample struct {
	Inputs  session.List
	tensors []*session.Tensor
}

// Close releases the inputs.
func (s *Sample) Close() {
	for _, t := range s.tensors {
		t.Close()
	}
}

// NewSample makes inputs that the program should accept: floats from 0 to 1, integers in the range that the program
// checks, and 1 or true if it checks none. The caller closes them.
func NewSample(p *Program) (s *Sample, err error) {
	s = &Sample{Inputs: session.List{}}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	dims := p.usualDims()
	random := rand.New(rand.NewPCG(1, 2))
	prog := p.Compiled.Program
	for _, e := range p.Session.Inputs {
		info := e.Info
		if !info.Simple() {
			return s, diag.Unsupportedf("tuning a model whose input %s is no tensor of numbers", info).AtTensor(info.Name)
		}
		port := prog.Inputs[e.Parts[0]]
		var shape []int64
		for _, e := range prog.Tensors[port.Tensor].Shape {
			n, err := e.Eval(p.Labels.Values(dims))
			if err != nil {
				return s, err
			}
			shape = append(shape, n)
		}
		t, err := session.NewTensor(info.DType, shape)
		if err != nil {
			return s, err
		}
		s.tensors, s.Inputs[info.Name] = append(s.tensors, t), session.Lend(t)
		if info.State != "" {
			s.Inputs[info.Name] = session.Update(t)
		}
		inner, err := t.Enter()
		if err != nil {
			return s, err
		}
		fill(inner, random, func() (lo, hi int64) {
			if lo, hi, ok := p.Compiled.Legal(info.Name, p.Labels.Values(dims)); ok {
				return lo, hi
			}
			return 1, 1
		})
		for k, d := range port.Elements {
			if int64(k) < inner.Len() {
				inner.SetInt(int64(k), dims[p.Labels.Of[prog.Dims[d].Name]])
			}
		}
		t.Leave()
	}
	return s, nil
}

// usualDims returns sizes for the dimensions that inputs determine, by label: 1 for the first axes of inputs,
// sizeLeftOpen for the others, or the nearest size in the dimension's range.
func (p *Program) usualDims() map[string]int64 {
	firsts := map[string]bool{}
	for _, port := range p.Compiled.Program.Inputs {
		if shape := p.Compiled.Program.Tensors[port.Tensor].Shape; len(shape) > 0 {
			for _, name := range shape[0].Vars() {
				firsts[p.Labels.Of[name]] = true
			}
		}
	}
	dims := map[string]int64{}
	for _, d := range p.Dims {
		usual := int64(sizeLeftOpen)
		if firsts[d.Name] {
			usual = 1
		}
		dims[d.Name] = min(max(usual, d.Min), d.Max)
	}
	return dims
}

// fill writes random values to a tensor: floats from 0 to 1, and integers from the range that legal returns. Complex
// elements stay zero.
func fill(t *tensor.Tensor, random *rand.Rand, legal func() (lo, hi int64)) {
	n := t.Len()
	switch {
	case t.DType().IsComplex():
		return
	case t.DType().IsFloat():
		for i := range n {
			t.SetFloat(i, random.Float64())
		}
		return
	}
	lo, hi := legal()
	for i := range n {
		t.SetInt(i, lo+random.Int64N(min(hi-lo, 1<<20)+1))
	}
}
