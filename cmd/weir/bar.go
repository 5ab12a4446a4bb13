package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// A bar tells on a terminal's standard error how far a long step is. Elsewhere it writes nothing.
type bar struct {
	what    string
	total   int // 0: it is not known
	done    int
	shown   bool
	begun   time.Time
	ended   chan bool
	lock    sync.Mutex // of what follows
	next    time.Time  // of the next writing
	written bool
}

// progress begins a step of so many parts, or of 0 if that is not known.
func (c *cli) progress(total int, what string) *bar {
	b := &bar{what: what, total: total, shown: !c.quiet && !c.verbose && onTerminal(os.Stderr), begun: time.Now(),
		ended: make(chan bool)}
	b.add(0)
	if b.shown && total == 0 {
		diag.Go("telling the time", func() error { b.tick(); return nil }, func(error) {})
	}
	return b
}

// onTerminal reports whether a person reads a file.
func onTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tick writes once a second how long it has taken.
func (b *bar) tick() {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			b.add(0)
		case <-b.ended:
			return
		}
	}
}

// add tells that parts are done. It writes ten times a second at most.
func (b *bar) add(n int) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.done += n
	now := time.Now()
	if !b.shown || now.Before(b.next) {
		return
	}
	b.next, b.written = now.Add(100*time.Millisecond), true
	if b.total > 0 {
		fmt.Fprintf(os.Stderr, "\r%s: %d of %d", b.what, b.done, b.total)
	} else if passed := now.Sub(b.begun).Round(time.Second); passed > 0 {
		fmt.Fprintf(os.Stderr, "\r%s: %s", b.what, passed)
	} else {
		fmt.Fprintf(os.Stderr, "\r%s", b.what)
	}
}

// finish erases what was written.
func (b *bar) finish() {
	close(b.ended)
	b.lock.Lock()
	defer b.lock.Unlock()
	b.shown = false
	if b.written {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
