package diag

import (
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// Go runs f on a goroutine of its own and calls ended there with f's error. A panic in f does not end the process:
// ended is given the ErrInternal that Recover makes of it, which begins with what. Faults of memory are panics there
// (Faults). Every goroutine of the module is started by Go or by a Group; internal/lint holds that.
func Go(what string, f func() error, ended func(error)) {
	go func() {
		var err error
		defer func() { ended(err) }()
		defer Recover(&err, what)
		debug.SetPanicOnFault(true)
		err = f()
	}()
}

// Group is goroutines that somebody waits for. The zero value is ready.
type Group struct {
	running sync.WaitGroup
	failed  sync.Mutex
	first   error
}

// Go runs f on a goroutine of the group's, as the function Go does.
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

// Faults makes a fault of memory a panic on this goroutine, which Recover turns into an error, instead of the process's
// end; or undoes that. It returns what was before:
//
//	defer diag.Faults(diag.Faults(true))
//
// Without it a fault in Go's own code and in machine code that Go called ends the process: nobody can recover from it.
func Faults(caught bool) (before bool) { return debug.SetPanicOnFault(caught) }

// explanation is what ExplainFaults was given.
var explanation atomic.Pointer[func(address uintptr) *Error]

// ExplainFaults has Recover ask explain about the address of each fault of memory. explain returns the error that the
// fault becomes, or nil for what is a bug.
func ExplainFaults(explain func(address uintptr) *Error) { explanation.Store(&explain) }

// faultAddress is the address that a fault of memory was at; ok is false for every other panic.
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

// explainFault is the error that a fault of memory becomes by what its address says; nil if nothing is known of it.
func explainFault(value any) *Error {
	address, ok := faultAddress(value)
	explain := explanation.Load()
	if !ok || explain == nil {
		return nil
	}
	return (*explain)(address)
}
