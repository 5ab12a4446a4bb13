//go:build (linux || darwin || windows || freebsd) && (amd64 || arm64)

package vulkan

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
	"github.com/weirml/weir/internal/target"
)

// What a queue has for itself: argument blocks and reports of the launches under way, and where there is no other way to a device's memory, what is on its way there.
const (
	argumentBytes = 256 << 10
	stagingBytes  = 4 << 20
	reportBytes   = 32
)

// queue is commands for the device, in order.
type queue struct {
	device    *Device
	pool      uint64
	commands  uintptr
	semaphore uint64
	value     uint64 // of the semaphore, when all that was submitted has ended
	recording bool
	submitted bool // something is under way
	arguments *memory
	used      int64 // bytes of arguments since the last wait
	staging   *memory
	launches  []launched // since the last wait
	grid      []int64    // of the launch under way
	failed    error      // what the next Wait returns
}

// launched is a launch whose report nobody has read yet.
type launched struct {
	kernel *kernel
	report int64 // where in arguments
}

// NewQueue makes a queue.
func (d *Device) NewQueue() (device.Queue, error) {
	q, err := d.newQueue()
	if err != nil {
		return nil, err
	}
	return q, nil
}

func (d *Device) newQueue() (q *queue, err error) {
	q = &queue{device: d}
	defer func() {
		if err != nil {
			q.release()
			q = nil
		}
	}()
	var p pins
	defer p.Unpin()
	pool := commandPoolCreateInfo{head: head{kind: kindCommandPool}, family: d.physical.family}
	if err := d.call("vkCreateCommandPool", d.handle, at(&p, &pool), 0, at(&p, &q.pool)); err != nil {
		return q, err
	}
	commands := commandsAllocateInfo{head: head{kind: kindCommands}, pool: q.pool, count: 1}
	if err := d.call("vkAllocateCommandBuffers", d.handle, at(&p, &commands), at(&p, &q.commands)); err != nil {
		return q, err
	}
	timeline := semaphoreTypeInfo{head: head{kind: kindSemaphoreType}, kindOf: 1}
	semaphore := semaphoreCreateInfo{head: head{kind: kindSemaphore, next: at(&p, &timeline)}}
	if err := d.call("vkCreateSemaphore", d.handle, at(&p, &semaphore), 0, at(&p, &q.semaphore)); err != nil {
		return q, err
	}
	q.arguments, err = d.allocate("arguments of launches", argumentBytes, true)
	return q, err
}

// begin begins to record.
func (q *queue) begin() error {
	if q.recording {
		return nil
	}
	if q.submitted { // its commands are still being read
		if err := q.finish(); err != nil {
			return err
		}
	}
	var p pins
	defer p.Unpin()
	d := q.device
	if err := d.callAt("vkResetCommandPool", d.resetCommands, d.handle, uintptr(q.pool), 0); err != nil {
		return err
	}
	info := beginInfo{head: head{kind: kindBegin}, flags: 1}
	if err := d.callAt("vkBeginCommandBuffer", d.beginCommands, q.commands, at(&p, &info)); err != nil {
		return err
	}
	q.recording = true
	return nil
}

// order has what follows see what went before: shaders and copies.
func (q *queue) order() {
	q.fence(computeShader|transferStage, shaderWrite|transferWrite, computeShader|transferStage, shaderRead|shaderWrite|transferRead|transferWrite)
}

func (q *queue) fence(fromStages, from, toStages, to uint32) {
	var p pins
	defer p.Unpin()
	b := memoryBarrier{head: head{kind: kindMemoryBarrier}, from: from, to: to}
	do(q.device.barrier, q.commands, uintptr(fromStages), uintptr(toStages), 0, 1, at(&p, &b), 0, 0, 0, 0)
}

// Launch records the dispatches of a kernel's entries.
func (q *queue) Launch(what device.Kernel, operands []uint64, dims []int64, scratch uint64) error {
	k := what.(*kernel)
	words := int64(len(operands) + len(dims) + 2)
	need := (8*words + 63) / 64 * 64
	report := need
	if need += 64; need > argumentBytes {
		return diag.Internalf("kernel @%s has %d operands and dimensions", k.code.Name(), words)
	}
	if q.used+need > argumentBytes {
		if err := q.finish(); err != nil {
			return err
		}
	}
	if err := q.begin(); err != nil {
		return err
	}
	block := q.arguments.host(q.used, need)
	clear(block[report:])
	address := q.arguments.address + uint64(q.used)
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
	if err := q.dispatch(k, dims, address); err != nil {
		return err
	}
	q.launches = append(q.launches, launched{k, q.used + report})
	q.used += need
	return nil
}

