package conformance

import (
	"context"
	"log/slog"
	"strings"
	"sync"
)

// schedulingFaults is a log that keeps the compiler's messages of schedules that it had to simplify: these are bugs,
// though the results are right.
type schedulingFaults struct {
	mu   sync.Mutex
	list []string
}

// log returns a logger that writes to f.
func (f *schedulingFaults) log() *slog.Logger { return slog.New(f) }

func (f *schedulingFaults) Enabled(context.Context, slog.Level) bool { return true }

// Handle keeps the record if it is such a message.
func (f *schedulingFaults) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if text := a.Value.String(); strings.Contains(text, "done more simply") {
			f.mu.Lock()
			f.list = append(f.list, text)
			f.mu.Unlock()
		}
		return true
	})
	return nil
}

func (f *schedulingFaults) WithAttrs([]slog.Attr) slog.Handler { return f }

func (f *schedulingFaults) WithGroup(string) slog.Handler { return f }
