package mem

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
)

// MapCode returns a block of kind Code that holds the given machine code and may be executed and read, never written.
// Its pages are written while they are writable and not executable, and executable only from then on. Processors that
// fetch instructions past their caches of data are told of the new ones before that. Its logical size is the code's.
//
// If the system has no such pages, or refuses them, as hardened systems do, the error is an ErrUnsupported whose cause
// is a *Refusal: the caller does without machine code. A lack of memory is an ErrMemory, as in Map.
func MapCode(label string, code []byte) (*Block, error) {
	if len(code) == 0 {
		panic(diag.Internalf("mem: no code for %s", label))
	}
	b := &Block{kind: Code, label: label, size: int64(len(code)), callers: callers()}
	switch {
	case refuseCode.Load():
		return nil, notExecutable(b, errInjected)
	case !executable:
		return nil, notExecutable(b, errors.ErrUnsupported)
	case Failing(Pages):
		return nil, refusal(b, errInjected)
	case len(code) > math.MaxInt-int(4*pageSize):
		return nil, refusal(b, errAddressSpace)
	}
	system, err := claimed(int64(len(code)), func() (mapping, error) { return mapPages(len(code), name(Code, label)) })
	if err != nil {
		return nil, refusal(b, err)
	}
	defer unclaim(roundUp(int64(len(code))))
	copy(system.pages, code)
	if err := refusedOr(Access, func() error {
		if err := fetchable(system.pages[:len(code)]); err != nil {
			return err
		}
		return system.protect(readExecute)
	}); err != nil {
		return nil, notExecutable(b, errors.Join(err, system.release()))
	}
	b.adopt(system)
	enter(b)
	return b, nil
}

// executable is true if the system may have executable pages, and fetchable is written for the processor.
const executable = outsideHeap && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64")

// refuseCode makes MapCode fail as if the system refused executable pages.
var refuseCode atomic.Bool

// RefuseCode makes every later MapCode of the process fail as on a system that has no executable pages, until restore
// is called. It is for tests.
func RefuseCode() (restore func()) {
	before := refuseCode.Swap(true)
	return func() { refuseCode.Store(before) }
}

// notExecutable returns the ErrUnsupported for code that could not be made executable.
func notExecutable(b *Block, cause error) error {
	return diag.Unsupportedf("executable memory on %s/%s: %v", runtime.GOOS, runtime.GOARCH, cause).
		AtTensor(b.label).WithCause(&Refusal{Wanted: b.Record(), Held: Usage(), Err: cause})
}
