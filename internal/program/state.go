package program

import (
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/sym"
)

// A state is an argument that an output overwrites in place. The output's tensor is a view that covers the argument's
// tensor, but steps treat the two as separate values, the old and the new one. Only the step that writes the new value
// may still read the old one.

// NewValue returns the index of the output that replaces a state; −1 if the input is no state.
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

// replaces reports whether tensor t is a view directly of tensor of.
func (p *Program) replaces(t, of int) bool {
	return t >= 0 && t < len(p.Tensors) && p.Tensors[t].Class == View && p.Tensors[t].Of == of
}

// newValues maps the tensor of each output that replaces a state to the state's tensor.
func (p *Program) newValues() map[int]int {
	out := map[int]int{}
	for i, port := range p.Inputs {
		if o := p.NewValue(i); o >= 0 {
			out[p.Outputs[o].Tensor] = port.Tensor
		}
	}
	return out
}

// home returns the root of a tensor, as Root does, except that a state's new value is its own root.
func (p *Program) home(newValues map[int]int, t int) int {
	for p.Tensors[t].Class == View {
		if _, is := newValues[t]; is {
			return t
		}
		t = p.Tensors[t].Of
	}
	return t
}

// stated checks a state: exactly one output replaces it, at offset 0 and with all its bytes.
func (v *verifier) stated(port *Port) error {
	fault := func(fault string) error { return diag.Inputf("a state %s", fault).AtTensor(port.Name) }
	if port.Gives != nil || port.Elements != nil {
		return fault("must not give its storage to another output, or a dimension its value")
	}
	own := -1
	for _, o := range v.p.Outputs {
		if !v.p.replaces(o.Tensor, port.Tensor) {
			continue
		}
		if own >= 0 && own != o.Tensor {
			return fault("is replaced by two outputs")
		}
		own = o.Tensor
	}
	if own < 0 {
		return fault("that no output replaces")
	}
	x := &v.p.Tensors[own]
	if x.Strides != nil || v.dims.EQ(x.Offset, sym.Const(0)) != sym.Yes ||
		!sameBytes(v, x.Bytes(), v.p.Tensors[port.Tensor].Bytes()) {
		return fault("must be replaced in full, and " + x.Name + " covers only some of it")
	}
	v.newValues[own] = port.Tensor
	return nil
}
