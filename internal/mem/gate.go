package mem

import "sync/atomic"

// Gate guards a value in memory that is given back one day: callers use it between Enter and Leave. After Shut, Enter
// fails, and the last caller to leave runs the function given to Set; nobody waits. The zero Gate, without a value, is
// open. Enter and Leave allocate nothing and take some nanoseconds.
type Gate[T any] struct {
	inside atomic.Int64 // the number of callers inside, and the bits shut and taken
	value  T
	last   func()
	owner  Owner
}

// Owner has a method in place of Set's function: it is called when the last caller has left a gate that is shut.
// Setting it allocates nothing.
type Owner interface{ Last() }

// With one of these bits set, Enter fails. A gate that was taken may be opened again, unless it was shut too.
const (
	shut   = 1 << 40
	taken  = 1 << 41
	barred = shut | taken
)

// Set gives the gate its value, and the function that the last caller out runs once the gate is shut. Nobody may have
// entered before.
func (g *Gate[T]) Set(value T, last func()) { g.value, g.last = value, last }

// SetOwner is Set with an owner in place of a function.
func (g *Gate[T]) SetOwner(value T, owner Owner) { g.value, g.owner = value, owner }

// end calls the function or the owner.
func (g *Gate[T]) end() {
	if g.last != nil {
		g.last()
	}
	if g.owner != nil {
		g.owner.Last()
	}
}

// Enter returns the value, which the caller may use until it calls Leave. If the gate is shut, ok is false and Leave
// must not be called.
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

// Again is Enter for a caller that is inside already: it succeeds even if the gate is shut.
func (g *Gate[T]) Again() T {
	g.inside.Add(1)
	return g.value
}

// Leave ends the use that Enter or Again began.
func (g *Gate[T]) Leave() {
	if n := g.inside.Add(-1); n&barred == n && n != 0 {
		g.end()
	}
}

// Shut makes Enter fail from now on. It reports whether the gate was open.
func (g *Gate[T]) Shut() bool {
	before := g.inside.Or(shut)
	if before == 0 {
		g.end()
	}
	return before&shut == 0
}

// Take makes Enter fail while the caller, which is inside, stays there. With alone, it does nothing if another caller
// is inside. It reports whether it took the gate.
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

// IsShut reports whether Enter fails.
func (g *Gate[T]) IsShut() bool { return g.inside.Load()&barred != 0 }

// Inside returns the number of callers that have entered and not left.
func (g *Gate[T]) Inside() int { return int(g.inside.Load() &^ barred) }
