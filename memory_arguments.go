package weir

import (
	"maps"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/signature"
	"github.com/weirml/weir/internal/sym"
)

// Donating returns the certificate of runs that donate arguments for these inputs: Outputs excludes the outputs that
// lie in the donated memory. It is ErrInput if no output can use one of the donations.
func (m *Memory) Donating(inputs ...string) (*Memory, error) {
	outputs, err := m.program.session.Donated(inputs)
	if err != nil {
		return nil, err
	}
	return m.without(outputs), nil
}

// Binding returns the certificate of calls that bind these outputs to the caller's tensors (Call.Bind): Outputs
// excludes them. See Donating for outputs that overwrite arguments.
func (m *Memory) Binding(outputs ...string) (*Memory, error) {
	s := m.program.session
	var list []int
	for _, name := range outputs {
		i := s.Output(name)
		switch {
		case i < 0:
			return nil, diag.Inputf("the program has no output %q", name).AtTensor(name).WithFix("its outputs are %s",
				signature.List(s.Outputs))
		case !s.Outputs[i].Info.Simple() || !s.Owns(s.Outputs[i].Parts[0]):
			return nil, diag.Unsupportedf(
				"an output in the caller's memory: it is not a tensor of numbers, data determine " +
					"size, or it lies in the memory of another output").AtTensor(name)
		}
		list = append(list, s.Outputs[i].Parts[0])
	}
	return m.without(list), nil
}

// without returns the certificate without the storage of these output ports.
func (m *Memory) without(outputs []int) *Memory {
	p := m.program.compiled.Program
	less := *m
	less.elsewhere = maps.Clone(m.elsewhere)
	if less.elsewhere == nil {
		less.elsewhere = map[int]bool{}
	}
	for _, o := range outputs {
		s := p.Tensors[p.Outputs[o].Tensor].Of
		if !less.elsewhere[s] {
			less.Outputs = Size{m.Outputs.dims.Simplify(less.Outputs.x.Sub(p.Storages[s].Size)), m.Outputs.dims}
		}
		less.elsewhere[s] = true
	}
	return &less
}

// Copies returns the bytes that one run takes beyond the certificate, until it returns, if the arguments for these
// inputs do not lie in the order of the inputs and must be copied (see Strided). Without names it counts all inputs
// that can be copied.
func (m *Memory) Copies(inputs ...string) (Size, error) {
	s, prog := m.program.session, m.program.compiled.Program
	if len(inputs) == 0 {
		for _, e := range s.Inputs {
			if e.Info.Simple() && e.Info.State == "" {
				inputs = append(inputs, e.Info.Name)
			}
		}
	}
	total := sym.Const(0)
	for _, name := range inputs {
		i, ok := s.Input(name)
		if !ok {
			return Size{}, s.NoInput(name)
		}
		e := s.Inputs[i]
		if !e.Info.Simple() || e.Info.State != "" {
			return Size{}, diag.Inputf("%s is never copied: it is a state, or no tensor of numbers", e.Info).AtTensor(name)
		}
		total = total.Add(prog.Tensors[prog.Inputs[e.Parts[0]].Tensor].Bytes())
	}
	return m.size(total), nil
}
