//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// Kind returns Vulkan as a kind of device.
func Kind() device.Kind {
	return device.Kind{Name: target.VulkanName, List: List, Open: func(number int) (device.Device, error) {
		return Open(number, Options{Cache: os.Getenv("WEIR_PIPELINES")})
	}}
}

// List describes all Vulkan devices, including those that cannot be used.
func List() ([]device.Info, error) {
	i, err := enter(false)
	if err != nil {
		return nil, err
	}
	defer i.leave()
	found, err := i.physicals()
	if err != nil {
		return nil, err
	}
	var infos []device.Info
	for _, p := range found {
		infos = append(infos, p.info)
	}
	return infos, nil
}

// Options for opening a device.
type Options struct {
	Validate bool   // use Khronos's validation layer: see Messages
	Cache    string // the folder of the file that keeps pipelines between processes; "": none
}

// Device is an open device.
type Device struct {
	*instance
	physical physical
	handle   uintptr
	queue    uintptr
	layout   uint64
	cache    uint64
	folder   string
	deviceFunctions

	loading sync.Mutex
	made    map[[sha256.Size]byte]*pipelines // pipelines that kernels use

	submitting sync.Mutex // Vulkan's queues must be used by one thread at a time
	gone       atomic.Bool
	mu         sync.Mutex
	usage      device.Usage
	copied     atomic.Int64 // bytes: see Copied
	hidden     bool         // for tests: the host does not access the device's own memory
}

// deviceFunctions are the addresses of frequently called functions.
type deviceFunctions struct {
	resetCommands, beginCommands, endCommands, bindPipeline, pushConstants, dispatch, barrier, copyBuffer, submit,
	waitSemaphores uintptr
}

// Open opens a device by its number in List.
func Open(number int, o Options) (d *Device, err error) {
	i, err := enter(o.Validate)
	if err != nil {
		return nil, err
	}
	d = &Device{instance: i, folder: o.Cache}
	defer func() {
		if err != nil {
			d.Close()
			d = nil
		}
	}()
	found, err := i.physicals()
	if err != nil {
		return d, err
	}
	if number < 0 || number >= len(found) {
		return d, noSuch(number, found)
	}
	d.physical = found[number]
	if why := d.physical.info.Why; why != "" {
		return d, diag.Unsupportedf("%s, %s: %s", d.physical.info.Name, d.physical.info.Product, why)
	}
	if err := d.create(); err != nil {
		return d, err
	}
	if err := d.prepare(); err != nil {
		return d, err
	}
	machine := &d.physical.info.Machine
	if fused, err := d.fuses(); err != nil {
		return d, err
	} else if fused {
		*machine = target.Vulkan(machine.Limits, append(machine.Features, target.Fused)...)
	}
	d.usage.Most = 0 // the probe's memory is not a program's
	return d, nil
}

// noSuch returns the error for a number that no device has.
func noSuch(number int, found []physical) error {
	if len(found) == 0 {
		return diag.Unsupportedf("Vulkan has no device here").WithFix(driverFix)
	}
	var names []string
	for _, p := range found {
		names = append(names, p.info.Name+" is "+p.info.Product)
	}
	return diag.Unsupportedf("there is no %s:%d", target.VulkanName, number).WithFix("choose one of these: %s",
		strings.Join(names, ", "))
}

// create creates the logical device, with the features that code for it uses.
func (d *Device) create() error {
	var p pins
	defer p.Unpin()
	m := &d.physical.info.Machine
	on := func(b blob, at int, feature string) {
		if m.Has(feature) {
			b.set(at, 1)
		}
	}
	next := uintptr(0)
	if m.Has(target.Dot8) {
		dots := newBlob(&p, dotProductSize, kindDotProduct, 0)
		dots.set(featureDotProduct, 1)
		next = dots.address()
	}
	if m.Has(target.Shuffle) {
		control := newBlob(&p, subgroupControlSize, kindSubgroupControl, next)
		control.set(featureSubgroupControl, 1)
		control.set(featureFullSubgroups, 1)
		next = control.address()
	}
	var names []uintptr // of extensions
	names, next = enableMatrices(&p, *m, names, next)
	f12 := newBlob(&p, features12Size, kindFeatures12, next)
	f11 := newBlob(&p, features11Size, kindFeatures11, f12.address())
	features := newBlob(&p, features2Size, kindFeatures2, f11.address())
	f12.set(featureAddress, 1)
	f12.set(featureTimeline, 1)
	if m.HasMatrices() {
		f12.set(featureMemoryModel, 1)
	}
	on(f12, featureInt8, target.Int8)
	on(f12, featureFloat16, target.Float16)
	on(f12, feature8Bits, target.Storage8)
	on(f11, feature16Bits, target.Storage16)
	on(features, featureInt16, target.Int16)
	on(features, featureInt64, target.Int64)
	on(features, featureFloat64, target.Float64)
	priority := float32(1)
	queue := queueCreateInfo{head: head{kind: kindQueueCreate}, family: d.physical.family, count: 1,
		priorities: at(&p, &priority)}
	info := deviceCreateInfo{head: head{kind: kindDevice, next: features.address()}, queueCount: 1, queues: at(&p, &queue)}
	has, err := d.extensions("vkEnumerateDeviceExtensionProperties", d.physical.handle)
	if err != nil {
		return err
	}
	if slices.Contains(has, portabilitySubset) { // Vulkan requires it to be enabled if the device has it
		names = append(names, pinString(&p, portabilitySubset))
	}
	info.extensions, info.extensionCount = list(&p, names), uint32(len(names))
	if err := call("vkCreateDevice", d.function("vkCreateDevice"), d.physical.handle, at(&p, &info), 0,
		at(&p, &d.handle)); err != nil {
		return err
	}
	do(d.function("vkGetDeviceQueue"), d.handle, uintptr(d.physical.family), 0, at(&p, &d.queue))
	return nil
}

