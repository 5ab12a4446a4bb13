package executor

import (
	"math"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/sym"
	"github.com/weirml/weir/internal/target"
)

// A subprogram is an executable of its own, and each step that calls it a call of its own, on the memory that the
// caller lends: its ports, its storages, and the scratch and the queue of the whole run. Its kernels are those of the
// program's code that have their names.

// subCall is a step that calls a subprogram, made ready once.
type subCall struct {
	call  *Call
	dims  []int64 // of the subprogram, as given last; those that data decide there are 0
	sized bool    // the values are those of dims, and there is scratch enough for them
}

// newSubs makes the executables of the subprograms.
func (x *Executable) newSubs(o Options) error {
	byName := map[string]target.Kernel{}
	for _, k := range x.code.Kernels {
		byName[k.Name()] = k
	}
	for _, p := range x.program.Subs {
		code := &target.Code{Machine: x.code.Machine}
		for _, name := range p.Kernels {
			k := byName[name]
			if k == nil {
				return diag.Internalf("kernel %s of @%s is not in the program's code", name, p.Name)
			}
			code.Kernels = append(code.Kernels, k)
		}
		sub, err := newExecutable(p, code, o)
		if sub != nil {
			x.subs = append(x.subs, sub)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// newSubCall makes a step's call, without memory.
func (c *Call) newSubCall(s *program.Call) (*subCall, error) {
	x := c.x.subs[s.Sub]
	in := x.newCall(c.running)
	in.outer = c
	in.values = make([]int64, len(x.layout.names))
	in.storages, in.files = make([]*mem.Block, len(x.program.Storages)), make([]*mem.SpillFile, len(x.program.Storages))
	in.outside = make([]target.Operand, len(x.program.Storages))
	in.remote = x.newRemoteCall()
	return &subCall{call: in, dims: make([]int64, len(x.program.Dims))}, in.prepare(x.program.Steps)
}

// dimsOf evaluates the dimensions that a step gives its subprogram.
func (x *Executable) dimsOf(s *program.Call, values, dims []int64) (changed bool, err error) {
	given, codes := 0, x.layout.calls[s]
	for i := range x.program.Subs[s.Sub].Dims {
		if x.program.Subs[s.Sub].Dims[i].Data {
			continue
		}
		v, err := codes[given].Eval(values)
		if err != nil {
			return false, err
		}
		changed = changed || dims[i] != v
		dims[i], given = v, given+1
	}
	return changed, nil
}

// call runs a subprogram.
func (c *Call) call(s *program.Call) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	sub := c.calls[s]
	in, x := sub.call, sub.call.x
	changed, err := c.x.dimsOf(s, c.values, sub.dims)
	if err != nil {
		return err
	}
	if changed || !sub.sized || x.layout.decides {
		sub.sized = false
		if err := x.layout.evaluate(in.values, sub.dims); err != nil {
			return x.typed(err, sub.dims)
		}
	}
	if err := c.lend(s, in); err != nil {
		return err
	}
	if !sub.sized {
		if err := in.sufficientScratch(s.Source); err != nil {
			return err
		}
		sub.sized = true
	}
	clear(in.events)
	if err := in.steps(x.program.Steps); err != nil {
		return x.typed(err, in.values)
	}
	if len(x.program.Streams) > 0 && x.remote != nil { // the call is done when all its streams are
		return c.awaitDevice()
	}
	return nil
}

// nowhere is where storage without bytes lies.
var nowhere byte

// lend gives the call of a subprogram its memory.
func (c *Call) lend(s *program.Call, in *Call) error {
	p := in.x.program
	for i, t := range s.Storage {
		size, err := in.x.layout.sizes[i].Eval(in.values)
		if err != nil {
			return err
		}
		if c.x.isRemote(t) != (p.Storages[i].Device != "") {
			return diag.Internalf("%s, which stands for %s of @%s, lies in another memory",
				c.x.program.Tensors[t].Name, p.Storages[i].Name, p.Name)
		}
		if c.x.isRemote(t) {
			if err := c.locateRemote(t); err != nil {
				return err
			}
			at := c.remote.spots[t]
			in.remote.storages[i] = region{at.memory, at.at, size, at.storage, true}
		} else {
			o, err := c.operand(t)
			if err != nil {
				return err
			}
			if in.outside[i] = (target.Operand{Base: o.Base, Bytes: size}); o.Base == nil || size == 0 {
				in.outside[i].Base = unsafe.Pointer(&nowhere)
			}
		}
		if have := c.operands[t].Bytes; size > have {
			return diag.Inputf("@%s needs %d bytes of it, it has %d", p.Name, size, have).
				AtTensor(c.x.program.Tensors[t].Source)
		}
	}
	if err := in.locate(); err != nil {
		return err
	}
	for _, list := range []struct {
		ports []program.Port
		lent  []int
	}{{p.Inputs, s.In}, {p.Outputs, s.Out}} {
		for i := range list.ports {
			if err := c.lendPort(in, list.ports[i].Tensor, list.lent[i]); err != nil {
				return err
			}
		}
	}
	return in.ready(math.MaxInt)
}

// lendPort gives a port of a subprogram's the memory of one of the caller's tensors.
func (c *Call) lendPort(in *Call, port, lent int) error {
	o, err := c.operand(lent)
	if err != nil {
		return err
	}
	if in.x.layout.tensors[port].dynamic {
		if err := in.place(port); err != nil {
			return err
		}
	}
	if have, want := o.Bytes, in.operands[port].Bytes; have != want {
		return diag.Inputf("@%s is given %d bytes for %s of %d", in.x.program.Name, have,
			in.x.program.Tensors[port].Name, want).AtTensor(c.x.program.Tensors[lent].Source)
	}
	in.operands[port].Base = o.Base
	c.watch.touch(c, lent)
	return nil
}

// sufficientScratch has the run's scratch be as large as a call's launches need, for the dimensions that it has.
func (c *Call) sufficientScratch(source string) error {
	need, err := c.x.ScratchBytes(c.values)
	if err != nil {
		return at(err, source)
	}
	if err := c.enlargeScratch(need, source); err != nil {
		return err
	}
	if c.remote == nil {
		return nil
	}
	if need, err = c.x.DeviceScratch(c.values); err != nil {
		return at(err, source)
	}
	return at(c.growDeviceScratch(need), source)
}

// scratchOfSubs is the most that launches of subprograms need, where the dimensions that the steps give them have
// values or limits.
func (x *Executable) scratchOfSubs(values []int64, device bool, some func(s *program.Launch) bool) (int64, error) {
	most := int64(0)
	for s := range x.layout.calls {
		sub := x.subs[s.Sub]
		inner, dims := make([]int64, len(sub.layout.names)), make([]int64, len(sub.program.Dims))
		if x.layout.open[s] {
			continue // the run asks when it comes to the step
		}
		if _, err := x.dimsOf(s, values, dims); err != nil {
			return 0, err
		}
		if sub.layout.evaluate(inner, dims) != nil {
			continue // at the limits: a run that comes to the step has other dimensions, or the error
		}
		need, err := sub.scratchOf(inner, device, some)
		if err != nil {
			return 0, err
		}
		most = max(most, need)
	}
	return most, nil
}

// compileCall compiles what a step gives a subprogram.
func (l *layout) compileCall(c *compilation, s *program.Call) {
	codes := []*sym.Code{}
	for _, e := range s.Dims {
		codes = append(codes, c.compile(e))
		for _, name := range e.Vars() {
			for i := range l.program.Dims {
				l.open[s] = l.open[s] || l.program.Dims[i].Name == name && l.program.AwaitsData(i)
			}
		}
	}
	l.calls[s] = codes
}
