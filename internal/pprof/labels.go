package pprof

import (
	"context"
	runtimepprof "runtime/pprof"
	"unsafe"
)

// Labels are a goroutine's labels in CPU profiles; the zero value has none. They are immutable.
type Labels struct{ set unsafe.Pointer }

// NewLabels returns labels from names and values, in turn.
func NewLabels(pairs ...string) Labels {
	before := Current()
	defer before.Set()
	runtimepprof.SetGoroutineLabels(runtimepprof.WithLabels(context.Background(), runtimepprof.Labels(pairs...)))
	return Current()
}

// Current returns the labels of the calling goroutine.
func Current() Labels { return Labels{profileLabels()} }

// Set replaces the labels of the calling goroutine. It allocates nothing.
func (l Labels) Set() { setProfileLabels(l.set) }

// None reports whether there are no labels.
func (l Labels) None() bool { return l.set == nil }

// The standard library sets labels and cannot return them, so code that sets labels temporarily could not restore a
// caller's. The runtime keeps both functions for other modules (go.dev/issue/67401).

// profileLabels returns the labels of the calling goroutine; nil if it has none.
//
//go:linkname profileLabels runtime/pprof.runtime_getProfLabel
func profileLabels() unsafe.Pointer

// setProfileLabels sets the labels of the calling goroutine.
//
//go:linkname setProfileLabels runtime/pprof.runtime_setProfLabel
func setProfileLabels(labels unsafe.Pointer)
