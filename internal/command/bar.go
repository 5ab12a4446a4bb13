package command

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/weirml/weir/internal/diag"
)

// The columns of a line of progress, of its bar, and of a file's name in it.
const (
	lineColumns = 79
	barColumns  = 20
	nameColumns = 20
)

// bar shows the progress of a long step on a terminal.
type bar struct {
	to    io.Writer // nil: it shows nothing
	what  string
	begun time.Time
	ended chan bool

	lock    sync.Mutex // guards the fields below
	done    int        // parts that are finished
	total   int        // the number of parts; 0 if unknown
	part    string     // the name of the part under way; "" if parts have no names
	next    time.Time  // the time of the next update
	written bool
}

// progress begins a step of total parts; 0 if the number is unknown. It shows nothing if standard error is no terminal,
// and with --json, --quiet and --verbose.
func (c *cli) progress(total int, what string) *bar {
	b := &bar{to: c.terminal, what: what, total: total, begun: time.Now(), ended: make(chan bool)}
	if c.json || c.quiet || c.verbose {
		b.to = nil
	}
	b.draw()
	if b.to != nil {
		diag.Go("telling the time", func() error { b.tick(); return nil }, func(error) {})
	}
	return b
}

// onTerminal reports whether a file is a terminal.
func onTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// tick draws once a second, so that the time passes.
func (b *bar) tick() {
	ticks := time.NewTicker(time.Second)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			b.lock.Lock()
			b.draw()
			b.lock.Unlock()
		case <-b.ended:
			return
		}
	}
}

// add counts n finished parts.
func (b *bar) add(n int) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.done += n
	b.draw()
}

// reach says that so many parts of total are finished, and names the part that begins.
func (b *bar) reach(done, total int, part string) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.done, b.total, b.part = done, total, part
	b.draw()
}

// draw writes the line of progress, at most ten times a second.
func (b *bar) draw() {
	now := time.Now()
	if b.to == nil || now.Before(b.next) {
		return
	}
	b.next, b.written = now.Add(100*time.Millisecond), true
	fmt.Fprintf(b.to, "\r%s\x1b[K", b.line(now))
}

// line returns the line of progress, such as "compiling m.onnx [=====>      ] 31 of 80, 2s, fuse".
func (b *bar) line(now time.Time) string {
	line := b.what
	if b.total > 0 {
		filled := barColumns * min(b.done, b.total) / b.total
		line += " [" + strings.Repeat("=", filled)
		if filled < barColumns {
			line += ">" + strings.Repeat(" ", barColumns-filled-1)
		}
		line += fmt.Sprintf("] %d of %d", b.done, b.total)
	}
	if passed := now.Sub(b.begun).Truncate(time.Second); passed > 0 {
		line += ", " + passed.String()
	}
	if b.part != "" {
		line += ", " + b.part
	}
	return shortened(line, lineColumns)
}

// finish erases the progress.
func (b *bar) finish() {
	close(b.ended)
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.to != nil && b.written {
		fmt.Fprint(b.to, "\r\x1b[K")
	}
	b.to = nil
}

// logger returns a logger for weir.Options that shows the compiler's progress; nil if the bar shows nothing.
func (b *bar) logger() *slog.Logger {
	if b.to == nil {
		return nil
	}
	return slog.New(stages{b})
}

// stages is the handler of a bar's logger: it shows the stages that the compiler reports, and drops all other records.
type stages struct{ bar *bar }

// Enabled reports whether records of this level are handled.
func (s stages) Enabled(context.Context, slog.Level) bool { return true }

// Handle shows a record that names the stage that begins.
func (s stages) Handle(_ context.Context, r slog.Record) error {
	var step, steps int
	var stage string
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "stage":
			stage = a.Value.String()
		case "step":
			step = int(a.Value.Int64())
		case "steps":
			steps = int(a.Value.Int64())
		}
		return true
	})
	if steps > 0 {
		s.bar.reach(step-1, steps, stage)
	}
	return nil
}

// WithAttrs returns the handler itself: records of stages have no further attributes.
func (s stages) WithAttrs([]slog.Attr) slog.Handler { return s }

// WithGroup returns the handler itself.
func (s stages) WithGroup(string) slog.Handler { return s }
