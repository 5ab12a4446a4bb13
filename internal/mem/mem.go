// Package mem is the only room that asks the system for memory, and the ledger of what it was given.
//
// A Block is page-aligned, zeroed memory outside Go's heap, or a read-only view of a file. The ledger holds every live
// block: its kind, label, logical size, mapped size and the line that asked for it; Usage and Live read it, and
// KernelBytes asks the kernel the same question, so that the two can be compared. GOMEMLIMIT and Go's heap profile do
// not see this memory.
//
// If the system has no mapping calls (js/wasm, plan9), blocks are 64-byte-aligned pieces of Go's heap; OutsideHeap
// tells.
//
// # Guard pages
//
// On systems with mapping calls an inaccessible page stands before and after every block but a file's. It costs address
// space, no memory, and is in no count. It makes an overrun past the last page fault at once (past the last byte: see
// MapGuarded), and it keeps the kernel from merging neighbouring blocks into one mapping, so that a block is a whole
// number of lines in /proc/self/smaps.
//
// # Files that change while they are mapped
//
// A file cut short after MapFile faults where it is read (SIGBUS). The rule for users is to replace a model by rename,
// never in place; WEIR_MAP=off reads the file instead of mapping it. Code in Go that reads a mapped file (an importer,
// a packing step) does so inside CatchFaults, or between diag.Faults and diag.Recover, and gets an ErrInput naming the
// file; so does machine code on Unix, since it is a leaf that Go called. Unchanged tells of edits.
package mem

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// Kind is the purpose of a block. The ledger counts each kind separately.
type Kind uint8

// The kinds, in the order of the certificate's sum; Kinds is their number.
const (
	Weights Kind = iota // a model's constants
	Arena               // intermediate results of one call
	Outputs             // results handed to the caller
	Scratch             // one worker's workspace
	Code                // machine code (see MapCode)
	Tensors             // arrays of the user
	File                // a file's contents, mapped or read
	Foreign             // memory that other code made and lends: in no sum of kinds (see Lent)
	Kinds   = iota
)

var kindNames = [Kinds]string{"weights", "arena", "outputs", "scratch", "code", "tensors", "file", "foreign"}

// String returns the kind's name, in lower case.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Block is one piece of memory and its line in the ledger. Its methods may be called by any goroutine, but Close must
// not run while the memory is in use: the block does not know who holds a slice of it.
type Block struct {
	kind    Kind
	label   string
	size    int64
	mapped  int64
	callers []uintptr
	owner   any // the ledger's lock guards it
	live    bool
	older   *Block // neighbours in the ledger's list, which its lock guards
	newer   *Block
	counted counted
	keep    *keeper    // of a mapped file of which ranges can be mapped; else nil
	pages   *SpillFile // of MapPages: the file; else nil
	grows   bool       // see MapGrowing
	pinned  int64      // see Pin; the ledger's lock guards it
	// reclaimable: see Reclaimable
	reclaimable bool
	system      mapping
	data        atomic.Pointer[byte] // nil once closed, and for an empty block
	closed      atomic.Bool
	pool        *Pool // the pool that its piece is from; nil if it has a mapping of its own
	piece       *piece
	release     func()  // of Lent: gives the memory back to the code that made it; else nil
	account     Account // see Charge; nil: none
}

// Map returns a zeroed block of the given logical size. The kernel hands out its pages as they are touched, except for
// arenas and scratch, which have them from the start. Zero bytes are legal and take nothing. A refusal is an ErrMemory
// whose text lists what the process already holds.
func Map(kind Kind, label string, bytes int64) (*Block, error) {
	if kind >= Kinds {
		panic(diag.Internalf("mem: no kind %d", kind))
	}
	if bytes < 0 {
		return nil, diag.Inputf("a size of %d bytes is negative", bytes).AtTensor(label)
	}
	b := &Block{kind: kind, label: label, size: bytes, callers: callers()}
	if Failing(Pages) {
		return nil, refusal(b, errInjected)
	}
	if bytes > 0 {
		if bytes > math.MaxInt-4*pageSize {
			return nil, refusal(b, errAddressSpace)
		}
		system, err := claimed(bytes, func() (mapping, error) { return mapPages(int(bytes), name(kind, label)) })
		if err != nil {
			return nil, refusal(b, err)
		}
		defer unclaim(roundUp(bytes))
		b.adopt(system)
		switch {
		case kind == Weights: // they are written in full
			system.large()
		// not in large pages, for which the kernel may have to move memory first
		case bytes <= Ready && (kind == Arena || kind == Scratch):
			system.populate()
		}
	}
	enter(b)
	return b, nil
}

// MapGuarded is Map for finding faults: the block's last byte is the last of its page, so that an access one byte
// further faults at once. Its address is aligned to the greatest power of two, up to a page, that divides its size. It
// is Map if there are no guard pages.
func MapGuarded(kind Kind, label string, bytes int64) (*Block, error) {
	b, err := Map(kind, label, bytes)
	if err == nil && outsideHeap && bytes > 0 {
		b.data.Store(&b.system.pages[b.mapped-bytes])
	}
	return b, err
}

// Ready is the largest size of working memory that gets its pages at once: a fault for each page would make a first run
// take half as long again. A larger block may be planned for a bound that few runs reach.
const Ready = 64 << 20

// adopt makes the system's mapping the block's memory.
func (b *Block) adopt(m mapping) {
	b.system = m
	b.mapped = int64(len(m.pages))
	b.data.Store(unsafe.SliceData(m.pages))
}

// Kind returns the block's purpose.
func (b *Block) Kind() Kind { return b.kind }

// Label returns the name it was given.
func (b *Block) Label() string { return b.label }

// Size returns the logical size in bytes, as it was asked for; it outlives Close.
func (b *Block) Size() int64 { return b.size }

