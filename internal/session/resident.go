package session

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/executor"
	"github.com/weirml/weir/internal/tensor"
)

// The elements of a state stay in the memory of the device on which runs update it: the first run copies them there,
// and the first reader after a run copies them back. Both must know who reads and writes the tensor's memory on the
// host. A tensor of NewTensor is reached through Enter alone until someone asks for a slice that outlives Leave, by
// View or Bytes: from then on runs copy the elements to the device and back. Tensors in memory of others are always
// copied.

// resident is the memory of a tensor's elements on a device. A nil resident is of a tensor whose elements never stay
// there.
type resident struct {
	mu     sync.Mutex    // held by the run that updates the tensor
	device device.Device // nil if there is no memory; used through device.Use
	memory device.Memory
	here   stale // the host's memory
	there  stale // the device's memory
	viewed bool  // someone has a slice of the host's memory
}

// stale reports that a memory has older elements than the other.
type stale bool

// use is what a tensor is entered for.
type use uint8

const (
	reading use = iota
	writing
	viewing // reading and writing after Leave
)

// fetch copies the elements to the host's memory, if the device has newer ones.
func (r *resident) fetch(inner *tensor.Tensor, use use) (err error) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.here {
		if err := r.download(inner.Bytes()); err != nil {
			return err
		}
		r.here = false
	}
	r.there = r.there || use != reading
	if use == viewing {
		r.viewed = true
		return r.free()
	}
	return nil
}

// download copies the elements from the device's memory.
func (r *resident) download(to []byte) (err error) {
	q, err := r.device.NewQueue()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	if err := q.Download(to, r.memory, 0); err != nil {
		return err
	}
	return q.Wait(context.Background())
}

// free frees the device's memory, whose elements the host has.
func (r *resident) free() (err error) {
	if r.device == nil {
		return nil
	}
	if r.memory != nil {
		err = r.memory.Close()
	}
	err = errors.Join(err, device.Leave(r.device))
	r.device, r.memory, r.here, r.there = nil, nil, false, false
	return err
}

// drop frees the device's memory and its elements.
func (r *resident) drop() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.free()
}

// lend lends a call its input i in the device's memory, and holds r until returned; data is the host's memory for the
// same elements. ok is false if the elements do not stay on the device: data are then current, and r is not held.
func (r *resident) lend(c *executor.Call, d device.Device, i int, data []byte) (ok bool, err error) {
	if r == nil || len(data) == 0 {
		return false, nil
	}
	r.mu.Lock()
	defer func() {
		if !ok {
			r.mu.Unlock()
		}
	}()
	if r.viewed {
		return false, nil
	}
	if r.device != nil && r.device != d {
		if r.here {
			if err := r.download(data); err != nil {
				return false, err
			}
		}
		if err := r.free(); err != nil {
			return false, err
		}
	}
	if r.device == nil && device.Use(d) {
		r.device = d
	}
	if r.device == nil {
		return false, nil
	}
	if r.memory == nil {
		if r.memory, err = d.Allocate("state", int64(len(data))); err != nil {
			return false, errors.Join(err, r.free())
		}
		r.there = true
	}
	if err := c.InputOnDevice(i, r.memory); err != nil {
		return false, err
	}
	if r.there {
		if err := c.Send(r.memory, data); err != nil {
			return false, err
		}
		r.there = false
	}
	return true, nil
}

// returned ends the use by a run, which has begun to write the elements or has not.
func (r *resident) returned(begun bool) {
	r.here = r.here || stale(begun)
	r.mu.Unlock()
}

// lent is a state that lies in a device's memory during a run, and its input port.
type lent struct {
	*resident
	port int
}

// lendState lends a call the state of input port i, in the memory of the port's device if the elements stay there, and
// adds it to list. ok is false if the host's memory is to be lent.
func (s *Session) lendState(c *executor.Call, i int, t *Tensor, data []byte, list []lent) (_ []lent, ok bool,
	err error) {
	d := s.deviceOf(i)
	if d == nil {
		return list, false, nil
	}
	if ok, err = t.stays.lend(c, d, i, data); ok {
		list = append(list, lent{t.stays, i})
	}
	return list, ok, err
}

// deviceOf returns the device in whose memory input port i lies; nil if it lies in the host's. The session is entered.
func (s *Session) deviceOf(i int) device.Device {
	if s.becomes[i] < 0 || s.prog.Inputs[i].Device == "" {
		return nil
	}
	x, ok := s.engine.Enter()
	if !ok {
		return nil
	}
	defer s.engine.Leave()
	return x.OnDeviceOf(i)
}

// returnAll ends a run's use of states.
func returnAll(list []lent, c *executor.Call) {
	for _, l := range slices.Backward(list) {
		l.returned(c.Begun(l.port))
	}
}
