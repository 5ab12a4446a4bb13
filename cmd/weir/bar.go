package main

import (
	"fmt"
	"os"
	"time"
)

// A bar tells on a terminal's standard error how far a long step is. Elsewhere it writes nothing.
type bar struct {
	what    string
	total   int // 0: it is not known
	done    int
	shown   bool
	next    time.Time // of the next writing
	written bool
}

// progress begins a step of so many parts, or of 0 if that is not known.
func (c *cli) progress(total int, what string) *bar {
	info, err := os.Stderr.Stat()
	b := &bar{what: what, total: total, shown: err == nil && !c.quiet && !c.verbose && info.Mode()&os.ModeCharDevice != 0}
	b.add(0)
	return b
}

// add tells that parts are done. It writes ten times a second at most.
func (b *bar) add(n int) {
	b.done += n
	now := time.Now()
	if !b.shown || now.Before(b.next) {
		return
	}
	b.next, b.written = now.Add(100*time.Millisecond), true
	if b.total > 0 {
		fmt.Fprintf(os.Stderr, "\r%s: %d of %d", b.what, b.done, b.total)
	} else {
		fmt.Fprintf(os.Stderr, "\r%s", b.what)
	}
}

// finish erases what was written.
func (b *bar) finish() {
	if b.written {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
