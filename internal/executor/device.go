package executor

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// A device with memory of its own runs a program's streams, and holds the storages and weights that the program has
// there. Addresses in its memory mean nothing to the host: only the device's queue uses them. All of a call's streams
// on the device go through one queue, in the order of the program's steps.

// remote is an executable's state on a device.
type remote struct {
	device  device.Device
	kernels map[int]device.Kernel // by the index in Program.Kernels
	weights device.Memory         // nil if there are none
	at      map[int]int64         // by tensor: the offset of its weight in weights
	tensors []bool                // by tensor: it lies in the device's memory
	states  map[int][]int         // by input, a state of the device: the tensors that lie in it, its own first
}

// Held is the memory of a device in use, in bytes, as requested from its driver.
type Held struct {
	Weights int64 // of the executable
	Arena   int64 // the storages of a call
	States  int64 // the call's own memory for states: see Call.Input
	Scratch int64 // of its launches
	Queues  int64 // of its queue: arguments, and data on the way between the memories
}

// All returns the sum.
func (h Held) All() int64 { return h.Weights + h.Arena + h.States + h.Scratch + h.Queues }

// isRemote reports whether a tensor lies in a device's memory.
func (x *Executable) isRemote(t int) bool { return x.remote != nil && x.remote.tensors[t] }

// onDevice reports whether a device runs a stream.
func (x *Executable) onDevice(stream int) bool {
	return stream > 0 && x.program.Streams[stream-1].Device != ""
}

// devices returns the names of the devices that a program uses.
func devices(p *program.Program) (names []string) {
	add := func(name string) {
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, s := range p.Streams {
		add(s.Device)
	}
	for _, s := range p.Storages {
		add(s.Device)
	}
	for _, w := range p.Weights {
		add(w.Device)
	}
	for _, in := range p.Inputs {
		add(in.Device)
	}
	return names
}

// openDevice loads the kernels and weights on the device, if the program uses one.
func (x *Executable) openDevice(d device.Device) (err error) {
	p := x.program
	switch names := devices(p); {
	case len(names) == 0:
		return nil
	case len(names) > 1:
		return diag.Unsupportedf("a program for %d devices: %s", len(names), strings.Join(names, ", "))
	case d == nil:
		return diag.Internalf("a program for device %q without that device", names[0])
	}
	r := &remote{device: d, kernels: map[int]device.Kernel{}, at: map[int]int64{}, tensors: make([]bool,
		len(p.Tensors)), states: map[int][]int{}}
	x.remote = r
	var total int64
	for _, w := range p.Weights {
		if w.Device == "" {
			continue
		}
		total = (total + weightAlign - 1) &^ (weightAlign - 1)
		r.at[w.Tensor] = total
		total += int64(len(w.Data))
	}
	for i := range p.Tensors {
		root := p.Root(i)
		_, weight := r.at[root]
		t := &p.Tensors[root]
		r.tensors[i] = weight || t.Class == program.Carved && p.Storages[t.Of].Device != ""
	}
	r.placeStates(p)
	for i, k := range x.code.Kernels {
		if b, ok := k.(target.Blocks); ok {
			if r.kernels[i], err = d.Load(b); err != nil {
				return err
			}
		}
	}
	if total == 0 {
		return nil
	}
	if r.weights, err = d.Allocate("weights", total); err != nil {
		return err
	}
	return r.upload(p)
}

// pieceBytes is the number of bytes of weights copied at once; copied pages of the model's file are then unmapped.
const pieceBytes = 16 << 20

// upload copies the weights to the device.
func (r *remote) upload(p *program.Program) (err error) {
	q, err := r.device.NewQueue()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.Close()) }()
	for _, w := range p.Weights {
		if w.Device == "" {
			continue
		}
		for done := 0; done < len(w.Data); done += pieceBytes {
			piece := w.Data[done:min(done+pieceBytes, len(w.Data))]
			if err := mem.CatchFaults(func() error {
				return q.Upload(r.weights, r.at[w.Tensor]+int64(done),
					piece)
			}); err != nil {
				return err
			}
			mem.Forget(piece)
		}
	}
	return q.Wait(context.Background())
}

// close frees the executable's memory and kernels on the device.
func (r *remote) close() (err error) {
	if r == nil {
		return nil
	}
	for _, k := range r.kernels {
		if k != nil {
			err = errors.Join(err, k.Close())
		}
	}
	if r.weights != nil {
		err = errors.Join(err, r.weights.Close())
	}
	r.kernels, r.weights = nil, nil
	return err
}

// OnDevice returns the device memory that the executable holds, without its calls.
func (x *Executable) OnDevice() (h Held) {
	if x.remote != nil && x.remote.weights != nil {
		h.Weights = x.remote.weights.Bytes()
	}
	return h
}

// region is a storage's memory on a device.
type region struct {
	memory device.Memory // nil if it has no bytes
	bytes  int64
	there  bool // it is taken
}

// spot is a tensor's location in a device's memory.
type spot struct {
	memory  device.Memory
	at      int64
	storage int // −1 for a weight or a state
}

// remoteCall is a call's memory on a device.
type remoteCall struct {
	*remote
	storages []region
	spots    []spot                // by tensor
	lent     []device.Memory       // by tensor: the memory of a state for the next run
	carried  map[int]*carriedState // by input
}

