package devicetest

import (
	"context"
	"slices"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// work is something that a queue was given.
type work struct {
	do    func() error
	users []*memory // that it names
}

// queue is work in order, which a goroutine of its own does.
type queue struct {
	device *Device
	memory *memory

	mu      sync.Mutex
	changed sync.Cond
	todo    []work // the first is being done
	begun   bool   // the goroutine may begin what there is
	closed  bool
	failed  error
}

// NewQueue makes a queue and its goroutine.
func (d *Device) NewQueue() (device.Queue, error) {
	m, err := d.allocate("queue", QueueBytes, true)
	if err != nil {
		return nil, err
	}
	q := &queue{device: d, memory: m}
	q.changed.L = &q.mu
	diag.Go("a device's work", q.serve, func(error) {})
	return q, nil
}

// serve does the work that there is until the queue is closed.
func (q *queue) serve() error {
	for {
		q.mu.Lock()
		for !q.closed && (len(q.todo) == 0 || !q.begun) {
			q.changed.Wait()
		}
		if len(q.todo) == 0 {
			q.mu.Unlock()
			return nil
		}
		w := q.todo[0]
		q.mu.Unlock()
		err := q.one(w)
		q.mu.Lock()
		if err != nil && q.failed == nil {
			q.failed = err
		}
		q.todo = q.todo[1:]
		q.changed.Broadcast()
		q.mu.Unlock()
	}
}

// one does one piece of work.
func (q *queue) one(w work) (err error) {
	d := q.device
	d.mu.Lock()
	delay, lost := d.o.Delay, d.lost
	d.mu.Unlock()
	if delay != nil {
		delay()
	}
	defer func() {
		d.mu.Lock()
		for _, m := range w.users {
			m.users--
		}
		d.mu.Unlock()
	}()
	if lost {
		return device.ErrLost
	}
	defer diag.Recover(&err, "running on a device")
	return w.do()
}

// begin counts an operation. Its error is that the device is lost, or what failed since the last wait. The device is
// locked.
func (q *queue) begin() error {
	if err := q.device.operation(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// give adds work that names blocks. The device is locked.
func (q *queue) give(do func() error, users ...*memory) {
	for _, m := range users {
		m.users++
	}
	q.mu.Lock()
	q.todo, q.begun = append(q.todo, work{do, users}), !q.device.o.Late
	q.changed.Broadcast()
	q.mu.Unlock()
}

// finish waits until all work is done.
func (q *queue) finish() {
	q.mu.Lock()
	q.begun = true
	q.changed.Broadcast()
	for len(q.todo) > 0 {
		q.changed.Wait()
	}
	q.mu.Unlock()
}

// Launch gives a kernel to the device.
func (q *queue) Launch(what device.Kernel, operands []uint64, dims []int64, scratch uint64) error {
	k, d := what.(*kernel), q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.begin(); err != nil {
		return err
	}
	if k.closed {
		return d.fault("@%s is launched after it was closed", k.code.Name())
	}
	args := &target.Args{Operands: make([]target.Operand, len(operands)), Dims: slices.Clone(dims)}
	needs := make([]int64, len(operands))
	if err := k.code.Needs(dims, needs); err != nil {
		return err
	}
	tiles, err := k.code.Tiles(dims)
	if err != nil {
		return err
	}
	need, err := k.code.Scratch(dims)
	if err != nil {
		return err
	}
	var users []*memory
	locate := func(at uint64, bytes int64) ([]byte, error) {
		if bytes == 0 {
			return nil, nil
		}
		m, data, err := d.find(at, bytes)
		if err == nil {
			users = append(users, m)
		}
		return data, err
	}
	for i, at := range operands {
		data, err := locate(at, needs[i])
		if err != nil {
			return err
		}
		args.Operands[i] = target.Operand{Base: unsafe.Pointer(unsafe.SliceData(data)), Bytes: needs[i]}
	}
	own, err := locate(scratch, need)
	if err != nil {
		return err
	}
	if scratch%64 != 0 {
		return d.fault("scratch at %#x", scratch)
	}
	q.give(func() error { return k.code.Run(args, 0, tiles, own) }, users...)
	return nil
}

// span is bytes of a block. The device is locked.
func (d *Device) span(what device.Memory, at, bytes int64) (*memory, []byte, error) {
	m := what.(*memory)
	if m.closed || at < 0 || bytes < 0 || bytes > int64(len(m.data))-at {
		return nil, nil, d.fault("%d bytes at %d of %s, which has %d (closed: %v)", bytes, at, m.label, len(m.data),
			m.closed)
	}
	return m, m.data[at : at+bytes], nil
}

// Upload copies bytes to the device, when it comes to it.
func (q *queue) Upload(what device.Memory, at int64, from []byte) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.begin(); err != nil {
		return err
	}
	m, to, err := d.span(what, at, int64(len(from)))
	if err != nil {
		return err
	}
	from, d.copied = slices.Clone(from), d.copied+int64(len(from))
	q.give(func() error { copy(to, from); return nil }, m)
	return nil
}

// Download copies bytes from the device when all before it is done.
func (q *queue) Download(to []byte, what device.Memory, at int64) error {
	d := q.device
	d.mu.Lock()
	err := q.begin()
	if err != nil {
		d.mu.Unlock()
		return err
	}
	m, from, err := d.span(what, at, int64(len(to)))
	if err != nil {
		d.mu.Unlock()
		return err
	}
	d.copied += int64(len(to))
	q.give(func() error { copy(to, from); return nil }, m)
	d.mu.Unlock()
	q.finish()
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.failed
}

// Copy copies bytes on the device.
func (q *queue) Copy(what device.Memory, at int64, source device.Memory, begin, bytes int64) error {
	d := q.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := q.begin(); err != nil {
		return err
	}
	a, to, err := d.span(what, at, bytes)
	if err != nil {
		return err
	}
	b, from, err := d.span(source, begin, bytes)
	if err != nil {
		return err
	}
	if a == b && max(at, begin) < min(at, begin)+bytes {
		return d.fault("%d bytes at %d and at %d of %s meet", bytes, at, begin, a.label)
	}
	q.give(func() error { copy(to, from); return nil }, a, b)
	return nil
}

// Wait waits for all work.
func (q *queue) Wait(ctx context.Context) error {
	q.finish()
	q.device.mu.Lock()
	lost := q.device.operation()
	q.device.mu.Unlock()
	q.mu.Lock()
	err := q.failed
	q.failed = nil
	q.mu.Unlock()
	switch {
	case err != nil:
		return err
	case lost != nil:
		return lost
	}
	return ctx.Err()
}

// Bytes is what the queue has of the device's memory.
func (q *queue) Bytes() int64 { return q.memory.Bytes() }

// Close waits, and ends the goroutine.
func (q *queue) Close() error {
	q.finish()
	q.mu.Lock()
	q.closed = true
	q.changed.Broadcast()
	q.mu.Unlock()
	return q.memory.Close()
}
