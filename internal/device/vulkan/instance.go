//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// instance is a Vulkan instance. Each open device has its own.
type instance struct {
	library   *library
	handle    uintptr
	messenger uint64
	messages  *messages // nil without the validation layer
}

// validationLayer is Khronos's layer that checks calls.
const validationLayer = "VK_LAYER_KHRONOS_validation"

// messages collects the validation layer's messages.
type messages struct {
	sync.Mutex
	list []string
}

var collected struct {
	sync.Once
	callback uintptr
	messages messages
}

// collect returns the address of the function that the layer calls, which collects messages.
func collect() uintptr {
	collected.Do(func() {
		collected.callback = purego.NewCallback(func(severity, kinds uintptr, data, user unsafe.Pointer) uintptr {
			message := *(*unsafe.Pointer)(unsafe.Add(data, messageAt))
			collected.messages.Lock()
			defer collected.messages.Unlock()
			collected.messages.list = append(collected.messages.list, cString(message))
			return 0
		})
	})
	return collected.callback
}

// cString returns a C string, cut to 4096 bytes; "" for nil.
func cString(p unsafe.Pointer) string {
	const mostBytes = 4096
	if p == nil {
		return ""
	}
	n := 0
	for n < mostBytes && *(*byte)(unsafe.Add(p, n)) != 0 {
		n++
	}
	return string(unsafe.Slice((*byte)(p), n))
}

// enter creates an instance, with the validation layer if validate.
func enter(validate bool) (*instance, error) {
	l, err := load()
	if err != nil {
		return nil, err
	}
	var p pins
	defer p.Unpin()
	app := applicationInfo{head: head{kind: kindApplication}, engine: pinString(&p, "weir"), api: apiVersion13}
	info := instanceCreateInfo{head: head{kind: kindInstance}, application: at(&p, &app)}
	i := &instance{library: l}
	has, err := i.extensions("vkEnumerateInstanceExtensionProperties")
	if err != nil {
		return nil, err
	}
	var layers, extensions []uintptr
	var messenger messengerCreateInfo
	if slices.Contains(has, portabilityEnumeration) {
		extensions = append(extensions, pinString(&p, portabilityEnumeration))
		info.flags = portability
	}
	if validate {
		layers = append(layers, pinString(&p, validationLayer))
		extensions = append(extensions, pinString(&p, "VK_EXT_debug_utils"))
		i.messages = &collected.messages
		messenger = messengerCreateInfo{head: head{kind: kindMessenger}, severity: severityWarning | severityError,
			kinds: messagesAll, callback: collect()}
		info.next = at(&p, &messenger) // for messages while the instance is created and destroyed
	}
	info.layers, info.layerCount = list(&p, layers), uint32(len(layers))
	info.extensions, info.extensionCount = list(&p, extensions), uint32(len(extensions))
	if err := call("vkCreateInstance", l.address(0, "vkCreateInstance"), at(&p, &info), 0, at(&p, &i.handle)); err != nil {
		return nil, withoutInstance(err)
	}
	if validate {
		if err := call("vkCreateDebugUtilsMessengerEXT", i.function("vkCreateDebugUtilsMessengerEXT"), i.handle,
			at(&p, &messenger), 0, at(&p, &i.messenger)); err != nil {
			i.leave()
			return nil, err
		}
	}
	return i, nil
}

// Extensions of drivers without all features of Vulkan, such as those on top of another interface.
const (
	portabilityEnumeration = "VK_KHR_portability_enumeration"
	portabilitySubset      = "VK_KHR_portability_subset"
)

// extensions returns the names of the extensions that a function enumerates, for the loader or for the device in of.
func (i *instance) extensions(function string, of ...uintptr) ([]string, error) {
	var p pins
	defer p.Unpin()
	var count uint32
	enumerate := i.function(function)
	if err := call(function, enumerate, append(of, 0, at(&p, &count), 0)...); err != nil {
		return nil, err
	}
	const mostExtensions = 4096
	count = min(count, mostExtensions)
	found := make([]extension, count)
	if count > 0 {
		if err := call(function, enumerate, append(of, 0, at(&p, &count), list(&p, found))...); err != nil {
			return nil, err
		}
	}
	var names []string
	for _, e := range found[:min(int(count), len(found))] {
		names = append(names, cutAtZero(e.name[:]))
	}
	return names, nil
}

// withoutInstance adds a fix to the error of an instance that could not be created.
func withoutInstance(err error) error {
	e, ok := err.(*diag.Error)
	switch {
	case !ok:
		return err
	case strings.Contains(e.Detail, resultWords[noDriver]):
		return e.WithFix(driverFix)
	case strings.Contains(e.Detail, resultWords[layerMissing]) ||
		strings.Contains(e.Detail, resultWords[extensionMissing]):
		return e.WithFix("install %s (Debian: vulkan-validationlayers)", validationLayer)
	}
	return err
}

