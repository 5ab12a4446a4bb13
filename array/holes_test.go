package array_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// double returns twice its input.
func double(s *array.Scope, in ...*array.Array) []*array.Array {
	return []*array.Array{s.Add(in[0], in[0])}
}

// TestInnerLoan: a scope cannot be closed while a scope inside it has lent an array to a scope outside. The dump shows
// the loan until the scope is closed, because a deferred Close loses its error.
func TestInnerLoan(t *testing.T) {
	array.AssertNoLeaks(t)
	outer, other := array.NewScope("outer"), array.NewScope("other", array.Option{})
	inner := array.NewScope("inner", array.In(outer)) //weirvet:ignore that it is open is the error
	x := inner.Ones(weir.F32, 3)
	inner.Lend(x, other)
	wants(t, outer.Close(), weir.ErrInput, `"inner"`, `"other"`, "loans out", "nothing was closed")
	if x.Tensor() == nil || inner.Err() != nil {
		t.Error("something was closed")
	}
	var text strings.Builder
	fine(t, outer.Dump(&text))
	if !strings.Contains(text.String(), "Close was refused at ") || !strings.Contains(text.String(), `to scope "other"`) {
		t.Errorf("the dump is\n%s", text.String())
	}
	fine(t, other.Close())
	wants(t, outer.Close(), weir.ErrInput, `"inner"`, "still open")
	if x.Tensor() != nil {
		t.Error("it lives on")
	}
}

// TestLoansInside: loans among the scopes inside a scope, of its own arrays, of theirs and of an outer scope's, lent on
// in any direction, do not keep the scope from closing.
func TestLoansInside(t *testing.T) {
	array.AssertNoLeaks(t)
	outside := array.NewScope("outside")
	far := outside.Ones(weir.F32, 1)
	s := array.NewScope("s")
	near := s.Ones(weir.F32, 2)
	//weirvet:ignore that they are open is the error
	a, b := array.NewScope("a", array.In(s)), array.NewScope("b", array.In(s))
	//weirvet:ignore that it is open is the error
	c := array.NewScope("c", array.In(b))
	own := c.Ones(weir.F32, 3)
	for _, path := range [][]*array.Scope{{outside, c, a, s, b}, {s, a, c, b}, {c, b, a, s}} {
		x := map[*array.Scope]*array.Array{outside: far, s: near, c: own}[path[0]]
		for i, to := range path[1:] {
			path[i].Lend(x, to)
		}
	}
	fine(t, errors.Join(outside.Err(), s.Err(), a.Err(), b.Err(), c.Err()))
	wants(t, s.Close(), weir.ErrInput, `"a"`, `"b"`, `"c"`, "still open")
	if near.Tensor() != nil || own.Tensor() != nil || far.Tensor() == nil {
		t.Error("not what was the scope's was closed")
	}
	fine(t, outside.Close())
}

// TestOpenInTrace: a scope that a traced function leaves open is an error, as in an eager run.
func TestOpenInTrace(t *testing.T) {
	array.AssertNoLeaks(t)
	open := func(s *array.Scope, in ...*array.Array) []*array.Array {
		inner := array.NewScope("forgotten", array.In(s)) //weirvet:ignore that it is open is the error
		return []*array.Array{inner.Return(inner.Add(in[0], in[0]))}
	}
	sum := func(f array.Func) array.Func {
		return func(s *array.Scope, in ...*array.Array) []*array.Array { return []*array.Array{s.Sum(f(s, in...)[0])} }
	}
	for name, f := range map[string]array.Func{
		"function": open,
		"gradient": array.Grad(sum(open)),
		"turn": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.For(3, func(s *array.Scope, _ *array.Array, state ...*array.Array) []*array.Array {
				return open(s, state...)
			}, in[0])
		},
		"branch": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.Cond(s.Greater(s.Sum(in[0]), s.Number(0)), open, double, in[0])
		},
		"custom": array.Grad(sum(array.Custom(double, func(s *array.Scope, in, _, up []*array.Array) []*array.Array {
			return open(s, up[0])
		}))),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := array.Jit(f, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, 2)}})
			wants(t, err, weir.ErrInput, `"forgotten"`, "still open")
		})
	}
	s := array.NewScope("s")
	c, err := array.Jit(open, array.Options{})
	fine(t, err)
	c.Call(s, s.Ones(weir.F32, 2))
	fine(t, c.Close())
	wants(t, s.Close(), weir.ErrInput, `"forgotten"`, "still open")
}

