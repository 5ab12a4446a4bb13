// Package devicetest is a device for tests of what uses one: it lies in the process, but its memory is reached by
// addresses that mean nothing to the host, it works on goroutines of its own, it is as slow as it likes, and it fails
// when it is told to.
package devicetest

import (
	"fmt"
	"sort"
	"sync"
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// QueueBytes is what each queue takes of the device's memory.
const QueueBytes = 4096

// What fills memory: when it is allocated, and when it is closed.
const (
	fresh = 0xA5
	gone  = 0xDD
)

// Options say how a device behaves. The zero value does what it is asked at once.
type Options struct {
	Late   bool   // the device begins when somebody waits for it, and not before
	Delay  func() // is called before everything that the device does
	Refuse int    // the allocation of this number, from 1 on, is refused
	Lose   int    // the device is lost at the operation of this number, from 1 on
}

// Device is an open device.
type Device struct {
	mu         sync.Mutex
	o          Options
	next       uint64    // where no block lies yet
	blocks     []*memory // by address
	kernels    int       // that are not closed
	usage      device.Usage
	allocated  int
	operations int
	copied     int64
	lost       bool
	faults     []string
}

// New opens a device.
func New(o Options) *Device { return &Device{o: o, next: 1 << 44} }

// Set has the device behave otherwise from now on, and counts allocations and operations anew.
func (d *Device) Set(o Options) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.o, d.allocated, d.operations = o, 0, 0
}

// Operations is how many operations there were since Set: of allocation, loading, making queues, launching, copying and
// waiting.
func (d *Device) Operations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.operations
}

// Allocations is how many of them were allocations.
func (d *Device) Allocations() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.allocated
}

// Faults are what was asked for that no real device would survive: accesses outside blocks, or to blocks that are
// closed, and blocks that are closed while work on them is under way.
func (d *Device) Faults() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.faults...)
}

// Held is what nobody has closed: blocks and kernels.
func (d *Device) Held() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usage.Blocks + d.kernels
}

// Name is the device's.
func (d *Device) Name() string { return "test:0" }

// Machine is one that runs blocks of threads.
func (d *Device) Machine() target.Machine { return target.Vulkan(target.Limits{}) }

// QueueBytes is what a queue takes.
func (d *Device) QueueBytes() int64 { return QueueBytes }

// Lost reports whether the device was lost.
func (d *Device) Lost() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// Usage is what was allocated.
func (d *Device) Usage() device.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usage
}

// Copied returns the bytes that queues have copied between the device's memory and the host's.
func (d *Device) Copied() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.copied
}

// Close is an error if something is held.
func (d *Device) Close() error {
	if n := d.Held(); n > 0 {
		return diag.Internalf("%d blocks and kernels are not closed", n)
	}
	return nil
}

// operation counts one; its error is that the device is lost. The device is locked.
func (d *Device) operation() error {
	d.operations++
	if d.lost = d.lost || d.o.Lose > 0 && d.operations >= d.o.Lose; d.lost {
		return device.ErrLost
	}
	return nil
}

// fault notes what a real device would not survive. The device is locked.
func (d *Device) fault(format string, args ...any) error {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
	return diag.Internalf(format, args...)
}

// memory is a block.
type memory struct {
	device *Device
	label  string
	at     uint64
	data   []byte
	queues bool
	users  int // pieces of work under way that name it
	closed bool
}

// Allocate takes memory that no host code can reach by its address.
func (d *Device) Allocate(label string, bytes int64) (device.Memory, error) {
	m, err := d.allocate(label, bytes, false)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// allocate returns a block, or the error that the test's options inject; queues marks memory of a queue.
func (d *Device) allocate(label string, bytes int64, queues bool) (*memory, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operation(); err != nil {
		return nil, err
	}
	d.allocated++
	if d.allocated == d.o.Refuse || bytes > 1<<30 {
		return nil, diag.New(diag.ErrMemory, "%d bytes for %s are refused", bytes, label)
	}
	if bytes < 0 {
		return nil, diag.Internalf("%d bytes for %s", bytes, label)
	}
	room := make([]byte, bytes+64)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(room))) & 63
	m := &memory{device: d, label: label, at: d.next, data: room[skip : int64(skip)+bytes : int64(skip)+bytes],
		queues: queues}
	fill(m.data, fresh)
	d.next += uint64(bytes+4095)&^4095 + 4096 // no two blocks are neighbours
	d.blocks = append(d.blocks, m)
	d.count(m, 1)
	return m, nil
}

