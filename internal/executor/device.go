package executor

import (
	"context"
	"errors"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/target"
)

// A device with memory of its own runs a program's streams, and holds the storages and weights that the program has there. What is in its memory has an address that means
// nothing to the host: only the device's queue is given it.

// remote is an executable's part on a device.
type remote struct {
	device  device.Device
	kernels map[int]device.Kernel // by the program's number
	weights device.Memory         // nil where there are none
	at      map[int]int64         // where in it a tensor's weight begins
	tensors []bool                // which tensors lie in the device's memory
}

// spot is where a tensor lies in a device's memory.
type spot struct {
	memory device.Memory
	at     int64
}

// remoteCall is a call's part on a device.
type remoteCall struct {
	*remote
	queue     device.Queue
	storages  map[int]device.Memory
	scratch   device.Memory
	spots     []spot // by tensor
	addresses []uint64
}

// isRemote reports whether a tensor lies in a device's memory.
func (x *Executable) isRemote(t int) bool { return x.remote != nil && x.remote.tensors[t] }

// openDevice makes the executable's part on the device, if the program has one.
func (x *Executable) openDevice(d device.Device) (err error) {
	p := x.program
	if len(p.Streams) == 0 {
		return nil
	}
	if d == nil || len(p.Streams) > 1 {
		return diag.Internalf("a program for %d streams, and a device %v", len(p.Streams), d)
	}
	r := &remote{device: d, kernels: map[int]device.Kernel{}, at: map[int]int64{}, tensors: make([]bool, len(p.Tensors))}
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
		root := i
		for p.Tensors[root].Place == program.Part {
			root = p.Tensors[root].Of
		}
		_, weight := r.at[root]
		t := &p.Tensors[root]
		r.tensors[i] = weight || t.Place == program.Carved && p.Storages[t.Of].Device != ""
	}
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

// pieceBytes is how many bytes of weights are copied at once: pages of the model's file that were copied may go.
const pieceBytes = 16 << 20

// upload copies the weights.
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
			if err := q.Upload(r.weights, r.at[w.Tensor]+int64(done), piece); err != nil {
				return err
			}
		}
	}
	return q.Wait(context.Background())
}

// close gives back what the executable has on the device.
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

// DeviceWeights is the bytes that the executable's weights take of a device's memory.
func (x *Executable) DeviceWeights() int64 {
	if x.remote == nil || x.remote.weights == nil {
		return 0
	}
	return x.remote.weights.Bytes()
}

// bindDevice takes the call's memory on the device, but for late storage.
func (c *Call) bindDevice() (err error) {
	r := c.x.remote
	if r == nil {
		return nil
	}
	c.remote = &remoteCall{remote: r, storages: map[int]device.Memory{}, spots: make([]spot, len(c.x.program.Tensors))}
	if c.remote.queue, err = r.device.NewQueue(); err != nil {
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
		if c.remote.storages[i], err = r.device.Allocate(s.Name, size); err != nil {
			return err
		}
	}
	most, err := c.x.DeviceScratch(c.values)
	if err != nil {
		return err
	}
	c.remote.scratch, err = r.device.Allocate("scratch", most)
	return err
}

// DeviceScratch is what a launch on the device needs at most, for the given values of the dimensions, but for launches whose dimensions have no limit.
func (x *Executable) DeviceScratch(values []int64) (int64, error) {
	return x.scratchOf(values, func(s *program.Launch) bool { return s.Stream > 0 && !x.layout.unknown[s] })
}

// DeviceBytes is what the call takes of a device's memory.
func (c *Call) DeviceBytes() (storages, scratch int64) {
	if c.remote == nil {
		return 0, 0
	}
	for _, m := range c.remote.storages {
		storages += m.Bytes()
	}
	if c.remote.scratch != nil {
		scratch = c.remote.scratch.Bytes()
	}
	return storages, scratch
}

// closeDevice gives back what the call has on the device.
func (c *Call) closeDevice() (err error) {
	r := c.remote
	if r == nil {
		return nil
	}
	c.remote = nil
	if r.queue != nil {
		err = r.queue.Close()
	}
	for _, m := range r.storages {
		err = errors.Join(err, m.Close())
	}
	if r.scratch != nil {
		err = errors.Join(err, r.scratch.Close())
	}
	return err
}

// placeRemote finds where a tensor of so many bytes lies in the device's memory.
func (c *Call) placeRemote(i int, bytes int64) error {
	t, r := &c.x.program.Tensors[i], c.remote
	offset := int64(0)
	if t.Place != program.Constant {
		var err error
		if offset, err = c.x.layout.tensors[i].offset.Eval(c.values); err != nil {
			return err
		}
	}
	var s spot
	limit := int64(0)
	switch t.Place {
	case program.Constant:
		s = spot{r.weights, r.at[i]}
		limit = s.at + c.operands[i].Bytes
	case program.Carved:
		s = spot{r.storages[t.Of], offset}
		if s.memory == nil {
			return diag.Internalf("%s lies in %s, which is not taken", t.Name, c.x.program.Storages[t.Of].Name)
		}
		limit = s.memory.Bytes()
	case program.Part:
		of := r.spots[t.Of]
		s = spot{of.memory, of.at + offset}
		limit = of.at + c.operands[t.Of].Bytes
	}
	if bytes > 0 && (s.memory == nil || s.at < 0 || offset < 0 || bytes > limit-s.at) {
		panic(diag.Internalf("%s at %d with %d bytes leaves the device's memory of %d given for it", t.Name, s.at, bytes, limit))
	}
	if s.memory == nil {
		return nil
	}
	r.spots[i] = s
	return nil
}

