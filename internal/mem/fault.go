package mem

import (
	"encoding/binary"
	"math"
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Taking is a kind of request to the system that it may refuse.
type Taking uint8

// The kinds. Takings is their number.
const (
	Pages   Taking = iota // memory: Map, MapCode, and files that are read instead of mapped
	Access                // pages that are made executable, read-only or writable
	Opening               // a file: Open, OpenIn, NewSpill
	Mapping               // a file's contents: MapFile
	Room                  // bytes written to the process's own file, or read from it
	Worker                // a thread besides the caller's; without it a run uses fewer threads, without an error
	Takings = iota
)

// Faults are injected refusals of a range of consecutive takings, as if by the system. They are for tests, which must
// not run in parallel with other tests that take something.
type Faults struct {
	first, last int64
	count       atomic.Int64
	refused     [Takings]atomic.Int64
	before      *Faults
}

// inForce are the present faults; nil outside tests.
var inForce atomic.Pointer[Faults]

// Fail refuses the process's takings number first to last, counted from 1 and from now, until Restore is called. Later
// ones are granted.
func Fail(first, last int64) *Faults {
	if first < 1 || last < first {
		panic(diag.Internalf("mem: Fail(%d, %d)", first, last))
	}
	f := &Faults{first: first, last: last, before: inForce.Load()}
	inForce.Store(f)
	return f
}

// Restore ends the refusals.
func (f *Faults) Restore() { inForce.Store(f.before) }

// Refused returns the number of refused takings of a kind.
func (f *Faults) Refused(t Taking) int64 { return f.refused[t].Load() }

// Count returns the number of takings of all kinds.
func (f *Faults) Count() int64 { return f.count.Load() }

// FailAfter makes n further takings of the process succeed and every later one fail as if the system had refused it,
// until restore is called. It is for tests, as Fail is.
func FailAfter(n int64) (restore func()) { return Fail(n+1, math.MaxInt64).Restore }

// Failing counts one taking and reports whether it must fail. It is for rooms that take something from the system
// themselves.
func Failing(t Taking) bool {
	f := inForce.Load()
	if f == nil {
		return false
	}
	if n := f.count.Add(1); n < f.first || n > f.last {
		return false
	}
	f.refused[t].Add(1)
	return true
}

// refusedOr counts a taking and calls do, unless the taking must fail: then it returns the injected error.
func refusedOr(t Taking, do func() error) error {
	if Failing(t) {
		return errInjected
	}
	return do()
}

// Fill sets every byte of the block to the pattern.
func Fill(b *Block, pattern byte) { FillBytes(b.Bytes(), pattern) }

// FillBytes sets every byte of data to the pattern.
func FillBytes(data []byte, pattern byte) {
	if len(data) == 0 {
		return
	}
	data[0] = pattern
	step := min(len(data), 1<<16)
	for done := 1; done < step; done *= 2 {
		copy(data[done:step], data[:done])
	}
	for done := step; done < len(data); done += step {
		copy(data[done:], data[:step])
	}
}

// Written returns the number of bytes from the start of data up to the last one that differs from the pattern: the
// highest written byte of memory that Fill prepared, plus one, or 0 if all of it still holds the pattern. A write of
// the pattern's own value cannot be seen.
func Written(data []byte, pattern byte) int64 {
	word := uint64(pattern) * 0x0101010101010101
	n := len(data)
	for n >= 8 {
		if differs := binary.LittleEndian.Uint64(data[n-8:n]) ^ word; differs != 0 {
			return int64(n - bits.LeadingZeros64(differs)/8)
		}
		n -= 8
	}
	for n > 0 && data[n-1] == pattern {
		n--
	}
	return int64(n)
}

// poisoning makes Close keep the addresses of closed blocks.
var poisoning atomic.Bool

// closed holds the address ranges of blocks closed while poisoning, oldest first.
var closed struct {
	sync.Mutex
	list  []*Block
	bytes int64
}

// closedPattern fills a closed block if pages cannot be made inaccessible.
const closedPattern = 0xDB

// SetPoison says what Close does: when on, a closed block's pages go back to the system but its addresses stay reserved
// and inaccessible, so that a stale slice faults at once instead of reading what is mapped there next. On Go's heap the
// memory is overwritten instead. The oldest addresses are released once a limit of address space is reached; turning it
// off releases them all. It returns the setting before.
func SetPoison(on bool) (before bool) {
	before = poisoning.Swap(on)
	if !on {
		closed.Lock()
		defer closed.Unlock()
		release(len(closed.list))
	}
	return before
}

const (
	maxClosedBlocks = 1 << 13
	// 256 MiB of addresses, 64 GiB where they are 64 bits wide
	maxClosedBytes = int64(1) << (28 + unsafe.Sizeof(uintptr(0))/8*8)
)

// quarantine gives a closed block's pages back and keeps its addresses.
func quarantine(b *Block) error {
	if err := b.system.retire(); err != nil || !outsideHeap {
		return err
	}
	closed.Lock()
	defer closed.Unlock()
	closed.list = append(closed.list, b)
	closed.bytes += b.mapped
	surplus := 0
	for bytes := closed.bytes; len(closed.list)-surplus > maxClosedBlocks || bytes > maxClosedBytes; surplus++ {
		bytes -= closed.list[surplus].mapped
	}
	release(surplus)
	return nil
}

// release gives back the n oldest address ranges. A range that the system refuses to take, as it may if the process has
// as many ranges as it can, stays reserved until the next call. The caller holds the lock.
func release(n int) {
	var kept []*Block
	for _, b := range closed.list[:n] {
		if b.system.release() != nil {
			kept = append(kept, b)
		} else {
			closed.bytes -= b.mapped
		}
	}
	closed.list = append(kept, closed.list[n:]...)
}

// CatchFaults runs f and turns a memory fault of Go code in this goroutine into an error, if the address lies in a
// mapped file (ErrInput with its name: the file was cut short after it was mapped) or in a block closed under SetPoison
// (ErrClosed). At other addresses, such as a live block that was written while read-only, the panic goes on.
func CatchFaults(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		fault, ok := value.(interface {
			runtime.Error
			Addr() uintptr
		})
		if ok {
			if known := explain(fault.Addr()); known != nil {
				err = known
				return
			}
		}
		panic(value)
	}()
	return f()
}

func init() { diag.ExplainFaults(explain) }

// explain finds the block in which an address lies and says why reading it faulted, or returns nil.
func explain(address uintptr) *diag.Error {
	for _, b := range live() {
		if b.system.file && b.contains(address) {
			return b.cutShort()
		}
	}
	closed.Lock()
	defer closed.Unlock()
	for _, b := range closed.list {
		if b.contains(address) {
			return diag.New(diag.ErrClosed, "memory of %s %s was used after it was closed", b.kind, b.label)
		}
	}
	return nil
}

// contains reports whether an address lies in the block's pages, open or closed.
func (b *Block) contains(address uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(b.system.pages)))
	return address >= first && address-first < uintptr(len(b.system.pages))
}
