package executor

import (
	"slices"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/program"
	"github.com/weirml/weir/internal/tensor"
)

// placeRemote computes a tensor's location in the device's memory; it panics if bytes exceed its storage.
func (c *Call) placeRemote(i int, bytes int64) error {
	t, r := &c.x.program.Tensors[i], c.remote
	offset := int64(0)
	if t.Class == program.Carved || t.Class == program.View {
		var err error
		if offset, err = c.x.layout.tensors[i].offset.Eval(c.values); err != nil {
			return err
		}
	}
	var s spot
	room := int64(0) // bytes from offset 0 on
	switch t.Class {
	case program.Argument:
		s, room = spot{r.lent[i], 0, -1}, bytes
	case program.Constant:
		s, room = spot{r.weights, r.at[i], -1}, c.x.weights[i].Bytes
	case program.Carved:
		in := r.storages[t.Of]
		if !in.there {
			return diag.Internalf("%s lies in %s, which is not taken", t.Name, c.x.program.Storages[t.Of].Name)
		}
		s, room = spot{in.memory, offset, t.Of}, in.bytes
	case program.View:
		of := r.spots[t.Of]
		s, room = spot{of.memory, of.at + offset, of.storage}, c.operands[t.Of].Bytes
	}
	if root := c.x.program.Root(i); bytes == 0 || // an empty tensor may have any offset
		c.x.program.Tensors[root].Class == program.Argument && r.lent[root] == nil { // no state is lent yet
		r.spots[i] = spot{storage: -1}
		return nil
	}
	if s.memory == nil || offset < 0 || bytes > room-offset || s.at < 0 || bytes > s.memory.Bytes()-s.at {
		panic(diag.Internalf("%s at %d with %d bytes leaves the device's memory of %d given for it", t.Name, offset,
			bytes, room))
	}
	r.spots[i] = s
	return nil
}

// address returns a tensor's device address for kernels; 0 if it has no bytes.
func (r *remoteCall) address(t int) uint64 {
	s := r.spots[t]
	if s.memory == nil {
		return 0
	}
	return s.memory.Address() + uint64(s.at)
}

// locateRemote computes the location of a tensor whose offset or shape depends on data.
func (c *Call) locateRemote(t int) error {
	if !c.x.layout.tensors[t].dynamic {
		return nil
	}
	if at := c.x.program.Tensors[t]; at.Class == program.View {
		if err := c.locateRemote(at.Of); err != nil {
			return err
		}
	}
	return c.placeTensor(t)
}

// launchRemote queues a launch on the device.
func (c *Call) launchRemote(s *program.Launch) error {
	b, r := c.boundTo(s), c.remote
	kernel := r.kernels[s.Kernel]
	if kernel == nil {
		return diag.Internalf("kernel %s is launched on a device that does not have it", c.x.program.Kernels[s.Kernel])
	}
	c.addresses = c.addresses[:0]
	for i, t := range s.Args {
		if !r.tensors[t] {
			return diag.Internalf("kernel %s is given %s, which lies in the host's memory",
				c.x.program.Kernels[s.Kernel], c.x.program.Tensors[t].Name)
		}
		if err := c.locateRemote(t); err != nil {
			return err
		}
		b.Args.Operands[i].Bytes = c.operands[t].Bytes
		c.addresses = append(c.addresses, r.address(t))
		c.watch.touchRemote(c, t)
	}
	for i, d := range s.Dims {
		if v := c.values[d]; b.Args.Dims[i] != v {
			b.Args.Dims[i], b.ready = v, false
		}
	}
	if !b.ready {
		if err := c.relies(s.Dims); err != nil {
			return at(err, s.Source)
		}
		if err := c.prepareRemote(s, b); err != nil && !idle(s, b) {
			return at(err, s.Source)
		}
	}
	if b.Tiles == 0 || idle(s, b) {
		return nil
	}
	if err := c.suffices(s, b); err != nil {
		return err
	}
	scratch := uint64(0)
	if c.onScratch != nil {
		scratch = c.onScratch.Address()
	}
	c.ahead++
	return at(c.queue.Launch(kernel, c.addresses, b.Args.Dims, scratch), s.Source)
}

