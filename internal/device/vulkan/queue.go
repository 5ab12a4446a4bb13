//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

const (
	reportBytes = 32
	pushedBytes = 16 // of a pushed
)

// pushed is the push constants of a dispatch: see target.Binary.
type pushed struct {
	argument uint64 // the address of the argument block
	step     uint32
	_        uint32
}

// queue runs commands on the device, in order.
type queue struct {
	device    *Device
	semaphore uint64
	value     uint64 // of the semaphore after all submitted batches have run
	batches   [batches]batch
	current   int // the batch that records now or next
	enough    int // the number of commands after which it is submitted
	arguments *memory
	staging   *memory // nil until it is needed
	grid      []int64 // of the present launch
	failed    error   // all methods return it until Wait has returned it

	// Memory for the arguments of recording calls, so that a launch allocates nothing.
	pins    pins
	barrier memoryBarrier
	pushed  pushed
	region  bufferCopy
	args    [10]uintptr
}

// NewQueue creates a queue.
func (d *Device) NewQueue() (device.Queue, error) {
	q, err := d.newQueue()
	if err != nil {
		return nil, err
	}
	return q, nil
}

// newQueue creates a queue with its batches and semaphore.
func (d *Device) newQueue() (q *queue, err error) {
	q = &queue{device: d, enough: fewCommands}
	defer func() {
		if err != nil {
			q.release()
			q = nil
		}
	}()
	for i := range q.batches {
		if err := q.batches[i].create(d); err != nil {
			return q, err
		}
	}
	var p pins
	defer p.Unpin()
	timeline := semaphoreTypeInfo{head: head{kind: kindSemaphoreType}, kindOf: timelineSemaphore}
	semaphore := semaphoreCreateInfo{head: head{kind: kindSemaphore, next: at(&p, &timeline)}}
	if err := d.call("vkCreateSemaphore", d.handle, at(&p, &semaphore), 0, at(&p, &q.semaphore)); err != nil {
		return q, err
	}
	q.arguments, err = d.allocate("arguments of launches", argumentBytes, true)
	return q, err
}

// keep returns an error, and makes all methods return it until Wait has returned it.
func (q *queue) keep(err error) error {
	if q.failed == nil {
		q.failed = err
	}
	return err
}

// broken returns the error because of which the queue takes no commands; nil if it takes them.
func (q *queue) broken() error {
	if q.failed == nil && q.device.Lost() {
		return device.ErrLost
	}
	return q.failed
}

// Launch records the dispatches of a kernel's entries. If these are many, they go to several batches, each with an
// argument block of its own.
func (q *queue) Launch(loaded device.Kernel, operands []uint64, dims []int64, scratch uint64) error {
	if err := q.broken(); err != nil {
		return err
	}
	k := loaded.(*kernel)
	if k.pipelines == nil || len(k.list) != len(k.code.Binary().Entries) {
		return diag.New(diag.ErrClosed, "kernel @%s is closed", k.code.Name())
	}
	_, need := argumentBlock(operands, dims)
	if need > batchArgument {
		return diag.Internalf("kernel @%s has %d operands and %d dimensions", k.code.Name(), len(operands), len(dims))
	}
	q.grid = slices.Grow(q.grid[:0], len(k.list))[:len(k.list)]
	if err := k.code.Grid(dims, q.grid); err != nil {
		return err
	}
	for _, blocks := range q.grid {
		if blocks > target.RowBlocks*math.MaxUint16 {
			return diag.Inputf("kernel @%s: a device cannot run %d blocks", k.code.Name(), blocks)
		}
	}
	p, err := k.places(dims)
	if err != nil {
		return err
	}
	for more := true; more; {
		b, err := q.batchFor(need, 0)
		if err != nil {
			return q.keep(err)
		}
		address := q.argue(b, k, operands, dims, scratch)
		more = q.dispatch(b, k, address, &p)
	}
	return nil
}

