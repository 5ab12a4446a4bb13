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

// A queue records its commands into one batch after the other, and submits each when it has enough commands: the device
// works while the next batch is recorded.

const (
	batches       = 4
	batchArgument = 64 << 10 // bytes of a batch's argument blocks and reports
	batchStaging  = 1 << 20  // bytes of a batch's copies between the host and memory that it cannot access
	argumentBytes = batches * batchArgument
	stagingBytes  = batches * batchStaging
	fewCommands   = 4   // the commands of the first batch after the device was idle
	manyCommands  = 128 // the most commands of a batch: each has up to twice as many as the one before
)

// batch is commands that are submitted together.
type batch struct {
	pool      uint64
	commands  uintptr
	recording bool
	value     uint64 // the queue's semaphore has it after the device has run the batch; 0 if it was not submitted
	count     int    // of commands
	arguments int64  // bytes used of the batch's slice of the queue's arguments
	staged    int64  // bytes used of its slice of the queue's staging
	launches  []launched
	arrivals  []arrival
}

// launched is a launch whose report has not been read yet.
type launched struct {
	code   target.Blocks
	report int64 // the report's offset in the queue's arguments
}

// arrival is a copy to the host: a batch copies bytes to the queue's staging, from which they go to to.
type arrival struct {
	to []byte
	at int64 // the offset in staging
}

// create creates a batch's command buffer.
func (b *batch) create(d *Device) error {
	var p pins
	defer p.Unpin()
	pool := commandPoolCreateInfo{head: head{kind: kindCommandPool}, family: d.physical.family}
	if err := d.call("vkCreateCommandPool", d.handle, at(&p, &pool), 0, at(&p, &b.pool)); err != nil {
		return err
	}
	commands := commandsAllocateInfo{head: head{kind: kindCommands}, pool: b.pool, count: 1}
	return d.call("vkAllocateCommandBuffers", d.handle, at(&p, &commands), at(&p, &b.commands))
}

// forget removes all commands from the batch.
func (b *batch) forget() {
	clear(b.launches)
	clear(b.arrivals)
	b.launches, b.arrivals = b.launches[:0], b.arrivals[:0]
	b.recording, b.value, b.count, b.arguments, b.staged = false, 0, 0, 0, 0
}

// batchFor returns a batch that records, and has enough bytes left for arguments and for staging. It submits the
// present one if that is full.
func (q *queue) batchFor(arguments, staged int64) (*batch, error) {
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

// order records a barrier: later shaders and copies see the writes of earlier ones.
func (q *queue) order(b *batch) {
	q.fence(b, computeShader|transferStage, shaderRead|shaderWrite|transferRead|transferWrite)
}

// fence records a barrier: later accesses in some stages see the writes of earlier shaders and copies.
func (q *queue) fence(b *batch, stages, access uint32) {
	q.barrier = memoryBarrier{head: head{kind: kindMemoryBarrier}, from: shaderWrite | transferWrite, to: access}
	q.record(q.device.barrier, b.commands, computeShader|transferStage, uintptr(stages), 0, 1, at(&q.pins, &q.barrier), 0,
		0, 0, 0)
}

// submit submits the batch that records, if one does. The next batch then records.
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

// settle waits until the device has run a batch, reads the reports of its launches, and copies its arrivals to the
// host. The batch is empty afterwards. The error is that of the first check that failed, or of the device.
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

// finish submits the present batch, and waits until the device has run all batches. It returns the first error.
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

// longest is the longest time of one wait for the device.
const longest = time.Second

// wait waits until the semaphore has a value, however long that takes, since the device uses memory until then. If
// waiting fails in every way, the device is lost; a lost device has stopped when wait returns.
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

// waitOnce waits until the semaphore reaches value; it returns errTimeout after the time longest.
func (q *queue) waitOnce(value uint64) error {
	var p pins
	defer p.Unpin()
	d := q.device
	info := semaphoreWaitInfo{head: head{kind: kindSemaphoreWait}, count: 1, semaphores: at(&p, &q.semaphore),
		values: at(&p, &value)}
	return d.callAt("vkWaitSemaphores", d.waitSemaphores, d.handle, at(&p, &info), uintptr(longest.Nanoseconds()))
}
