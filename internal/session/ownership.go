package session

import (
	"slices"
	"strings"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/dtype"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/tensor"
)

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
	port   int        // the input port
	owner  ownership  // donating or consuming
	output int        // the output port that gets the donated memory, or −1
	block  *mem.Block // the memory, once it belongs to the run
	taken  bool       // it was taken from the caller, and not released yet
	inside bool       // it was taken, and still lies in the memory of its results
}

// partWords are the participles for errors about an argument that is not lent.
var partWords = map[ownership]string{donating: "donated", consuming: "consumed", updating: "updated"}

// mayPart checks the arguments that are given away or updated, and records them in args. No other argument may overlap
// them. Memory that is given away must be the tensor's own, memory that is donated or updated must be writable, and
// each donation needs an output that can use it.
func (s *Session) mayPart(args *packing, list []Argument) error {
	for i, g := range list {
		info, port := s.Inputs[i].Info, s.Inputs[i].Parts[0]
		if err := s.maySupply(info, g); err != nil {
			return err
		}
		if g.owner == lending {
			continue
		}
		name, t, word := info.Name, g.tensors[0], partWords[g.owner]
		if !info.Simple() {
			return diag.Inputf("%s is no tensor of numbers, and only those can be %s", info, word).AtTensor(name).
				WithFix("lend it")
		}
		if g.owner != updating && !t.owns(g.owner == donating || t.of != nil && t.of.session == s) {
			return diag.Inputf("its memory is not its own, and cannot be %s", word).AtTensor(name).
				WithFix("copy it into a tensor made by weir.New first")
		}
		for k, other := range args.parts {
			if k != port && overlap(g.data[0], other) {
				return diag.Inputf("it is %s, and given for %s too", word, s.Owner(k).Name).AtTensor(name).
					WithFix("lend it to both")
			}
		}
		if g.owner != consuming {
			if err := t.MayWrite(name); err != nil {
				return err
			}
		}
		if g.owner == updating {
			args.states = append(args.states, state{t, g.data[0], port})
			continue
		}
		args.parted = append(args.parted, &parted{t: t, port: port, owner: g.owner, output: -1})
	}
	return s.match(args.parted)
}

// owns reports whether a tensor has memory to give away; if whole, no other tensor may lie in that memory.
func (t *Tensor) owns(whole bool) bool {
	return t.block != nil || t.of != nil && t.dtype != dtype.String && (!whole || t.port >= 0 && t.of.session.owns[t.port])
}

// match sets the output of each donated argument in list. It returns an error if no output can use one of them.
func (s *Session) match(list []*parted) error {
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
	for i, output := range s.prog.Donated(ports, nil) {
		if donated[i].output = output; output < 0 {
			return s.ineffective(ports[i])
		}
	}
	return nil
}

// ineffective returns the error for a donation that no output can use.
func (s *Session) ineffective(port int) error {
	prog := s.prog
	in := &prog.Inputs[port]
	bytes := prog.Tensors[in.Tensor].Bytes()
	e := diag.Inputf("no output can lie in its memory").AtTensor(s.Owner(port).Name).WithFix("lend it, or consume it")
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

// part takes the donated and consumed arguments from the caller, all of them or none, and reserves the states. After an
// error, release ends the reservations. The memory of an output of an earlier run of by leaves that run's call, so that
// its Results can release the call: this run may be waiting for it.
func (p *packing) part(by *Session) error {
	for _, s := range p.states {
		name := by.Owner(s.port).Name
		if err := update(s.data.Bytes(), name); err != nil {
			return err
		}
		p.held++
		if err := writable(s.data.Bytes(), name); err != nil {
			return err
		}
	}
	for i, a := range p.parted {
		moves := a.owner == donating || a.t.of != nil && a.t.of.session == by
		if !a.t.data.Take(moves) {
			for _, b := range p.parted[:i] {
				p.back(b)
			}
			if a.t.data.IsShut() {
				return diag.New(diag.ErrClosed, "the tensor is closed, or was given away").AtTensor(by.Owner(a.port).Name)
			}
			return diag.Inputf("it is %s while another run or copy reads it", partWords[a.owner]).
				AtTensor(by.Owner(a.port).Name).
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
		case a.owner == donating && a.t.block != nil || r != nil && r.session == by && a.t.block != nil:
			a.block, a.t.block = a.t.block, nil
		case a.owner == donating || r != nil && r.session == by:
			a.block = a.t.within.Again().call.TakeOutput(a.t.port)
			a.t.within.Leave()
		}
		if a.block == nil {
			continue // its memory stays with its tensor until the run has consumed it
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

// place gives the call the donated memory for its outputs, and makes it release each consumed argument after its last
// read.
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

// back returns a tensor that part took to the caller.
func (p *packing) back(a *parted) {
	if a.taken, a.inside = false, false; a.t.of != nil {
		a.t.of.left.Add(1)
	}
	a.t.data.Open()
	p.entered = append(p.entered, a.t)
}

// outside ends the use of the Results in whose memory the tensor lies, and closes them if no other tensor of theirs is
// left.
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

// done releases the memory of a tensor that was taken. Otherwise, and on a second call, it does nothing.
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

// Donated returns, for each of these inputs, the output port that lies in its memory if runs donate all of them. It is
// ErrInput if no output can use one of them.
func (s *Session) Donated(inputs []string) (outputs []int, err error) {
	var list []*parted
	for _, name := range inputs {
		i, ok := s.Input(name)
		if !ok {
			return nil, s.NoInput(name)
		}
		list = append(list, &parted{port: s.Inputs[i].Parts[0], owner: donating})
	}
	if err := s.match(list); err != nil {
		return nil, err
	}
	for _, a := range list {
		outputs = append(outputs, a.output)
	}
	return outputs, nil
}
