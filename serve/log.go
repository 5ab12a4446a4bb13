package serve

import (
	"context"
	"log/slog"
)

// leveled is a handler with a level that clients may change.
type leveled struct {
	slog.Handler
	level *slog.LevelVar
}

// Enabled reports whether records of the level are written.
func (l leveled) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= l.level.Level() && l.Handler.Enabled(ctx, level)
}

// WithAttrs returns a handler with more attributes.
func (l leveled) WithAttrs(attrs []slog.Attr) slog.Handler {
	return leveled{l.Handler.WithAttrs(attrs), l.level}
}

// WithGroup returns a handler with a group.
func (l leveled) WithGroup(name string) slog.Handler {
	return leveled{l.Handler.WithGroup(name), l.level}
}
