package array

import (
	"fmt"
	"runtime"
	"strings"
)

// site is a place in a program: the innermost frames of a stack.
type site [10]uintptr

// here is the place that called into this package.
func here() (s site) {
	runtime.Callers(3, s[:])
	return s
}

// ours are the packages whose lines are not the user's.
var ours = []string{"github.com/weirml/weir/array.", "github.com/weirml/weir/nn.", "github.com/weirml/weir/train.", "github.com/weirml/weir.",
	"github.com/weirml/weir/internal/"}

// lineHere is the line outside of these packages that called into them, however many frames lie between.
func lineHere() string {
	var frames [256]uintptr
	return lineOf(frames[:runtime.Callers(3, frames[:])])
}

// line is the innermost line outside of these packages, "file:line"; tests among them are the user's.
func (s site) line() string { return lineOf(s[:]) }

func lineOf(callers []uintptr) string {
	frames := runtime.CallersFrames(callers)
	for {
		f, more := frames.Next()
		if f.File != "" && (!library(f.Function) || strings.HasSuffix(f.File, "_test.go")) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "?"
		}
	}
}

func library(function string) bool {
	for _, prefix := range ours {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
