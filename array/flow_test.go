package array_test

import (
	"strings"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
)

// twice runs a function eagerly and compiled, and returns the f32 of its first result of both.
func twice(t *testing.T, f array.Func, make func(s *array.Scope) []*array.Array) [2][]float32 {
	t.Helper()
	array.AssertNoLeaks(t)
	var got [2][]float32
	for i := range got {
		s := array.NewScope("twice")
		run, close := f, func() error { return nil }
		if i == 1 {
			c, err := array.Jit(f, array.Options{Name: "flow"})
			if err != nil {
				t.Fatal(err)
			}
			run, close = c.Call, c.Close
		}
		out := run(s, make(s)...)
		if err := s.Err(); err != nil {
			t.Fatal(err)
		}
		var err error
		if got[i], err = array.Copy[float32](out[0]); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := close(); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

// same fails t unless both results equal want.
func same(t *testing.T, what string, got [2][]float32, want ...float32) {
	t.Helper()
	for i, list := range got {
		if len(list) != len(want) {
			t.Errorf("%s, way %d: %v, not %v", what, i, list, want)
			continue
		}
		for k := range want {
			if list[k] != want[k] {
				t.Errorf("%s, way %d: %v, not %v", what, i, list, want)
				break
			}
		}
	}
}

func ones(s *array.Scope) []*array.Array {
	return []*array.Array{array.From(s, []float32{1, 2, 3})}
}

// TestFlow runs loops, branches and scans eagerly and compiled.
func TestFlow(t *testing.T) {
	same(t, "while", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return s.While(func(s *array.Scope, x ...*array.Array) *array.Array { return s.Less(s.Sum(x[0]), s.Number(100)) },
			func(s *array.Scope, x ...*array.Array) []*array.Array {
				return []*array.Array{s.Mul(x[0], s.Number(2)), s.Add(x[1], in[0])}
			}, in[0], in[0])
	}, ones), 32, 64, 96)
	same(t, "while of no turns", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return s.While(func(s *array.Scope, x ...*array.Array) *array.Array { return s.Less(s.Sum(x[0]), s.Number(1)) },
			func(s *array.Scope, x ...*array.Array) []*array.Array {
				return []*array.Array{s.Mul(x[0], s.Number(2))}
			}, in[0])
	}, ones), 1, 2, 3)
	same(t, "for", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return s.For(4, func(s *array.Scope, i *array.Array, x ...*array.Array) []*array.Array {
			return []*array.Array{s.Add(x[0], s.Cast(i, weir.F32))}
		}, in[0])
	}, ones), 7, 8, 9)
	for limit, want := range map[float64][]float32{0: {2, 4, 6}, 9: {0, 1, 2}} {
		same(t, "cond", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.Cond(s.Greater(s.Sum(in[0]), s.Number(limit)),
				func(s *array.Scope, x ...*array.Array) []*array.Array { return []*array.Array{s.Add(x[0], x[0])} },
				func(s *array.Scope, x ...*array.Array) []*array.Array {
					return []*array.Array{s.Sub(x[0], s.Number(1))}
				}, in[0])
		}, ones), want...)
	}
	same(t, "cond that returns an operand", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return s.Cond(s.Greater(s.Sum(in[0]), s.Number(0)),
			func(s *array.Scope, x ...*array.Array) []*array.Array { return []*array.Array{x[0]} },
			func(s *array.Scope, x ...*array.Array) []*array.Array { return []*array.Array{s.Neg(x[0])} }, in[0])
	}, ones), 1, 2, 3)
	scan := func(s *array.Scope, in ...*array.Array) []*array.Array {
		end, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
			sum := s.Add(state[0], x[0])
			return []*array.Array{sum}, []*array.Array{s.Mul(sum, s.Number(10)), x[0]}
		}, []*array.Array{s.Zeros(weir.F32)}, in)
		return []*array.Array{s.Concat(0, ys[0], s.Reshape(end[0], 1), ys[1])}
	}
	same(t, "scan", twice(t, scan, ones), 10, 30, 60, 6, 1, 2, 3)
	same(t, "scan of nothing", twice(t, scan, func(s *array.Scope) []*array.Array {
		return []*array.Array{s.Zeros(weir.F32, 0)}
	}), 0)
}

