package mem

import (
	"encoding/binary"
	"math/bits"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// allowance is how many more allocations succeed: below zero there is no limit.
var allowance = func() *atomic.Int64 {
	n := new(atomic.Int64)
	n.Store(-1)
	return n
}()

// FailAfter makes n further allocations of the process succeed and every later one fail as if the system had refused it,
// until restore is called. It is for tests, which must not run in parallel with others that allocate.
func FailAfter(n int64) (restore func()) {
	if n < 0 {
		panic(diag.Internalf("mem: FailAfter(%d)", n))
	}
	before := allowance.Swap(n)
	return func() { allowance.Store(before) }
}

// failing counts one allocation and reports whether it must fail.
func failing() bool {
	for {
		left := allowance.Load()
		if left <= 0 {
			return left == 0
		}
		if allowance.CompareAndSwap(left, left-1) {
			return false
		}
	}
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

// Written returns how many bytes from the start of data reach up to the last one that differs from the pattern: the highest
// written byte of memory that Fill prepared, plus one, or 0 where all of it still holds the pattern. A write of the pattern's own
// value cannot be seen.
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

// poisoning is whether Close keeps the addresses of closed blocks.
var poisoning atomic.Bool

// closed holds the address ranges of blocks closed while poisoning, oldest first.
var closed struct {
	sync.Mutex
	list  []*Block
	bytes int64
}

// closedPattern fills a closed block where pages cannot be made inaccessible.
const closedPattern = 0xDB

// SetPoison says what Close does: when on, a closed block's pages go back to the system but its addresses stay reserved and
// inaccessible, so that a stale slice faults at once instead of reading what is mapped there next. On Go's heap the memory is
// overwritten instead. The oldest addresses are released once a limit of address space is reached; turning it off
// releases them all. It returns what was set before.
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
	maxClosedBytes  = int64(1) << (28 + unsafe.Sizeof(uintptr(0))/8*8) // 256 MiB of addresses, 64 GiB where they are 64 bits wide
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

// release gives back the n oldest address ranges. The caller holds the lock.
func release(n int) {
	for _, b := range closed.list[:n] {
		closed.bytes -= b.mapped
		if err := b.system.release(); err != nil {
			panic(diag.Internalf("mem: releasing the addresses of %s %s: %v", b.kind, b.label, err))
		}
	}
	closed.list = append([]*Block(nil), closed.list[n:]...)
}

// CatchFaults runs f and turns a memory fault of Go code in this goroutine into an error, where the address lies in a block:
// in a mapped file, an ErrInput naming it, for then the file was cut short after it was mapped; in a block closed under
// SetPoison, an ErrClosed; in a live one, which was written while read-only, and everywhere else, the panic goes on.
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
			if err = explain(fault.Addr()); err != nil {
				return
			}
		}
		panic(value)
	}()
	return f()
}

// explain finds the block in which an address lies and says why reading it faulted, or returns nil.
func explain(address uintptr) error {
	for _, b := range live() {
		if b.system.file && b.contains(address) {
			return diag.Inputf("the file was cut short after it was opened").AtFile(b.label).
				WithFix("replace a model by renaming a new file over it, or set WEIR_MAP=off")
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
