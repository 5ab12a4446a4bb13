// Package device is what the executor knows of devices that have memory of their own: memory by address, and queues of
// work on it.
package device

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/weirml/weir/internal/diag"
	"github.com/weirml/weir/internal/target"
)

// ErrLost is the error of everything that is asked of a device that has stopped working: what was in its memory is
// gone. A device that is opened anew may work.
var ErrLost = errors.New("the device is lost")

// Device is an open device. Any goroutine may use it.
type Device interface {
	// Name is the kind and the number, as "vulkan:0".
	Name() string
	// Machine is what code for the device may use.
	Machine() target.Machine
	// Allocate takes memory, whose contents are undefined. What is refused is an error of kind diag.ErrMemory.
	Allocate(label string, bytes int64) (Memory, error)
	// Load makes a kernel ready to be launched.
	Load(k target.Blocks) (Kernel, error)
	// NewQueue makes a queue. It takes QueueBytes of the device's memory, at most, for what is on its way to kernels and
	// between the memories.
	NewQueue() (Queue, error)
	QueueBytes() int64
	// Usage is what the device's driver was asked for.
	Usage() Usage
	// Copied is the bytes that Upload and Download have copied between the device's memory and the host's, of all queues.
	Copied() int64
	// Lost reports whether the device has stopped working: everything that is asked of it returns ErrLost.
	Lost() bool
	// Close gives everything back; queues, kernels and memory must have been closed. It must not be used afterwards.
	Close() error
}

// Usage is the bytes of a device's memory that its driver was asked for: of Allocate's memory, and of what queues need
// for themselves. The driver may round each block up.
type Usage struct {
	Memory, Queues int64
	Rounded        int64 // what it took beyond them
	Most           int64 // all together, at most
	Blocks         int   // allocations that are not closed
}

// Memory is a block of a device's memory.
type Memory interface {
	Address() uint64 // of its first byte, for kernels: a multiple of 64
	Bytes() int64
	Close() error
}

// Kernel is a kernel that a device has ready.
type Kernel interface {
	Close() error
}

// Queue is an order of work: each thing begins when those before it have ended, and sees what they wrote. One goroutine
// uses it at a time. A value that fails its check, or a device that refuses work, is told by the next call that finds
// out and by each one after it, up to Wait and with it. What was given to the queue meanwhile may not have been done.
type Queue interface {
	// Launch has a kernel run over operands and scratch, given by their addresses. It does not wait.
	Launch(k Kernel, operands []uint64, dims []int64, scratch uint64) error
	// Upload copies bytes to a device's memory. From may be changed when it returns.
	Upload(to Memory, at int64, from []byte) error
	// Download copies bytes from a device's memory: it waits for all that was given to the queue before. After an error,
	// to may hold anything.
	Download(to []byte, from Memory, at int64) error
	// Copy copies bytes between blocks of the device's memory, which do not overlap. It does not wait.
	Copy(to Memory, at int64, from Memory, begin, bytes int64) error
	// Wait ends when all that was given to the queue has ended, whatever becomes of ctx. Its error is that of a launch's
	// value that failed its check, or ErrLost; where there is neither and ctx has ended, the context's.
	Wait(ctx context.Context) error
	// Bytes is what the queue has taken of the device's memory by now: see NewQueue.
	Bytes() int64
	// Close waits, and gives back what the queue has.
	Close() error
}

// Info describes a device that is there.
type Info struct {
	Name    string // as Device.Name
	Product string // as its maker names it
	Driver  string
	Machine target.Machine
	Bytes   int64  // of its largest memory
	Why     string // it is not used; empty if it can be
}

// Kind is a way to reach devices.
type Kind struct {
	Name string
	List func() ([]Info, error)
	Open func(number int) (Device, error)
}

var kinds struct {
	sync.Mutex
	list []Kind
	open []*shared
}

// Register makes a kind of device known. It is called by packages that are imported for that.
func Register(k Kind) {
	kinds.Lock()
	defer kinds.Unlock()
	kinds.list = append(kinds.list, k)
}

// Kinds are the kinds that are known.
func Kinds() []Kind {
	kinds.Lock()
	defer kinds.Unlock()
	return slices.Clone(kinds.list)
}

// Lookup is the kind of a name.
func Lookup(name string) (Kind, error) {
	for _, k := range Kinds() {
		if k.Name == name {
			return k, nil
		}
	}
	return Kind{}, diag.Unsupportedf("target %s, which is not in this build", name).
		WithFix(`in a program, import _ "github.com/weirml/weir/%s"; the command has it if it is built by `+
			`go build -tags %s ./cmd/weir`, name, name)
}
