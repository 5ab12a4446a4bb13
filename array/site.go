package array

import (
	"fmt"
	"path"
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

// root is the folder of the module as the compiler names it, with the slash behind it.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return path.Dir(path.Dir(file)) + "/"
}()

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
		if f.File != "" && (!library(f.File) || strings.HasSuffix(f.File, "_test.go")) {
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return "?"
		}
	}
}

// library reports whether a file is of the packages whose lines are not the user's. Functions do not tell: a closure that
// was inlined has the name of the function that it was inlined into.
func library(file string) bool {
	rest, ok := strings.CutPrefix(file, root)
	if !ok {
		return false
	}
	folder := path.Dir(rest)
	return folder == "." || folder == "array" || folder == "nn" || folder == "train" || strings.HasPrefix(folder, "internal/")
}