// remoteRun is a call's queue on a device, and the scratch of its launches there.
type remoteRun struct {
	queue     device.Queue
	onScratch device.Memory // of launches; nil if none needs scratch, or an allocation was refused
	lacks     bool          // scratch was refused, or never requested
	ahead     int64         // the number of operations given to the queue
	done      int64         // the number of operations known to have ended
	addresses []uint64
}

// bindDevice opens the call's queue and allocates its storages on the device, except late storage.
func (c *Call) bindDevice() (err error) {
	if c.x.remote == nil {
		return nil
	}
	c.remote = &remoteCall{remote: c.x.remote, storages: make([]region, len(c.x.program.Storages)),
		spots: make([]spot, len(c.x.program.Tensors)), lent: make([]device.Memory, len(c.x.program.Tensors)),
		carried: map[int]*carriedState{}}
	if c.queue, err = c.remote.device.NewQueue(); err != nil {
		return err
	}
	for i := range c.x.program.Storages {
		s := &c.x.program.Storages[i]
		if s.Device == "" || s.Late {
			continue
		}
		size, err := c.x.layout.sizes[i].Eval(c.values)
		if err != nil {
			return err
		}
		if err := c.takeRegion(i, size); err != nil {
			return err
		}
	}
	return nil
}

// takeRegion allocates a storage's memory on the device.
func (c *Call) takeRegion(storage int, size int64) (err error) {
	r := region{bytes: size, there: true}
	if size > 0 {
		if r.memory, err = c.remote.device.Allocate(c.x.program.Storages[storage].Name, size); err != nil {
			return err
		}
	}
	c.remote.storages[storage] = r
	return nil
}

// takeDeviceScratch allocates the scratch of launches on the device, as far as their dimensions have values or limits;
// it keeps the present scratch if that is enough.
func (c *Call) takeDeviceScratch() error {
	if c.remote == nil {
		return nil
	}
	most, err := c.x.DeviceScratch(c.values)
	if err != nil {
		return err
	}
	return c.growDeviceScratch(most)
}

// DeviceScratch returns the most scratch bytes that a launch on the device needs for the given dimensions; it leaves
// out launches whose dimensions have no limit.
func (x *Executable) DeviceScratch(values []int64) (int64, error) {
	return x.scratchOf(values, true, nil)
}

// growDeviceScratch enlarges the scratch on the device to at least so many bytes, after the device has finished using
// it.
func (c *Call) growDeviceScratch(bytes int64) error {
	if c.onScratch != nil && c.onScratch.Bytes() >= bytes || bytes == 0 {
		c.lacks = false
		return nil
	}
	c.lacks = true
	if c.onScratch != nil {
		if err := c.awaitDevice(); err != nil {
			return err
		}
		err := c.onScratch.Close()
		if c.onScratch = nil; err != nil {
			return err
		}
	}
	m, err := c.remote.device.Allocate("scratch", bytes)
	if err != nil {
		return err
	}
	c.onScratch, c.lacks = m, false
	return nil
}

// OnDevice returns the device memory that the call holds.
func (c *Call) OnDevice() (h Held) {
	if c.remote == nil {
		return h
	}
	for i := range c.remote.storages {
		if m := c.remote.storages[i].memory; m != nil {
			h.Arena += m.Bytes()
		}
	}
	for _, s := range c.remote.carried {
		h.States += s.memory.Bytes()
	}
	if c.onScratch != nil {
		h.Scratch = c.onScratch.Bytes()
	}
	if c.queue != nil {
		h.Queues = c.queue.Bytes()
	}
	return h
}

// closeDevice frees the call's memory and queue on the device.
func (c *Call) closeDevice() (err error) {
	r := c.remote
	if r == nil {
		return nil
	}
	c.remote = nil
	if c.queue != nil {
		err = c.queue.Close()
		c.queue = nil
	}
	for i := range r.storages {
		if m := r.storages[i].memory; m != nil {
			err = errors.Join(err, m.Close())
		}
	}
	for _, s := range r.carried {
		err = errors.Join(err, s.memory.Close())
	}
	if c.onScratch != nil {
		err = errors.Join(err, c.onScratch.Close())
		c.onScratch = nil
	}
	return err
}

// takeRemote enlarges late storage on the device to at least size bytes; its contents are lost if it grows.
func (c *Call) takeRemote(storage int, size int64) error {
	r := &c.remote.storages[storage]
	if r.there && r.bytes >= size {
		return nil
	}
	if r.memory != nil {
		if err := c.awaitDevice(); err != nil {
			return err
		}
		err := r.memory.Close()
		if *r = (region{}); err != nil {
			return err
		}
	}
	err := c.takeRegion(storage, size)
	if errors.Is(err, diag.ErrMemory) {
		return c.tooLarge(storage, err)
	}
	return err
}

// awaitDevice waits until the device has done all work of the run so far.
func (c *Call) awaitDevice() error {
	if c.done == c.ahead {
		return nil
	}
	c.done = c.ahead
	return c.queue.Wait(c.ctx)
}

// settleDevice waits at the end of a run, even one that panics, until the device has finished with the call's memory.
// It does not replace the error of a failed run.
func (c *Call) settleDevice(failed *error) {
	if c.queue == nil || c.done == c.ahead {
		return
	}
	c.done = c.ahead
	if err := c.queue.Wait(c.ctx); *failed == nil {
		*failed = err
	}
}