// Mapped returns the bytes of pages taken from the system: Size rounded up to whole pages, without guard pages. For a
// file it is the bytes that Keep left, for a growing block the bytes that it has.
func (b *Block) Mapped() int64 {
	if b.keep == nil && !b.grows {
		return b.mapped
	}
	ledger.Lock()
	defer ledger.Unlock()
	return b.counted.mapped
}

// Bytes returns the block's memory, of length and capacity Size; nil after Close. A slice taken before Close is dead
// after it: reading it faults, or reads memory that was mapped there since (see SetPoison).
func (b *Block) Bytes() []byte {
	first := b.data.Load()
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, int(b.size))
}

// Pointer returns the address of the first byte; nil after Close and for an empty block.
func (b *Block) Pointer() unsafe.Pointer { return unsafe.Pointer(b.data.Load()) }

// Close gives the memory back and removes the block from the ledger. Later calls do nothing.
func (b *Block) Close() error {
	if b.closed.Swap(true) {
		return nil
	}
	if b.account != nil {
		defer Return(b.account, b.mapped)
	}
	had := b.data.Swap(nil) != nil
	// its bytes are added to the pool's before they leave the block's count, so that no limit is exceeded meanwhile
	if b.pool != nil {
		defer leave(b)
		return b.pool.put(b.piece)
	}
	leave(b)
	if b.release != nil {
		b.release()
		return nil
	}
	if b.keep != nil {
		b.keep.close()
	}
	if !had {
		return nil
	}
	if poisoning.Load() && !b.system.file {
		return quarantine(b)
	}
	err := b.system.release()
	if b.pages != nil {
		err = errors.Join(err, b.pages.remove())
	}
	if err != nil {
		return fmt.Errorf("mem: giving back %s %s: %w", b.kind, b.label, err)
	}
	return nil
}

// Protect makes the block read-only, or writable again. It has no effect on Go's heap; a file and
// machine code are always read-only.
func (b *Block) Protect(readonly bool) error {
	switch {
	case b.closed.Load():
		return diag.New(diag.ErrClosed, "the memory of %s %s was given back", b.kind, b.label)
	case b.size == 0 || readonly && (b.system.file && b.pages == nil || b.kind == Code):
		return nil
	case b.system.file && b.pages == nil:
		return diag.Inputf("a mapped file is read-only").AtFile(b.label)
	case b.pool != nil:
		panic(diag.Internalf("mem: %s shares its pages with others", b.label))
	case b.kind == Code:
		panic(diag.Internalf("mem: machine code %s is not to be written", b.label))
	}
	access := readWrite
	if readonly {
		access = readOnly
	}
	if err := refusedOr(Access, func() error { return b.system.protect(access) }); err != nil {
		return diag.New(diag.ErrMemory, "the system did not protect %s %s: %v", b.kind, b.label, err).WithCause(err)
	}
	return nil
}

// DontNeed tells the system that the pages holding bytes [off, off+n) of a mapped file need not stay in memory; they
// come back from the file when they are read again. It does nothing to other blocks, whose contents it would destroy.
func (b *Block) DontNeed(off, n int64) {
	if off < 0 || off > b.size || n < 0 || n > b.size-off {
		panic(diag.Internalf("mem: DontNeed(%d, %d) of a block of %d bytes", off, n, b.size))
	}
	if n == 0 || !b.system.file || b.closed.Load() {
		return
	}
	b.system.drop(b.pagesOf(off, n))
}

// Discard gives the system the pages that lie entirely in piece, a range of the block's bytes: their contents are lost.
// The block still counts them, and must not be a file's.
func (b *Block) Discard(piece []byte) {
	if len(piece) == 0 || b.system.file || !outsideHeap || b.pool != nil || b.closed.Load() {
		return
	}
	at := int64(uintptr(unsafe.Pointer(unsafe.SliceData(piece))) - uintptr(b.Pointer()))
	if at < 0 || at > b.size-int64(len(piece)) {
		panic(diag.Internalf("mem: %d bytes at %d to be discarded of a block of %d", len(piece), at, b.size))
	}
	if first, last := roundUp(at), (at+int64(len(piece)))/pageSize*pageSize; first < last {
		b.system.drop(int(first), int(last))
	}
}

// fetch is the opposite of DontNeed.
func (b *Block) fetch(off, n int64) {
	if n > 0 && b.system.file && !b.closed.Load() {
		b.system.fetch(b.pagesOf(off, n))
	}
}

// pagesOf returns the byte range of the pages that hold bytes [off, off+n).
func (b *Block) pagesOf(off, n int64) (first, last int) {
	return int(off / pageSize * pageSize), int(min(roundUp(off+n), b.mapped))
}

// pageSize is the system's page size in bytes.
var pageSize = int64(os.Getpagesize())

// PageSize returns the size of a page in bytes, to which Mapped is rounded.
func PageSize() int64 { return pageSize }

// roundUp rounds a size up to whole pages. The size must leave room for it.
func roundUp(n int64) int64 { return (n + pageSize - 1) / pageSize * pageSize }

// WholePages returns the bytes that Map asks the system for, for a block of so many bytes.
func WholePages(bytes int64) int64 { return roundUp(bytes) }

// OutsideHeap reports whether blocks lie outside Go's heap on this system.
func OutsideHeap() bool { return outsideHeap }

// access is the kind of access that a page allows.
type access uint8

const (
	noAccess access = iota
	readOnly
	readWrite
	readExecute
)

// mapping is memory from the system. pages is the payload, rounded up to whole pages if there are pages; reserved also
// holds the guard pages.
type mapping struct {
	pages    []byte
	reserved []byte
	file     bool // a view of a file, which is given back by another call on some systems
}
