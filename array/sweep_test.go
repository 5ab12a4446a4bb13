package array_test

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/weirml/weir"
	"github.com/weirml/weir/array"
	"github.com/weirml/weir/internal/mem"
)

// sweptFunctions are functions whose requests for memory TestSweep refuses one by one. They are independent of each
// other.
//
//weir:table
var sweptFunctions = map[string]func(s *array.Scope) []*array.Array{
	"chain": func(s *array.Scope) []*array.Array {
		x := sweptNumbers(s, 30, 40)
		y := s.Relu(s.Add(s.MatMul(x, s.Transpose(x)), s.Number(1)))
		return []*array.Array{y, s.Mean(s.Exp(y), 1)}
	},
	"shapes": func(s *array.Scope) []*array.Array { // the third shape is compiled for all shapes
		var out []*array.Array
		for n := range 4 {
			out = append(out, s.Sum(s.Mul(sweptNumbers(s, n+1, 7), s.Number(2)), 0))
		}
		return out
	},
	"einsum": func(s *array.Scope) []*array.Array {
		return []*array.Array{s.Einsum("bij,bjk->bik", sweptNumbers(s, 2, 3, 4), sweptNumbers(s, 2, 4, 5))}
	},
	"sort": func(s *array.Scope) []*array.Array {
		return []*array.Array{s.Sort(sweptNumbers(s, 9, 31), 1), s.ArgSort(sweptNumbers(s, 100), 0)}
	},
	"nonzero": func(s *array.Scope) []*array.Array { return s.Nonzero(s.Greater(sweptNumbers(s, 9, 31), s.Number(0))) },
	"assign": func(s *array.Scope) []*array.Array {
		x := sweptNumbers(s, 9, 31)
		x = s.Assign(x, sweptNumbers(s, 31), s.Less(s.Arange(weir.I32, 0, 9, 1), s.Number(4)))
		return []*array.Array{s.Assign(x, s.Number(3), array.From(s, []int32{1, 7, 1})), s.Index(x, array.Slice(1, 5), 3)}
	},
	"random": func(s *array.Scope) []*array.Array { return []*array.Array{s.Normal(array.Key(3), weir.F32, 0, 1, 64)} },
	"jit":    sweptJit(array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", 4)}}),
	"shaped": sweptJit(array.Options{}),
	"threads": sweptJit(array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", 4)},
		Compile: weir.Options{Threads: 2, Calls: 2}}),
	"gradient": func(s *array.Scope) []*array.Array {
		return array.ValueAndGrad(sweptLoss)(s, sweptNumbers(s, 3, 4), sweptNumbers(s, 4, 2))
	},
	"second": func(s *array.Scope) []*array.Array {
		total := func(s *array.Scope, in ...*array.Array) []*array.Array {
			g := array.Grad(sweptLoss)(s, in...)
			return []*array.Array{s.Sum(s.Mul(g[0], g[0]))}
		}
		return array.Grad(total)(s, sweptNumbers(s, 3, 4), sweptNumbers(s, 4, 2))
	},
	"vjp": func(s *array.Scope) []*array.Array {
		return array.VJP(sweptLoss, 2)(s, sweptNumbers(s, 3, 4), sweptNumbers(s, 4, 2), s.Ones(weir.F32))
	},
	"scan": func(s *array.Scope) []*array.Array {
		end, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
			sum := s.Add(state[0], x[0])
			return []*array.Array{sum}, []*array.Array{s.Mul(sum, sum)}
		}, []*array.Array{s.Zeros(weir.F32, 3)}, []*array.Array{sweptNumbers(s, 4, 3)})
		return append(end, ys...)
	},
	"while": func(s *array.Scope) []*array.Array {
		return s.While(func(s *array.Scope, v ...*array.Array) *array.Array {
			return s.Less(s.Sum(s.Abs(v[0])), s.Number(4))
		},
			func(s *array.Scope, v ...*array.Array) []*array.Array {
				return []*array.Array{s.Add(v[0], v[0])}
			}, sweptNumbers(s, 5))
	},
	"for": func(s *array.Scope) []*array.Array {
		return s.For(3, func(s *array.Scope, i *array.Array, v ...*array.Array) []*array.Array {
			return []*array.Array{s.Add(v[0], s.Cast(i, weir.F32))}
		}, sweptNumbers(s, 5))
	},
	"cond": func(s *array.Scope) []*array.Array {
		return s.Cond(s.Greater(s.Sum(sweptNumbers(s, 4)), s.Number(0)), double, double, sweptNumbers(s, 4))
	},
	"jitted scan": func(s *array.Scope) []*array.Array {
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			end, ys := s.Scan(func(s *array.Scope, state, x []*array.Array) (next, y []*array.Array) {
				sum := s.Add(state[0], x[0])
				return []*array.Array{sum}, []*array.Array{s.Mul(sum, sum)}
			}, []*array.Array{s.Zeros(weir.F32, 3)}, in)
			return append(end, ys...)
		}, array.Options{Inputs: []array.Spec{array.SpecOf("x", weir.F32, "n", 3)}})
		if err != nil {
			s.Fail(err)
			return nil
		}
		defer c.Close()
		return c.Call(s, sweptNumbers(s, 6, 3))
	},
	"returned": func(s *array.Scope) []*array.Array {
		inner := array.NewScope("inner", array.In(s))
		defer inner.Close()
		y := inner.Return(inner.Sum(sweptNumbers(inner, 40), 0))
		if err := inner.Err(); err != nil {
			s.Fail(err)
		}
		return []*array.Array{y}
	},
}

