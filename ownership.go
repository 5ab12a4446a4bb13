package weir

import (
	"maps"
	"slices"
	"strings"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

// Consume gives a tensor to a run for good: its memory is given back inside the run, after the last step that reads it,
// or when the run fails. The tensor is dead from the call of Run on, unless that refuses its arguments. It must have
// memory of its own, as New makes it, or be an output that an earlier run gave: when all tensors of its Results are
// consumed, donated or closed, those are closed, and their program has its call back.
func Consume(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: consuming}
}

// Donate gives a tensor to a run for good, and its memory to one of the run's outputs, which lies there: the run takes
// that much less memory of its own (Memory.Donating). The output has as many bytes, and is written when the tensor has
// been read, or in its place; where no output is so, the run is refused. What lies there may be donated again, so that
// weights go from step to step without a copy. The tensor is dead from the call of Run on, unless that refuses its
// arguments, and must have memory as Consume wants it.
func Donate(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: donating}
}

// ownership is what a caller does with an argument.
type ownership uint8

const (
	lending ownership = iota
	donating
	consuming
	updating
)

// parted is an argument that its caller parts with.
type parted struct {
	t      *Tensor
	port   int
	owner  ownership
	output int        // that lies in donated memory
	block  *mem.Block // the memory, once it is the run's own
	taken  bool       // from the caller, and not given back yet
	inside bool       // taken, and still within its results
}

// partWords say what a caller does who parts with an argument.
var partWords = map[ownership]string{donating: "donated", consuming: "consumed", updating: "updated"}

// mayPart checks that what callers part with is theirs, given once, and of use; it notes it in args.
func (p *Program) mayPart(args *packing, list []given) error {
	for i, g := range list {
		if err := p.maySupply(p.inputs[i], g); err != nil {
			return err
		}
		if g.owner == lending {
			continue
		}
		name, t, word := p.inputs[i].Name, g.tensors[0], partWords[g.owner]
		if !p.inputs[i].simple() {
			return diag.Inputf("%s is no tensor of numbers, and only those can be %s", p.inputs[i], word).AtTensor(name).
				WithFix("lend it")
		}
		if g.owner != updating && !t.owns(g.owner == donating || t.of != nil && t.of.program == p) {
			return diag.Inputf("its memory is not its own, and cannot be %s", word).AtTensor(name).
				WithFix("copy it into a tensor made by weir.New first")
		}
		for k, other := range args.parts {
			if k != p.takes[i].Parts[0] && overlap(g.data[0], other) {
				return diag.Inputf("it is %s, and given for %s too", word, p.owner(k).Name).AtTensor(name).
					WithFix("lend it to both")
			}
		}
		if g.owner != consuming {
			if err := t.mayWrite(name); err != nil {
				return err
			}
		}
		if g.owner == updating {
			args.states = append(args.states, state{t, g.data[0], p.takes[i].Parts[0]})
			continue
		}
		args.parted = append(args.parted, &parted{t: t, port: p.takes[i].Parts[0], owner: g.owner, output: -1})
	}
	return p.match(args.parted)
}

// owns reports whether a tensor has memory that can be parted with: where it is to be handed on, memory that nothing
// else lies in.
func (t *Tensor) owns(whole bool) bool {
	return t.block != nil || t.of != nil && t.dtype != StringType && (!whole || t.port >= 0 && t.of.program.owns[t.port])
}

