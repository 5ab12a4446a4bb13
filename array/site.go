package array

import (
	"fmt"
	"path"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/weirml/weir/internal/diag"
)

// site is a line of the user's program: the return address of its call into these packages. 0 is none.
type site [1]uintptr

// here returns the innermost line outside of these packages; lines of their tests count as the user's.
func here() (s site) {
	var frames [8]uintptr
	for skip, n := 2, 6; ; skip, n = skip+n, len(frames) {
		list := frames[:runtime.Callers(skip, frames[:n])]
		for _, pc := range list {
			if outside(pc) {
				return site{pc}
			}
		}
		if len(list) < n {
			return site{}
		}
	}
}

// among returns the first address outside of these packages among a stack's innermost frames; if there is none, here's.
func among(frames []uintptr) site {
	for _, pc := range frames {
		if outside(pc) {
			return site{pc}
		}
	}
	return here()
}

// line returns the site as "file:line".
func (s site) line() string {
	if s == (site{}) {
		return "?"
	}
	f, _ := runtime.CallersFrames(s[:]).Next()
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// recovered is diag.Recover for the user's functions: the error names the line that panicked, if it is the user's. It
// must be deferred directly.
func recovered(err *error, what string) {
	if value := recover(); value != nil {
		if line := panicked(); line != "" {
			what += ", at " + line
		}
		*err = diag.Recovered(value, what)
	}
}

// panicked returns the line that panicked, as "file:line", if it lies outside of these packages; otherwise "". It must
// be called while a deferred function recovers.
func panicked() string {
	var list [32]uintptr
	frames := runtime.CallersFrames(list[:runtime.Callers(2, list[:])])
	above := false
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			above = true
		case strings.HasSuffix(f.Function, "/internal/ir.Catch"): // it panics anew: the first panic is further out
			above = false
		case above && !strings.HasPrefix(f.Function, "runtime."):
			if library(f.File) && !strings.HasSuffix(f.File, "_test.go") {
				return ""
			}
			return fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// sides caches whether addresses lie outside of these packages: each entry is an address and one bit. The entry of an
// address is one of the sideWays entries from a hash of the address on, so that several addresses with one hash do not
// displace one another. Goroutines use it without a lock.
var sides [1 << 10]atomic.Uint64

// sideWays is the number of entries that an address may have.
const sideWays = 8

// outside reports whether a frame's address lies outside of these packages.
func outside(pc uintptr) bool {
	hash := uint64(pc) * 0x9e3779b97f4a7c15
	first := hash >> (64 - 10)
	free := &sides[(first+hash%sideWays)%uint64(len(sides))] // replaced if all of them are taken
	for way := range uint64(sideWays) {
		at := &sides[(first+way)%uint64(len(sides))]
		known := at.Load()
		if known>>1 == uint64(pc) {
			return known&1 != 0
		}
		if known == 0 {
			free = at
			break
		}
	}
	f, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	is := f.File != "" && (!library(f.File) || strings.HasSuffix(f.File, "_test.go"))
	free.Store(uint64(pc)<<1 | uint64(flag(is)))
	return is
}

// root is the module's folder as the compiler names it, with a slash at the end.
var root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return path.Dir(path.Dir(file)) + "/"
}()

// library reports whether a file belongs to these packages. A function's name would not tell: an inlined closure has
// the name of the function that it was inlined into.
func library(file string) bool {
	rest, ok := strings.CutPrefix(file, root)
	if !ok {
		return false
	}
	folder := path.Dir(rest)
	return folder == "." || folder == "array" || folder == "nn" || folder == "train" ||
		strings.HasPrefix(folder, "internal/")
}