// prepare finds functions, and creates the layout and the cache of pipelines, which all kernels share.
func (d *Device) prepare() error {
	var p pins
	defer p.Unpin()
	for name, to := range map[string]*uintptr{
		"vkResetCommandPool": &d.resetCommands, "vkBeginCommandBuffer": &d.beginCommands,
		"vkEndCommandBuffer": &d.endCommands, "vkCmdBindPipeline": &d.bindPipeline,
		"vkCmdPushConstants": &d.pushConstants, "vkCmdDispatch": &d.dispatch, "vkCmdPipelineBarrier": &d.barrier,
		"vkCmdCopyBuffer": &d.copyBuffer,
		"vkQueueSubmit":   &d.submit, "vkWaitSemaphores": &d.waitSemaphores,
	} {
		if *to = d.function(name); *to == 0 {
			return diag.Unsupportedf("the driver has no %s", name)
		}
	}
	constants := pushConstantRange{stages: stageCompute, size: pushedBytes}
	info := layoutCreateInfo{head: head{kind: kindLayout}, rangeCount: 1, ranges: at(&p, &constants)}
	if err := d.call("vkCreatePipelineLayout", d.handle, at(&p, &info), 0, at(&p, &d.layout)); err != nil {
		return err
	}
	return d.openCache()
}

// call is callAt for a function by its name.
func (d *Device) call(name string, args ...uintptr) error {
	return d.callAt(name, d.function(name), args...)
}

// callAt calls a Vulkan function. If the device is lost, it returns ErrLost without a call.
func (d *Device) callAt(name string, function uintptr, args ...uintptr) error {
	if d.gone.Load() {
		return device.ErrLost
	}
	err := call(name, function, args...)
	if errors.Is(err, device.ErrLost) {
		d.gone.Store(true)
	}
	return err
}

// Lost reports whether the device has stopped working.
func (d *Device) Lost() bool { return d.gone.Load() }

// waitIdle waits until the device has no work.
func (d *Device) waitIdle() error {
	d.submitting.Lock()
	defer d.submitting.Unlock()
	return d.call("vkQueueWaitIdle", d.queue)
}

// destroy calls a function that destroys an object of the device; it does nothing for 0.
func (d *Device) destroy(name string, handle uint64) {
	if handle != 0 {
		do(d.function(name), d.handle, uintptr(handle), 0)
	}
}

// stop waits until a lost device has stopped, which takes a finite time by Vulkan's specification.
func (d *Device) stop() {
	d.submitting.Lock()
	defer d.submitting.Unlock()
	do(d.function("vkQueueWaitIdle"), d.queue)
}

// Name returns the device's kind and number, such as vulkan:0.
func (d *Device) Name() string { return d.physical.info.Name }

// Machine describes the device for code generation.
func (d *Device) Machine() target.Machine { return d.physical.info.Machine }

// Usage returns the memory that was requested from the driver.
func (d *Device) Usage() device.Usage {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.usage
}

// Copied returns the bytes that queues have copied between the device's memory and the host's.
func (d *Device) Copied() int64 { return d.copied.Load() }

// count adds a block to the usage, or subtracts it if sign is −1: its bytes, and those that the driver added.
func (d *Device) count(m *memory, sign int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	u := &d.usage
	if m.queues {
		u.Queues += sign * m.bytes
	} else {
		u.Memory += sign * m.bytes
	}
	u.Rounded += sign * (m.taken - m.bytes)
	u.Blocks += int(sign)
	u.Most = max(u.Most, u.Memory+u.Queues+u.Rounded)
}

// QueueBytes returns the most bytes of a queue. A queue needs no staging if the host reads the device's memory quickly.
func (d *Device) QueueBytes() int64 {
	if _, flags, _ := d.memoryType(^uint32(0), false); flags&propertyCached != 0 {
		return argumentBytes
	}
	return argumentBytes + stagingBytes
}

// Close closes the device, after its queues have been closed.
func (d *Device) Close() error {
	var err error
	if d.handle != 0 {
		if d.queue != 0 {
			d.waitIdle() // an error does not matter: closed queues have waited
		}
		err = d.closeCache()
		d.destroy("vkDestroyPipelineLayout", d.layout)
		do(d.function("vkDestroyDevice"), d.handle, 0)
		d.handle = 0
	}
	if d.instance != nil {
		d.leave()
		d.instance = nil
	}
	return err
}

// Messages returns the validation layer's messages since the last call, for all devices of the process.
func Messages() []string {
	m := &collected.messages
	m.Lock()
	defer m.Unlock()
	list := m.list
	m.list = nil
	return list
}

// String returns the device's name, product and driver.
func (d *Device) String() string {
	return fmt.Sprintf("%s, %s, %s", d.physical.info.Name, d.physical.info.Product, d.physical.info.Driver)
}
