//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// A queue records its commands into one batch after the other, and submits each when it has enough: the device works
// while the next is recorded.

const (
	batches       = 4
	batchArgument = 64 << 10 // bytes of a batch's argument blocks and reports
	batchStaging  = 1 << 20  // bytes on their way between the host and memory that it does not see
	argumentBytes = batches * batchArgument
	stagingBytes  = batches * batchStaging
	fewCommands   = 4   // a batch that the device waits for has no more
	manyCommands  = 128 // and the next ones twice as many as the one before, up to these
)

// batch is commands that are submitted together.
type batch struct {
	pool      uint64
	commands  uintptr
	recording bool
	value     uint64 // of the queue's semaphore, when the device has done them; 0: the device has none of them
	count     int    // of commands
	arguments int64  // bytes used, from the batch's part of the queue's arguments
	staged    int64  // and of its staging
	launches  []launched
	arrivals  []arrival
}

// launched is a launch whose report nobody has read yet.
type launched struct {
	code   target.Blocks
	report int64 // where in the queue's arguments
}

// arrival is bytes that a batch brings to the queue's staging, and where the host wants them.
type arrival struct {
	to []byte
	at int64 // in staging
}

// make makes a batch's command buffer.
func (b *batch) make(d *Device) error {
	var p pins
	defer p.Unpin()
	pool := commandPoolCreateInfo{head: head{kind: kindCommandPool}, family: d.physical.family}
	if err := d.call("vkCreateCommandPool", d.handle, at(&p, &pool), 0, at(&p, &b.pool)); err != nil {
		return err
	}
	commands := commandsAllocateInfo{head: head{kind: kindCommands}, pool: b.pool, count: 1}
	return d.call("vkAllocateCommandBuffers", d.handle, at(&p, &commands), at(&p, &b.commands))
}

// forget makes the batch one without commands.
func (b *batch) forget() {
	clear(b.launches)
	clear(b.arrivals)
	b.launches, b.arrivals = b.launches[:0], b.arrivals[:0]
	b.recording, b.value, b.count, b.arguments, b.staged = false, 0, 0, 0, 0
}

// room is the batch that records, with so many bytes for arguments and for staging left in it.
func (q *queue) room(arguments, staged int64) (*batch, error) {
	b := &q.batches[q.current]
	if b.recording && (b.count >= q.enough || arguments > batchArgument-b.arguments || staged > batchStaging-b.staged) {
		if err := q.submit(); err != nil {
			return nil, err
		}
		b = &q.batches[q.current]
	}
	if b.recording {
		return b, nil
	}
	if err := q.settle(b); err != nil {
		return nil, err
	}
	var p pins
	defer p.Unpin()
	d := q.device
	if err := d.callAt("vkResetCommandPool", d.resetCommands, d.handle, uintptr(b.pool), 0); err != nil {
		return nil, err
	}
	info := beginInfo{head: head{kind: kindBegin}, flags: submitOnce}
	if err := d.callAt("vkBeginCommandBuffer", d.beginCommands, b.commands, at(&p, &info)); err != nil {
		return nil, err
	}
	b.recording = true
	return b, nil
}

// order has what follows see what went before: shaders and copies.
func (q *queue) order(b *batch) {
	q.fence(b, computeShader|transferStage, shaderRead|shaderWrite|transferRead|transferWrite)
}

// fence has what follows in some stages see what shaders and copies wrote before.
func (q *queue) fence(b *batch, stages, access uint32) {
	q.barrier = memoryBarrier{head: head{kind: kindMemoryBarrier}, from: shaderWrite | transferWrite, to: access}
	q.record(q.device.barrier, b.commands, computeShader|transferStage, uintptr(stages), 0, 1, at(&q.pins, &q.barrier), 0,
		0, 0, 0)
}

// submit gives the device the batch that records. The next one records then.
func (q *queue) submit() error {
	b := &q.batches[q.current]
	if !b.recording {
		return nil
	}
	b.recording = false
	var p pins
	defer p.Unpin()
	d := q.device
	q.fence(b, hostStage, hostRead)
	if err := d.callAt("vkEndCommandBuffer", d.endCommands, b.commands); err != nil {
		b.forget()
		return err
	}
	next := q.value + 1
	timeline := timelineSubmitInfo{head: head{kind: kindTimelineSubmit}, signalCount: 1, signals: at(&p, &next)}
	info := submitInfo{head: head{kind: kindSubmit, next: at(&p, &timeline)}, commandCount: 1,
		commands: at(&p, &b.commands), signalCount: 1, signals: at(&p, &q.semaphore)}
	d.submitting.Lock()
	err := d.callAt("vkQueueSubmit", d.submit, d.queue, 1, at(&p, &info), 0)
	d.submitting.Unlock()
	if err != nil {
		b.forget()
		return err
	}
	q.value, b.value = next, next
	q.current = (q.current + 1) % batches
	q.enough = min(2*q.enough, manyCommands)
	return nil
}

// settle waits until the device has done a batch, reads the reports of its launches, and hands on what it brought. The
// batch has no commands afterwards.
func (q *queue) settle(b *batch) error {
	if b.value == 0 {
		return nil
	}
	defer b.forget()
	if err := q.wait(b.value); err != nil {
		return err
	}
	var first error
	for _, l := range b.launches {
		var r target.Report
		for i, words := 0, q.arguments.host(l.report, reportBytes); i < len(r); i++ {
			r[i] = binary.NativeEndian.Uint64(words[8*i:])
		}
		if r == (target.Report{}) {
			continue
		}
		if err := l.code.Failed(r); err != nil {
			first = err
			break
		}
	}
	for _, a := range b.arrivals {
		mem.Move(a.to, q.staging.host(a.at, int64(len(a.to))))
	}
	return first
}

// finish ends when the device has done all batches. Its error is the first that there was.
func (q *queue) finish() error {
	first := q.submit()
	for i := range batches {
		if err := q.settle(&q.batches[(q.current+i)%batches]); first == nil {
			first = err
		}
	}
	q.enough = fewCommands
	return first
}

// longest is how long one wait takes before the device is looked at again.
const longest = time.Second

// wait ends when the device has done what makes the semaphore a value, however long that takes: it uses the memory
// until then. A device that cannot be waited for is lost; one that is lost has stopped when this ends.
func (q *queue) wait(value uint64) error {
	d := q.device
	for {
		err := q.waitOnce(value)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, device.ErrLost):
			d.stop()
			return err
		case err == errTimeout:
			continue
		}
		if d.waitIdle() == nil {
			return nil
		}
		d.gone.Store(true)
		d.stop()
		return errors.Join(device.ErrLost, err)
	}
}

// waitOnce waits until the semaphore reaches value, or the time longest has passed.
func (q *queue) waitOnce(value uint64) error {
	var p pins
	defer p.Unpin()
	d := q.device
	info := semaphoreWaitInfo{head: head{kind: kindSemaphoreWait}, count: 1, semaphores: at(&p, &q.semaphore),
		values: at(&p, &value)}
	return d.callAt("vkWaitSemaphores", d.waitSemaphores, d.handle, at(&p, &info), uintptr(longest.Nanoseconds()))
}
