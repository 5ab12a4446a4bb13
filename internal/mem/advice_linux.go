package mem

import (
	"runtime"

	"github.com/weirml/weir/internal/diag"
	"golang.org/x/sys/unix"
)

// fetch reads pages [first, last), in bytes, of a file at once, instead of by a fault for every few. It is advice:
// faults read later the pages that the kernel does not read now.
func (m mapping) fetch(first, last int) { together(m.pages[first:last], unix.MADV_POPULATE_READ) }

// large asks for large pages for memory that will be written in full.
func (m mapping) large() {
	_ = unix.Madvise(m.pages, unix.MADV_HUGEPAGE)
}

// populate makes all pages present and writable at once. It is advice, as fetch is.
func (m mapping) populate() { together(m.pages, unix.MADV_POPULATE_WRITE) }

// together gives advice about pages on all processors: on each, the kernel handles a page or two in a microsecond.
func together(pages []byte, advice int) {
	// a goroutine does not pay for fewer bytes, nor does its memory on Go's heap, which a run that reads a piece of a
	// weight must not take
	const least = 8 << 20
	if n := min(runtime.GOMAXPROCS(0), 1+len(pages)/least); n > 1 {
		share(pages, advice, n)
		return
	}
	_ = unix.Madvise(pages, advice)
}

// share divides the pages among n goroutines, each of which gives the advice about its piece.
func share(pages []byte, advice, n int) {
	var group diag.Group
	for ; n > 1; n-- {
		piece := pages[:int(roundUp(int64(len(pages)/n)))]
		pages = pages[len(piece):]
		group.Go("advising the kernel", func() error { return unix.Madvise(piece, advice) })
	}
	_ = unix.Madvise(pages, advice)
	_ = group.Wait() // it is advice
}