// TestCloseWaits: Close of a compiled function waits for active calls and refuses others; the arrays that the function
// read are then free. Run under the race detector.
func TestCloseWaits(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, inputs := range [][]array.Spec{nil, {array.SpecOf("x", weir.F32, "n", 64)}} {
		for range 20 {
			weights := array.NewScope("weights")
			w := weights.Ones(weir.F32, 64, 64)
			c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{s.MatMul(in[0], w)}
			}, array.Options{Name: "layer", Inputs: inputs, Compile: weir.Options{Calls: 2}})
			fine(t, err)
			ran := make(chan bool, 4)
			var all sync.WaitGroup
			for g := range 4 {
				all.Go(func() {
					for i := 0; ; i++ {
						s := array.NewScope("request")
						n := 1 + (g+i)%20
						v, err := array.Item[float32](s.Sum(c.Call(s, s.Ones(weir.F32, n, 64))[0]))
						if s.Close(); err != nil {
							if !errors.Is(err, weir.ErrClosed) || !strings.Contains(err.Error(), "layer") {
								t.Error(err)
							}
							return
						}
						if v != float32(n*64*64) {
							t.Errorf("%v for %d", v, n)
						}
						select {
						case ran <- true:
						default:
						}
					}
				})
			}
			<-ran
			fine(t, c.Close())
			fine(t, weights.Close())
			all.Wait()
			if c.Program() != nil || c.Memory() != nil {
				t.Error("it has a program")
			}
			fine(t, c.Close())
		}
	}
}

// TestVariants: goroutines call a function at more shapes than stay compiled: each variant stays until its last call
// has ended.
func TestVariants(t *testing.T) {
	array.AssertNoLeaks(t)
	c, err := array.Jit(double, array.Options{})
	fine(t, err)
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for i := range 25 {
				s := array.NewScope("s")
				n := 1 + (7*g+i)%23
				if v, err := array.Item[float32](s.Sum(c.Call(s, s.Ones(weir.F32, n))[0])); err != nil || v != float32(2*n) {
					t.Error(v, n, err)
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	fine(t, c.Close())
}

// TestWhileTraced: a function uses the Compiled that it is traced for.
func TestWhileTraced(t *testing.T) {
	array.AssertNoLeaks(t)
	var c *array.Compiled
	within := func(s *array.Scope, in ...*array.Array) []*array.Array { return double(s, in...) }
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return within(s, in...)
	}, array.Options{Name: "self"})
	fine(t, err)
	defer c.Close()
	s := array.NewScope("s")
	// It reads its own program, of the previous call, and calls itself at another shape.
	within = func(s *array.Scope, in ...*array.Array) []*array.Array {
		if c.Program() == nil && in[0].Len() < 3 {
			at := array.NewScope("at once")
			defer at.Close()
			if v, err := array.Item[float32](at.Sum(c.Call(at, at.Ones(weir.F32, 3))[0])); err != nil || v != 6 {
				t.Error(v, err)
			}
		}
		return double(s, in...)
	}
	c.Call(s, s.Ones(weir.F32, 2))
	fine(t, s.Err())
	// It closes itself: the call is refused.
	within = func(s *array.Scope, in ...*array.Array) []*array.Array {
		fine(t, c.Close())
		return double(s, in...)
	}
	c.Call(s, s.Ones(weir.F32, 4))
	wants(t, s.Close(), weir.ErrClosed, "self is closed")
	// A function that fails is traced again by the next call.
	fails := true
	failing, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		if fails {
			panic("not now")
		}
		return double(s, in...)
	}, array.Options{})
	fine(t, err)
	for range 2 {
		s := array.NewScope("s")
		v, err := array.Item[float32](failing.Call(s, array.From(s, []float32{2}))[0])
		if fails {
			wants(t, err, weir.ErrInternal, "not now")
		} else if err != nil || v != 4 {
			t.Error(v, err)
		}
		if err := s.Close(); fails != (err != nil) {
			t.Error(err)
		}
		fails = false
	}
	fine(t, failing.Close())
}

// TestCloseDead: closing the result of a failed operation does nothing, and does not keep the scope's other arrays from
// closing.
func TestCloseDead(t *testing.T) {
	array.AssertNoLeaks(t)
	before := held()
	s := array.NewScope("s")
	x := s.Ones(weir.F32, 100)
	y := s.MatMul(x, s.Ones(weir.F32, 7))
	fine(t, y.Close())
	fine(t, s.Dead().Close())
	if s.Count() != 2 {
		t.Errorf("%d arrays", s.Count())
	}
	_, err := array.Copy[float32](y)
	wants(t, err, weir.ErrInput, "matmul")
	wants(t, s.Close(), weir.ErrInput, "matmul")
	if held() != before {
		t.Errorf("%d bytes are left", held()-before)
	}
}
