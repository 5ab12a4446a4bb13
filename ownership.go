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

// Consume gives a tensor to a run for good: the run releases its memory after the last step that reads it, or when the
// run fails. From the call of Run on the tensor is invalid, unless Run refuses its arguments. The tensor must have
// memory of its own, as those of New do, or be an output of an earlier run: when all tensors of its Results are
// consumed, donated or closed, the Results are closed and release their call.
func Consume(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: consuming}
}

// Donate gives a tensor to a run for good, and its memory to one of the run's outputs: the run allocates that much less
// (Memory.Donating). The output has as many bytes as the tensor, and is written after the last read of the tensor, or
// in place; if there is no such output, the run is refused. The output may be donated again, so that weights go from
// step to step without a copy. From the call of Run on the tensor is invalid, unless Run refuses its arguments. Its
// memory must be as Consume requires.
func Donate(t *Tensor) Arg {
	return given{kind: TensorKind, tensors: []*Tensor{t}, owner: donating}
}

// ownership is the way in which a caller passes an argument.
type ownership uint8

const (
	lending ownership = iota
	donating
	consuming
	updating
)

// parted is an argument that the caller gives away.
type parted struct {
	t      *Tensor
	port   int
	owner  ownership
	output int        // the output port that gets the donated memory, or −1
	block  *mem.Block // the memory, once it belongs to the run
	taken  bool       // it was taken from the caller, and not released yet
	inside bool       // it was taken, and still lies in the memory of its results
}

// partWords are the participles for errors about an argument that is not lent.
var partWords = map[ownership]string{donating: "donated", consuming: "consumed", updating: "updated"}

// mayPart checks the arguments that are given away or updated: each has memory of its own, is passed once, and has a
// use. It records them in args.
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

// owns reports whether a tensor has memory to give away; if whole, no other tensor may lie in that memory.
func (t *Tensor) owns(whole bool) bool {
	return t.block != nil || t.of != nil && t.dtype != StringType && (!whole || t.port >= 0 && t.of.program.owns[t.port])
}

// match assigns donated memory to outputs.
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

// ineffective returns the error for a donation that no output can use.
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

// sharing reports whether two byte ranges intersect.
func sharing(x, y []byte) bool {
	if len(x) == 0 || len(y) == 0 {
		return false
	}
	at, other := uintptr(unsafe.Pointer(unsafe.SliceData(x))), uintptr(unsafe.Pointer(unsafe.SliceData(y)))
	return at < other+uintptr(len(y)) && other < at+uintptr(len(x))
}

// part takes the donated and consumed arguments from the caller, and reserves the states: all of them, or none and an
// error. Outputs of by's own runs leave their results first, so that these release their call: this run may be waiting
// for it.
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

// place gives the call the donated memory for its outputs, and tells it which arguments to release.
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

// lend returns arguments for runs after which the caller's tensors are unchanged: donated and updated arguments are
// replaced by copies, which fill makes once for each run.
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

// back returns a tensor that was taken to the caller.
func (p *packing) back(a *parted) {
	if a.taken, a.inside = false, false; a.t.of != nil {
		a.t.of.left.Add(1)
	}
	a.t.data.Open()
	p.entered = append(p.entered, a.t)
}

// outside ends the use of the results that the tensor belonged to. After the last tensor it closes them.
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

// done releases a tensor's memory, once.
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

// Donating returns the certificate of runs that donate these inputs: Outputs excludes the outputs that lie in their
// memory.
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

// Binding returns the certificate of calls that bind these outputs to the caller's memory (Call.Bind): Outputs excludes
// them. See Donating for outputs that overwrite arguments.
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

// without returns the certificate without the storage of some output ports.
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
