//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"unsafe"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/mem"
)

// memory is a buffer with its own allocation.
type memory struct {
	device  *Device
	bytes   int64 // requested
	taken   int64 // allocated
	buffer  uint64
	memory  uint64
	address uint64
	mapped  unsafe.Pointer // the host's address; nil if the host cannot access it
	cached  bool           // the host reads it quickly
	queues  bool           // it is a queue's
	counted bool           // in the device's usage
}

// Allocate allocates the device's own memory, which the host can also access if the device has such memory.
func (d *Device) Allocate(label string, bytes int64) (device.Memory, error) {
	m, err := d.allocate(label, bytes, false)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// allocate allocates memory; that of queues is accessible to the host.
func (d *Device) allocate(label string, bytes int64, queues bool) (m *memory, err error) {
	if bytes < 0 {
		return nil, diag.Internalf("%d bytes for %s", bytes, label)
	}
	if most := d.most(); bytes > most {
		return nil, diag.New(diag.ErrMemory, "%s for %s: %s gives at most %s at once", mem.FormatBytes(bytes), label,
			d.Name(), mem.FormatBytes(most))
	}
	m = &memory{device: d, bytes: bytes, queues: queues}
	defer func() {
		if err != nil {
			m.Close()
			m = nil
		}
	}()
	var p pins
	defer p.Unpin()
	info := bufferCreateInfo{head: head{kind: kindBuffer}, size: uint64(max(bytes, 64)),
		usage: usageTransfer | usageStorage | usageAddress}
	if err := d.call("vkCreateBuffer", d.handle, at(&p, &info), 0, at(&p, &m.buffer)); err != nil {
		return m, err
	}
	var needs memoryRequirements
	do(d.function("vkGetBufferMemoryRequirements"), d.handle, uintptr(m.buffer), at(&p, &needs))
	kind, flags, found := d.memoryType(needs.types, queues)
	if !found {
		return m, diag.Unsupportedf("%s has no memory for %s", d.Name(), label)
	}
	heap := d.physical.memory.heaps[d.physical.memory.types[kind].heap%mostHeaps].size
	if needs.size > min(d.physical.mostBlock, heap) {
		return m, diag.New(diag.ErrMemory, "%s for %s: %s has %s", mem.FormatBytes(bytes), label, d.Name(),
			mem.FormatBytes(d.most()))
	}
	addressed := allocateFlags{head: head{kind: kindAllocateFlags}, flags: allocateAddressed}
	ask := allocateInfo{head: head{kind: kindAllocate, next: at(&p, &addressed)}, size: needs.size, typeAt: kind}
	if err := d.call("vkAllocateMemory", d.handle, at(&p, &ask), 0, at(&p, &m.memory)); err != nil {
		return m, refused(err, label, bytes)
	}
	m.taken = int64(needs.size)
	m.counted = true
	d.count(m, 1)
	if err := d.call("vkBindBufferMemory", d.handle, uintptr(m.buffer), uintptr(m.memory), 0); err != nil {
		return m, err
	}
	if flags&propertyVisible != 0 {
		m.cached = flags&propertyCached != 0
		if err := d.call("vkMapMemory", d.handle, uintptr(m.memory), 0, uintptr(needs.size), 0,
			at(&p, &m.mapped)); err != nil {
			return m, err
		}
	}
	where := bufferAddressInfo{head: head{kind: kindBufferAddress}, buffer: m.buffer}
	m.address = uint64(do(d.function("vkGetBufferDeviceAddress"), d.handle, at(&p, &where)))
	return m, nil
}

// refused adds the request to an error.
func refused(err error, label string, bytes int64) error {
	if e, ok := err.(*diag.Error); ok {
		e.Detail = mem.FormatBytes(bytes) + " for " + label + ": " + e.Detail
	}
	return err
}

// most returns the largest size of a block.
func (d *Device) most() int64 {
	return int64(min(d.physical.mostBlock, uint64(d.physical.info.Bytes)))
}

// memoryType chooses one of the allowed types of memory: the device's own, preferably one that the host can access if
// there is enough of it; for queues, one that the host can access, preferably cached. flags are those of the type,
// without access by the host if it is not coherent. found is false if there is none.
func (d *Device) memoryType(allowed uint32, queues bool) (index, flags uint32, found bool) {
	const seen = propertyVisible | propertyCoherent
	want := []uint32{propertyDeviceLocal | seen | propertyCached, propertyDeviceLocal | seen, propertyDeviceLocal, seen}
	if queues {
		want = []uint32{seen | propertyCached, seen}
	}
	props := &d.physical.memory
	for _, w := range want {
		for i := range min(props.typeCount, mostTypes) {
			t := props.types[i]
			if allowed>>i&1 == 0 || t.flags&w != w || t.flags&^uint32(propertyDeviceLocal|seen|propertyCached) != 0 {
				continue
			}
			window := !queues && w != seen && int64(min(props.heaps[t.heap%mostHeaps].size, 1<<62)) < d.physical.info.Bytes/2
			if window { // a small heap through which the host accesses a fraction of the device's memory
				continue
			}
			if flags = t.flags; flags&seen != seen || d.hidden && !queues {
				flags &^= seen | propertyCached
			}
			return i, flags, true
		}
	}
	return 0, 0, false
}

// Address returns the device address of the first byte.
func (m *memory) Address() uint64 { return m.address }

// Bytes returns the requested size.
func (m *memory) Bytes() int64 { return m.bytes }

// Close frees the memory, which no unfinished command may use.
func (m *memory) Close() error {
	d := m.device
	d.destroy("vkDestroyBuffer", m.buffer)
	d.destroy("vkFreeMemory", m.memory)
	if m.counted {
		d.count(m, -1)
	}
	*m = memory{device: d}
	return nil
}

// host returns bytes of memory that the host can access.
func (m *memory) host(from, bytes int64) []byte {
	return unsafe.Slice((*byte)(unsafe.Add(m.mapped, from)), bytes)
}

// inside returns an internal error for a range that is not inside the memory.
func (m *memory) inside(from, bytes int64) error {
	if from < 0 || bytes < 0 || bytes > m.bytes-from {
		return diag.Internalf("%d bytes at %d of a device's block of %d", bytes, from, m.bytes)
	}
	return nil
}