// count adds a block's bytes, times sign, to the usage.
func (d *Device) count(m *memory, sign int64) {
	u := &d.usage
	if m.queues {
		u.Queues += sign * int64(len(m.data))
	} else {
		u.Memory += sign * int64(len(m.data))
	}
	u.Blocks += int(sign)
	u.Most = max(u.Most, u.Memory+u.Queues)
}

// fill sets all bytes of data.
func fill(data []byte, with byte) {
	for i := range data {
		data[i] = with
	}
}

// Address is a number that only the device's kernels can follow.
func (m *memory) Address() uint64 { return m.at }

// Bytes is the block's size.
func (m *memory) Bytes() int64 { return int64(len(m.data)) }

// Close gives the block back.
func (m *memory) Close() error {
	d := m.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if m.closed {
		return d.fault("%s is closed twice", m.label)
	}
	if m.closed = true; m.users > 0 && !d.lost {
		_ = d.fault("%s is closed while the device works on it", m.label)
	}
	fill(m.data, gone)
	for i, b := range d.blocks {
		if b == m {
			d.blocks = append(d.blocks[:i], d.blocks[i+1:]...)
			break
		}
	}
	d.count(m, -1)
	return nil
}

// find is the bytes at an address, and the block that they are of. The device is locked.
func (d *Device) find(at uint64, bytes int64) (*memory, []byte, error) {
	i := sort.Search(len(d.blocks), func(i int) bool { return d.blocks[i].at > at }) - 1
	if i < 0 {
		return nil, nil, d.fault("there is nothing at %#x", at)
	}
	m := d.blocks[i]
	if from := at - m.at; from > uint64(len(m.data)) || uint64(bytes) > uint64(len(m.data))-from {
		return nil, nil, d.fault("%d bytes at %#x, %d into %s of %d", bytes, at, from, m.label, len(m.data))
	}
	return m, m.data[at-m.at : at-m.at+uint64(bytes)], nil
}

// Blocks makes a kernel that host code runs one for a block machine: its Binary is empty, and only a device of this
// package runs it.
func Blocks(k target.Kernel) target.Blocks { return &blocks{k} }

type blocks struct{ target.Kernel }

func (k *blocks) Binary() *target.Binary       { return &target.Binary{} }
func (k *blocks) Grid(_, _ []int64) error      { return nil }
func (k *blocks) Steps([]int64) (int64, error) { return 0, nil }
func (k *blocks) Failed(_ target.Report) error { return nil }

// Run is an error: the kernel is no host's.
func (k *blocks) Run(*target.Args, int64, int64, []byte) error {
	return diag.Internalf("the host runs @%s, which is a device's", k.Name())
}

// kernel is one that is ready.
type kernel struct {
	device *Device
	code   target.Kernel
	closed bool
}

// Load makes a kernel of Blocks ready.
func (d *Device) Load(k target.Blocks) (device.Kernel, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.operation(); err != nil {
		return nil, err
	}
	b, ok := k.(*blocks)
	if !ok {
		return nil, diag.Internalf("@%s is no kernel of devicetest.Blocks", k.Name())
	}
	d.kernels++
	return &kernel{device: d, code: b.Kernel}, nil
}

// Close gives the kernel back.
func (k *kernel) Close() error {
	d := k.device
	d.mu.Lock()
	defer d.mu.Unlock()
	if k.closed {
		return d.fault("@%s is closed twice", k.code.Name())
	}
	k.closed = true
	d.kernels--
	return nil
}
