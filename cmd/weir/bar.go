package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// bar shows the progress of a long step on standard error, if that is a terminal.
type bar struct {
	what    string
	total   int // the number of parts; 0 if unknown
	done    int
	shown   bool
	begun   time.Time
	ended   chan bool
	lock    sync.Mutex // guards the fields below
	next    time.Time  // the time of the next update
	written bool
}

// progress begins a step of total parts; 0 if the number is unknown.
func (c *cli) progress(total int, what string) *bar {
	b := &bar{what: what, total: total, shown: !c.quiet && !c.verbose && onTerminal(os.Stderr), begun: time.Now(),
		ended: make(chan bool)}
	b.add(0)
	if b.shown && total == 0 {
		diag.Go("telling the time", func() error { b.tick(); return nil }, func(error) {})
	}
	return b
}

// onTerminal reports whether a file is a terminal.
func onTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tick writes the elapsed time once a second.
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

// add counts n finished parts. It writes at most ten times a second.
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

// finish erases the progress.
func (b *bar) finish() {
	close(b.ended)
	b.lock.Lock()
	defer b.lock.Unlock()
	b.shown = false
	if b.written {
		fmt.Fprint(os.Stderr, "\r\x1b[K")
	}
}