// argue writes the argument block of a launch, and returns its address.
func (q *queue) argue(b *batch, k *kernel, operands []uint64, dims []int64, scratch uint64) uint64 {
	report, need := argumentBlock(operands, dims)
	from := int64(q.current)*batchArgument + b.arguments
	block := q.arguments.host(from, need)
	clear(block[report:])
	address := q.arguments.address + uint64(from)
	at := 0
	put := func(v uint64) {
		binary.NativeEndian.PutUint64(block[at:], v)
		at += 8
	}
	for _, o := range operands {
		put(o)
	}
	for _, v := range dims {
		put(uint64(v))
	}
	put(scratch)
	put(address + uint64(report))
	b.launches = append(b.launches, launched{k.code, from + report})
	b.arguments += need
	return address
}

// argumentBlock returns the offset of the report in a launch's argument block, and the block's size.
func argumentBlock(operands []uint64, dims []int64) (report, bytes int64) {
	words := int64(len(operands) + len(dims) + 2)
	report = (8*words + 63) / 64 * 64
	return report, report + 64
}

// places are the dispatches of a launch in their order: each is an entry and a step.
type places struct {
	entry, first, end int // the entries from first to before end run again for each step
	step, steps       int64
}

// places returns the dispatches of a launch.
func (k *kernel) places(dims []int64) (p places, err error) {
	if b := k.code.Binary(); b.First < b.End {
		p.first, p.end = b.First, b.End
		p.steps, err = k.code.Steps(dims)
	}
	return p.skip(), err
}

// skip returns the first of the dispatches after those of entries without steps.
func (p places) skip() places {
	if p.entry == p.first && p.step >= p.steps {
		p.entry = p.end
	}
	return p
}

// next returns the dispatches after the first one.
func (p places) next() places {
	if p.entry++; p.entry == p.end && p.step+1 < p.steps {
		p.entry, p.step = p.first, p.step+1
	}
	return p.skip()
}

// dispatch records the next dispatches of a launch with an argument block, as many as the batch takes, with the blocks
// in q.grid. It reports whether there are more.
func (q *queue) dispatch(b *batch, k *kernel, address uint64, p *places) (more bool) {
	d := q.device
	for ; p.entry < len(k.list); *p = p.next() {
		blocks := q.grid[p.entry]
		if blocks <= 0 {
			continue
		}
		if b.count >= q.enough {
			return true
		}
		b.count++
		q.pushed = pushed{argument: address, step: uint32(p.step)}
		rows := (blocks + target.RowBlocks - 1) / target.RowBlocks
		q.order(b)
		q.record(d.bindPipeline, b.commands, bindCompute, uintptr(k.list[p.entry]))
		q.record(d.pushConstants, b.commands, uintptr(d.layout), stageCompute, 0, pushedBytes, at(&q.pins, &q.pushed))
		q.record(d.dispatch, b.commands, uintptr(min(blocks, target.RowBlocks)), uintptr(rows), 1)
	}
	return false
}

// record calls a function that records a command, and then unpins the arguments.
func (q *queue) record(function uintptr, args ...uintptr) {
	n := copy(q.args[:], args)
	do(function, q.args[:n]...)
	q.pins.Unpin()
}

// Upload copies bytes to the device; from may change after it returns.
func (q *queue) Upload(what device.Memory, at int64, from []byte) error {
	if err := q.broken(); err != nil {
		return err
	}
	to := what.(*memory)
	if err := to.inside(at, int64(len(from))); err != nil || len(from) == 0 {
		return err
	}
	q.device.copied.Add(int64(len(from)))
	if to.mapped != nil {
		if err := q.finish(); err != nil {
			return q.keep(err)
		}
		return mem.CatchFaults(func() error { mem.Move(to.host(at, int64(len(from))), from); return nil })
	}
	for done := int64(0); done < int64(len(from)); {
		n := min(batchStaging, int64(len(from))-done)
		b, offset, err := q.stage(n)
		if err != nil {
			return q.keep(err)
		}
		if err := mem.CatchFaults(func() error {
			mem.Move(q.staging.host(offset, n), from[done:done+n])
			return nil
		}); err != nil {
			return err
		}
		q.copyBytes(b, to, at+done, q.staging, offset, n)
		done += n
	}
	return nil
}

