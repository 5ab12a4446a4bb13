//go:build ((linux && !android) || (darwin && !ios) || windows) && (amd64 || arm64)

package vulkan

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/weirml/weir/internal/device"
	"github.com/weirml/weir/internal/diag"
)

// library is the system's Vulkan loader.
type library struct {
	instanceAddress uintptr // vkGetInstanceProcAddr
}

var loaded struct {
	sync.Mutex
	library *library
	err     error
}

// load loads the system's Vulkan loader, once.
func load() (*library, error) {
	loaded.Lock()
	defer loaded.Unlock()
	if loaded.library != nil || loaded.err != nil {
		return loaded.library, loaded.err
	}
	var first error
	for _, name := range libraryNames {
		address, err := openLibrary(name)
		if err == nil {
			loaded.library = &library{address}
			return loaded.library, nil
		}
		if first == nil {
			first = err
		}
	}
	loaded.err = diag.Unsupportedf("there is no Vulkan here: %v", first).
		WithFix("install the system's Vulkan loader (Debian: libvulkan1) and a driver (Debian: mesa-vulkan-drivers)")
	return nil, loaded.err
}

// address returns the address of a function; 0 if there is none of that name.
func (l *library) address(instance uintptr, name string) uintptr {
	chars := append([]byte(name), 0)
	p, _, _ := purego.SyscallN(l.instanceAddress, instance, uintptr(unsafe.Pointer(&chars[0])))
	runtime.KeepAlive(chars)
	return p
}

// The results of calls.
const (
	timeout          = 2
	outOfHost        = -1
	outOfDevice      = -2
	failed           = -3
	lost             = -4
	layerMissing     = -6
	extensionMissing = -7
	noDriver         = -9
	tooManyBlocks    = -10
)

// resultWords has the messages of results.
var resultWords = map[int32]string{
	outOfHost: "out of host memory", outOfDevice: "out of device memory", failed: "initialization failed",
	lost: "device lost",
	-5:   "memory map failed", layerMissing: "layer not present", extensionMissing: "extension not present",
	-8: "feature not present", noDriver: "no compatible driver", tooManyBlocks: "too many objects",
	-13: "unknown", -1000257000: "invalid address",
}

// resultError returns the error of a failed call: device.ErrLost, or ErrMemory or ErrUnsupported with the call's name.
func resultError(call string, result int32) error {
	word, known := resultWords[result]
	if !known {
		word = fmt.Sprintf("result %d", result)
	}
	switch result {
	case lost:
		return fmt.Errorf("%s: %w", call, device.ErrLost)
	case outOfHost, outOfDevice, tooManyBlocks, -5:
		return diag.New(diag.ErrMemory, "%s: %s", call, word)
	}
	return diag.Unsupportedf("%s: %s", call, word)
}

// inject, for tests, is called before each call that can fail, if it is not nil, and can replace the call by a result.
var inject func(call string) (result int32, fails bool)

// call calls a function that returns a result. The error is device.ErrLost, errTimeout or a *diag.Error.
func call(name string, function uintptr, args ...uintptr) error {
	result, fails := int32(0), false
	if inject != nil {
		result, fails = inject(name)
	}
	if !fails {
		if function == 0 {
			return diag.Unsupportedf("the driver has no %s", name)
		}
		r, _, _ := purego.SyscallN(function, args...)
		result = int32(r)
	}
	switch {
	case result == timeout:
		return errTimeout
	case result < 0: // other positive results are kinds of success
		return resultError(name, result)
	}
	return nil
}

var errTimeout = errors.New("timeout")

// do calls a function without an error result, and returns the value that it returns.
func do(function uintptr, args ...uintptr) uintptr {
	r, _, _ := purego.SyscallN(function, args...)
	return r
}

// pins pins the memory that a call reads and writes.
type pins struct{ runtime.Pinner }

// at pins a variable, and returns its address.
func at[T any](p *pins, x *T) uintptr {
	p.Pin(x)
	return uintptr(unsafe.Pointer(x))
}

// list pins a slice, and returns the address of its first element; 0 for an empty slice.
func list[T any](p *pins, x []T) uintptr {
	if len(x) == 0 {
		return 0
	}
	p.Pin(&x[0])
	return uintptr(unsafe.Pointer(&x[0]))
}

// pinString returns the address of a pinned copy of a string, with a zero byte at its end.
func pinString(p *pins, s string) uintptr { return list(p, append([]byte(s), 0)) }