const driverFix = "install a Vulkan driver of the GPU's maker, or one without a GPU (Debian: mesa-vulkan-drivers)"

// leave destroys the instance.
func (i *instance) leave() {
	if i.messenger != 0 {
		do(i.library.address(i.handle, "vkDestroyDebugUtilsMessengerEXT"), i.handle, uintptr(i.messenger), 0)
	}
	do(i.library.address(i.handle, "vkDestroyInstance"), i.handle, 0)
	i.handle = 0
}

// physical is a device as the driver describes it.
type physical struct {
	handle    uintptr
	info      device.Info
	family    uint32 // of queues that compute
	memory    memoryProperties
	uuid      [16]byte
	vendor    uint32
	product   uint32
	mostBlock uint64
}

// physicals returns the devices of all drivers.
func (i *instance) physicals() ([]physical, error) {
	var p pins
	defer p.Unpin()
	var count uint32
	enumerate := i.library.address(i.handle, "vkEnumeratePhysicalDevices")
	if err := call("vkEnumeratePhysicalDevices", enumerate, i.handle, at(&p, &count), 0); err != nil {
		return nil, err
	}
	const mostDevices = 64
	count = min(count, mostDevices)
	handles := make([]uintptr, count)
	if count > 0 {
		if err := call("vkEnumeratePhysicalDevices", enumerate, i.handle, at(&p, &count), list(&p, handles)); err != nil {
			return nil, err
		}
	}
	var out []physical
	for n, h := range handles[:min(int(count), len(handles))] {
		d, err := i.describe(h, n)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// blob is the bytes of a structure that drivers fill in. Offsets are in bytes.
type blob []byte

// newBlob returns a pinned structure of size bytes, with its kind and next pointer set.
func newBlob(p *pins, size int, kind uint32, next uintptr) blob {
	words := make([]uint64, (size+7)/8) // aligned
	b := blob(unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size))
	binary.NativeEndian.PutUint32(b, kind)
	*(*uintptr)(unsafe.Pointer(&b[8])) = next
	p.Pin(&words[0])
	return b
}

func (b blob) address() uintptr               { return uintptr(unsafe.Pointer(&b[0])) }
func (b blob) word(at int) uint32             { return binary.NativeEndian.Uint32(b[at:]) }
func (b blob) long(at int) uint64             { return binary.NativeEndian.Uint64(b[at:]) }
func (b blob) chars(at, n int) string         { return strings.TrimRight(cutAtZero(b[at:at+n]), " ") }
func (b blob) set(at int, v uint32)           { binary.NativeEndian.PutUint32(b[at:], v) }
func cutAtZero(b []byte) string               { s, _, _ := strings.Cut(string(b), "\x00"); return s }
func (i *instance) function(n string) uintptr { return i.library.address(i.handle, n) }

// describe returns the properties of a device; info.Why is the reason if the device cannot be used.
func (i *instance) describe(handle uintptr, number int) (physical, error) {
	var p pins
	defer p.Unpin()
	d := physical{handle: handle, info: device.Info{Name: fmt.Sprintf("%s:%d", target.VulkanName, number)}}
	// A driver knows only the structures of its version of Vulkan. All versions have VkPhysicalDeviceProperties, which is
	// the end of the larger structure here.
	first := newBlob(&p, properties2Size, kindProperties2, 0)
	do(i.function("vkGetPhysicalDeviceProperties"), handle, first.address()+propertiesAt)
	api := first.word(propertyAPI)
	d.info.Product = first.chars(propertyName, 256)
	if api < apiVersion12 {
		d.info.Machine = target.Vulkan(target.Limits{})
		d.info.Why = fmt.Sprintf("it has Vulkan %d.%d, and 1.2 is needed", api>>22&127, api>>12&1023)
		return d, nil
	}
	driver := newBlob(&p, driverSize, kindDriver, 0)
	maintenance := newBlob(&p, maintenance3Size, kindMaintenance3, driver.address())
	subgroups := newBlob(&p, subgroupSize, kindSubgroup, maintenance.address())
	floats := newBlob(&p, floatControlsSize, kindFloatControls, subgroups.address())
	largest, dots := newBlob(&p, maintenance4Size, kindMaintenance4, floats.address()),
		newBlob(&p, dotProductSize, kindDotProduct, 0)
	sizes := newBlob(&p, subgroupSizesSize, kindSubgroupSizes, largest.address())
	control := newBlob(&p, subgroupControlSize, kindSubgroupControl, dots.address())
	next, nextFeatures := floats.address(), uintptr(0)
	if api >= apiVersion13 {
		next, nextFeatures = sizes.address(), control.address()
	}
	props := newBlob(&p, properties2Size, kindProperties2, next)
	do(i.function("vkGetPhysicalDeviceProperties2"), handle, props.address())
	f12 := newBlob(&p, features12Size, kindFeatures12, nextFeatures)
	f11 := newBlob(&p, features11Size, kindFeatures11, f12.address())
	features := newBlob(&p, features2Size, kindFeatures2, f11.address())
	do(i.function("vkGetPhysicalDeviceFeatures2"), handle, features.address())
	do(i.function("vkGetPhysicalDeviceMemoryProperties"), handle, at(&p, &d.memory))

	d.info.Driver = strings.TrimSpace(driver.chars(driverName, 256) + " " + driver.chars(driverInfo, 256))
	copy(d.uuid[:], props[propertyCacheUUID:])
	d.vendor, d.product = props.word(propertyVendor), props.word(propertyDevice)
	d.mostBlock = maintenance.long(maintenanceMostAllocated)
	if most := largest.long(maintenanceMostBuffer); most > 0 {
		d.mostBlock = min(d.mostBlock, most)
	}
	limits := target.Limits{Shared: int64(props.word(limitShared)),
		Subgroup: int64(max(subgroups.word(subgroupThreads), 1)), Private: privateBytes}
	limits.Invocations = int64(min(props.word(limitInvocations), props.word(limitWidth)))
	processor := props.word(propertyType) == deviceIsProcessor
	if processor {
		limits.Private = processorPrivateBytes
	}
	if strings.HasPrefix(d.info.Driver, "llvmpipe") {
		limits.Iterations = 65535 // gallivm's loop limiter silently ends a loop after so many
	}
	var have []string
	for _, row := range []struct {
		name string
		has  bool
	}{
		{target.Int8, f12.word(featureInt8) != 0}, {target.Int16, features.word(featureInt16) != 0},
		{target.Int64, features.word(featureInt64) != 0},
		{target.Float16, f12.word(featureFloat16) != 0}, {target.Float64, features.word(featureFloat64) != 0},
		{target.Storage8, f12.word(feature8Bits) != 0}, {target.Storage16, f11.word(feature16Bits) != 0},
		{target.Dot8, dots.word(featureDotProduct) != 0},
		{target.Shuffle, shuffles(limits, subgroups, sizes, control)},
		{target.PhysicalAddress, f12.word(featureAddress) != 0},
		{target.CachedReads, processor},
		{target.KeepsSpecial, floats.word(controlSpecial) != 0}, {target.KeepsSubnormal, floats.word(controlSubnormal) != 0},
	} {
		if row.has {
			have = append(have, row.name)
		}
	}
	if slices.Contains(have, target.Shuffle) {
		matrices, err := i.matrices(handle, f12)
		if err != nil {
			return d, err
		}
		have = append(have, matrices...)
	}
	d.info.Machine = target.Vulkan(limits, have...)
	for _, h := range d.memory.heaps[:min(d.memory.heapCount, mostHeaps)] {
		if h.flags&heapDeviceLocal != 0 {
			d.info.Bytes = max(d.info.Bytes, int64(min(h.size, 1<<62)))
		}
	}
	d.family, d.info.Why = i.whyNot(&d, f12)
	return d, nil
}

// shuffles reports whether blocks of a multiple of a subgroup's threads, of at most target.ShuffleThreads, can consist
// of full subgroups of the size that limits have, whose threads read one another's values.
func shuffles(limits target.Limits, subgroups, sizes, control blob) bool {
	size := limits.Subgroup
	return subgroups.word(subgroupStages)&stageCompute != 0 && subgroups.word(subgroupOperations)&shuffleRelative != 0 &&
		control.word(featureSubgroupControl) != 0 && control.word(featureFullSubgroups) != 0 &&
		sizes.word(subgroupSizeStages)&stageCompute != 0 && size >= int64(sizes.word(leastSubgroup)) &&
		size <= int64(sizes.word(greatestSubgroup)) && size*int64(sizes.word(mostSubgroups)) >= target.ShuffleThreads
}

// privateBytes is the limit of a thread's bytes in registers: with more, too few threads are resident to hide the
// latency of memory. Vulkan does not report it.
const privateBytes = 512

// processorPrivateBytes is that limit for a device that is a processor, whose first-level cache holds the rest.
const processorPrivateBytes = 2048

// whyNot returns the family of queues that compute, or the reason why a device cannot be used.
func (i *instance) whyNot(d *physical, f12 blob) (family uint32, why string) {
	var p pins
	defer p.Unpin()
	switch {
	case f12.word(featureAddress) == 0:
		return 0, "it has no addresses of buffers (bufferDeviceAddress)"
	case f12.word(featureTimeline) == 0:
		return 0, "it has no timeline semaphores"
	}
	count := uint32(0)
	get := i.function("vkGetPhysicalDeviceQueueFamilyProperties")
	do(get, d.handle, at(&p, &count), 0)
	families := make([]queueFamily, min(count, 64))
	count = uint32(len(families))
	do(get, d.handle, at(&p, &count), list(&p, families))
	n := slices.IndexFunc(families, func(f queueFamily) bool { return f.flags&queueCompute != 0 && f.count > 0 })
	if n < 0 {
		return 0, "it has no queue that computes"
	}
	return uint32(n), ""
}
