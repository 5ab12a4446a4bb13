package weir

import (
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/tensor"
)

// Consume gives a tensor to a run for good: its memory is given back inside the run, after the last step that reads it, or when the run fails. The tensor is dead from the call of Run
// on, unless that refuses its arguments. It must have memory of its own, as New makes it, or be an output that an earlier run gave: when all tensors of its Results
// are consumed, donated or closed, those are closed, and their program has its call back.
func Consume(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: program.Consume}
}

// Donate gives a tensor to a run for good, and its memory to one of the run's outputs, which lies there: the run takes that much less memory of its own (Memory.Donating). The output has as
// many bytes, and is written when the tensor has been read, or in its place; where no output is so, the run is refused. What lies there may be donated again, so that weights go from
// step to step without a copy. The tensor is dead from the call of Run on, unless that refuses its arguments, and must have memory as Consume wants it.
func Donate(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: program.Donate}
}

// parted is an argument that its caller parts with.
type parted struct {
	t      *Tensor
	port   int
	owner  program.Ownership
	output int        // that lies in donated memory
	block  *mem.Block // the memory, where it is the run's own
	taken  bool       // from the caller, and not given back yet
}

// partWords say what a caller does who parts with an argument.
var partWords = map[program.Ownership]string{program.Donate: "donated", program.Consume: "consumed", program.State: "updated"}

// mayPart checks that what callers part with is theirs, given once, and of use; it notes it in args.
func (p *Program) mayPart(args *packing, list []given) error {
	for i, g := range list {
		if err := p.maySupply(p.inputs[i], g); err != nil {
			return err
		}
		if g.owner == program.Borrow {
			continue
		}
		name, t, word := p.inputs[i].Name, g.tensors[0], partWords[g.owner]
		if !p.inputs[i].simple() {
			return diag.Inputf("%s is no tensor of numbers, and only those can be %s", p.inputs[i], word).AtTensor(name).WithFix("lend it")
		}
		if g.owner != program.State && !t.owns(g.owner == program.Donate || t.of != nil && t.of.program == p) {
			return diag.Inputf("its memory is not its own, and cannot be %s", word).AtTensor(name).WithFix("copy it into a tensor made by weir.New first")
		}
		for k, other := range args.parts {
			if k != p.takes[i].Parts[0] && overlap(t, other) {
				return diag.Inputf("it is %s, and given for %s too", word, p.owner(k).Name).AtTensor(name).WithFix("lend it to both")
			}
		}
		if g.owner == program.State {
			if err := t.writable(name); err != nil {
				return err
			}
			args.states = append(args.states, state{t, p.takes[i].Parts[0]})
			continue
		}
		args.parted = append(args.parted, &parted{t: t, port: p.takes[i].Parts[0], owner: g.owner, output: -1})
	}
	return p.match(args.parted)
}

// owns reports whether a tensor has memory that can be parted with: where it is to be handed on, memory that nothing else lies in.
func (t *Tensor) owns(whole bool) bool {
	return t.block != nil || t.of != nil && t.t.DType() != StringType && (!whole || t.port >= 0 && t.of.program.executable.Owns(t.port))
}

// match finds the outputs that lie in donated memory.
func (p *Program) match(list []*parted) error {
	var donated []*parted
	var ports []int
	for _, a := range list {
		if a.owner == program.Donate {
			donated, ports = append(donated, a), append(ports, a.port)
		}
	}
	if donated == nil {
		return nil
	}
	for i, output := range p.compiled.Program.Donated(ports, nil) {
		if donated[i].output = output; output < 0 {
			return p.ineffective(ports[i])
		}
	}
	return nil
}

// ineffective is the error of a donation that no output can use.
func (p *Program) ineffective(port int) error {
	prog := p.compiled.Program
	in := &prog.Inputs[port]
	bytes := prog.Tensors[in.Tensor].Bytes()
	e := diag.Inputf("no output can lie in its memory").AtTensor(p.owner(port).Name).WithFix("lend it, or consume it")
	var may, as []string
	for _, t := range in.Gives {
		may = append(may, prog.Tensors[t].Source)
	}
	for _, out := range prog.Outputs {
		if t := &prog.Tensors[out.Tensor]; t.Bytes().Equal(bytes) {
			as = append(as, out.Name)
		}
	}
	switch {
	case may != nil:
		e.Detail += ": others that are donated give theirs to " + strings.Join(may, ", ")
	case as != nil:
		e.Detail += ": it is still read when " + strings.Join(as, ", ") + " is written, the only one with its " + bytes.String() + " bytes"
		if len(as) > 1 {
			e.Detail = "no output can lie in its memory: it is still read when those with its " + bytes.String() + " bytes are written, " + strings.Join(as, ", ")
		}
	default:
		e.Detail += ": none has its " + bytes.String() + " bytes"
	}
	return e
}

// overlap reports whether two tensors share memory.
func overlap(a, b *Tensor) bool {
	x, y := a.t.Bytes(), b.t.Bytes()
	if len(x) == 0 || len(y) == 0 {
		return a == b
	}
	at, other := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return at < other+uintptr(len(y)) && other < at+uintptr(len(x))
}