func (q *queue) dispatch(k *kernel, dims []int64, address uint64) error {
	var p pins
	defer p.Unpin()
	d := q.device
	q.grid = slices.Grow(q.grid[:0], len(k.pipelines))[:len(k.pipelines)]
	if err := k.code.Grid(dims, q.grid); err != nil {
		return err
	}
	for i, pipeline := range k.pipelines {
		blocks := q.grid[i]
		if blocks <= 0 {
			continue
		}
		rows := (blocks + target.RowBlocks - 1) / target.RowBlocks
		if rows > math.MaxUint16 {
			return diag.Inputf("kernel @%s: %d blocks are too many for a device", k.code.Name(), blocks)
		}
		q.order()
		do(d.bindPipeline, q.commands, bindCompute, uintptr(pipeline))
		do(d.pushConstants, q.commands, uintptr(d.layout), stageCompute, 0, 8, at(&p, &address))
		do(d.dispatch, q.commands, uintptr(min(blocks, target.RowBlocks)), uintptr(rows), 1)
	}
	return nil
}

// Upload copies bytes to the device.
func (q *queue) Upload(what device.Memory, at int64, from []byte) error {
	to := what.(*memory)
	if err := to.inside(at, int64(len(from))); err != nil || len(from) == 0 {
		return err
	}
	if to.mapped != nil {
		if err := q.finish(); err != nil {
			return err
		}
		return mem.CatchFaults(func() error { mem.Move(to.host(at, int64(len(from))), from); return nil })
	}
	return q.through(int64(len(from)), func(done, n int64) error {
		if err := mem.CatchFaults(func() error { copy(q.staging.host(0, n), from[done:done+n]); return nil }); err != nil {
			return err
		}
		if err := q.copyBytes(to, at+done, q.staging, 0, n); err != nil {
			return err
		}
		return q.finish()
	})
}

// Download copies bytes from the device.
func (q *queue) Download(to []byte, what device.Memory, at int64) error {
	from := what.(*memory)
	if err := from.inside(at, int64(len(to))); err != nil || len(to) == 0 {
		return err
	}
	if from.mapped != nil {
		if err := q.finish(); err != nil {
			return err
		}
		mem.Move(to, from.host(at, int64(len(to))))
		return nil
	}
	return q.through(int64(len(to)), func(done, n int64) error {
		if err := q.copyBytes(q.staging, 0, from, at+done, n); err != nil {
			return err
		}
		if err := q.finish(); err != nil {
			return err
		}
		copy(to[done:done+n], q.staging.host(0, n))
		return nil
	})
}

// through moves bytes by way of staging memory, a piece at a time.
func (q *queue) through(bytes int64, move func(done, n int64) error) (err error) {
	if q.staging == nil {
		if q.staging, err = q.device.allocate("copies between host and device", stagingBytes, true); err != nil {
			return err
		}
	}
	for done := int64(0); done < bytes; done += stagingBytes {
		if err := move(done, min(stagingBytes, bytes-done)); err != nil {
			return err
		}
	}
	return nil
}

// Copy records a copy within the device.
func (q *queue) Copy(to device.Memory, at int64, from device.Memory, begin, bytes int64) error {
	return q.copyBytes(to.(*memory), at, from.(*memory), begin, bytes)
}

func (q *queue) copyBytes(to *memory, toAt int64, from *memory, fromAt, bytes int64) error {
	if err := to.inside(toAt, bytes); err != nil {
		return err
	}
	if err := from.inside(fromAt, bytes); err != nil || bytes == 0 {
		return err
	}
	if err := q.begin(); err != nil {
		return err
	}
	var p pins
	defer p.Unpin()
	q.order()
	region := bufferCopy{uint64(fromAt), uint64(toAt), uint64(bytes)}
	do(q.device.copyBuffer, q.commands, uintptr(from.buffer), uintptr(to.buffer), 1, at(&p, &region))
	return nil
}