// prepareRemote computes the tiles, operand sizes and scratch of a launch, which depend on its dimensions only.
func (c *Call) prepareRemote(s *program.Launch, b *bound) (err error) {
	if b.Tiles, err = b.Kernel.Tiles(b.Args.Dims); err != nil {
		return err
	}
	if err := b.Kernel.Needs(b.Args.Dims, b.needs); err != nil {
		return err
	}
	if c.x.layout.asks[s] && b.Tiles > 0 {
		need, err := b.Kernel.Scratch(b.Args.Dims)
		if err != nil {
			return err
		}
		if err := c.growDeviceScratch(need); err != nil {
			return err
		}
	}
	b.ready = true
	return nil
}

// copyRemote copies all of a tensor to the device, from it, or within it.
func (c *Call) copyRemote(s *program.Copy) error {
	r := c.remote
	if !c.x.onDevice(s.Stream) {
		return diag.Internalf("%s is copied to %s by the host", c.x.program.Tensors[s.From].Name,
			c.x.program.Tensors[s.To].Name)
	}
	for _, t := range []int{s.From, s.To} {
		if r.tensors[t] {
			if err := c.locateRemote(t); err != nil {
				return err
			}
			c.watch.touchRemote(c, t)
		} else if _, err := c.operand(t); err != nil {
			return err
		} else if c.away(t) {
			return diag.Internalf("a device copies %s, which lies in a file", c.x.program.Tensors[t].Name)
		}
		if err := c.contiguous(t); err != nil {
			return err
		}
	}
	bytes := c.operands[s.To].Bytes
	if other := c.operands[s.From].Bytes; other != bytes {
		return diag.Internalf("%d bytes of %s are copied to %d of %s", other, c.x.program.Tensors[s.From].Name, bytes,
			c.x.program.Tensors[s.To].Name)
	}
	to, from := r.spots[s.To], r.spots[s.From]
	if bytes == 0 || r.tensors[s.To] && r.tensors[s.From] && to == from { // both have the same location in the plan
		return nil
	}
	c.ahead++
	switch {
	case r.tensors[s.To] && r.tensors[s.From]:
		return c.queue.Copy(to.memory, to.at, from.memory, from.at, bytes)
	case r.tensors[s.To]:
		c.watch.touch(c, s.From)
		return inPieces(bytesOf(c.operands[s.From]), c.ctx.Err, func(piece []byte, at int64) error {
			return c.queue.Upload(to.memory, to.at+at, piece)
		})
	}
	c.watch.touch(c, s.To)
	return inPieces(bytesOf(c.operands[s.To]), c.ctx.Err, func(piece []byte, at int64) error {
		return c.queue.Download(piece, from.memory, from.at+at)
	})
}

// contiguous returns an error if a tensor is not contiguous in row-major order.
func (c *Call) contiguous(t int) error {
	if c.x.program.Tensors[t].Strides == nil {
		return nil
	}
	strides, err := c.strides(t)
	if err == nil && !slices.Equal(strides, tensor.Strides(c.shapes[t])) {
		err = diag.Internalf("a device copies %s, which has strides %d", c.x.program.Tensors[t].Name, strides)
	}
	return err
}

// record makes an event the point that a stream has reached.
func (c *Call) record(s *program.Record) error {
	c.events[s.Event] = 1 // the host's own work is already done
	if c.x.onDevice(s.Stream) {
		c.events[s.Event] += c.ahead
	}
	return nil
}

// wait holds a stream until the work before an event is done. The device has one queue, so its streams never wait for
// each other, and the host waits for all of it.
func (c *Call) wait(s *program.Wait) error {
	at := c.events[s.Event]
	if at == 0 {
		return diag.Internalf("event %s is waited for before it is recorded", c.x.program.Events[s.Event])
	}
	if c.x.onDevice(s.Stream) || at-1 <= c.done {
		return nil
	}
	return c.awaitDevice()
}
