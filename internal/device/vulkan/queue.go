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

const reportBytes = 32

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
	pins     pins
	barrier  memoryBarrier
	argument uint64 // address of an argument block
	region   bufferCopy
	args     [10]uintptr
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

// Launch records the dispatches of a kernel's entries.
func (q *queue) Launch(loaded device.Kernel, operands []uint64, dims []int64, scratch uint64) error {
	if err := q.broken(); err != nil {
		return err
	}
	k := loaded.(*kernel)
	if k.pipelines == nil || len(k.list) != len(k.code.Binary().Entries) {
		return diag.New(diag.ErrClosed, "kernel @%s is closed", k.code.Name())
	}
	words := int64(len(operands) + len(dims) + 2)
	report := (8*words + 63) / 64 * 64
	need := report + 64
	if need > batchArgument {
		return diag.Internalf("kernel @%s has %d operands and dimensions", k.code.Name(), words)
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
	b, err := q.batchFor(need, 0)
	if err != nil {
		return q.keep(err)
	}
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
	q.dispatch(b, k, address)
	b.launches = append(b.launches, launched{k.code, from + report})
	b.arguments += need
	b.count++
	return nil
}

// dispatch records the dispatches of a launch with an argument block, with the blocks in q.grid.
func (q *queue) dispatch(b *batch, k *kernel, address uint64) {
	d := q.device
	q.argument = address
	for i, pipeline := range k.list {
		blocks := q.grid[i]
		if blocks <= 0 {
			continue
		}
		rows := (blocks + target.RowBlocks - 1) / target.RowBlocks
		q.order(b)
		q.record(d.bindPipeline, b.commands, bindCompute, uintptr(pipeline))
		q.record(d.pushConstants, b.commands, uintptr(d.layout), stageCompute, 0, 8, at(&q.pins, &q.argument))
		q.record(d.dispatch, b.commands, uintptr(min(blocks, target.RowBlocks)), uintptr(rows), 1)
	}
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