// address is where a tensor lies, for kernels.
func (r *remoteCall) address(t int) uint64 {
	s := r.spots[t]
	if s.memory == nil {
		return 0
	}
	return s.memory.Address() + uint64(s.at)
}

// launchRemote gives a launch to the device.
func (c *Call) launchRemote(s *program.Launch) error {
	b, r := c.args[s], c.remote
	kernel := r.kernels[s.Kernel]
	if kernel == nil {
		return diag.Internalf("kernel %s is launched on a device, and is none of its", c.x.program.Kernels[s.Kernel])
	}
	r.addresses = r.addresses[:0]
	for i, t := range s.Args {
		if !r.tensors[t] {
			return diag.Internalf("kernel %s is given %s, which lies in the host's memory", c.x.program.Kernels[s.Kernel], c.x.program.Tensors[t].Name)
		}
		if err := c.locateRemote(t); err != nil {
			return err
		}
		b.Args.Operands[i].Bytes = c.operands[t].Bytes
		r.addresses = append(r.addresses, r.address(t))
	}
	for i, d := range s.Dims {
		if v := c.values[d]; b.Args.Dims[i] != v {
			b.Args.Dims[i], b.ready = v, false
		}
	}
	if !b.ready {
		if err := c.prepareRemote(s, b); err != nil {
			return err
		}
	}
	if b.Tiles == 0 || idle(s, b) {
		return nil
	}
	if err := c.suffices(s, b); err != nil {
		return err
	}
	return at(r.queue.Launch(kernel, r.addresses, b.Args.Dims, r.scratch.Address()), s.Source)
}

// prepareRemote finds out about a launch what depends on its dimensions alone.
func (c *Call) prepareRemote(s *program.Launch, b *bound) (err error) {
	if err := c.relies(s.Dims); err != nil {
		return err
	}
	if b.Tiles, err = b.Kernel.Tiles(b.Args.Dims); err != nil {
		return at(err, s.Source)
	}
	if err := b.Kernel.Needs(b.Args.Dims, b.needs); err != nil {
		return at(err, s.Source)
	}
	if c.x.layout.asks[s] && b.Tiles > 0 {
		need, err := b.Kernel.Scratch(b.Args.Dims)
		if err != nil {
			return at(err, s.Source)
		}
		if err := c.growRemote(&c.remote.scratch, "scratch", need); err != nil {
			return at(err, s.Source)
		}
	}
	b.ready = true
	return nil
}

// growRemote makes a block of the device's memory as large as asked for, when the device uses it no more.
func (c *Call) growRemote(m *device.Memory, label string, bytes int64) error {
	had := int64(0)
	if *m != nil {
		if had = (*m).Bytes(); had >= bytes {
			return nil
		}
		if err := c.remote.queue.Wait(c.ctx); err != nil {
			return err
		}
		err := (*m).Close()
		if *m = nil; err != nil {
			return err
		}
	}
	more, err := c.remote.device.Allocate(label, bytes)
	if err != nil {
		return err
	}
	*m = more
	return nil
}

// locateRemote places a tensor whose place data decide.
func (c *Call) locateRemote(t int) error {
	if !c.x.layout.tensors[t].dynamic {
		return nil
	}
	if at := c.x.program.Tensors[t]; at.Place == program.Part {
		if err := c.locateRemote(at.Of); err != nil {
			return err
		}
	}
	return c.place(t)
}

// takeRemote makes late storage on the device as large as asked for.
func (c *Call) takeRemote(storage int, size int64) error {
	m := c.remote.storages[storage]
	err := c.growRemote(&m, c.x.program.Storages[storage].Name, size)
	if m == nil {
		delete(c.remote.storages, storage)
	} else {
		c.remote.storages[storage] = m
	}
	if err != nil {
		return c.tooLarge(storage, err)
	}
	return nil
}

// copyRemote copies a whole tensor to the device, from it, or on it.
func (c *Call) copyRemote(s *program.Copy) error {
	r := c.remote
	for _, t := range []int{s.From, s.To} {
		if !r.tensors[t] {
			continue
		}
		if err := c.locateRemote(t); err != nil {
			return err
		}
	}
	bytes := c.operands[s.To].Bytes
	switch to, from := r.spots[s.To], r.spots[s.From]; {
	case r.tensors[s.To] && r.tensors[s.From]:
		if other := c.operands[s.From].Bytes; other != bytes {
			return diag.Internalf("%d bytes are copied to %d", other, bytes)
		}
		if bytes == 0 || to == from {
			return nil
		}
		return r.queue.Copy(to.memory, to.at, from.memory, from.at, bytes)
	case r.tensors[s.To]:
		o, err := c.operand(s.From)
		if err != nil || o.Bytes == 0 {
			return err
		}
		if o.Bytes != bytes {
			return diag.Internalf("%d bytes are copied to %d", o.Bytes, bytes)
		}
		c.watch.touch(c, s.From)
		return r.queue.Upload(to.memory, to.at, bytesOf(o))
	default:
		o, err := c.operand(s.To)
		if err != nil || o.Bytes == 0 {
			return err
		}
		if from := c.operands[s.From].Bytes; from != o.Bytes {
			return diag.Internalf("%d bytes are copied to %d", from, o.Bytes)
		}
		c.watch.touch(c, s.To)
		return r.queue.Download(bytesOf(o), from.memory, from.at)
	}
}

// settleDevice waits until the device has done all that a run gave it: nobody else may use the call's memory before. A run that has failed keeps its error.
func (c *Call) settleDevice(failed error) error {
	if c.remote == nil {
		return failed
	}
	ctx := c.ctx
	if failed != nil {
		ctx = context.Background()
	}
	err := c.remote.queue.Wait(ctx)
	if failed != nil {
		return failed
	}
	return err
}
