package diag

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Go runs f on a new goroutine and calls ended there with f's error. A panic in f does not end the process: ended gets
// the ErrInternal that Recover makes of it, which begins with what. Memory faults are panics on that goroutine (see
// Faults). Every goroutine of the module is started by Go or by a Group; internal/lint enforces that.
func Go(what string, f func() error, ended func(error)) {
	go func() {
		var err error
		defer func() { ended(err) }()
		defer Recover(&err, what)
		debug.SetPanicOnFault(true)
		err = f()
	}()
}

// Group is a set of goroutines that can be waited for. The zero value is ready.
type Group struct {
	running sync.WaitGroup
	failed  sync.Mutex
	first   error
}

// Go runs f on a new goroutine of the group, as the function Go does.
func (g *Group) Go(what string, f func() error) {
	g.running.Add(1)
	Go(what, f, func(err error) {
		if err != nil {
			g.failed.Lock()
			if g.first == nil {
				g.first = err
			}
			g.failed.Unlock()
		}
		g.running.Done()
	})
}

// Wait waits until all goroutines of the group have ended, and returns the error of the first that failed.
func (g *Group) Wait() error {
	g.running.Wait()
	return g.first
}

// Faults makes memory faults on this goroutine panics, which Recover turns into errors, instead of ending the process;
// or undoes that. It returns the previous setting:
//
//	defer diag.Faults(diag.Faults(true))
//
// Without it a fault in Go code, or in machine code called from Go, ends the process, and cannot be recovered from.
func Faults(caught bool) (before bool) { return debug.SetPanicOnFault(caught) }

// explanation is the argument of ExplainFaults.
var explanation atomic.Pointer[func(address uintptr) *Error]

// ExplainFaults makes Recover call explain with the address of each memory fault. explain returns the error that the
// fault becomes, or nil if the fault is a bug.
func ExplainFaults(explain func(address uintptr) *Error) { explanation.Store(&explain) }

// faultAddress returns the address of a memory fault; ok is false for every other panic.
func faultAddress(value any) (address uintptr, ok bool) {
	fault, ok := value.(interface {
		runtime.Error
		Addr() uintptr
	})
	if !ok {
		return 0, false
	}
	return fault.Addr(), true
}

// explainFault returns the error that a memory fault becomes, as explain says; nil if it does not know the address.
func explainFault(value any) *Error {
	address, ok := faultAddress(value)
	explain := explanation.Load()
	if !ok || explain == nil {
		return nil
	}
	return (*explain)(address)
}
