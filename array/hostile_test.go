package array_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
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
				for i := range 20 {
					y := s.Sum(s.Add(x, s.Number(float64(g))))
					if v, err := array.Item[float32](y); err == nil && v != float32(64*(g+1)) || err != nil &&
						!refusedShared(err) {
						t.Error(v, err)
					}
					if err := y.Close(); err != nil {
						t.Error(err)
					}
					if g == 3 && i == 10 {
						if err := s.Close(); err != nil && !refusedShared(err) {
							t.Error(err)
						}
					}
				}
			})
		}
		all.Wait()
		if err := s.Close(); err != nil && !refusedShared(err) {
			t.Error(err)
		}
	}
}

// refusedShared reports whether an error is one of those that a scope shared by goroutines may give.
func refusedShared(err error) bool {
	return errors.Is(err, weir.ErrClosed) || strings.Contains(err.Error(), "by another goroutine at the same time")
}

// TestSeveralGoroutines: operations of one scope that overlap in time are an error that names both lines, whether they
// are compiled or only move elements. A scope that is handed from one goroutine to the next has none.
func TestSeveralGoroutines(t *testing.T) {
	array.AssertNoLeaks(t)
	for name, step := range map[string]func(s *array.Scope, x *array.Array) *array.Array{
		"compiled": func(s *array.Scope, x *array.Array) *array.Array { return s.MatMul(x, x) },
		"moved":    func(s *array.Scope, x *array.Array) *array.Array { return s.Flip(x, 0) },
		"created":  func(s *array.Scope, _ *array.Array) *array.Array { return s.Zeros(weir.F32, 100, 100) },
	} {
		s := array.NewScope(name)
		x := s.Ones(weir.F32, 100, 100)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i := 0; i < 100_000 && s.Err() == nil; i++ {
					step(s, x).Close()
				}
			})
		}
		all.Wait()
		if runtime.GOMAXPROCS(0) > 1 || s.Err() != nil { // as for maps, goroutines that never overlap are not found
			wants(t, s.Err(), weir.ErrInput, "used by another goroutine at the same time, at ", "hostile_test.go:")
		}
		s.Close()
	}
	s := array.NewScope("handed over")
	x := s.Ones(weir.F32, 4)
	for range 20 {
		done := make(chan bool)
		go func() { x = s.Add(x, x); close(done) }()
		<-done
	}
	fine(t, s.Close())
}

// TestGrowthTold: a scope that a loop grows is told with its line when it is closed, or by its dump while it is open;
// arrays that are read again later, that are closed, or that no operation read are not.
func TestGrowthTold(t *testing.T) {
	grow := func(s *array.Scope, n int) {
		x := s.Ones(weir.F32, 2)
		for range n {
			x = s.Add(x, x)
		}
	}
	for name, c := range map[string]struct {
		loop  func(s *array.Scope)
		words string // "": it is not told
	}{
		"grows": {func(s *array.Scope) { grow(s, 200) },
			"200 × f32[2]: 1600 bytes|199 of them not read any more|hostile_test.go"},
		"few": {func(s *array.Scope) { grow(s, 100) }, ""},
		"copied": {func(s *array.Scope) {
			for range 150 {
				if _, err := array.Copy[float32](s.Ones(weir.F32, 3)); err != nil {
					t.Error(err)
				}
			}
		}, "150 × f32[3]|149 of them"},
		"collected": {func(s *array.Scope) {
			list := []*array.Array{s.Ones(weir.F32, 1, 2)}
			for range 150 {
				list = append(list, s.Add(list[len(list)-1], list[0]))
			}
			s.Concat(0, list...)
		}, ""},
		"weights": {func(s *array.Scope) {
			for range 200 {
				s.Ones(weir.F32, 2)
			}
		}, ""},
		"closed": {func(s *array.Scope) {
			x := s.Ones(weir.F32, 2)
			for range 200 {
				y := s.Add(x, x)
				x.Close()
				x = y
			}
		}, ""},
		"capped": {func(s *array.Scope) { grow(s, 200); s.Cap() }, ""},
	} {
		told := &recorder{}
		array.AssertNoLeaks(told)
		s := array.NewScope(name)
		c.loop(s)
		dump := fmt.Sprint(s.Stats())
		s.Close()
		told.end()
		if text := strings.Join(told.errors, "; "); (text != "") != (c.words != "") {
			t.Errorf("%s: %q", name, text)
		} else {
			for _, w := range strings.Split(c.words, "|") {
				if !strings.Contains(text, w) || name == "grows" && !strings.Contains(dump, "199") {
					t.Errorf("%s: %q in %q, %q", name, w, text, dump)
				}
			}
		}
	}
	told := &recorder{}
	model, lent := array.NewScope("model"), array.NewScope("registry")
	w := model.Ones(weir.F32, 2)
	array.AssertNoLeaks(told)
	w = model.Relu(w)
	model.Lend(w, lent)
	told.end()
	if text := strings.Join(told.errors, "; "); !strings.Contains(text, "holds 1 arrays and 0 loans more: model") ||
		!strings.Contains(text, "holds 0 arrays and 1 loans more: registry") {
		t.Error(text)
	}
	fine(t, lent.Close())
	fine(t, model.Close())
}

// recorder is a test that records its errors.
type recorder struct {
	errors  []string
	cleanup []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

// end runs the cleanups.
func (r *recorder) end() {
	for _, f := range r.cleanup {
		f()
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