// part takes from the caller what it parts with, and holds what the run updates: all of it, or nothing and an error. What later steps of this program are to write has left its results by then, and the
// call of theirs with it: this run may be waiting for that.
func (p *packing) part(by *Program) error {
	for _, s := range p.states {
		if err := s.t.hold(by.owner(s.port).Name); err != nil {
			return err
		}
		p.held++
	}
	for i, a := range p.parted {
		if a.t.of != nil {
			a.taken = a.t.of.take(a.t)
		} else {
			a.taken = !a.t.gone.Swap(true)
		}
		if !a.taken {
			for _, b := range p.parted[:i] {
				b.back()
			}
			return diag.New(ErrClosed, "the tensor is closed, or was given away")
		}
	}
	for _, a := range p.parted {
		r := a.t.of
		switch {
		case a.t.block != nil:
			a.block = a.t.block
		case a.owner == program.Donate || r.program == by:
			a.block = r.bound.call.TakeOutput(a.t.port)
		}
		if a.block == nil {
			continue // its results hold it until it is consumed
		}
		moved, err := tensor.Over(a.t.t.DType(), a.t.t.Shape(), a.block.Bytes())
		if err != nil {
			return err
		}
		p.parts[a.port] = &Tensor{t: moved, closed: a.t.closed}
		if r != nil {
			if err := r.give(); err != nil {
				return err
			}
		}
	}
	return nil
}

// place lends the call the memory that was donated for its outputs, and tells it what to give back.
func (p *packing) place(c *executor.Call) error {
	for _, a := range p.parted {
		if a.owner == program.Consume {
			c.Consume(a.port, a.done)
		} else if err := c.PutOutput(a.output, a.block.Pointer(), a.block.Size()); err != nil {
			return err
		}
	}
	return nil
}

// lend is the arguments of runs after which the caller still has them as they were: of what is donated or updated they have copies, which fill makes, once for each run.
func (p *packing) lend(c *executor.Call) (parts []*Tensor, fill func(), err error) {
	parts = slices.Clone(p.parts)
	for _, s := range p.states {
		copied, err := p.allocate("state")(s.t.t.DType(), s.t.t.Shape()...)
		if err != nil {
			return nil, nil, err
		}
		parts[s.port] = &Tensor{t: copied}
	}
	for _, a := range p.parted {
		if a.owner != program.Donate {
			continue
		}
		from := p.parts[a.port]
		copied, err := p.allocate("donated")(from.t.DType(), from.t.Shape()...)
		if err != nil {
			return nil, nil, err
		}
		data := copied.Bytes()
		if err := c.PutOutput(a.output, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return nil, nil, err
		}
		parts[a.port] = &Tensor{t: copied}
	}
	return parts, func() {
		for i, t := range parts {
			if t != p.parts[i] {
				copy(t.t.Bytes(), p.parts[i].t.Bytes())
			}
		}
	}, nil
}

// back returns a tensor that was taken.
func (a *parted) back() {
	a.taken = false
	if a.t.of != nil {
		a.t.of.back(a.t)
		return
	}
	a.t.gone.Store(false)
}

// done gives a tensor's memory back, once.
func (a *parted) done() error {
	switch {
	case !a.taken:
		return nil
	case a.block != nil:
		a.taken = false
		return a.block.Close()
	}
	a.taken = false
	return a.t.of.give()
}

// Donating is the certificate of runs that donate these inputs: the outputs that lie in their memory are no part of Outputs.
func (m *Memory) Donating(inputs ...string) (*Memory, error) {
	p := m.program
	var list []*parted
	for _, name := range inputs {
		i, ok := p.input(name)
		if !ok {
			return nil, p.noInput(name)
		}
		list = append(list, &parted{port: p.takes[i].Parts[0], owner: program.Donate})
	}
	if err := p.match(list); err != nil {
		return nil, err
	}
	var outputs []int
	for _, a := range list {
		outputs = append(outputs, a.output)
	}
	return m.without(outputs), nil
}

// Giving is the certificate of calls to which the caller binds these outputs' places: they are no part of Outputs.
func (m *Memory) Giving(outputs ...string) (*Memory, error) {
	var list []int
	for _, name := range outputs {
		i := slices.IndexFunc(m.program.outputs, func(o Info) bool { return o.Name == name })
		switch {
		case i < 0:
			return nil, diag.Inputf("the program has no output %q", name).AtTensor(name).WithFix("its outputs are %s", infoList(m.program.outputs))
		case !m.program.outputs[i].simple() || !m.program.executable.Owns(m.program.gives[i].Parts[0]):
			return nil, diag.Unsupportedf("a place of the caller's: it is no tensor of numbers, data decide its size, or it is a part of another").AtTensor(name)
		}
		list = append(list, m.program.gives[i].Parts[0])
	}
	return m.without(list), nil
}

// without is the certificate without some outputs.
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