// submit gives the device what was recorded.
func (q *queue) submit() error {
	if !q.recording {
		return nil
	}
	q.recording = false
	var p pins
	defer p.Unpin()
	d := q.device
	q.fence(computeShader|transferStage, shaderWrite|transferWrite, hostStage, hostRead)
	if err := d.callAt("vkEndCommandBuffer", d.endCommands, q.commands); err != nil {
		return err
	}
	next := q.value + 1
	timeline := timelineSubmitInfo{head: head{kind: kindTimelineSubmit}, signalCount: 1, signals: at(&p, &next)}
	info := submitInfo{head: head{kind: kindSubmit, next: at(&p, &timeline)}, commandCount: 1, commands: at(&p, &q.commands), signalCount: 1, signals: at(&p, &q.semaphore)}
	d.submitting.Lock()
	err := d.callAt("vkQueueSubmit", d.submit, d.queue, 1, at(&p, &info), 0)
	d.submitting.Unlock()
	if err != nil {
		return err
	}
	q.value, q.submitted = next, true
	return nil
}

// finish waits for all that was recorded, and reads the reports of the launches.
func (q *queue) finish() error {
	if err := q.submit(); err != nil {
		return q.fail(err)
	}
	if q.submitted {
		if err := q.wait(); err != nil {
			return q.fail(err)
		}
	}
	q.submitted, q.used = false, 0
	for _, l := range q.launches {
		var r target.Report
		for i, b := 0, q.arguments.host(l.report, reportBytes); i < len(r); i++ {
			r[i] = binary.NativeEndian.Uint64(b[8*i:])
		}
		if err := l.kernel.code.Failed(r); err != nil && q.failed == nil {
			q.failed = err
		}
	}
	clear(q.launches)
	q.launches = q.launches[:0]
	return nil
}

// fail drops what was recorded: the queue may be used again where the device works.
func (q *queue) fail(err error) error {
	q.recording, q.used = false, 0
	clear(q.launches)
	q.launches = q.launches[:0]
	return err
}

// longest is how long one wait takes before the device is looked at again.
const longest = time.Second

// wait ends when all that was submitted has ended. However long that takes: the device uses the memory until then.
func (q *queue) wait() error {
	d := q.device
	for {
		var p pins
		info := semaphoreWaitInfo{head: head{kind: kindSemaphoreWait}, count: 1, semaphores: at(&p, &q.semaphore), values: at(&p, &q.value)}
		if d.gone.Load() {
			p.Unpin()
			return device.ErrLost
		}
		if inject != nil {
			if result, fails := inject("vkWaitSemaphores"); fails {
				p.Unpin()
				err := resultError("vkWaitSemaphores", result)
				if errors.Is(err, device.ErrLost) {
					d.gone.Store(true)
					device.Forget(d)
				}
				return err
			}
		}
		result := int32(do(d.waitSemaphores, d.handle, at(&p, &info), uintptr(longest.Nanoseconds())))
		p.Unpin()
		switch {
		case result == success:
			return nil
		case result == timeout:
			runtime.Gosched()
		default:
			err := resultError("vkWaitSemaphores", result)
			if errors.Is(err, device.ErrLost) {
				d.gone.Store(true)
				device.Forget(d)
			}
			return err
		}
	}
}

// Wait waits for all that was given to the queue.
func (q *queue) Wait(ctx context.Context) error {
	if err := q.finish(); err != nil {
		return err
	}
	err := q.failed
	if q.failed = nil; err != nil {
		return err
	}
	return ctx.Err()
}

// Bytes is what the queue has asked of the device's memory.
func (q *queue) Bytes() (bytes int64) {
	for _, m := range []*memory{q.arguments, q.staging} {
		if m != nil {
			bytes += m.bytes
		}
	}
	return bytes
}

// Close waits for what is under way, and gives everything back.
func (q *queue) Close() error {
	err := q.finish()
	if q.submitted && err != nil && !q.device.gone.Load() {
		do(q.device.function("vkDeviceWaitIdle"), q.device.handle)
	}
	q.release()
	return nil
}

func (q *queue) release() {
	d := q.device
	for _, m := range []*memory{q.arguments, q.staging} {
		if m != nil {
			m.Close()
		}
	}
	d.destroy("vkDestroySemaphore", q.semaphore)
	d.destroy("vkDestroyCommandPool", q.pool)
	*q = queue{device: d}
}
