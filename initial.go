package weir

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/sources"
	"github.com/weirml/weir/internal/strided"
	"github.com/weirml/weir/internal/tensor"
)

// held is a tensor of the program for a state, used by runs that get no argument for it. Its memory counts as weights.
type held struct {
	tensor *Tensor
	block  *mem.Block
}

// Initial returns a new tensor with a state's first value in the model's file (Info.Initial). Pass it to Update to keep
// the state outside the program, or to start again. It is ErrInput if the file has no first value.
func (p *Program) Initial(input string) (t *Tensor, err error) {
	defer diag.Recover(&err, "making a state")
	i, ok := p.input(input)
	if !ok {
		return nil, p.noInput(input)
	}
	if !p.inputs[i].Initial {
		return nil, diag.Inputf("the model's file has no first value of it").AtTensor(input).WithFix("make a tensor of %s",
			p.inputs[i])
	}
	if _, err := p.enter(); err != nil {
		return nil, err
	}
	defer p.engine.Leave()
	if t, err = New(p.inputs[i].DType, extentsOf(p.inputs[i])...); err != nil {
		return nil, err
	}
	inner, err := t.entered()
	if err != nil {
		return nil, err
	}
	defer t.leave()
	done, err := p.model.read()
	if err != nil {
		t.Close()
		return nil, err
	}
	defer done()
	if err := p.first(input, inner); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// extentsOf returns the shape of an input with known extents, as those of states with a first value are.
func extentsOf(info Info) []int {
	shape := make([]int, len(info.Shape))
	for axis, e := range info.Shape {
		shape[axis] = int(e.Size)
	}
	return shape
}

// first writes the first value of a state into a tensor.
func (p *Program) first(input string, to *tensor.Tensor) error {
	return mem.CatchFaults(func() error { return p.model.source.First(input, to) })
}

// ownBytes returns the bytes that the program's own states will take.
func (p *Program) ownBytes() (sum int64, err error) {
	for _, info := range p.inputs {
		if !info.Initial {
			continue
		}
		size, err := strided.BytesOf(info.DType, sizesOf(extentsOf(info)))
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

// makeOwn makes the program's own tensors, for states with a first value.
func (p *Program) makeOwn() error {
	if !slices.ContainsFunc(p.inputs, func(info Info) bool { return info.Initial }) {
		return nil
	}
	done, err := p.model.read()
	if err != nil {
		return err
	}
	defer done()
	p.own = make([]held, len(p.inputs))
	for i, info := range p.inputs {
		if !info.Initial {
			continue
		}
		sizes := sizesOf(extentsOf(info))
		size, err := strided.BytesOf(info.DType, sizes)
		if err != nil {
			return err
		}
		block, err := mem.Map(mem.Weights, info.Name, size)
		if err != nil {
			return err
		}
		inner, err := tensor.Over(info.DType, sizes, block.Bytes())
		if err == nil {
			err = p.first(info.Name, inner)
		}
		if err != nil {
			block.Close()
			return err
		}
		t := newTensor(inner, nil, nil) // its memory is the program's: Close leaves it alone
		t.data.Set(inner, func() { t.failed = block.Close() })
		p.own[i] = held{t, block}
	}
	return nil
}

// closeOwn releases the program's own states.
func (p *Program) closeOwn() (err error) {
	for _, h := range p.own {
		if h.block == nil {
			continue
		}
		if h.tensor.data.Shut(); h.tensor.data.Inside() == 0 && h.tensor.failed != nil {
			err = h.tensor.failed
		}
	}
	p.own = nil
	return err
}

// ownState returns the program's own tensor for an input, as an argument; ok is false if there is none.
func (p *Program) ownState(i int) (g given, ok bool) {
	if p.own == nil || p.own[i].tensor == nil {
		return g, false
	}
	g = p.own[i].tensor.given()
	if p.inputs[i].State != "" {
		g = Update(p.own[i].tensor).given()
	}
	return g, true
}

// ownHeld returns the bytes that the program's own states take.
func (p *Program) ownHeld() (sum int64) {
	for _, h := range p.own {
		if h.block != nil {
			sum += h.block.Size()
		}
	}
	return sum
}

// ownPages returns the bytes of full pages that the program's own states take.
func (p *Program) ownPages() (sum int64) {
	for _, h := range p.own {
		if h.block != nil {
			sum += h.block.Mapped()
		}
	}
	return sum
}

// firstBytes returns the first values of states for an artefact, by input, without values of zeros only.
func (p *Program) firstBytes() (list map[string][]byte, err error) {
	if p.own == nil {
		return nil, nil
	}
	done, err := p.model.read()
	if err != nil {
		return nil, err
	}
	defer done()
	for _, info := range p.inputs {
		if !info.Initial {
			continue
		}
		t, err := tensor.New(info.DType, sizesOf(extentsOf(info))...)
		if err != nil {
			return nil, err
		}
		if err := p.first(info.Name, t); err != nil {
			return nil, err
		}
		if sources.AllZero(t.Bytes()) {
			continue
		}
		if list == nil {
			list = map[string][]byte{}
		}
		list[info.Name] = t.Bytes()
	}
	return list, nil
}

// checkInitial returns an error unless each first value in an artefact has a state of its size.
func (a *artefact) checkInitial() error {
	found := 0
	for _, e := range a.edges(a.about.Inputs, a.Program.Inputs) {
		data, given := a.about.Initial[e.Info.Name]
		if !e.Info.Initial {
			continue
		}
		if !e.Info.simple() || slices.ContainsFunc(e.Info.Shape, func(x Extent) bool { return x.Dim != "" || x.Size < 0 }) {
			return diag.Inputf("a first value of %s, whose shape runs decide", e.Info).AtTensor(e.Info.Name)
		}
		size, err := strided.BytesOf(e.Info.DType, sizesOf(extentsOf(e.Info)))
		if err != nil {
			return err
		}
		if given {
			found++
			if int64(len(data)) != size {
				return diag.Inputf("a first value of %d bytes for %s of %d", len(data), e.Info, size).AtTensor(e.Info.Name)
			}
		}
	}
	if found != len(a.about.Initial) {
		return diag.Inputf("%d first values, of which %d are of inputs that have one", len(a.about.Initial), found)
	}
	return nil
}