// sweptNumbers returns numbers between −0.5 and 0.5.
func sweptNumbers(s *array.Scope, shape ...int) *array.Array {
	n := 1
	for _, e := range shape {
		n *= e
	}
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(i*i%29)/29 - 0.5
	}
	return array.From(s, list, shape...)
}

// sweptLoss is a function to differentiate.
func sweptLoss(s *array.Scope, in ...*array.Array) []*array.Array {
	return []*array.Array{s.Sum(s.Tanh(s.MatMul(in[0], in[1])))}
}

// sweptJit returns a function that compiles a function with options and calls it twice.
func sweptJit(o array.Options) func(s *array.Scope) []*array.Array {
	return func(s *array.Scope) []*array.Array {
		w := sweptNumbers(s, 4, 4)
		if s.Err() != nil {
			return nil
		}
		c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
			y := s.MatMul(in[0], w)
			return []*array.Array{s.Softmax(y, -1), s.Sum(y)}
		}, o)
		if err != nil {
			s.Fail(err)
			return nil
		}
		defer c.Close()
		out := c.Call(s, sweptNumbers(s, 3, 4))
		return append(out, c.Call(s, sweptNumbers(s, 5, 4))...)
	}
}

// results are the elements of arrays: f32 as float32, other types as bytes.
type results struct {
	floats []float32
	bytes  []byte
}

func resultsOf(t *testing.T, list []*array.Array) (r results) {
	t.Helper()
	for _, a := range list {
		if a.DType() != weir.F32 {
			r.bytes = append(r.bytes, a.Tensor().Bytes()...)
			continue
		}
		x, err := array.Copy[float32](a)
		fine(t, err)
		r.floats = append(r.floats, x...)
	}
	return r
}

// equal allows for the rounding of portable code, which runs if the system refuses executable pages.
func (r results) equal(other results) bool {
	return bytes.Equal(r.bytes, other.bytes) && slices.EqualFunc(r.floats, other.floats, func(x, y float32) bool {
		return math.Abs(float64(x-y)) <= 1e-5*max(1, math.Abs(float64(x)))
	})
}

// TestSweep refuses each taking of memory, once, and with all that follow: the scope has one typed error, nothing
// leaks, and the same function then gives its results.
func TestSweep(t *testing.T) {
	array.AssertNoLeaks(t)
	defer array.CacheLimit(array.CacheLimit(0)) // operations are compiled in each run
	for name, f := range sweptFunctions {
		t.Run(name, func(t *testing.T) {
			run := func() (out results, err error) {
				s := array.NewScope(name)
				list := f(s)
				if err = s.Err(); err == nil {
					out = resultsOf(t, list)
				}
				if closed := s.Close(); (closed == nil) != (err == nil) || s.Count() != 0 {
					t.Errorf("Err is %v, Close gives %v", err, closed)
				}
				return out, err
			}
			want, err := run()
			if err != nil {
				t.Fatal(err)
			}
			weir.Trim()
			held, refused := mem.Usage(), 0
			for i, last := range []int64{0, math.MaxInt64} {
				for n := int64(1); ; n += int64(1 + 4*i) {
					faults := mem.Fail(n, max(n, last))
					got, err := run()
					faults.Restore()
					var e *weir.Error
					switch {
					case err == nil && !got.equal(want):
						t.Errorf("taking %d up to %d: other results, %v, not %v", n, last, got, want)
					case err != nil && (!errors.As(err, &e) || !errors.Is(err, weir.ErrMemory)):
						t.Errorf("taking %d: the error %v is not of memory", n, err)
					case err != nil:
						refused++
					}
					if now := mem.Usage(); now.All != held.All || now.Blocks != held.Blocks {
						t.Fatalf("taking %d: %d bytes in %d blocks became %d in %d: %v", n, held.All, held.Blocks, now.All, now.Blocks,
							err)
					}
					if got, err := run(); err != nil || !got.equal(want) {
						t.Fatalf("after taking %d: %v", n, err)
					}
					if faults.Count() < n {
						break
					}
				}
			}
			if refused == 0 {
				t.Error("nothing was refused")
			}
			t.Logf("%d refused", refused)
		})
	}
}

// TestSweepCalls refuses each taking of memory of calls of one compiled function, of the first, which compile it, and
// of later ones: the next call works.
func TestSweepCalls(t *testing.T) {
	array.AssertNoLeaks(t)
	for _, inputs := range [][]array.Spec{nil, {array.SpecOf("x", weir.F32, "n")}} {
		refused := 0
		for n := int64(1); ; n++ {
			s := array.NewScope("s")
			w := s.Ones(weir.F32, 1)
			c, err := array.Jit(func(s *array.Scope, in ...*array.Array) []*array.Array {
				return []*array.Array{s.Add(in[0], w)}
			},
				array.Options{Inputs: inputs})
			fine(t, err)
			faults := mem.Fail(n, n)
			for size := 1; size < 5; size++ {
				for range 2 {
					turn := array.NewScope("turn")
					x := turn.Ones(weir.F32, size)
					v, err := array.Item[float32](turn.Sum(c.Call(turn, x)[0]))
					if err != nil && (!errors.Is(err, weir.ErrMemory) || faults.Count() < n) || err == nil && v != float32(2*size) {
						t.Errorf("taking %d, %d elements: %v, %v", n, size, v, err)
					}
					if turn.Close(); err != nil {
						refused++
					}
				}
			}
			faults.Restore()
			fine(t, c.Close())
			fine(t, s.Close())
			if faults.Count() < n {
				break
			}
		}
		if refused < 10 {
			t.Errorf("%d were refused", refused)
		}
		t.Logf("%d refused", refused)
	}
}
