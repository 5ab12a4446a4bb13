package array_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// TestSharedScope: a scope belongs to one goroutine. If several use one at once, and close it, they get right results
// or a typed error; nothing leaks. Run under the race detector.
func TestSharedScope(t *testing.T) {
	array.AssertNoLeaks(t)
	for range 10 {
		s := array.NewScope("shared")
		x := s.Ones(weir.F32, 64)
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := range 40 {
					y := s.Sum(s.Add(x, s.Number(float64(g))))
					if v, err := array.Item[float32](y); err == nil && v != float32(64*(g+1)) || err != nil &&
						!errors.Is(err, weir.ErrClosed) {
						t.Error(v, err)
					}
					if err := y.Close(); err != nil {
						t.Error(err)
					}
					if g == 3 && i == 20 {
						if err := s.Close(); err != nil && !errors.Is(err, weir.ErrClosed) {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		if err := s.Close(); err != nil && !errors.Is(err, weir.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestSharedTrace: goroutines that a traced function starts, and that compute in its scope at once, are an error of Jit
// unless they happen to wait for each other; the compiled function is then right.
func TestSharedTrace(t *testing.T) {
	array.AssertNoLeaks(t)
	refused := 0
	for range 20 {
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			out := make([]*array.Array, 4)
			var all sync.WaitGroup
			for g := range out {
				all.Go(func() {
					for range 50 {
						out[g] = s.Add(in[0], s.Number(float64(g)))
					}
				})
			}
			all.Wait()
			return out
		}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 2)}})
		if err != nil {
			wants(t, err, weir.ErrInput, "another goroutine", "hostile_test.go:")
			refused++
			continue
		}
		s := array.NewScope("s")
		for g, y := range c.Call(s, s.Ones(weir.F32, 2)) {
			if list, err := array.Copy[float32](y); err != nil || list[0] != float32(1+g) {
				t.Error(g, list, err)
			}
		}
		fine(t, s.Close())
		fine(t, c.Close())
	}
	t.Logf("%d refused", refused)
}

// TestCaptured: an array that a compiled function reads cannot be closed, by itself or with its scope, once the
// function is compiled; an array that was closed before is an error.
func TestCaptured(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("weights")
	w := s.Ones(weir.F32, 2)
	plus := func(w *array.Array) array.Func {
		return func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Add(in[0], w)} }
	}
	spec := []array.Spec{array.SpecOf("x", weir.F32, 2)}
	c, err := array.Jit(plus(w), array.Options{Name: "plus", Inputs: spec})
	fine(t, err)
	wants(t, w.Close(), weir.ErrInput, "lent", `"plus"`, `"weights"`, "hostile_test.go:")
	wants(t, s.Close(), weir.ErrInput, "loans out", `"plus"`, "hostile_test.go:")
	s.Transfer(w, s) // to its own scope: no change
	fine(t, s.Err())
	turn := array.NewScope("turn")
	c.Call(turn, turn.Ones(weir.F32, 2))
	fine(t, turn.Close())
	fine(t, c.Close())
	fine(t, w.Close())
	_, err = array.Jit(plus(w), array.Options{Inputs: spec})
	wants(t, err, weir.ErrClosed, "made at", "was closed at", "hostile_test.go:")
	// The function itself closes the array that it read, or the array's scope.
	v := s.Ones(weir.F32, 2)
	for _, f := range []array.Func{
		func(s *array.Scope, in ...*array.Array) []*array.Array {
			y := s.Add(in[0], v)
			v.Close()
			return []*array.Array{y}
		},
		func(s *array.Scope, in ...*array.Array) []*array.Array {
			at := array.NewScope("at once")
			defer at.Close()
			return []*array.Array{s.Add(in[0], at.Ones(weir.F32, 2))}
		},
	} {
		_, err = array.Jit(f, array.Options{Inputs: spec})
		wants(t, err, weir.ErrClosed, "was closed at", "hostile_test.go:")
		turn := array.NewScope("turn")
		sum := func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(f(s, in...)[0])} }
		array.Grad(sum)(turn, turn.Ones(weir.F32, 2))
		wants(t, turn.Close(), weir.ErrClosed, "was closed at", "hostile_test.go:")
	}
	fine(t, s.Close())
}

// TestOtherTrace: an array of one trace is an error in another trace, in the scope around it, and after the trace.
func TestOtherTrace(t *testing.T) {
	array.AssertNoLeaks(t)
	var kept *array.Array
	spec := []array.Spec{array.SpecOf("x", weir.F32, 2)}
	_, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		_, err := array.Jit(func(s *array.Scope, inner ...*array.Array) []*array.Array {
			return []*array.Array{s.Add(inner[0], in[0])}
		},
			array.Options{Name: "inner", Inputs: spec})
		wants(t, err, weir.ErrInput, "another trace", "hostile_test.go:")
		_, err = array.Copy[float32](in[0])
		wants(t, err, weir.ErrInput, "computed later")
		fine(t, in[0].Close())
		kept = in[0]
		return []*array.Array{s.Add(in[0], in[0])}
	}, array.Options{Inputs: spec})
	wants(t, err, weir.ErrClosed, "was closed at", "hostile_test.go:")
	s := array.NewScope("s")
	s.Add(kept, kept)
	wants(t, s.Close(), weir.ErrClosed, "was closed at")
	if l := s.Lend(kept, s); l != nil {
		t.Error("lent")
	}
}
