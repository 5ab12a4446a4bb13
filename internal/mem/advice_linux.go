package mem

import (
	"runtime"

	"github.com/weirml/weir/internal/diag"
	"golang.org/x/sys/unix"
)

// fetch reads pages [first, last), in bytes, of a file at once, instead of by a fault for every few. It is advice: what
// the kernel does not do now, faults do later.
func (m mapping) fetch(first, last int) { together(m.pages[first:last], unix.MADV_POPULATE_READ) }

// large asks for large pages under memory that will be touched from end to end.
func (m mapping) large() {
	_ = unix.Madvise(m.pages, unix.MADV_HUGEPAGE)
}

// populate makes all pages present and writable at once. It is advice, as fetch is.
func (m mapping) populate() { together(m.pages, unix.MADV_POPULATE_WRITE) }

// together gives advice about pages on as many processors as there are: the kernel works at a page or two in a
// microsecond on each.
func together(pages []byte, advice int) {
	// a goroutine's part is not worth one below that, nor what Go's heap gives for it: a run that reads a piece of a
	// weight takes nothing of that
	const least = 8 << 20
	if n := min(runtime.GOMAXPROCS(0), 1+len(pages)/least); n > 1 {
		share(pages, advice, n)
		return
	}
	_ = unix.Madvise(pages, advice)
}

func share(pages []byte, advice, n int) {
	var parts diag.Group
	for ; n > 1; n-- {
		part := pages[:int(roundUp(int64(len(pages)/n)))]
		pages = pages[len(part):]
		parts.Go("advising the kernel", func() error { return unix.Madvise(part, advice) })
	}
	_ = unix.Madvise(pages, advice)
	_ = parts.Wait() // it is advice
}
