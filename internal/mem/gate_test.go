package mem

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestGate: four goroutines enter and leave while a fifth shuts the gate. Those that enter find the guarded value, and
// the function given to Set runs once, after all have left.
func TestGate(t *testing.T) {
	for range 200 {
		var g Gate[*int]
		var value, ended, wrong atomic.Int32
		here := new(int)
		g.Set(here, func() { ended.Add(1); value.Store(1) })
		var all sync.WaitGroup
		for worker := range 4 {
			all.Go(func() {
				for i := range 50 {
					p, ok := g.Enter()
					if !ok {
						return
					}
					if value.Load() != 0 || p != here {
						wrong.Add(1)
					}
					if worker == 0 && i%2 == 0 && g.Take(false) {
						g.Open()
					}
					g.Again()
					g.Leave()
					g.Leave()
				}
			})
		}
		all.Go(func() { g.Shut() })
		all.Wait()
		g.Shut()
		if ended.Load() != 1 || wrong.Load() != 0 || g.Inside() != 0 || !g.IsShut() {
			t.Fatalf("it ended %d times, %d were inside after that, %d are", ended.Load(), wrong.Load(), g.Inside())
		}
		if _, ok := g.Enter(); ok {
			t.Fatal("entered what is shut")
		}
	}
}

// TestGateTake: Take(true) succeeds only if no other caller is inside, Open lets callers enter again, and the last
// caller that leaves a shut gate runs the function given to Set.
func TestGateTake(t *testing.T) {
	var g Gate[int]
	ended := 0
	g.Set(7, func() { ended++ })
	g.Enter()
	g.Enter()
	if g.Take(true) {
		t.Error("taken alone with another inside")
	}
	g.Leave()
	if !g.Take(true) || g.Take(true) {
		t.Error("not taken once")
	}
	if _, ok := g.Enter(); ok {
		t.Error("entered what is taken")
	}
	g.Open()
	if v, ok := g.Enter(); !ok || v != 7 {
		t.Error("not opened again")
	}
	g.Leave()
	if !g.Shut() || ended != 0 {
		t.Error("ended with somebody inside")
	}
	if g.Leave(); ended != 1 || g.Shut() {
		t.Error("not ended by the last one out")
	}
}