// Download copies bytes from the device, after all earlier commands.
func (q *queue) Download(to []byte, what device.Memory, at int64) error {
	if err := q.broken(); err != nil {
		return err
	}
	from := what.(*memory)
	if err := from.inside(at, int64(len(to))); err != nil || len(to) == 0 {
		return err
	}
	q.device.copied.Add(int64(len(to)))
	if from.cached {
		if err := q.finish(); err != nil {
			return q.keep(err)
		}
		mem.Move(to, from.host(at, int64(len(to))))
		return nil
	}
	for done := int64(0); done < int64(len(to)); {
		n := min(batchStaging, int64(len(to))-done)
		b, offset, err := q.stage(n)
		if err != nil {
			q.drop()
			return q.keep(err)
		}
		q.copyBytes(b, q.staging, offset, from, at+done, n)
		b.arrivals = append(b.arrivals, arrival{to[done : done+n], offset})
		done += n
	}
	if err := q.finish(); err != nil {
		return q.keep(err)
	}
	return nil
}

// drop cancels all arrivals, whose caller gets an error.
func (q *queue) drop() {
	for i := range q.batches {
		b := &q.batches[i]
		clear(b.arrivals)
		b.arrivals = b.arrivals[:0]
	}
}

// stage reserves bytes of staging, at most those of one batch, and returns the batch in which they may be used, and
// their offset.
func (q *queue) stage(bytes int64) (b *batch, offset int64, err error) {
	if q.staging == nil {
		if q.staging, err = q.device.allocate("copies between host and device", stagingBytes, true); err != nil {
			return nil, 0, err
		}
	}
	if b, err = q.batchFor(0, bytes); err != nil {
		return nil, 0, err
	}
	offset = int64(q.current)*batchStaging + b.staged
	b.staged += bytes
	return b, offset, nil
}

// Copy records a copy within the device.
func (q *queue) Copy(toWhat device.Memory, at int64, fromWhat device.Memory, begin, bytes int64) error {
	if err := q.broken(); err != nil {
		return err
	}
	to, from := toWhat.(*memory), fromWhat.(*memory)
	if err := to.inside(at, bytes); err != nil {
		return err
	}
	if err := from.inside(begin, bytes); err != nil || bytes == 0 {
		return err
	}
	b, err := q.batchFor(0, 0)
	if err != nil {
		return q.keep(err)
	}
	q.copyBytes(b, to, at, from, begin, bytes)
	return nil
}

// copyBytes records a copy of bytes between two blocks, ordered after the batch's earlier commands.
func (q *queue) copyBytes(b *batch, to *memory, toAt int64, from *memory, fromAt, bytes int64) {
	q.order(b)
	q.region = bufferCopy{uint64(fromAt), uint64(toAt), uint64(bytes)}
	q.record(q.device.copyBuffer, b.commands, uintptr(from.buffer), uintptr(to.buffer), 1, at(&q.pins, &q.region))
	b.count++
}

// Wait waits until all commands have run. It returns the first error since the last Wait, or else that of the context.
func (q *queue) Wait(ctx context.Context) error {
	if q.failed == errClosed {
		return errClosed
	}
	err := q.finish()
	if q.failed != nil && !errors.Is(err, device.ErrLost) {
		err = q.failed
	}
	q.failed = nil
	switch {
	case err != nil:
		return err
	case q.device.Lost():
		return device.ErrLost
	}
	return ctx.Err()
}

// Bytes returns the bytes of device memory that the queue has allocated.
func (q *queue) Bytes() (bytes int64) {
	for _, m := range []*memory{q.arguments, q.staging} {
		if m != nil {
			bytes += m.bytes
		}
	}
	return bytes
}

// Close waits until all commands have run, and frees the queue's objects.
func (q *queue) Close() error {
	_ = q.finish() // only Wait returns errors of commands
	q.release()
	return nil
}

// release frees the queue's memory, semaphore and command pools.
func (q *queue) release() {
	d := q.device
	for _, m := range []*memory{q.arguments, q.staging} {
		if m != nil {
			m.Close()
		}
	}
	d.destroy("vkDestroySemaphore", q.semaphore)
	for i := range q.batches {
		d.destroy("vkDestroyCommandPool", q.batches[i].pool)
	}
	*q = queue{device: d, failed: errClosed}
}

var errClosed = diag.New(diag.ErrClosed, "the queue is closed")
