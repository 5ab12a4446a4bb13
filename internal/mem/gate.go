package mem

import "sync/atomic"

// Gate keeps a value that lies in, or leads to, memory which is given back one day, and hands it out only to those who
// are inside. Once it is shut nobody enters any more, and whoever is the last to leave does what remains to be done: it
// never waits. The zero value, without a value, is open. Entering and leaving take nothing from Go's heap, and some
// nanoseconds.
type Gate[T any] struct {
	inside atomic.Int64 // how many, and the bits shut and taken
	value  T
	last   func()
	owner  Owner
}

// Owner is told when the last who was inside of a gate that is shut has left: as a function, but that setting it takes
// nothing from Go's heap.
type Owner interface{ Last() }

// With one of these bits nobody may enter. A gate that was taken may be opened again, unless it was shut too.
const (
	shut   = 1 << 40
	taken  = 1 << 41
	barred = shut | taken
)

// Set gives the gate its value, and what the last one out does once it is shut. Nobody may have entered before.
func (g *Gate[T]) Set(value T, last func()) { g.value, g.last = value, last }

// SetOwner is Set for an owner in a function's place.
func (g *Gate[T]) SetOwner(value T, owner Owner) { g.value, g.owner = value, owner }

// end does what remains to be done.
func (g *Gate[T]) end() {
	if g.last != nil {
		g.last()
	}
	if g.owner != nil {
		g.owner.Last()
	}
}

// Enter returns the value, which is the caller's to use until it calls Leave. It reports false, and there is nothing to
// leave, where the gate is shut.
func (g *Gate[T]) Enter() (value T, ok bool) {
	for {
		n := g.inside.Load()
		if n&barred != 0 {
			return value, false
		}
		if g.inside.CompareAndSwap(n, n+1) {
			return g.value, true
		}
	}
}

// Again is Enter for who is inside already: it works when the gate is shut too.
func (g *Gate[T]) Again() T {
	g.inside.Add(1)
	return g.value
}

// Leave ends what Enter began.
func (g *Gate[T]) Leave() {
	if n := g.inside.Add(-1); n&barred == n && n != 0 {
		g.end()
	}
}

// Shut lets nobody enter any more. It reports whether it was open.
func (g *Gate[T]) Shut() bool {
	before := g.inside.Or(shut)
	if before == 0 {
		g.end()
	}
	return before&shut == 0
}

// Take lets nobody enter any more, for who is inside and stays there; alone, it does nothing unless nobody else is. It
// reports whether it did.
func (g *Gate[T]) Take(alone bool) bool {
	for {
		n := g.inside.Load()
		if n&barred != 0 || alone && n != 1 {
			return false
		}
		if g.inside.CompareAndSwap(n, n|taken) {
			return true
		}
	}
}

// Open undoes Take. The caller is still inside.
func (g *Gate[T]) Open() { g.inside.And(^int64(taken)) }

// IsShut reports whether nobody may enter.
func (g *Gate[T]) IsShut() bool { return g.inside.Load()&barred != 0 }

// Inside returns how many have entered and not left.
func (g *Gate[T]) Inside() int { return int(g.inside.Load() &^ barred) }
