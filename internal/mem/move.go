package mem

import (
	"unsafe"

	"github.com/weirml/weir/internal/diag"
)

// movePiece is the number of bytes that Move copies before it lets the copied pages go.
const movePiece = 4 << 20

// Move copies from into to, of the same length. If from lies in a mapped file, the file's pages are let go piece by
// piece, so that the two never both stay in memory.
func Move(to, from []byte) {
	file, at := fileOf(from)
	for done := 0; done < len(from); {
		n := min(movePiece, len(from)-done)
		if file != nil {
			file.fetch(at+int64(done), int64(n))
		}
		copy(to[done:done+n], from[done:done+n])
		if file != nil {
			file.DontNeed(at+int64(done), int64(n))
		}
		done += n
	}
}

// Copy copies a piece at a time, since Go's collector waits for each. Between them it calls ask, if not nil, whether to
// go on; its error ends the copy.
func Copy(to, from []byte, ask func() error) error {
	n := min(len(to), len(from))
	for at := 0; at < n; at += copyPiece {
		if at > 0 && ask != nil {
			if err := ask(); err != nil {
				return err
			}
		}
		end := min(at+copyPiece, n)
		copy(to[at:end], from[at:end])
	}
	return nil
}

// copyPiece takes less than a millisecond, page faults included.
const copyPiece = 1 << 20

// Fetch brings the pages of mapped files that hold these data into memory, and into the process's page table, at once;
// adjacent data with one call. It does nothing to other memory. It is advice: pages that are not fetched now come when
// they are read, a few at a time.
func Fetch(data [][]byte) {
	var side *Block
	var first, end int64
	flush := func() {
		if side != nil {
			side.fetch(first, end-first)
		}
	}
	for _, d := range data {
		file, at := fileOf(d)
		if file == nil {
			continue
		}
		if file != side || at < first || at > end+pageSize {
			flush()
			side, first, end = file, at, at
		}
		end = max(end, at+int64(len(d)))
	}
	flush()
}

// Read runs a function that reads data of a mapped file, which may be larger than the memory. A failed read is an
// error: an ErrInput if the file was cut short.
func Read(data []byte, read func() error) error {
	if Failing(Room) {
		return diag.New(diag.ErrMemory, "%s of weights that were left in their file: %v", FormatBytes(int64(len(data))),
			errInjected).WithCause(errInjected)
	}
	return CatchFaults(read)
}

// Forget lets go of the pages of a mapped file that hold data; it does nothing to other memory.
func Forget(data []byte) {
	if file, at := fileOf(data); file != nil {
		file.DontNeed(at, int64(len(data)))
	}
}

// fileOf returns the mapped file that data lies in, and the offset there; nil if it lies in none.
func fileOf(data []byte) (*Block, int64) {
	if len(data) == 0 {
		return nil, 0
	}
	address := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	ledger.Lock()
	defer ledger.Unlock()
	for b := ledger.oldest; b != nil; b = b.newer {
		if b.kind != File || b.closed.Load() || b.size == 0 {
			continue
		}
		base := uintptr(b.Pointer())
		if address >= base && int64(len(data)) <= b.size && int64(address-base) <= b.size-int64(len(data)) {
			return b, int64(address - base)
		}
	}
	return nil, 0
}