// match finds the outputs that lie in donated memory.
func (p *Program) match(list []*parted) error {
	var donated []*parted
	var ports []int
	for _, a := range list {
		if a.owner == donating {
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
		e.Detail += ": it is still read when " + strings.Join(as, ", ") + " is written, the only one with its " +
			bytes.String() + " bytes"
		if len(as) > 1 {
			e.Detail = "no output can lie in its memory: it is still read when those with its " + bytes.String() +
				" bytes are written, " + strings.Join(as, ", ")
		}
	default:
		e.Detail += ": none has its " + bytes.String() + " bytes"
	}
	return e
}

// overlap reports whether two tensors share memory.
func overlap(a, b *tensor.Tensor) bool {
	x, y := a.Bytes(), b.Bytes()
	return len(x) == 0 && a == b || sharing(x, y)
}

// sharing reports whether two pieces of memory have bytes in common.
func sharing(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	at, other := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return at < other+uintptr(len(y)) && other < at+uintptr(len(x))
}

// part takes from the caller what it parts with, and holds what the run updates: all of it, or nothing and an error.
// What later steps of this program are to write has left its results by then, and the call of theirs with it: this run
// may be waiting for that.
func (p *packing) part(by *Program) error {
	for _, s := range p.states {
		name := by.owner(s.port).Name
		if err := update(s.data.Bytes(), name); err != nil {
			return err
		}
		p.held++
		if err := writable(s.data.Bytes(), name); err != nil {
			return err
		}
	}
	for i, a := range p.parted {
		moves := a.owner == donating || a.t.of != nil && a.t.of.program == by
		if !a.t.data.Take(moves) {
			for _, b := range p.parted[:i] {
				p.back(b)
			}
			if a.t.data.IsShut() {
				return diag.New(ErrClosed, "the tensor is closed, or was given away").AtTensor(by.owner(a.port).Name)
			}
			return diag.Inputf("it is %s, while somebody reads it", partWords[a.owner]).AtTensor(by.owner(a.port).Name).
				WithFix("wait until the run or the copy that reads it has returned, or lend it")
		}
		p.entered = slices.DeleteFunc(p.entered, func(t *Tensor) bool { return t == a.t })
		if a.taken, a.inside = true, a.t.within != nil; a.t.of != nil {
			a.t.of.left.Add(-1)
		}
	}
	for _, a := range p.parted {
		r := a.t.of
		switch {
		case a.owner == donating && a.t.block != nil || r != nil && r.program == by && a.t.block != nil:
			a.block, a.t.block = a.t.block, nil
		case a.owner == donating || r != nil && r.program == by:
			a.block = a.t.within.Again().call.TakeOutput(a.t.port)
			a.t.within.Leave()
		}
		if a.block == nil {
			continue // it is there until it is consumed
		}
		moved, err := tensor.Over(a.t.dtype, a.t.shape, a.block.Bytes())
		if err != nil {
			return err
		}
		p.parts[a.port] = moved
		a.outside()
	}
	return nil
}

// place lends the call the memory that was donated for its outputs, and tells it what to give back.
func (p *packing) place(c *executor.Call) error {
	for _, a := range p.parted {
		if a.owner == consuming {
			c.Consume(a.port, a.done)
		} else if err := c.PutOutput(a.output, a.block.Pointer(), a.block.Size()); err != nil {
			return err
		}
	}
	return nil
}

// lend is the arguments of runs after which the caller still has them as they were: of what is donated or updated they
// have copies, which fill makes, once for each run.
func (p *packing) lend(c *executor.Call) (parts []*tensor.Tensor, fill func(), err error) {
	parts = slices.Clone(p.parts)
	for _, s := range p.states {
		copied, err := p.allocate("state")(s.t.dtype, s.t.shape...)
		if err != nil {
			return nil, nil, err
		}
		parts[s.port] = copied
	}
	for _, a := range p.parted {
		if a.owner != donating {
			continue
		}
		from := p.parts[a.port]
		copied, err := p.allocate("donated")(from.DType(), from.Shape()...)
		if err != nil {
			return nil, nil, err
		}
		data := copied.Bytes()
		if err := c.PutOutput(a.output, unsafe.Pointer(unsafe.SliceData(data)), int64(len(data))); err != nil {
			return nil, nil, err
		}
		parts[a.port] = copied
	}
	return parts, func() {
		for i, t := range parts {
			if t != p.parts[i] {
				copy(t.Bytes(), p.parts[i].Bytes())
			}
		}
	}, nil
}

// back returns a tensor that was taken.
func (p *packing) back(a *parted) {
	if a.taken, a.inside = false, false; a.t.of != nil {
		a.t.of.left.Add(1)
	}
	a.t.data.Open()
	p.entered = append(p.entered, a.t)
}

// outside ends the use of the results that a tensor was a part of. With the last tensor they are closed.
func (a *parted) outside() {
	if !a.inside {
		return
	}
	a.inside = false
	if r := a.t.of; r != nil && r.left.Load() == 0 {
		r.Close()
	}
	a.t.within.Leave()
}

// done gives a tensor's memory back, once.
func (a *parted) done() error {
	if !a.taken {
		return nil
	}
	a.taken = false
	var err error
	if a.block != nil {
		err = a.block.Close()
	}
	a.t.data.Leave()
	a.outside()
	return err
}

// Donating is the certificate of runs that donate these inputs: the outputs that lie in their memory are no part of
// Outputs.
func (m *Memory) Donating(inputs ...string) (*Memory, error) {
	p := m.program
	var list []*parted
	for _, name := range inputs {
		i, ok := p.input(name)
		if !ok {
			return nil, p.noInput(name)
		}
		list = append(list, &parted{port: p.takes[i].Parts[0], owner: donating})
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

// Binding is the certificate of calls whose outputs of these names the caller binds to memory of its own (Call.Bind):
// they are no part of Outputs. See Donating for what runs write over their arguments.
func (m *Memory) Binding(outputs ...string) (*Memory, error) {
	var list []int
	for _, name := range outputs {
		i := slices.IndexFunc(m.program.outputs, func(o Info) bool { return o.Name == name })
		switch {
		case i < 0:
			return nil, diag.Inputf("the program has no output %q", name).AtTensor(name).WithFix("its outputs are %s",
				infoList(m.program.outputs))
		case !m.program.outputs[i].simple() || !m.program.owns[m.program.gives[i].Parts[0]]:
			return nil, diag.Unsupportedf("a place of the caller's: it is no tensor of numbers, data decide its size, or it " +
				"is a part of another").AtTensor(name)
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
