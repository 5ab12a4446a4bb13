package weirtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirml/weir/internal/timing"
)

// Under runs the test in a process of its own with these words in WEIR_DEBUG, and reports whether this is that process.
func Under(t *testing.T, words string) bool {
	words = "WEIR_DEBUG=" + words
	if slices.Contains(os.Environ(), words) {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$",
		"-test.v")
	cmd.Env = append(os.Environ(), words)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v\n%s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if _, row, ok := strings.Cut(line, "_test.go:"); ok {
			t.Log(strings.TrimSpace(row[strings.Index(row, " "):]))
		}
	}
	return false
}

// Countdown is a context that ends after it was asked a number of times. NewCountdown makes one.
type Countdown struct {
	mu   sync.Mutex
	left int
	done chan struct{}
}

// NewCountdown returns a context that ends when it is asked for the n-th time.
func NewCountdown(n int) *Countdown { return &Countdown{left: n, done: make(chan struct{})} }

// look counts a question, and ends the context after the last.
func (c *Countdown) look() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left--; c.left == 0 {
		close(c.done)
	}
	return c.left <= 0
}

// Ended reports whether the context has ended.
func (c *Countdown) Ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left <= 0
}

// Deadline returns none.
func (c *Countdown) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value returns nil.
func (c *Countdown) Value(any) any { return nil }

// Done counts a question.
func (c *Countdown) Done() <-chan struct{} {
	c.look()
	return c.done
}

// Err counts a question.
func (c *Countdown) Err() error {
	if c.look() {
		return context.Canceled
	}
	return nil
}

// Main runs a package's tests in the module's root, from which they name their files. It is the body of TestMain.
func Main(m *testing.M) {
	if own, err := os.Executable(); err == nil {
		os.Args[0] = own // for tests that run themselves again
	}
	folder, err := os.Getwd()
	for err == nil {
		if _, err = os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			break
		}
		if filepath.Dir(folder) == folder {
			break
		}
		folder, err = filepath.Dir(folder), nil
	}
	if err == nil {
		err = os.Chdir(folder)
	}
	if err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// HurryTuning lets tuning try almost nothing until the test ends.
func HurryTuning(t interface{ Cleanup(func()) }) {
	before, trial := timing.Limit, timing.TrialTime
	timing.Limit, timing.TrialTime = 20*time.Millisecond, 0
	t.Cleanup(func() { timing.Limit, timing.TrialTime = before, trial })
}
