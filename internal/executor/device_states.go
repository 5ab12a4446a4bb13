package executor

import (
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
)

// A state of a device lies in memory of that device, which the caller lends: runs update it there, and nothing is
// copied. For a state that the caller lends in the host's memory, the call has memory on the device of its own: the
// state is copied there before the first step, and back after the last.

// carriedState is the call's own memory for a state, and the caller's memory.
type carriedState struct {
	memory device.Memory
	host   []byte // nil if the next run has no use for the memory
}

// placeStates records the states of the device, and the tensors that lie in each.
func (r *remote) placeStates(p *program.Program) {
	inputs := map[int]int{}
	for i, port := range p.Inputs {
		if port.Device != "" {
			inputs[port.Tensor] = i
		}
	}
	for t := range p.Tensors {
		if i, is := inputs[p.Root(t)]; is {
			r.tensors[t], r.states[i] = true, append(r.states[i], t)
		}
	}
}

// OnDeviceOf returns the device in whose memory input i lies, a state; nil if it lies in the host's.
func (x *Executable) OnDeviceOf(i int) device.Device {
	if x.program.Inputs[i].Device == "" || x.remote == nil {
		return nil
	}
	return x.remote.device
}

// StateBytes returns the size of input i in the call's dimensions.
func (c *Call) StateBytes(i int) int64 { return c.operands[c.x.program.Inputs[i].Tensor].Bytes }

// InputOnDevice lends the call a state of its device. The memory that the call had for the state is freed.
func (c *Call) InputOnDevice(i int, m device.Memory) error {
	port := c.x.program.Inputs[i]
	if need := c.StateBytes(i); need != m.Bytes() {
		return diag.Inputf("%d bytes given, %d expected", m.Bytes(), need).AtTensor(port.Name)
	}
	if s := c.remote.carried[i]; s != nil {
		delete(c.remote.carried, i)
		if err := s.memory.Close(); err != nil {
			return err
		}
	}
	return c.placeState(i, m)
}

// Send queues a copy of data to the device's memory, before the next run.
func (c *Call) Send(to device.Memory, data []byte) error {
	return inPieces(data, noStop, func(piece []byte, at int64) error { return c.queue.Upload(to, at, piece) })
}

// noStop is the check of copies that no context ends.
func noStop() error { return nil }

// carry lends the call a state of its device that lies in the host's memory.
func (c *Call) carry(i int, base unsafe.Pointer) (err error) {
	bytes := c.StateBytes(i)
	if bytes == 0 {
		return nil
	}
	s := c.remote.carried[i]
	if s == nil {
		m, err := c.remote.device.Allocate(c.x.program.Inputs[i].Name, bytes)
		if err != nil {
			return err
		}
		s = &carriedState{memory: m}
		c.remote.carried[i] = s
	}
	s.host = unsafe.Slice((*byte)(base), bytes)
	return c.placeState(i, s.memory)
}

// placeState makes a state's tensors lie in memory of the device.
func (c *Call) placeState(i int, m device.Memory) error {
	tensors := c.remote.states[i]
	c.remote.lent[tensors[0]] = m
	for _, t := range tensors {
		if !c.x.layout.tensors[t].dynamic {
			if err := c.placeTensor(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// unlendStates forgets the memory of states, which the next run is to be lent again.
func (c *Call) unlendStates() {
	if c.remote == nil {
		return
	}
	for _, s := range c.remote.carried {
		s.host = nil
	}
	for _, tensors := range c.remote.states {
		c.remote.lent[tensors[0]] = nil
	}
}

// sendStates copies the states that lie in the host's memory to the device.
func (c *Call) sendStates() error {
	if c.remote == nil {
		return nil
	}
	for i := range c.x.program.Inputs {
		if s := c.remote.carried[i]; s != nil && s.host != nil {
			c.ahead++
			if err := c.Send(s.memory, s.host); err != nil {
				return err
			}
		}
	}
	return nil
}

// returnStates copies the states that the run has begun to write back to the host's memory. It does not replace the
// error of a failed run.
func (c *Call) returnStates(failed *error) {
	if c.remote == nil {
		return
	}
	for i := range c.x.program.Inputs {
		s := c.remote.carried[i]
		if s == nil || s.host == nil || !c.Begun(i) {
			continue
		}
		c.ahead++
		err := inPieces(s.host, noStop, func(piece []byte, at int64) error {
			return c.queue.Download(piece, s.memory, at)
		})
		if err != nil && *failed == nil {
			*failed = err
		}
	}
}