// TestFlowNested runs a loop in a branch in a loop. The inner loop reads an array of another scope and one of the outer
// loop.
func TestFlowNested(t *testing.T) {
	outer := array.NewScope("outer")
	defer outer.Close()
	w := array.From(outer, []float32{1, 1, 2})
	same(t, "nested", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return s.For(3, func(s *array.Scope, i *array.Array, x ...*array.Array) []*array.Array {
			y := s.Add(x[0], s.Number(1))
			return s.Cond(s.Equal(i, s.Number(1)), func(s *array.Scope, z ...*array.Array) []*array.Array {
				return s.For(2, func(s *array.Scope, _ *array.Array, x ...*array.Array) []*array.Array {
					return []*array.Array{s.Mul(s.Add(x[0], y), w)}
				}, z[0])
			}, func(s *array.Scope, z ...*array.Array) []*array.Array { return []*array.Array{y} }, x[0])
		}, in[0])
	}, ones), 9, 12, 47)
}

// TestFlowGrad differentiates through a loop, a branch and a scan.
func TestFlowGrad(t *testing.T) {
	same(t, "derivative", twice(t, array.Grad(func(s *array.Scope, in ...*array.Array) []*array.Array {
		_, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
			p := s.Mul(state[0], x[0])
			return []*array.Array{p}, []*array.Array{p}
		}, []*array.Array{s.Ones(weir.F32)}, in)
		return []*array.Array{s.Sum(ys[0])}
	}), ones), 9, 4, 2)
}

// TestFlowWrong checks errors of loops.
func TestFlowWrong(t *testing.T) {
	array.AssertNoLeaks(t)
	for what, f := range map[string]array.Func{
		"keeps its type": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.For(2, func(s *array.Scope, _ *array.Array, x ...*array.Array) []*array.Array {
				return []*array.Array{s.Concat(0, x[0], x[0])}
			}, in[0])
		},
		"was closed": func(s *array.Scope, in ...*array.Array) []*array.Array {
			var kept *array.Array
			s.For(2, func(s *array.Scope, _ *array.Array, x ...*array.Array) []*array.Array {
				kept = s.Add(x[0], x[0])
				return []*array.Array{s.Neg(kept)}
			}, in[0])
			return []*array.Array{s.Neg(kept)}
		},
		"one bool": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.While(func(s *array.Scope, x ...*array.Array) *array.Array { return s.Less(x[0], s.Number(100)) },
				func(s *array.Scope, x ...*array.Array) []*array.Array { return x }, in[0])
		},
		"broadcast": func(s *array.Scope, in ...*array.Array) []*array.Array {
			return s.Cond(s.Greater(s.Sum(in[0]), s.Number(0)), func(s *array.Scope, x ...*array.Array) []*array.Array {
				return []*array.Array{s.BroadcastTo(x[0], 4)}
			}, func(s *array.Scope, x ...*array.Array) []*array.Array { return x }, in[0])
		},
	} {
		s := array.NewScope("wrong")
		f(s, ones(s)...)
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s, at once: the error is %v", what, err)
		}
		s.Close()
		_, err := array.Jit(f, array.Options{Name: "wrong", Inputs: []array.Spec{array.SpecOf("x", weir.F32, 3)}})
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s, compiled: the error is %v", what, err)
		}
	}
}

// TestSearchNamed searches among a named number of keys, which may be 0.
func TestSearchNamed(t *testing.T) {
	array.AssertNoLeaks(t)
	s := array.NewScope("search")
	defer s.Close()
	c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
		return []*array.Array{s.SearchSorted(in[0], in[1], true)}
	}, array.Options{Name: "search", Inputs: []array.Spec{array.SpecOf("keys", weir.F32, "keys"),
		array.SpecOf("x", weir.F32, 3)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	x := array.From(s, []float32{-1, 2, 50})
	for _, n := range []int{0, 1, 3, 40} {
		out := c.Call(s, s.Arange(weir.F32, 0, float64(n), 1), x)
		got, err := array.Copy[int64](out[0])
		if err != nil {
			t.Fatal(n, err, s.Err())
		}
		if got[0] != 0 || got[1] != int64(min(3, n)) || got[2] != int64(n) {
			t.Errorf("%d keys: %v", n, got)
		}
	}
}

// TestFlowJVP differentiates along a tangent through a scan and an assignment.
func TestFlowJVP(t *testing.T) {
	f := func(s *array.Scope, in ...*array.Array) []*array.Array {
		s.Assign(in[0], s.Number(4), 0)
		_, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
			p := s.Mul(state[0], x[0])
			return []*array.Array{p}, []*array.Array{p}
		}, []*array.Array{s.Ones(weir.F32)}, in)
		return ys
	}
	same(t, "jvp", twice(t, func(s *array.Scope, in ...*array.Array) []*array.Array {
		return array.JVP(f, 1)(s, in[0], s.Ones(weir.F32, 3))
	}, ones), 0, 4, 20)
}
