package program

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// A state is an argument that an output replaces where it lies. The output's tensor is a part of the argument's, and
// all of it, but to the steps the two are apart: one has the old value, the other the new one, and nothing reads the
// old one once the new one is written, but for the step that writes it.

// NewValue is the output that replaces an input, by index; −1 if the input is no state.
func (p *Program) NewValue(input int) int {
	if p.Inputs[input].Ownership != State {
		return -1
	}
	for o, port := range p.Outputs {
		if p.replaces(port.Tensor, p.Inputs[input].Tensor) {
			return o
		}
	}
	return -1
}

// replaces reports whether a tensor is a part of another.
func (p *Program) replaces(t, of int) bool {
	return t >= 0 && t < len(p.Tensors) && p.Tensors[t].Place == Part && p.Tensors[t].Of == of
}

// newValues are the tensors of outputs that replace arguments, and which.
func (p *Program) newValues() map[int]int {
	out := map[int]int{}
	for i, port := range p.Inputs {
		if o := p.NewValue(i); o >= 0 {
			out[p.Outputs[o].Tensor] = port.Tensor
		}
	}
	return out
}

// home is what a tensor lies in, as root has it, but for states: there it is the new value, or the old one.
func (p *Program) home(newValues map[int]int, t int) int {
	for p.Tensors[t].Place == Part {
		if _, is := newValues[t]; is {
			return t
		}
		t = p.Tensors[t].Of
	}
	return t
}

// stated checks a port that is a state: one output replaces it, all of it.
func (v *verifier) stated(port *Port) error {
	fault := func(what string) error { return diag.Inputf("a state %s", what).AtTensor(port.Name) }
	if port.Gives != nil || port.Elements != nil {
		return fault("gives its storage to no other output, and no dimension its value")
	}
	own := -1
	for _, o := range v.p.Outputs {
		if !v.p.replaces(o.Tensor, port.Tensor) {
			continue
		}
		if own >= 0 && own != o.Tensor {
			return fault("is replaced by one output")
		}
		own = o.Tensor
	}
	if own < 0 {
		return fault("that no output replaces")
	}
	x := &v.p.Tensors[own]
	if x.Strides != nil || v.dims.EQ(x.Offset, sym.Const(0)) != sym.Yes ||
		!sameBytes(v, x.Bytes(), v.p.Tensors[port.Tensor].Bytes()) {
		return fault("is replaced whole, not in part by " + x.Name)
	}
	v.newValues[own] = port.Tensor
	return nil
}
